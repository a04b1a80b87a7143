"""Rotary embeddings: what becomes one RotaryEmbedding, what does not match and why."""

import pytest
from surgeon.patterns.rotary.rotary_3d_input import rotary_3d_input
from surgeon.patterns.rotary.rotary_embedding import rotary_embedding

import surgeon
from surgeon.authoring.rule_proof.prover import compare_zero_size
from surgeon.authoring.rule_proof.result import InstanceOutcome
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, 4, s, 8] x, float[b, s, 4] f, float[s, 4] c, float[s, 4] e"
CONSTANTS = (
    "<int64[1] start = {0}, int64[1] middle = {4}, int64[1] end = {9223372036854775807}, int64[1] last = {3}, "
    "int64[1] one = {1}, int64[1] second = {2}, int64[1] third = {3}, "
    "int64[2] parts = {4, 4}, int64[4] heads = {0, 0, 4, 8}, "
    "int64[3] rows = {0, 0, 32}, "
    "float factor = {1.5}>"
)
TURNED = (
    "hi = Slice(x, middle, end, last, one) lo = Slice(x, start, middle, last, one) ne = Neg(hi) "
    "t = Concat<axis = -1>(ne, lo)"
)
ANGLES = "a = Concat<axis = -1>(f, f) p = Cos(a) q = Sin(a)"
TABLES = "u = Unsqueeze(p, one) v = Unsqueeze(q, one)"
SUM = "m = Mul(x, u) n = Mul(t, v) y = Add(m, n)"
PLAIN = f"{TURNED} {ANGLES} {TABLES} {SUM}"
GIVEN = f"{TURNED} u = Concat<axis = -1>(c, c) v = Concat<axis = -1>(e, e) {SUM}"


def graph(body, inputs=INPUTS, opset=17, output="float[b, 4, s, 8]", constants=CONSTANTS):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {constants} {{ {body} }}")


ROWS_OF = [[number / 10 + row / 7 for number in range(4)] * 2 for row in range(6)]
FLAT = ", ".join(str(round(number, 4)) for row in ROWS_OF for number in row)
FIXED = CONSTANTS.replace(">", f", float[6, 8] u = {{{FLAT}}}, float[6, 8] v = {{{FLAT}}}>")
SPLIT = "lo, hi = Split<axis = -1>(x, parts) ne = Neg(hi) t = Concat<axis = -1>(ne, lo)"
EQUAL = SPLIT.replace("Split<axis = -1>(x, parts)", "Split<axis = 3, num_outputs = 2>(x)")
FACTOR = PLAIN.replace("p = Cos(a) q = Sin(a)", "h = Cos(a) j = Sin(a) p = Mul(h, factor) q = Mul(j, factor)")
ROUNDED = PLAIN.replace(
    TABLES,
    "c1 = Cast<to = 10>(p) s1 = Cast<to = 10>(q) c2 = Unsqueeze(c1, one) "
    "s2 = Unsqueeze(s1, one) u = Cast<to = 1>(c2) v = Cast<to = 1>(s2) z = Mul(w, c2)",
)
SPREAD = f"{TURNED} {ANGLES} {SUM.replace('(x, u)', '(x, p)').replace('(t, v)', '(t, q)')}"
HALF = f"{TURNED} a = Concat<axis = -1>(f, f) c1 = Cos(a) s1 = Sin(a) u = Cast<to = 10>(c1) v = Cast<to = 10>(s1) {SUM}"
IN_ROWS = f"w = Reshape(r, heads) x = Transpose<perm = [0, 2, 1, 3]>(w) {PLAIN.replace('y = Add', 'z = Add')}"
IN_ROWS += " o = Transpose<perm = [0, 2, 1, 3]>(z) y = Reshape(o, rows)"
ROWS = INPUTS.replace("float[b, 4, s, 8] x", "float[b, s, 32] r")
FLAT_ROWS = GIVEN.replace("last, one)", "second, one)")

TABLED = FIXED.replace(" u = {", " tu = {").replace(" v = {", " tv = {")
TAKEN = "u = Slice(tu, start, r, start) v = Slice(tv, start, r, start)"
LENGTH = "r = Shape<start = 2, end = 3>(x)"
TWO = ", ".join(str(round(number, 4)) for row in ROWS_OF for number in row + row)
ONE_TABLE = CONSTANTS.replace(">", f", float[6, 16] tu = {{{TWO}}}>")
BY_SINES = f"{SPLIT.split(' t =')[0]} k1 = Mul(ne, e) k2 = Mul(lo, e) n = Concat<axis = -1>(k1, k2)"
BY_PLACES = (
    f"{TURNED} c1 = Gather<axis = 0>(tu, w) e1 = Gather<axis = 0>(tv, w) "
    f"u = Unsqueeze(c1, one) v = Unsqueeze(e1, one) {SUM}"
)
WIDE = PLAIN.replace(
    "m = Mul(x, u) n = Mul(t, v) y = Add(m, n)",
    ("x1 = Cast<to = 1>(x) t1 = Cast<to = 1>(t) m = Mul(x1, u) n = Mul(t1, v) o = Add(m, n) y = Cast<to = 10>(o)"),
)

