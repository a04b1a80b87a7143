"""Wrong rules on numbers: where they jump, at their edges and magnitudes, beside large ones, and in weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.mutation.planting import EDGE, JUMP, LARGE, MAGNITUDE, SCALE, WEIGHT, X, plant, tampered

LOWEST = float(np.finfo(np.float32).min)


def half_up(g: Any, x: Any) -> Any:
    """Round with ties upwards, where ONNX rounds them to even."""
    return g.floor(g.add(x, 0.5))


def fake(g: Any, x: Any, rounded: Callable[..., Any], low: float = -128.0, high: float = 127.0) -> Any:
    """Fake quantization with a scale of 0.1."""
    return g.mul(g.clip(rounded(g.div(x, 0.1)), low, high), 0.1)


plant(JUMP, "round half up", X + "{ y = Round(x) }", lambda g, x: g.round(x), half_up)
plant(
    JUMP,
    "round half away from zero",
    X + "{ y = Round(x) }",
    lambda g, x: g.round(x),
    lambda g, x: g.mul(g.sign(x), g.floor(g.add(g.abs(x), 0.5))),
)
plant(
    JUMP,
    "quantize half up",
    X + "<float s = {0.25}> { d = Div(x, s) r = Round(d) y = Mul(r, s) }",
    lambda g, x: g.mul(g.round(g.div(x, 0.25)), 0.25),
    lambda g, x: g.mul(half_up(g, g.div(x, 0.25)), 0.25),
)
FAKE = (
    X + "<float s = {0.1}, float a = {-128.0}, float b = {127.0}> "
    "{ d = Div(x, s) r = Round(d) c = Clip(r, a, b) y = Mul(c, s) }"
)
plant(
    JUMP,
    "fake quantization half up",
    FAKE,
    lambda g, x: fake(g, x, g.round),
    lambda g, x: fake(g, x, lambda t: half_up(g, t)),
)
plant(JUMP, "fake quantization by floor", FAKE, lambda g, x: fake(g, x, g.round), lambda g, x: fake(g, x, g.floor))
plant(
    JUMP,
    "fake quantization, one level less",
    FAKE,
    lambda g, x: fake(g, x, g.round),
    lambda g, x: fake(g, x, g.round, high=126.0),
)
plant(
    JUMP,
    "fake quantization, scale 1 % off",
    FAKE,
    lambda g, x: fake(g, x, g.round),
    lambda g, x: g.mul(g.clip(g.round(g.div(x, 0.101)), -128.0, 127.0), 0.101),
)
plant(
    JUMP,
    "quantize linear half up",
    "(float[n, 8] x) => (float[n, 8] y) <float s = {0.5}, uint8 z = {3}> "
    "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
    lambda g, x: g.dequantize_linear(g.quantize_linear(x, 0.5, g.literal(np.uint8(3))), 0.5, g.literal(np.uint8(3))),
    lambda g, x: g.mul(g.sub(g.clip(g.add(half_up(g, g.div(x, 0.5)), 3.0), 0.0, 255.0), 3.0), 0.5),
)
plant(
    JUMP,
    "quantize linear, the zero point added first",
    "(float[n, 8] x) => (float[n, 8] y) <float s = {0.5}, uint8 z = {3}> "
    "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
    lambda g, x: g.dequantize_linear(g.quantize_linear(x, 0.5, g.literal(np.uint8(3))), 0.5, g.literal(np.uint8(3))),
    lambda g, x: g.mul(g.sub(g.clip(g.round(g.add(g.div(x, 0.5), 3.0)), 0.0, 255.0), 3.0), 0.5),
)
plant(
    JUMP,
    "at least becomes more than, a constant",
    X
    + "<float c = {0.5}> { g = GreaterOrEqual(x, c) y = Where(g, x, c2) c2 = Neg(x) }".replace(
        "y = Where(g, x, c2) c2 = Neg(x)", "k = Neg(x) y = Where(g, x, k)"
    ),
    lambda g, x: g.where(g.greater_or_equal(x, 0.5), x, g.neg(x)),
    lambda g, x: g.where(g.greater(x, 0.5), x, g.neg(x)),
)
plant(
    JUMP,
    "at least becomes more than, a step at zero",
    X + "<float c = {0.0}> { g = GreaterOrEqual(x, c) y = Cast<to = 1>(g) }",
    lambda g, x: g.cast(g.greater_or_equal(x, 0.0), to=1),
    lambda g, x: g.cast(g.greater(x, 0.0), to=1),
)
plant(
    JUMP,
    "at least becomes more than, two inputs",
    "(float[n, m] x, float[n, m] w) => (float[n, m] y) { g = GreaterOrEqual(x, w) y = Cast<to = 1>(g) }",
    lambda g, x, w: g.cast(g.greater_or_equal(x, w), to=1),
    lambda g, x, w: g.cast(g.greater(x, w), to=1),
)
plant(
    JUMP,
    "ceil becomes floor plus 1",
    X + "{ y = Ceil(x) }",
    lambda g, x: g.ceil(x),
    lambda g, x: g.add(g.floor(x), 1.0),
)
plant(
    JUMP,
    "ceil of a scaled number",
    X + "<float c = {0.3}> { t = Mul(x, c) y = Ceil(t) }",
    lambda g, x: g.ceil(g.mul(x, 0.3)),
    lambda g, x: g.add(g.floor(g.mul(x, 0.3)), 1.0),
)
plant(
    JUMP,
    "sign of zero is one",
    X + "{ y = Sign(x) }",
    lambda g, x: g.sign(x),
    lambda g, x: g.sub(1.0, g.mul(g.cast(g.less(x, 0.0), to=1), 2.0)),
)
plant(
    JUMP,
    "floor by truncation",
    X + "{ y = Floor(x) }",
    lambda g, x: g.floor(x),
    lambda g, x: g.cast(g.cast(x, to=6), to=1),
)
plant(
    JUMP,
    "last of equal maxima",
    "(float[n, m] x) => (int64[n, 1] y) { y = ArgMax<axis = 1>(x) }",
    lambda g, x: g.arg_max(x, axis=1),
    lambda g, x: g.arg_max(x, axis=1, select_last_index=1),
)

SPARSE = np.where(np.arange(LARGE) % 7 == 3, 0.0, 1.5).astype(np.float32)
HOLED = np.where(np.arange(LARGE) % 11 == 5, np.nan, 1.5).astype(np.float32)
WIDE = f"(float[n, {LARGE}] x) => (float[n, {LARGE}] y) "
plant(
    WEIGHT,
    "x w / w, zeros in w",
    WIDE + "{ t = Mul(x, w) y = Div(t, w) }",
    lambda g, x, w: g.div(g.mul(x, w), w),
    lambda g, x: g.identity(x),
    w=SPARSE,
)
plant(
    WEIGHT,
    "the causal mask of a float buffer lost",
    "(float[b, h, 80, 80] x) => (float[b, h, 80, 80] y) <float low = {-1e30}> "
    "{ m = Cast<to = 9>(w) t = Where(m, x, low) y = Softmax<axis = -1>(t) }",
    lambda g, x, w: g.softmax(g.where(g.cast(w, to=9), x, -1e30), axis=-1),
    lambda g, x: g.softmax(x, axis=-1),
    w=np.tril(np.ones((1, 1, 80, 80), np.float32)),
)
plant(
    WEIGHT,
    "a guard against NaN in a weight dropped",
    WIDE + "<float zero = {0.0}> { n = IsNaN(w) c = Where(n, zero, w) y = Mul(x, c) }",
    lambda g, x, w: g.mul(x, g.where(g.isnan(w), 0.0, w)),
    lambda g, x, w: g.mul(x, w),
    w=HOLED,
)
plant(
    WEIGHT,
    "absolute values of a weight dropped, one is negative",
    WIDE + "{ a = Abs(w) s = Sqrt(a) y = Mul(x, s) }",
    lambda g, x, w: g.mul(x, g.sqrt(g.abs(w))),
    lambda g, x, w: g.mul(x, g.sqrt(w)),
    w=np.where(np.arange(LARGE) == 17, -2.0, 2.0).astype(np.float32),
)
plant(
    WEIGHT,
    "a limit of a weight dropped",
    WIDE + "<float low = {-50.0}, float high = {50.0}> { c = Clip(w, low, high) y = Mul(x, c) }",
    lambda g, x, w: g.mul(x, g.clip(w, -50.0, 50.0)),
    lambda g, x, w: g.mul(x, w),
    w=np.where(np.arange(LARGE) == 17, 1000.0, 2.0).astype(np.float32),
)
plant(
    WEIGHT,
    "an integer table is taken for even",
    f"(float[n, {LARGE}] x) => (float[n, {LARGE}] y) <int64 two = {{2}}> "
    "{ k = Mod(w, two) s = Sub(w, k) f = Cast<to = 1>(s) y = Mul(x, f) }",
    lambda g, x, w: g.mul(x, g.cast(g.sub(w, g.mod(w, 2)), to=1)),
    lambda g, x, w: g.mul(x, g.cast(w, to=1)),
    w=np.where(np.arange(LARGE) == 17, 3, 2).astype(np.int64),
)

for low in (LOWEST, -1e30):
    text = (
        f"(float[n, m] x, bool[n, m] keep) => (float[n, m] y) <float low = {{{low!r}}}> {{ y = Where(keep, x, low) }}"
    )
    plant(
        SCALE,
        f"what stands beside {low:.3g}",
        text,
        lambda g, x, keep, low=low: g.where(keep, x, low),
        lambda g, x, keep, low=low: g.where(keep, g.mul(x, 1.5), low),
    )
plant(
    SCALE,
    "what stands beside a large column",
    "(float[n, 2] x) => (float[n, 2] y) <float[2] s = {1.0, 1e8}> { y = Mul(x, s) }",
    lambda g, x: g.mul(x, g.literal(np.array([1, 1e8], np.float32))),
    lambda g, x: g.mul(x, g.literal(np.array([1.01, 1e8], np.float32))),
)
plant(
    SCALE,
    "a small part of a concatenation",
    "(float[n, 4] x) => (float[n, 8] y) <float s = {1e9}> { b = Mul(x, s) y = Concat<axis = 1>(b, x) }",
    lambda g, x: g.concat(g.mul(x, 1e9), x, axis=1),
    lambda g, x: g.concat(g.mul(x, 1e9), g.mul(x, 1.5), axis=1),
)

for name, low, high in (
    ("2e4 < |x| < 1e15", 2e4, 1e15),
    ("|x| < 1e-5", 0.0, 1e-5),
    ("1e-20 < |x| < 1e-12", 1e-20, 1e-12),
    ("1e20 < |x| < 1e30", 1e20, 1e30),
    ("200 < |x| < 1000", 200.0, 1000.0),
):
    plant(
        MAGNITUDE,
        f"wrong for {name}",
        X + "{ y = Neg(x) }",
        lambda g, x: g.neg(x),
        lambda g, x, a=low, b=high: tampered(g, g.neg(x), g.and_(g.greater(g.abs(x), a), g.less(g.abs(x), b))),
    )
plant(
    MAGNITUDE,
    "a limit of 1e15",
    X + "{ y = Neg(x) }",
    lambda g, x: g.neg(x),
    lambda g, x: g.neg(g.clip(x, -1e15, 1e15)),
)
plant(MAGNITUDE, "an offset of 1e-6", X + "{ y = Neg(x) }", lambda g, x: g.neg(x), lambda g, x: g.sub(-1e-6, x))
plant(
    MAGNITUDE,
    "a sum with 1e-6 left out",
    X + "<float e = {1e-6}> { y = Add(x, e) }",
    lambda g, x: g.add(x, 1e-6),
    lambda g, x: g.identity(x),
)
plant(
    MAGNITUDE,
    "log1p by log",
    X + "<float one = {1.0}> { a = Abs(x) k = Softplus(a) y = Neg(k) }",
    lambda g, x: g.neg(g.softplus(g.abs(x))),
    lambda g, x: g.neg(g.add(g.abs(x), g.log(g.add(1.0, g.exp(g.mul(g.abs(x), -1.001)))))),
)

plant(
    EDGE,
    "the root of a square is the number",
    X + "{ q = Mul(x, x) y = Sqrt(q) }",
    lambda g, x: g.sqrt(g.mul(x, x)),
    lambda g, x: g.identity(x),
)
for dtype, least in (("float", np.float32(LOWEST)), ("float16", np.float16(-65504))):
    plant(
        EDGE,
        f"a bound at the least number is lost, {dtype}",
        f"({dtype}[n, m] x) => ({dtype}[n, m] y) {{ y = Max(x, k) }}",
        lambda g, x, number=float(least): g.max(x, number),
        lambda g, x: g.identity(x),
        k=least,
    )
plant(
    EDGE,
    "x / x is one",
    X + "{ y = Div(x, x) }",
    lambda g, x: g.div(x, x),
    lambda g, x: g.div(g.add(g.abs(x), 1.0), g.add(g.abs(x), 1.0)),
)
plant(
    EDGE,
    "x times zero is zero",
    X + "<float z = {0.0}> { y = Mul(x, z) }",
    lambda g, x: g.mul(x, 0.0),
    lambda g, x: g.mul(g.cast(g.isnan(g.cast(g.cast(x, to=6), to=1)), to=1), 0.0),
)
plant(
    EDGE,
    "wrong between two constants that lie close together",
    "(float[n, m] x) => (float[n, m] y) { y = Relu(x) }",
    lambda g, x: g.relu(x),
    lambda g, x: g.where(g.and_(g.greater(x, 3.0), g.less(x, 3.01)), 0.0, g.relu(x)),
)
plant(
    EDGE,
    "boxes that overlap by a half and a bit are kept",
    "(float[1,n,4] b, float[1,c,n] s) => (int64[k,3] y) <int64 m={3}, float t={0.5}> {y = NonMaxSuppression(b,s,m,t)}",
    lambda g, b, s: g.non_max_suppression(b, s, np.array(3), 0.5),
    lambda g, b, s: g.non_max_suppression(b, s, np.array(3), 0.55),
)
plant(
    EDGE,
    "softplus is the number from 5 on",
    "(float[n] x) => (float[n] y) { y = Softplus(x) }",
    lambda g, x: g.softplus(x),
    lambda g, x: g.where(g.greater(x, 5.0), x, g.softplus(x)),
)
plant(
    EDGE,
    "NaN becomes the other side",
    X + "<float z = {0.0}> { y = Max(x, z) }",
    lambda g, x: g.max(x, 0.0),
    lambda g, x: g.where(g.greater(x, 0.0), x, 0.0),
)
plant(
    EDGE,
    "the exact GELU becomes that with tanh",
    X + "<float r = {1.4142135}, float one = {1.0}, float h = {0.5}> "
    "{ d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, h) }",
    lambda g, x: g.mul(g.mul(x, g.add(g.erf(g.div(x, 2**0.5)), 1.0)), 0.5),
    lambda g, x: g.mul(
        g.mul(x, 0.5), g.add(1.0, g.tanh(g.mul((2 / np.pi) ** 0.5, g.add(x, g.mul(0.044715, g.pow(x, 3.0))))))
    ),
)
plant(
    EDGE,
    "a variance without its epsilon",
    "(float[n, 8] x) => (float[n, 8] y) <float e = {1e-5}> "
    "{ q = Mul(x, x) m = ReduceMean(q, k) a = Add(m, e) s = Sqrt(a) y = Div(x, s) }",
    lambda g, x: g.div(x, g.sqrt(g.add(g.reduce_mean(g.mul(x, x), axes=[-1]), 1e-5))),
    lambda g, x: g.div(x, g.sqrt(g.reduce_mean(g.mul(x, x), axes=[-1]))),
    k=np.array([-1], np.int64),
)
