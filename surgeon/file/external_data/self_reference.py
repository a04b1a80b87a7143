"""A model whose large tensors refer to files that have them already, so that it loads without a copy of them."""

from collections.abc import Mapping
from pathlib import Path

import onnx

from surgeon.file.external_data.held_tensors import HeldTensors, MemorySpan, point_to
from surgeon.file.external_data.locations import EXTERNAL, extent_of, tensors_of
from surgeon.file.model import Model
from surgeon.file.protobuf.payloads import marked
from surgeon.file.tensors.decoding import STRING, raw_size

MAX_INSIDE = 1 << 24
"""Maximum size of the tensors in no file, in bytes, from which on they are written to one."""
MIN_BYTES = 1 << 20
"""Minimum size of a tensor that is referred to, in bytes."""


def file_referencing_model(made: onnx.ModelProto, held: Mapping[str, HeldTensors]) -> Path | None:
    """Let held tensors refer to the files that have them, and return the folder of these; others get their data inside.

    None if the files are in several folders, or more than a few tensors are in none; the model is useless then.
    """
    folders, inside = set[Path](), 0
    for tensor in tensors_of(made):
        extent = extent_of(tensor) if tensor.data_location == EXTERNAL else None
        if extent is None or extent.location not in held:
            continue
        span = held[extent.location].span(extent.offset, extent.size)
        del tensor.external_data[:]
        if isinstance(span, MemorySpan):
            inside += span.size
            if inside > MAX_INSIDE:
                return None
            tensor.ClearField("data_location")
            tensor.raw_data = span.held.read(span.start, 0, span.size)
            continue
        folders.add(span.path.parent)
        point_to(tensor, span.path.name, span.start, span.size)
    return folders.pop() if len(folders) == 1 else None


def self_referencing_model(model: Model) -> onnx.ModelProto | None:
    """The skeleton of a model in a file; large tensors that were cut out refer to their bytes in the file.

    New large tensors in memory refer to other bytes of the file, as many: the model loads, but must not run.  None
    without a file, or if other data of a tensor are in it, but not as raw bytes.
    """
    if model.path is None:
        return None
    made = onnx.ModelProto()
    made.CopyFrom(model.skeleton)
    for tensor in marked(made):
        span = model.span(tensor)
        if span is None:
            body = model.serialize_pieces(tensor)
            new = [piece for piece in body if isinstance(piece, bytes)]
            if len(new) < len(body):
                return None
            size = 0 if tensor.data_type == STRING else raw_size(tensor)
            if not MIN_BYTES <= size <= len(model.data):
                tensor.ParseFromString(b"".join(new))
                continue
            span = (0, size)
        del tensor.external_data[:]
        start, end = span
        if end - start < MIN_BYTES:
            tensor.ClearField("data_location")
            tensor.raw_data = model.data[start:end]
            continue
        point_to(tensor, model.path.name, start, end - start)
        tensor.data_location = EXTERNAL
    return made
