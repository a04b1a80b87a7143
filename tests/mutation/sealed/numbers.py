"""Numbers: constants, formulas of activations, limits, and digits that are lost.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import control, fault, normal

NUMBER = "formulas and digits"
ONE = "(float[n, m] x) => (float[n, m] y)"
TWO = "(float[n] a, float[n] b) => (float[n] y)"
AROUND = np.linspace(-5, 5, 41, dtype=np.float32).reshape(1, 41)

fault(
    NUMBER,
    "a sigmoid of 1.702 x becomes the error function",
    ONE,
    right="p = Mul(x, k) s = Sigmoid(p) y = Mul(x, s)",
    wrong="d = Div(x, root) e = Erf(d) o = Add(e, one) h = Mul(x, half) y = Mul(h, o)",
    x=AROUND,
    k=1.702,
    root=1.41421356,
    one=1.0,
    half=0.5,
)
fault(
    NUMBER,
    "a sigmoid by tanh without the half inside",
    ONE,
    right="y = Sigmoid(x)",
    wrong="t = Tanh(x) h = Mul(t, half) y = Add(h, half)",
    x=AROUND,
    half=0.5,
)
fault(
    NUMBER,
    "a hard sigmoid of slope 1/6 becomes the default of 1/5",
    ONE,
    right="d = Div(x, six) a = Add(d, half) y = Clip(a, zero, one)",
    wrong="y = HardSigmoid(x)",
    x=AROUND,
    six=6.0,
    half=0.5,
    zero=0.0,
    one=1.0,
)
fault(
    NUMBER,
    "a limit of 6 is applied after the division by 6",
    ONE,
    right="a = Add(x, three) c = Clip(a, zero, six) p = Mul(x, c) y = Div(p, six)",
    wrong="a = Add(x, three) d = Div(a, six) c = Clip(d, zero, six) y = Mul(x, c)",
    x=AROUND,
    three=3.0,
    six=6.0,
    zero=0.0,
)
fault(
    NUMBER,
    "ELU becomes CELU, with an alpha other than 1",
    ONE,
    right="y = Elu<alpha = 0.5>(x)",
    wrong="y = Celu<alpha = 0.5>(x)",
    x=AROUND,
)
fault(
    NUMBER,
    "the larger of x and s x becomes a leaky ReLU, the slope is above 1",
    ONE,
    right="p = Mul(x, s) y = Max(x, p)",
    wrong="y = LeakyRelu<alpha = 1.5>(x)",
    x=AROUND,
    s=1.5,
)
fault(
    NUMBER,
    "a threshold excludes equality",
    ONE,
    right="k = GreaterOrEqual(x, one) y = Where(k, x, zero)",
    wrong="y = ThresholdedRelu<alpha = 1.0>(x)",
    x=AROUND,
    one=1.0,
    zero=0.0,
)
fault(
    NUMBER,
    "bias and lambda of Shrink are swapped",
    ONE,
    right="y = Shrink<bias = 0.5, lambd = 1.5>(x)",
    wrong="y = Shrink<bias = 1.5, lambd = 0.5>(x)",
    x=AROUND,
)
fault(
    NUMBER,
    "limits are applied in the other order, the lower one may be above the upper one",
    "(float[n, m] x, float lo, float hi) => (float[n, m] y)",
    right="y = Clip(x, lo, hi)",
    wrong="a = Min(x, hi) y = Max(a, lo)",
    x=AROUND,
    lo=2.0,
    hi=1.0,
)
fault(
    NUMBER,
    "two disjoint clips become one",
    ONE,
    right="a = Clip(x, zero, one) y = Clip(a, two, three)",
    wrong="y = Clip(x, two, one)",
    x=AROUND,
    zero=0.0,
    one=1.0,
    two=2.0,
    three=3.0,
)
fault(
    NUMBER,
    "exp(x) - 1 where a branch keeps the digits of small numbers",
    ONE,
    right="a = Abs(x) k = Less(a, low) q = Mul(x, x) h = Mul(q, half) s = Add(x, h) e = Exp(x) "
    "d = Sub(e, one) y = Where(k, s, d)",
    wrong="e = Exp(x) y = Sub(e, one)",
    x=normal(1, 9, scale=1e-5),
    low=1e-3,
    half=0.5,
    one=1.0,
)
fault(
    NUMBER,
    "twice the square of the sine of the half becomes 1 - cos",
    ONE,
    right="h = Mul(x, half) s = Sin(h) q = Mul(s, s) y = Mul(q, two)",
    wrong="c = Cos(x) y = Sub(one, c)",
    x=normal(1, 9, scale=1e-3),
    half=0.5,
    one=1.0,
    two=2.0,
)
fault(
    NUMBER,
    "rounded to tenths and then to ones becomes rounded once",
    ONE,
    right="a = Mul(x, ten) b = Round(a) c = Div(b, ten) y = Round(c)",
    wrong="y = Round(x)",
    x=[[0.46, 1.46, 2.31, -1.47]],
    ten=10.0,
)
fault(
    NUMBER,
    "a cast to half and back is dropped between two nodes",
    ONE,
    right="t = Tanh(x) h = Cast<to = 10>(t) f = Cast<to = 1>(h) y = Mul(f, k)",
    wrong="t = Tanh(x) y = Mul(t, k)",
    x=normal(3, 5),
    k=3.0,
)
fault(
    NUMBER,
    "an inverse root of two of three digits",
    ONE,
    right="p = Mul(x, k) y = Erf(p)",
    wrong="p = Mul(x, short) y = Erf(p)",
    x=normal(3, 5, scale=0.3),
    k=0.70710678,
    short=0.707,
)
fault(
    NUMBER,
    "a power of two by exp, with ln 2 of four digits",
    ONE,
    right="y = Pow(two, x)",
    wrong="p = Mul(x, k) y = Exp(p)",
    x=[[1.0, 5.0, 9.5]],
    two=2.0,
    k=0.6931,
)
fault(
    NUMBER,
    "an angle in all four quadrants becomes the arc tangent of the quotient",
    "(float[n] u, float[n] v) => (float[n] y)",
    right="q = Div(v, u) a = Atan(q) s = Sign(v) p = Mul(s, pi) t = Add(a, p) k = Less(u, zero) y = Where(k, t, a)",
    wrong="q = Div(v, u) y = Atan(q)",
    u=[1.0, -1.0, -2.0],
    v=[1.0, 1.0, -1.0],
    pi=3.14159265,
    zero=0.0,
)
fault(
    NUMBER,
    "a remainder with the sign of the dividend becomes one with that of the divisor",
    TWO,
    right="y = Mod<fmod = 1>(a, b)",
    wrong="q = Div(a, b) f = Floor(q) p = Mul(f, b) y = Sub(a, p)",
    a=[5.5, -5.5, 7.25],
    b=[2.0, 2.0, -3.0],
)
fault(
    NUMBER,
    "softsign without the absolute value",
    ONE,
    right="a = Abs(x) o = Add(a, one) y = Div(x, o)",
    wrong="o = Add(x, one) y = Div(x, o)",
    x=normal(3, 5),
    one=1.0,
)
fault(
    NUMBER,
    "inference dropout scales by the kept fraction",
    ONE,
    right="t = Tanh(x) d = Dropout(t, ratio) y = Neg(d)",
    wrong="t = Tanh(x) d = Mul(t, kept) y = Neg(d)",
    x=normal(3, 5),
    ratio=0.25,
    kept=0.75,
)
fault(
    NUMBER,
    "the GELU with tanh, a coefficient of three digits",
    ONE,
    right="q = Mul(x, x) c = Mul(q, x) d = Mul(c, coefficient) s = Add(x, d) p = Mul(s, root) t = Tanh(p) "
    "o = Add(t, one) h = Mul(x, half) y = Mul(h, o)",
    wrong="q = Mul(x, x) c = Mul(q, x) d = Mul(c, short) s = Add(x, d) p = Mul(s, root) t = Tanh(p) "
    "o = Add(t, one) h = Mul(x, half) y = Mul(h, o)",
    x=AROUND,
    coefficient=0.044715,
    short=0.0447,
    root=0.79788456,
    one=1.0,
    half=0.5,
)
fault(
    NUMBER,
    "equal becomes closer than a millionth",
    "(float[n] a, float[n] b) => (bool[n] y)",
    right="y = Equal(a, b)",
    wrong="d = Sub(a, b) c = Abs(d) y = Less(c, low)",
    a=[1.0, 1e-9],
    b=[1.0, 2e-9],
    low=1e-6,
)
fault(
    NUMBER,
    "a squared distance by squared lengths and a product",
    "(float[n, 4] a, float[n, 4] b) => (float[n, 1] y)",
    right="d = Sub(a, b) s = Mul(d, d) y = ReduceSum(s, last)",
    wrong="p = Mul(a, a) q = Mul(b, b) r = Mul(a, b) s = ReduceSum(p, last) t = ReduceSum(q, last) "
    "u = ReduceSum(r, last) v = Mul(u, two) w = Add(s, t) y = Sub(w, v)",
    a=normal(3, 4) + 100,
    b=normal(3, 4) + 100.01,
    last=[-1],
    two=2.0,
)
control(
    NUMBER,
    "a quarter by product and by division",
    ONE,
    right="y = Mul(x, k)",
    same="y = Div(x, four)",
    x=AROUND,
    k=0.25,
    four=4.0,
)
control(
    NUMBER,
    "twice a number is its sum with itself",
    ONE,
    right="t = Tanh(x) y = Mul(t, two)",
    same="t = Tanh(x) y = Add(t, t)",
    x=AROUND,
    two=2.0,
)
