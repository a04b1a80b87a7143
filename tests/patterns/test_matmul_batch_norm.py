"""matmul_batch_norm: what is folded, and what does not match and why."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.weight_folding.matmul_batch_norm import matmul_batch_norm

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 5, 4] x) => (float[n, 5, 8] y)"
NORM_ALONE = "b = BatchNormalization(f, scale, shift, mean, variance)"
NORM = f"{NORM_ALONE} s = Shape(a) "
FLAT, COLUMNS = "(float[n, 4] x) => (float[n, 8] y)", "(float[n, h, 4] x) => (float[n, 8, h] y)"
TENSORS = {"w": (4, 8), "four": (4,), "beside": (5, 8), "square": (8, 8),
           **dict.fromkeys(("bias", "scale", "shift", "mean", "variance"), (8,))}  # fmt: skip


def graph(body, head=HEAD):
    shapes = (
        "int64[2] rows = {-1, 8}, int64[4] heads = {-1, 5, 2, 4}, int64[4] image = {-1, 2, 3, 8}, "
        "int64[4] point = {-1, 8, 1, 1}, int64[3] squares = {-1, 8, 8}"
    )
    made = parse(f'<ir_version: 8, opset_import: ["" : 17]> g {head} <{shapes}> {{ {body} }}')
    random = np.random.default_rng(0)
    for name, shape in TENSORS.items():
        values = random.random(shape) + 0.5 if name == "variance" else random.normal(size=shape)
        made.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    return made


# fmt: off
FIRES = [
    Case(matmul_batch_norm, "rows of all batches by a Flatten",
         graph(f"a = MatMul(x, w) f = Flatten<axis = 2>(a) {NORM} y = Reshape(b, s)")),
    Case(matmul_batch_norm, "by a Reshape", graph(f"a = MatMul(x, w) f = Reshape(a, rows) {NORM} y = Reshape(b, s)")),
    Case(matmul_batch_norm, "split into heads at once",
         graph(f"a = MatMul(x, w) f = Reshape(a, rows) {NORM} y = Reshape(b, heads)",
               HEAD.replace("5, 8]", "5, 2, 4]"))),
    Case(matmul_batch_norm, "behind a bias",
         graph(f"p = MatMul(x, w) a = Add(p, bias) f = Reshape(a, rows) {NORM} y = Reshape(b, s)")),
    Case(matmul_batch_norm, "of a matrix as it is, as TabNet has it",
         graph(f"f = MatMul(x, w) {NORM_ALONE} y = Relu(b)", FLAT)),
    Case(matmul_batch_norm, "of a matrix and a bias",
         graph(f"a = MatMul(x, w) f = Add(bias, a) {NORM_ALONE} y = Relu(b)", FLAT)),
    Case(matmul_batch_norm, "behind a Transpose, as PointPillars has it",
         graph(f"p = MatMul(x, w) a = Add(p, bias) f = Transpose<perm = [0, 2, 1]>(a) {NORM_ALONE} y = Relu(b)",
               COLUMNS)),
    Case(matmul_batch_norm, "as the channels of an image",
         graph(f"p = MatMul(x, w) a = Add(p, bias) r = Reshape(a, image) f = Transpose<perm = [0, 3, 1, 2]>(r) "
               f"{NORM_ALONE} y = Relu(b)", "(float[n, 6, 4] x) => (float[n, 8, 2, 3] y)")),
    Case(matmul_batch_norm, "as the channels of an image of one pixel",
         graph(f"p = MatMul(x, w) f = Reshape(p, point) {NORM_ALONE} y = Relu(b)",
               "(float[n, 4] x) => (float[n, 8, 1, 1] y)")),
]
NEGATIVES = [
    Case(matmul_batch_norm, "columns that are no channels", why="over the columns of the product",
         model=graph(f"f = MatMul(x, square) {NORM_ALONE} y = Relu(b)", "(float[n, 8, 8] x) => (float[n, 8, 8] y)")),
    Case(matmul_batch_norm, "a bias for each row", why="the bias must have one number for each column",
         model=graph(f"p = MatMul(x, w) a = Add(p, beside) f = Transpose<perm = [0, 2, 1]>(a) {NORM_ALONE} y = Relu(b)",
                     COLUMNS.replace("h", "5"))),
    Case(matmul_batch_norm, "rows that a Reshape makes channels", why="over the columns of the product",
         model=graph(f"p = MatMul(x, square) f = Reshape(p, squares) {NORM_ALONE} y = Relu(b)",
                     "(float[n, 8, 8] x) => (float[n, 8, 8] y)")),
    Case(matmul_batch_norm, "a Reshape that splits the columns", why="must keep the columns",
         model=graph("p = MatMul(x, square) r = Reshape(p, heads) f = Transpose<perm = [0, 3, 1, 2]>(r) "
                     "b = BatchNormalization(f, four, four, four, four) y = Relu(b)",
                     "(float[n, 5, 8] x) => (float[n, 4, 5, 2] y)")),
    Case(matmul_batch_norm, "a Transpose without perm of a square", why="over the columns of the product",
         model=graph(f"p = MatMul(x, w) f = Transpose(p) {NORM_ALONE} y = Relu(b)",
                     "(float[8, 4] x) => (float[8, 8] y)")),
    Case(matmul_batch_norm, "a normalisation in training", why="training_mode = 1",
         model=graph("a = MatMul(x, w) f = Flatten<axis = 2>(a) "
                     f"{NORM} y = Reshape(b, s)".replace("n(f", "n<training_mode = 1>(f"))),
    Case(matmul_batch_norm, "a result of free sizes", why="several sizes of the result are dynamic",
         model=graph(f"a = MatMul(x, w) f = Flatten<axis = 2>(a) {NORM} y = Reshape(b, t)",
                     "(float[n, 5, 4] x, int64[3] t) => (float[k, l, 8] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
