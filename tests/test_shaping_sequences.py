"""Shapes of what is taken out of sequences, held against what ONNX Runtime makes."""

import pytest

from surgeon.shapes.algebra.size_expressions import evaluate
from surgeon.testing import parse
from tests.shaping_run import feeds, free_sizes, run_all, shapes_of

CONSTANTS = (
    "<int64 first = {0}, int64 second = {1}, int64 last = {-1}, int64 two = {2}, int64[2] sizes = {1, 3}, "
    "int64[1] one = {1}, int64[1] six = {6}>"
)
TAKEN = {
    "of several sizes": "s = SplitToSequence<axis = -1>(x, sizes) y = SequenceAt(s, second)",
    "of several sizes, from the end": "s = SplitToSequence<axis = 1>(x, sizes) y = SequenceAt(s, last)",
    "of one size": "s = SplitToSequence<axis = 1>(x, two) y = SequenceAt(s, second)",
    "of a free axis": "s = SplitToSequence(x, two) y = SequenceAt(s, first)",
    "of computed sizes": "h = Shape(x) w = Slice(h, one, two_s) r = Sub(w, one) p = Concat<axis = 0>(one, r) "
    "s = SplitToSequence<axis = 1>(x, p) y = SequenceAt(s, second)",
    "an index": "s = SplitToSequence<axis = 1, keepdims = 0>(x) y = SequenceAt(s, second)",
    "an index that stays": "s = SplitToSequence<axis = 1>(x) y = SequenceAt(s, second)",
    "what was put in": "n = Transpose(x) s = SequenceConstruct(x, n) y = SequenceAt(s, second)",
    "what was put in, from the end": "n = Transpose(x) s = SequenceConstruct(n, x) y = SequenceAt(s, last)",
    "all of what was split": "s = SplitToSequence<axis = -1>(x, sizes) y = ConcatFromSequence<axis = 1>(s)",
    "all of single ones": "s = SplitToSequence(x) y = ConcatFromSequence<axis = 0>(s)",
    "all of what was put in": "n = Neg(x) s = SequenceConstruct(n, x, n) y = ConcatFromSequence<axis = -1>(s)",
    "an optional": "s = Optional(x) y = OptionalGetElement(s)",
    "an optional that is a tensor": "y = OptionalGetElement(x)",
}


def model_of(body):
    constants = CONSTANTS.replace(">", ", int64[1] two_s = {2}>")
    return parse(f'<ir_version: 10, opset_import: ["" : 18]> g (float[n, 4] x) => (float[p, q] t) {constants} '
                 f"{{ {body} t = Relu(x) }}")


@pytest.mark.parametrize("body", TAKEN.values(), ids=TAKEN)
@pytest.mark.parametrize("rows", [2, 5])
def test_the_shape_is_that_of_what_is_taken(body, rows):
    model = model_of(body)
    shapes, scope = shapes_of(model)
    found, sizes = shapes.facts(scope, "y"), free_sizes(model, rows, rows)
    real = run_all(model, feeds(model, sizes))["y"]
    assert found.shape is not None
    assert tuple(evaluate(size, sizes) for size in found.shape) == real.shape
    assert found.dtype == 1


@pytest.mark.parametrize(
    "body",
    [
        "s = SequenceConstruct(x) y = SequenceAt(s, second)",
        "s = SplitToSequence<axis = 1>(x, sizes) y = SequenceAt(s, two)",
        "e = SequenceEmpty() s = SequenceInsert(e, x) y = SequenceAt(s, first)",
        "s = SplitToSequence<axis = 1>(x, two) y = SequenceAt(s, last)",
        "s = SplitToSequence<axis = 1>(x, two) y = ConcatFromSequence<axis = 0>(s)",
        "s = SplitToSequence<axis = 1, keepdims = 0>(x) y = ConcatFromSequence<axis = 0>(s)",
        "s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0, new_axis = 1>(s)",
        "e = SequenceEmpty<dtype = 1>() s = SequenceInsert(e, x) y = ConcatFromSequence<axis = 0>(s)",
    ],
)
def test_of_what_is_not_there_or_not_followed_nothing_is_said_but_the_dtype(body):
    shapes, scope = shapes_of(model_of(body))
    assert shapes.facts(scope, "y") == (1, None)
