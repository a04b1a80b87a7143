"""Sequences whose tensors are known: what fires and what does not."""

import pytest
from surgeon.patterns.cleanup.sequences import concat_from_sequence, sequence_at, sequence_construct, sequence_length

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import check_parses, graph

TWO = "(float[2, 4] x, float[2, 4] z) => (float[2, 4] y)"
PLACES = "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 last = {-1}"

# fmt: off
FIRES = [
    Case(sequence_at, "the last", target="tensorrt",
         model=graph("s = SequenceConstruct(x, z) a = SequenceAt(s, last) y = Relu(a)", TWO, PLACES)),
    Case(sequence_length, "of two", target="tensorrt",
         model=graph("s = SequenceConstruct(x, z) n = SequenceLength(s) c = Cast<to = 1>(n) y = Mul(x, c)", TWO)),
    Case(concat_from_sequence, "along an axis", target="tensorrt",
         model=graph("s = SequenceConstruct(x, z) y = ConcatFromSequence<axis = 1>(s)",
                     "(float[n, 4] x, float[n, 4] z) => (float[n, 8] y)")),
    Case(concat_from_sequence, "along a new axis", target="tensorrt",
         model=graph("s = SequenceConstruct(x, z) y = ConcatFromSequence<axis = -1, new_axis = 1>(s)",
                     "(float[n, 4] x, float[n, 4] z) => (float[n, 4, 2] y)")),
    Case([sequence_construct, concat_from_sequence], "filled one by one", target="tensorrt",
         model=graph("s = SequenceEmpty<dtype = 1>() a = SequenceInsert(s, x) b = SequenceInsert(a, z) c = "
                     "SequenceInsert(b, x, zero) y = ConcatFromSequence<axis = 0>(c)",
                     "(float[2, 4] x, float[2, 4] z) => (float[6, 4] y)", PLACES)),
    Case([sequence_construct, sequence_at], "an erased element", target="tensorrt", sites=2,
         model=graph("s = SequenceConstruct(x, z) t = SequenceErase(s, zero) u = SequenceErase(s) v = "
                     "SequenceAt(u, zero) w = SequenceAt(t, zero) y = Add(v, w)",
                     TWO, PLACES)),
]
FOR_ANY_TARGET = [
    Case(sequence_at, "the last",
         model=graph("s = SequenceConstruct(x, z) a = SequenceAt(s, last) y = Relu(a)", TWO, PLACES)),
    Case(sequence_at, "the sequence is an output", sites=2,
         model=graph("s = SequenceConstruct(x, z) a = SequenceAt(s, zero) b = SequenceAt(s, one) y = Sub(a, b)",
                     "(float[2, 4] x, float[2, 4] z) => (float[2, 4] y, seq(float[2, 4]) s)", PLACES)),
    Case(sequence_length, "of two", graph("s = SequenceConstruct(x, z) n = SequenceLength(s) c = Cast<to = 1>(n) y = "
                                          "Mul(x, c)", TWO)),
    Case(concat_from_sequence, "along a new axis",
         model=graph("s = SequenceConstruct(x, z) y = ConcatFromSequence<axis = -1, new_axis = 1>(s)",
                     "(float[n, 4] x, float[n, 4] z) => (float[n, 4, 2] y)")),
    Case([sequence_construct, sequence_at], "what is taken out",
         model=graph("s = SequenceConstruct(x, z, x) t = SequenceErase(s, last) u = SequenceErase(t) w = "
                     "SequenceAt(t, one) v = SequenceAt(u, zero) y = Sub(v, w)",
                     TWO, PLACES)),
]
NEGATIVES = [
    Case(sequence_at, "a place that is computed", target="tensorrt", why="",
         model=graph("s = SequenceConstruct(x, z) a = SequenceAt(s, i) y = Relu(a)",
                     "(float[2, 4] x, float[2, 4] z, int64 i) => (float[2, 4] y)",
                     PLACES)),
    Case(sequence_at, "a place beyond the end", target="tensorrt", why="out of bounds",
         model=graph("s = SequenceConstruct(x, z) a = SequenceAt(s, two) y = Relu(a)", TWO, PLACES)),
    Case(sequence_length, "a number of parts that is computed", target="tensorrt", why="",
         model=graph("s = SplitToSequence<axis = 0>(x, i) n = SequenceLength(s) y = Cast<to = 1>(n)",
                     "(float[m, 4] x, int64 i) => (float y)")),
    Case(concat_from_sequence, "a number of parts that is computed", target="tensorrt", why="",
         model=graph("s = SplitToSequence<axis = 0>(x, i) y = ConcatFromSequence<axis = 1>(s)",
                     "(float[m, 4] x, int64 i) => (float[k, l] y)")),
    Case(sequence_construct, "a place that is computed", target="tensorrt", why="",
         model=graph("s = SequenceConstruct(x, z) t = SequenceErase(s, i) y = SequenceAt(t, zero)",
                     "(float[2, 4] x, float[2, 4] z, int64 i) => (float[2, 4] y)",
                     PLACES)),
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