# The two halves of a head from rows of three kinds, by the numbers of these for the parts of two columns each.
BY_KINDS = (
    f"{TURNED} {ANGLES} p0, p1, p2, p3 = Split<axis = -1>(p, twos) q0, q1, q2, q3 = Split<axis = -1>(q, twos) "
    + " ".join(f"{x}{part}k = Gather<axis = 0>({x}{part}, k{{{part}}})" for x in "pq" for part in range(4))
    + f" c = Concat<axis = -1>(p0k, p1k, p2k, p3k) e = Concat<axis = -1>(q0k, q1k, q2k, q3k) "
    f"{TABLES.replace('(p,', '(c,').replace('(q,', '(e,')} {SUM}"
)
KINDS = INPUTS.split(", float[s, 4] c")[0].replace("[b, s, 4] f", "[3, b, s, 4] f")
NUMBERED = CONSTANTS.replace(">", ", int64[4] twos = {2, 2, 2, 2}, int64 k0 = {0}, int64 k1 = {1}>")

# fmt: off
FIRES = [
    Case(rotary_embedding, "angles by places of several kinds, as Qwen2-VL has them",
         graph(BY_KINDS.format(0, 1, 0, 1), KINDS, constants=NUMBERED)),
    Case(rotary_embedding, "rows of fixed tables", graph(f"{TURNED} {LENGTH} {TAKEN} {SUM}", constants=TABLED)),
    Case(rotary_embedding, "rows of fixed tables by their places", graph(
        BY_PLACES, f"{INPUTS}, int64[b, s] w", constants=TABLED)),
    Case(rotary_embedding, "both cut out of rows of one table", graph(
        f"{TURNED} {LENGTH} k = Slice(tu, start, r, start) u, v = Split<axis = -1, num_outputs = 2>(k) {SUM}",
        opset=18, constants=ONE_TABLE)),
    Case(rotary_embedding, "parts that are multiplied with the sine before they are joined",
         graph(f"{BY_SINES} u = Concat<axis = -1>(c, c) m = Mul(x, u) y = Add(m, n)")),
    Case(rotary_embedding, "computed in another dtype", graph(
        WIDE, INPUTS.replace("float[b, 4, s, 8]", "float16[b, 4, s, 8]"), output="float16[b, 4, s, 8]")),
    Case(rotary_embedding, "tables from angles", graph(PLAIN)),
    Case(rotary_embedding, "one batch of angles for all", graph(PLAIN, INPUTS.replace("[b, s, 4]", "[1, s, 4]"))),
    Case(rotary_embedding, "angles for one row, or for each of a fixed number", graph(
        PLAIN, INPUTS.replace("[b, 4, s, 8]", "[b, 4, 6, 8]"), output="float[b, 4, 6, 8]")),
    Case(rotary_embedding, "the standard op, angles for one row, or for each of a fixed number", target="onnx",
         model=graph(PLAIN, INPUTS.replace("[b, 4, s, 8]", "[b, 4, 6, 8]"), 23, output="float[b, 4, 6, 8]")),
    Case(rotary_embedding, "one batch of angles for one row, or for each", graph(
        PLAIN, INPUTS.replace("[b, 4, s, 8]", "[b, 4, 6, 8]").replace("[b, s, 4]", "[1, s, 4]"),
        output="float[b, 4, 6, 8]")),
    Case(rotary_embedding, "tables times a factor", graph(FACTOR)),
    Case(rotary_embedding, "tables that are no sines, which the op takes as well",
         graph(PLAIN.replace("q = Sin(a)", "q = Tanh(a)"))),
    Case(rotary_embedding, "tables times numbers of each row",
         graph(PLAIN.replace("q = Sin(a)", "g = Sin(a) q = Mul(g, h)"), f"{INPUTS}, float[s, 1] h")),
    Case(rotary_embedding, "one table times a factor", graph(FACTOR.replace("q = Mul(j, factor)", "q = Identity(j)"))),
    Case(rotary_embedding, "angles without an axis for heads",
         graph(SPREAD, INPUTS.replace("[b, s, 4] f", "[s, 4] f"))),
    Case(rotary_embedding, "angles with an axis of one for heads",
         graph(SPREAD, INPUTS.replace("[b, s, 4] f", "[b, 1, s, 4] f"))),
    Case(rotary_embedding, "angles without an axis for heads, and tables in half precision",
         graph(HALF, INPUTS.replace("float[b, 4, s, 8] x", "float16[b, 4, s, 8] x").replace("[b, s, 4] f", "[s, 4] f"),
               output="float16[b, 4, s, 8]")),
    Case(rotary_embedding, "the standard op, angles with an axis of one for heads", target="onnx",
         model=graph(SPREAD, INPUTS.replace("[b, s, 4] f", "[b, 1, s, 4] f"), opset=23)),
    Case(rotary_embedding, "operands swapped", graph(PLAIN.replace("Mul(x, u)", "Mul(u, x)").replace("m, n", "n, m"))),
    Case(rotary_embedding, "tables rounded to half precision, and cast back for one of several inputs",
         graph(ROUNDED, f"{INPUTS}, float16[b, 4, s, 8] w", output="float16[b, 4, s, 8] z, float[b, 4, s, 8]")),
    Case(rotary_embedding, "tables that are given", graph(GIVEN)),
    Case(rotary_embedding, "tables for each batch",
         graph(GIVEN, INPUTS.replace("float[s, 4]", "float[b, 1, s, 4]"))),
    Case(rotary_embedding, "tables of each head, as vision models learn them", graph(
        GIVEN, INPUTS.replace("float[s, 4]", "float[4, s, 4]"))),
    Case(rotary_embedding, "the standard op, tables of each head in one batch", target="onnx",
         model=graph(GIVEN, INPUTS.replace("float[s, 4]", "float[1, 4, s, 4]"), 23)),
    Case(rotary_embedding, "fixed tables for fixed sizes",
         graph(f"{TURNED} {SUM}", INPUTS.replace("[b, 4, s, 8]", "[b, 4, 6, 8]"), constants=FIXED,
               output="float[b, 4, 6, 8]")),
    Case(rotary_embedding, "cut by Split",
         graph(f"{SPLIT} {ANGLES} {TABLES} {SUM}")),
    Case(rotary_embedding, "cut by Split in two equal parts",
         graph(f"{EQUAL} {ANGLES} {TABLES} {SUM}", opset=18)),
    Case(rotary_embedding, "the first half negated, which turns the other way",
         graph(PLAIN.replace("Neg(hi)", "Neg(lo)").replace("(ne, lo)", "(hi, ne)"))),
    Case(rotary_embedding, "the other way by fixed tables, the standard op", target="onnx", model=graph(
        f"{TURNED.replace('Neg(hi)', 'Neg(lo)').replace('(ne, lo)', '(hi, ne)')} {SUM}",
        INPUTS.replace("[b, 4, s, 8]", "[b, 4, 6, 8]"), 23, "float[b, 4, 6, 8]", FIXED)),
    Case(rotary_embedding, "tables that differ from head to head and from batch to batch",
         graph(GIVEN, INPUTS.replace("float[s, 4]", "float[b, 4, s, 4]"))),
    Case(rotary_embedding, "angles that differ from head to head",
         graph(SPREAD, INPUTS.replace("[b, s, 4] f", "[b, 4, s, 4] f"))),
    Case(rotary_embedding, "no axis for the batch, heads behind rows", graph(
        FLAT_ROWS, INPUTS.replace("[b, 4, s, 8]", "[s, 4, 8]").replace("float[s, 4]", "float[s, 1, 4]"),
        output="float[s, 4, 8]")),
    Case(rotary_embedding, "no axis for the batch, one row of angles or one for each", graph(
        FLAT_ROWS.replace("(c, c)", "(k, k)"), INPUTS.replace("[b, 4, s, 8]", "[4, s, 8]") + ", float[r, 4] k",
        output="float[4, s, 8]")),
    Case(rotary_embedding, "no axis for the batch, the standard op", target="onnx", model=graph(
        FLAT_ROWS, INPUTS.replace("[b, 4, s, 8]", "[4, s, 8]"), 23, "float[4, s, 8]")),
    Case(rotary_embedding, "no axis for the batch, in another dtype", graph(
        WIDE.replace(TABLES, "u = Identity(p) v = Identity(q)").replace("last, one)", "second, one)"),
        INPUTS.replace("float[b, 4, s, 8]", "float16[4, s, 8]").replace("[b, s, 4]", "[s, 4]"),
        output="float16[4, s, 8]")),
    Case(rotary_embedding, "rows in front of the batch, as wav2vec2 has it", graph(
        GIVEN, INPUTS.replace("[b, 4, s, 8]", "[s, b, 4, 8]").replace("float[s, 4]", "float[s, 1, 1, 4]"),
        output="float[s, b, 4, 8]")),
    Case(rotary_embedding, "slices without steps", graph(PLAIN.replace(", last, one)", ", last)"))),
    Case(rotary_embedding, "the standard op", graph(PLAIN, opset=23), target="onnx"),
    Case(rotary_embedding, "the standard op, one batch of angles for all", target="onnx",
         model=graph(PLAIN, INPUTS.replace("[b, s, 4]", "[1, s, 4]"), 23)),
    Case([rotary_embedding, rotary_3d_input], "heads that are split before and joined behind", sites=1,
         model=graph(IN_ROWS, ROWS, output="float[b, s, 32]")),
]
NEGATIVES = [
    Case(rotary_embedding, "angles by places of other kinds for the second half", why="halves of a table differ",
         model=graph(BY_KINDS.format(0, 1, 1, 0), KINDS, constants=NUMBERED)),
    Case(rotary_embedding, "columns of fixed tables left out", why="half as many columns", model=graph(
        f"{TURNED} u = Slice(tu, start, r, one) v = Slice(tv, start, r, one) {SUM}",
        f"{INPUTS}, int64[1] r", constants=TABLED)),
    Case(rotary_embedding, "unlike halves of fixed tables by their places", why="halves of a table differ", model=graph(
        BY_PLACES, f"{INPUTS}, int64[b, s] w", constants=TABLED.replace("0.3,", "0.4,", 1))),
    Case(rotary_embedding, "cut elsewhere than in the middle", why="must be one of 2 equal parts",
         model=graph(PLAIN, constants=CONSTANTS.replace("middle = {4}", "middle = {3}"))),
    Case(rotary_embedding, "every other number", why="steps",
         model=graph(PLAIN.replace("last, one) lo", "last, two) lo").replace("last, one) ne", "last, two) ne"),
                     constants=CONSTANTS.replace("int64[1] one", "int64[1] two = {2}, int64[1] one"))),
    Case(rotary_embedding, "the halves in their order", why="must begin at part",
         model=graph(PLAIN.replace("Concat<axis = -1>(ne, lo)", "Concat<axis = -1>(lo, ne)"))),
    Case(rotary_embedding, "no half negated", why="expected",
         model=graph(PLAIN.replace("Neg(hi)", "Relu(hi)"))),
    Case(rotary_embedding, "angles of two kinds", why="halves of a table differ",
         model=graph(PLAIN.replace("q = Sin(a)", "ab = Concat<axis = -1>(f, g) q = Sin(ab)"),
                     f"{INPUTS}, float[b, s, 4] g")),
    Case(rotary_embedding, "tables of more axes than the heads", why="tables must have the axes", model=graph(
        FLAT_ROWS, INPUTS.replace("[b, 4, s, 8]", "[s, 4, 8]").replace("float[s, 4]", "float[b, s, 1, 4]"),
        output="float[b, s, 4, 8]")),
    Case(rotary_embedding, "tables of each head and of another batch", why="differ between heads",
         model=graph(GIVEN, INPUTS.replace("float[s, 4]", "float[d, 4, s, 4]"))),
    Case(rotary_embedding, "tables of each head that may have one row", why="differ between heads",
         model=graph(GIVEN, INPUTS.replace("float[s, 4]", "float[4, r, 4]"))),
    Case(rotary_embedding, "tables of fixed rows for heads of free ones, which may have one",
         why="the same batch and rows", model=graph(GIVEN, INPUTS.replace("float[s, 4]", "float[6, 4]"))),
    Case(rotary_embedding, "tables of no head", why="differ between heads", model=graph(
        GIVEN, "float[b, 0, 6, 8] x, float[0, 6, 4] c, float[0, 6, 4] e", output="float[b, 0, 6, 8]")),
    Case(rotary_embedding, "fixed tables of unlike halves", why="halves of a table differ",
         model=graph(f"{TURNED} {SUM}", INPUTS.replace("[b, 4, s, 8]", "[b, 4, 6, 8]"),
                     constants=FIXED.replace("{0.0, ", "{0.5, ", 1), output="float[b, 4, 6, 8]")),
    Case(rotary_embedding, "an opset without the op", graph(PLAIN), target="onnx", why="opset 23"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_tables_of_each_head_turn_a_batch_of_none():
    """Reshape cannot count the rows of what is empty."""
    sizes = "float[0, 4, 6, 8] x, float[0, 4, 6, 4] c, float[0, 4, 6, 4] e"
    model = graph(GIVEN, sizes, opset=23, output="float[0, 4, 6, 8]")
    rewritten, report = surgeon.rewrite(model, "rotary_embedding", target="onnx", check="none")
    assert report.counts["rotary_embedding"] == 1
    assert compare_zero_size(model, rewritten).outcome is InstanceOutcome.PROVED
