"""What of a mini-model takes the memory: its largest tensor, at the sizes of a run."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from onnx import ModelProto, helper, numpy_helper

from surgeon.errors import SurgeonError
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.proof_case import ProofCase, with_fixed_dims
from surgeon.runtime.sessions.ort_session import OUT_OF_MEMORY, SessionError
from surgeon.shapes.algebra.size_expressions import Size, SizeError


def error_message(error: SessionError, experiment: ProofCase, side: ModelProto, setting: DimAssignment | None) -> str:
    """What a runtime says, as a clause; of a lack of memory, which tensor takes it."""
    line = error.message.rstrip(".")
    told = largest_tensor(experiment, side, setting) if error.message == OUT_OF_MEMORY and setting is not None else ""
    return f"{line} ({told})" if told else line


def largest_tensor(experiment: ProofCase, side: ModelProto, setting: DimAssignment) -> str:
    """The largest tensor that a side of an experiment makes, with its shape, dtype and bytes; "" where none is known.

    Bytes are the elements of the shape by the size of one in numpy.
    """
    from surgeon.file.model import Model  # not at the top: few proofs lack memory
    from surgeon.ir.index import Index
    from surgeon.shapes.index_shapes import shapes_of

    try:
        sized = _at(experiment, side, setting)
        with Model.open(sized) as model:
            index = Index(model)
            shapes, scope = shapes_of(index), index.scopes[0]
            names = (*scope.inputs, *(name for node in scope.live_nodes() for name in node.outputs if name))
            found = [(*told, name) for name in names if (told := _told(*shapes.facts(scope, name))) is not None]
    except (SurgeonError, SizeError):  # what is known of it does not do: then the reason goes without
        return ""
    if not found:
        return ""
    size, kind, name = max(found, key=lambda one: one[0])
    return f"{name!r}, {kind}, has {size / 1e9:.3g} GB"


def dims_to_json(setting: DimAssignment | None) -> dict[str, Any] | None:
    """The sizes of a run as JSON holds them."""
    return (
        None if setting is None else {"by_symbol": dict(setting.by_symbol), "shrunk": sorted(setting.reduced.items())}
    )


def dims_from_json(noted: Mapping[str, Any]) -> DimAssignment:
    """The sizes that were noted."""
    return DimAssignment(noted["by_symbol"], dict(noted["shrunk"]))


def _told(kind: int | None, shape: Sequence[Size] | None) -> tuple[int, str] | None:
    """The bytes of a tensor, and its dtype and shape in words; None where one of them is open."""
    if not kind or shape is None:
        return None
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape):
        return None
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    return prod(sizes) * dtype.itemsize, f"{dtype.name}{sizes}"


def _at(experiment: ProofCase, side: ModelProto, setting: DimAssignment) -> ModelProto:
    """A side with the sizes of a run in place of its free dimensions, and in the tensors that follow from them."""
    dims = experiment.models.dims
    made = with_fixed_dims(side, lambda text: setting.size(dims[text]) if text in dims else None)
    values = {item.name: item.value for item in experiment.inputs if item.value is not None}
    for port in made.graph.input:
        if port.name in values:
            dtype = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
            value = numpy_helper.from_array(setting.value(values[port.name], dtype), port.name)
            made.graph.initializer.append(value)
    del made.graph.value_info[:]  # in symbols
    kept = [port for port in made.graph.input if port.name not in values]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    return made

