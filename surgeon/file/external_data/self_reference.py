"""A model whose large tensors point into its own file as external data, so that it loads without reading them."""

import onnx

from surgeon.file.external_data.locations import EXTERNAL
from surgeon.file.model import Model
from surgeon.file.protobuf.payloads import marked

LEAST = 1 << 20
"""Bytes of data from which a tensor is pointed to."""


def pointing_at(model: Model) -> onnx.ModelProto | None:
    """The skeleton of a model of a file; a tensor that it lacks says where in the file its bytes lie.

    None where there is no file, or a tensor is stored as numbers instead of raw bytes.
    """
    if model.path is None:
        return None
    made = onnx.ModelProto()
    made.CopyFrom(model.skeleton)
    for tensor in marked(made):
        span = model.span(tensor)
        if span is None:
            return None
        del tensor.external_data[:]
        start, end = span
        for key, value in (("location", model.path.name), ("offset", start), ("length", end - start)):
            tensor.external_data.add(key=key, value=str(value))
        tensor.data_location = EXTERNAL
    return made
