"""Rotary embeddings of neighbours: what becomes one RotaryEmbedding, what does not match and why."""

import onnx
import pytest
from surgeon.patterns.rotary.rotary_3d_input import rotary_3d_input
from surgeon.patterns.rotary.rotary_embedding import rotary_embedding

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, 4, s, 8] x, float[b, s, 4] f, float[s, 4] c, float[s, 4] e"
CONSTANTS = (
    "<int64[1] first = {0}, int64[1] second = {1}, int64[1] end = {9223372036854775807}, int64[1] last = {3}, "
    "int64[1] two = {2}, int64[1] new = {-1}, int64[5] split = {0, 0, 0, 4, 2}, int64[4] whole = {0, 0, 0, 8}, "
    "int64[1] heads_axis = {1}, int64[4] twice = {1, 1, 1, 2}, int64[3] table = {0, 0, 8}, int64[3] other = {1, 1, 2}, "
    "int64[2] flat = {0, 8}, int64[4] heads = {0, 0, 4, 8}, int64[3] rows = {0, 0, 32}, int64 zero = {0}, "
    "int64[2] both = {2, 4}, int64[5] again = {1, 1, 1, 1, 2}, int64[4] joined = {0, 0, 1, 8}, "
    "int64[5] at_once = {0, 0, 4, 4, 2}, int64[3] joined1 = {0, 1, 8}, int64 unit = {1}, int64[2] ones = {1, 1}, "
    "float factor = {1.5}>"
)
CUT = "i = Slice(x, first, end, last, two) j = Slice(x, second, end, last, two)"
STACK = "w = Unsqueeze(p, new) z = Unsqueeze(q, new) t = Concat<axis = -1>(w, z)"
EACH = "p1 = Mul(i, c) p2 = Mul(j, e) p = Sub(p1, p2) q1 = Mul(i, e) q2 = Mul(j, c) q = Add(q1, q2)"
PAIRS = f"{CUT} {EACH} {STACK} y = Reshape(t, whole)"
TURNED = f"{CUT} p = Neg(j) {STACK.replace('(q', '(i')} r = Reshape(t, whole)"
SUM = "m = Mul(x, u) n = Mul(r, v) y = Add(m, n)"
ANGLES = (
    "f1 = Unsqueeze(f, last) f2 = Tile(f1, twice) a = Reshape(f2, table) a1 = Cos(a) a2 = Sin(a) "
    "u = Unsqueeze(a1, heads_axis) v = Unsqueeze(a2, heads_axis)"
)
GIVEN = (
    "c1 = Unsqueeze(c, new) c2 = Expand(c1, other) u = Reshape(c2, flat) "
    "e1 = Unsqueeze(e, new) e2 = Expand(e1, other) v = Reshape(e2, flat)"
)


def graph(body, inputs=INPUTS, opset=17, output="float[b, 4, s, 8]", constants=CONSTANTS):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {constants} {{ {body} }}")


def cut_by(*lines):
    """Pairs that are cut otherwise."""
    return graph(PAIRS.replace(CUT, f"k = Reshape(x, split) {' '.join(lines)}"))


def apart(*sizes):
    """The constants, with a shape of pairs."""
    return CONSTANTS.replace(">", f", int64[{len(sizes)}] apart = {{{', '.join(map(str, sizes))}}}>")


