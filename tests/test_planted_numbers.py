"""Wrong rules that are wrong at few numbers, or from some length on: behind arithmetic, in lists, in tables."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import surgeon
from surgeon import Constant, Graph, Tensor, rule
from surgeon.testing import parse
from tests.mutation.building import initializers, rule_of, written
from tests.test_planted_beside import HEAD, outcomes

Side = Callable[..., Any]




DECIDED: dict[str, tuple[str, Side, Side]] = {
    "behind a sum": (
        "(int64[n] x) => (bool[n] y) <int64 c = {3}, int64 k = {1000}> { a = Add(x, c) y = Greater(a, k) }",
        lambda g, x: g.greater(g.add(x, np.int64(3)), np.int64(1000)),
        lambda g, x: g.greater_or_equal(g.add(x, np.int64(3)), np.int64(1000)),
    ),
    "behind a quotient and a difference": (
        "(float[n] x) => (bool[n] y) <float c = {3}, float t = {4}, float k = {0.5}> "
        "{ b = Sub(x, c) a = Div(b, t) y = Greater(a, k) }",
        lambda g, x: g.greater(g.div(g.sub(x, 3.0), 4.0), 0.5),
        lambda g, x: g.greater_or_equal(g.div(g.sub(x, 3.0), 4.0), 0.5),
    ),
    "in a list of tokens": (
        "(int64[b, s] x) => (bool[b, s, 3] y) <int64[1] last = {-1}, int64[3] all = {50256, 50257, 50258}> "
        "{ u = Unsqueeze(x, last) y = Equal(u, all) }",
        lambda g, x: g.equal(g.unsqueeze(x, [-1]), g.literal(np.array([50256, 50257, 50258]))),
        lambda g, x: g.equal(g.unsqueeze(x, [-1]), np.array([50256, 50257, 50259])),
    ),
    "at the bounds of buckets": (
        "(float[n] x) => (bool[n, 3] y) <int64[1] last = {-1}, float[3] all = {18, 25, 65}> "
        "{ u = Unsqueeze(x, last) y = GreaterOrEqual(u, all) }",
        lambda g, x: g.greater_or_equal(g.unsqueeze(x, [-1]), g.literal(np.array([18, 25, 65], np.float32))),
        lambda g, x: g.greater(g.unsqueeze(x, [-1]), np.array([18, 25, 65], np.float32)),
    ),
    "beside a number, in fewer bits": (
        "(float[n, 8] x) => (float[n, 8] y) <float k = {0.5123456}, float z = {0}> "
        "{ c = Greater(x, k) y = Where(c, x, z) }",
        lambda g, x: g.where(g.greater(x, g.literal(0.5123456, rtol=1e-6)), x, 0.0),
        lambda g, x: g.where(
            g.greater(g.cast(g.cast(x, to=np.float16), to=np.float32), np.float32(0.5123456)), x, np.float32(0)
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "right", "wrong"), DECIDED.values(), ids=DECIDED)
def test_inputs_are_what_something_is_compared_with(text: str, right: Side, wrong: Side) -> None:
    """None of the region's own scalars is the number at which it decides."""
    assert outcomes(parse(f"{HEAD} {text}"), rule(patterns=[right], target="any", name="wrong")(wrong)) == ["failed"]


@pytest.mark.parametrize("width", [64, 768])
def test_rows_of_a_table_that_is_cut_to_a_length(width: int) -> None:
    """The nodes refuse 1,025 rows, and the table is made smaller elsewhere: the most that they take are looked for."""

    def placed(g: Graph, x: Tensor, table: Constant) -> Any:
        return g.neg(g.add(x, g.slice(table, [0], g.shape(x, start=1, end=2), [0])))

    @rule(patterns=[placed], target="any")
    def through_bytes(g: Graph, x: Tensor, table: Constant) -> Any:
        """Take the rows by places that a byte holds: right for 128."""
        rows = g.range(np.int64(0), g.squeeze(g.shape(x, start=1, end=2)), np.int64(1))
        return g.neg(g.add(x, g.gather(table, g.cast(g.cast(rows, to=np.int8), to=np.int64))))

    model = parse(
        f"{HEAD} (float[b, t, {width}] x) => (float[b, t, {width}] z) <int64[1] o = {{0}}> "
        "{ s = Shape<start = 1, end = 2>(x) r = Slice(table, o, s, o) y = Add(x, r) z = Neg(y) }"
    )
    rows = np.random.default_rng(0).normal(size=(512, width)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(rows, "table"))
    assert outcomes(model, through_bytes) == ["failed"]


@pytest.mark.parametrize("made", ["Compress<axis = 0>(x, c)", "Slice(x, nil, many, nil)"])
def test_rows_of_which_nothing_reports_how_many(made: str) -> None:
    """A dim without a name is long, too."""

    @rule(patterns=[lambda g, x: g.relu(g.neg(x))], target="any")
    def cut_short(g: Graph, x: Tensor) -> Any:
        """Cut at 100 rows."""
        return g.max(g.sub(0.0, g.slice(x, [0], [100], [0])), 0.0)

    text = "(float[n, 8] x, bool[n] c, int64[1] many) => (float[k, 8] y, bool[n] d) <int64[1] nil = {0}>"
    model = parse(f"{HEAD} {text} {{ t = {made} u = Neg(t) y = Relu(u) d = Not(c) }}")
    assert outcomes(model, cut_short) == ["failed"]


