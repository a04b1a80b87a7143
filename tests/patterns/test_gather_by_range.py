"""Gathers whose indices count up: what becomes new axes, what does not match and why."""

import numpy as np
import pytest
from surgeon.patterns.cleanup.gather_by_range import gather_by_range

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = (
    "<int64 nil = {0}, int64 one = {1}, int64[1] last = {-1}, int64[1] first = {0}, int64[3] batch = {1, 2, 3}, "
    "int64[3] keys = {0, 1, 2}, int64[2] axes = {1, 2}, int64[2] ends = {0, 2}, int64[1] flat = {-1}, "
    "int64[2, 1, 1, 3, 2] grid = {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}, "
    "int64[1, 3, 1] places = {0, 2, 1}, int64[2, 1, 1, 3, 2] odd = {0, 0, 0, 1, 0, 2, 1, 2, 1, 1, 1, 0}>"
)
COUNTS = "zm = Shape(table) b = Gather(zm, nil) t = Gather(zm, one)"
RANGES = "r = Range(nil, b, one) rows = Unsqueeze(r, batch) o = Range(nil, t, one) columns = Unsqueeze(o, keys)"
GRID = (
    "u = Max(rows, columns) sh = Shape(u) r5 = Expand(rows, sh) c5 = Expand(columns, sh) ru = Unsqueeze(r5, last) "
    "cu = Unsqueeze(c5, last) at = Concat<axis = -1>(ru, cu) g = GatherND(table, at)"
)
ROWS = "r = Range(nil, b, one) at = Unsqueeze(r, ends)"
LINE = "s = Mul(rows, t) at = Add(s, columns) line = Flatten<axis = 2>(table) l = Gather(line, at)"
FLAT = f"{LINE} sh = Shape(at) g = Reshape(l, sh)"
OTHER = "zx = Shape(x) b = Gather(zx, nil) t = Gather(zx, one) zm = Shape(table) w = Gather(zm, one)"


def graph(body, inputs="float[n, m] table", output="float[n, 1, 1, m]", opset=17):
    header = f'<ir_version: 10, opset_import: ["" : {opset}]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {CONSTANTS} {{ {body} y = Neg(g) }}")


PART = "float[n, m] table, float[p, q] x"

# fmt: off
FIRES = [
    Case(gather_by_range, "a grid of indices", graph(f"{COUNTS} {RANGES} {GRID}")),
    Case(gather_by_range, "indices into a line", graph(f"{COUNTS} {RANGES} {FLAT}")),
    Case(gather_by_range, "a line of one axis", graph(
        f"{COUNTS} {RANGES} {FLAT.replace('Flatten<axis = 2>(table)', 'Reshape(table, flat)')}")),
    Case(gather_by_range, "a line of one axis, and no reshape", graph(
        f"{COUNTS} {RANGES} {LINE.replace('Flatten<axis = 2>(table) l =', 'Reshape(table, flat) g =')}")),
    Case(gather_by_range, "fixed indices",
         graph("g = GatherND(table, grid)", "float[2, 3] table", "float[2, 1, 1, 3]")),
    Case(gather_by_range, "a batch of one", graph(f"{COUNTS} {RANGES} {GRID}", "float[1, m] table",
                                                "float[1, 1, 1, m]")),
    Case(gather_by_range, "rows of a table",
         graph(f"{COUNTS} {ROWS} g = GatherND(table, at)", output="float[1, n, m]")),
    Case(gather_by_range, "fewer rows than there are", graph(
        f"zx = Shape(x) b = Gather(zx, nil) {ROWS} g = GatherND(table, at)", "float[9, m] table, float[n, q] x",
        "float[1, n, m]")),
    Case(gather_by_range, "without new axes", graph(
        f"{COUNTS} {RANGES.replace('batch', 'one1').replace('keys', 'first')} {GRID}".replace(
            "zm =", "one1 = Constant<value_ints = [1]>() zm =", 1), output="float[n, m]")),
]
NEGATIVES = [
    Case(gather_by_range, "indices in another order", why="no Gather reads",
         model=graph("g = GatherND(table, odd)", "float[2, 3] table", "float[2, 1, 1, 3]")),
    Case(gather_by_range, "rows in another order", why="no Gather reads",
         model=graph("g = GatherND(table, places)", "float[3, m] table", "float[1, 3, m]")),
    Case(gather_by_range, "each second one", why="no Gather reads",
         model=graph(f"{COUNTS} {RANGES.replace('Range(nil, t, one)', 'Range(nil, t, two)')} {GRID}".replace(
             "zm =", "two = Constant<value_int = 2>() zm =", 1), output="float[n, 1, 1, k]")),
    Case(gather_by_range, "from the second on", why="no Gather reads",
         model=graph(f"{COUNTS} {RANGES.replace('Range(nil, t, one)', 'Range(one, t, one)')} {GRID}",
                     output="float[n, 1, 1, k]")),
    Case(gather_by_range, "the axes exchanged", why="no Gather reads",
         model=graph(f"{COUNTS} {RANGES} {GRID.replace('(ru, cu)', '(cu, ru)')}", "float[n, n] table",
                     "float[n, 1, 1, n]")),
    Case(gather_by_range, "a table of words", why="no Gather reads",
         model=graph("g = Gather(table, ids)", "float[n, m] table, int64[k] ids", "float[k, m]")),
    Case(gather_by_range, "a part of a line along both axes, which may run into the next row", why="no Gather reads",
         model=graph(f"{OTHER} {RANGES} {FLAT.replace('rows, t', 'rows, w')}", PART, "float[p, 1, 1, q]")),
    Case(gather_by_range, "the stride of another tensor", why="no Gather reads",
         model=graph(f"{COUNTS} zx = Shape(x) w = Gather(zx, one) {RANGES} {FLAT.replace('rows, t', 'rows, w')}",
                     PART)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def ops(model):
    return [node.op_type for node in model.graph.node]


def test_only_new_axes_are_left():
    """Nothing of the arithmetic on indices stays."""
    for body in (GRID, FLAT):
        made, _ = surgeon.rewrite(graph(f"{COUNTS} {RANGES} {body}"), gather_by_range)
        assert ops(made) == ["Unsqueeze", "Neg"]


@pytest.mark.parametrize(
    ("body", "x"), [(GRID, "p, q"), (FLAT.replace("Mul(rows, t)", "Mul(rows, w)"), "n, q")], ids=["grid", "line"]
)
def test_a_part_is_cut_out(body, x):
    """Ranges of other sizes than the tensor's pick the front of it."""
    batch = x.partition(",")[0]
    model = graph(f"{OTHER} {RANGES} {body}", f"float[n, m] table, float[{x}] x", f"float[{batch}, 1, 1, q]")
    made, report = surgeon.rewrite(model, gather_by_range, check="none")
    assert len(report.sites) == 1
    assert {"Slice", "Unsqueeze"} < set(ops(made))
    assert not {"GatherND", "Range", "Flatten"} & set(ops(made))
    runtime = pytest.importorskip("onnxruntime")
    for rows, width in ((4, 5), (4, 3), (4, 1), *(((2, 5), (1, 1)) if batch == "p" else ())):
        feeds = {"table": np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)}
        feeds["x"] = np.zeros((rows, width), np.float32)
        both = [runtime.InferenceSession(it.SerializeToString()).run(None, feeds) for it in (model, made)]
        np.testing.assert_array_equal(*(answer[0] for answer in both))
