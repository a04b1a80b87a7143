"""A model whose large tensors refer to its own file as external data, so that it loads without reading them."""

import onnx

from surgeon.file.external_data.locations import EXTERNAL
from surgeon.file.model import Model
from surgeon.file.protobuf.payloads import marked
from surgeon.file.tensors.decoding import STRING, raw_size

MIN_BYTES = 1 << 20
"""Minimum size of a tensor that is referred to, in bytes."""


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
        for key, value in (("location", model.path.name), ("offset", start), ("length", end - start)):
            tensor.external_data.add(key=key, value=str(value))
        tensor.data_location = EXTERNAL
    return made
