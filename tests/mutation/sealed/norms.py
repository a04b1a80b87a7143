"""Norms: where epsilon stands, over what is averaged, and what is scaled.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import fault, normal

NORM = "norms"
ROWS = "(float[n, 8] x) => (float[n, 8] y)"
DEVIATIONS = "m = ReduceMean(x, last) d = Sub(x, m) s = Mul(d, d) "
IMAGES = "(float[b, 4, h, w] x) => (float[b, 4, h, w] y)"
SCALE = normal(8, seed=1) + 2

fault(
    NORM,
    "epsilon is added to the deviation and not to the variance",
    ROWS,
    right=DEVIATIONS + "v = ReduceMean(s, last) e = Add(v, eps) r = Sqrt(e) y = Div(d, r)",
    wrong=DEVIATIONS + "v = ReduceMean(s, last) r = Sqrt(v) e = Add(r, eps) y = Div(d, e)",
    x=normal(3, 8, scale=0.02),
    last=[-1],
    eps=1e-5,
)
fault(
    NORM,
    "a variance of n - 1 becomes that of n",
    ROWS,
    right=DEVIATIONS + "t = ReduceSum(s, last) v = Div(t, seven) e = Add(v, eps) r = Sqrt(e) y = Div(d, r)",
    wrong="y = LayerNormalization<axis = -1, epsilon = 0.00001>(x, ones)",
    x=normal(3, 8),
    last=[-1],
    seven=7.0,
    eps=1e-5,
    ones=np.ones(8, np.float32),
)
fault(
    NORM,
    "a norm of rows becomes one of all columns of an item",
    "(float[n, 3, 8] x) => (float[n, 3, 8] y)",
    right="y = LayerNormalization<axis = -1>(x, g)",
    wrong="y = LayerNormalization<axis = 1>(x, g)",
    x=normal(2, 3, 8) * np.array([[1], [3], [5]]),
    g=SCALE,
)
fault(
    NORM,
    "an RMS norm by LpNormalization loses its epsilon",
    ROWS,
    right="s = Mul(x, x) v = ReduceMean(s, last) e = Add(v, eps) r = Sqrt(e) y = Div(x, r)",
    wrong="n = LpNormalization<axis = -1, p = 2>(x) y = Mul(n, root)",
    x=normal(3, 8, scale=2e-3),
    last=[-1],
    eps=1e-6,
    root=float(np.sqrt(8)),
)
fault(
    NORM,
    "an RMS norm becomes a layer norm",
    ROWS,
    right="s = Mul(x, x) v = ReduceMean(s, last) e = Add(v, eps) r = Sqrt(e) q = Div(x, r) y = Mul(q, g)",
    wrong="y = LayerNormalization<axis = -1, epsilon = 0.000001>(x, g)",
    x=normal(3, 8) + 0.5,
    last=[-1],
    eps=1e-6,
    g=SCALE,
)
fault(
    NORM,
    "the bias of a norm is scaled too",
    ROWS,
    right="y = LayerNormalization<axis = -1>(x, g, c)",
    wrong="n = LayerNormalization<axis = -1>(x, ones) a = Add(n, c) y = Mul(a, g)",
    x=normal(3, 8),
    g=SCALE,
    c=normal(8, seed=2),
    ones=np.ones(8, np.float32),
)
fault(
    NORM,
    "a norm of each image takes the numbers of the whole batch",
    IMAGES,
    right="y = InstanceNormalization(x, ones, zeros)",
    wrong="m = ReduceMean(x, all) d = Sub(x, m) s = Mul(d, d) v = ReduceMean(s, all) e = Add(v, eps) "
    "r = Sqrt(e) y = Div(d, r)",
    x=normal(2, 4, 3, 3) * np.array([1, 4]).reshape(2, 1, 1, 1),
    all=[0, 2, 3],
    eps=1e-5,
    ones=np.ones(4, np.float32),
    zeros=np.zeros(4, np.float32),
)
fault(
    NORM,
    "the epsilon of a batch norm becomes the default",
    IMAGES,
    right="y = BatchNormalization<epsilon = 0.001>(x, g, c, m, v)",
    wrong="y = BatchNormalization(x, g, c, m, v)",
    x=normal(2, 4, 3, 3),
    g=SCALE[:4],
    c=SCALE[4:],
    m=normal(4, seed=3),
    v=np.array([0.02, 0.5, 0.9, 1.4], np.float32),
)
MEAN, VARIANCE = normal(4, seed=3), np.array([0.02, 0.5, 0.9, 1.4], np.float32)
FACTOR = SCALE[:4] / np.sqrt(VARIANCE + np.float32(1e-5))
fault(
    NORM,
    "a batch norm as product and sum: the mean is not divided by the deviation",
    IMAGES,
    right="y = BatchNormalization(x, g, c, m, v)",
    wrong="p = Mul(x, k) y = Add(p, o)",
    x=normal(2, 4, 3, 3),
    g=SCALE[:4],
    c=SCALE[4:],
    m=MEAN,
    v=VARIANCE,
    k=FACTOR.reshape(4, 1, 1),
    o=(SCALE[4:] - MEAN * SCALE[:4]).reshape(4, 1, 1),
)
fault(
    NORM,
    "groups of adjacent channels become groups of strided channels",
    "(float[b, 8, k] x) => (float[b, 8, k] y)",
    right="r = Reshape(x, grouped) q = InstanceNormalization(r, ones, zeros) s = Shape(x) y = Reshape(q, s)",
    wrong="p = Reshape(x, pairs) t = Transpose<perm = [0, 2, 1, 3]>(p) u = Shape(t) r = Reshape(t, grouped) "
    "q = InstanceNormalization(r, ones, zeros) w = Reshape(q, u) z = Transpose<perm = [0, 2, 1, 3]>(w) "
    "s = Shape(x) y = Reshape(z, s)",
    x=normal(2, 8, 5) * np.arange(1, 9).reshape(8, 1),
    grouped=[0, 2, -1],
    pairs=[0, 4, 2, -1],
    ones=np.ones(2, np.float32),
    zeros=np.zeros(2, np.float32),
)
fault(
    NORM,
    "the lower limit of a length is added instead",
    ROWS,
    right="l = ReduceL2(x, last) e = Max(l, eps) y = Div(x, e)",
    wrong="l = ReduceL2(x, last) e = Add(l, eps) y = Div(x, e)",
    x=normal(3, 8, scale=0.01),
    last=[-1],
    eps=1e-4,
)
fault(
    NORM,
    "a variance of deviations becomes the mean of squares less the square of the mean",
    "(float[n, 8] x) => (float[n, 1] v)",
    right=DEVIATIONS + "v = ReduceMean(s, last)",
    wrong="m = ReduceMean(x, last) a = Mul(m, m) s = Mul(x, x) b = ReduceMean(s, last) v = Sub(b, a)",
    x=normal(3, 8) + 5000,
    last=[-1],
)
fault(
    NORM,
    "the residual output is added behind the norm",
    "(float[n, 8] x, float[n, 8] skip) => (float[n, 8] y, float[n, 8] total)",
    right="total = Add(x, skip) y = LayerNormalization<axis = -1>(total, g)",
    wrong="t = Add(x, skip) y = LayerNormalization<axis = -1>(t, g) total = Add(y, skip)",
    x=normal(3, 8),
    skip=normal(3, 8, seed=5),
    g=SCALE,
)
fault(
    NORM,
    "an epsilon of 1e-6 becomes 1e-5",
    ROWS,
    right="y = LayerNormalization<axis = -1, epsilon = 0.000001>(x, g)",
    wrong="y = LayerNormalization<axis = -1>(x, g)",
    x=normal(3, 8, scale=0.01),
    g=SCALE,
)
fault(
    NORM,
    "the limit of a cosine similarity applies to each length instead of their product",
    "(float[n, 8] p, float[n, 8] q) => (float[n, 1] y)",
    right="d = Mul(p, q) s = ReduceSum(d, last) a = ReduceL2(p, last) c = ReduceL2(q, last) l = Mul(a, c) "
    "e = Max(l, eps) y = Div(s, e)",
    wrong="a = ReduceL2(p, last) c = ReduceL2(q, last) e = Max(a, eps) f = Max(c, eps) u = Div(p, e) v = Div(q, f) "
    "d = Mul(u, v) y = ReduceSum(d, last)",
    p=normal(2, 8, scale=1e-5),
    q=normal(2, 8, seed=1, scale=1e-5),
    last=[-1],
    eps=1e-8,
)
