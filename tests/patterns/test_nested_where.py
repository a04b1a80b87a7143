"""Conditions one behind the other: what becomes one, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import masked_attention
from surgeon.patterns.attention_canonicalization.nested_where import nested_where

from surgeon.testing import Case, check_fires, check_spares, parse

SCORES = "float[b, 4, s, t] x"
HEADS = "float[b, 4, s, 8] q, float[b, 4, 8, t] k, float[b, 4, t, 6] v"
HIDDEN = "z = Where(c, low, x) y = Where(d, low, z)"


def graph(body, inputs=SCORES, output="float[b, 4, s, t] y", low="-1e30, -1e30"):
    one, other = low.split(", ")
    header = '<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}, bool[b, 1, 1, t] c, bool[s, t] d) => ({output}) "
                 f"<float low = {{{one}}}, float other = {{{other}}}> {{ {body} }}")


ATTENTION = f"x = MatMul(q, k) {HIDDEN.replace('y =', 'w =')} p = Softmax<axis = -1>(w) y = MatMul(p, v)"
FIRES = [
    Case(nested_where, "both hide", graph(HIDDEN)),
    Case(nested_where, "both keep", graph("z = Where(c, x, low) y = Where(d, z, low)")),
    Case(nested_where, "one hides, one keeps", graph("z = Where(c, low, x) y = Where(d, z, low)")),
    Case(nested_where, "one keeps, one hides", graph("z = Where(c, x, low) y = Where(d, low, z)")),
    Case(nested_where, "two constants of one number", graph("z = Where(c, x, low) y = Where(d, z, other)")),
    Case([nested_where, masked_attention], "an attention", graph(ATTENTION, HEADS, "float[b, 4, s, 6] y")),
]
NEGATIVES = [
    Case(nested_where, "two numbers", why="must be the same number", model=graph(
        "z = Where(c, x, low) y = Where(d, z, other)", low="-1e30, -1e9")),
    Case(nested_where, "what the first hides is read", why="is also read",
         model=graph(f"{HIDDEN} r = Neg(z)", output="float[b, 4, s, t] y, float[b, 4, s, t] r")),
    Case(nested_where, "the second puts another number in each place", why="expected",
         model=graph("z = Where(c, low, x) y = Where(d, x, z)")),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """Each site is proved."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Each miss says why."""
    check_spares(case)