ROWS_OF = [[number // 2 / 10 + row / 7 for number in range(8)] for row in range(6)]
FLAT = ", ".join(str(round(number, 4)) for row in ROWS_OF for number in row)
FIXED = CONSTANTS.replace(">", f", float[6, 8] u = {{{FLAT}}}, float[6, 8] v = {{{FLAT}}}>")
SIX = INPUTS.replace("[b, 4, s, 8]", "[b, 4, 6, 8]")
FACTOR = ANGLES.replace("a1 = Cos(a) a2 = Sin(a)", "b1 = Cos(a) b2 = Sin(a) a1 = Mul(b1, factor) a2 = Mul(b2, factor)")
IN_ROWS = f"h = Reshape(o, heads) x = Transpose<perm = [0, 2, 1, 3]>(h) {PAIRS.replace('y = ', 'g = ')}"
IN_ROWS += " l = Transpose<perm = [0, 2, 1, 3]>(g) y = Reshape(l, rows)"
ROWS = INPUTS.replace("float[b, 4, s, 8] x", "float[b, s, 32] o")
BY_ROWS = (
    "a1 = Cos(f) a2 = Sin(f) b1 = Unsqueeze(a1, last) b2 = Tile(b1, twice) b3 = Reshape(b2, table) "
    "d1 = Unsqueeze(a2, last) d2 = Concat<axis = -1>(d1, d1) d3 = Reshape(d2, table) "
    "u = Unsqueeze(b3, heads_axis) v = Unsqueeze(d3, heads_axis)"
)
BEHIND = INPUTS.replace("[b, 4, s, 8]", "[b, s, 4, 8]").replace("float[s, 4]", "float[s, 1, 4]")
SPREAD = (
    "a1 = Cos(f) a2 = Sin(f) b1 = Unsqueeze(a1, both) b2 = Tile(b1, again) u = Reshape(b2, joined) "
    "d1 = Unsqueeze(a2, both) d2 = Tile(d1, again) v = Reshape(d2, joined)"
)
HALF = INPUTS.replace("float[", "float16[").replace("float16[b, s, 4] f", "float[b, s, 4] f")
CAST = ANGLES.replace("u = Unsqueeze(a1", "k1 = Cast<to = 10>(a1) u = Unsqueeze(k1").replace(
    "v = Unsqueeze(a2", "k2 = Cast<to = 10>(a2) v = Unsqueeze(k2"
)

OF_ROWS = "float[b, s, 32] o, float[s, 1, 4] c, float[s, 1, 4] e"
AT_ONCE = "k = Reshape(o, at_once) i1, j1 = Split<axis = -1>(k, ones) i = Squeeze(i1, new) j = Squeeze(j1, new)"
TABLED = "u1 = Unsqueeze(c, new) u2 = Concat<axis = -1>(u1, u1) u = Reshape(u2, flat) "
TABLED += "v1 = Unsqueeze(e, new) v2 = Concat<axis = -1>(v1, v1) v = Reshape(v2, flat)"
CUT_FROM = "k = Reshape(o, apart) i1, j1 = Split<axis = -1>(k, ones) i = Squeeze(i1, new) j = Squeeze(j1, new)"
OF_SQUEEZED = f"x = Squeeze(o, last) {TURNED.replace(CUT, CUT_FROM)} {TABLED} {SUM}"
OF_UNSQUEEZED = OF_SQUEEZED.replace("Squeeze(o, last)", "Unsqueeze(o, first)")
ON_EDGE = "float[b, 4, s, 1, 8] o, float[s, 4] c, float[s, 4] e"
OF_ONE = f"x = Reshape(o, heads) {TURNED.replace(CUT, AT_ONCE)} {SUM}"

# fmt: off
FIRES = [
    Case(rotary_embedding, "tables of each head", graph(PAIRS, INPUTS.replace("float[s, 4]", "float[4, s, 4]"))),
    Case(rotary_embedding, "heads that are split into pairs at once", graph(
        f"{AT_ONCE} {EACH} {STACK} y = Reshape(t, heads)", OF_ROWS,
        output="float[b, s, 4, 8]")),
    Case(rotary_embedding, "heads that are one of several which were joined, split into pairs at once", graph(
        f"{CUT_FROM} {EACH} {STACK} y = Reshape(t, whole)", "float[1, b, 4, 6, 8] o, float[6, 4] c, float[6, 4] e",
        constants=apart(-1, 4, 6, 4, 2), output="float[b, 4, 6, 8]")),
    Case(rotary_embedding, "heads and pairs that are split from one tensor", graph(
        f"{OF_ONE} u1 = Unsqueeze(c, new) u2 = Concat<axis = -1>(u1, u1) u = Reshape(u2, joined1) "
        "v1 = Unsqueeze(e, new) v2 = Concat<axis = -1>(v1, v1) v = Reshape(v2, joined1)",
        OF_ROWS, output="float[b, s, 4, 8]")),
    Case(rotary_embedding, "heads without an axis that what is split into pairs has", graph(
        OF_SQUEEZED, ON_EDGE, constants=apart(0, 4, -1, 4, 2))),
    Case(rotary_embedding, "the same, one row of angles or one for each", graph(
        OF_SQUEEZED, ON_EDGE.replace("float[s, 4]", "float[r, 4]"), constants=apart(0, 4, -1, 4, 2))),
    Case(rotary_embedding, "the same, without a batch", graph(
        OF_SQUEEZED, ON_EDGE.replace("[b, 4, s, 1, 8]", "[4, 1, s, 8]"), output="float[4, s, 8]",
        constants=apart(4, -1, 4, 2).replace("last = {3}", "last = {1}").replace("[4] whole = {0, ", "[3] whole = {"))),
    Case(rotary_embedding, "heads with an axis that what is split into pairs has not", graph(
        OF_UNSQUEEZED, ON_EDGE.replace("[b, 4, s, 1, 8]", "[4, s, 8]"), output="float[1, 4, s, 8]",
        constants=apart(1, 4, -1, 4, 2))),
    Case(rotary_embedding, "even and odd numbers, each by its formula", graph(PAIRS)),
    Case(rotary_embedding, "heads that are given with an axis for copies", graph(
        PAIRS, output="float[b, 4, s, 1, 8]",
        constants=CONSTANTS.replace("int64[4] whole = {0, 0, 0, 8}", "int64[5] whole = {0, 0, -1, 1, 8}"))),
    Case(rotary_embedding, "one row of a table for all",
         graph(PAIRS, INPUTS.replace("float[s, 4]", "float[1, 4]"))),
    Case(rotary_embedding, "tables that differ from head to head and from batch to batch",
         graph(PAIRS, INPUTS.replace("float[s, 4]", "float[b, 4, s, 4]"))),
    Case(rotary_embedding, "operands swapped",
         graph(PAIRS.replace("Mul(i, c)", "Mul(c, i)").replace("Add(q1, q2)", "Add(q2, q1)"))),
    Case(rotary_embedding, "tables for each batch",
         graph(PAIRS, INPUTS.replace("float[s, 4]", "float[b, 1, s, 4]"))),
    Case(rotary_embedding, "pairs in an axis of their own",
         cut_by("i = Gather<axis = 4>(k, zero) j = Gather<axis = 4>(k, unit)")),
    Case(rotary_embedding, "pairs that are split",
         cut_by("k1, k2 = Split<axis = -1>(k, ones) i = Squeeze(k1, new) j = Squeeze(k2, new)")),
    Case(rotary_embedding, "pairs that are split by slices",
         cut_by("k1 = Slice(k, first, second, new) k2 = Slice(k, second, two, new) "
                "i = Squeeze(k1, new) j = Squeeze(k2, new)")),
    Case(rotary_embedding, "the shape of the pairs is read",
         graph(PAIRS.replace("y = Reshape(t, whole)", "t1 = Shape(t) t2 = Slice(t1, first, last) "
                             "t3 = Concat<axis = 0>(t2, new) y = Reshape(t, t3)"))),
    Case(rotary_embedding, "tables from angles", graph(f"{TURNED} {ANGLES} {SUM}")),
    Case(rotary_embedding, "tables times a factor", graph(f"{TURNED} {FACTOR} {SUM}")),
    Case(rotary_embedding, "tables that are cast",
         graph(f"{TURNED} {CAST} {SUM}", HALF, output="float16[b, 4, s, 8]")),
    Case(rotary_embedding, "one batch of angles for all",
         graph(f"{TURNED} {ANGLES} {SUM}", INPUTS.replace("[b, s, 4]", "[1, s, 4]"))),
    Case(rotary_embedding, "curves that are repeated", graph(f"{TURNED} {BY_ROWS} {SUM}")),
    Case(rotary_embedding, "tables that are given", graph(f"{TURNED} {GIVEN} {SUM}")),
    Case(rotary_embedding, "fixed tables for fixed sizes",
         graph(f"{TURNED} {SUM}", SIX, constants=FIXED, output="float[b, 4, 6, 8]")),
    Case(rotary_embedding, "the standard op", graph(f"{TURNED} {ANGLES} {SUM}", opset=23), target="onnx"),
    Case(rotary_embedding, "the standard op, tables for all batches", graph(PAIRS, opset=23), target="onnx"),
    Case(rotary_embedding, "heads behind rows", graph(PAIRS, BEHIND, output="float[b, s, 4, 8]")),
    Case(rotary_embedding, "heads behind rows, tables for each batch",
         graph(PAIRS, BEHIND.replace("float[s, 1, 4]", "float[b, s, 1, 4]"), output="float[b, s, 4, 8]")),
    Case(rotary_embedding, "heads behind rows, the standard op", target="onnx",
         model=graph(PAIRS, BEHIND, opset=23, output="float[b, s, 4, 8]")),
    Case(rotary_embedding, "heads behind rows, axes for heads and copies in one",
         graph(f"{TURNED} {SPREAD} {SUM}", BEHIND, output="float[b, s, 4, 8]")),
    Case([rotary_embedding, rotary_3d_input], "heads that are split before and joined behind", sites=1,
         model=graph(IN_ROWS, ROWS, output="float[b, s, 32]")),
    Case(rotary_embedding, "tables of free columns, which are one or as many", model=graph(
        PAIRS, INPUTS.replace("float[s, 4] c, float[s, 4] e", "float[s, n] c, float[s, m] e"))),
    Case(rotary_embedding, "the same for each batch", model=graph(
        PAIRS, INPUTS.replace("float[s, 4] c, float[s, 4] e", "float[b, 1, s, n] c, float[b, 1, s, n] e"))),
    Case(rotary_embedding, "the same as the standard op", target="onnx", model=graph(
        PAIRS, INPUTS.replace("float[s, 4] c, float[s, 4] e", "float[1, 1, s, n] c, float[1, 1, s, n] e"), opset=23)),
    Case(rotary_embedding, "the same for heads behind the rows", model=graph(
        PAIRS, BEHIND.replace("[s, 1, 4]", "[s, 1, n]"), output="float[b, s, 4, 8]")),
]
NEGATIVES = [
    Case(rotary_embedding, "tables of each head, of free columns", why="may not have half as many", model=graph(
        PAIRS, "float[b, 4, 6, 8] x, float[4, 6, n] c, float[4, 6, n] e", output="float[b, 4, 6, 8]")),
    Case(rotary_embedding, "pairs of another tensor than the heads", why="must be the same tensor", model=graph(
        OF_SQUEEZED.replace("Reshape(o", "Reshape(h"), f"{ON_EDGE}, float[b, 4, s, 1, 8] h",
        constants=apart(0, 4, -1, 4, 2))),
    Case(rotary_embedding, "pairs of heads that lie otherwise", why="must be split into pairs", model=graph(
        OF_SQUEEZED, ON_EDGE.replace("[b, 4, s, 1, 8]", "[b, 4, 4, 1, 8]").replace("[s, 4]", "[4, 4]"),
        constants=apart(4, 0, -1, 4, 2), output="float[b, 4, 4, 8]")),
    Case(rotary_embedding, "heads split from other rows", why="split from other rows", model=graph(
        OF_SQUEEZED.replace("Squeeze(o, last)", "Reshape(o, heads)"),
        ON_EDGE.replace("[b, 4, s, 1, 8]", "[b, 2, 2, 4, 8]").replace("[s, 4]", "[4, 4]"),
        constants=apart(0, 4, 4, 4, 2).replace("heads = {0, 0,", "heads = {0, 4,"), output="float[b, 4, 4, 8]")),
    Case(rotary_embedding, "the other number negated", why="must be the same tensor",
         model=graph(PAIRS.replace("p = Sub(p1, p2)", "p = Add(p1, p2)").replace("q = Add(q1", "q = Sub(q1"))),
    Case(rotary_embedding, "even for odd", why="expected the constant 0",
         model=graph(PAIRS.replace("Slice(x, first", "Slice(x, zeroth").replace("Slice(x, second", "Slice(x, first")
                     .replace("zeroth", "second"))),
    Case(rotary_embedding, "every third number", why="expected the constant 2",
         model=graph(PAIRS.replace("last, two)", "last, last)"), INPUTS.replace("s, 8]", "s, 6]").replace("4] ", "2] "),
                     output="float[b, 4, s, 4]", constants=CONSTANTS.replace("whole = {0, 0, 0, 8}",
                                                                             "whole = {0, 0, 0, 4}"))),
    Case(rotary_embedding, "a slice that leaves numbers out", why="every other number of the last axis",
         model=graph(PAIRS, INPUTS.replace("s, 8]", "s, 12]"), constants=CONSTANTS.replace("{9223372036854775807}",
                                                                                          "{8}"))),
    Case(rotary_embedding, "pairs one behind the other", why="expected the constant 1",
         model=graph(f"{TURNED} {ANGLES} {SUM}".replace("Concat<axis = -1>(w, z)", "Concat<axis = 3>(w, z)")
                     .replace(", new)", ", last)"))),
    Case(rotary_embedding, "pairs joined in another shape", why="joined to another shape",
         model=graph(f"{TURNED} {GIVEN} {SUM}", SIX.replace("[b, 4, 6, 8]", "[1, 4, 6, 8]").replace("[s, 4]", "[6, 4]"),
                     constants=CONSTANTS.replace("whole = {0, 0, 0, 8}", "whole = {4, 1, 6, 8}"),
                     output="float[4, 4, 6, 8]")),
    Case(rotary_embedding, "a result of two other sizes that are free", why="several sizes of the result are dynamic",
         model=graph(PAIRS.replace("whole)", "into)"), f"{INPUTS}, int64[4] into", output="float[i, j, k, l]")),
    Case(rotary_embedding, "half a table behind the other", why="halves of a table differ",
         model=graph(f"{TURNED} u = Concat<axis = -1>(c, c) v = Concat<axis = -1>(e, e) {SUM}")),
    Case(rotary_embedding, "rows that are repeated, not columns", why="halves of a table differ",
         model=graph(f"{TURNED} {GIVEN} {SUM}".replace("Unsqueeze(c, new)", "Unsqueeze(c, heads_axis)")
                     .replace("Unsqueeze(e, new)", "Unsqueeze(e, heads_axis)")
                     .replace("1, other)", "1, across)"),
                     constants=CONSTANTS.replace("int64[3] other", "int64[3] across = {1, 2, 1}, int64[3] other"))),
    Case(rotary_embedding, "one batch for many tables", why="the same batch and rows",
         model=graph(f"{TURNED} {ANGLES} {SUM}", INPUTS.replace("[b, 4, s, 8]", "[1, 4, s, 8]"))),
    Case(rotary_embedding, "an unknown number of heads behind rows", why="number of heads is unknown",
         model=graph(PAIRS, BEHIND.replace("[b, s, 4, 8]", "[b, s, h, 8]"), output="float[b, s, h, 8]")),
    Case(rotary_embedding, "one number of a table for all", why="half as many columns",
         model=graph(PAIRS, INPUTS.replace("float[s, 4]", "float[s, 1]"))),
    Case(rotary_embedding, "fixed tables of unlike columns", why="halves of a table differ",
         model=graph(f"{TURNED} {SUM}", SIX, constants=FIXED.replace("{0.0, ", "{0.5, ", 1),
                     output="float[b, 4, 6, 8]")),
    Case(rotary_embedding, "an opset without the op", graph(PAIRS), target="onnx", why="opset 23"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_neighbours_are_distinguished_from_halves():
    """The attribute says which it was."""
    made, _ = surgeon.rewrite(graph(PAIRS), rotary_embedding)
    (node,) = (node for node in made.graph.node if node.op_type == "RotaryEmbedding")
    assert {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute} == {"interleaved": 1}
