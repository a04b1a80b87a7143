"""Loops, branches, choices, sequences, recurrences and strings.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import control, counting, fault, normal

BRANCH = "loops, choices, sequences"
CHOICE = "(bool[n] c, bool[n] d, float[n] a, float[n] b) => (float[n] y)"
BOOLS = "(bool[n] a, bool[n] b) => (bool[n] y)"
C, D = np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)
CHOSEN = {"c": C, "d": D, "a": counting(4) + 1, "b": -counting(4) - 1}
REPEATED = "(float[n] x, int64 times) => (float[n] y)"
DOUBLING = "<body = g (int64 i, bool k, float[n] v) => (bool l, float[n] w) { l = Identity(k) w = Add(v, v) }>"
RECURRENT = "(float[t, b, 2] x) => (float[t, 1, b, 3] y)"
GATES = {"w": normal(1, 9, 2, seed=1), "r": normal(1, 9, 3, seed=2), "bias": normal(1, 18, seed=3)}
LSTM = {"w": normal(1, 12, 2, seed=1), "r": normal(1, 12, 3, seed=2)}

fault(
    BRANCH,
    "a loop runs at least once",
    REPEATED,
    right="f = Cast<to = 1>(times) p = Pow(two, f) y = Mul(x, p)",
    wrong=f"u = Max(times, one) y = Loop(u, yes, x) {DOUBLING}",
    x=[1.0, 2.0],
    times=0,
    two=2.0,
    one=1,
    yes=True,
)
fault(
    BRANCH,
    "a loop runs once too often",
    REPEATED,
    right="f = Cast<to = 1>(times) p = Pow(two, f) y = Mul(x, p)",
    wrong=f"u = Add(times, one) y = Loop(u, yes, x) {DOUBLING}",
    x=[1.0, 2.0],
    times=3,
    two=2.0,
    one=1,
    yes=True,
)
fault(
    BRANCH,
    "a scan reads its input backwards",
    "(float[n] x) => (float[n] y)",
    right="y = CumSum(x, zero)",
    wrong="s, y = Scan<body = g (float v, float e) => (float w, float o) { w = Add(v, e) o = Identity(w) }, "
    "num_scan_inputs = 1, scan_input_directions = [1]>(start, x)",
    x=counting(4),
    zero=0,
    start=0.0,
)
fault(
    BRANCH,
    "a scan writes its output backwards",
    "(float[n] x) => (float[n] y)",
    right="y = CumSum(x, zero)",
    wrong="s, y = Scan<body = g (float v, float e) => (float w, float o) { w = Add(v, e) o = Identity(w) }, "
    "num_scan_inputs = 1, scan_output_directions = [1]>(start, x)",
    x=counting(4),
    zero=0,
    start=0.0,
)
fault(
    BRANCH,
    "a scan writes its state before the update",
    "(float[n] x) => (float[n] y)",
    right="y = CumSum(x, zero)",
    wrong="s, y = Scan<body = g (float v, float e) => (float w, float o) { w = Add(v, e) o = Identity(v) }, "
    "num_scan_inputs = 1>(start, x)",
    x=counting(4),
    zero=0,
    start=0.0,
)
fault(
    BRANCH,
    "a nested choice needs either condition instead of both",
    CHOICE,
    right="i = Where(d, a, b) y = Where(c, i, b)",
    wrong="e = Or(c, d) y = Where(e, a, b)",
    **CHOSEN,
)
fault(
    BRANCH,
    "a choice in the other branch is dropped",
    CHOICE,
    right="i = Where(d, b, a) y = Where(c, a, i)",
    wrong="y = Where(c, a, b)",
    **CHOSEN,
)
fault(
    BRANCH,
    "the negation of a conjunction becomes a conjunction of negations",
    BOOLS,
    right="e = And(a, b) y = Not(e)",
    wrong="m = Not(a) n1 = Not(b) y = And(m, n1)",
    a=C,
    b=D,
)
fault(
    BRANCH,
    "an exclusive or becomes an or",
    BOOLS,
    right="y = Xor(a, b)",
    wrong="y = Or(a, b)",
    a=C,
    b=D,
)
fault(
    BRANCH,
    "the branches of an If are swapped",
    "(bool c, float[n] x) => (float[n] y)",
    right="m = Neg(x) y = Where(c, x, m)",
    wrong="y = If(c)<then_branch = g () => (float[n] p) { p = Neg(x) }, else_branch = h () => (float[n] q) "
    "{ q = Identity(x) }>",
    c=True,
    x=[1.0, 2.0],
)
fault(
    BRANCH,
    "a tensor inserted at the front of a sequence goes to its end",
    "(float[n] a, float[n] b, float[n] c) => (float[k] y)",
    right="s = SequenceConstruct(a, b) t = SequenceInsert(s, c, zero) y = ConcatFromSequence<axis = 0>(t)",
    wrong="y = Concat<axis = 0>(a, b, c)",
    a=[1.0],
    b=[2.0],
    c=[3.0],
    zero=0,
)
fault(
    BRANCH,
    "the last element of a sequence becomes the first",
    "(float[n] a, float[n] b, float[n] c) => (float[n] y)",
    right="s = SequenceConstruct(a, b, c) y = SequenceAt(s, minus)",
    wrong="y = Identity(a)",
    a=[1.0],
    b=[2.0],
    c=[3.0],
    minus=-1,
)
fault(
    BRANCH,
    "parts of two rows each become two parts",
    "(float[6, m] x) => (float[k, m] y)",
    right="s = SplitToSequence<axis = 0>(x, two) y = SequenceAt(s, one)",
    wrong="a, y = Split<axis = 0, num_outputs = 2>(x)",
    x=counting(6, 2),
    two=2,
    one=1,
)
fault(
    BRANCH,
    "the reset gate of a GRU is applied before the product instead of after",
    RECURRENT,
    right="y = GRU<hidden_size = 3, linear_before_reset = 1>(x, w, r, bias)",
    wrong="y = GRU<hidden_size = 3>(x, w, r, bias)",
    x=normal(4, 2, 2),
    **GATES,
)
fault(
    BRANCH,
    "a recurrence runs backwards",
    RECURRENT,
    right="y = LSTM<hidden_size = 3>(x, w, r)",
    wrong='y = LSTM<hidden_size = 3, direction = "reverse">(x, w, r)',
    x=normal(4, 2, 2),
    **LSTM,
)
fault(
    BRANCH,
    "the sequence lengths of an LSTM are lost",
    "(float[t, b, 2] x, int32[b] lengths) => (float[t, 1, b, 3] y)",
    right="y = LSTM<hidden_size = 3>(x, w, r, , lengths)",
    wrong="y = LSTM<hidden_size = 3>(x, w, r)",
    x=normal(4, 2, 2),
    lengths=[4, 2],
    **LSTM,
)
fault(
    BRANCH,
    "the gates of an LSTM are in the order of another library",
    RECURRENT,
    right="y = LSTM<hidden_size = 3>(x, w, r)",
    wrong="y = LSTM<hidden_size = 3>(x, moved, other)",
    x=normal(4, 2, 2),
    moved=LSTM["w"][:, np.r_[0:3, 6:9, 9:12, 3:6]],
    other=LSTM["r"][:, np.r_[0:3, 6:9, 9:12, 3:6]],
    **LSTM,
)
fault(
    BRANCH,
    "two strings are joined in the other order",
    "(string[n] a, string[n] b) => (string[n] y)",
    right="y = StringConcat(a, b)",
    wrong="y = StringConcat(b, a)",
    opset=20,
    a=np.array(["x", "un"], object),
    b=np.array(["y", "do"], object),
)
fault(
    BRANCH,
    "a full match of a string becomes a search",
    "(string[n] x) => (bool[n] y)",
    right='y = RegexFullMatch<pattern = "[0-9]+">(x)',
    wrong='y = RegexFullMatch<pattern = ".*[0-9]+.*">(x)',
    opset=20,
    x=np.array(["12", "a1"], object),
)
control(
    BRANCH,
    "a choice by the same condition twice",
    "(bool[n] c, float[n] a, float[n] b, float[n] d) => (float[n] y)",
    right="i = Where(c, a, b) y = Where(c, i, d)",
    same="y = Where(c, a, d)",
    c=C,
    a=counting(4),
    b=counting(4) + 9,
    d=-counting(4),
)
control(
    BRANCH,
    "the negation of a disjunction is a conjunction of negations",
    BOOLS,
    right="e = Or(a, b) y = Not(e)",
    same="m = Not(a) n1 = Not(b) y = And(m, n1)",
    a=C,
    b=D,
)
control(
    BRANCH,
    "a joined sequence is a Concat",
    "(float[n] a, float[n] b, float[n] c) => (float[k] y)",
    right="s = SequenceConstruct(a, b) t = SequenceInsert(s, c, zero) y = ConcatFromSequence<axis = 0>(t)",
    same="y = Concat<axis = 0>(c, a, b)",
    a=[1.0],
    b=[2.0, 4.0],
    c=[3.0],
    zero=0,
)
