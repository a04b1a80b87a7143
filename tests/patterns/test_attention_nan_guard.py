"""NaN looked for behind an attention: where there can be none, and where there can."""

import pytest
from surgeon.patterns.attention.attention_nan_guard import attention_nan_guard

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, s, 32] q, float[b, s, 32] k, float[b, s, 32] v"
CACHE = f"{INPUTS}, float[b, 4, p, 8] pk, float[b, 4, p, 8] pv"
HEADS = "num_heads = 4, unidirectional = 1"
NODE = f"a = com.microsoft.MultiHeadAttention<{HEADS}>(q, k, v)"
MASKED = f"a = com.microsoft.MultiHeadAttention<{HEADS}>(q, k, v, , , m)"
CACHED = f"a, pa, pb = com.microsoft.MultiHeadAttention<{HEADS}>(q, k, v, , , , pk, pv)"
PACKED = f"a = com.microsoft.Attention<{HEADS}>(q, w, c)"
COUNTS = "w = Cast<to = 6>(n) l = Sub(w, whole) zb = Gather(z, nil) b1 = Unsqueeze(zb, first) last = Expand(l, b1)"
GROUPED = (
    f"z = Shape(q) n = Gather(z, one) {COUNTS} a, pa, pb = com.microsoft.GroupQueryAttention<num_heads = 4, "
    "kv_num_heads = 4>(q, k, v, , , last, w)"
)
GUARD = "n0 = IsNaN(a) g = Where(n0, zero, a) y = Neg(g)"
PRESENT = "float[b, 4, u, 8] pa, float[b, 4, u, 8] pb, float[b, s, 32]"


def graph(body, inputs=INPUTS, output="float[b, s, 32]"):
    header = '<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    constants = "<float zero = {0}, float one0 = {1}, int64 nil = {0}, int64 one = {1}, int64[1] first = {0}, "
    return parse(f"{header} ({inputs}) => ({output} y) {constants} int32 whole = {{1}}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(attention_nan_guard, "behind heads", graph(f"{NODE} {GUARD}")),
    Case(attention_nan_guard, "behind projections",
         graph(f"{PACKED} {GUARD}", "float[b, s, 32] q, float[32, 96] w, float[96] c")),
    Case(attention_nan_guard, "behind groups", graph(f"{GROUPED} {GUARD.replace('n0', 'n1')}")),
    Case(attention_nan_guard, "behind a past", graph(f"{CACHED} {GUARD}", CACHE, PRESENT)),
]
NEGATIVES = [
    Case(attention_nan_guard, "a mask, which may hide a row whole", why="attention_bias",
         model=graph(f"{MASKED} {GUARD}", f"{INPUTS}, float[b, 1, s, s] m")),
    Case(attention_nan_guard, "a mask behind a past", why="attention_bias",
         model=graph(f"{CACHED.replace(', , , , pk', ', , , m, pk')} {GUARD}", f"{CACHE}, float[b, 1, s, u] m",
                     PRESENT)),
    Case(attention_nan_guard, "another number in the place of NaN", why="expected the constant 0",
         model=graph(f"{NODE} {GUARD.replace('zero', 'one0')}")),
    Case(attention_nan_guard, "NaN of something else", why="found",
         model=graph(f"{NODE} d = Add(a, q) {GUARD.replace('IsNaN(a)', 'IsNaN(d)')}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_the_attention_stays():
    made, _ = surgeon.rewrite(graph(f"{NODE} {GUARD}"), attention_nan_guard)
    assert [node.op_type for node in made.graph.node] == ["MultiHeadAttention", "Neg"]
