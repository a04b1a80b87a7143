"""Wrong rules that are right for inputs as one makes them: for small indices, lengths and positions, usual masks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.testing import parse

NEG = "g = Neg(r) y = Relu(g)"


def neg(g: Graph, x: Any) -> Any:
    return g.relu(g.neg(x))


def i64(*numbers: int) -> np.ndarray:
    return np.array(numbers)


def lowered(by: Callable[[Graph, Tensor, Tensor], Any], to: Callable[[Graph, Tensor, Tensor], Any]) -> Any:
    """A rule for two inputs, and what it writes."""
    made: Any = rule(patterns=[lambda g, x, i: neg(g, by(g, x, i))], target="any")(_named(to))
    return made


def _named(to: Callable[[Graph, Tensor, Tensor], Any]) -> Callable[..., Any]:
    def wrong(g: Graph, x: Tensor, i: Tensor) -> Any:
        """Write what is right for usual inputs alone."""
        return g.max(g.sub(0.0, to(g, x, i)), 0.0)

    return wrong


def rows(g: Graph, x: Tensor) -> Any:
    return g.slice(x, i64(1), i64(1000), i64(0))


CASES: dict[str, tuple[str, Any]] = {
    "the third row of a part and those behind it are one": (
        f"(float[n, 8] x, int64[k] i) => (float[k, 8] y) "
        f"<int64[1] s = {{1}}, int64[1] e = {{1000}}, int64[1] z = {{0}}> "
        f"{{ t = Slice(x, s, e, z) r = Gather(t, i) {NEG} }}",
        lowered(lambda g, x, i: g.gather(rows(g, x), i), lambda g, x, i: g.gather(rows(g, x), g.min(i, i64(2)[0]))),
    ),
    "an index is never negative": (
        f"(float[16, 8] x, int64[k] i) => (float[k, 8] y) {{ a = Abs(i) r = Gather(x, a) {NEG} }}",
        lowered(lambda g, x, i: g.gather(x, g.abs(i)), lambda g, x, i: g.gather(x, i)),
    ),
    "an index needs no bound": (
        f"(float[16, 8] x, int64[k] i) => (float[k, 8] y) <int64 m = {{15}}, int64 o = {{9}}> "
        f"{{ d = Div(i, o) a = Min(d, m) r = Gather(x, a) {NEG} }}",
        lowered(
            lambda g, x, i: g.gather(x, g.min(g.div(i, i64(9)[0]), i64(15)[0])),
            lambda g, x, i: g.gather(x, g.min(g.div(i, i64(9)[0]), i64(12)[0])),
        ),
    ),
    "a length that cuts is below any number": (
        f"(float[n, m] x, int64[1] i) => (float[a, b] y) <int64[1] s = {{0}}, int64[1] x1 = {{1}}, int64 k = {{500}}, "
        f"float h = {{0.5}}, float o = {{2}}> {{ c = Slice(x, s, i, x1) t = Greater(i, k) w = Where(t, h, o) "
        f"r = Mul(c, w) {NEG} }}",
        lowered(
            lambda g, x, i: g.mul(g.slice(x, i64(0), i, i64(1)), g.where(g.greater(i, i64(500)[0]), 0.5, 2.0)),
            lambda g, x, i: g.mul(g.slice(x, i64(0), i, i64(1)), 2.0),
        ),
    ),
    "a step goes forwards": (
        f"(float[n] x, int64[1] i) => (float[a] y) <int64[1] s = {{-1}}, int64[1] e = {{-9}}, int64[1] x0 = {{0}}> "
        f"{{ r = Slice(x, s, e, x0, i) {NEG} }}",
        lowered(
            lambda g, x, i: g.slice(x, i64(-1), i64(-9), i64(0), i),
            lambda g, x, i: g.slice(x, i64(-1), i64(-9), i64(0), g.abs(i)),
        ),
    ),
    "an integer beside one is a bit": (
        f"(float[n] x, int64[n] i) => (float[n] y) <int64 o = {{1}}> "
        f"{{ s = Sub(o, i) c = Cast<to = 1>(s) r = Mul(x, c) {NEG} }}",
        lowered(
            lambda g, x, i: g.mul(x, g.cast(g.sub(i64(1)[0], i), to=1)),
            lambda g, x, i: g.where(g.cast(i, to=9), 0.0, x),
        ),
    ),
    "positions fit a byte": (
        f"(float[b, n, 64] x, float[1] i) => (float[b, n, 64] y) "
        f"<int64 z = {{0}}, int64 o = {{1}}, int64[2] a = {{0, 2}}> "
        f"{{ s = Shape<start = 1, end = 2>(x) q = Squeeze(s) p = Range(z, q, o) f = Cast<to = 1>(p) "
        f"u = Unsqueeze(f, a) m = Mul(u, i) r = Add(x, m) {NEG} }}",
        lowered(
            lambda g, x, i: g.add(x, g.mul(g.unsqueeze(g.cast(_places(g, x), to=1), i64(0, 2)), i)),
            lambda g, x, i: g.add(x, g.mul(g.unsqueeze(g.cast(g.cast(_places(g, x), to=2), to=1), i64(0, 2)), i)),
        ),
    ),
}


def _places(g: Graph, x: Tensor) -> Any:
    return g.range(i64(0)[0], g.squeeze(g.shape(x, start=1, end=2)), i64(1)[0])


@pytest.mark.parametrize("title", CASES)
def test_what_is_right_for_usual_roles_alone_fails(title: str) -> None:
    text, wrong = CASES[title]
    with pytest.raises(surgeon.CheckFailed):
        surgeon.rewrite(parse(text), wrong)


CONDITIONS = "(float[n] x, bool a, bool b, bool c, bool d) => (float[n] y)"


def chosen(g: Graph, x: Tensor, conditions: list[Tensor]) -> Any:
    for condition in conditions:
        x = g.where(condition, g.neg(x), g.relu(x))
    return x


def test_the_fourth_condition_is_not_the_first() -> None:
    """All combinations of four are tried."""

    @rule(patterns=[lambda g, x, a, b, c, d: chosen(g, x, [a, b, c, d])], target="any")
    def wrong(g: Graph, x: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Any:
        for condition in (a, b, c):
            x = g.where(g.not_(condition), g.relu(x), g.neg(x))
        return g.where(d, g.where(g.and_(g.and_(a, b), c), g.relu(x), g.neg(x)), g.relu(x))

    steps = zip("abcd", ("x", "s", "t", "u"), ("s", "t", "u", "y"), strict=True)
    nodes = " ".join(f"{o}n = Neg({i}) {o}r = Relu({i}) {o} = Where({c}, {o}n, {o}r)" for c, i, o in steps)
    with pytest.raises(surgeon.CheckFailed):
        surgeon.rewrite(parse(f"{CONDITIONS} {{ {nodes} }}"), wrong)


def test_a_mask_may_hide_all() -> None:
    """Where nothing is shown a maximum over what is shown is another's."""
    text = """(bool[n, k] m, float[n, k] x) => (float[n, k] y)
        { c = Cast<to = 6>(m) r = ReduceMax<keepdims = 0>(c) t = Cast<to = 9>(r) g = Neg(x) y = Where(t, x, g) }"""

    @rule(
        patterns=[lambda g, m, x: g.where(g.cast(g.reduce_max(g.cast(m, to=6), keepdims=0), to=9), x, g.neg(x))],
        target="any",
    )
    def shown(g: Graph, m: Tensor, x: Tensor) -> Any:
        return g.where(g.equal(g.size(m), g.size(m)), x, g.neg(x))

    with pytest.raises(surgeon.CheckFailed):
        surgeon.rewrite(parse(text), shown)


