"""window_attention: attention of windows with masks, as one batch; what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import attention, masked_attention
from surgeon.patterns.attention_canonicalization.window_attention import window_attention

from surgeon.testing import Case, check_fires, check_spares, parse

QKV = "float[b, 3, 4, 7, 8] q, float[b, 3, 4, 8, 5] k, float[b, 3, 4, 5, 6] v"
END = "p = Softmax<axis = -1>(x) y = MatMul(p, v)"
ADDED = f"a = MatMul(q, k) x = Add(a, m) {END}"
HIDDEN = f"a = MatMul(q, k) x = Where(c, low, a) {END}"
Y = "float[b, 3, 4, 7, 6] y"


def graph(body, masks, output=Y, qkv=QKV):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    constants = "<float half = {0.5}, float low = {-3.4028234e38}>"
    return parse(f"{header} ({qkv}, {masks}) => ({output}) {constants} {{ {body} }}")


# fmt: off
FIRES = [
    Case([window_attention, attention], "a mask of each head, for all windows", graph(ADDED, "float[1, 4, 7, 5] m")),
    Case([window_attention, attention], "a mask of three axes", graph(ADDED, "float[4, 7, 5] m")),
    Case([window_attention, attention], "a mask of five axes, for all windows", graph(ADDED, "float[1, 1, 4, 7, 5] m")),
    Case([window_attention, attention], "a mask of each window", graph(ADDED, "float[3, 1, 7, 5] m")),
    Case([window_attention, attention], "a mask of each batch", graph(ADDED, "float[b, 1, 4, 7, 5] m")),
    Case([window_attention, attention], "a mask of each window in each batch", graph(ADDED, "float[b, 3, 1, 1, 5] m")),
    Case([window_attention, attention], "a mask of each window, or of all", graph(ADDED, "float[w, 4, 7, 5] m")),
    Case([window_attention, attention], "one of each batch, or window too", graph(ADDED, "float[b, w, 1, 7, 5] m")),
    Case([window_attention, attention], "two masks, scaled scores", graph(
        ADDED.replace("x = Add(a, m)", "s = Mul(a, half) t = Add(s, m) x = Add(t, o)"),
        "float[b, 3, 1, 1, 5] m, float[b, 1, 4, 7, 5] o")),
    Case([window_attention, masked_attention], "a condition", graph(HIDDEN, "bool[b, 3, 1, 7, 5] c")),
    Case([window_attention, masked_attention], "a condition for scores to count",
         graph(HIDDEN.replace("c, low, a", "c, a, low"), "bool[b, 3, 1, 7, 5] c")),
]
NEGATIVES = [
    Case(window_attention, "no mask", why="the scores have no mask",
         model=graph(f"x = MatMul(q, k) {END}", "float[1, 4, 7, 5] m")),
    Case(window_attention, "a mask that may have more batches", why="a mask has c batches, but the scores have b",
         model=graph(ADDED, "float[c, 3, 4, 7, 5] m", Y.replace("b", "n"))),
    Case(window_attention, "a mask of more heads", why="a mask has 4 heads, but the scores have 1",
         model=graph(ADDED, "float[3, 4, 7, 5] m", qkv=QKV.replace("3, 4", "3, 1"))),
    Case(window_attention, "free rows", why="not a fixed size",
         model=graph(ADDED, "float[1, 4, 1, 5] m", Y.replace("7", "s"), QKV.replace("7", "s"))),
    Case(window_attention, "four axes", why="has 4 axes",
         model=graph(ADDED, "float[1, 4, 7, 5] m", Y.replace("3, ", ""), QKV.replace("3, ", ""))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
