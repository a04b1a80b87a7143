"""Integers: division of negatives, overflow, and casts from and to them.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import control, fault

INTEGER = "integers and casts"
TWO = "(int64[n] a, int64[n] b) => (int64[n] y)"
ONE = "(int64[n] x) => (int64[n] y)"
ONE32 = "(int32[n] x) => (int32[n] y)"
LEAST64 = -(2**63)

fault(
    INTEGER,
    "a remainder with the sign of the divisor from the truncated quotient",
    TWO,
    right="y = Mod(a, b)",
    wrong="q = Div(a, b) p = Mul(q, b) y = Sub(a, p)",
    a=[7, -7, 9],
    b=[3, 3, -4],
)
fault(
    INTEGER,
    "the remainder of C becomes that of Python",
    TWO,
    right="y = Mod<fmod = 1>(a, b)",
    wrong="y = Mod<fmod = 0>(a, b)",
    a=[7, -7, 9],
    b=[3, 3, -4],
)
fault(
    INTEGER,
    "the half of a sum becomes the sum of halves",
    TWO,
    right="s = Add(a, b) y = Div(s, two)",
    wrong="p = Div(a, two) q = Div(b, two) y = Add(p, q)",
    a=[4, 3],
    b=[2, 5],
    two=2,
)
fault(
    INTEGER,
    "rounding down before a cast is dropped",
    "(float[n] x) => (int64[n] y)",
    right="f = Floor(x) y = Cast<to = 7>(f)",
    wrong="y = Cast<to = 7>(x)",
    x=[1.5, -1.5],
)
fault(
    INTEGER,
    "limits before a cast to bytes are dropped",
    "(float[n] x) => (uint8[n] y)",
    right="c = Clip(x, zero, most) y = Cast<to = 2>(c)",
    wrong="y = Cast<to = 2>(x)",
    x=[3.0, 300.0],
    zero=0.0,
    most=255.0,
)
fault(
    INTEGER,
    "a cast that wraps around becomes one that saturates",
    "(int32[n] x) => (int8[n] y)",
    right="y = Cast<to = 3>(x)",
    wrong="c = Clip(x, lo, hi) y = Cast<to = 3>(c)",
    x=[3, 200, -129],
    lo=np.array(-128, np.int32),
    hi=np.array(127, np.int32),
)
fault(
    INTEGER,
    "the distance of two bytes is taken in bytes",
    "(uint8[n] a, uint8[n] b) => (int32[n] y)",
    right="p = Cast<to = 6>(a) q = Cast<to = 6>(b) d = Sub(p, q) y = Abs(d)",
    wrong="d = Sub(a, b) c = Cast<to = 6>(d) y = Abs(c)",
    a=[9, 3],
    b=[4, 5],
)
fault(
    INTEGER,
    "a cast to 32 bits and back is dropped",
    ONE,
    right="c = Cast<to = 6>(x) d = Cast<to = 7>(c) y = Abs(d)",
    wrong="y = Abs(x)",
    x=[3, 2**32 + 5],
)
fault(
    INTEGER,
    "a cast to bool and back is dropped",
    ONE,
    right="c = Cast<to = 9>(x) y = Cast<to = 7>(c)",
    wrong="y = Identity(x)",
    x=[0, 1, 2],
)
fault(
    INTEGER,
    "a quotient rounded up becomes one rounded down",
    TWO,
    right="s = Add(a, b) t = Sub(s, one) y = Div(t, b)",
    wrong="y = Div(a, b)",
    a=[8, 9],
    b=[4, 4],
    one=1,
)
fault(
    INTEGER,
    "a quotient rounded up by a product with 1/7",
    ONE,
    right="s = Add(x, six) y = Div(s, seven)",
    wrong="f = Cast<to = 1>(x) p = Mul(f, part) c = Ceil(p) y = Cast<to = 7>(c)",
    x=[6, 7, 8, 21, 49, 98],
    six=6,
    seven=7,
    part=1 / 7,
)
fault(
    INTEGER,
    "the last three bits become the remainder of C",
    ONE32,
    right="y = BitwiseAnd(x, seven)",
    wrong="y = Mod<fmod = 1>(x, eight)",
    x=[5, 13, -3],
    seven=np.array(7, np.int32),
    eight=np.array(8, np.int32),
)
fault(
    INTEGER,
    "a comparison by the sign of the difference",
    "(int32[n] a, int32[n] b) => (bool[n] y)",
    right="y = Less(a, b)",
    wrong="d = Sub(a, b) y = Less(d, zero)",
    a=[1, -(2**31)],
    b=[2, 1],
    zero=np.array(0, np.int32),
)
fault(
    INTEGER,
    "a product is widened too late",
    "(int32[n] x) => (int64[n] y)",
    right="w = Cast<to = 7>(x) y = Mul(w, w)",
    wrong="p = Mul(x, x) y = Cast<to = 7>(p)",
    x=[3, 100_000],
)
fault(
    INTEGER,
    "rounding to the nearest by a half and a cast",
    "(float[n] x) => (int32[n] y)",
    right="r = Round(x) y = Cast<to = 6>(r)",
    wrong="s = Add(x, half) y = Cast<to = 6>(s)",
    x=[1.2, 1.7, -1.2],
    half=0.5,
)
fault(
    INTEGER,
    "the least three by the largest three of the negatives",
    "(int64[n] x) => (int64[3] v, int64[3] i)",
    right="v, i = TopK<largest = 0, axis = 0>(x, three)",
    wrong="d = Neg(x) w, i = TopK<axis = 0>(d, three) v = Neg(w)",
    x=[5, LEAST64, 7, 1],
    three=[3],
)
fault(
    INTEGER,
    "the remainder by a large number is dropped",
    ONE,
    right="p = Mul(x, factor) y = Mod(p, prime)",
    wrong="y = Mul(x, factor)",
    x=[5, 60_000],
    factor=31,
    prime=1_000_003,
)
fault(
    INTEGER,
    "an average of bytes is rounded down instead of up",
    "(uint8[n] a, uint8[n] b) => (uint8[n] y)",
    right="p = Cast<to = 6>(a) q = Cast<to = 6>(b) s = Add(p, q) t = Add(s, one) h = Div(t, two) y = Cast<to = 2>(h)",
    wrong="p = Cast<to = 6>(a) q = Cast<to = 6>(b) s = Add(p, q) h = Div(s, two) y = Cast<to = 2>(h)",
    a=[4, 200],
    b=[6, 255],
    one=np.array(1, np.int32),
    two=np.array(2, np.int32),
)
control(
    INTEGER,
    "the last three bits are the remainder of Python",
    ONE32,
    right="y = BitwiseAnd(x, seven)",
    same="y = Mod(x, eight)",
    x=[5, 13, -3],
    seven=np.array(7, np.int32),
    eight=np.array(8, np.int32),
)
control(
    INTEGER,
    "for integers, less or equal is not greater",
    "(int32[n] a, int32[n] b) => (bool[n] y)",
    right="y = LessOrEqual(a, b)",
    same="g = Greater(a, b) y = Not(g)",
    a=[1, 2, 3],
    b=[2, 2, 2],
)
control(
    INTEGER,
    "a sign by two comparisons",
    ONE,
    right="y = Sign(x)",
    same="g = Greater(x, zero) l = Less(x, zero) p = Cast<to = 7>(g) q = Cast<to = 7>(l) y = Sub(p, q)",
    x=[-5, 0, LEAST64, 9],
    zero=0,
)
