"""heads_in_batch: heads that are part of the batch of an attention, what does not match and why."""

import pytest
from surgeon.patterns.layout.heads_in_batch import heads_in_batch

from surgeon.testing import Case, check_fires, check_spares, parse

BEHIND = "float[s, b, 64] q, float[t, b, 64] k, float[t, b, 64] v, float[c, 1, s, t] m"
BEFORE = "float[b, s, 4, 16] q, float[b, t, 4, 16] k, float[b, t, 4, 16] v, float[c, 1, s, t] m"
CONSTANTS = (
    "int64[1] front = {-1}, int64[1] size = {16}, int64[1] width = {64}, int64[1] heads = {4}, int64[1] zero = {0}, "
    "int64[1] one = {1}, int64[1] two = {2}"
)
OP = "com.microsoft.MultiHeadAttention"


def merged(x):
    """[rows, batch, 64] as [batch · 4, rows, 16]."""
    return (
        f"s{x} = Shape({x}) l{x} = Slice(s{x}, zero, one) g{x} = Concat<axis = 0>(l{x}, front, size) "
        f"r{x} = Reshape({x}, g{x}) h{x} = Transpose<perm = [1, 0, 2]>(r{x}) "
    )


def moved(x):
    """[batch, rows, 4, 16] as [4 · batch, rows, 16]."""
    return (
        f"s{x} = Shape({x}) l{x} = Slice(s{x}, one, two) g{x} = Concat<axis = 0>(front, l{x}, size) "
        f"t{x} = Transpose<perm = [2, 0, 1, 3]>({x}) h{x} = Reshape(t{x}, g{x}) "
    )


def graph(body, inputs, output):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) <{CONSTANTS}> {{ {body} }}")


def attend(mask=""):
    more = f', "", "", {mask}' if mask else ""
    return f"a = {OP}<num_heads = 1, scale = 0.25>(hq, hk, hv{more}) "


PARTS = merged("q") + merged("k") + merged("v")
BACK = "z = Transpose<perm = [1, 0, 2]>(a) f = Concat<axis = 0>(lq, front, width) y = Reshape(z, f)"
MATRIX = "z = Transpose<perm = [1, 0, 2]>(a) f = Concat<axis = 0>(front, width) y = Reshape(z, f)"
FIRST = moved("q") + moved("k") + moved("v")
APART = (
    "n = Slice(sq, zero, one) f = Concat<axis = 0>(heads, n, lq, size) z = Reshape(a, f) "
    "y = Transpose<perm = [1, 2, 0, 3]>(z)"
)
# fmt: off
FIRES = [
    Case(heads_in_batch, "rows first, as torch.nn.MultiheadAttention has them",
         graph(PARTS + attend() + BACK, BEHIND, "float[s, b, 64] y")),
    Case(heads_in_batch, "joined to a matrix", graph(PARTS + attend() + MATRIX, BEHIND, "float[sb, 64] y")),
    Case(heads_in_batch, "with a mask", graph(PARTS + attend("m") + BACK, BEHIND, "float[s, b, 64] y")),
    Case(heads_in_batch, "with one mask for all",
         graph(PARTS + attend("m") + BACK, BEHIND.replace("[c,", "[1,"), "float[s, b, 64] y")),
    Case(heads_in_batch, "with a mask of each head",
         graph(PARTS + attend("m") + BACK, BEHIND.replace("[c,", '["4*b",'), "float[s, b, 64] y")),
    Case(heads_in_batch, "the future hidden, as fairseq has it", graph(
        (PARTS + attend() + BACK).replace("num_heads = 1", "num_heads = 1, unidirectional = 1"),
        BEHIND.replace("[t,", "[s,"), "float[s, b, 64] y")),
    Case(heads_in_batch, "heads before the batch, as FastSpeech has them",
         graph(FIRST + attend() + APART, BEFORE, "float[b, s, 4, 16] y")),
    Case(heads_in_batch, "these with a mask", graph(FIRST + attend("m") + APART, BEFORE, "float[b, s, 4, 16] y")),
    Case(heads_in_batch, "these with one mask for all",
         graph(FIRST + attend("m") + APART, BEFORE.replace("[c,", "[1,"), "float[b, s, 4, 16] y")),
]
NEGATIVES = [
    Case(heads_in_batch, "other heads for the keys", why="different numbers of heads", model=graph(
        PARTS + attend() + BACK, BEHIND.replace("t, b, 64", "t, b, 128"), "float[s, b, 64] y")),
    Case(heads_in_batch, "heads that are not joined behind it", why="must be joined after", model=graph(
        PARTS + attend() + "z = Transpose<perm = [1, 0, 2]>(a) f = Concat<axis = 0>(lq, front, size) y = Reshape(z, f)",
        BEHIND, "float[s, c, 16] y")),
    Case(heads_in_batch, "several heads already", why="expected num_heads = 1", model=graph(
        (PARTS + attend() + BACK).replace("num_heads = 1", "num_heads = 2"), BEHIND, "float[s, b, 64] y")),
    Case(heads_in_batch, "weights that others read", why="is also read", model=graph(
        PARTS + attend() + BACK + " o = Neg(a)", BEHIND, "float[s, b, 64] y, float[c, s, 16] o")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
