"""Quantization: zero points, scales, axes, saturation and packing.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import control, fault, normal

QUANT = "quantization"
BYTES = "(uint8[n, 4] x) => (float[n, 4] y)"
FLOATS = "(float[n, 4] x) => (float[n, 4] y)"
INTEGER = "(uint8[n, 4] a) => (int32[n, 3] y)"
SCALES = np.array([0.1, 0.2, 0.4, 0.8], np.float32)
W = np.random.default_rng(1).integers(-128, 128, (4, 4)).astype(np.int8)
UNSIGNED = np.random.default_rng(2).integers(0, 256, (4, 3)).astype(np.uint8)
GIVEN = np.array([[0, 3, 130, 255], [9, 200, 40, 128]])

fault(
    QUANT,
    "a zero point of 128 is lost",
    BYTES,
    right="y = DequantizeLinear(x, s, z)",
    wrong="c = Cast<to = 1>(x) y = Mul(c, s)",
    x=GIVEN,
    s=0.05,
    z=np.array(128, np.uint8),
)
fault(
    QUANT,
    "square weights have scales by row and not by column",
    FLOATS,
    right="d = DequantizeLinear<axis = 1>(w, s) y = MatMul(x, d)",
    wrong="d = DequantizeLinear<axis = 0>(w, s) y = MatMul(x, d)",
    x=normal(2, 4),
    w=W,
    s=SCALES,
)
fault(
    QUANT,
    "a QuantizeLinear and DequantizeLinear pair is removed",
    FLOATS,
    right="t = Tanh(x) q = QuantizeLinear(t, s, z) d = DequantizeLinear(q, s, z) y = Relu(d)",
    wrong="t = Tanh(x) y = Relu(t)",
    x=normal(2, 4),
    s=0.02,
    z=np.array(3, np.int8),
)
fault(
    QUANT,
    "a change of quantization scale is removed",
    "(int8[n, 4] x) => (int8[n, 4] y)",
    right="d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, t, z)",
    wrong="y = Identity(x)",
    x=[[4, -100, 7, 50]],
    s=0.02,
    t=0.03,
    z=np.array(0, np.int8),
)
fault(
    QUANT,
    "bytes become signed ones without the shift by 128",
    "(uint8[n, 4] x) => (int8[n, 4] y)",
    right="c = Cast<to = 6>(x) d = Sub(c, shift) y = Cast<to = 3>(d)",
    wrong="y = Cast<to = 3>(x)",
    x=GIVEN,
    shift=np.array(128, np.int32),
)
fault(
    QUANT,
    "the zero points of two factors change places",
    INTEGER,
    right="y = MatMulInteger(a, w, za, zb)",
    wrong="y = MatMulInteger(a, w, zb, za)",
    a=GIVEN,
    w=UNSIGNED,
    za=np.array(7, np.uint8),
    zb=np.array(120, np.uint8),
)
fault(
    QUANT,
    "a dynamic quantization range need not include zero",
    "(float[n] x) => (float y)",
    right="q, y, z = DynamicQuantizeLinear(x)",
    wrong="a = ReduceMax<keepdims = 0>(x) b = ReduceMin<keepdims = 0>(x) d = Sub(a, b) y = Div(d, full)",
    x=[10.0, 20.0],
    full=255.0,
)
fault(
    QUANT,
    "a saturation at -128 becomes one at -127",
    "(float[n, 4] x) => (int8[n, 4] y)",
    right="y = QuantizeLinear(x, s, z)",
    wrong="c = Max(x, least) y = QuantizeLinear(c, s, z)",
    x=[[1.0, -128.0, -200.0, 3.0]],
    s=1.0,
    z=np.array(0, np.int8),
    least=-127.0,
)
fault(
    QUANT,
    "the bias of an integer product is scaled by one of two scales",
    "(uint8[n, 4] a) => (float[n, 3] y)",
    right="p = MatMulInteger(a, w) s = Add(p, bias) c = Cast<to = 1>(s) d = Mul(c, sa) y = Mul(d, sb)",
    wrong="p = MatMulInteger(a, w) c = Cast<to = 1>(p) d = Mul(c, sa) e = Mul(d, sb) f = Cast<to = 1>(bias) "
    "h = Mul(f, sa) y = Add(e, h)",
    a=GIVEN,
    w=UNSIGNED,
    bias=np.array([100, -2000, 30_000], np.int32),
    sa=0.05,
    sb=0.01,
)
fault(
    QUANT,
    "a sum of products of bytes is kept in 16 bits",
    INTEGER,
    right="y = MatMulInteger(a, w)",
    wrong="p = MatMulInteger(a, w) h = Cast<to = 5>(p) y = Cast<to = 6>(h)",
    a=GIVEN,
    w=UNSIGNED,
)
fault(
    QUANT,
    "scales of blocks are repeated as a whole",
    "(float[n, 4] x, int8[4, 6] w, float[2, 6] s) => (float[n, 6] y)",
    right="f = Cast<to = 1>(w) u = Unsqueeze(s, one) c = Concat<axis = 1>(u, u) e = Reshape(c, rows) d = Mul(f, e) "
    "y = MatMul(x, d)",
    wrong="f = Cast<to = 1>(w) e = Concat<axis = 0>(s, s) d = Mul(f, e) y = MatMul(x, d)",
    x=normal(2, 4),
    w=np.arange(24).reshape(4, 6) - 12,
    s=np.abs(normal(2, 6, seed=1)) + 0.1,
    one=[1],
    rows=[-1, 6],
)
fault(
    QUANT,
    "two nibbles of a byte are unpacked in the other order",
    "(uint8[n, m] x) => (uint8[n, k] y)",
    right='l = BitwiseAnd(x, low) h = BitShift<direction = "RIGHT">(x, four) a = Unsqueeze(l, two) '
    "b = Unsqueeze(h, two) c = Concat<axis = 2>(a, b) y = Reshape(c, flat)",
    wrong='l = BitwiseAnd(x, low) h = BitShift<direction = "RIGHT">(x, four) a = Unsqueeze(l, two) '
    "b = Unsqueeze(h, two) c = Concat<axis = 2>(b, a) y = Reshape(c, flat)",
    x=GIVEN,
    low=np.array(15, np.uint8),
    four=np.array(4, np.uint8),
    two=[2],
    flat=[0, -1],
)
fault(
    QUANT,
    "a zero point is subtracted in bytes",
    BYTES,
    right="c = Cast<to = 6>(x) d = Sub(c, wide) f = Cast<to = 1>(d) y = Mul(f, s)",
    wrong="d = Sub(x, narrow) f = Cast<to = 1>(d) y = Mul(f, s)",
    x=GIVEN,
    wide=np.array(100, np.int32),
    narrow=np.array(100, np.uint8),
    s=0.05,
)
fault(
    QUANT,
    "a zero point is added before the scale",
    "(float[n, 4] x) => (uint8[n, 4] y)",
    right="y = QuantizeLinear(x, s, z)",
    wrong="c = Add(x, point) y = QuantizeLinear(c, s, none)",
    x=normal(2, 4),
    s=0.05,
    z=np.array(100, np.uint8),
    none=np.array(0, np.uint8),
    point=100.0,
)
control(
    QUANT,
    "the lower half of a byte is its remainder",
    "(uint8[n, m] x) => (uint8[n, m] y)",
    right="y = BitwiseAnd(x, low)",
    same="y = Mod(x, base)",
    x=GIVEN,
    low=np.array(15, np.uint8),
    base=np.array(16, np.uint8),
)
control(
    QUANT,
    "bytes by a cast, a difference and a product",
    BYTES,
    right="y = DequantizeLinear(x, s, z)",
    same="c = Cast<to = 6>(x) d = Sub(c, wide) f = Cast<to = 1>(d) y = Mul(f, s)",
    x=GIVEN,
    s=0.05,
    z=np.array(100, np.uint8),
    wide=np.array(100, np.int32),
)
