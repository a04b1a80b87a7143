"""Rows whose axes are one for a product with a matrix alone: where they stay several, and where they may not."""

import pytest
from surgeon.patterns.linear_algebra.flattened_linear import flattened_linear

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, s, 4] x) => (float[n, s, 6] y)"
WEIGHTS = f"float[4, 6] w = {{{', '.join(f'{number}.5' for number in range(24))}}}"
SIZES = "int64[2] flat = {-1, 4}, int64[1] six = {6}, int64[1] two = {2}, int64[1] zero = {0}"
BIAS = "float[6] b = {1, 2, 3, 4, 5, 6}"
SHAPE = "sh = Shape<start = 0, end = 2>(x) back = Concat<axis = 0>(sh, six)"


def model(body, head=HEAD, constants=""):
    """Rows of four by a matrix of four by six."""
    return parse(f"{head} <{', '.join(filter(None, (WEIGHTS, SIZES, BIAS, constants)))}> {{ {body} }}")


def between(product, head=HEAD, constants=""):
    """What multiplies r, the rows, and makes p, between two Reshapes."""
    return model(f"{SHAPE} r = Reshape(x, flat) {product} y = Reshape(p, back)", head, constants)


FIRES = [
    Case(flattened_linear, "Gemm", between("p = Gemm(r, w, b)")),
    Case(flattened_linear, "Gemm without a sum", between("p = Gemm(r, w)")),
    Case(flattened_linear, "Gemm that says its defaults",
         between("p = Gemm<alpha = 1.0, beta = 1.0, transB = 0>(r, w, b)")),
    Case(flattened_linear, "MatMul and Add", between("q = MatMul(r, w) p = Add(q, b)")),
    Case(flattened_linear, "Add of the sum first", between("q = MatMul(r, w) p = Add(b, q)")),
    Case(flattened_linear, "MatMul", between("p = MatMul(r, w)")),
    Case(flattened_linear, "a sum of one row",
         between("p = Gemm(r, w, c)", constants="float[1, 6] c = {1, 2, 3, 4, 5, 6}")),
    Case(flattened_linear, "a number", between("p = Gemm(r, w, c)", constants="float c = {3}")),
    Case(flattened_linear, "fixed sizes",
         between("p = Gemm(r, w, b)", "(float[2, 3, 4] x) => (float[2, 3, 6] y)")),
    Case(flattened_linear, "a matrix that is computed",
         between("e = Exp(v) p = Gemm(r, e, b)", "(float[n, s, 4] x, float[4, 6] v) => (float[n, s, 6] y)")),
    Case(flattened_linear, "rows that others read too",
         model(f"{SHAPE} r = Reshape(x, flat) p = Gemm(r, w, b) y = Reshape(p, back) z = Neg(r)",
               "(float[n, s, 4] x) => (float[n, s, 6] y, float[m, 4] z)")),
    Case(flattened_linear, "for any target", between("p = Gemm(r, w, b)"), target="tensorrt"),
]
TURNED = f"float[6, 4] t = {{{', '.join(f'{number}.5' for number in range(24))}}}"
NEGATIVES = [
    Case(flattened_linear, "a matrix that is turned", why="the Gemm must not scale the product",
         model=between("p = Gemm<transB = 1>(r, t, b)", constants=TURNED)),
    Case(flattened_linear, "a product times two", why="the Gemm must not scale the product",
         model=between("p = Gemm<alpha = 2.0>(r, w, b)")),
    Case(flattened_linear, "half of the sum", why="the Gemm must not scale the product",
         model=between("p = Gemm<beta = 0.5>(r, w, b)")),
    Case(flattened_linear, "columns that are parted behind it", why="the batch of y is (2, 9)",
         model=model("r = Reshape(x, flat) p = Gemm(r, w, b) y = Reshape(p, heads)",
                     "(float[2, 3, 4] x) => (float[2, 9, 2] y)", "int64[3] heads = {2, 9, 2}")),
    Case(flattened_linear, "columns that are parted into axes", why="the batch of y is (2, 3, 3)",
         model=model("r = Reshape(x, flat) p = Gemm(r, w, b) y = Reshape(p, heads)",
                     "(float[2, 3, 4] x) => (float[2, 3, 3, 2] y)", "int64[4] heads = {2, 3, 3, 2}")),
    Case(flattened_linear, "columns that are joined before it", why="the inner of rows is 4",
         model=model("r = Reshape(x, flat) p = Gemm(r, w, b) y = Reshape(p, heads)",
                     "(float[2, 3, 2, 2] x) => (float[2, 3, 1, 6] y)", "int64[4] heads = {2, 3, 1, 6}")),
    Case(flattened_linear, "rows in another order of axes", why="the batch of y is (3, 2)",
         model=model("r = Reshape(x, flat) p = Gemm(r, w, b) y = Reshape(p, heads)",
                     "(float[2, 3, 4] x) => (float[3, 2, 6] y)", "int64[3] heads = {3, 2, 6}")),
    Case(flattened_linear, "what differs from row to row", why="bias has an axis of size 6, expected 1",
         model=between("p = Gemm(r, w, c)", "(float[2, 3, 4] x, float[6, 6] c) => (float[2, 3, 6] y)")),
    Case(flattened_linear, "rows of one axis", why="the rows must have several axes that are merged",
         model=model("r = Reshape(x, flat) p = Gemm(r, w, b) y = Reshape(p, back)",
                     "(float[6, 4] x) => (float[6, 6] y)", "int64[2] back = {6, 6}")),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
