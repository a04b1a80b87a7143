"""Tensors cut into sequences: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.sequences import sequence_at
from surgeon.patterns.lowering.split_to_sequence import split_to_sequence

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

PLACES = "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 last = {-1}, int64[2] sizes = {1, 3}"

# fmt: off
FIRES = [
    Case([split_to_sequence, sequence_at], "into pieces of one size", target="tensorrt",
         model=graph("s = SplitToSequence<axis = 1>(x, two) a = SequenceAt(s, zero) b = SequenceAt(s, one) y "
                     "= Sub(a, b)",
                     "(float[n, 4] x) => (float[n, 2] y)", PLACES)),
    Case([split_to_sequence, sequence_at], "into pieces of several sizes", target="tensorrt",
         model=graph("s = SplitToSequence<axis = -1>(x, sizes) a = SequenceAt(s, zero) b = SequenceAt(s, one) "
                     "y = Sub(a, b)",
                     "(float[n, 4] x) => (float[n, 3] y)", PLACES)),
    Case([split_to_sequence, sequence_at], "index by index", target="tensorrt",
         model=graph("s = SplitToSequence<axis = 1, keepdims = 0>(x) a = SequenceAt(s, zero) b = "
                     "SequenceAt(s, last) y = Sub(a, b)",
                     "(float[n, 4] x) => (float[n] y)", PLACES)),
]
NEGATIVES = [
    Case(split_to_sequence, "of free length", target="tensorrt", why="the size of the axis is not fixed, or 0",
         model=graph("s = SplitToSequence(x, two) y = SequenceAt(s, zero)", "(float[n, 4] x) => (float[2, 4] y)",
                     PLACES)),
    Case(split_to_sequence, "ONNX Runtime has sequences", why="runs it as it is",
         model=graph("s = SplitToSequence<axis = 1>(x, two) y = SequenceAt(s, zero)",
                     "(float[n, 4] x) => (float[n, 2] y)",
                     PLACES)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
