"""Projections and heads whose rows come before the batch: what is moved, what does not match and why."""

import pytest
from surgeon.patterns.layout.sequence_first import sequence_first_heads, sequence_first_output, stacked_qkv_split
from surgeon.patterns.layout.transpose_before_linear import transpose_before_linear, transpose_before_split

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = (
    "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64 second = {1}, "
    "int64[1] front = {-1}, int64[1] eight = {8}, int64[1] four = {4}, int64[1] width = {24}, int64[1] six = {6}"
)
WEIGHTS = "float[24, 24] w, float[24] v, float[24, 6] u, float[6] r"


def graph(body, inputs, output):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) <{CONSTANTS}> {{ {body} }}")


SIZES = "s = Shape(x) l = Slice(s, zero, one) b = Slice(s, one, two) "
TURNED = "t = Transpose<perm = [3, 1, 2, 0, 4]>(o) q = Squeeze(t, three) y = Gather<axis = 0>(q, second)"
STACK = f"{SIZES} g = Concat<axis = 0>(l, b, three, eight) h = Reshape(x, g) o = Unsqueeze(h, zero) {TURNED}"
LIFTED = f"{SIZES} g = Concat<axis = 0>(one, l, b, three, eight) o = Reshape(x, g) {TURNED}"
SPLIT = f"{SIZES} g = Concat<axis = 0>(l, front, eight) o = Reshape(x, g) t = Transpose<perm = [1, 0, 2]>(o) "
HEADS = f"{SPLIT} f = Concat<axis = 0>(b, three, l, eight) y = Reshape(t, f)"
KEYS = HEADS.replace("[1, 0, 2]", "[1, 2, 0]").replace("l, eight) y", "eight, l) y")
THREE = (
    "s = Shape(x) l = Slice(s, one, two) b = Slice(s, zero, one) k = Concat<axis = 0>(b, l, three, eight) "
    "h = Reshape(x, k) t = Transpose<perm = [1, 0, 2, 3]>(h) "
)
JOIN = "f = Concat<axis = 0>(l, b, width) y = Reshape(t, f)"
MATRIX = "f = Concat<axis = 0>(front, width) y = Reshape(t, f)"
SWAP = "Transpose<perm = [1, 0, 2]>"
INPUT = f"float[b, s, 24] x, {WEIGHTS}"
FLAT = "n = Shape(t) d = Slice(n, zero, two) c = Concat<axis = 0>(d, front) f = Concat<axis = 0>(front, width) "
# fmt: off
FIRES = [
    Case(stacked_qkv_split, "by dynamo", graph(STACK, "float[s, b, 24] x", "float[s, b, 8] y")),
    Case(stacked_qkv_split, "in five axes at once", graph(LIFTED, "float[s, b, 24] x", "float[s, b, 8] y")),
    Case(sequence_first_heads, "queries", graph(HEADS, "float[s, b, 24] x", "float[b, 3, s, 8] y")),
    Case(sequence_first_heads, "keys, turned", graph(KEYS, "float[s, b, 24] x", "float[b, 3, 8, s] y")),
    Case(sequence_first_output, "as a matrix", graph(THREE + MATRIX, "float[b, s, 24] x", "float[sb, 24] y")),
    Case(sequence_first_output, "joined heads", graph(THREE + JOIN, "float[b, s, 24] x", "float[s, b, 24] y")),
    Case(transpose_before_linear, "MatMul", graph(
        f"t = {SWAP}(x) m = MatMul(t, w) a = Add(m, v) y = {SWAP}(a)", INPUT, "float[b, s, 24] y")),
    Case(transpose_before_linear, "without a bias", graph(
        f"t = {SWAP}(x) m = MatMul(t, u) y = {SWAP}(m)", INPUT, "float[b, s, 6] y")),
    Case(transpose_before_linear, "Gemm", graph(
        f"t = {SWAP}(x) {FLAT} e = Reshape(t, f) m = Gemm(e, w, v) a = Reshape(m, c) y = {SWAP}(a)",
        INPUT, "float[b, s, 24] y")),
    Case(transpose_before_linear, "Gemm by weights that are transposed, a bias added behind", graph(
        f"t = {SWAP}(x) {FLAT} e = Reshape(t, f) m = Gemm<transB = 1>(e, w) h = Reshape(m, c) a = Add(h, v) "
        f"y = {SWAP}(a)", INPUT, "float[b, s, 24] y")),
    Case(transpose_before_linear, "more columns behind it", graph(
        f"m = MatMul(x, w) a = Add(m, v) y = {SWAP}(a)", "float[s, b, 6] x, float[6, 24] w, float[24] v",
        "float[b, s, 24] y")),
    Case(transpose_before_split, "three", graph(
        f"p, q, r = Split<axis = -1>(x) a = {SWAP}(p) b = {SWAP}(q) c = {SWAP}(r)", "float[b, s, 24] x",
        "float[s, b, 8] a, float[s, b, 8] b, float[s, b, 8] c")),
    Case(transpose_before_split, "two", graph(
        f"p, q = Split<axis = -1>(x) a = {SWAP}(p) b = {SWAP}(q)", "float[b, s, 24] x",
        "float[s, b, 12] a, float[s, b, 12] b")),
]
NEGATIVES = [
    Case(stacked_qkv_split, "another axis moved to the front", why="expected perm", model=graph(
        STACK.replace("[3, 1, 2, 0, 4]", "[3, 2, 1, 0, 4]"), "float[s, b, 24] x", "float[b, s, 8] y")),
    Case(sequence_first_heads, "columns that become rows", why="the rows and columns of x", model=graph(
        HEADS.replace("three, l, eight", "three, eight, l"), "float[s, b, 24] x", "float[b, 3, 8, s] y")),
    Case(sequence_first_output, "joined with the batch", why="", model=graph(
        THREE + "f = Concat<axis = 0>(l, front, eight) y = Reshape(t, f)", "float[b, s, 24] x", "float[s, c, 8] y")),
    Case(transpose_before_linear, "weights of a batch", why="", model=graph(
        f"t = {SWAP}(x) m = MatMul(t, w) y = {SWAP}(m)", "float[b, s, 24] x, float[s, 24, 24] w",
        "float[b, s, 24] y")),
    Case(transpose_before_linear, "a bias of rows", why="", model=graph(
        f"t = {SWAP}(x) m = MatMul(t, w) a = Add(m, v) y = {SWAP}(a)",
        "float[b, s, 24] x, float[24, 24] w, float[b, 24] v", "float[b, s, 24] y")),
    Case(transpose_before_linear, "fewer columns behind it", why="more columns than its input", model=graph(
        f"m = MatMul(x, u) y = {SWAP}(m)", INPUT, "float[s, b, 6] y")),
    Case(transpose_before_split, "a part that stays as it is", why="", model=graph(
        f"p, q, r = Split<axis = -1>(x) a = {SWAP}(p) b = {SWAP}(q) c = Neg(r)", "float[b, s, 24] x",
        "float[s, b, 8] a, float[s, b, 8] b, float[b, s, 8] c")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
