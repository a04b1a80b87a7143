"""redundant_expand: Expands before nodes that broadcast anyway, what does not match and why."""

import pytest
from surgeon.patterns.cleanup.redundant_expand import redundant_expand

from surgeon.testing import Case, check_fires, check_spares, parse

OF_ROWS = "l = ReduceL2<axes = [-1]>(x) s = Shape(x) e = Expand(l, s)"


def model(body, inputs="float[n, 4] x", made="float[] y", constants="", opset=17):
    text = f"({inputs}) => ({made}) {f'<{constants}>' if constants else ''} {{ {body} }}"
    return parse(f'<ir_version: 9, opset_import: ["" : {opset}]> g {text}')


def row(body, dtype="float", made="float[] y", others="", opset=17, to="n, 4"):
    """A row that is expanded to the shape of x."""
    return model(f"s = Shape(x) e = Expand(r, s) {body}", f"{dtype}[4] r, {dtype}[{to}] x{others}", made, opset=opset)


def fixed(body, r, x, to, op="Expand"):
    """A tensor r that is expanded to a constant shape, or tiled, and x."""
    shape = f"int64[{to.count(',') + 1}] t = {{{to}}}"
    return model(f"e = {op}(r, t) {body}", f"float[{r}] r, float[{x}] x", constants=shape)


# fmt: off
FIRES = [
    Case(redundant_expand, "by the length of each row, as torch's normalize writes it", model(
        "l = ReduceL2<axes = [-1]>(x) c = Max(l, k) s = Shape(x) e = Expand(c, s) y = Div(x, e)",
        constants="float k = {1e-12}")),
    Case(redundant_expand, "what two nodes read", model(f"{OF_ROWS} a = Div(x, e) y = Add(a, e)"), sites=2),
    Case(redundant_expand, "what is an output too", model(f"{OF_ROWS} y = Div(x, e)", made="float[] y, float[] e")),
    Case(redundant_expand, "a gate for each row, as expand_as writes it", model(
        "m = ReduceMean<axes = [-1]>(x) k = Sigmoid(m) s = Shape(x) e = Expand(k, s) y = Mul(x, e)")),
    Case(redundant_expand, "the first operand", row("y = Sub(e, x)")),
    Case(redundant_expand, "a comparison", row("y = Greater(e, x)", made="bool[] y")),
    Case(redundant_expand, "one of three, with attributes", row("y = Sum(x, e, x)")),
    Case(redundant_expand, "a node with an attribute", row("y = Mod<fmod = 1>(x, e)")),
    Case(redundant_expand, "a condition", row("y = Where(e, z, w)", "bool", others=", float[n, 4] z, float w")),
    Case(redundant_expand, "the slope of a PRelu", row("y = PRelu(x, e)")),
    Case(redundant_expand, "an axis of each", fixed("y = Add(e, x)", "2, 1", "3, 1, 4", "2, 4")),
    Case(redundant_expand, "an axis of one that is tiled", fixed("y = Add(e, x)", "1, 4", "3, 4", "3, 1", "Tile")),
    Case(redundant_expand, "a new axis of one", fixed("y = Add(e, x)", "4", "1, 4", "1, 4")),
]
NEGATIVES = [
    Case(redundant_expand, "the dividend is broadcast too", why="may have another shape", model=model(
        "l = ReduceL2<axes = [-1]>(x) s = Concat<axis = 0>(k, four) e = Expand(l, s) y = Div(x, e)", "float[1, 4] x",
        "float[m, 4] y", "int64[1] k = {3}, int64[1] four = {4}")),
    Case(redundant_expand, "a size that may be 1 in the other tensor", why="may have another shape",
         model=model("s = Shape(z) e = Expand(x, s) y = Add(e, w)", "float[1, 4] x, float[n, 4] z, float[m, 4] w")),
    Case(redundant_expand, "a new axis that nothing else has", why="fewer axes",
         model=fixed("y = Add(e, x)", "4", "4", "1, 4")),
    Case(redundant_expand, "two rows that are tiled", why="may have another shape",
         model=fixed("y = Add(e, x)", "2, 4", "4, 4", "2, 1", "Tile")),
    Case(redundant_expand, "PRelu does not broadcast its first input", why="no Expand or Tile precedes",
         model=row("y = PRelu(e, x)")),
    Case(redundant_expand, "an unknown shape", why="a shape is unknown",
         model=model("e = Expand(x, s) y = Add(e, w)", "float[1, 4] x, int64[k] s, float[2, 4] w")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
