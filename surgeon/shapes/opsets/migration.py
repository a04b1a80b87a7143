"""Whether a node means the same at a newer opset of ai.onnx, and what has to move for that.

The judgement is per node and per version of its op.  A step from one version to the next is lossless when the inputs,
outputs and attributes that the node uses are all still there, under the same names and defaults, and take at least the
same types.  On top stand three tables: versions whose meaning changed behind a like signature, new attributes whose
default is known to keep the old meaning, and adapters, which edit a node.  Source: the operator change log of ONNX
(docs/Changelog.md).
"""

import onnx
from onnx import helper

from surgeon.errors import ConditionFailed, Unavailable, require
from surgeon.ir.scope import Node
from surgeon.ops.schemas import FormalParameter, Schema, history, schema
from surgeon.shapes.op_rules.opset_adapters import ADAPTERS, MEANING_CHANGED, NEUTRAL_ATTRIBUTES
from surgeon.shapes.opsets.node_change import Change
from surgeon.shapes.shape_inference import ShapeInference

OLDEST = 7  # before, broadcasting and in-place attributes were part of most ops


def migrate_node(node: Node, old: int, new: int, shapes: ShapeInference) -> Change | Unavailable:
    """What a node of ai.onnx needs to mean at opset `new` what it means at `old`, if it can."""
    before, after = schema("", node.op, old), schema("", node.op, new)
    change = Change.of(node, shapes)
    if before is None or after is None:
        return Unavailable(
            f"neither onnx nor ONNX Runtime has it at opset {old}, so nobody knows what it means at {new}"
        )
    if before.since_version == after.since_version:
        return change
    if old < OLDEST:
        return Unavailable(f"opset {old} is older than {OLDEST}, whose ops differ too much")
    while (other := _next(change.op, before.since_version)) is not None and other.since_version <= new:
        try:
            _step(before, other, change)
        except ConditionFailed as why:
            return Unavailable(f"{why} in opset {other.since_version}")
        became = other if change.op == other.name else schema("", change.op, other.since_version)
        if became is None:
            raise AssertionError(f"there is no {change.op} at opset {other.since_version}")
        before = became
    return change


def _next(op: str, version: int) -> Schema | None:
    """The version of an op behind one."""
    return next((one for one in history("", op) if one.since_version > version), None)


def _step(before: Schema, after: Schema, change: Change) -> None:
    """Take a node from one version of its op to the next.

    Raises ConditionFailed where that would change what it means.
    """
    key = (after.name, after.since_version)
    require(key not in MEANING_CHANGED, MEANING_CHANGED.get(key, ""))
    if key in ADAPTERS:
        ADAPTERS[key](change)
        return
    require(not after.deprecated, "it was taken out")
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


def _tied(one: Schema, output: FormalParameter, inputs: int) -> set[str]:
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
    if fresh and (after.name, after.since_version) not in NEUTRAL_ATTRIBUTES:
        raise ConditionFailed(f"it got an attribute {fresh[0]}, which may change its meaning,")


def newest_opset() -> int:
    """The newest opset of ai.onnx that the installed onnx knows."""
    return int(onnx.defs.onnx_opset_version())


def ir_version_for(opset: int) -> int:
    """The IR version that an opset of ai.onnx asks for."""
    return int(helper.OP_SET_ID_VERSION_MAP[("ai.onnx", opset)])
