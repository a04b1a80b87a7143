"""expanded_scalar_where: numbers that are spread to be chosen, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import masked_attention
from surgeon.patterns.attention_canonicalization.expanded_scalar_where import expanded_scalar_where

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 4] x, bool[n, 4] c) => (float[n, 4] y)"
CONSTANTS = "float half = {0.5}, float[4] row = {1, 2, 3, 4}"
FULL = "s = Shape(x) z = Expand(half, s)"


def graph(body, head=HEAD, constants=CONSTANTS):
    return parse(f'<ir_version: 9, opset_import: ["" : 17]> agraph {head} <{constants}> {{ {body} }}')


SCORES = "float[b, 4, s, 8] q, float[b, 4, 8, t] k, float[b, 4, t, 6] v, bool[b, 1, s, t] m"
GUARDED = (
    "a = MatMul(q, k) x = Where(m, low, a) p = Softmax<axis = -1>(x) i = IsNaN(p) h = Shape(p) z = ConstantOfShape(h) "
    "g = Where(i, z, p) y = MatMul(g, v)"
)
LOW = "float low = {-3.4028234e38}"
# fmt: off
FIRES = [
    Case(expanded_scalar_where, "a number for some", graph(f"{FULL} y = Where(c, z, x)")),
    Case(expanded_scalar_where, "a number for the others", graph(f"{FULL} y = Where(c, x, z)")),
    Case(expanded_scalar_where, "zeros, as zeros_like is exported",
         graph("s = Shape(x) z = ConstantOfShape(s) y = Where(c, z, x)")),
    Case(expanded_scalar_where, "ones",
         graph("s = Shape(x) z = ConstantOfShape<value = float[1] {1}>(s) y = Where(c, z, x)")),
    Case(expanded_scalar_where, "half precision", graph(
        "s = Shape(x) z = Expand(half, s) y = Where(c, z, x)", HEAD.replace("float", "float16"),
        "float16 half = {14336}")),
    Case(expanded_scalar_where, "by a condition of it", graph(
        f"t = Greater(x, half) {FULL} y = Where(t, x, z)", HEAD.replace(", bool[n, 4] c", ""))),
    Case([expanded_scalar_where, masked_attention], "an attention that sets rows without weights to zero",
         graph(GUARDED, f"({SCORES}) => (float[b, 4, s, 6] y)", LOW)),
]
NEGATIVES = [
    Case(expanded_scalar_where, "several numbers", why="expected",
         model=graph("s = Shape(x) z = Expand(row, s) y = Where(c, z, x)")),
    Case(expanded_scalar_where, "spread to more", why="may have another shape",
         model=graph("s = Shape(c) z = Expand(half, s) y = Where(c, z, r)",
                     "(float[4] r, bool[n, 4] c) => (float[n, 4] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_what_expand_spreads_is_proved_too():
    """Its reference may have a ConstantOfShape, which has attributes that such a match does not bind."""
    _, report = surgeon.rewrite(graph(f"{FULL} y = Where(c, x, z)"), expanded_scalar_where)
    assert [site.outcome for site in report.sites] == ["proved"]
