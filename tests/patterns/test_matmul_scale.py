"""matmul_scale: numbers for each column that become part of a linear layer, and what does not match and why."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.weight_folding.matmul_scale import matmul_scale

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 5, 4] x) => (float[n, 5, 8] y)"
FLAT = "(float[n, 4] x) => (float[n, 8] y)"
FIRST = "(float[n, h, w, 4] x) => (float[n, 8, h, w] y)"
TENSORS = {"m": (4, 8), "t": (8, 4), "b": (8,), "k": (8,), "k1": (1, 1, 8), "k4": (1, 8, 1, 1), "row": (5, 1),
           "one": (1,), "wide": (5, 8), "stack": (1, 4, 8), "b3": (1, 1, 8)}  # fmt: skip


def graph(body, head=HEAD, opset=17, factor=1.0):
    made = parse(f'<ir_version: 8, opset_import: ["" : {opset}]> g {head} {{ {body} }}')
    random, dtype = np.random.default_rng(0), np.float16 if "float16" in head else np.float32
    for name, shape in TENSORS.items():
        values = random.normal(size=shape) * (factor if name == "k" else 1)
        made.graph.initializer.append(numpy_helper.from_array(values.astype(dtype), name))
    return made


# fmt: off
FIRES = [
    Case(matmul_scale, "layer scale behind a linear layer", graph("p = MatMul(x, m) a = Add(p, b) y = Mul(k, a)")),
    Case(matmul_scale, "without a bias", graph("p = MatMul(x, m) y = Mul(p, k)")),
    Case(matmul_scale, "with axes of one", graph("p = MatMul(x, m) a = Add(b, p) y = Mul(a, k1)")),
    Case(matmul_scale, "behind a Transpose, as ConvNeXt has it",
         graph("p = MatMul(x, m) a = Add(p, b) c = Transpose<perm = [0, 3, 1, 2]>(a) y = Mul(c, k4)", FIRST)),
    Case(matmul_scale, "Gemm", graph("p = Gemm(x, m, b) y = Mul(p, k)", FLAT)),
    Case(matmul_scale, "Gemm of turned weights", graph("p = Gemm<transB = 1>(x, t, b) y = Mul(p, k)", FLAT)),
    Case(matmul_scale, "half precision",
         graph("p = MatMul(x, m) a = Add(p, b) y = Mul(k, a)", HEAD.replace("float[", "float16["))),
]
NEGATIVES = [
    Case(matmul_scale, "one number for all, which attentions look for", why="one number for each column",
         model=graph("p = MatMul(x, m) a = Add(p, b) y = Mul(a, one)")),
    Case(matmul_scale, "a number for each row", why="one number for each column",
         model=graph("p = MatMul(x, m) a = Add(p, b) y = Mul(a, row)")),
    Case(matmul_scale, "another for each row and column", why="one number for each column",
         model=graph("p = MatMul(x, m) a = Add(p, b) y = Mul(a, wide)")),
    Case(matmul_scale, "along another axis than the columns went to", why="one number for each column",
         model=graph("p = MatMul(x, m) a = Add(p, b) c = Transpose<perm = [0, 2, 1]>(a) y = Mul(c, k)",
                     "(float[n, 8, 4] x) => (float[n, 8, 8] y)")),
    Case(matmul_scale, "a bias for each row", why="the bias must have one number for each column",
         model=graph("p = MatMul(x, m) a = Add(p, row) y = Mul(a, k)")),
    Case(matmul_scale, "a bias of more axes than the product", why="more axes than the product",
         model=graph("p = MatMul(x, m) a = Add(b3, p) y = Mul(a, k)", FLAT.replace("[n, 8]", "[1, n, 8]"))),
    Case(matmul_scale, "numbers of more axes than the product", why="has more axes",
         model=graph("p = MatMul(x, m) y = Mul(p, k1)", FLAT.replace("[n, 8]", "[1, n, 8]"))),
    Case(matmul_scale, "numbers so small that half precision loses digits", why="would have fewer digits",
         model=graph("p = MatMul(x, m) y = Mul(p, k)", HEAD.replace("float[", "float16["), factor=1e-5)),
    Case(matmul_scale, "what others read", why="also read by",
         model=graph("p = MatMul(x, m) a = Add(p, b) s = Mul(a, k) y = Add(s, a)")),
    Case(matmul_scale, "a stack of matrices", why="the weights must be a matrix",
         model=graph("p = MatMul(x, stack) y = Mul(p, k)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
