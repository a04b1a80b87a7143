"""Masks and windows.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import control, fault, normal

MASK = "masks and windows"
SCORES = "(float[b, n, n] x) => (float[b, n, n] y)"
RECTANGLE = "(float[b, q, k] x) => (float[b, q, k] y)"
PLACES = (
    "z = Shape(x) q = Gather(z, one) k = Gather(z, two) r = Range(zero, q, one) c = Range(zero, k, one) "
    "i = Unsqueeze(r, last) "
)
END = " t = Where(keep, x, low) y = Softmax<axis = -1>(t)"
LOW = float("-inf")
NUMBERS = {"zero": 0, "one": 1, "two": 2, "last": [1], "low": LOW}
KEPT = "(float[b, n, m] x, bool[b, 1, m] keep) => (float[b, n, m] y)"

fault(
    MASK,
    "scores are multiplied by the mask",
    "(float[b, n, m] x, float[b, 1, m] keep) => (float[b, n, m] y)",
    right="d = Sub(one, keep) a = Mul(d, low) t = Add(x, a) y = Softmax<axis = -1>(t)",
    wrong="t = Mul(x, keep) y = Softmax<axis = -1>(t)",
    x=normal(1, 2, 4),
    keep=[[[1, 1, 0, 1]]],
    one=1.0,
    low=-1e9,
)
fault(
    MASK,
    "a mask is inverted",
    KEPT,
    right="t = Where(keep, x, low) y = Softmax<axis = -1>(t)",
    wrong="t = Where(keep, low, x) y = Softmax<axis = -1>(t)",
    x=normal(1, 2, 4),
    keep=[[[1, 1, 0, 1]]],
    low=LOW,
)
fault(
    MASK,
    "a mask sentinel is above the scores",
    KEPT,
    right="t = Where(keep, x, low) y = Softmax<axis = -1>(t)",
    wrong="t = Where(keep, x, high) y = Softmax<axis = -1>(t)",
    x=normal(1, 2, 4) - 2e4,
    keep=[[[1, 1, 0, 1]]],
    low=LOW,
    high=-1e4,
)
fault(
    MASK,
    "a causal mask hides the diagonal too",
    SCORES,
    right="z = Shape(x) lows = ConstantOfShape<value = float[1] {-10000.0}>(z) u = Trilu<upper = 1>(lows, above) "
    "t = Add(x, u) y = Softmax<axis = -1>(t)",
    wrong="z = Shape(x) lows = ConstantOfShape<value = float[1] {-10000.0}>(z) u = Trilu<upper = 1>(lows) "
    "t = Add(x, u) y = Softmax<axis = -1>(t)",
    x=normal(1, 4, 4),
    above=1,
)
fault(
    MASK,
    "a causal mask counts the first query from the first key, with a past",
    RECTANGLE,
    right=PLACES + "d = Sub(k, q) p = Add(i, d) keep = LessOrEqual(c, p)" + END,
    wrong=PLACES + "keep = LessOrEqual(c, i)" + END,
    x=normal(1, 2, 5),
    **NUMBERS,
)
fault(
    MASK,
    "a window of 2 to both sides becomes one of 1",
    SCORES,
    right=PLACES + "d = Sub(i, c) a = Abs(d) keep = LessOrEqual(a, two)" + END,
    wrong=PLACES + "d = Sub(i, c) a = Abs(d) keep = Less(a, two)" + END,
    x=normal(1, 5, 5),
    **NUMBERS,
)
fault(
    MASK,
    "a window of past keys also sees future keys",
    SCORES,
    right=PLACES + "d = Sub(i, c) a = Less(d, two) f = GreaterOrEqual(d, zero) keep = And(a, f)" + END,
    wrong=PLACES + "d = Sub(i, c) keep = Less(d, two)" + END,
    x=normal(1, 5, 5),
    **NUMBERS,
)
fault(
    MASK,
    "a mask of keys hides queries",
    "(float[b, n, n] x, bool[b, n] valid) => (float[b, n, n] y)",
    right="keep = Unsqueeze(valid, keys)" + END,
    wrong="keep = Unsqueeze(valid, queries)" + END,
    x=normal(1, 3, 3),
    valid=[[1, 1, 0]],
    keys=[1],
    queries=[2],
    low=-1e4,
)
fault(
    MASK,
    "a key length includes one key too many",
    "(float[b, q, k] x, int64[b, 1, 1] length) => (float[b, q, k] y)",
    right="z = Shape(x) s = Gather(z, two) c = Range(zero, s, one) keep = Less(c, length)" + END,
    wrong="z = Shape(x) s = Gather(z, two) c = Range(zero, s, one) keep = LessOrEqual(c, length)" + END,
    x=normal(2, 2, 4),
    length=[[[2]], [[3]]],
    **NUMBERS,
)
fault(
    MASK,
    "a mask is cast to bool instead of compared with 0.5",
    "(float[b, n, m] x, float[b, 1, m] part) => (float[b, n, m] y)",
    right="keep = Greater(part, half)" + END,
    wrong="keep = Cast<to = 9>(part)" + END,
    x=normal(1, 2, 4),
    part=[[[1.0, 0.3, 0.0, 0.8]]],
    half=0.5,
    low=LOW,
)
fault(
    MASK,
    "masked probabilities are normalized again",
    "(float[b, n, m] x, float[b, 1, m] part) => (float[b, n, m] y)",
    right="s = Softmax<axis = -1>(x) y = Mul(s, part)",
    wrong="keep = Cast<to = 9>(part)" + END,
    x=normal(1, 2, 4),
    part=[[[1.0, 0.0, 0.0, 1.0]]],
    low=LOW,
)
fault(
    MASK,
    "a token sees the documents before its own",
    "(float[b, n, n] x, int64[b, n] document) => (float[b, n, n] y)",
    right="r = Unsqueeze(document, last) c = Unsqueeze(document, first) keep = Equal(r, c)" + END,
    wrong="r = Unsqueeze(document, last) c = Unsqueeze(document, first) keep = GreaterOrEqual(r, c)" + END,
    x=normal(1, 4, 4),
    document=[[0, 0, 1, 1]],
    first=[1],
    last=[2],
    low=LOW,
)
fault(
    MASK,
    "two masks are combined by Or instead of And",
    "(float[n, m] x, bool[n, m] a, bool[1, m] b) => (float[n, m] y)",
    right="keep = And(a, b)" + END,
    wrong="keep = Or(a, b)" + END,
    x=normal(2, 4),
    a=[[1, 0, 1, 1], [1, 1, 0, 1]],
    b=[[1, 1, 0, 0]],
    low=LOW,
)
fault(
    MASK,
    "a bias by absolute distance becomes one by signed distance",
    SCORES,
    right=PLACES + "d = Sub(i, c) a = Abs(d) f = Cast<to = 1>(a) p = Mul(f, slope) y = Sub(x, p)",
    wrong=PLACES + "d = Sub(i, c) f = Cast<to = 1>(d) p = Mul(f, slope) y = Sub(x, p)",
    x=normal(1, 4, 4),
    slope=0.25,
    **NUMBERS,
)
fault(
    MASK,
    "a masked maximum fills with zero",
    "(float[b, m] x, bool[b, m] keep) => (float[b, 1] y)",
    right="t = Where(keep, x, low) y = ReduceMax(t, last)",
    wrong="t = Where(keep, x, zero) y = ReduceMax(t, last)",
    x=-np.abs(normal(2, 4)) - 1,
    keep=[[1, 1, 0, 1], [1, 0, 0, 1]],
    zero=0.0,
    low=LOW,
    last=[1],
)
fault(
    MASK,
    "a masked mean divides by the length",
    "(float[b, m, 3] x, float[b, m, 1] keep) => (float[b, 3] y)",
    right="p = Mul(x, keep) s = ReduceSum<keepdims = 0>(p, one) c = ReduceSum<keepdims = 0>(keep, one) y = Div(s, c)",
    wrong="p = Mul(x, keep) y = ReduceMean<keepdims = 0>(p, one)",
    x=normal(2, 4, 3),
    keep=np.array([[1, 1, 0, 1], [1, 0, 0, 1]]).reshape(2, 4, 1),
    one=[1],
)
fault(
    MASK,
    "a finite float16 sentinel becomes minus infinity, for a row without keys",
    "(float16[b, n, m] x, bool[b, 1, m] keep) => (float16[b, n, m] y)",
    right="t = Where(keep, x, least) y = Softmax<axis = -1>(t)",
    wrong="t = Where(keep, x, none) y = Softmax<axis = -1>(t)",
    x=normal(2, 2, 4),
    keep=[[[1, 1, 0, 1]], [[0, 0, 0, 0]]],
    least=np.array(-65504, np.float16),
    none=np.array(-np.inf, np.float16),
)
fault(
    MASK,
    "nucleus sampling drops the token that crosses the threshold",
    "(float[b, v] p) => (bool[b, v] y)",
    right="c = CumSum<exclusive = 1>(p, axis) y = Less(c, threshold)",
    wrong="c = CumSum(p, axis) y = Less(c, threshold)",
    p=[[0.6, 0.3, 0.1]],
    axis=1,
    threshold=0.7,
)
fault(
    MASK,
    "the position of padding becomes 0 instead of 1",
    "(int64[b, s] mask) => (int64[b, s] y)",
    right="c = CumSum(mask, axis) d = Sub(c, one) e = Equal(mask, zero) y = Where(e, one, d)",
    wrong="c = CumSum(mask, axis) d = Sub(c, one) y = Max(d, zero)",
    mask=[[0, 0, 1, 1], [1, 1, 1, 1]],
    axis=1,
    zero=0,
    one=1,
)
control(
    MASK,
    "a mask and the choice by it are both inverted",
    KEPT,
    right="t = Where(keep, x, low) y = Softmax<axis = -1>(t)",
    same="h = Not(keep) t = Where(h, low, x) y = Softmax<axis = -1>(t)",
    x=normal(1, 2, 4),
    keep=[[[1, 1, 0, 1]]],
    low=LOW,
)