def test_a_mask_may_be_a_constant_too_large_to_read() -> None:
    """Inputs that hide scores are filled with masks; the weight beside them is not one of these inputs."""

    @rule(patterns=[lambda g, q, k, w: g.softmax(g.add(g.matmul(g.neg(q), g.neg(k)), w))], target="any")
    def unsigned(g: Graph, q: Tensor, k: Tensor, w: Tensor) -> Any:
        return g.softmax(g.add(g.matmul(q, k), w))

    model = parse(
        """(float[2, 80, 8] q, float[2, 8, 80] k) => (float[2, 80, 80] y)
        { nq = Neg(q) nk = Neg(k) s = MatMul(nq, nk) t = Add(s, w) y = Softmax(t) }"""
    )
    hidden = np.triu(np.full((80, 80), -1e4, np.float32), 1)
    model.graph.initializer.append(numpy_helper.from_array(hidden, "w"))
    _, report = surgeon.rewrite(model, unsigned)
    assert report.counts == {"unsigned": 1}


def test_sums_of_bytes_leave_single_precision() -> None:
    """From 2 to the 24th on float32 holds not every integer."""

    @rule(patterns=[lambda g, a, b: g.matmul_integer(a, b)], target="any")
    def wrong(g: Graph, a: Tensor, b: Tensor) -> Any:
        return g.cast(g.matmul(g.cast(a, to=1), g.cast(b, to=1)), to=6)

    for text in ("(uint8[3, 2048] a, int8[2048, 3] b)", "(uint8[3, k] a, int8[k, 3] b)"):
        with pytest.raises(surgeon.CheckFailed):
            surgeon.rewrite(parse(f"{text} => (int32[3, 3] y) {{ y = MatMulInteger(a, b) }}"), wrong)


def test_nibbles_are_tried_throughout() -> None:
    """Beyond small ones too."""

    @rule(patterns=[lambda g, x: g.relu(g.cast(x, to=1))], target="any")
    def wrong(g: Graph, x: Tensor) -> Any:
        return g.clip(g.cast(x, to=1), 0.0, 3.0)

    text = """<ir_version: 10, opset_import: ["" : 21]>
        cast (int4[n, 8] x) => (float[n, 8] y) { c = Cast<to = 1>(x) y = Relu(c) }"""
    with pytest.raises(surgeon.CheckFailed):
        surgeon.rewrite(parse(text), wrong)
