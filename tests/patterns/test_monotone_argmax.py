"""ArgMax of functions that keep the order of numbers: what fires and what does not."""

import numpy as np
import pytest
from onnxruntime import InferenceSession
from surgeon.patterns.cleanup.monotone_argmax import monotone_argmax, softmax_argmax

import surgeon
from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import graph

INDEX = "(float[n, 40] x) => (int64[n] y)"
KEPT = "(float[n, 40] x) => (int64[n, 1] y)"

# fmt: off
FIRES = [
    Case(softmax_argmax, "a classifier", graph("s = Softmax(x) y = ArgMax<axis = 1, keepdims = 0>(s)", INDEX)),
    Case(softmax_argmax, "of logarithms, the last of equal ones",
         model=graph("s = LogSoftmax<axis = 1>(x) y = ArgMax<axis = -1, select_last_index = 1>(s)", KEPT)),
    Case(softmax_argmax, "along a middle axis",
         model=graph("s = Softmax<axis = 1>(x) y = ArgMax<axis = 1>(s)", "(float[n, 5, 7] x) => (int64[n, 1, 7] y)")),
    Case(softmax_argmax, "the last axis of an old opset",
         model=graph("s = Softmax<axis = 1>(x) y = ArgMax<axis = 1>(s)", KEPT, opset=11)),
    Case(monotone_argmax, "of exponentials", graph("s = Exp(x) y = ArgMax<axis = 1>(s)", KEPT)),
    Case(monotone_argmax, "of one after the other", graph("t = Softplus(x) s = Atan(t) y = ArgMin<axis = 1>(s)", KEPT)),
]
NEGATIVES = [
    Case(softmax_argmax, "along another axis", why="",
         model=graph("s = Softmax<axis = 0>(x) y = ArgMax<axis = 1>(s)", KEPT)),
    Case(softmax_argmax, "an old Softmax over all axes behind the first", why="flattens all axes",
         model=graph("s = Softmax<axis = 1>(x) y = ArgMax<axis = 1>(s)", "(float[n, 5, 7] x) => (int64[n, 1, 7] y)",
                     opset=12)),
    Case(softmax_argmax, "the smallest share, which underflows", why="",
         model=graph("s = Softmax(x) y = ArgMin<axis = 1>(s)", KEPT)),
    Case(softmax_argmax, "the shares are an output", why="",
         model=graph("s = Softmax(x) y = ArgMax<axis = 1>(s)", "(float[n, 40] x) => (int64[n, 1] y, float[n, 40] s)")),
    Case(monotone_argmax, "a function that falls", graph("s = Neg(x) y = ArgMax<axis = 1>(s)", KEPT), why=""),
    Case(monotone_argmax, "a function that is 1 for many numbers", why="",
         model=graph("s = Sigmoid(x) y = ArgMax<axis = 1>(s)", KEPT)),
    Case(monotone_argmax, "negative numbers have no root", graph("s = Sqrt(x) y = ArgMax<axis = 1>(s)", KEPT), why=""),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_only_where_approximate_rules_are_allowed():
    """A Softmax gives the same share to numbers that differ by less than its rounding."""
    model = graph("s = Softmax(x) y = ArgMax<axis = 1, keepdims = 0>(s)", "(float[n, 2] x) => (int64[n] y)")
    assert not surgeon.rewrite(model)[1].sites
    made, report = surgeon.rewrite(model, approximate=True)
    assert [node.op_type for node in made.graph.node] == ["ArgMax"]
    close = {"x": np.array([[1e-9, 2e-9]], np.float32)}
    before, after = (InferenceSession(item.SerializeToString()).run(None, close)[0] for item in (model, made))
    assert (before.tolist(), after.tolist()) == ([0], [1])
