"""Axes, layouts and the order of operands.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

from tests.mutation.sealing import control, counting, fault, normal

AXIS = "axes and operands"
SQUARE = "(float[n, n] x) => (float[n, n] y)"
ROWS = "(float[n, 4] x) => (float[n, 4] y)"
W, BIAS = normal(4, 4, seed=1), normal(4, seed=2)

fault(
    AXIS,
    "a sum goes over the other axis of a square",
    "(float[n, n] x) => (float[n] y)",
    right="y = ReduceSum<keepdims = 0>(x, last)",
    wrong="y = ReduceSum<keepdims = 0>(x, first)",
    x=normal(3, 3),
    last=[1],
    first=[0],
)
fault(
    AXIS,
    "a mean of rows loses its axis and is taken off columns",
    SQUARE,
    right="m = ReduceMean(x, last) y = Sub(x, m)",
    wrong="m = ReduceMean<keepdims = 0>(x, last) y = Sub(x, m)",
    x=normal(3, 3),
    last=[1],
)
fault(
    AXIS,
    "square weights are transposed in Gemm",
    ROWS,
    right="p = MatMul(x, w) y = Add(p, c)",
    wrong="y = Gemm<transB = 1>(x, w, c)",
    x=normal(3, 4),
    w=W,
    c=BIAS,
)
fault(
    AXIS,
    "a transposed product keeps the order of its factors",
    "(float[n, n] a, float[n, n] b) => (float[n, n] y)",
    right="p = MatMul(a, b) y = Transpose<perm = [1, 0]>(p)",
    wrong="s = Transpose<perm = [1, 0]>(a) t = Transpose<perm = [1, 0]>(b) y = MatMul(s, t)",
    a=normal(3, 3),
    b=normal(3, 3, seed=1),
)
fault(
    AXIS,
    "an equation of einsum with the letters of the second factor exchanged",
    "(float[b, 4, 4] p, float[b, 4, 4] q) => (float[b, 4, 4] y)",
    right='y = Einsum<equation = "bij,bkj->bik">(p, q)',
    wrong='y = Einsum<equation = "bij,bjk->bik">(p, q)',
    p=normal(2, 4, 4),
    q=normal(2, 4, 4, seed=1),
)
fault(
    AXIS,
    "einsum gives its result transposed",
    "(float[b, n, 3] p, float[b, n, 3] q) => (float[b, n, n] y)",
    right='y = Einsum<equation = "bid,bjd->bij">(p, q)',
    wrong='y = Einsum<equation = "bid,bjd->bji">(p, q)',
    p=normal(2, 4, 3),
    q=normal(2, 4, 3, seed=1),
)
fault(
    AXIS,
    "two axes are exchanged by a new shape",
    "(float[n, 3, 4] x) => (float[n, 4, 3] y)",
    right="y = Transpose<perm = [0, 2, 1]>(x)",
    wrong="y = Reshape(x, shape)",
    x=counting(2, 3, 4),
    shape=[0, 4, 3],
)
fault(
    AXIS,
    "two permutations are composed in the other order",
    "(float[n, n, n] x) => (float[n, n, n] y)",
    right="t = Transpose<perm = [1, 2, 0]>(x) y = Transpose<perm = [1, 0, 2]>(t)",
    wrong="y = Transpose<perm = [0, 2, 1]>(x)",
    x=counting(2, 2, 2),
)
fault(
    AXIS,
    "halves that are joined in the other order are taken for the whole",
    "(float[n, 6] x) => (float[n, 6] y)",
    right="a, b = Split<axis = 1, num_outputs = 2>(x) j = Concat<axis = 1>(b, a) y = Relu(j)",
    wrong="y = Relu(x)",
    x=counting(2, 6),
)
fault(
    AXIS,
    "a Slice loses its axes",
    "(float[n, m] x) => (float[p, q] y)",
    right="y = Slice(x, one, three, one)",
    wrong="y = Slice(x, one, three)",
    x=counting(3, 3),
    one=[1],
    three=[3],
)
fault(
    AXIS,
    "a softmax over all trailing axes becomes one over the first of them",
    "(float[n, 3, m] x) => (float[n, 3, m] y)",
    right="f = Flatten<axis = 1>(x) s = Softmax<axis = -1>(f) z = Shape(x) y = Reshape(s, z)",
    wrong="y = Softmax<axis = 1>(x)",
    x=normal(2, 3, 4),
)
fault(
    AXIS,
    "a number less a tensor becomes the tensor less the number",
    ROWS,
    right="s = Sigmoid(x) y = Sub(one, s)",
    wrong="s = Sigmoid(x) y = Sub(s, one)",
    x=normal(3, 4),
    one=1.0,
)
fault(
    AXIS,
    "DepthToSpace reads the channels in the other order",
    "(float[b, 8, h, w] x) => (float[b, 2, p, q] y)",
    right='y = DepthToSpace<blocksize = 2, mode = "CRD">(x)',
    wrong='y = DepthToSpace<blocksize = 2, mode = "DCR">(x)',
    x=counting(1, 8, 2, 3),
)
fault(
    AXIS,
    "the axis before the last is the second",
    "(float[n, 4, 4, 4] x) => (int64[n, 4, 4] y)",
    right="y = ArgMax<axis = -2, keepdims = 0>(x)",
    wrong="y = ArgMax<axis = 1, keepdims = 0>(x)",
    x=normal(2, 4, 4, 4),
)
fault(
    AXIS,
    "a bias of rows becomes one of columns",
    "(float[n, 4, 4] x) => (float[n, 4, 4] y)",
    right="y = Add(x, rows)",
    wrong="y = Add(x, columns)",
    x=normal(2, 4, 4),
    rows=BIAS.reshape(4, 1),
    columns=BIAS,
)
fault(
    AXIS,
    "the factor of a product is applied to the bias too",
    ROWS,
    right="y = Gemm<alpha = 0.5>(x, w, c)",
    wrong="p = MatMul(x, w) s = Add(p, c) y = Mul(s, half)",
    x=normal(3, 4),
    w=W,
    c=BIAS,
    half=0.5,
)
fault(
    AXIS,
    "a factor is put into the weights and not into the bias",
    ROWS,
    right="p = MatMul(x, w) s = Add(p, c) y = Mul(s, factor)",
    wrong="p = MatMul(x, scaled) y = Add(p, c)",
    x=normal(3, 4),
    w=W,
    c=BIAS,
    factor=0.3,
    scaled=W * 0.3,
)
fault(
    AXIS,
    "a tile becomes an interleaved repeat",
    "(float[n, m] x) => (float[n, k] y)",
    right="y = Tile(x, twice)",
    wrong="u = Unsqueeze(x, two) t = Tile(u, pairs) y = Reshape(t, flat)",
    x=counting(2, 3),
    twice=[1, 2],
    two=[2],
    pairs=[1, 1, 2],
    flat=[0, -1],
)
fault(
    AXIS,
    "the gate of a gated unit is the other half",
    "(float[n, 8] x) => (float[n, 4] y)",
    right="a, b = Split<axis = 1, num_outputs = 2>(x) s = Sigmoid(b) y = Mul(a, s)",
    wrong="a, b = Split<axis = 1, num_outputs = 2>(x) s = Sigmoid(a) y = Mul(b, s)",
    x=normal(3, 8),
)
control(
    AXIS,
    "a transposed product exchanges its factors",
    "(float[n, k] a, float[k, m] b) => (float[m, n] y)",
    right="p = MatMul(a, b) y = Transpose<perm = [1, 0]>(p)",
    same="s = Transpose<perm = [1, 0]>(a) t = Transpose<perm = [1, 0]>(b) y = MatMul(t, s)",
    a=normal(3, 2),
    b=normal(2, 5, seed=1),
)
control(
    AXIS,
    "halves that are joined again are the whole",
    "(float[n, 6] x) => (float[n, 6] y)",
    right="a, b = Split<axis = 1, num_outputs = 2>(x) j = Concat<axis = 1>(a, b) y = Relu(j)",
    same="y = Relu(x)",
    x=counting(2, 6),
)
control(
    AXIS,
    "two permutations become one",
    "(float[n, m, k] x) => (float[k, m, n] y)",
    right="t = Transpose<perm = [1, 2, 0]>(x) y = Transpose<perm = [1, 0, 2]>(t)",
    same="y = Transpose<perm = [2, 1, 0]>(x)",
    x=counting(2, 3, 4),
)
control(
    AXIS,
    "einsum is a product with the second factor transposed",
    "(float[b, n, 3] p, float[b, m, 3] q) => (float[b, n, m] y)",
    right='y = Einsum<equation = "bid,bjd->bij">(p, q)',
    same="t = Transpose<perm = [0, 2, 1]>(q) y = MatMul(p, t)",
    p=normal(2, 4, 3),
    q=normal(2, 5, 3, seed=1),
)
control(
    AXIS,
    "a tile is a Concat with itself",
    "(float[n, m] x) => (float[n, k] y)",
    right="y = Tile(x, twice)",
    same="y = Concat<axis = 1>(x, x)",
    x=counting(2, 3),
    twice=[1, 2],
)
control(
    AXIS,
    "an axis that a sum drops is squeezed",
    "(float[n, m] x) => (float[n] y)",
    right="y = ReduceSum<keepdims = 0>(x, last)",
    same="s = ReduceSum(x, last) y = Squeeze(s, last)",
    x=normal(3, 4),
    last=[1],
)
