"""The embeddings of a transformer: what becomes one EmbedLayerNormalization, what does not match and why."""

import numpy as np
import onnx
import pytest
from surgeon.patterns.norms.embed_layer_norm import embed_layer_norm
from surgeon.patterns.norms.layer_norm import layer_norm
from surgeon.patterns.norms.residual_sum import residual_sum
from surgeon.patterns.norms.skip_layer_norm import skip_layer_norm

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "int64[b, s] i, int64[b, s] k"


def numbers(count, step):
    return ", ".join(str(round(1 + step * number % 3, 3)) for number in range(count))


CONSTANTS = (
    f"<float[9, 4] w = {{{numbers(36, 0.7)}}}, float[6, 4] p = {{{numbers(24, 0.4)}}}, float[2, 4] t = "
    f"{{{numbers(8, 0.9)}}}, float[4] g = {{1.5, 0.5, -1.0, 2.0}}, float[4] h = {{0.1, 0.2, 0.3, 0.4}}, "
    "int64[1, 6] places = {0, 1, 2, 3, 4, 5}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, "
    "int64 nil = {0}, int64 unit = {1}>"
)
WORDS = "a = Gather(w, i)"
TYPES = "c = Gather(t, k)"
LENGTH = "z = Shape(i) n = Slice(z, one, two, zero)"
COUNTED = f"{LENGTH} o = Slice(places, zero, n, one, one) e = Gather(p, o)"
RANGE = f"{LENGTH} n0 = Squeeze(n, zero) r = Range(nil, n0, unit) o = Unsqueeze(r, zero) e = Gather(p, o)"
GIVEN = "e = Gather(p, o)"
NORM = "y = LayerNormalization<axis = -1, epsilon = 1e-6>(x, g, h)"
THREE = f"u = Add(a, c) x = Add(u, e) {NORM}"
TWO = f"x = Add(a, e) {NORM}"
DECOMPOSED = """x = Add(a, e) m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Pow(d, square)
    v = ReduceMean<axes = [-1]>(q) f = Add(v, eps) s0 = Sqrt(f) b0 = Div(d, s0) b1 = Mul(b0, g) y = Add(b1, h)"""


def graph(body, inputs=INPUTS, output="float[b, s, 4] y", constants=CONSTANTS):
    return parse(f"({inputs}) => ({output}) {constants} {{ {body} }}")


def half(text):
    """Constants in float16: ONNX text gives its numbers as bits."""

    def bits(body):
        return ", ".join(str(int(np.float16(float(item)).view(np.uint16))) for item in body.split(","))

    parts = text.split("float[")
    return parts[0] + "".join(
        f"float16[{part.split('{')[0]}{{{bits(part.split('{')[1].split('}')[0])}}}{part.split('}', 1)[1]}"
        for part in parts[1:]
    )


SKIP = "com.microsoft.SkipLayerNormalization<epsilon = 1e-6>"
BATCHES = f"{INPUTS}, int64[b, s] o"
ROW = f"{INPUTS}, int64[1, s] o"
SUM = f"{THREE} j = Neg(x)"
WITH_SUM = "float[b, s, 4] y, float[b, s, 4] j"
FIXED = "int64[2, 6] i, int64[2, 6] k"

BEHIND_NORM = [layer_norm, embed_layer_norm]
RESIDUALS = [residual_sum, embed_layer_norm, skip_layer_norm]

