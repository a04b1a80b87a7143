"""Sizes as the model computes them: floats round, integers go round, and what is rewritten answers the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import surgeon
from surgeon.shapes.algebra.size_expressions import evaluate
from surgeon.shapes.index_shapes import shapes_of
from surgeon.testing import parse
from tests.models import index_of

ROWS = "s = Shape<end = 1>(x)"
LESS = f"{ROWS} f = Cast<to = 1>(s) d = Sub(f, k) c = Floor(d) e = Cast<to = 7>(c)"
TINY = "float k = {0.00001}, int64[1] z = {0}"
CASES = {
    "one row less by a tiny number": (
        f"(float[n, 4] x) => (float[a, b] y) <{TINY}> {{ {LESS} y = Slice(x, z, e, z) }}",
        7,
    ),
    "the same of rows that are joined": (
        f"(float[n, 4] x) => (float[a, b] y) <{TINY}> {{ {LESS} j = Concat<axis = 0>(x, x) y = Slice(j, z, e, z) }}",
        7,
    ),
    "a scale of nearly 1": (
        "(float[n, 4] x) => (float[a, b] y) <float[2] k = {0.99999, 1.0}, int64[1] z = {0}> "
        '{ r = Resize<mode = "nearest">(x, , k) s = Shape<end = 1>(r) y = Slice(x, z, s, z) }',
        7,
    ),
    "a product that float32 rounds up": (
        f"(float[100, 4] x) => (int64[a] y) <float k = {{0.15}}> "
        f"{{ {ROWS} f = Cast<to = 1>(s) q = Mul(f, k) r = Ceil(q) y = Cast<to = 7>(r) }}",
        100,
    ),
    "a product that float32 rounds down": (
        f"(float[420, 4] x) => (int64[a] y) <float k = {{1.05}}> "
        f"{{ {ROWS} f = Cast<to = 1>(s) q = Mul(f, k) r = Floor(q) y = Cast<to = 7>(r) }}",
        420,
    ),
    "a size that float16 does not have": (
        f"(float[2049, 4] x) => (int64[a] y) {{ {ROWS} f = Cast<to = 10>(s) y = Cast<to = 7>(f) }}",
        2049,
    ),
    "a quotient that is multiplied again": (
        f"(float[n, 4] x) => (float[a, b] y) <float k = {{49}}, int64[1] z = {{0}}> "
        f"{{ {ROWS} f = Cast<to = 1>(s) q = Div(f, k) p = Mul(q, k) c = Floor(p) e = Cast<to = 7>(c) "
        "y = Slice(x, z, e, z) }",
        54,
    ),
    "products that int32 does not hold": (
        "(bool[n, 4] x) => (bool[a, b] y) "
        "<int64 z = {0}, int64 o = {1}, int64[1] ax = {1}, int32 k = {2000000}, int32 w = {0}> "
        "{ s = Shape<end = 1>(x) q = Squeeze(s) r = Range(z, q, o) i = Cast<to = 6>(r) h = Mul(i, k) "
        "c = GreaterOrEqual(h, w) u = Unsqueeze(c, ax) y = And(x, u) }",
        1100,
    ),
    "a size as a truth": (
        "(float[n, 4] x, bool[1] w) => (float[a, b] y) <int64[2] z = {0, 0}> "
        "{ s = Shape(x) t = CastLike(s, w) e = Cast<to = 7>(t) y = Slice(x, z, e) }",
        7,
    ),
    "a size that int8 does not hold": (
        f"(float[n, 4] x) => (float[a, b] y) <int64[1] z = {{0}}> "
        f"{{ {ROWS} t = Cast<to = 3>(s) e = Cast<to = 7>(t) y = Slice(x, z, e, z) }}",
        130,
    ),
    "fixed sizes that int8 does not hold": (
        "(float[300, 4] x) => (int64[a] y) { s = Shape(x) t = Cast<to = 3>(s) y = Cast<to = 7>(t) }",
        300,
    ),
    "a difference that has no sign": (
        "(float[n, 4] x) => (float[a, b] y) <uint64[1] k = {0}, int64[1] z = {0}> "
        "{ s = Shape<end = 1>(x) t = Cast<to = 13>(s) d = Sub(k, t) c = LessOrEqual(d, t) u = Cast<to = 7>(c) "
        "e = Mul(u, s) y = Slice(x, z, e) }",
        7,
    ),
    "a slice that begins before the first row": (
        "(float[3, 4] x) => (int64[c] y) "
        "<int64[1] a = {-10}, int64[1] b = {-20}, int64[1] z = {0}, int64[1] t = {-1}> "
        "{ p = Slice(x, a, b, z, t) y = Shape(p) }",
        3,
    ),
    "windows that do not overlap": (
        "(float[1, 1, 4] v, float[n, 4] x) => (int64[a] y) <float[1, 1, 2] w = {1, 2}> "
        '{ r = ConvTranspose<kernel_shape = [2], strides = [3], auto_pad = "SAME_UPPER">(v, w) y = Shape(r) }',
        2,
    ),
    "a row that spreads to as many as are true": (
        "(float[n, 1] x, bool[5] c) => (float[a, b] y) <int64[1] z = {0}> "
        "{ i = NonZero(c) t = Transpose<perm = [1, 0]>(i) f = Cast<to = 1>(t) a = Add(x, f) s = Shape<end = 1>(x) "
        "y = Slice(a, z, s, z) }",
        1,
    ),
    "the axes of a Transpose that names none": (
        "(float[n, 4] x) => (int64[1] y) <int64[1] z = {0}> { t = Transpose(x) s = Shape(t) y = Gather(s, z) }",
        7,
    ),
}


def answers(model: onnx.ModelProto, rows: int) -> list[Any]:
    """What a model makes of random numbers of so many rows."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    random, kinds = np.random.default_rng(0), {"tensor(float)": np.float32, "tensor(bool)": np.bool_}
    feeds = {}
    for given in session.get_inputs():
        shape = [size if isinstance(size, int) else rows for size in given.shape]
        feeds[given.name] = (random.random(shape) > 0.1).astype(kinds[given.type])
    return list(session.run(None, feeds))


