"""Functions of quantised tensors: what fires, as onnxruntime.quantization writes it, and what does not match."""

import tempfile
from pathlib import Path

import onnx
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from surgeon.patterns.quantization.qlinear_ops import (
    qlinear_concat,
    qlinear_leaky_relu,
    qlinear_sigmoid,
    qlinear_where,
)
from surgeon.patterns.quantization.qlinear_pooling import qlinear_average_pool, qlinear_global_average_pool
from surgeon.patterns.quantization.qlinear_softmax import qlinear_softmax

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.patterns.tensorrt import check_parses, faults, graph
from tests.quantizing import Pictures, add_weights

PICTURE = "({d}[1, 4, 6, 6] x) => ({d}[{y}] y)"
ROWS = "({d}[n, 8] x) => ({d}[n, 8] y)"


def model(body, head, dtype="int8", zeros=(0, 0), shape="", scale=0.0173):
    constants = f"float s = {{0.021}}, float t = {{{scale}}}, {dtype} k = {{{zeros[0]}}}, {dtype} l = {{{zeros[1]}}}"
    return graph(f"y = com.microsoft.{body}", head.replace("{d}", dtype).replace("{y}", shape), constants)


SIGMOID, LEAKY = "QLinearSigmoid(x, s, k, t, l)", "QLinearLeakyRelu<alpha = 0.2>(x, s, k, t, l)"
POOL = "QLinearAveragePool<kernel_shape = [2, 2], strides = [2, 2]>(x, s, k, t, l)"
PADDED = "QLinearAveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(x, s, k, t, l)"
GLOBAL = "QLinearGlobalAveragePool(x, s, k, t, l)"
SOFTMAX = "QLinearSoftmax<axis = -1, opset = 13>(x, s, k, t, l)"
CONCAT = "QLinearConcat<axis = 1>(t, l, x, s, k, x, t, l)"
WHERE = "QLinearWhere(b, x, s, k, z, t, l, s, k)"
CHOICE = "(bool[n, 1] b, {d}[n, 8] x, {d}[8] z) => ({d}[n, 8] y)"
BYTES = {"dtype": "uint8", "zeros": (120, 3)}
# fmt: off
FIRES = [
    Case(qlinear_sigmoid, "int8", model(SIGMOID, ROWS), target="tensorrt"),
    Case(qlinear_leaky_relu, "int8", model(LEAKY, ROWS), target="tensorrt"),
    Case(qlinear_average_pool, "int8", model(POOL, PICTURE, shape="1, 4, 3, 3"), target="tensorrt"),
    Case(qlinear_average_pool, "with what is padded", model(PADDED, PICTURE, shape="1, 4, 6, 6"), target="tensorrt"),
    Case(qlinear_global_average_pool, "int8", model(GLOBAL, PICTURE, shape="1, 4, 1, 1"), target="tensorrt"),
    Case(qlinear_global_average_pool, "int8 with zero points", target="tensorrt",
         model=model(GLOBAL, PICTURE, zeros=(5, -3), shape="1, 4, 1, 1")),
    Case(qlinear_softmax, "int8", model(SOFTMAX, ROWS, scale=1 / 256), target="tensorrt"),
    Case(qlinear_where, "of two scales", model(WHERE, CHOICE), target="tensorrt"),
    Case(qlinear_concat, "parts of two scales", target="tensorrt",
         model=model(CONCAT, "({d}[n, 4] x) => ({d}[n, 8] y)")),
]
FURTHER = [  # which other rules write as TensorRT has them, by their zero points
    Case(qlinear_sigmoid, "int8 with zero points", model(SIGMOID, ROWS, zeros=(5, -128)), target="tensorrt"),
    Case(qlinear_leaky_relu, "uint8", model(LEAKY, ROWS, **BYTES), target="tensorrt"),
    Case(qlinear_softmax, "uint8", model(SOFTMAX, ROWS, scale=1 / 256, **BYTES), target="tensorrt"),
    Case(qlinear_average_pool, "uint8", model(POOL, PICTURE, shape="1, 4, 3, 3", **BYTES), target="tensorrt"),
    Case(qlinear_global_average_pool, "uint8", model(GLOBAL, PICTURE, shape="1, 4, 1, 1", **BYTES), target="tensorrt"),
    Case(qlinear_where, "uint8", model(WHERE, CHOICE, **BYTES), target="tensorrt"),
    Case(qlinear_where, "int8 with zero points", model(WHERE, CHOICE, zeros=(5, -128)), target="tensorrt"),
    Case(qlinear_concat, "uint8", model(CONCAT, "({d}[n, 4] x) => ({d}[n, 8] y)", **BYTES), target="tensorrt"),
]
NEGATIVES = [
    Case(qlinear_sigmoid, "ONNX Runtime has it", model(SIGMOID, ROWS), why="runs it as it is"),
    Case(qlinear_leaky_relu, "ONNX Runtime has it", model(LEAKY, ROWS), why="runs it as it is"),
    Case(qlinear_average_pool, "channels behind", target="tensorrt", why="its channels are the last axis",
         model=model(POOL.replace("<", "<channels_last = 1, "), PICTURE, shape="1, 3, 3, 6")),
    Case(qlinear_global_average_pool, "a picture of any size", target="tensorrt", why="number of summed elements",
         model=model(GLOBAL, "({d}[1, 4, h, w] x) => ({d}[1, 4, 1, 1] y)")),
    Case(qlinear_softmax, "another axis", target="tensorrt", why="along the last axis",
         model=model(SOFTMAX.replace("-1", "0"), ROWS, scale=1 / 256)),
    Case(qlinear_softmax, "steps that do not come to 1", target="tensorrt", why="1 divided by an integer",
         model=model(SOFTMAX, ROWS)),
    Case(qlinear_where, "ONNX Runtime has it", model(WHERE, CHOICE), why="runs it as it is"),
    Case(qlinear_concat, "ONNX Runtime has it", why="runs it as it is",
         model=model(CONCAT, "({d}[n, 4] x) => ({d}[n, 8] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", FURTHER, ids=str)
def test_fires_with_zero_points(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize("dtype", ["QInt8", "QUInt8"])
def test_a_whole_net_of_quantised_operators_is_the_same_and_builds(dtype):
    """As onnxruntime.quantization writes it, with what it has a kernel of eight bits for."""
    net = parse(
        """(float[1, 3, 16, 16] x) => (float[1, 4] y) {
        c = Conv<pads = [1, 1, 1, 1]>(x, w1)  r = Relu(c)  d = Conv<pads = [1, 1, 1, 1]>(r, w2)  a = Add(d, r)
        s = Sigmoid(a)  m = Mul(a, s)  l = LeakyRelu<alpha = 0.1>(m)  j = Concat<axis = 1>(l, r)
        p = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(j)  g = GlobalAveragePool(p)  f = Flatten(g)
        k = Gemm<transB = 1>(f, w4, w5)  n = MatMul(k, w3)  y = Softmax(n) }"""
    )
    add_weights(net, (("w1", (8, 3, 3, 3)), ("w2", (8, 8, 3, 3)), ("w3", (16, 4)), ("w4", (16, 16)), ("w5", (16,))))
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "float.onnx"), Path(folder, "quantised.onnx")
        onnx.save(net, source)
        kinds = {"activation_type": QuantType[dtype], "weight_type": QuantType.QInt8}
        quantize_static(source, made, Pictures(16), quant_format=QuantFormat.QOperator, **kinds)
        before = onnx.load(made)
    assert sum(node.op_type.startswith(("QLinear", "QGemm")) for node in before.graph.node) == 12
    after, report = surgeon.rewrite(before, "tensorrt", target="tensorrt")
    assert report.outcome == "proved"
    assert not any(node.op_type.startswith(("QLinear", "QGemm")) for node in after.graph.node)
    assert surgeon.compare(before, after, atol=0.0, rtol=0.0).outcome.value == "proved"
    assert not faults(after, "SM86")
