"""Tensors whose data do not have the size of their shape."""

from collections.abc import Iterator

import onnx

from surgeon.errors import ModelFileError
from surgeon.file.external_data.locations import tensors_of
from surgeon.file.model import Model
from surgeon.file.tensors.decoding import raw_size
from surgeon.targets.lint.finding import Diagnostic, DiagnosticCollector

TOGETHER = "tensors have more or less data than their shapes require"


def check_data_sizes(model: Model, found: DiagnosticCollector) -> set[str]:
    """Report them, and return their names.  Payloads are read only if their length is not enough."""
    wrong: set[str] = set()
    for tensor in tensors_of(model.skeleton):
        misfit = _misfit(model, tensor)
        if misfit is not None:
            name = tensor.name or "a constant"
            reason = f"the tensor {name!r} has the shape {list(tensor.dims)}, but {misfit}"
            helps = ["correct its dims, or export the model again"]
            found.add("model", "", reason, helps=helps, together=TOGETHER)
            wrong.add(name)
    return wrong


def without_consequences(findings: list[Diagnostic], wrong: set[str]) -> Iterator[Diagnostic]:
    """The findings without shape mismatches that follow from such a tensor."""
    for one in findings:
        if one.kind != "shape" or not all(wrong.intersection(node.inputs) for node in one.where):
            yield one


def _misfit(model: Model, tensor: onnx.TensorProto) -> str | None:
    """How much a tensor holds, as a clause; None if it is as much as its shape says."""
    try:
        wanted = raw_size(tensor) if tensor.data_type != onnx.TensorProto.STRING else 0
        span = model.span(tensor)
        if span is None:
            extent = model.extent(tensor)
            held = wanted if extent is None else extent.size
        else:
            held = span[1] - span[0]
        if held != wanted:
            return f"its data has {held:,} bytes instead of {wanted:,}"
        if span is None and extent is None:
            model.value(tensor)
    except ModelFileError as error:
        return str(error).rstrip(".").partition(", but ")[2] or str(error).rstrip(".")
    return None
