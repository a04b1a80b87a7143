"""What is scattered and added: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.scatter_reductions import scatter_elements, scatter_nd

from surgeon import rewrite
from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
    Case(scatter_elements, "added, at one place twice", target="tensorrt",
         model=graph("y = ScatterElements<axis = 1, reduction = \"add\">(x, i, u)",
                     "(float[2, 4] x, float[2, 3] u) => (float[2, 4] y)",
                     "int64[2, 3] i = {1, 1, -1, 2, 0, 0}", 18)),
    Case(scatter_nd, "added, whole rows", target="tensorrt",
         model=graph("y = ScatterND<reduction = \"add\">(x, i, u)",
                     "(float[2, 4, 3] x, float[3, 3] u) => (float[2, 4, 3] y)",
                     "int64[3, 2] i = {1, 1, 0, -1, 1, 1}", 18)),
    Case(scatter_elements, "multiplied, at one place twice", target="tensorrt",
         model=graph("y = ScatterElements<axis = 1, reduction = \"mul\">(x, i, u)",
                     "(float[2, 4] x, float[2, 3] u) => (float[2, 4] y)",
                     "int64[2, 3] i = {1, 1, -1, 2, 0, 0}", 18)),
    Case(scatter_nd, "multiplied, whole rows", target="tensorrt",
         model=graph("y = ScatterND<reduction = \"mul\">(x, i, u)",
                     "(float[2, 4, 3] x, float[3, 3] u) => (float[2, 4, 3] y)",
                     "int64[3, 2] i = {1, 1, 0, -1, 1, 1}", 18)),
    Case(scatter_elements, "the larger, at one place twice", target="tensorrt",
         model=graph("y = ScatterElements<axis = 1, reduction = \"max\">(x, i, u)",
                     "(float[2, 4] x, float[2, 3] u) => (float[2, 4] y)",
                     "int64[2, 3] i = {1, 1, -1, 2, 0, 0}", 18)),
    Case(scatter_nd, "the larger, whole rows", target="tensorrt",
         model=graph("y = ScatterND<reduction = \"max\">(x, i, u)",
                     "(float[2, 4, 3] x, float[3, 3] u) => (float[2, 4, 3] y)",
                     "int64[3, 2] i = {1, 1, 0, -1, 1, 1}", 18)),
    Case(scatter_elements, "the smaller, at one place twice", target="tensorrt",
         model=graph("y = ScatterElements<axis = 1, reduction = \"min\">(x, i, u)",
                     "(float[2, 4] x, float[2, 3] u) => (float[2, 4] y)",
                     "int64[2, 3] i = {1, 1, -1, 2, 0, 0}", 18)),
    Case(scatter_nd, "the smaller, whole rows", target="tensorrt",
         model=graph("y = ScatterND<reduction = \"min\">(x, i, u)",
                     "(float[2, 4, 3] x, float[3, 3] u) => (float[2, 4, 3] y)",
                     "int64[3, 2] i = {1, 1, 0, -1, 1, 1}", 18)),
    Case(scatter_elements, "of free sizes, the axis among them", target="tensorrt",
         model=graph("y = ScatterElements<axis = 0, reduction = \"add\">(x, i, u)",
                     "(float[n, b] x, float[k, b] u, int64[k, b] i) => (float[n, b] y)", "", 16)),
    Case(scatter_elements, "of a free batch", target="tensorrt",
         model=graph("y = ScatterElements<axis = 1, reduction = \"max\">(x, i, u)",
                     "(float[n, 4] x, float[n, 3] u, int64[n, 3] i) => (float[n, 4] y)", "", 18)),
    Case(scatter_nd, "messages of a graph, added at their nodes", target="tensorrt",
         model=graph("y = ScatterND<reduction = \"add\">(x, i, u)",
                     "(float[n, 3] x, float[k, 3] u, int64[k, 1] i) => (float[n, 3] y)", "", 16)),
    Case(scatter_nd, "of a free batch, at two indices each", target="tensorrt",
         model=graph("y = ScatterND<reduction = \"mul\">(x, i, u)",
                     "(float[n, 4, 3] x, float[k, 3] u, int64[k, 2] i) => (float[n, 4, 3] y)", "", 18)),
]
NEGATIVES = [
    Case(scatter_elements, "no reduction", target="tensorrt", why="runs it as it is",
         model=graph("y = ScatterElements<axis = 1>(x, i, u)", "(float[2, 4] x, float[2, 3] u) => (float[2, 4] y)",
                     "int64[2, 3] i = {1, 1, 0, 2, 0, 0}", 18)),
    Case(scatter_nd, "free sizes behind the first", target="tensorrt", why="a size other than the first is dynamic",
         model=graph("y = ScatterND<reduction = \"add\">(x, i, u)",
                     "(float[4, n] x, float[2, n] u) => (float[4, n] y)", "int64[2, 1] i = {1, 1}", 18)),
    Case(scatter_elements, "some rows alone", target="tensorrt", why="must cover all other axes",
         model=graph("y = ScatterElements<axis = 1, reduction = \"add\">(x, i, u)",
                     "(float[2, 4] x, float[1, 3] u) => (float[2, 4] y)",
                     "int64[1, 3] i = {1, 1, 0}", 18)),
    Case(scatter_nd, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y = ScatterND<reduction = \"add\">(x, i, u)", "(float[4] x, float[2] u) => (float[4] y)",
                     "int64[2, 1] i = {1, 1}", 18)),
    Case(scatter_nd, "too much to compare", target="tensorrt", why="too many indices",
         model=graph("y = ScatterND<reduction = \"add\">(x, i, u)",
                     "(float[9000] x, float[9000] u, int64[9000, 1] i) => (float[9000] y)",
                     "", 18)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_indices_from_outside(reduction, dtype):
    """The factors of a product overflow by themselves; of NaN and a later number the number stays, as the rule says."""
    elements = scatter_elements, "ScatterElements", "3, 4"
    made, op, shape = elements if dtype == "float" else (scatter_nd, "ScatterND", "3, 1")
    head = f"({dtype}[5, 4] x, int64[{shape}] i, {dtype}[3, 4] u) => ({dtype}[5, 4] y)"
    model = graph(f'y = {op}<reduction = "{reduction}">(x, i, u)', head, "", 18)
    _, report = rewrite(model, rules=made, target="tensorrt", ep="any")
    assert [site.outcome for site in report.sites] == ["proved"]
