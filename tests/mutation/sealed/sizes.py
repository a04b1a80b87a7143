"""Sizes: those of the sample input, empty tensors, sizes of 1, and sizes that are rounded.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import control, counting, fault, normal

SIZE = "sizes and broadcasting"

fault(
    SIZE,
    "a mean over columns divides by the 8 of the sample input",
    "(float[n, m] x) => (float[n, 1] y)",
    right="y = ReduceMean(x, last)",
    wrong="s = ReduceSum(x, last) y = Mul(s, eighth)",
    x=normal(2, 5),
    last=[-1],
    eighth=0.125,
)
fault(
    SIZE,
    "one axis is squeezed, and all others of size 1 with it",
    "(float[n, 1, 4] x) => (float[n, 4] y)",
    right="y = Squeeze(x, one)",
    wrong="y = Squeeze(x)",
    x=normal(1, 1, 4),
    one=[1],
)
fault(
    SIZE,
    "an empty list of axes reduces all axes",
    "(float[n, m] x, int64[k] axes) => (float[p, q] y)",
    right="y = ReduceSum<noop_with_empty_axes = 1>(x, axes)",
    wrong="y = ReduceSum(x, axes)",
    x=normal(2, 3),
    axes=np.zeros(0, np.int64),
)
fault(
    SIZE,
    "the number of elements is taken for that of rows",
    "(float[n, m] x) => (float[1, 1] y)",
    right="t = ReduceSum(x) k = Size(x) f = Cast<to = 1>(k) y = Div(t, f)",
    wrong="t = ReduceSum(x) z = Shape(x) k = Gather(z, zero) f = Cast<to = 1>(k) y = Div(t, f)",
    x=normal(3, 2) + 1,
    zero=0,
)
fault(
    SIZE,
    "the first half of an odd length is one shorter",
    "(float[n] x) => (float[k] y)",
    right="z = Shape(x) a = Add(z, one) h = Div(a, two) y = Slice(x, zero, h)",
    wrong="z = Shape(x) h = Div(z, two) y = Slice(x, zero, h)",
    x=counting(5),
    zero=[0],
    one=[1],
    two=[2],
)
fault(
    SIZE,
    "a length that is a multiple of 4 already gets 4 more",
    "(float[n] x) => (float[k] y)",
    right="z = Shape(x) r = Mod(z, four) d = Sub(four, r) e = Mod(d, four) p = Concat<axis = 0>(zero, e) y = Pad(x, p)",
    wrong="z = Shape(x) r = Mod(z, four) d = Sub(four, r) p = Concat<axis = 0>(zero, d) y = Pad(x, p)",
    x=counting(8),
    zero=[0],
    four=[4],
)
fault(
    SIZE,
    "every second element, without the last of an odd length",
    "(float[n] x) => (float[k] y)",
    right="y = Slice(x, zero, most, zero, two)",
    wrong="z = Shape(x) h = Div(z, two) e = Mul(h, two) y = Slice(x, zero, e, zero, two)",
    x=counting(5),
    zero=[0],
    two=[2],
    most=[2**62],
)
fault(
    SIZE,
    "seven columns in three parts are 3, 2 and 2",
    "(float[n, 7] x) => (float[n, p] a, float[n, q] b, float[n, r] c)",
    right="a, b, c = Split<axis = 1, num_outputs = 3>(x)",
    wrong="a, b, c = Split<axis = 1>(x, parts)",
    x=counting(2, 7),
    parts=[3, 2, 2],
)
fault(
    SIZE,
    "a batch that is merged for Gemm comes back as one item",
    "(float[b, s, 4] x) => (float[b, s, 3] y)",
    right="y = MatMul(x, w)",
    wrong="r = Reshape(x, rows) p = Gemm(r, w) y = Reshape(p, one)",
    x=normal(2, 3, 4),
    w=normal(4, 3, seed=1),
    rows=[-1, 4],
    one=[1, -1, 3],
)
fault(
    SIZE,
    "the mean of an image becomes one of windows of 7",
    "(float[b, 2, h, w] x) => (float[b, 2, p, q] y)",
    right="y = GlobalAveragePool(x)",
    wrong="y = AveragePool<kernel_shape = [7, 7]>(x)",
    x=normal(1, 2, 8, 9),
)
fault(
    SIZE,
    "a variance of n - 1 is guarded where there is one row",
    "(float[n, m] x) => (float[1, m] y)",
    right="a = ReduceMean(x, first) d = Sub(x, a) s = Mul(d, d) t = ReduceSum(s, first) z = Shape<end = 1>(x) "
    "k = Sub(z, one) f = Cast<to = 1>(k) y = Div(t, f)",
    wrong="a = ReduceMean(x, first) d = Sub(x, a) s = Mul(d, d) t = ReduceSum(s, first) z = Shape<end = 1>(x) "
    "k = Sub(z, one) l = Max(k, one) f = Cast<to = 1>(l) y = Div(t, f)",
    x=normal(1, 3),
    first=[0],
    one=[1],
)
fault(
    SIZE,
    "the shape of a broadcast result is that of its first operand",
    "(float[n, m] a, float[p, m] b) => (int64[2] y)",
    right="s = Add(a, b) y = Shape(s)",
    wrong="y = Shape(a)",
    a=normal(1, 3),
    b=normal(4, 3),
)
fault(
    SIZE,
    "a slice of one column becomes a Gather without the axis",
    "(float[b, n] x, float[b, n] t) => (float[b, n] y)",
    right="c = Slice(x, zero, one, one) y = Mul(t, c)",
    wrong="c = Gather<axis = 1>(x, scalar) y = Mul(t, c)",
    x=normal(3, 3),
    t=normal(3, 3, seed=1),
    zero=[0],
    one=[1],
    scalar=0,
)
fault(
    SIZE,
    "the size of a resize by 1.5 is rounded up",
    "(float[b, 1, n] x) => (float[b, 1, k] y)",
    right='y = Resize<mode = "linear">(x, , scales)',
    wrong='z = Shape(x) p = Mul(z, threes) q = Add(p, ones) s = Div(q, twos) y = Resize<mode = "linear">(x, , , s)',
    x=counting(1, 1, 5),
    scales=[1.0, 1.0, 1.5],
    threes=[1, 1, 3],
    ones=[0, 0, 1],
    twos=[1, 1, 2],
)
fault(
    SIZE,
    "pads below zero, which cut, become zero",
    "(float[n, m] x, int64[4] pads) => (float[p, q] y)",
    right="y = Pad(x, pads)",
    wrong="c = Max(pads, none) y = Pad(x, c)",
    x=counting(3, 4),
    pads=[0, 1, 0, -1],
    none=[0],
)
fault(
    SIZE,
    "a Flatten at axis 2 becomes one at axis 1",
    "(float[2, n, 4] x) => (float[p, q] y)",
    right="y = Flatten<axis = 2>(x)",
    wrong="y = Flatten<axis = 1>(x)",
    x=counting(2, 3, 4),
)
fault(
    SIZE,
    "a limit of 512 tokens is dropped",
    "(float[n, 2] x) => (float[k, 2] y)",
    right="s = Slice(x, zero, most) y = Tanh(s)",
    wrong="y = Tanh(x)",
    x=normal(514, 2),
    zero=[0],
    most=[512],
)
control(
    SIZE,
    "the mean of an image by its two axes",
    "(float[b, 2, h, w] x) => (float[b, 2, 1, 1] y)",
    right="y = GlobalAveragePool(x)",
    same="y = ReduceMean(x, axes)",
    x=normal(1, 2, 8, 9),
    axes=[2, 3],
)
control(
    SIZE,
    "two slices become one",
    "(float[n] x) => (float[k] y)",
    right="a = Slice(x, one, most) y = Slice(a, two, most)",
    same="y = Slice(x, three, most)",
    x=counting(6),
    one=[1],
    two=[2],
    three=[3],
    most=[2**62],
)
