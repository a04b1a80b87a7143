"""Indices: gathering, scattering, slices, ties, sorting and running sums.

Sealed: nobody who develops the proof engine reads this file.  See the docstring of the package.
"""

from tests.mutation.sealing import control, counting, fault, normal

INDEX = "indices and order"
ROW = "(float[n] x) => (float[k] y)"
LEAST = [-(2**62)]

fault(
    INDEX,
    "elements are gathered along the other axis of a square",
    "(float[n, n] x, int64[n, n] i) => (float[n, n] y)",
    right="y = GatherElements<axis = 1>(x, i)",
    wrong="y = GatherElements<axis = 0>(x, i)",
    x=counting(3, 3),
    i=[[0, 1, 2], [2, 1, 0], [1, 1, 1]],
)
fault(
    INDEX,
    "updates of one index are no longer added up",
    "(float[n] x, int64[k] i, float[k] u) => (float[n] y)",
    right='y = ScatterElements<axis = 0, reduction = "add">(x, i, u)',
    wrong="g = Gather(x, i) s = Add(g, u) y = ScatterElements<axis = 0>(x, i, s)",
    x=counting(4),
    i=[1, 1, 2],
    u=[10.0, 20.0, 30.0],
)
fault(
    INDEX,
    "two scatters change places",
    "(float[n] x, int64[k] i, float[k] u, int64[m] j, float[m] v) => (float[n] y)",
    right="a = ScatterElements<axis = 0>(x, i, u) y = ScatterElements<axis = 0>(a, j, v)",
    wrong="a = ScatterElements<axis = 0>(x, j, v) y = ScatterElements<axis = 0>(a, i, u)",
    x=counting(4),
    i=[1, 2],
    u=[10.0, 20.0],
    j=[2, 3],
    v=[30.0, 40.0],
)
fault(
    INDEX,
    "a row that is read backwards loses its first element",
    ROW,
    right="y = Slice(x, minus, least, zero, minus)",
    wrong="y = Slice(x, minus, zero, zero, minus)",
    x=counting(4),
    minus=[-1],
    least=LEAST,
    zero=[0],
)
fault(
    INDEX,
    "two slices become one, the end does not count from the first start",
    ROW,
    right="a = Slice(x, two, eight) y = Slice(a, one, four)",
    wrong="y = Slice(x, three, four)",
    x=counting(9),
    one=[1],
    two=[2],
    three=[3],
    four=[4],
    eight=[8],
)
fault(
    INDEX,
    "a one-hot axis becomes the first instead of the last",
    "(int64[4] i) => (float[4, 4] y)",
    right="y = OneHot<axis = -1>(i, depth, values)",
    wrong="y = OneHot<axis = 0>(i, depth, values)",
    i=[0, 2, 2, 3],
    depth=4,
    values=[0.0, 1.0],
)
fault(
    INDEX,
    "unique values are sorted instead of in order of occurrence",
    ROW,
    right="y = Unique<sorted = 0>(x)",
    wrong="y = Unique<sorted = 1>(x)",
    x=[3.0, 1.0, 3.0, 2.0],
)
fault(
    INDEX,
    "a running sum from behind as the total less that from the front",
    "(float[n] x) => (float[n] y)",
    right="y = CumSum<reverse = 1>(x, zero)",
    wrong="t = ReduceSum(x) c = CumSum(x, zero) y = Sub(t, c)",
    x=counting(4),
    zero=0,
)
fault(
    INDEX,
    "a running sum that leaves out its own element does not",
    "(float[n] x) => (float[n] y)",
    right="y = CumSum<exclusive = 1>(x, zero)",
    wrong="y = CumSum(x, zero)",
    x=counting(4),
    zero=0,
)
fault(
    INDEX,
    "indices of nonzero elements are in column order",
    "(float[n, m] x) => (int64[2, k] y)",
    right="y = NonZero(x)",
    wrong="t = Transpose<perm = [1, 0]>(x) z = NonZero(t) a, b = Split<axis = 0, num_outputs = 2>(z) "
    "y = Concat<axis = 0>(b, a)",
    x=[[0.0, 1.0], [1.0, 1.0]],
)
fault(
    INDEX,
    "a lookup in two joined tables loses negative indices",
    "(float[4, 2] a, float[4, 2] b, int64[k] i) => (float[k, 2] y)",
    right="t = Concat<axis = 0>(a, b) y = Gather(t, i)",
    wrong="l = Less(i, four) p = Min(i, three) q = Gather(a, p) j = Sub(i, four) r = Max(j, zero) "
    "s = Gather(b, r) m = Unsqueeze(l, one) y = Where(m, q, s)",
    a=counting(4, 2),
    b=-counting(4, 2) - 1,
    i=[1, 5, -1],
    zero=0,
    three=3,
    four=4,
    one=[1],
)
fault(
    INDEX,
    "sequences are reversed without their lengths",
    "(float[t, b] x, int64[b] lengths) => (float[t, b] y)",
    right="y = ReverseSequence<time_axis = 0, batch_axis = 1>(x, lengths)",
    wrong="y = Slice(x, minus, least, zero, minus)",
    x=counting(4, 2),
    lengths=[4, 2],
    minus=[-1],
    least=LEAST,
    zero=[0],
)
fault(
    INDEX,
    "a number on the edge falls into the bin before it",
    "(float[n, 1] x) => (int64[n] y)",
    right="k = GreaterOrEqual(x, edges) c = Cast<to = 7>(k) y = ReduceSum<keepdims = 0>(c, one)",
    wrong="k = Greater(x, edges) c = Cast<to = 7>(k) y = ReduceSum<keepdims = 0>(c, one)",
    x=[[0.5], [1.0], [2.0]],
    edges=[[0.0, 1.0, 2.0]],
    one=[1],
)
fault(
    INDEX,
    "of updates of one index the last one counts instead of the largest",
    "(float[n] x, int64[k, 1] i, float[k] u) => (float[n] y)",
    right='y = ScatterND<reduction = "max">(x, i, u)',
    wrong="y = ScatterND(x, i, u)",
    x=counting(4),
    i=[[0], [1], [1]],
    u=[5.0, 7.0, 6.0],
)
fault(
    INDEX,
    "the place of the largest is found in half precision",
    "(float[n, m] x) => (int64[n] y)",
    right="y = ArgMax<axis = 1, keepdims = 0>(x)",
    wrong="h = Cast<to = 10>(x) f = Cast<to = 1>(h) y = ArgMax<axis = 1, keepdims = 0>(f)",
    x=[[0.5, 1.0001, 1.0002]],
)
fault(
    INDEX,
    "indices that are clipped to the table count from its end",
    "(float[v, 2] t, int64[n] i) => (float[n, 2] y)",
    right="z = Shape<end = 1>(t) l = Sub(z, one) a = Max(i, none) b = Min(a, l) y = Gather(t, b)",
    wrong="z = Shape<end = 1>(t) l = Sub(z, one) b = Min(i, l) y = Gather(t, b)",
    t=counting(6, 2),
    i=[5, 9, -2],
    one=[1],
    none=[0],
)
fault(
    INDEX,
    "an id that is not the padding id becomes an id above it",
    "(int64[b, s] ids) => (bool[b, s] y)",
    right="e = Equal(ids, zero) y = Not(e)",
    wrong="y = Greater(ids, zero)",
    ids=[[5, 0, -100]],
    zero=0,
)
control(
    INDEX,
    "indices into indices",
    "(float[v, 2] t, int64[n] i, int64[k] j) => (float[k, 2] y)",
    right="a = Gather(t, i) y = Gather(a, j)",
    same="a = Gather(i, j) y = Gather(t, a)",
    t=counting(6, 2),
    i=[5, -3, 1],
    j=[0, 2, -1],
)
control(
    INDEX,
    "a running sum from behind by reading backwards twice",
    "(float[n] x) => (float[n] y)",
    right="y = CumSum<reverse = 1>(x, scalar)",
    same="a = Slice(x, minus, least, zero, minus) b = CumSum(a, scalar) y = Slice(b, minus, least, zero, minus)",
    x=normal(5),
    scalar=0,
    minus=[-1],
    least=LEAST,
    zero=[0],
)
