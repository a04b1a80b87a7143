"""Weights of a few bits in blocks: as ONNX Runtime's MatMulNBits holds them, and as ONNX does."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from surgeon.patterns.quantization.matmul_nbits import matmul_nbits

import surgeon
from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import check_parses


def packed(inner=64, outer=48, block=32, bits=4, zeros=None, bias=False, dtype=np.float32, opset=21, **attributes):
    """One MatMulNBits.  zeros: None, "bytes" or "floats"."""
    numbers = np.random.default_rng(inner + bits)
    blocks = -(-inner // block)
    held = {
        "w": numbers.integers(0, 256, (outer, blocks, block * bits // 8), dtype=np.uint8),
        "s": (numbers.random((outer, blocks)) / 8 + 0.01).astype(dtype),
    }
    inputs = ["x", "w", "s", "", "", ""]
    if zeros is not None:
        count = (blocks * bits + 7) // 8
        made = numbers.integers(0, 256, (outer, count), dtype=np.uint8)
        held["z"] = made if zeros == "bytes" else numbers.random((outer, blocks)).astype(dtype)
        inputs[3] = "z"
    if bias:
        held["b"] = numbers.normal(size=outer).astype(dtype)
        inputs[5] = "b"
    while not inputs[-1]:
        inputs.pop()
    attributes |= {"K": inner, "N": outer, "bits": bits, "block_size": block}
    node = helper.make_node("MatMulNBits", inputs, ["y"], domain="com.microsoft", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [helper.make_tensor_value_info(name, kind, ["n", size]) for name, size in (("x", inner), ("y", outer))]
    weights = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


FIRES = [
    Case(matmul_nbits, "around the middle", packed(), target="tensorrt"),
    Case(matmul_nbits, "with zero points", packed(zeros="bytes"), target="tensorrt"),
    Case(matmul_nbits, "a last block that is not full, and a bias", packed(80, bias=True), target="tensorrt"),
    Case(matmul_nbits, "eight bits", packed(bits=8), target="onnx"),
    Case(matmul_nbits, "an opset without blocks", packed(zeros="bytes", opset=20), target="tensorrt"),
    Case(matmul_nbits, "half precision, by accuracy", packed(dtype=np.float16, accuracy_level=1), target="onnx"),
]
NEGATIVES = [
    Case(matmul_nbits, "ONNX Runtime has it", packed(), why="runs it as it is"),
    Case(matmul_nbits, "zero points that are floats", packed(zeros="floats"), target="onnx", why="must be uint8"),
    Case(matmul_nbits, "two bits", packed(bits=2), target="onnx", why="4 or 8 bits, but have 2"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize(("zeros", "kind"), [(None, TensorProto.INT4), ("bytes", TensorProto.INT8)])
def test_four_bits_stay_where_they_can_and_tensorrt_builds_them(zeros, kind):
    case = Case(matmul_nbits, "built", packed(256, 64, 128, zeros=zeros), target="tensorrt")
    made, _ = surgeon.rewrite(case.model, matmul_nbits, target="tensorrt", check="none")
    assert [node.op_type for node in made.graph.node] == ["DequantizeLinear", "MatMul"]
    assert next(item.data_type for item in made.graph.initializer if list(item.dims) == [256, 64]) == kind
    check_parses(case, "86")
