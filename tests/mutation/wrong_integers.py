"""Wrong rules on whole numbers: narrow dtypes, comparisons, magnitudes between the usual ones and the limits."""

from __future__ import annotations

import numpy as np

from tests.mutation.planting import INTEGER, plant_text

plant_text(
    INTEGER,
    "half of the range of uint16 lost",
    "(uint16[n] x) => (float[n] y) ",
    "{ y = Cast<to = 1>(x) }",
    "{ a = Cast<to = 5>(x) y = Cast<to = 1>(a) }",
)
plant_text(
    INTEGER,
    "int16 through float16",
    "(int16[n] x) => (float[n] y) ",
    "{ y = Cast<to = 1>(x) }",
    "{ a = Cast<to = 10>(x) y = Cast<to = 1>(a) }",
)
plant_text(
    INTEGER,
    "uint64 compared as int64",
    "(uint64[n] a, uint64[n] b) => (bool[n] y) ",
    "{ y = Less(a, b) }",
    "{ c = Cast<to = 7>(a) d = Cast<to = 7>(b) y = Less(c, d) }",
)
for number, dtype in ((1, "float32"), (6, "int32")):
    plant_text(
        INTEGER,
        f"int64 compared as {dtype}",
        "(int64[n] a, int64[n] b) => (bool[n] y) ",
        "{ y = Equal(a, b) }",
        f"{{ c = Cast<to = {number}>(a) d = Cast<to = {number}>(b) y = Equal(c, d) }}",
    )
plant_text(
    INTEGER,
    "a constant beyond 2^24 compared as float32",
    "(int32[n] x) => (bool[n] y) ",
    "{ y = Equal(x, k) }",
    "{ a = Cast<to = 1>(x) y = Equal(a, f) }",
    k=np.array(16777217, np.int32),
    f=np.array(16777216, np.float32),
)
plant_text(
    INTEGER,
    "a shift to the right becomes a signed division",
    "(uint32[n] x) => (uint32[n] y) ",
    '{ y = BitShift<direction = "RIGHT">(x, k) }',
    "{ a = Cast<to = 6>(x) b = Div(a, d) y = Cast<to = 12>(b) }",
    k=np.array(4, np.uint32),
    d=np.array(16, np.int32),
)
plant_text(
    INTEGER,
    "numbers above 0 alone are true",
    "(int32[n] x) => (bool[n] y) ",
    "{ y = Cast<to = 9>(x) }",
    "{ y = Greater(x, z) }",
    z=np.array(0, np.int32),
)
for low, high in ((2000, 1 << 30), (1 << 32, 1 << 50), (1 << 50, 1 << 62)):
    plant_text(
        INTEGER,
        f"wrong between {low:g} and {high:g}",
        "(int64[n] x) => (int64[n] y) ",
        "{ y = Add(x, one) }",
        "{ a = Add(x, one) c = Greater(x, low) d = Less(x, high) e = And(c, d) b = Add(a, one) y = Where(e, b, a) }",
        one=np.array(1, np.int64),
        low=np.array(low, np.int64),
        high=np.array(high, np.int64),
    )
plant_text(
    INTEGER,
    "what is true is told from half of the bits",
    "(int64[n] x) => (bool[n] y) ",
    "{ y = Cast<to = 9>(x) }",
    "{ a = Cast<to = 6>(x) y = Cast<to = 9>(a) }",
)
plant_text(
    INTEGER,
    "wrong for the least number alone",
    "(int64[n] x) => (int64[n] y) ",
    "{ y = Sub(x, one) }",
    "{ a = Sub(x, one) e = Equal(x, least) y = Where(e, one, a) }",
    one=np.array(1, np.int64),
    least=np.array(np.iinfo(np.int64).min, np.int64),
)
plant_text(
    INTEGER,
    "of a length below 0 its size is taken",
    "(int64[b] l) => (bool[b, 6] y) ",
    "{ c = Unsqueeze(l, last) y = Less(places, c) }",
    "{ a = Abs(l) c = Unsqueeze(a, last) y = Less(places, c) }",
    last=np.array([1]),
    places=np.arange(6),
)
