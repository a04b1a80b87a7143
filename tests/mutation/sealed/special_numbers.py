"""Special numbers: NaN, infinity, overflow, underflow, zeros and their signs.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import control, fault

SPECIAL = "NaN, infinity, overflow"
ONE = "(float[n, m] x) => (float[n, m] y)"
TWO = "(float[n] a, float[n] b) => (float[n] y)"
COMPARED = "(float[n] a, float[n] b) => (bool[n] y)"
NAN, INF = np.nan, np.inf

fault(
    SPECIAL,
    "a power by exp and log, the base is negative",
    ONE,
    right="y = Pow(x, three)",
    wrong="l = Log(x) p = Mul(l, three) y = Exp(p)",
    x=[[1.0, 2.0, -2.0]],
    three=3.0,
)
fault(
    SPECIAL,
    "the logarithm of a sum of exponentials without the largest taken off",
    "(float[n, m] x) => (float[n, 1] y)",
    right="m1 = ReduceMax(x, last) d = Sub(x, m1) e = Exp(d) s = ReduceSum(e, last) l = Log(s) y = Add(l, m1)",
    wrong="e = Exp(x) s = ReduceSum(e, last) y = Log(s)",
    x=[[1.0, 120.0, 3.0]],
    last=[-1],
)
fault(
    SPECIAL,
    "a hypotenuse loses its scaling",
    TWO,
    right="c = Abs(a) d = Abs(b) m = Max(c, d) p = Div(c, m) q = Div(d, m) s = Mul(p, p) t = Mul(q, q) "
    "u = Add(s, t) r = Sqrt(u) y = Mul(m, r)",
    wrong="s = Mul(a, a) t = Mul(b, b) u = Add(s, t) y = Sqrt(u)",
    a=[3.0, 3e25],
    b=[4.0, 4e25],
)
fault(
    SPECIAL,
    "a sigmoid as a quotient of two exponentials",
    ONE,
    right="y = Sigmoid(x)",
    wrong="e = Exp(x) o = Add(e, one) y = Div(e, o)",
    x=[[0.0, 2.0, 95.0]],
    one=1.0,
)
fault(
    SPECIAL,
    "less or equal becomes not greater",
    COMPARED,
    right="y = LessOrEqual(a, b)",
    wrong="g = Greater(a, b) y = Not(g)",
    a=[1.0, NAN],
    b=[2.0, 1.0],
)
fault(
    SPECIAL,
    "a number less itself is zero",
    TWO,
    right="d = Sub(a, a) y = Add(d, b)",
    wrong="y = Identity(b)",
    a=[1.0, INF],
    b=[2.0, 3.0],
)
fault(
    SPECIAL,
    "zero by a number becomes zero times the number",
    ONE,
    right="y = Div(zero, x)",
    wrong="y = Mul(x, zero)",
    x=[[1.0, 0.0, INF]],
    zero=0.0,
)
fault(
    SPECIAL,
    "the sum of halves becomes the half of the sum",
    TWO,
    right="p = Mul(a, half) q = Mul(b, half) y = Add(p, q)",
    wrong="s = Add(a, b) y = Mul(s, half)",
    a=[1.0, 3e38],
    b=[2.0, 2e38],
    half=0.5,
)
fault(
    SPECIAL,
    "a quotient by the reciprocal, which overflows",
    TWO,
    right="y = Div(a, b)",
    wrong="r = Reciprocal(b) y = Mul(a, r)",
    a=[1.0, 3e-39],
    b=[2.0, 1.5e-39],
)
fault(
    SPECIAL,
    "a sum of logarithms becomes the logarithm of a product",
    TWO,
    right="p = Log(a) q = Log(b) y = Add(p, q)",
    wrong="p = Mul(a, b) y = Log(p)",
    a=[2.0, 1e30, 1e-30],
    b=[3.0, 1e30, 1e-30],
)
fault(
    SPECIAL,
    "the exponential of a difference becomes a quotient of exponentials",
    TWO,
    right="d = Sub(a, b) y = Exp(d)",
    wrong="p = Exp(a) q = Exp(b) y = Div(p, q)",
    a=[2.0, 100.0],
    b=[1.0, 99.0],
)
fault(
    SPECIAL,
    "a softmax by exponentials as they are",
    ONE,
    right="y = Softmax<axis = -1>(x)",
    wrong="e = Exp(x) s = ReduceSum(e, last) y = Div(e, s)",
    x=[[1.0, 150.0, 149.0]],
    last=[-1],
)
fault(
    SPECIAL,
    "the logarithm of a softmax that becomes zero",
    ONE,
    right="y = LogSoftmax<axis = -1>(x)",
    wrong="s = Softmax<axis = -1>(x) y = Log(s)",
    x=[[0.0, -140.0, 1.0]],
)
fault(
    SPECIAL,
    "the square of a root is the number",
    ONE,
    right="r = Sqrt(x) y = Mul(r, r)",
    wrong="y = Identity(x)",
    x=[[4.0, -4.0]],
)
fault(
    SPECIAL,
    "the exponential of a logarithm is the number",
    ONE,
    right="l = Log(x) y = Exp(l)",
    wrong="y = Identity(x)",
    x=[[4.0, -4.0]],
)
fault(
    SPECIAL,
    "a sign is changed by a difference from zero, in front of a reciprocal",
    ONE,
    right="d = Neg(x) y = Reciprocal(d)",
    wrong="d = Sub(zero, x) y = Reciprocal(d)",
    x=[[4.0, 0.0]],
    zero=0.0,
)
fault(
    SPECIAL,
    "each number equals itself",
    ONE,
    right="e = Equal(x, x) y = Where(e, x, zero)",
    wrong="y = Identity(x)",
    x=[[4.0, NAN]],
    zero=0.0,
)
fault(
    SPECIAL,
    "a test for infinity ignores negative infinity",
    "(float[n] x) => (bool[n] y)",
    right="y = IsInf(x)",
    wrong="y = IsInf<detect_negative = 0>(x)",
    x=[1.0, INF, -INF],
)
fault(
    SPECIAL,
    "a product of a row by logarithms",
    "(float[n, m] x) => (float[n, 1] y)",
    right="y = ReduceProd(x, last)",
    wrong="l = Log(x) s = ReduceSum(l, last) y = Exp(s)",
    x=[[2.0, -3.0, 1.5]],
    last=[-1],
)
fault(
    SPECIAL,
    "squares pass through half precision",
    "(float[n, m] x) => (float[n, 1] y)",
    right="s = Mul(x, x) v = ReduceMean(s, last) y = Sqrt(v)",
    wrong="s = Mul(x, x) h = Cast<to = 10>(s) f = Cast<to = 1>(h) v = ReduceMean(f, last) y = Sqrt(v)",
    x=[[1.0, 300.0, 20.0]],
    last=[-1],
)
fault(
    SPECIAL,
    "a ReLU by a comparison, which is false for NaN",
    ONE,
    right="y = Relu(x)",
    wrong="k = Greater(x, zero) y = Where(k, x, zero)",
    x=[[1.0, -1.0, NAN]],
    zero=0.0,
)
fault(
    SPECIAL,
    "infinity becomes the largest number",
    ONE,
    right="e = Exp(x) y = Neg(e)",
    wrong="e = Exp(x) c = Min(e, most) y = Neg(c)",
    x=[[1.0, 100.0]],
    most=3.4028235e38,
)
fault(
    SPECIAL,
    "the larger one by half of the sum and the difference",
    TWO,
    right="y = Max(a, b)",
    wrong="s = Add(a, b) d = Sub(a, b) c = Abs(d) t = Add(s, c) y = Mul(t, half)",
    a=[1.0, INF],
    b=[2.0, INF],
    half=0.5,
)
fault(
    SPECIAL,
    "a softmax of one number is one",
    "(float[n, 1] x) => (float[n, 1] y)",
    right="y = Softmax<axis = 1>(x)",
    wrong="z = Shape(x) y = ConstantOfShape<value = float[1] {1.0}>(z)",
    x=[[3.0], [INF]],
)
fault(
    SPECIAL,
    "a choice between a number and zero becomes a product",
    "(float[n, m] x, bool[n, m] keep) => (float[n, m] y)",
    right="y = Where(keep, x, zero)",
    wrong="c = Cast<to = 1>(keep) y = Mul(x, c)",
    x=[[1.0, 2.0, INF]],
    keep=[[1, 0, 0]],
    zero=0.0,
)
fault(
    SPECIAL,
    "the logarithm of a sigmoid by Softplus becomes the logarithm of Sigmoid",
    ONE,
    right="d = Neg(x) s = Softplus(d) y = Neg(s)",
    wrong="s = Sigmoid(x) y = Log(s)",
    x=[[1.0, -3.0, -110.0]],
)
control(
    SPECIAL,
    "above is below, read from the other side",
    COMPARED,
    right="y = Greater(a, b)",
    same="y = Less(b, a)",
    a=[1.0, NAN, INF],
    b=[2.0, 1.0, INF],
)
control(
    SPECIAL,
    "a sign is changed by a product with -1",
    ONE,
    right="y = Neg(x)",
    same="y = Mul(x, minus)",
    x=[[1.0, -INF, 0.0]],
    minus=-1.0,
)
