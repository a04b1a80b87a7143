"""bias_fast_gelu: what fires, and what does not match and why."""

import pytest
from surgeon.patterns.activations.bias_fast_gelu import bias_fast_gelu
from surgeon.patterns.activations.gelu import gelu_tanh

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 4] x) => (float[n, 4] y)"
CONSTANTS = "float[4] b = {1, 2, 3, 4}, float[1, 4] r = {1, 2, 3, 4}, float k = {0.5}"
PARTS = (
    "a = Add(x, b) s = Mul(a, a) c = Mul(s, a) d = Mul(c, cubic) e = Add(a, d) f = Mul(e, root) t = Tanh(f) "
    "u = Add(t, one) v = Mul(a, u) y = Mul(v, k)"
)


def graph(body, head=HEAD, constants=CONSTANTS, opset=20):
    header = f'<ir_version: 9, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} {head} <{constants}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(bias_fast_gelu, "FastGelu", graph("a = Add(x, b) y = com.microsoft.FastGelu(a)")),
    Case(bias_fast_gelu, "the bias first", graph("a = Add(b, x) y = com.microsoft.FastGelu(a)")),
    Case(bias_fast_gelu, "the bias is an input",
         graph("a = Add(c, x) y = com.microsoft.FastGelu(a)", "(float[n, 4] x, float[4] c) => (float[n, 4] y)")),
    Case(bias_fast_gelu, "the standard's Gelu", graph('a = Add(x, b) y = Gelu<approximate = "tanh">(a)')),
    Case([gelu_tanh, bias_fast_gelu], "in parts before",
         graph(PARTS, constants=f"{CONSTANTS}, float cubic = {{0.044715}}, float root = {{0.7978845608}}, "
                                "float one = {1}")),
]
NEGATIVES = [
    Case(bias_fast_gelu, "the exact GELU", why="approximate", model=graph("a = Add(x, b) y = Gelu(a)")),
    Case(bias_fast_gelu, "a bias already", why="already",
         model=graph("a = Add(x, b) y = com.microsoft.FastGelu(a, b)")),
    Case(bias_fast_gelu, "a bias of two axes", why="must be a vector",
         model=graph("a = Add(x, r) y = com.microsoft.FastGelu(a)")),
    Case(bias_fast_gelu, "a number", why="must be a vector",
         model=graph("a = Add(x, k) y = com.microsoft.FastGelu(a)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
