"""Values known of all elements of a tensor, compared with what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from surgeon.shapes.algebra.size_expressions import evaluate
from surgeon.shapes.op_rules.values.affine_mask import AffineMask
from surgeon.shapes.op_rules.values.symbolic_elements import SymbolicElements
from surgeon.testing import parse
from tests import exports, sampling
from tests.shaping_run import feeds, free_sizes, run_all, shapes_of

CASES = {case.name: case for case in exports.cases()}
CONSTANTS = (
    "<int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 minus = {-1}, int64[1] none = {0}, "
    "int64[1] first = {1}, int64[1] last = {-1}, int64[1] far = {9223372036854775807}, int64[2] front = {0, 1}, "
    "int64[2] rear = {1, 2}, int64[1] twos = {2}, float[1] f = {1}, float low = {-1e38}, float nil = {0}, "
    "float unit = {1}, float[3, 3] tri = {1, 0, 0, 1, 1, 0, 1, 1, 1}, int64[2, 3] grid = {5, 7, 9, 15, 17, 19}, "
    "int64[2, 2, 2] pairs = {0, 0, 0, 1, 1, 0, 1, 1}, bool yes = {1}, int64[2, 2] mixed = {1, 0, 0, 1}>"
)
SIZES = (
    "z = Shape(x) ns = Gather(z, zero) ms = Gather(z, one) n1 = Unsqueeze(ns, none) m1 = Unsqueeze(ms, none) "
    "nm = Concat<axis = 0>(n1, m1) rows = Range(zero, ns, one) columns = Range(zero, ms, one) "
    "i = Unsqueeze(rows, first) j = Unsqueeze(columns, none)"
)


def graph(body: str) -> onnx.ModelProto:
    """A model with an input x of [n, m], the ranges `rows` and `columns`, and the same as `i` and `j` with two axes."""
    return parse(
        f'<ir_version: 10, opset_import: ["" : 17]> g (float[n, m] x, bool[n, m] c) => (int64[k] rows) {CONSTANTS} '
        f"{{ {SIZES} {body} }}"
    )


def elements_of(model: onnx.ModelProto) -> tuple[SymbolicElements, object]:
    """What is known of a model, and its main scope."""
    shapes, scope = shapes_of(model)
    return SymbolicElements(shapes), scope


def places(real: np.ndarray, found, sizes) -> np.ndarray:
    """What an affine index says of every element."""
    total = np.full(real.shape, evaluate(found.offset, sizes))
    for axis, stride in enumerate(found.strides):
        shape = [-1 if at == axis else 1 for at in range(real.ndim)]
        total = total + evaluate(stride, sizes) * np.arange(real.shape[axis]).reshape(shape)
    return total


def expected(real: np.ndarray, choice: AffineMask, sizes) -> np.ndarray:
    """What a choice says of every element."""
    inside = np.ones(real.shape, bool)
    for bound in choice.bounds:
        inside &= places(real, bound, sizes) >= 0
    return np.where(inside, choice.inside, choice.outside)


def assert_true(model: onnx.ModelProto, sizes) -> int:
    """Whatever is said of any tensor of a model holds at these sizes; returns of how many tensors something is."""
    elements, scope = elements_of(model)
    reported = 0
    for name, real in run_all(model, feeds(model, sizes)).items():
        index, columns = elements.affine(scope, name), elements.columns(scope, name)
        choice = elements.choice(scope, name)
        reported += index is not None or choice is not None
        if index is not None:
            np.testing.assert_array_equal(places(real, index, sizes), real, name)
        for place, column in enumerate(columns or ()):
            np.testing.assert_array_equal(places(real[..., place], column, sizes), real[..., place], name)
        if choice is not None:
            assert np.asarray(choice.inside).dtype == real.dtype, name
            np.testing.assert_array_equal(expected(real, choice, sizes), real, name)
    return reported


# fmt: off
AFFINE = {
    "a range": ("y = Range(two, ms, two)", "2", ["2"]),
    "a grid of flat indices": ("a = Mul(i, ms) y = Add(a, j)", "0", ["m", "1"]),
    "a difference": ("y = Sub(j, i)", "0", ["-1", "1"]),
    "a negative": ("y = Neg(j)", "0", ["0", "-1"]),
    "moved axes": ("a = Transpose(i) b = Mul(two, a) y = Sub(b, two)", "-2", ["0", "2"]),
    "spread out": ("y = Expand(j, nm)", "0", ["0", "1"]),
    "another shape": ("t = Concat<axis = 0>(first, n1, first) y = Reshape(rows, t)", "0", ["0", "1", "0"]),
    "a part": ("y = Slice(columns, first, far, none, twos)", "1", ["2"]),
    "the last one": ("t = Slice(j, last, far, first) y = Add(t, i)", "m - 1", ["1", "1"]),
    "one more in front": ("a = Sub(two, one) b = Sub(a, two) d = Unsqueeze(b, none) y = Concat<axis = 0>(d, rows)",
                          "-1", ["1"]),
    "equal ones in a row": ("a = Sub(i, i) y = Concat<axis = 0>(a, a)", "0", ["0", "0"]),
    "what one is more than the one before": (
        "a = Slice(rows, first, far, none) b = Slice(rows, none, last, none) y = Sub(a, b)", "1", ["0"]),
    "picked by a grid": ("a = Expand(i, nm) b = Expand(j, nm) d = Unsqueeze(a, last) e = Unsqueeze(b, last) "
                         "h = Concat<axis = -1>(d, e) l = Mul(b, two) y = GatherND(l, h)", "0", ["0", "2"]),
    "picked from a line": ("a = Mul(i, ms) b = Add(a, j) l = Expand(j, nm) t = Flatten<axis = 2>(l) d = Gather(t, b) "
                           "y = Reshape(d, nm)", "0", ["0", "1"]),
    "a constant": ("y = Identity(grid)", "5", ["10", "2"]),
    "places that are not zero where none is": (
        "a = ConstantOfShape<value = int64[1] {3}>(m1) b = NonZero(a) y = Transpose(b)", "0", ["1", "0"]),
    "in another dtype": ("a = Cast<to = 6>(j) y = Cast<to = 7>(a)", "0", ["0", "1"]),
}
CHOICES = {
    "keys up to a row": ("y = LessOrEqual(j, i)", True, False, [("0", "1", "-1")]),
    "rows from a key on": ("y = GreaterOrEqual(i, j)", True, False, [("0", "1", "-1")]),
    "keys before a row": ("y = Less(j, i)", True, False, [("-1", "1", "-1")]),
    "keys behind a row": ("y = Greater(j, i)", True, False, [("-1", "-1", "1")]),
    "not those behind": ("a = Greater(j, i) y = Not(a)", False, True, [("-1", "-1", "1")]),
    "what always holds": ("y = GreaterOrEqual(i, zero)", True, True, []),
    "what never holds": ("y = Less(j, zero)", False, False, []),
    "a window": ("a = LessOrEqual(j, i) b = Sub(i, two) d = Greater(j, b) y = And(a, d)", True, False,
                 [("0", "1", "-1"), ("1", "-1", "1")]),
    "outside of a window": ("a = Greater(j, i) b = Sub(i, two) d = LessOrEqual(j, b) y = Or(a, d)", False, True,
                            [("0", "1", "-1"), ("1", "-1", "1")]),
    "both, and always": ("a = LessOrEqual(j, i) b = GreaterOrEqual(i, zero) d = And(b, a) y = And(yes, d)", True, False,
                         [("0", "1", "-1")]),
    "numbers for them": ("a = LessOrEqual(j, i) y = Where(a, nil, low)", 0.0, np.float32(-1e38), [("0", "1", "-1")]),
    "as numbers": ("a = LessOrEqual(j, i) y = Cast<to = 1>(a)", 1.0, 0.0, [("0", "1", "-1")]),
    "one less, times a low number": ("a = LessOrEqual(j, i) b = Cast<to = 1>(a) d = Sub(unit, b) y = Mul(d, low)",
                                     0.0, np.float32(-1e38), [("0", "1", "-1")]),
    "the lower half": ("a = Expand(f, nm) y = Trilu<upper = 0>(a)", 1.0, 0.0, [("0", "1", "-1")]),
    "the upper half but for a diagonal": ("a = Expand(f, nm) y = Trilu<upper = 1>(a, one)", 1.0, 0.0,
                                          [("-1", "-1", "1")]),
    "the half that is zero": ("a = Expand(f, nm) b = Trilu<upper = 0>(a) d = Equal(b, nil) y = Where(d, low, nil)",
                              0.0, np.float32(-1e38), [("0", "1", "-1")]),
    "zeros of a shape": ("y = ConstantOfShape(nm)", 0.0, 0.0, []),
    "a constant triangle": ("y = Identity(tri)", 1.0, 0.0, [("0", "1", "-1")]),
    "the rear of a constant triangle": ("y = Slice(tri, last, far, none)", 1.0, 1.0, []),
    "two rows of it": ("y = Slice(tri, first, far, none)", 1.0, 0.0, [("1", "1", "-1")]),
    "a choice by what is certain": ("a = GreaterOrEqual(i, zero) b = LessOrEqual(j, i) d = Cast<to = 1>(b) "
                                    "y = Where(a, d, low)", 1.0, 0.0, [("0", "1", "-1")]),
    "equal indices": ("a = Sub(i, i) y = Equal(a, zero)", True, True, []),
    "indices that are never equal": ("y = Equal(i, minus)", False, False, []),
    "a sum of nothing": ("a = Less(i, zero) b = Cast<to = 7>(a) d = CumSum(b, one) y = Equal(d, zero)", True, True, []),
    "picked from equal elements": ("a = ConstantOfShape(nm) y = Gather(a, rows)", 0.0, 0.0, []),
}
UNKNOWN = {
    "data": "y = Cast<to = 7>(x)",
    "a mask that is given": "a = LessOrEqual(j, i) y = And(a, c)",
    "indices that are equal here and there": "y = Equal(i, j)",
    "a sum of ones": "a = GreaterOrEqual(i, zero) b = Cast<to = 7>(a) d = CumSum(b, one) y = Equal(d, one)",
    "two ranges in a row": "y = Concat<axis = 0>(rows, columns)",
    "a product of indices": "a = Mul(i, j) y = LessOrEqual(a, i)",
    "a product": "y = Mul(i, j)",
    "three values": "a = LessOrEqual(j, i) b = Cast<to = 1>(a) d = Less(j, i) e = Cast<to = 1>(d) y = Add(b, e)",
    "chosen data": "a = LessOrEqual(j, i) y = Where(a, x, nil)",
    "a part from behind its front, perhaps": "d = Sub(ns, ms) e = Unsqueeze(d, none) y = Slice(rows, e, far, none)",
    "a constant that is no line": "a = Identity(mixed) y = Add(a, two)",
}
# fmt: on
MANY = ({"n": 4, "m": 6}, {"n": 5, "m": 5}, {"n": 1, "m": 3}, {"n": 3, "m": 1})


@pytest.mark.parametrize("name", AFFINE)
def test_an_affine_index(name):
    body, offset, strides = AFFINE[name]
    model = graph(body)
    elements, scope = elements_of(model)
    found = elements.affine(scope, "y")
    assert (str(found.offset), [str(stride) for stride in found.strides]) == (offset, strides)
    for sizes in MANY:
        assert_true(model, sizes)


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice(name):
    body, inside, outside, bounds = CHOICES[name]
    model = graph(body)
    elements, scope = elements_of(model)
    found = elements.choice(scope, "y")
    assert (found.inside, found.outside) == (inside, outside)
    assert [(str(bound.offset), *map(str, bound.strides)) for bound in found.bounds] == bounds
    for sizes in MANY:
        assert_true(model, sizes)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known(name):
    model = graph(UNKNOWN[name])
    elements, scope = elements_of(model)
    assert elements.affine(scope, "y") is None
    assert elements.choice(scope, "y") is None
    for sizes in MANY:
        assert_true(model, sizes)


def test_columns_of_indices():
    """Indices that a GatherND takes, joined from ranges or fixed in the file."""
    joined = graph(
        "a = Expand(i, nm) b = Expand(j, nm) d = Unsqueeze(a, last) e = Unsqueeze(b, last) y = Concat<axis = -1>(d, e)"
    )
    elements, scope = elements_of(joined)
    found = [[str(stride) for stride in column.strides] for column in elements.columns(scope, "y")]
    assert found == [["1", "0"], ["0", "1"]]
    fixed, scope = elements_of(graph("y = Identity(pairs)"))
    assert [column.strides for column in fixed.columns(scope, "y")] == [(1, 0), (0, 1)]
    assert fixed.columns(scope, "mixed") is not None
    assert fixed.columns(scope, "x") is None


def test_a_long_chain():
    """No recursion."""
    steps = " ".join(f"a{step + 1} = Add(a{step}, two)" for step in range(3000))
    elements, scope = elements_of(graph(f"a0 = Add(i, j) {steps}"))
    assert elements.affine(scope, "a3000").offset == 6000


SAMPLE = ("gpt2-ts14-fp16", "gpt2-dynamo18-fp16")  # what other tests export too
EXPORTS = ("gpt2-ts13-fp32", "bert-dynamo18-fp32", "clip_text-ts14-fp16", *SAMPLE)


@pytest.mark.parametrize("name", sampling.chosen(lambda: SAMPLE, lambda: EXPORTS))
def test_every_tensor_of_an_export(name):
    """Nothing that is said of a tensor is wrong, and of masks something is said."""
    path, _ = exports.export(CASES[name])
    model = onnx.load(path)
    reported = [assert_true(model, free_sizes(model, batch, other)) for batch, other in ((2, 5), (1, 3))]
    assert min(reported) > 0
