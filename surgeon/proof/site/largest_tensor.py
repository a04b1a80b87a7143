"""The largest tensor of a model at the sizes of a run, for messages about memory."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from onnx import ModelProto, helper, numpy_helper

from surgeon.errors import SurgeonError
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.proof_case import ProofCase, with_fixed_dims
from surgeon.runtime.sessions.ort_session import OUT_OF_MEMORY, SessionError
from surgeon.shapes.algebra.size_expressions import Size, SizeError


def error_message(error: SessionError, case: ProofCase, side: ModelProto, assignment: DimAssignment | None) -> str:
    """A runtime's message as a clause; where memory ran out, with the largest tensor."""
    line = error.message.rstrip(".")
    if error.message != OUT_OF_MEMORY or assignment is None:
        return line
    largest = largest_tensor(case, side, assignment)
    return line if largest is None else f"{line} ({largest})"


def largest_tensor(case: ProofCase, side: ModelProto, assignment: DimAssignment) -> str | None:
    """The largest tensor that a side of a case has, with shape, dtype and bytes; None if none is known.

    Bytes are the elements of the shape times the item size in numpy.
    """
    from surgeon.file.model import Model  # not at the top: few proofs lack memory
    from surgeon.ir.index import Index
    from surgeon.shapes.index_shapes import shapes_of

    try:
        sized = _at(case, side, assignment)
        with Model.open(sized) as model:
            index = Index(model)
            shapes, scope = shapes_of(index), index.scopes[0]
            names = (*scope.inputs, *(name for node in scope.live_nodes() for name in node.outputs if name))
            found = [
                (*known, name) for name in names if (known := _bytes_and_type(*shapes.facts(scope, name))) is not None
            ]
    except (SurgeonError, SizeError):  # shapes are unknown: the message goes without it
        return None
    if not found:
        return None
    size, kind, name = max(found, key=lambda one: one[0])
    return f"{name!r}, {kind}, takes {size / 1e9:.3g} GB"


def dims_to_json(assignment: DimAssignment | None) -> dict[str, Any] | None:
    """The sizes of a run in JSON types."""
    return (
        None
        if assignment is None
        else {"by_symbol": dict(assignment.by_symbol), "shrunk": sorted(assignment.reduced.items())}
    )


def dims_from_json(noted: Mapping[str, Any]) -> DimAssignment:
    """The sizes from JSON."""
    return DimAssignment(noted["by_symbol"], dict(noted["shrunk"]))


def _bytes_and_type(kind: int | None, shape: Sequence[Size] | None) -> tuple[int, str] | None:
    """The bytes of a tensor, and its dtype and shape as text; None if one of them is unknown."""
    if not kind or shape is None:
        return None
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape):
        return None
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    return prod(sizes) * dtype.itemsize, f"{dtype.name}{sizes}"


def _at(case: ProofCase, side: ModelProto, assignment: DimAssignment) -> ModelProto:
    """A side at the sizes of a run, with the tensors that depend on the sizes as constants."""
    dims = case.models.dims
    made = with_fixed_dims(side, lambda text: assignment.size(dims[text]) if text in dims else None)
    values = {item.name: item.value for item in case.inputs if item.value is not None}
    for port in made.graph.input:
        if port.name in values:
            dtype = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
            value = numpy_helper.from_array(assignment.value(values[port.name], dtype), port.name)
            made.graph.initializer.append(value)
    del made.graph.value_info[:]  # in symbols
    kept = [port for port in made.graph.input if port.name not in values]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    return made
