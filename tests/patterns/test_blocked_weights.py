"""Weights of a few bits in blocks: read by index, and dequantised."""

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper
from surgeon.patterns.quantization.blocked_weights import dequantize_blocks, gather_block_quantized

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import check_parses

ROWS, COLUMNS, BLOCK = 6, 32, 16


def made(node, held, inputs, output, opset):
    """A model of one node.  output: its shape and the dtype of it."""
    shape, dtype = output
    ends = [helper.make_tensor_value_info(name, kind, sizes) for name, kind, sizes in inputs]
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
    weights = [numpy_helper.from_array(array, name) for name, array in held.items()]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", ends, [result], weights)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def table(kind="packed", zeros=True, dtype=np.float32, opset=21, **attributes):
    """One GatherBlockQuantized over a table of 6 rows.  kind: "packed" in bytes, "bytes", or a dtype of four bits."""
    numbers, blocks = np.random.default_rng(0), COLUMNS // BLOCK
    bits = 8 if kind == "bytes" else 4
    if kind in ("packed", "bytes"):
        sizes = [size * bits // 8 for size in (COLUMNS, blocks)]
        q, z = (numbers.integers(0, 120, (ROWS, size), dtype=np.uint8) for size in sizes)
    else:
        low, few = -8 if kind == "int4" else 0, getattr(ml_dtypes, kind)
        q, z = (numbers.integers(low, low + 16, (ROWS, size)).astype(few) for size in (COLUMNS, blocks))
    held = {"q": q, "s": (numbers.random((ROWS, blocks)) / 8 + 0.01).astype(dtype), "z": z}
    names = ["q", "i", "s", "z"] if zeros else ["q", "i", "s"]
    settings = {"bits": bits, "block_size": BLOCK, "quantize_axis": 1, **attributes}
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **settings)
    given = {name: array for name, array in held.items() if name in names}
    return made(node, given, [("i", 7, ["b", "n"])], (["b", "n", COLUMNS], dtype), opset)


def blocked(kind, zeros=True, axis=1, opset=21):
    """One DequantizeLinear in blocks, of which the product with a matrix is taken."""
    numbers = np.random.default_rng(1)
    limits = ml_dtypes.iinfo(kind)
    shape = (ROWS, COLUMNS) if axis else (COLUMNS, ROWS)
    sizes = tuple(size // BLOCK if place == axis else size for place, size in enumerate(shape))
    draw = lambda sizes: numbers.integers(int(limits.min), int(limits.max) + 1, sizes).astype(kind)  # noqa: E731
    held = {"q": draw(shape), "s": (numbers.random(sizes) / 8 + 0.01).astype(np.float32), "z": draw(sizes)}
    names = ["q", "s", "z"] if zeros else ["q", "s"]
    node = helper.make_node("DequantizeLinear", names, ["d"], axis=axis, block_size=BLOCK)
    given, ends = {name: held[name] for name in names}, [("x", 1, ["n", shape[0]])]
    model = made(node, given, ends, (["n", shape[1]], np.float32), opset)
    model.graph.node.append(helper.make_node("MatMul", ["x", "d"], ["y"]))
    return model


FIRES = [
    Case(gather_block_quantized, "packed, with zero points", table(), target="tensorrt"),
    Case(gather_block_quantized, "packed, around the middle", table(zeros=False), target="onnx"),
    Case(gather_block_quantized, "bytes", table("bytes"), target="decomposed"),
    Case(gather_block_quantized, "int4 without zero points", table("int4", zeros=False), target="onnx"),
    Case(gather_block_quantized, "uint4 in half precision", table("uint4", dtype=np.float16), target="onnx"),
    Case(gather_block_quantized, "an opset without blocks", table(opset=17), target="tensorrt"),
    Case(dequantize_blocks, "zero points, which TensorRT has not", blocked(np.int8), target="tensorrt"),
    Case(dequantize_blocks, "along the first axis", blocked(ml_dtypes.int4, axis=0), target="tensorrt"),
    Case(dequantize_blocks, "bytes without a sign", blocked(np.uint8), target="tensorrt"),
]
NEGATIVES = [
    Case(gather_block_quantized, "ONNX Runtime has it", table(), why="runs it as it is"),
    Case(dequantize_blocks, "TensorRT has it", blocked(ml_dtypes.int4, zeros=False, axis=0), target="tensorrt",
         why="runs it as it is"),
    Case(dequantize_blocks, "it is ONNX's own", blocked(np.int8), target="onnx", why="runs it as it is"),
]  # fmt: skip


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize("case", [case for case in FIRES if case.target == "tensorrt"], ids=str)
def test_tensorrt_reads_what_is_written(case):
    check_parses(case)
