"""Wrong rules that show no fault beside something else: beside sites that look alike, beside what errs by more."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon import Constant, Graph, Tensor, require, rule
from surgeon.errors import CheckFailed
from surgeon.testing import parse

HEAD = '<ir_version: 10, opset_import: ["" : 18]> g'


def outcomes(model: Any, wrong: Any) -> list[str]:
    """What became of the sites, the rolled back ones behind the others."""
    try:
        _, report = surgeon.rewrite(model, wrong)
    except CheckFailed as error:
        report = error.report
    return [site.outcome for site in (*report.sites, *report.rolled_back)]


def test_where_a_cut_ends_is_no_width() -> None:
    """What is right for an open end is wrong where 1,024 of more rows are taken, also behind one that is open."""

    def cut(g: Graph, x: Tensor, end: Constant) -> Any:
        return g.slice(x, [0], end, [1])

    @rule(patterns=[cut], target="any")
    def whole(g: Graph, x: Tensor, end: Constant) -> Any:
        """Take 1,024 for an open end."""
        require(end.values.item() >= 1000, "it cuts something off")
        return g.identity(x)

    model = parse(
        f"{HEAD} (float[b, n] x) => (float[b, n] y, float[b, m] z) <int64[1] s = {{0}}, "
        "int64[1] e = {9223372036854775807}, int64[1] k = {1024}, int64[1] a = {1}> "
        "{ r = Relu(x) t = Slice(r, s, e, a) y = Neg(t) q = Tanh(x) u = Slice(q, s, k, a) z = Neg(u) }"
    )
    assert outcomes(model, whole) == ["proved", "failed"]


def test_what_is_divided_by_is_no_width() -> None:
    """Division by a product and a shift, one bit short: right for 17, wrong for 19."""

    def divided(g: Graph, x: Tensor, d: int) -> Any:
        return g.div(x, d)

    @rule(patterns=[divided], target="any")
    def by_shift(g: Graph, x: Tensor, d: int) -> Any:
        """Multiply, and shift by a bit less than it takes."""
        shift = 32 + max((d - 1).bit_length() - 1, 0)
        factor = np.array(-(-(1 << shift) // d), np.uint64)
        wide = g.mul(g.cast(x, to=np.uint64), factor)
        return g.cast(g.bit_shift(wide, np.array(shift, np.uint64), direction="RIGHT"), to=np.uint32)

    model = parse(
        f"{HEAD} (uint32[n] x, uint32[m] z) => (uint32[n] p, uint32[m] q) <uint32 d = {{17}}, uint32 e = {{19}}> "
        "{ p = Div(x, d) q = Div(z, e) }"
    )
    assert outcomes(model, by_shift) == ["proved", "failed"]


def test_a_scale_that_was_learned_has_a_sign() -> None:
    def scaled(g: Graph, x: Tensor, k: float) -> Any:
        return g.max(g.mul(x, k), 0.0)

    @rule(patterns=[scaled], target="any")
    def last(g: Graph, x: Tensor, k: float) -> Any:
        """Scale last, as if no scale were negative; what is large shows it, what is usual is near enough."""
        return g.mul(g.max(x, 0.0), k)

    model = parse(
        f"{HEAD} (float[n] x, float[m] z) => (float[n] p, float[m] q) <float k = {{0.1234567}}, "
        "float o = {-0.1234567}, float nil = {0}> { a = Mul(x, k) p = Max(a, nil) b = Mul(z, o) q = Max(b, nil) }"
    )
    assert outcomes(model, last) == ["proved", "failed"]


@pytest.mark.parametrize(
    ("where", "limit"), [("greater", 100.0), ("greater", 1e5), ("less", 1e-4), ("less", 1e-20)]
)
def test_a_weight_of_another_sign_shows_what_is_wrong_for_large_and_for_small_numbers(where: str, limit: float) -> None:
    """Both are learned, and the second site is run on few inputs: it alone has negative numbers."""

    def scaled(g: Graph, x: Tensor, w: Tensor) -> Any:
        return g.mul(g.relu(x), w)

    @rule(patterns=[scaled], target="any")
    def wrong(g: Graph, x: Tensor, w: Tensor) -> Any:
        """Half as large again where a number is large, or small, and its weight negative."""
        made = g.max(x, 0.0)
        scale = g.add(g.mul(g.min(made, 0.0), 0.0), w)
        product, is_there = g.mul(made, w), getattr(g, where)(made, limit)
        return g.where(g.and_(is_there, g.less(scale, 0.0)), g.mul(product, 1.5), product)

    model = parse(
        f"{HEAD} (float[n, 8] x, float[n, 8] z) => (float[n, 8] p, float[n, 8] q) "
        "{ a = Relu(x) p = Mul(a, v) b = Relu(z) q = Mul(b, w) }"
    )
    learned = np.random.default_rng(0).normal(size=8).astype(np.float32)
    stored = [numpy_helper.from_array(np.abs(learned), "v"), numpy_helper.from_array(learned, "w")]
    model.graph.initializer.extend(stored)
    assert outcomes(model, wrong) == ["proved", "failed"]


def test_overloads_of_a_function_are_two_functions() -> None:
    def call(g: Graph, x: Tensor) -> Any:
        return g.op("p::f", x)

    @rule(patterns=[call], target="any")
    def as_relu(g: Graph, x: Tensor) -> Any:
        """Write what one of the overloads does."""
        return g.relu(x)

    imports = [helper.make_opsetid("", 18)]
    functions = [
        helper.make_function("p", "f", ["a"], ["b"], [helper.make_node(op, ["a"], ["b"])], imports, overload=overload)
        for op, overload in (("Relu", "one"), ("Abs", "two"))
    ]
    calls = [helper.make_node("f", ["x"], [y], domain="p", overload=o) for y, o in (("y", "one"), ("z", "two"))]
    x, y, z = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3]) for name in "xyz")
    model = helper.make_model(
        helper.make_graph(calls, "g", [x], [y, z]),
        opset_imports=[*imports, helper.make_opsetid("p", 1)],
        functions=functions,
        ir_version=10,
    )
    assert outcomes(model, as_relu) == ["proved", "failed"]


@pytest.mark.parametrize(
    ("dtype", "op", "how", "guard"),
    [
        (np.float32, "Sigmoid", "max", 1e-7),
        (np.float32, "Sigmoid", "max", 4e-6),
        (np.float32, "Softplus", "add", 1e-6),
        (np.float32, "Softmax", "add", 1e-6),
        (np.float32, "Exp", "add", 1e-6),
        (np.float16, "Sigmoid", "add", 1e-4),
        (ml_dtypes.bfloat16, "Sigmoid", "max", 3.9e-3),
    ],
)
def test_a_guard_is_missed_beside_what_errs_by_more(dtype: Any, op: str, how: str, guard: float) -> None:
    """A logarithm behind it would be minus infinity; the op itself is the same on both sides, and errs alike."""

    def guarded(g: Graph, x: Tensor) -> Any:
        return getattr(g, how)(getattr(g, op.lower())(x), g.literal(guard, rtol=0.01))

    @rule(patterns=[guarded], target="any", dtypes="floats")
    def bare(g: Graph, x: Tensor) -> Any:
        """Leave the guard out."""
        return getattr(g, op.lower())(x)

    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node(op, ["x"], ["s"]), helper.make_node(how.title(), ["s", "c"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, number, ["n", 8]) for name in "xy")
    stored = [numpy_helper.from_array(np.asarray(guard, dtype), "c")]
    graph, imports = helper.make_graph(nodes, "g", [x], [y], stored), [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=imports)
    assert outcomes(model, bare) == ["failed"]
