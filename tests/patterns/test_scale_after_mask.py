"""scale_after_mask: scores scaled behind their mask, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import attention, masked_attention
from surgeon.patterns.attention_canonicalization.scale_after_mask import scale_after_mask

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, 4, s, 8] q, float[b, 4, 8, t] k, float[b, 1, s, t] m, float[b, 4, t, 8] v, bool[b, 1, 1, t] c"
SCORES = "a = MatMul(q, k) x = Add(a, m) z = Div(x, root)"
PLAIN = f"{SCORES} y = Softmax<axis = -1>(z)"


def graph(body, output="float[b, 4, s, t] y", root=4, low=-1e9):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({INPUTS}) => ({output}) <float root = {{{root}}}, float low = {{{low}}}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(scale_after_mask, "divided behind the mask", graph(PLAIN)),
    Case(scale_after_mask, "the mask added first", graph(PLAIN.replace("Add(a, m)", "Add(m, a)"))),
    Case(scale_after_mask, "another mask behind it", graph(f"{SCORES} w = Add(z, m) y = Softmax<axis = -1>(w)")),
    Case([scale_after_mask, attention], "an attention with a mask of each, as Falcon with ALiBi", graph(
        f"{SCORES} w = Add(z, m) p = Softmax<axis = -1>(w) y = MatMul(p, v)", "float[b, 4, s, 8] y")),
    Case(scale_after_mask, "some hidden by a condition behind it",
         graph(f"{SCORES} w = Where(c, low, z) y = Softmax<axis = -1>(w)")),
    Case(scale_after_mask, "others kept by it", graph(f"{SCORES} w = Where(c, z, low) y = Softmax<axis = -1>(w)")),
    Case([scale_after_mask, masked_attention], "an attention of which a condition hides scores", graph(
        f"{SCORES} w = Where(c, low, z) p = Softmax<axis = -1>(w) y = MatMul(p, v)", "float[b, 4, s, 8] y")),
    Case(scale_after_mask, "scores hidden before they are divided",
         graph("a = MatMul(q, k) x = Where(c, low, a) z = Div(x, root) y = Softmax<axis = -1>(z)")),
    Case(scale_after_mask, "the others kept",
         graph("a = MatMul(q, k) x = Where(c, a, low) z = Div(x, root) y = Softmax<axis = -1>(z)")),
    Case(scale_after_mask, "made larger, as ChatGLM has it", graph(
        "a = MatMul(q, k) x = Where(c, low, a) z = Div(x, root) y = Softmax<axis = -1>(z)", root=0.25, low=-1e4)),
    Case([scale_after_mask, masked_attention], "an attention of them, as Informer has it", graph(
        "a = MatMul(q, k) x = Where(c, low, a) z = Div(x, root) p = Softmax<axis = -1>(z) y = MatMul(p, v)",
        "float[b, 4, s, 8] y")),
    Case([scale_after_mask, attention], "an attention",
         graph(PLAIN.replace("y =", "p =") + " y = MatMul(p, v)", "float[b, 4, s, 8] y")),
]
NEGATIVES = [
    Case(scale_after_mask, "a number greater than one, and the least of all", why="outside the range of its dtype",
         model=graph("a = MatMul(q, k) x = Where(c, low, a) z = Div(x, root) y = Softmax<axis = -1>(z)",
                     root=0.5, low=-3.4e38)),
    Case(scale_after_mask, "a negative number", why="reverses the order",
         model=graph("a = MatMul(q, k) x = Where(c, low, a) z = Div(x, root) y = Softmax<axis = -1>(z)", root=-4)),
    Case(scale_after_mask, "a number greater than one", why="outside the range of its dtype",
         model=graph(f"{SCORES} w = Where(c, low, z) y = Softmax<axis = -1>(w)", root=0.5)),
    Case(scale_after_mask, "a number greater than one", why="outside the range", model=graph(PLAIN, root=0.5)),
    Case(scale_after_mask, "a negative number", why="outside the range of its dtype", model=graph(PLAIN, root=-4)),
    Case(scale_after_mask, "scores that others read", why="is also read",
         model=graph(f"{PLAIN} o = Neg(x)", "float[b, 4, s, t] y, float[b, 4, s, t] o")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
