"""Rotary embeddings of two halves, and those that are one node: what is rewritten, what does not match and why."""

import pytest
from surgeon.patterns.rotary.rotary_embedding import rotary_embedding

from surgeon.testing import Case, check_fires, check_spares, parse

HEADS = "float[b, 4, s, 8] x, float[b, 1, s, 4] c, float[b, 1, s, 4] e"
SPLIT = "a, d = Split<axis = -1>(x, halves)"
SLICED = "a = Slice(x, zero, four, last) d = Slice(x, four, eight, last)"
END = "f = Mul(a, c) g = Mul(d, e) h = Sub(f, g) i = Mul(d, c) j = Mul(a, e) k = Add(i, j) y = Concat<axis = -1>(h, k)"
CONSTANTS = (
    "<int64[2] halves = {4, 4}, int64[2] uneven = {3, 5}, int64[1] zero = {0}, int64[1] four = {4}, "
    "int64[1] one = {1}, int64[1] two = {2}, int64[1] eight = {8}, int64[1] last = {3}, int64[1] first = {2}>"
)
FOUR, ROWS = "float[b, 4, s, 8]", "float[b, s, 32]"
CACHES = "float[20, 4] c, float[20, 4] e"
TABLES = "float[b, s, 4] c, float[b, s, 4] e"
MS = "com.microsoft.RotaryEmbedding"
FEW = "float[20, 2] c, float[20, 2] e"


PAIRS = "a = Slice(x, zero, eight, last, two) d = Slice(x, one, eight, last, two)"
JOINED = END.replace("Concat<axis = -1>(h, k)", "Concat<axis = -1>(w, h, k)")


def graph(body, inputs=HEADS, opset=23, output=FOUR):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {CONSTANTS} {{ {body} }}")


NODES = [
    ("heads from a place on", graph(f"y = {MS}(x, first, c, e)", f"{FOUR} x, {CACHES}")),
    ("rows from a place on", graph(f"y = {MS}<num_heads = 4>(x, first, c, e)", f"{ROWS} x, {CACHES}", output=ROWS)),
    ("rows of heads as large as the tables say", graph(f"y = {MS}(x, zero, c, e)", f"{ROWS} x, {CACHES}", output=ROWS)),
    ("neighbours", graph(f"y = {MS}<interleaved = 1>(x, zero, c, e)", f"{FOUR} x, {CACHES}")),
    (
        "a part of each head",
        graph(f"y = {MS}<rotary_embedding_dim = 4, num_heads = 4>(x, zero, c, e)", f"{ROWS} x, {FEW}", output=ROWS),
    ),
    ("places of their own", graph(f"y = {MS}(x, p, c, e)", f"{FOUR} x, {CACHES}, int64[b, s] p")),
]
STANDARD = [
    ("heads", graph("y = RotaryEmbedding(x, c, e)", f"{FOUR} x, {TABLES}")),
    ("rows", graph("y = RotaryEmbedding<num_heads = 4>(x, c, e)", f"{ROWS} x, {TABLES}", 24, ROWS)),
    ("places", graph("y = RotaryEmbedding(x, c, e, p)", f"{FOUR} x, {CACHES}, int64[b, s] p")),
    (
        "neighbours of a part",
        graph(
            "y = RotaryEmbedding<interleaved = 1, rotary_embedding_dim = 4>(x, c, e, p)",
            f"{FOUR} x, {FEW}, int64[b, s] p",
        ),
    ),
]

# fmt: off
FIRES = [
    Case(rotary_embedding, "split in halves", graph(f"{SPLIT} {END}", opset=17)),
    Case(rotary_embedding, "cut in halves", graph(f"{SLICED} {END}", opset=17)),
    Case(rotary_embedding, "tables for all of the batch", graph(f"{SPLIT} {END}", HEADS.replace("[b, 1, s", "[s"))),
    Case(rotary_embedding, "neighbours that become halves", graph(f"{PAIRS} {END}", opset=17)),
    Case(rotary_embedding, "neighbours that become halves, the standard op", graph(f"{PAIRS} {END}"), target="onnx"),
    Case(rotary_embedding, "halves joined at once with what stays", graph(
        f"{SPLIT} {JOINED}", f"{HEADS}, float[b, 4, s, 6] w", 17, "float[b, 4, s, 14]")),
    Case(rotary_embedding, "RotaryEmbedding from opset 23 on", graph(f"{SPLIT} {END}"), target="onnx"),
    *(Case(rotary_embedding, f"{title}, to RotaryEmbedding", model, target="onnx") for title, model in NODES),
    *(Case(rotary_embedding, f"{title}, to parts", model, target="decomposed") for title, model in NODES),
    *(Case(rotary_embedding, f"RotaryEmbedding, {title}, to parts", model, target="decomposed")
      for title, model in STANDARD),
]
NEGATIVES = [
    Case(rotary_embedding, "uneven parts", why="must have 2 equal parts",
         model=graph(f"{SPLIT.replace('halves', 'uneven')} {END}", HEADS.replace("s, 4]", "s, 1]"))),
    Case(rotary_embedding, "halves in the other order", why="must begin at part 1 of 2",
         model=graph(f"{SLICED.replace('zero, four', 'FOUR').replace('four, eight', 'zero, four')} {END}"
                     .replace("FOUR", "four, eight"))),
    Case(rotary_embedding, "halves of the rows", why="expected the constant -1",
         model=graph(f"{SLICED.replace('last', 'first')} {END}", HEADS.replace("4, s, 8]", "4, 8, 4]")
                     .replace("1, s, 4]", "1, 4, 4]"), output="float[b, 4, 4, 8]")),
    Case(rotary_embedding, "a sign that differs", why="negative",
         model=graph(f"{SPLIT} {END.replace('Sub', 'Add')}")),
    Case(rotary_embedding, "a scale of the angles", target="onnx", why="unsupported attributes: scale",
         model=graph(f"y = {MS}<scale = 2.0>(x, zero, c, e)", f"{FOUR} x, {CACHES}")),
    Case(rotary_embedding, "an opset without RotaryEmbedding", target="onnx", why="--opset 23",
         model=graph(f"y = {MS}(x, zero, c, e)", f"{FOUR} x, {CACHES}", 17)),
    Case(rotary_embedding, "RotaryEmbedding, for ONNX Runtime's own ops", target="contrib", why="not converted",
         model=graph("y = RotaryEmbedding(x, c, e)", f"{FOUR} x, {TABLES}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
