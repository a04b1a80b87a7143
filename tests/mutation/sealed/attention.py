"""Attention: heads, rotary positions, scales, caches, and experts.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

import numpy as np

from tests.mutation.sealing import control, counting, fault, normal

ATTENTION = "attention and rotary"
GROUPED = "(float[b, 4, s, 3] q, float[b, 2, t, 3] k) => (float[b, 4, s, t] y)"
SCORES = " p = Transpose<perm = [0, 1, 3, 2]>(r) y = MatMul(q, p)"
ROTARY = "(float[b, s, 4] x, float[s, 4] cos, float[s, 4] sin) => (float[b, s, 4] y)"
HALVES = "l, h = Split<axis = -1, num_outputs = 2>(x) "
TURNED = " p = Mul(x, cos) q = Mul(r, sin) y = Add(p, q)"
ANGLES = np.arange(3)[:, None] * np.array([1.0, 0.3, 1.0, 0.3])[None]
PAIR = "(float[b, n, 4] q, float[b, n, 4] k) => (float[b, n, n] y)"

fault(
    ATTENTION,
    "repeated key heads are tiled instead of interleaved",
    GROUPED,
    right="u = Unsqueeze(k, two) c = Concat<axis = 2>(u, u) r = Reshape(c, heads)" + SCORES,
    wrong="r = Concat<axis = 1>(k, k)" + SCORES,
    q=normal(1, 4, 2, 3),
    k=normal(1, 2, 5, 3, seed=1),
    two=[2],
    heads=[0, 4, -1, 3],
)
fault(
    ATTENTION,
    "a rotary embedding by halves becomes one by neighbours",
    ROTARY,
    right=HALVES + "m = Neg(h) r = Concat<axis = -1>(m, l)" + TURNED,
    wrong="e = Reshape(x, pairs) l, h = Split<axis = -1, num_outputs = 2>(e) m = Neg(h) "
    "c = Concat<axis = -1>(m, l) r = Reshape(c, whole)" + TURNED,
    x=normal(1, 3, 4),
    cos=np.cos(ANGLES),
    sin=np.sin(ANGLES),
    pairs=[0, 0, 2, 2],
    whole=[0, 0, 4],
)
fault(
    ATTENTION,
    "a rotary embedding rotates in the other direction",
    ROTARY,
    right=HALVES + "m = Neg(h) r = Concat<axis = -1>(m, l)" + TURNED,
    wrong=HALVES + "m = Neg(l) r = Concat<axis = -1>(h, m)" + TURNED,
    x=normal(1, 3, 4),
    cos=np.cos(ANGLES),
    sin=np.sin(ANGLES),
)
fault(
    ATTENTION,
    "given positions become positions from 0",
    "(float[s, 4] x, int64[s] place) => (float[s, 4] y)",
    right="c = Gather(table, place) y = Mul(x, c)",
    wrong="z = Shape<end = 1>(x) c = Slice(table, zero, z) y = Mul(x, c)",
    x=normal(2, 4),
    place=[3, 4],
    table=counting(8, 4),
    zero=[0],
)
fault(
    ATTENTION,
    "a scale of both queries and keys is applied once",
    PAIR,
    right="a = Mul(q, root) b1 = Mul(k, root) t = Transpose<perm = [0, 2, 1]>(b1) y = MatMul(a, t)",
    wrong="t = Transpose<perm = [0, 2, 1]>(k) p = MatMul(q, t) y = Mul(p, root)",
    q=normal(1, 3, 4),
    k=normal(1, 3, 4, seed=1),
    root=0.70710678,
)
fault(
    ATTENTION,
    "a softmax of square scores goes over the queries",
    PAIR,
    right="t = Transpose<perm = [0, 2, 1]>(k) p = MatMul(q, t) y = Softmax<axis = -1>(p)",
    wrong="t = Transpose<perm = [0, 2, 1]>(k) p = MatMul(q, t) y = Softmax<axis = -2>(p)",
    q=normal(1, 3, 4),
    k=normal(1, 3, 4, seed=1),
)
fault(
    ATTENTION,
    "a packed projection by projection becomes one by head",
    "(float[b, s, 24] x) => (float[b, s, 2, 4] y)",
    right="r = Reshape(x, outer) y = Gather<axis = 2>(r, zero)",
    wrong="r = Reshape(x, inner) y = Gather<axis = 3>(r, zero)",
    x=counting(1, 2, 24),
    outer=[0, 0, 3, 2, 4],
    inner=[0, 0, 2, 3, 4],
    zero=0,
)
fault(
    ATTENTION,
    "queries and keys change places",
    PAIR,
    right="t = Transpose<perm = [0, 2, 1]>(k) y = MatMul(q, t)",
    wrong="t = Transpose<perm = [0, 2, 1]>(q) y = MatMul(k, t)",
    q=normal(1, 3, 4),
    k=normal(1, 3, 4, seed=1),
)
fault(
    ATTENTION,
    "a soft cap of scores does not divide by the cap",
    "(float[n, m] x) => (float[n, m] y)",
    right="d = Div(x, cap) t = Tanh(d) y = Mul(t, cap)",
    wrong="t = Tanh(x) y = Mul(t, cap)",
    x=normal(2, 4),
    cap=30.0,
)
fault(
    ATTENTION,
    "new keys come before those of the cache",
    "(float[b, h, p, 4] past, float[b, h, s, 4] k) => (float[b, h, t, 4] y)",
    right="y = Concat<axis = 2>(past, k)",
    wrong="y = Concat<axis = 2>(k, past)",
    past=counting(1, 2, 3, 4),
    k=-counting(1, 2, 1, 4),
)
fault(
    ATTENTION,
    "heads are merged without a transpose",
    "(float[b, 2, s, 4] x) => (float[b, s, 8] y)",
    right="t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, merged)",
    wrong="y = Reshape(x, split)",
    x=counting(1, 2, 3, 4),
    merged=[0, 0, 8],
    split=[0, -1, 8],
)
fault(
    ATTENTION,
    "a softmax with a sink of zero becomes one without",
    "(float[n, m] x) => (float[n, m] y)",
    right="a = ReduceMax(x, last) d = Sub(x, a) e = Exp(d) n1 = Neg(a) z = Exp(n1) s = ReduceSum(e, last) "
    "t = Add(s, z) y = Div(e, t)",
    wrong="y = Softmax<axis = -1>(x)",
    x=normal(2, 4),
    last=[-1],
)
fault(
    ATTENTION,
    "a bias by relative position is read from the other end",
    "(float[b, 4, 4] x) => (float[b, 4, 4] y)",
    right="d = Sub(rows, columns) i = Add(d, three) b1 = Gather(table, i) y = Add(x, b1)",
    wrong="d = Sub(columns, rows) i = Add(d, three) b1 = Gather(table, i) y = Add(x, b1)",
    x=normal(1, 4, 4),
    rows=np.arange(4).reshape(4, 1),
    columns=np.arange(4).reshape(1, 4),
    three=3,
    table=normal(7, seed=1),
)
fault(
    ATTENTION,
    "the weights of the chosen experts are normalized",
    "(float[n, 5] x) => (float[n, 2] v, int64[n, 2] i)",
    right="s = Softmax<axis = -1>(x) v, i = TopK<axis = -1>(s, two)",
    wrong="t, i = TopK<axis = -1>(x, two) v = Softmax<axis = -1>(t)",
    x=normal(3, 5),
    two=[2],
)
fault(
    ATTENTION,
    "the scale of scores is applied to their bias too",
    "(float[n, m] x, float[n, m] bias) => (float[n, m] y)",
    right="p = Mul(x, scale) s = Add(p, bias) y = Softmax<axis = -1>(s)",
    wrong="a = Add(x, bias) s = Mul(a, scale) y = Softmax<axis = -1>(s)",
    x=normal(2, 4),
    bias=normal(2, 4, seed=1),
    scale=0.25,
)
fault(
    ATTENTION,
    "a window is shifted the other way",
    "(float[b, n, 3] x) => (float[b, n, 3] y)",
    right="a = Slice(x, two, most, axis) c = Slice(x, zero, two, axis) y = Concat<axis = 1>(a, c)",
    wrong="a = Slice(x, minus, most, axis) c = Slice(x, zero, minus, axis) y = Concat<axis = 1>(a, c)",
    x=counting(1, 6, 3),
    zero=[0],
    two=[2],
    minus=[-2],
    most=[2**62],
    axis=[1],
)
control(
    ATTENTION,
    "repeated key heads by a Gather",
    GROUPED,
    right="u = Unsqueeze(k, two) c = Concat<axis = 2>(u, u) r = Reshape(c, heads)" + SCORES,
    same="r = Gather<axis = 1>(k, twice)" + SCORES,
    q=normal(1, 4, 2, 3),
    k=normal(1, 2, 5, 3, seed=1),
    two=[2],
    heads=[0, 4, -1, 3],
    twice=[0, 0, 1, 1],
)
