"""Evaluated shapes against ONNX's own test cases for every op: as they stand, and with every size made a symbol.

The cases are those of `onnx.backend.test`, function bodies written out included.  Small integer inputs become
constants, as the shape of many an output depends on them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from surgeon.shapes.algebra.size_expressions import evaluate, symbols
from tests.onnx_cases import onnx_cases
from tests.shaping_run import shapes_of

UNRANKED = frozenset(
    {
        "BlackmanWindow",  # onnx infers nothing where the length is an input
        "HammingWindow",
        "HannWindow",
        "MelWeightMatrix",
        "MaxUnpool",
        "GatherND",  # the last dimension of the indices is a rank, here made a symbol
        "OptionalGetElement",  # optionals and sequences have no facts
        "ai.onnx.preview::FlexAttention",
        "Scan",  # version 8
    }
)
"""Ops of which some case leaves the rank unknown."""


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    """All cases of single ops that have data."""
    return [case for case in onnx_cases() if "_training" not in case.name]


def prepared(case: Any, symbolic: bool) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A model with no shapes but those of its inputs, and what each symbol stands for."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph, sizes = model.graph, {}
    inputs = list(graph.input)
    del graph.input[:]
    for value, array in zip(inputs, case.data_sets[0][0], strict=False):
        if _is_size(model, value, array):
            graph.initializer.append(numpy_helper.from_array(array, value.name))
        else:
            graph.input.append(value)
    for value in graph.input if symbolic else ():
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value > 1:
                sizes[f"d{dim.dim_value}"] = dim.dim_value
                dim.dim_param = f"d{dim.dim_value}"
    del graph.value_info[:]
    for value in graph.output:
        value.ClearField("type")
    return model, sizes


def _is_size(model: onnx.ModelProto, value: onnx.ValueInfoProto, array: Any) -> bool:
    """Whether an input looks like one of sizes, axes or indices rather than data."""
    if not isinstance(array, np.ndarray) or not value.type.HasField("tensor_type"):
        return False
    whole = value.type.tensor_type.elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
    small = array.size <= 64 and (array.ndim < 2 or len(model.graph.node) > 1)
    return (whole and small) or value.name == "scales"


def complaints(case: Any, symbolic: bool) -> Iterator[str]:
    """Where the evaluated facts and values of the outputs are not those of the case."""
    model, sizes = prepared(case, symbolic)
    shapes, scope = shapes_of(model)
    for value, array in zip(case.model.graph.output, case.data_sets[0][1], strict=False):
        node = scope.producers.get(value.name)
        if node is None or not isinstance(array, np.ndarray) or not value.type.HasField("tensor_type"):
            continue
        (dtype, shape), found = shapes.facts(scope, value.name), shapes.value(scope, value.name)
        if shape is None:
            if node.op not in UNRANKED:
                yield f"{case.name}: the rank of {node.op} is unknown"
            continue
        if dtype != value.type.tensor_type.elem_type:
            yield f"{case.name}: dtype {dtype}"
        open_axes = [any(name.startswith("?") for name in symbols(size)) for size in shape]
        made = [
            n if is_open else evaluate(x, sizes) for x, n, is_open in zip(shape, array.shape, open_axes, strict=False)
        ]
        if len(shape) != array.ndim or made != list(array.shape):
            yield f"{case.name}: {shape} for {array.shape}"
        elif found is not None and not any(name.startswith("?") for item in found.flat for name in symbols(item)):
            numbers = [evaluate(item, sizes) for item in found.flat]
            if numbers != array.reshape(-1).tolist():
                yield f"{case.name}: {found} for {array}"


@pytest.mark.parametrize("symbolic", [False, True], ids=["numbers", "symbols"])
def test_every_case_of_every_op(cases: list[Any], symbolic: bool) -> None:
    """No wrong fact or value among some 2,000 outputs of all ops of ONNX."""
    assert len(cases) > 1000
    assert not [line for case in cases for line in complaints(case, symbolic)]
