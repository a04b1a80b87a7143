"""where_on_split_heads: scores that are split for a condition and joined again, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import masked_attention
from surgeon.patterns.attention_canonicalization.where_on_split_heads import where_on_split_heads

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "float[12, s, t] x"
CONSTANTS = "<float low = {-1e9}, int64[2] apart = {-1, 4}, int64[1] all = {12}, int64[1] nil = {0}, int64[1] end = {3}"
SIZES = "h = Shape(x) r = Slice(h, one, end) n = Concat<axis = 0>(apart, r) j = Concat<axis = 0>(all, r)"
BODY = f"{SIZES} a = Reshape(x, n) w = Where(c, low, a) y = Reshape(w, j)"
SCORES = "float[12, s, 8] q, float[12, 8, t] k, float[12, t, 6] v"


def graph(body, condition="bool[3, 1, 1, t] c", head=HEAD, output="float[12, s, t] y"):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({head}, {condition}) => ({output}) {CONSTANTS}, int64[1] one = {{1}}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(where_on_split_heads, "padding of each batch", graph(BODY)),
    Case(where_on_split_heads, "scores to keep", graph(BODY.replace("c, low, a", "c, a, low"))),
    Case(where_on_split_heads, "rows of each batch", graph(BODY, "bool[3, 1, s, t] c")),
    Case(where_on_split_heads, "one for all batches", graph(BODY, "bool[1, 1, s, t] c")),
    Case(where_on_split_heads, "three axes", graph(BODY, "bool[1, s, t] c")),
    Case(where_on_split_heads, "two axes", graph(BODY, "bool[s, t] c")),
    Case([where_on_split_heads, masked_attention], "an attention, as fairseq has it", graph(
        f"x = MatMul(q, k) {BODY.replace('y =', 'o =')} p = Softmax<axis = -1>(o) y = MatMul(p, v)", head=SCORES,
        output="float[12, s, 6] y")),
]
NEGATIVES = [
    Case(where_on_split_heads, "a condition of each head", why="the same for all heads",
         model=graph(BODY, "bool[3, 4, 1, t] c")),
    Case(where_on_split_heads, "joined otherwise", why="split into batches and heads", model=graph(
        BODY.replace("j = Concat<axis = 0>(all, r)", "f = Slice(h, nil, one) j = Concat<axis = 0>(r, f)"),
        output="float[s, t, 12] y")),
    Case(where_on_split_heads, "a condition of more batches", why="more batches",
         model=graph(BODY.replace("(all, r)", "(f, r)").replace("h = Shape(x)", "h = Shape(x) f = Slice(h, nil, one)"),
                     "bool[3, 1, 1, t] c", HEAD.replace("12", "4"), "float[u, s, t] y")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