# fmt: off
FIRES = [
    Case(embed_layer_norm, "words, places that are counted, types", graph(f"{WORDS} {TYPES} {COUNTED} {THREE}")),
    Case(embed_layer_norm, "words and places", graph(f"{WORDS} {COUNTED} {TWO}")),
    Case(embed_layer_norm, "summands in another order",
         graph(f"{WORDS} {TYPES} {COUNTED} u = Add(e, a) x = Add(c, u) {NORM}")),
    Case(embed_layer_norm, "places of a range", graph(f"{WORDS} {TYPES} {RANGE} {THREE}")),
    Case(embed_layer_norm, "places of a range of one axis",
         graph(f"{WORDS} {RANGE.replace('Gather(p, o)', 'Gather(p, r)')} {TWO}")),
    Case(embed_layer_norm, "places counted off the words' rows",
         graph(f"{WORDS} {COUNTED.replace('Shape(i)', 'Shape(a)')} {TWO}")),
    Case(embed_layer_norm, "places for each batch", graph(f"{WORDS} {TYPES} {GIVEN} {THREE}", BATCHES)),
    Case(embed_layer_norm, "places for all batches", graph(f"{WORDS} {TYPES} {GIVEN} {THREE}", ROW)),
    Case(embed_layer_norm, "places of one axis", graph(f"{WORDS} {GIVEN} {TWO}", ROW.replace("[1, s]", "[s]"))),
    Case(embed_layer_norm, "fixed places", graph(f"{WORDS} e = Gather(p, places) {TWO}", FIXED, "float[2, 6, 4] y")),
    Case(embed_layer_norm, "fixed places that start later",
         graph(f"{WORDS} e = Gather(p, places) {TWO}", FIXED, "float[2, 6, 4] y",
               CONSTANTS.replace("{0, 1, 2, 3, 4, 5}", "{1, 2, 3, 4, 5, 5}"))),
    Case(embed_layer_norm, "rows that are fixed",
         graph(f"{WORDS} {TYPES} {THREE}", FIXED, "float[2, 6, 4] y",
               CONSTANTS.replace("float[6, 4] p", "float[1, 6, 4] e"))),
    Case(embed_layer_norm, "rows that are cut off a parameter",
         graph(f"{WORDS} {LENGTH} e = Slice(p, zero, n, one) {TWO}",
               constants=CONSTANTS.replace("float[6, 4] p", "float[1, 6, 4] p"))),
    Case(embed_layer_norm, "rows that are cut off a table",
         graph(f"{WORDS} {LENGTH} e = Slice(p, zero, n, zero) {TWO}")),
    Case(embed_layer_norm, "ids of int32", graph(f"{WORDS} {COUNTED} {TWO}", INPUTS.replace("int64", "int32"))),
    Case(embed_layer_norm, "the sum is read again",
         graph(f"{WORDS} {TYPES} {COUNTED} {SUM}", output=WITH_SUM)),
    Case(embed_layer_norm, "the sum is read again, places are given",
         graph(f"{WORDS} {TYPES} {GIVEN} {SUM}", BATCHES, WITH_SUM)),
    Case(embed_layer_norm, "float16", graph(f"{WORDS} {TYPES} {COUNTED} {THREE}", output="float16[b, s, 4] y",
                                            constants=half(CONSTANTS))),
    Case(BEHIND_NORM, "behind the rule layer_norm",
         graph(f"{WORDS} {COUNTED} {DECOMPOSED}",
               constants=CONSTANTS.replace("<", "<float square = {2.0}, float eps = {1e-6}, ", 1)), sites=1),
    Case(RESIDUALS, "not on a CPU, where a sum is faster",
         graph(f"{WORDS} {TYPES} {COUNTED} {THREE}"), sites=1, ep="cuda"),
    Case(embed_layer_norm, "scale and shift are inputs",
         graph(f"{WORDS} {COUNTED} x = Add(a, e) y = LayerNormalization<axis = -1, epsilon = 1e-6>(x, g1, h1)",
               f"{INPUTS}, float[4] g1, float[4] h1")),
    *(
        Case(embed_layer_norm, f"a residual and its norm in one node: {title}",
             graph(f"{WORDS} {TYPES} {RANGE} {total} y = {SKIP}({sides}, g, h)"))
        for title, total, sides in (("the types last", "u = Add(a, e)", "u, c"),
                                    ("the positions last", "u = Add(c, a)", "u, e"),
                                    ("the words first", "u = Add(e, c)", "a, u"))
    ),
    Case(embed_layer_norm, "a residual of two tables and its norm in one node, whose sum is read again",
         graph(f"{WORDS} {GIVEN} y, n0, n1, x = {SKIP}(e, a, g, h) j = Neg(x)", BATCHES, WITH_SUM)),
    Case(embed_layer_norm, "places cut off a parameter, no axes named",
         graph(f"{WORDS} {LENGTH} e = Slice(p, zero, n) {TWO}")),
]
NEGATIVES = [
    Case(embed_layer_norm, "no rows of a table", why="expected a constant for",
         model=graph(f"{WORDS} x = Add(a, e) {NORM}", f"{INPUTS}, float[b, s, 4] e")),
    Case(embed_layer_norm, "columns of a table", why="expected axis = 0",
         model=graph(f"a = Gather<axis = 1>(w, i) e = Gather<axis = 1>(p, i) {TWO}", "int64[4, 4] i",
                     "float[9, 4, 4] y", CONSTANTS.replace("[6, 4] p", "[9, 4] p").replace(
                         f"p = {{{numbers(24, 0.4)}}}", f"p = {{{numbers(36, 0.4)}}}"))),
    Case(embed_layer_norm, "another batch of places", why="different shapes",
         model=graph(f"{WORDS} {GIVEN} {TWO}", f"{INPUTS}, int64[c, s] o")),
    Case(embed_layer_norm, "places that may be one for all", why="different shapes",
         model=graph(f"{WORDS} {GIVEN} {TWO}", f"{INPUTS}, int64[1, m] o")),
    Case(embed_layer_norm, "as many places as there are batches", why="differs from the number of ids",
         model=graph(f"{WORDS} {COUNTED.replace('Slice(z, one, two, zero)', 'Slice(z, zero, one, zero)')} {TWO}")),
    Case(embed_layer_norm, "places that start later and may be cut off", why="different shapes",
         model=graph(f"{WORDS} {LENGTH} n1 = Add(n, one) o = Slice(places, one, n1, one, one) {GIVEN} {TWO}")),
    Case(embed_layer_norm, "places that differ from batch to batch", why="between batch elements",
         model=graph(f"{WORDS} {COUNTED} {TWO}", "int64[2, s] i", "float[2, s, 4] y",
                     CONSTANTS.replace("[1, 6] places = {", "[2, 6] places = {5, 4, 3, 2, 1, 0, "))),
    Case(embed_layer_norm, "places that start at 1", why="do not count from 0",
         model=graph(f"{WORDS} {COUNTED} {TWO}",
                     constants=CONSTANTS.replace("{0, 1, 2, 3, 4, 5}", "{1, 2, 3, 4, 5, 5}"))),
    Case(embed_layer_norm, "a table that is no constant", why="expected a constant",
         model=graph(f"{WORDS.replace('w', 'words')} {COUNTED} {TWO}", f"{INPUTS}, float[v, 4] words")),
    Case(embed_layer_norm, "a bias for all", why="between batch elements",
         model=graph(f"{WORDS} x = Add(a, h) {NORM}")),
    Case(embed_layer_norm, "one fixed row for all", why="differs from the number of ids",
         model=graph(f"{WORDS} x = Add(a, e) {NORM}",
                     constants=CONSTANTS.replace("float[4] g", "float[1, 4] e = {1, 2, 3, 4}, float[4] g"))),
    Case(embed_layer_norm, "batches that are cut off a parameter", why="the positions are sliced along another axis",
         model=graph(f"{WORDS} {LENGTH} e = Slice(p, zero, n, zero) {TWO}",
                     constants=CONSTANTS.replace("float[6, 4] p", "float[1, 6, 4] p"))),
    Case(embed_layer_norm, "one place for all", why="one position is used for all",
         model=graph(f"{WORDS} {COUNTED} {TWO}", constants=CONSTANTS.replace(
             "[1, 6] places = {0, 1, 2, 3, 4, 5}", "[1, 1] places = {3}"))),
    Case(embed_layer_norm, "ids of three axes", why="different shapes",
         model=graph(f"{WORDS} {GIVEN} {TWO}", "int64[b, s, 2] i, int64[b, s, 2] o", "float[b, s, 2, 4] y")),
    Case(embed_layer_norm, "a table of one row for all", why="different numbers of columns",
         model=graph(f"{WORDS} {GIVEN} {TWO}", BATCHES,
                     constants=CONSTANTS.replace("float[6, 4] p", "float[24, 1] p"))),
    Case(embed_layer_norm, "one number scales all", why="vectors over the last axis",
         model=graph(f"{WORDS} {COUNTED} {TWO}", constants=CONSTANTS.replace(
             "float[4] g = {1.5, 0.5, -1.0, 2.0}", "float[1] g = {1.5}"))),
    Case(embed_layer_norm, "a normalisation without a bias", why="expected",
         model=graph(f"{WORDS} {COUNTED} {TWO.replace('(x, g, h)', '(x, g)')}")),
    Case(embed_layer_norm, "rows that are read again", why="is also read",
         model=graph(f"{WORDS} {GIVEN} {TWO} j = Neg(a)", BATCHES, WITH_SUM)),
    Case(embed_layer_norm, "rows for all sequences as the first input of one node",
         why="must have a row for each id", model=graph(f"{WORDS} {RANGE} y = {SKIP}(e, a, g, h)")),
    Case(embed_layer_norm, "a residual and its norm in one node, with a bias", why="",
         model=graph(f"{WORDS} {GIVEN} y = {SKIP}(e, a, g, h, h)", BATCHES)),
    Case(embed_layer_norm, "a double", why="tensor(double)",
         model=graph(f"{WORDS} {COUNTED} {TWO}", output="double[b, s, 4] y",
                     constants=CONSTANTS.replace("float[", "double["))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def inputs_of(body, inputs=INPUTS, **settings):
    """The inputs of the EmbedLayerNormalization that a model becomes, which are its tables and what Casts read."""
    made, _ = surgeon.rewrite(graph(body, inputs, **settings), embed_layer_norm)
    (node,) = (node for node in made.graph.node if node.op_type == "EmbedLayerNormalization")
    casts = {node.output[0]: node.input[0] for node in made.graph.node if node.op_type == "Cast"}
    return [casts.get(name, name) for name in node.input]


def test_places_that_count_are_left_out():
    """The op counts itself; what else they are is given, of the tables with most rows the first for words."""
    assert inputs_of(f"{WORDS} {TYPES} {COUNTED} {THREE}") == ["i", "k", "w", "p", "t", "g", "h"]
    assert inputs_of(f"{WORDS} {TYPES} {GIVEN} {THREE}", BATCHES) == ["i", "k", "w", "p", "t", "g", "h", "", "o"]
    later = CONSTANTS.replace("{0, 1, 2, 3, 4, 5}", "{1, 2, 3, 4, 5, 5}")
    fixed = f"{WORDS} e = Gather(p, places) {TWO}", FIXED
    assert inputs_of(*fixed, output="float[2, 6, 4] y") == ["i", "", "w", "p", "", "g", "h"]
    found = inputs_of(*fixed, output="float[2, 6, 4] y", constants=later)
    assert found == ["i", "", "w", "p", "", "g", "h", "", "places"]


def test_on_a_cpu_a_sum_comes_first():
    """The fused op is slower there than a Sum and a LayerNormalization."""
    report = check_fires(Case(RESIDUALS, "", graph(f"{WORDS} {TYPES} {COUNTED} {THREE}")))
    assert [site.rule for site in report.sites] == ["residual_sum"]


def test_an_epsilon_goes_over():
    made, _ = surgeon.rewrite(graph(f"{WORDS} {COUNTED} {TWO}"), embed_layer_norm)
    (node,) = (node for node in made.graph.node if node.op_type == "EmbedLayerNormalization")
    found = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    assert found["epsilon"] == pytest.approx(1e-6)
