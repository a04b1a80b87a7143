"""Ranges of numbers: what is computed lies between the bounds, and is an integer where the analysis says so."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from surgeon.analysis.integer_range import ANY, IntegerRanges
from surgeon.ir.edges import Tensor
from surgeon.ir.index import Index
from surgeon.shapes.index_shapes import shapes_of
from surgeon.testing import parse

HEAD = """<ir_version: 8, opset_import: ["" : 18]> g (float[4, 8] x, int32[4, 8] i, bool[4, 8] c) => (y)
    <float low = {-3}, float high = {5}, float half = {2.5}, float two = {2}, int64[1] at = {1},
    int64 one = {1}, int64 go = {3}, bool yes = {1}> { a = Clip(x, low, high) r = Round(a) """
# What computes y from `a`, in -3 to 5, and `r`, integers in it; the bounds, and whether all are integers.
CASES = {
    "bounds that are no integers": ("b = Clip(x, low, half) y = Floor(b)", -3, 3, True),
    "a bound beyond": ("b = Clip(r, two) y = Identity(b)", 2, 5, True),
    "not rounded": ("y = Identity(a)", -3, 5, False),
    "rounded up": ("b = Mul(a, half) y = Ceil(b)", -8, 13, True),
    "a product of both signs": ("y = Mul(r, r)", -15, 25, True),
    "a difference": ("y = Sub(r, a)", -8, 8, False),
    "a sum of integers": ("y = Add(r, two)", -1, 7, True),
    "negated": ("y = Neg(r)", -5, 3, True),
    "a quotient": ("y = Div(r, two)", -2.5, 2.5, False),
    "joined": ("u = Add(r, two) y = Concat<axis = 0>(u, r)", -3, 7, True),
    "one or the other": ("y = Where(c, r, two)", -3, 5, True),
    "a remainder": ("y = Mod<fmod = 1>(r, two)", -2, 2, True),
    "cast and back": ("b = Cast<to = 6>(r) y = Cast<to = 1>(b)", -3, 5, True),
    "cast without rounding": ("b = Cast<to = 6>(a) y = Cast<to = 1>(b)", -3, 5, True),
    "bytes": ("b = Cast<to = 2>(x) y = Cast<to = 1>(b)", 0, 255, True),
    "integers that wrap": ("y = Mul(i, i)", -(2**31), 2**31 - 1, True),
    "padded": ("p = Constant<value_ints = [0, 1, 0, 1]>() b = Add(r, high) y = Pad(b, p)", 0, 10, False),
    "a state that nothing is added to": (
        "s, y = Loop(one, yes, r, r) <body = step (int64 n, bool m, float[4, 8] p, float[4, 8] q) => (bool k, "
        "float[4, 8] u, float[4, 8] v) { k = Identity(m) u = Identity(two) v = Identity(q) }>", -3, 5, True),
    "a state, or another number": (
        "y = Loop(go, yes, r) <body = step (int64 n, bool m, float[4, 8] p) => (bool k, float[4, 8] u) "
        "{ k = Identity(m) u = Where(c, half, two) }>", -3, 5, False),
}


@pytest.mark.parametrize("name", CASES)
def test_bounds(name):
    text, least, largest, is_integral = CASES[name]
    model = parse(f"{HEAD} {text} }}")
    index = Index.over(model)
    found = IntegerRanges(index, shapes_of(index).dtype)[Tensor(index.main, "y")]
    assert (found.least, found.largest, found.is_integral) == (least, largest, is_integral)
    random = np.random.default_rng(0)
    feeds = {"x": random.normal(0, 9, (4, 8)).astype(np.float32), "i": random.integers(-90, 90, (4, 8), np.int32),
             "c": random.random((4, 8)) < 0.5}
    if name != "bytes":
        (y,) = ReferenceEvaluator(model).run(None, feeds)
        assert least <= y.min() <= y.max() <= largest
        assert not is_integral or (y == np.rint(y)).all()


@pytest.mark.parametrize("text", ["y = Exp(r)", "y = MatMul(r, r)", "y = Identity(x)", "b = Sqrt(x) y = Add(r, b)"])
def test_unknown(text):
    index = Index.over(parse(f"{HEAD} {text} }}"))
    found = IntegerRanges(index, shapes_of(index).dtype)[Tensor(index.main, "y")]
    assert (found.least, found.largest, found.is_integral) == ANY[:3]