@pytest.mark.parametrize("title", CASES)
def test_what_is_rewritten_answers_the_same(title: str) -> None:
    text, rows = CASES[title]
    model = parse(text)
    after, _ = surgeon.rewrite(model, "cleanup")
    for one, other in zip(answers(model, rows), answers(after, rows), strict=True):
        assert one.shape == other.shape
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("q = Div(f, k) c = Floor(q)", lambda n: n // 32),
        ("q = Div(f, k) c = Ceil(q)", lambda n: -(-n // 32)),
        ("q = Mul(f, k) c = Floor(q)", lambda n: 32 * n),
    ],
    ids=["floor", "ceil", "product"],
)
def test_sizes_that_floats_keep_are_followed(body: str, wanted: Callable[[int], int]) -> None:
    """What is floored behind one quotient, and products with few digits, are the sizes that one expects."""
    head = "(float[n, 4] x) => (float[a, b] y) <float k = {32}, int64[1] z = {0}>"
    index = index_of(parse(f"{head} {{ {ROWS} f = Cast<to = 1>(s) {body} e = Cast<to = 7>(c) y = Slice(x, z, e, z) }}"))
    reported = shapes_of(index).value(index.main, "e")
    assert reported is not None
    assert [evaluate(reported[0], {"n": n}) for n in (1, 31, 32, 33, 640)] == [wanted(n) for n in (1, 31, 32, 33, 640)]


def test_what_is_stated_of_sizes_before_inputs_were_dynamic_is_not_believed() -> None:
    """As where somebody frees the batch of a finished model by hand."""
    model = parse(
        "(float[n, 4] x) => (float[p, q] y, int64[2] t) <int64[2] s = {1, -1}> "
        "{ a = Relu(x) y = Reshape(a, s) t = Shape(a) }"
    )
    model.graph.value_info.append(helper.make_tensor_value_info("a", 1, [1, 4]))
    after, _ = surgeon.rewrite(model, "cleanup")
    for one, other in zip(answers(model, 7), answers(after, 7), strict=True):
        assert one.shape == other.shape
        assert np.array_equal(one, other)
