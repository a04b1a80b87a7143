"""Whether a node means the same at a newer opset of ai.onnx, and what has to move for that.

The judgement is per node and per version of its op.  A step from one version to the next is lossless when the inputs,
outputs and attributes that the node uses are all still there, under the same names and defaults, and take at least the
same types.  On top stand three tables: versions whose meaning changed behind a like signature, new attributes whose
default is known to keep the old meaning, and attributes that became an input.  Source: the operator change log of ONNX
(docs/Changelog.md) and the version converter's adapters (onnx/version_converter/adapters).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper

from surgeon.errors import Refusal, Refused, require
from surgeon.indexing.scope import Node
from surgeon.ops.attributes import type_string
from surgeon.ops.records import RECORDS
from surgeon.ops.schemas import Formal, Schema, history, schema
from surgeon.shapes.shapes import Shapes

OLDEST = 7  # before, broadcasting and in-place attributes were part of most ops


@dataclass(slots=True)
class Change:
    """What has to change in one node: attributes that go, attributes that come, and the new inputs.

    moved: attributes that become inputs behind those that there are, by name; None for an input that is left out.
    """

    node: Node
    shapes: Shapes
    attributes: dict[str, AttributeProto]
    inputs: int
    outputs: int
    dropped: list[str] = field(default_factory=list)
    added: dict[str, Any] = field(default_factory=dict)
    moved: dict[str, np.ndarray[Any, np.dtype[Any]] | None] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether the node stays as it is."""
        return not self.dropped and not self.added and not self.moved

    @property
    def rank(self) -> int | None:
        """The rank of the first input, None where it is unknown."""
        shape = self.shapes.shape(self.node.scope, self.node.inputs[0])
        return None if shape is None else len(shape)

    def type_string(self, position: int) -> str:
        """The type of an input as schemas spell it, e.g. "tensor(float)"; empty where it is unknown."""
        names = self.node.inputs
        number = self.shapes.dtype(self.node.scope, names[position]) if position < len(names) else None
        return type_string(number) if number else ""

    def value(self, name: str) -> Any:
        """An attribute's value; None where the node does not set it.

        Raises Refused where each call of a function gives it another.
        """
        found = self.attributes.get(name)
        require(found is None or not found.ref_attr_name, f"its attribute {name}, which calls give, may change")
        return None if found is None else helper.get_attribute_value(found)

    def drop(self, name: str) -> None:
        """Take an attribute out."""
        del self.attributes[name]
        self.dropped.append(name)

    def add(self, name: str, value: Any) -> None:
        """Set an attribute that the node did not have."""
        self.attributes[name] = helper.make_attribute(name, value)
        self.added[name] = value

    def move(self, name: str, values: np.ndarray[Any, np.dtype[Any]] | None, place: int = 1) -> None:
        """Turn an attribute into an input, or leave that out.  Raises Refused where the node's inputs do not allow."""
        told = f"attribute {name} becomes an input, but the node has {self.inputs} inputs"
        require(self.inputs == place, told)
        if name in self.attributes:
            self.drop(name)
        self.inputs, self.moved[name] = place + 1, values

    def number(self, name: str) -> np.ndarray[Any, np.dtype[Any]] | None:
        """An attribute as a number of the dtype of the first input; None where the node does not set it.

        Raises Refused where that dtype is unknown.
        """
        value, known = self.value(name), self.shapes.dtype(self.node.scope, self.node.inputs[0])
        if value is None:
            return None
        require(known, f"its attribute {name} becomes an input of a dtype that is unknown,")
        with np.errstate(over="ignore"):  # float32's lowest number is minus infinity in float16, and bounds nothing
            return np.asarray(value).astype(helper.tensor_dtype_to_np_dtype(known or 0))


def judge(node: Node, old: int, new: int, shapes: Shapes) -> Change | Refusal:
    """What a node of ai.onnx needs to mean at opset `new` what it means at `old`, if it can."""
    before, after = schema("", node.op, old), schema("", node.op, new)
    attributes = {item.name: item for item in node.proto.attribute}
    change = Change(node, shapes, attributes, len(node.inputs), len(node.outputs))
    if before is None or after is None:
        return Refusal(f"neither onnx nor ONNX Runtime has it at opset {old}, so nobody knows what it means at {new}")
    if before.since_version == after.since_version:
        return change
    if old < OLDEST:
        return Refusal(f"opset {old} is older than {OLDEST}, whose ops differ too much")
    versions = history("", node.op)
    for one, other in pairwise(versions):
        if before.since_version <= one.since_version and other.since_version <= new:
            try:
                _step(one, other, change)
            except Refused as why:
                return Refusal(f"{why} in opset {other.since_version}")
    return change