def test_a_window_over_a_long_cache() -> None:
    """Lengths that count past and new rows do so where the past is long, of one batch."""

    ports = (
        "(float[batch, seq, 32] q, float[batch, seq, 16] k, float[batch, seq, 16] v, float[batch, 2, past, 8] pk, "
        "float[batch, 2, past, 8] pv, int32[batch] before, int32 total) => (float[batch, seq, 32] y)"
    )
    op = "com.microsoft.GroupQueryAttention<{}num_heads = 4, kv_num_heads = 2>"
    node = f"y, a, b = {op}(q, k, v, pk, pv, before, total)"
    sides = [f"{ports} {{ {node.format(window)} }}" for window in ("local_window_size = 512, ", "")]
    assert differing(*sides) == ["failed"]


def test_what_as_many_rows_are_filled_with() -> None:
    """The number stands in an attribute, and what it is compared with may be a length."""
    ports = "(int64[b, s] x) => (bool[b, s] y)"
    filled = "s = Shape(x) c = ConstantOfShape<value = int64[1] {50256}>(s) y = Equal(x, c)"
    assert differing(f"{ports} {{ {filled} }}", f"{ports} {{ y = Less(x, x) }}") == ["failed"]


ROTARY = (
    "(float[b, 4, s, 8] x, int64[1] start) => (float[b, 4, s, 8] y) <int64[1] nil = {0}> "
    "{ y = com.microsoft.RotaryEmbedding(x, AT, cosines, sines) }"
)
TOTAL = (
    "(float[b, 2, past, 8] k, float[b, 2, seq, 8] q, float[b, 1, 1, total] m) => (float[b, 1, 1, c] y) "
    "<int64[1] nil = {0}, int64[1] last = {3}> "
    "{ a = Shape<start = 2, end = 3>(k) d = Shape<start = 2, end = 3>(q) e = Add(a, d) t = Slice(m, nil, e, last) "
    "y = Neg(t) }"
)
BEHIND = {
    "rotary embeddings that begin at a place": (ROTARY.replace("AT", "start"), ROTARY.replace("AT", "nil")),
    "pairs of indices, each into an axis of its own size": (
        "(float[8, 4] x, int64[k, 2] i) => (float[k] y) { y = GatherND(x, i) }",
        "(float[8, 4] x, int64[k, 2] i) => (float[k] y) <int64 nil = {0}> { j = Max(i, nil) y = GatherND(x, j) }",
    ),
    "integers that are divided, beyond what float32 holds": (
        "(int32[n] x, int32[n] z) => (int32[n] y) { y = Div(x, z) }",
        "(int32[n] x, int32[n] z) => (int32[n] y) "
        "{ c = Cast<to = 1>(x) e = Cast<to = 1>(z) d = Div(c, e) y = Cast<to = 6>(d) }",
    ),
    "a mask that is longer than past and new rows": (TOTAL, TOTAL.replace("y = Neg(t)", "y = Neg(m)")),
}


@pytest.mark.parametrize(("right", "wrong"), BEHIND.values(), ids=BEHIND)
def test_inputs_that_roles_kept_away(right: str, wrong: str) -> None:
    """All were proved: nothing but 0, or what the nodes refuse, small numbers or a sum was fed."""
    random = np.random.default_rng(0)
    tables = {name: random.standard_normal((64, 4)).astype(np.float32) for name in ("cosines", "sines")}
    assert differing(right, wrong, **tables) == ["failed"]


@pytest.mark.parametrize(
    ("right", "wrong", "outcome"),
    [("Tanh(x)", "Clip(x, below, above)", "unproved"), ("Sigmoid(x)", "HardSigmoid<alpha = 0.25>(x)", "unproved"),
     ("Tanh(x)", "Tanh(x)", "proved")],
)  # fmt: skip
def test_what_a_small_factor_hides(right: str, wrong: str, outcome: str) -> None:
    """Kernels of Tanh err by a part of one: of results of 1e-5 that is nearly all, and any function would do."""
    graph = (
        "(float[n, 8] x) => (float[n, 8] y) <float below = {-1}, float above = {1}, float k = {1e-5}> "
        "{ t = MADE r = Mul(t, k) y = Neg(r) }"
    )
    sides = graph.replace("MADE", right), graph.replace("MADE", wrong).replace("Mul(t, k)", "Mul(k, t)")
    assert differing(*sides) == [outcome]


def differing(*sides: str, **weights: np.ndarray) -> list[str]:
    """What becomes of a rule that puts the second graph in the place of the first.

    weights: initializers of the first, captured by name where the second has them too.
    """
    head = HEAD.replace("]>", ', "com.microsoft" : 1]>')
    right, wrong = (parse(f"{head} {side}") for side in sides)
    for side in (right, wrong):
        read = {name for node in side.graph.node for name in node.input}
        held = (numpy_helper.from_array(array, name) for name, array in weights.items() if name in read)
        side.graph.initializer.extend(held)
    given, made = ([port.name for port in ports] for ports in (right.graph.input, right.graph.output))
    planted = rule_of(*(written(side.graph.node, initializers(side.graph), given, made) for side in (right, wrong)))
    return outcomes(right, planted)


def test_what_is_compared_with_a_constant_is_still_proved_where_the_rule_is_right() -> None:
    """Sums and products in another order round otherwise beside the number itself."""

    @rule(patterns=[lambda g, x: g.greater(g.div(g.sub(x, 3.0), 4.0), 0.5)], target="any")
    def solved(g: Graph, x: Tensor) -> Any:
        """(x - 3)/4 > 1/2 where x > 5."""
        return g.greater(x, 5.0)

    _, report = surgeon.rewrite(parse(f"{HEAD} {DECIDED['behind a quotient and a difference'][0]}"), solved)
    assert report.outcome == "proved"
