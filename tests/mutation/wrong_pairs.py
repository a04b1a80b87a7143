"""Wrong rules that are wrong for what two inputs are at once: equal, NaN beside a usual number, infinity by zero."""

from __future__ import annotations

import numpy as np

from tests.mutation.planting import EDGE, plant_text

NONE = np.array(0, np.float32)
for dims in ("n", "n, m"):
    TWO = f"(float[{dims}] a, float[{dims}] b) => (float[{dims}] y) "
    plant_text(
        EDGE,
        f"NaN of the second of two [{dims}] is lost",
        TWO,
        "{ y = Max(a, b) }",
        "{ c = Greater(b, a) y = Where(c, b, a) }",
    )
    plant_text(
        EDGE,
        f"infinity by zero is zero, of two [{dims}]",
        TWO,
        "{ y = Mul(a, b) }",
        "{ p = Mul(a, b) e = Equal(b, z) y = Where(e, z, p) }",
        z=NONE,
    )
    plant_text(
        EDGE,
        f"infinities of both signs add up to the first, of two [{dims}]",
        TWO,
        "{ y = Add(a, b) }",
        "{ s = Add(a, b) i = IsInf(a) j = IsInf(b) k = And(i, j) n1 = IsNaN(s) w = And(k, n1) y = Where(w, a, s) }",
    )
plant_text(
    EDGE,
    "wrong where two numbers are equal",
    "(float[n, m] a, float[n, m] b) => (float[n, m] y) ",
    "{ y = Add(a, b) }",
    "{ s = Add(a, b) e = Equal(a, b) d = Mul(s, h) y = Where(e, d, s) }",
    h=np.array(1.5, np.float32),
)
plant_text(
    EDGE,
    "NaN of the last of three is lost",
    "(float[n] a, float[n] b, float[n] c) => (float[n] y) ",
    "{ y = Max(a, b, c) }",
    "{ m = Max(a, b) k = Greater(c, m) y = Where(k, c, m) }",
)
plant_text(
    EDGE,
    "wrong where a number equals that of its column",
    "(float[n, m] a, float[m] b) => (float[n, m] y) ",
    "{ y = Add(a, b) }",
    "{ s = Add(a, b) e = Equal(a, b) d = Mul(s, h) y = Where(e, d, s) }",
    h=np.array(1.5, np.float32),
)
