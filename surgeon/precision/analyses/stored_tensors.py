"""Stored tensors: initializers, Constants, and fill values of nodes."""

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from surgeon.file.protobuf.payloads import PAYLOAD_KEY
from surgeon.ops.traits.dtype_traits import DTYPE_ATTRIBUTES
from surgeon.precision.analyses.dtype_graph import STORED, TypedTensor

_NOTES = ("name", "doc_string", "metadata_props")  # fields of a TensorProto (onnx.proto) besides its values
FILL = "value"
"""The attribute with the fill value of a node's output."""
_STATED = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def lies_in_file(tensor: TensorProto) -> bool:
    """Whether the data of a tensor are not in the skeleton."""
    return tensor.data_location == TensorProto.EXTERNAL or any(
        entry.key == PAYLOAD_KEY for entry in tensor.external_data
    )


def held(wire: TypedTensor) -> TensorProto | None:
    """The stored tensor or fill value of a tensor; None for any other."""
    tensor = wire.home.initializers.get(wire.name)
    if tensor is not None or wire.node is None:
        return tensor
    is_filled = DTYPE_ATTRIBUTES.get(wire.node.op, ("",))[0] == FILL and wire.node.attribute(FILL) is not None
    is_stored = wire.node.op == "Constant" and wire.maker == STORED
    return as_tensor(wire.node.proto) if is_stored or is_filled else None


def as_tensor(node: NodeProto) -> TensorProto:
    """The tensor of a Constant or a fill value; scalars and lists are rewritten as tensors."""
    tensor: TensorProto
    for item in node.attribute:
        if item.name == "value":
            tensor = item.t
            return tensor
        if item.name in _STATED:
            values = np.asarray(helper.get_attribute_value(item), _STATED[item.name])
            item.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(values)))
            tensor = item.t
            return tensor
    raise ValueError(f"{node.op_type} has no numeric value")


def zero(node: NodeProto, key: str) -> TensorProto:
    """The default fill value of a node, a float32 zero, which becomes explicit."""
    node.attribute.append(helper.make_attribute(key, numpy_helper.from_array(np.zeros(1, np.float32))))
    tensor: TensorProto = node.attribute[-1].t
    return tensor


def set_values(tensor: TensorProto, values: Any) -> None:
    """Replace the values of a tensor; its name and notes stay, and fields that onnx does not know."""
    for field, _ in tensor.ListFields():
        if field.name not in _NOTES:
            tensor.ClearField(field.name)
    tensor.MergeFrom(numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), tensor.name))
