"""The generated models: a stack of layers, each one MatMul and the five nodes of an exact GELU; `mixed` has more in it.

A mixed layer is a transformer's: a linear layer with bias, an exact GELU, a second linear layer, a residual, and a
layer normalisation as exporters wrote it below opset 17.

Run as `python -m tests.benchmarks.works WORK PATH`, in a process of its own, so that the measuring process stays small
(a child's peak memory starts at that of its parent).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

CONSTANTS = {"sqrt2": 2**0.5, "one": 1.0, "half": 0.5, "two": 2.0, "epsilon": 1e-5}


@dataclass(frozen=True)
class Stack:
    """`layers` layers with weights float32 [hidden, hidden], inside the file or in one sparse external file."""

    layers: int
    hidden: int = 8
    external: bool = False
    value_info: bool = True
    mixed: bool = False


WORKS = {
    "n200": Stack(200),
    "n2000": Stack(2_000),
    "n20000": Stack(20_000),
    "n200000": Stack(200_000),
    "big": Stack(12, hidden=6_000, value_info=False),
    "bare": Stack(20_000, value_info=False),
    "mixed": Stack(6_667, mixed=True),
    "hundred": Stack(140, hidden=13_500, external=True, value_info=False),
    "sparse": Stack(140, hidden=6_000, external=True, value_info=False),
}


def generate(stack: Stack, path: Path) -> None:
    """Write the model to `path`, and its external data, all of it a hole, to `path` + ".data"."""
    graph = onnx.GraphProto(name="stack")
    graph.initializer.extend(numpy_helper.from_array(np.float32(v), name) for name, v in CONSTANTS.items())
    last = "x"
    for number in range(stack.layers):
        scope = f"/layer.{number}/"
        graph.initializer.append(_weight(stack, number, scope + "weight", path))
        nodes = list(_layer(scope, last))
        if stack.mixed:
            nodes += _mixed(scope, last, nodes[-1].output[0])
            graph.initializer.extend(_vector(stack, scope + name) for name in ("bias", "scale", "shift"))
        graph.node.extend(nodes)
        last = nodes[-1].output[0]
        if stack.value_info:
            graph.value_info.extend(
                _activation(node.output[0], 1 if node.op_type in ("ReduceMean", "Sqrt") else stack.hidden)
                for node in nodes
            )
    graph.node[-1].output[0] = "y"
    if stack.value_info:
        del graph.value_info[-1]
    graph.input.append(_activation("x", stack.hidden))
    graph.output.append(_activation("y", stack.hidden))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    if stack.external:
        with open(f"{path}.data", "wb") as data:
            data.truncate(stack.layers * stack.hidden**2 * 4)


def _layer(scope: str, x: str) -> Iterator[NodeProto]:
    wiring = (
        ("MatMul", (x, scope + "weight"), "MatMul"),
        ("Div", (scope + "MatMul_output_0", "sqrt2"), "Div"),
        ("Erf", (scope + "Div_output_0",), "Erf"),
        ("Add", (scope + "Erf_output_0", "one"), "Add"),
        ("Mul", (scope + "MatMul_output_0", scope + "Add_output_0"), "Mul"),
        ("Mul", (scope + "Mul_output_0", "half"), "Mul_1"),
    )
    for op, inputs, name in wiring:
        yield NodeProto(op_type=op, name=scope + name, input=inputs, output=[f"{scope}{name}_output_0"])


def _mixed(scope: str, x: str, activated: str) -> Iterator[NodeProto]:
    """What a mixed layer has behind its GELU: 12 nodes."""
    wiring = (
        ("MatMul", (activated, scope + "weight"), "MatMul_1"),
        ("Add", (scope + "MatMul_1_output_0", scope + "bias"), "Add_1"),
        ("Add", (scope + "Add_1_output_0", x), "Add_2"),
        ("ReduceMean", (scope + "Add_2_output_0",), "ReduceMean"),
        ("Sub", (scope + "Add_2_output_0", scope + "ReduceMean_output_0"), "Sub"),
        ("Pow", (scope + "Sub_output_0", "two"), "Pow"),
        ("ReduceMean", (scope + "Pow_output_0",), "ReduceMean_1"),
        ("Add", (scope + "ReduceMean_1_output_0", "epsilon"), "Add_3"),
        ("Sqrt", (scope + "Add_3_output_0",), "Sqrt"),
        ("Div", (scope + "Sub_output_0", scope + "Sqrt_output_0"), "Div_1"),
        ("Mul", (scope + "Div_1_output_0", scope + "scale"), "Mul_2"),
        ("Add", (scope + "Mul_2_output_0", scope + "shift"), "Add_4"),
    )
    for op, inputs, name in wiring:
        node = NodeProto(op_type=op, name=scope + name, input=inputs, output=[f"{scope}{name}_output_0"])
        if op == "ReduceMean":
            node.attribute.append(helper.make_attribute("axes", [-1]))
        yield node


def _vector(stack: Stack, name: str) -> TensorProto:
    """A vector as long as a layer is wide, another for each name."""
    return numpy_helper.from_array(np.random.default_rng(len(name)).random(stack.hidden, np.float32), name)


def _weight(stack: Stack, number: int, name: str, path: Path) -> TensorProto:
    if not stack.external:
        random = np.random.default_rng(number).standard_normal((stack.hidden, stack.hidden), np.float32)
        return numpy_helper.from_array(random * np.float32(0.1), name)
    length = stack.hidden**2 * 4
    dims = [stack.hidden, stack.hidden]
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", f"{path.name}.data"), ("offset", number * length), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _activation(name: str, hidden: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", hidden])


if __name__ == "__main__":
    generate(WORKS[sys.argv[1]], Path(sys.argv[2]))
