"""Tensors split into sequences: what fires and what does not."""

import pytest
from surgeon.patterns.cleanup.sequences import concat_from_sequence, sequence_at, sequence_construct, sequence_length
from surgeon.patterns.cleanup.split_to_sequence import concat_of_split, sequence_at_of_split, split_to_sequence

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import check_parses, graph

NUMBERS = "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 three = {3}, int64 last = {-1}"
PLACES = f"{NUMBERS}, int64[2] sizes = {{1, 3}}"
PAIR = "a = SequenceAt(s, zero) b = SequenceAt(s, one) y = Sub(a, b)"
ENDS = "a = SequenceAt(s, zero) b = SequenceAt(s, last) y = Sub(a, b)"

# fmt: off
FIRES = [
    Case([split_to_sequence, sequence_at], "into pieces of one size", target="tensorrt",
         model=graph(f"s = SplitToSequence<axis = 1>(x, two) {PAIR}", "(float[n, 4] x) => (float[n, 2] y)", PLACES)),
    Case([split_to_sequence, sequence_at], "into pieces of several sizes", target="tensorrt",
         model=graph(f"s = SplitToSequence<axis = -1>(x, sizes) {PAIR}", "(float[n, 4] x) => (float[n, 3] y)", PLACES)),
    Case(sequence_at_of_split, "index by index", target="tensorrt", sites=2,
         model=graph(f"s = SplitToSequence<axis = 1, keepdims = 0>(x) {ENDS}", "(float[n, 4] x) => (float[n] y)",
                     PLACES)),
]
FOR_ANY_TARGET = [
    Case([split_to_sequence, sequence_at], "a last piece that is smaller",
         model=graph(f"s = SplitToSequence<axis = 1>(x, three) {ENDS}", "(float[n, 4] x) => (float[n, 3] y)", PLACES)),
    Case([split_to_sequence, sequence_at], "one piece",
         model=graph("s = SplitToSequence<axis = 1>(x, four) y = SequenceAt(s, zero)",
                     "(float[n, 4] x) => (float[n, 4] y)", f"{PLACES}, int64 four = {{4}}")),
    Case([split_to_sequence, sequence_at], "sizes that Split has as an attribute",
         model=graph(f"s = SplitToSequence<axis = 1>(x, sizes) {ENDS}", "(float[n, 4] x) => (float[n, 3] y)", PLACES,
                     opset=11)),
    Case([split_to_sequence, sequence_at], "sizes in int32, which count more than keepdims",
         model=graph(f"s = SplitToSequence<axis = 0, keepdims = 0>(x, short) {ENDS}",
                     "(float[3, 4] x) => (float[k, 4] y)", f"{PLACES}, int32[2] short = {{1, 2}}")),
    Case([split_to_sequence, sequence_at], "sizes that are computed",
         model=graph(f"s = SplitToSequence<axis = 1>(x, q) {ENDS}", "(float[n, m] x, int64[2] q) => (float[n, k] y)",
                     PLACES)),
    Case([split_to_sequence, sequence_length], "their number",
         model=graph("s = SplitToSequence<axis = 1>(x, three) n = SequenceLength(s) c = Cast<to = 1>(n) y = Mul(x, c)",
                     "(float[n, 4] x) => (float[n, 4] y)", PLACES)),
    Case([split_to_sequence, sequence_construct, concat_from_sequence], "one is taken out",
         model=graph("s = SplitToSequence<axis = 1, keepdims = 0>(x) t = SequenceErase(s, one) y = "
                     "ConcatFromSequence<axis = 0, new_axis = 1>(t)",
                     "(float[n, 4] x) => (float[3, n] y)", PLACES)),
    Case(sequence_at_of_split, "an axis of any size", sites=2,
         model=graph(f"s = SplitToSequence(x, two) {PAIR}", "(float[n, 4] x) => (float[k, 4] y)", PLACES)),
    Case(sequence_at_of_split, "an axis of any size, index by index", sites=2,
         model=graph(f"s = SplitToSequence<keepdims = 0>(x) {ENDS}", "(float[n, 4] x) => (float[4] y)", PLACES)),
    Case(concat_of_split, "put together again",
         model=graph("s = SplitToSequence<axis = 1>(x, two) y = ConcatFromSequence<axis = -1>(s)",
                     "(float[n, m] x) => (float[n, m] y)", PLACES)),
    Case(concat_of_split, "stacked along another axis",
         model=graph("s = SplitToSequence<axis = 2, keepdims = 0>(x) y = ConcatFromSequence<axis = 0, new_axis = 1>(s)",
                     "(float[2, n, m] x) => (float[m, 2, n] y)")),
]
NEGATIVES = [
    Case(split_to_sequence, "of free length", why="the size of the axis is not fixed, or 0",
         model=graph("s = SplitToSequence(x, two) y = SequenceAt(s, zero)", "(float[n, 4] x) => (float[2, 4] y)",
                     PLACES)),
    Case(split_to_sequence, "the sequence is an output", why="something else reads the sequence itself",
         model=graph("s = SplitToSequence<axis = 1>(x, two) y = SequenceAt(s, zero)",
                     "(float[n, 4] x) => (float[n, 2] y, seq(float[n, 2]) s)", PLACES)),
    Case(split_to_sequence, "a branch reads the sequence", why="something else reads the sequence itself",
         model=graph("s = SplitToSequence<axis = 1>(x, two) y = If(c) <then_branch = a () => (float[n, 2] v) { v = "
                     "SequenceAt(s, zero) }, else_branch = b () => (float[n, 2] w) { w = SequenceAt(s, one) }>",
                     "(float[n, 4] x, bool c) => (float[n, 2] y)", PLACES)),
    Case(split_to_sequence, "sizes of unknown number", why="the number of parts is unknown",
         model=graph("s = SplitToSequence<axis = 1>(x, q) y = SequenceAt(s, zero)",
                     "(float[n, 4] x, int64[k] q) => (float[n, 2] y)", PLACES)),
    Case(split_to_sequence, "a size that is computed", why="the size of the parts is unknown",
         model=graph("s = SplitToSequence<axis = 1>(x, q) y = SequenceAt(s, zero)",
                     "(float[n, 4] x, int64 q) => (float[n, 2] y)", PLACES)),
    Case(sequence_at_of_split, "an axis of fixed size", why="split_to_sequence writes one Split",
         model=graph("s = SplitToSequence<axis = 1>(x, two) y = SequenceAt(s, zero)",
                     "(float[n, 4] x) => (float[n, 2] y)", PLACES)),
    Case(sequence_at_of_split, "the last of an axis of any size", why="the place counts from the end",
         model=graph("s = SplitToSequence(x, two) y = SequenceAt(s, last)", "(float[n, 4] x) => (float[k, 4] y)",
                     PLACES)),
    Case(concat_of_split, "along another axis", why="along another axis",
         model=graph("s = SplitToSequence<axis = 1>(x, two) y = ConcatFromSequence<axis = 0>(s)",
                     "(float[n, 4] x) => (float[k, 2] y)", PLACES)),
    Case(concat_of_split, "parts that keep the axis are stacked", why="in another way than they were split",
         model=graph("s = SplitToSequence<axis = 1>(x, two) y = ConcatFromSequence<axis = 1, new_axis = 1>(s)",
                     "(float[n, 4] x) => (float[n, 2, 2] y)", PLACES)),
    Case(concat_of_split, "the first element is on the axis", why="in another way than they were split",
         model=graph("s = SplitToSequence<axis = 1, keepdims = 0>(x) y = ConcatFromSequence<axis = 0>(s)",
                     "(float[n, 4] x) => (float[k] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", FOR_ANY_TARGET, ids=str)
def test_fires_for_any_target(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
