"""batch_norm_before_conv and batch_norm_before_gemm: what is folded, and what does not match and why."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.weight_folding.batch_norm_before import batch_norm_before_conv, batch_norm_before_gemm

from surgeon.testing import Case, check_fires, check_spares, parse

PICTURE = "(float[n, 4, 6, 6] x) => (float[n, 8, h, w] y)"
ROWS = "(float[n, 4] x) => (float[n, 8] y)"
NORM = "z = BatchNormalization(x, scale, shift, mean, variance) "
TENSORS = {
    "kernel": (8, 4, 1, 1),
    "wide": (8, 4, 3, 3),
    "grouped": (8, 2, 1, 1),
    "matrix": (4, 8),
    "turned": (8, 4),
    "bias": (8,),
    "row": (1, 8),
    **dict.fromkeys(("scale", "shift", "mean", "variance"), (4,)),
}


def graph(body, head=PICTURE, opset=17):
    made = parse(f'<ir_version: 8, opset_import: ["" : {opset}]> g {head} {{ {body} }}')
    random = np.random.default_rng(0)
    for name, shape in TENSORS.items():
        values = random.random(shape) + 0.5 if name == "variance" else random.normal(size=shape)
        if any(name in node.input for node in made.graph.node):
            made.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    return made


# fmt: off
FIRES = [
    Case(batch_norm_before_conv, "with a bias", graph(f"{NORM} y = Conv(z, kernel, bias)")),
    Case(batch_norm_before_conv, "without one", graph(f"{NORM} y = Conv(z, kernel)")),
    Case(batch_norm_before_conv, "of three by three", graph(f"{NORM} y = Conv(z, wide, bias)")),
    Case(batch_norm_before_conv, "with strides", graph(f"{NORM} y = Conv<strides = [2, 2]>(z, wide)")),
    Case(batch_norm_before_conv, "in groups", graph(f"{NORM} y = Conv<group = 2>(z, grouped, bias)")),
    Case(batch_norm_before_gemm, "with a bias", graph(f"{NORM} y = Gemm(z, matrix, bias)", ROWS)),
    Case(batch_norm_before_gemm, "a bias of one row", graph(f"{NORM} y = Gemm(z, matrix, row)", ROWS)),
    Case(batch_norm_before_gemm, "without one", graph(f"{NORM} y = Gemm(z, matrix)", ROWS)),
    Case(batch_norm_before_gemm, "turned weights", graph(f"{NORM} y = Gemm<transB = 1>(z, turned, bias)", ROWS)),
    Case(batch_norm_before_gemm, "times a number", graph(f"{NORM} y = Gemm<alpha = 0.5>(z, matrix, bias)", ROWS)),
]
NEGATIVES = [
    Case(batch_norm_before_conv, "zeros around it", why="pads with zeros",
         model=graph(f"{NORM} y = Conv<pads = [1, 1, 1, 1]>(z, wide)")),
    Case(batch_norm_before_conv, "zeros that auto_pad adds", why="pads with zeros",
         model=graph(f'{NORM} y = Conv<auto_pad = "SAME_UPPER">(z, wide)')),
    Case(batch_norm_before_conv, "normal numbers that others read", why="is also read",
         model=graph(f"{NORM} c = Conv(z, kernel) u = Relu(z) m = ReduceMean<axes = [1]>(u) y = Add(c, m)")),
    Case(batch_norm_before_gemm, "a bias times a number", why="scales its bias",
         model=graph(f"{NORM} y = Gemm<beta = 0.5>(z, matrix, bias)", ROWS)),
    Case(batch_norm_before_gemm, "columns that become rows", why="is transposed before",
         model=graph(f"{NORM} y = Gemm<transA = 1>(z, turned)", "(float[8, 4] x) => (float[4, 4] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
