"""Columns written into a tensor that they fill: what is joined instead, what does not match and why."""

import pytest
from surgeon.patterns.cleanup.scatter_to_concat import scatter_to_concat

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[n, s, 3] a, float[n, s, 3] b, float[6, s, n] x"
TURNS = "int64[3, 1] p = {0, 2, 4}, int64[3, 1] q = {1, 3, 5}"
HALVES = "int64[3, 1] p = {0, 1, 2}, int64[3, 1] q = {3, 4, 5}"


def graph(places=TURNS, perm="[2, 1, 0]", inputs=INPUTS, more=""):
    header = '<ir_version: 10, opset_import: ["" : 17]> g'
    return parse(f"{header} ({inputs}) => (float[i, j, k] y{', float[i, j, k] z' * bool(more)}) <{places}> {{"
                 f"at = Transpose<perm = {perm}>(a) bt = Transpose<perm = {perm}>(b) "
                 f"once = ScatterND(x, p, at) y = ScatterND(once, q, bt) {more} }}")


def assigned(ends="float[n, s, 4] a, float[n, s, 2] b", whole=6, cuts=("front", "back"), rows="rows"):
    """x[..., first] = a, x[..., second] = b as TorchScript exports it: an index along each axis, spread over others."""
    parts = ""
    for part, cut in zip("ab", cuts, strict=True):
        parts += (
            f"i{part} = Add(at0, at1) j{part} = Add(i{part}, {cut}) s{part} = Shape(j{part}) "
            f"u{part} = Expand(at0, s{part}) v{part} = Expand({rows}, s{part}) w{part} = Expand({cut}, s{part}) "
            + " ".join(f"{name}1{part} = Unsqueeze({name}{part}, last)" for name in "uvw")
            + f" p{part} = Concat<axis = -1>(u1{part}, v1{part}, w1{part}) "
        )
    return parse(
        f"""<ir_version: 10, opset_import: ["" : 17]> g ({ends}) => (float[i, j, k] y)
        <int64[1] last = {{-1}}, int64 nil = {{0}}, int64 one = {{1}}, int64[1] wide = {{{whole}}},
        int64[1] zero = {{0}}, int64[1] two = {{2}}, int64[4] front = {{0, 1, 2, 3}}, int64[2] back = {{4, 5}},
        int64[3] even = {{0, 2, 4}},
        int64[3] odd = {{1, 3, 5}}, int64[3] shape0 = {{-1, 1, 1}}, int64[2] shape1 = {{-1, 1}}> {{
        z = Shape(a) ns = Slice(z, zero, two) g = Concat<axis = 0>(ns, wide) x = ConstantOfShape(g)
        n = Gather(z, nil) s = Gather(z, one) r0 = Range(nil, n, one) r1 = Range(nil, s, one)
        at0 = Reshape(r0, shape0) at1 = Reshape(r1, shape1) rows = Identity(at1) {parts}
        once = ScatterND(x, pa, a) y = ScatterND(once, pb, b) }}"""
    )


FIRES = [
    Case(scatter_to_concat, "by turns", graph()),
    Case(scatter_to_concat, "one behind the other", graph(HALVES)),
    Case(scatter_to_concat, "parts of other sizes, as DeepSeek writes its keys", graph(
        "int64[4, 1] p = {0, 1, 2, 3}, int64[2, 1] q = {4, 5}",
        inputs="float[n, s, 4] a, float[n, s, 2] b, float[6, s, n] x")),
    Case(scatter_to_concat, "the same by an index along each axis", assigned()),
    Case(scatter_to_concat, "by turns, by an index along each axis", assigned(
        "float[n, s, 3] a, float[n, s, 3] b", cuts=("even", "odd"))),
]
NEGATIVES = [
    Case(
        scatter_to_concat, "a whole that is not filled", graph(inputs=INPUTS.replace("6,", "7,")), why="fill the whole"
    ),
    Case(scatter_to_concat, "another order", graph(TURNS.replace("0, 2, 4", "0, 4, 2")), why="columns are unknown"),
    Case(scatter_to_concat, "the same places twice", graph(TURNS.replace("1, 3, 5", "0, 2, 4")), why="another order"),
    Case(
        scatter_to_concat,
        "rows",
        why="only the last axis",
        model=graph(perm="[0, 2, 1]", inputs="float[3, 5, s] a, float[3, 5, s] b, float[6, s, 5] x"),
    ),
    Case(scatter_to_concat, "a whole of more columns", assigned(whole=7), why="fill the whole"),
    Case(
        scatter_to_concat,
        "rows that another axis counts",
        assigned("float[s, s, 4] a, float[s, s, 2] b", rows="at0"),
        why="the rows of the updates are written to other rows",
    ),
    Case(scatter_to_concat, "another node reads the first result", graph(more="z = Neg(once)"), why="is also read"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """Each site is proved."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Each miss says why."""
    check_spares(case)