def _step(before: Schema, after: Schema, change: Change) -> None:
    """Take a node from one version of its op to the next.  Raises Refused where that would change what it means."""
    key = (after.name, after.since_version)
    require(key not in _CHANGED, _CHANGED.get(key, ""))
    require(not after.deprecated, "it was taken out")
    if key in _SPECIAL:
        _SPECIAL[key](change)
        return
    _require_inputs(before, after, change)
    _require_outputs(before, after, change)
    _require_attributes(before, after, change)


def _require_inputs(before: Schema, after: Schema, change: Change) -> None:
    require(len(before.inputs) <= len(after.inputs), "it lost an input")
    for place, (one, other) in enumerate(zip(before.inputs, after.inputs, strict=False)):
        is_as_it_was = one.name == other.name and one.variadic == other.variadic and one.optional <= other.optional
        require(is_as_it_was, f"its input {one.name} changed")
        if not before.allowed(one) <= after.allowed(other):
            unused = place >= change.inputs or change.type_string(place) in after.allowed(other)
            require(unused and not one.variadic, f"its input {one.name} takes fewer types")
    missing = [item.name for item in after.inputs[max(len(before.inputs), change.inputs) :] if not item.optional]
    require(not missing or after.inputs[-1].variadic, f"it got an input {missing[0] if missing else ''}")


def _require_outputs(before: Schema, after: Schema, change: Change) -> None:
    for one, other in list(zip(before.outputs, after.outputs, strict=False))[: change.outputs]:
        tied, still = _tied(before, one, change.inputs), _tied(after, other, change.inputs)
        # Tied to fewer inputs is the same type as before; tied to more, or to none, may be another.
        is_as_it_was = one.name == other.name and one.variadic == other.variadic and bool(tied) == bool(still)
        require(is_as_it_was and not still - tied, f"its output {one.name} changed")
        require(tied or before.allowed(one) <= after.allowed(other), f"its output {one.name} has fewer types")
    require(change.outputs <= len(after.outputs) or after.outputs[-1].variadic, "it lost an output")


def _tied(one: Schema, output: Formal, inputs: int) -> set[str]:
    """Those of the first inputs whose type an output shares."""
    return {formal.name for formal in one.inputs[:inputs] if formal.type == output.type and formal.type in one.types}


def _require_attributes(before: Schema, after: Schema, change: Change) -> None:
    for name, spec in before.attributes.items():
        other = after.attributes.get(name)
        if other is None:
            require(name not in change.attributes and spec.value is None, f"its attribute {name} went")
            continue
        is_as_it_was = other.type == spec.type and other.value == spec.value
        require(is_as_it_was, f"the default of its attribute {name} changed")
        require(not other.required or name in change.attributes, f"its attribute {name} became required")
    fresh = [name for name in after.attributes if name not in before.attributes]
    if fresh and (after.name, after.since_version) not in _NEUTRAL:
        raise Refused(f"it got an attribute {fresh[0]}, which may change its meaning,")


def _move_axes(change: Change) -> None:
    axes = change.value("axes")
    if axes is not None:
        require(axes, "its empty axes got another meaning")
        change.move("axes", np.asarray(axes, np.int64))


def _move_split(change: Change) -> None:
    sizes = change.value("split")
    if sizes is not None:
        change.move("split", np.asarray(sizes, np.int64))


def _number_outputs(change: Change) -> None:
    if "split" not in change.moved and not any(change.node.inputs[1:]):
        change.add("num_outputs", change.outputs)


def _move_ratio(change: Change) -> None:
    """Dropout: inference before and after, as training_mode is not given; bool mask since opset 10."""
    ratio = change.value("ratio")
    if ratio is not None:
        change.move("ratio", np.asarray(ratio, np.float32))


def _move_bounds(change: Change) -> None:
    """Clip: a bound that is not set stays the end of its dtype, or of float32, which is beyond that of float16."""
    least, most = change.number("min"), change.number("max")
    if least is not None or most is not None:
        change.move("min", least)
    if most is not None:
        change.move("max", most, 2)


def _move_pads(change: Change) -> None:
    filled = change.number("value")
    change.move("pads", np.asarray(change.value("pads"), np.int64))
    if filled is not None:
        change.move("value", filled, 2)


def _move_count(change: Change) -> None:
    change.move("k", np.asarray([change.value("k")], np.int64))


def _move_ranges(change: Change) -> None:
    for place, name in enumerate(("starts", "ends", "axes"), 1):
        values = change.value(name)
        if values is not None:
            change.move(name, np.asarray(values, np.int64), place)


def _keep_sampling(change: Change) -> None:
    """RoiAlign: what it did before got a name when the default changed."""
    change.add("coordinate_transformation_mode", "output_half_pixel")


