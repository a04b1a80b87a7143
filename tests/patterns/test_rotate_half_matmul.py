"""rotate_half_matmul: quarter turns that are written as products, and products that are more than that."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.rotary.rotary_embedding import rotary_embedding
from surgeon.patterns.rotary.rotate_half_matmul import quarter, rotate_half_matmul

from surgeon.testing import Case, check_fires, check_spares, parse

HALVES = quarter(8, [0, 1, 2, 3], [4, 5, 6, 7])
PAIRS = quarter(8, [0, 2, 4, 6], [1, 3, 5, 7])
HEADS = "float[b, 4, s, 8] x"
WHOLE = f"{HEADS}, float[s, 8] c, float[s, 8] e"
ROTARY = "t = MatMul(x, r) a = Mul(x, c) d = Mul(t, e) y = Add(a, d)"


def graph(matrix, body=ROTARY, inputs=WHOLE):
    """x times a matrix."""
    header = '<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    made = parse(f"{header} ({inputs}) => (float[b, 4, s, 8] y) {{ {body} }}")
    made.graph.initializer.append(numpy_helper.from_array(np.float32(matrix), "r"))
    return made


TABLES = f"{HEADS}, float[s, 4] c0, float[s, 4] e0"
JOINED = f"c = Concat<axis = -1>(c0, c0) e = Concat<axis = -1>(e0, e0) {ROTARY}"
FIRES = [
    Case(rotate_half_matmul, "halves", graph(HALVES)),
    Case(rotate_half_matmul, "neighbours", graph(PAIRS)),
    Case([rotate_half_matmul, rotary_embedding], "a rotary embedding by it", graph(HALVES, JOINED, TABLES)),
]
NEGATIVES = [
    Case(rotate_half_matmul, "backwards", graph(-HALVES), why="must only rotate"),
    Case(rotate_half_matmul, "one number changed", graph(HALVES + np.eye(8) * (np.arange(8) == 3)), why="only rotate"),
    Case(
        rotate_half_matmul,
        "a weight",
        why="must be square",
        model=graph(np.zeros((1, 8)), inputs=WHOLE.replace("s, 8] x", "s, 1] x")),
    ),
    Case(
        rotate_half_matmul, "a product by itself", why="has no Add", model=graph(HALVES, "y = MatMul(x, r)", HEADS)
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
