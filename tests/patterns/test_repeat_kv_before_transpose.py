"""repeat_kv_before_transpose: heads that are copied behind the rows, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import attention
from surgeon.patterns.attention.grouped_query_attention import grouped_query_attention
from surgeon.patterns.attention_canonicalization.repeat_kv_before_transpose import repeat_kv_before_transpose
from surgeon.patterns.layout.consecutive_ops import consecutive_transposes

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, s, 4, 8] q, float[b, s, 2, 8] k, float[b, s, 2, 8] v"
CONSTANTS = (
    "int64[1] three = {3}, int64[5] twice = {1, 1, 1, 2, 1}, int64[4] joined = {0, 0, 4, 8}, int64[1] two = {2}, "
    "int64[5] rows = {1, 1, 2, 1, 1}, int64[4] longer = {0, -1, 2, 8}, int64[5] wide = {2, 1, 1, 2, 1}"
)


def copied(x, how="Expand", shape="twice"):
    return f"o{x} = Unsqueeze({x}, three) e{x} = {how}(o{x}, {shape}) r{x} = Reshape(e{x}, joined)"


def graph(body, output="float[b, 4, s, 8] y", inputs=INPUTS):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) <{CONSTANTS}> {{ {body} }}")


FIRST = "Transpose<perm = [0, 2, 1, 3]>"
# fmt: off
FIRES = [
    Case(repeat_kv_before_transpose, "by Expand", graph(f"{copied('k')} y = {FIRST}(rk)")),
    Case(repeat_kv_before_transpose, "by Tile, as repeat_interleave is exported",
         graph(f"{copied('k', 'Tile')} y = {FIRST}(rk)")),
    Case(repeat_kv_before_transpose, "turned then, as keys are",
         graph(f"{copied('k')} y = Transpose<perm = [0, 2, 3, 1]>(rk)", "float[b, 4, 8, s] y")),
    Case(repeat_kv_before_transpose, "rows before the batch, as ChatGLM2 has them",
         graph(f"{copied('k')} y = Transpose<perm = [1, 2, 0, 3]>(rk)", "float[s, 4, b, 8] y")),
    Case([consecutive_transposes, repeat_kv_before_transpose, attention, grouped_query_attention],
         "an attention of groups", model=graph(
        f"{copied('k')} {copied('v')} tq = {FIRST}(q) tk = Transpose<perm = [0, 2, 3, 1]>(rk) tv = {FIRST}(rv) "
        "a = MatMul(tq, tk) w = Softmax<axis = -1>(a) y = MatMul(w, tv)")),
]
NEGATIVES = [
    Case(repeat_kv_before_transpose, "heads that stay behind the rows", why="directly follow the batch",
         model=graph(f"{copied('k')} y = Transpose<perm = [1, 0, 2, 3]>(rk)", "float[s, b, 4, 8] y")),
    Case(repeat_kv_before_transpose, "copies of all heads, one behind the other", why="expected the constant 3",
         model=graph(f"ok = Unsqueeze(k, two) ek = Expand(ok, rows) rk = Reshape(ek, joined) y = {FIRST}(rk)")),
    Case(repeat_kv_before_transpose, "copies as further rows", why="", model=graph(
        f"ok = Unsqueeze(k, three) ek = Expand(ok, twice) rk = Reshape(ek, longer) y = {FIRST}(rk)",
        "float[b, 2, t, 8] y")),
    Case(repeat_kv_before_transpose, "a batch that is copied too", why="the batch of spread is 2*b", model=graph(
        f"{copied('k', 'Tile', 'wide')} y = {FIRST}(rk)", "float[c, 4, s, 8] y")),
    Case(repeat_kv_before_transpose, "copies that others read", why="is also read",
         model=graph(f"{copied('k')} y = {FIRST}(rk) z = Neg(rk)", "float[b, 4, s, 8] y, float[b, s, 4, 8] z")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
