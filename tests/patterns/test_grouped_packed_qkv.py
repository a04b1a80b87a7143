"""GroupQueryAttention of the parts of one tensor: what reads the tensor itself, what does not match and why."""

import pytest
from surgeon.patterns.attention.fused_inputs import grouped_packed_qkv

from surgeon.testing import Case, check_fires, check_spares, parse

INTS = {"zero": 0, "one": 1, "last": 2, "end_q": 64, "end_k": 96, "end_v": 128, "start": 32}
CONSTANTS = ", ".join(
    [f"int64[1] {name} = {{{number}}}" for name, number in INTS.items()]
    + ["int64[3] sizes = {64, 32, 32}", "int64[3] thirds = {64, 64, 64}", "int32[1] seven = {7}"]
)
PAST = "float[1, 2, 5, 16] pk, float[1, 2, 5, 16] pv, int32[1] n, int32 total"
TABLES = f"{PAST}, float[32, 8] cos, float[32, 8] sin"
PRESENT = "float[1, s, 64] y, float[1, 2, u, 16] nk, float[1, 2, u, 16] nv"
SPLIT = "q, k, v = Split<axis = 2>(x, sizes)"
SLICES = "q = Slice(x, zero, end_q, last) k = Slice(x, end_q, end_k, last) v = Slice(x, end_k, end_v, last)"
NODE = "com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>"
TURNED = NODE.replace("= 2>", "= 2, do_rotary = 1>")


def graph(body, more="int32[1] n, int32 total", output="float[1, s, 64] y", width=128, dtype="float"):
    head = f"({dtype}[1, s, {width}] x, {more}) => ({output})".replace("float[", f"{dtype}[")
    return parse(f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g {head} <{CONSTANTS}> {{ {body} }}')


# fmt: off
FIRES = [
    Case(grouped_packed_qkv, "a Split", graph(f"{SPLIT} y = {NODE}(q, k, v, , , n, total)")),
    Case(grouped_packed_qkv, "Slices, a past, and the keys and values for the next step",
         graph(f"{SLICES} y, nk, nv = {NODE}(q, k, v, pk, pv, n, total)", PAST, PRESENT)),
    Case(grouped_packed_qkv, "rotary embeddings and a past",
         graph(f"{SLICES} y, nk, nv = {TURNED}(q, k, v, pk, pv, n, total, cos, sin)", TABLES, PRESENT)),
    Case(grouped_packed_qkv, "float16", graph(f"{SPLIT} y = {NODE}(q, k, v, , , n, total)", dtype="float16")),
    Case(grouped_packed_qkv, "a length that another node makes",
         graph(f"{SPLIT} o = Expand(seven, one) y = {NODE}(q, k, v, , , o, total)", "int32 total")),
]
NEGATIVES = [
    Case(grouped_packed_qkv, "values in front of keys", why="",
         model=graph(f"{SPLIT} y = {NODE}(q, v, k, , , n, total)")),
    Case(grouped_packed_qkv, "keys that are read again", why="is also read",
         model=graph(f"{SPLIT} y = {NODE}(q, k, v, , , n, total) z = Neg(k)",
                     output="float[1, s, 64] y, float[1, s, 32] z")),
    Case(grouped_packed_qkv, "slices that overlap", why="at the end of the one before it",
         model=graph(f"{SLICES.replace('x, end_q, end_k', 'x, start, end_q')} y = {NODE}(q, k, v, , , n, total)")),
    Case(grouped_packed_qkv, "a rest that nothing reads", why="",
         model=graph(f"{SLICES} y = {NODE}(q, k, v, , , n, total)", width=160)),
    Case(grouped_packed_qkv, "heads of other sizes", why="must have the same size",
         model=graph(f"{SPLIT.replace('sizes', 'thirds')} y = {NODE}(q, k, v, , , n, total)", width=192)),
    Case(grouped_packed_qkv, "parts of two tensors", why="must be the same tensor",
         model=graph(f"{SLICES.replace('v = Slice(x', 'v = Slice(z')} y = {NODE}(q, k, v, , , n, total)",
                     "float[1, s, 128] z, int32[1] n, int32 total")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
