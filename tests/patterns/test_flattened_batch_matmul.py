"""flattened_batch_matmul: products in one batch that had several axes, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import attention
from surgeon.patterns.attention_canonicalization.flattened_batch_matmul import flattened_batch_matmul
from surgeon.patterns.layout.consecutive_reshapes import consecutive_reshapes

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = (
    "float[b, 4, s, 8] q, float[b, 4, t, 8] k, float[b, 4, 8, t] c, float[b, 4, t, 6] v, float[b, 1, s, t] m, "
    "float[b, 4, 1, t] o, float[s, t] n"
)
CONSTANTS = (
    "int64[1] any = {-1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, "
    "int64[1] four = {4}, float half = {0.35}"
)


def merge(x):
    """The first two of four axes of x as one, in x3."""
    return (
        f"s_{x} = Shape({x}) t_{x} = Slice(s_{x}, two, four) g_{x} = Concat<axis = 0>(any, t_{x}) "
        f"{x}3 = Reshape({x}, g_{x}) "
    )


TURN = f"{merge('q')} {merge('k')} kt = Transpose<perm = [0, 2, 1]>(k3) "
PLAIN = f"{merge('q')} {merge('c')} "
SPLIT = "z1 = Slice(s_q, zero, one) z2 = Slice(s_q, two, three) z = Concat<axis = 0>(z1, four, z2, any) "
END = f"{SPLIT} y = Reshape(p, z)"
WHOLE = (
    f"{TURN} {merge('v')} {SPLIT} d = Mul(q3, half) p = MatMul(d, kt) f = Reshape(p, z) w = Add(f, m) {merge('w')} "
    "i = Softmax<axis = -1>(w3) j = MatMul(i, v3) y = Reshape(j, z)"
)
INNER = (
    f"{TURN} {merge('v')} {SPLIT} p = MatMul(q3, kt) w = Mul(p, half) i = Softmax<axis = -1>(w) j = MatMul(i, v3) "
    "y = Reshape(j, z)"
)


def graph(body, output="float[b, 4, s, t] y", inputs=INPUTS):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) <{CONSTANTS}> {{ {body} }}")


VALUES = "float[b, 4, s, 6] y"
FULL = INPUTS.replace("float[b, 1, s, t] m", "float[b, 4, s, t] m")
VALUED = (
    f"{merge('m')} {merge('v')} {SPLIT.replace('s_q', 's_m')} w = Softmax<axis = 2>(m3) p = MatMul(w, v3) "
    "y = Reshape(p, z)"
)
HALF = INPUTS.replace("float[", "float16[")
UPCAST = (
    f"{merge('q')} {merge('k')} {merge('v')} {SPLIT} d = Cast<to = 1>(q3) e = Cast<to = 1>(k3) "
    "kt = Transpose<perm = [0, 2, 1]>(e) p = MatMul(d, kt) w = Mul(p, half) i = Softmax<axis = -1>(w) "
    "r = Cast<to = 10>(i) j = MatMul(r, v3) y = Reshape(j, z)"
)
LATE = UPCAST.replace("e = Cast<to = 1>(k3)", "e = Transpose<perm = [0, 2, 1]>(k3)")
LATE = LATE.replace("kt = Transpose<perm = [0, 2, 1]>(e)", "kt = Cast<to = 1>(e)")
ALL = UPCAST.replace("r = Cast<to = 10>(i)", "r = Cast<to = 1>(v3)")
ALL = ALL.replace("j = MatMul(r, v3)", "u = MatMul(i, r) j = Cast<to = 10>(u)")
HALVES = "float16[b, 4, s, 6] y"
# fmt: off
FIRES = [
    Case(flattened_batch_matmul, "factors as they are", graph(f"{PLAIN} p = MatMul(q3, c3) {END}")),
    Case(flattened_batch_matmul, "the second turned", graph(f"{TURN} p = MatMul(q3, kt) {END}")),
    Case(flattened_batch_matmul, "a number on the first", graph(f"{TURN} d = Mul(half, q3) p = MatMul(d, kt) {END}")),
    Case(flattened_batch_matmul, "numbers on both, after a turn",
         graph(f"{TURN} d = Mul(half, q3) e = Div(kt, half) p = MatMul(d, e) {END}")),
    Case(flattened_batch_matmul, "a number before a turn",
         graph(f"{TURN.replace('(k3)', '(e)').replace('kt =', 'e = Mul(k3, half) kt =')} p = MatMul(q3, kt) {END}")),
    Case(flattened_batch_matmul, "one number before a turn and after it", graph(
        f"{TURN.replace('(k3)', '(e)').replace('kt =', 'e = Mul(k3, half) kt =')} r = Mul(kt, half) "
        f"p = MatMul(q3, r) {END}")),
    Case(flattened_batch_matmul, "a number on the second", graph(f"{PLAIN} d = Mul(c3, half) p = MatMul(q3, d) {END}")),
    Case(flattened_batch_matmul, "a number on the product",
         graph(f"{PLAIN} d = MatMul(q3, c3) p = Mul(d, half) {END}")),
    Case(flattened_batch_matmul, "slopes for each batch and head, as BLOOM has them",
         graph(f"{PLAIN} {merge('o')} d = MatMul(q3, c3) e = Mul(d, half) p = Add(o3, e) {END}")),
    Case(flattened_batch_matmul, "a bias for all", graph(f"{PLAIN} d = MatMul(q3, c3) p = Add(d, n) {END}")),
    Case(flattened_batch_matmul, "a bias of each batch and head, or one for all", graph(
        f"{PLAIN} d = MatMul(q3, c3) p = Add(d, u) {END}", inputs=f"{INPUTS}, float[e, s, t] u")),
    Case(flattened_batch_matmul, "such a bias beside a known batch", graph(
        f"{PLAIN} d = MatMul(q3, c3) p = Add(d, u) {END}",
        inputs=f"{INPUTS}, float[e, s, t] u".replace("b, 4", "2, 4"))),
    Case(flattened_batch_matmul, "a factor whose shape is read",
         graph(f"{PLAIN} p = MatMul(q3, c3) {END} x = Shape(q3)", "float[b, 4, s, t] y, int64[3] x")),
    Case(flattened_batch_matmul, "a softmax and values", graph(VALUED, VALUES, FULL)),
    Case(flattened_batch_matmul, "a softmax in a wider dtype",
         graph(VALUED.replace("(m3)", "(h)").replace("w = S", "h = Cast<to = 1>(m3) e = S")
               .replace("p =", "w = Cast<to = 10>(e) p ="), VALUES.replace("float", "float16"),
               FULL.replace("float", "float16"))),
    Case(flattened_batch_matmul, "weights that are merged behind the softmax, values that stay so",
         graph(f"w = Softmax<axis = 3>(m) {merge('m')} {merge('v')} x = Reshape(w, g_m) y = MatMul(x, v3)",
               "float[n, s, 6] y", FULL)),
    Case(flattened_batch_matmul, "a softmax alone",
         graph(f"{merge('m')} {SPLIT.replace('s_q', 's_m')} p = Softmax<axis = 2>(m3) y = Reshape(p, z)", inputs=FULL)),
    Case(flattened_batch_matmul, "both products", graph(INNER, VALUES)),
    Case(flattened_batch_matmul, "queries and keys in float32, as diffusers' upcast_attention", graph(UPCAST, HALVES,
         HALF)),
    Case(flattened_batch_matmul, "keys behind a turn", graph(LATE, HALVES, HALF)),
    Case(flattened_batch_matmul, "values too", graph(ALL, HALVES, HALF)),
    Case([flattened_batch_matmul, attention], "an attention of these", graph(UPCAST, HALVES, HALF)),
    Case([flattened_batch_matmul, attention], "an attention that never has the axes", graph(INNER, VALUES)),
    Case([flattened_batch_matmul, consecutive_reshapes, attention], "an attention with a mask for each batch",
         graph(WHOLE, VALUES)),
]
NEGATIVES = [
    Case(flattened_batch_matmul, "one matrix for all", why="expected",
         model=graph(f"{merge('q')} p = MatMul(q3, e) {END}", inputs=f"{INPUTS}, float[8, t] e")),
    Case(flattened_batch_matmul, "rows merged, not the batch alone", why="the batch of b is (4, 1)",
         model=parse("(float[4, 2, 2, 8] a, float[4, 1, 8, 3] c) => (float[4, 1, 4, 3] y) <int64[3] f = {4, 4, 8}, "
                     "int64[3] g = {4, 8, 3}, int64[4] h = {4, 1, 4, 3}> "
                     "{ o = Reshape(a, f) d = Reshape(c, g) p = MatMul(o, d) y = Reshape(p, h) }")),
    Case(flattened_batch_matmul, "batches of other axes", why="the batch of b is (2, 4)",
         model=parse("(float[4, 2, 2, 8] a, float[2, 4, 8, 3] c) => (float[4, 2, 2, 3] y) <int64[3] f = {8, 2, 8}, "
                     "int64[3] g = {8, 8, 3}, int64[4] h = {4, 2, 2, 3}> "
                     "{ o = Reshape(a, f) d = Reshape(c, g) p = MatMul(o, d) y = Reshape(p, h) }")),
    Case(flattened_batch_matmul, "other axes behind", why="the batch of y is (4, b)",
         model=graph(f"{PLAIN} p = MatMul(q3, c3) {END.replace('z1, four', 'four, z1')}", "float[4, b, s, t] y")),
    Case(flattened_batch_matmul, "a bias that depends on the product", why="is also read",
         model=graph(f"{PLAIN} d = MatMul(q3, c3) u = Shape(d) e = ConstantOfShape(u) p = Add(d, e) {END}")),
    Case(flattened_batch_matmul, "a Cast that others read", why="is also read",
         model=graph(f"{UPCAST} x = Neg(d)", f"{HALVES}, float[n, s, 8] x", HALF)),
    Case(flattened_batch_matmul, "a softmax with other axes behind", why="the batch of y is (4, b)",
         model=graph(f"{merge('m')} {SPLIT.replace('s_q', 's_m').replace('z1, four', 'four, z1')} "
                     "p = Softmax<axis = 2>(m3) y = Reshape(p, z)", "float[4, b, s, t] y", FULL)),
    Case(flattened_batch_matmul, "a softmax over other numbers than a row's", why="expected",
         model=graph(VALUED.replace("axis = 2", "axis = 1"), VALUES, FULL)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