def _rename_modes(change: Change) -> None:
    """GridSample: bilinear and bicubic, also the default, have other names for the same."""
    mode = {b"bilinear": "linear", b"bicubic": "cubic"}.get(change.value("mode"))
    if mode is not None:
        change.drop("mode")
        change.add("mode", mode)


def _type_of_scale(_: Change) -> None:
    """DequantizeLinear: float like the scale, then of the scale's type, then of that unless output_dtype is set."""


LONGER = ", no longer over all axes from there on"


def _last_axis(change: Change) -> None:
    """Softmax and its kin: over the flattened tail before, over one axis now; the same for the last axis."""
    axis, rank = change.value("axis"), change.rank
    if axis == -1 or (rank is not None and (1 if axis is None else axis) in (rank - 1, -1)):
        return
    if rank is None and axis is not None:
        raise Refused(f"it works over axis {axis} alone{LONGER}, and the rank is unknown,")
    raise Refused(f"it works over one axis{LONGER},")


def _spatial(change: Change) -> None:
    require(change.value("spatial") != 0, "its attribute spatial went")
    if "spatial" in change.attributes:
        change.drop("spatial")


def _inference_only(change: Change) -> None:
    """BatchNormalization: one output means inference, which is what it stayed."""
    require(change.outputs == 1, "its training outputs changed")


def _floor_only(change: Change) -> None:
    """Pooling: what a window that hangs over the edge counts changed with ceil_mode (AveragePool-19, MaxPool-22)."""
    require(not change.value("ceil_mode"), "its ceil_mode changed")


def _explicit_pads(change: Change) -> None:
    require(change.value("auto_pad") not in (b"SAME_UPPER", b"SAME_LOWER"), "its auto_pad changed")


def _no_tensorflow_pixels(change: Change) -> None:
    mode = change.value("coordinate_transformation_mode")
    require(mode != b"tf_half_pixel_for_nn", "its tf_half_pixel_for_nn went")


_AXES_MOVED = [op for op in RECORDS.values() if op.axes is not None and op.axes.since and op.axes.slot == 1]
_SPECIAL: Mapping[tuple[str, int], Callable[[Change], None]] = {
    **{(op.name, op.axes.since): _move_axes for op in _AXES_MOVED if op.axes is not None},
    **{(name, 13): _last_axis for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{(name, 19): _floor_only for name in ("AveragePool",)},
    **{(name, 22): _floor_only for name in ("AveragePool", "MaxPool", "LpPool")},
    ("Clip", 11): _move_bounds,
    ("Pad", 11): _move_pads,
    ("Slice", 10): _move_ranges,
    ("Split", 13): _move_split,
    ("Split", 18): _number_outputs,
    ("TopK", 10): _move_count,
    ("Dropout", 12): _move_ratio,
    ("RoiAlign", 16): _keep_sampling,
    ("GridSample", 20): _rename_modes,
    **{("DequantizeLinear", version): _type_of_scale for version in (19, 23)},
    ("BatchNormalization", 9): _spatial,
    ("BatchNormalization", 14): _inference_only,
    ("ConvTranspose", 11): _explicit_pads,
    ("Resize", 13): _no_tensorflow_pixels,
}
_CHANGED: Mapping[tuple[str, int], str] = {
    ("GroupNormalization", 21): "the shapes of its scale and bias changed",
    ("Attention", 24): "its masking changed",
    ("Attention", 25): "its masking changed",
    ("Upsample", 9): "its scales became an input",
}
_NEUTRAL = frozenset({
    ("MaxPool", 8), ("AveragePool", 10), ("MaxPool", 10), ("Constant", 11), ("DepthToSpace", 11), ("TopK", 11),
    ("ArgMax", 12), ("ArgMin", 12), ("Constant", 12), ("GatherND", 12), ("DequantizeLinear", 13),
    ("QuantizeLinear", 13), ("GRU", 14), ("LSTM", 14), ("RNN", 14), ("Reshape", 14), ("Shape", 15),
    ("ScatterElements", 16), ("ScatterND", 16), ("LpPool", 18), ("Resize", 18), ("Cast", 19), ("CastLike", 19),
    ("QuantizeLinear", 19), ("QuantizeLinear", 21), ("DequantizeLinear", 21), ("QuantizeLinear", 23),
    ("Cast", 24), ("CastLike", 24),
})  # fmt: skip


def newest_opset() -> int:
    """The newest opset of ai.onnx that the installed onnx knows."""
    return int(onnx.defs.onnx_opset_version())


def ir_version_for(opset: int) -> int:
    """The IR version that an opset of ai.onnx asks for."""
    return int(helper.OP_SET_ID_VERSION_MAP[("ai.onnx", opset)])
