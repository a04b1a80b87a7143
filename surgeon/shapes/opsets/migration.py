"""Whether a node has the same meaning at a newer opset of ai.onnx, and which changes it needs.

The decision is per node and per version of its op.  A step from one version to the next is lossless if the inputs,
outputs and attributes of the node still exist, with the same names and defaults, and support at least the same types.
Three tables add to that: versions whose meaning changed under a similar signature, new attributes whose default keeps
the old meaning, and adapters, which edit a node.  Source: the operator change log of ONNX (docs/Changelog.md).
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
    """The change that a node of ai.onnx needs to have the same meaning at opset `new` as at `old`, if possible."""
    before, after = schema("", node.op, old), schema("", node.op, new)
    change = Change.of(node, shapes)
    if before is None or after is None:
        return Unavailable(f"the op is not defined at both opset {old} and opset {new}")
    if before.since_version == after.since_version:
        return change
    if old < OLDEST:
        return Unavailable(f"surgeon does not convert ops from opsets before {OLDEST}")
    while (other := _next(change.op, before.since_version)) is not None and other.since_version <= new:
        try:
            _step(before, other, change)
        except ConditionFailed as why:
            return Unavailable(f"since opset {other.since_version}, {why}")
        became = other if change.op == other.name else schema("", change.op, other.since_version)
        if became is None:
            raise AssertionError(f"no {change.op} at opset {other.since_version}")
        before = became
    return change


def _next(op: str, version: int) -> Schema | None:
    """The next version of an op."""
    return next((one for one in history("", op) if one.since_version > version), None)


def _step(before: Schema, after: Schema, change: Change) -> None:
    """Take a node from one version of its op to the next.

    Raises ConditionFailed if that would change its meaning.
    """
    key = (after.name, after.since_version)
    require(key not in MEANING_CHANGED, MEANING_CHANGED.get(key, ""))
    if key in ADAPTERS:
        ADAPTERS[key](change)
        return
    require(not after.deprecated, "the op is removed")
    _require_inputs(before, after, change)
    _require_outputs(before, after, change)
    _require_attributes(before, after, change)


def _require_inputs(before: Schema, after: Schema, change: Change) -> None:
    require(len(before.inputs) <= len(after.inputs), "the op has fewer inputs")
    for place, (one, other) in enumerate(zip(before.inputs, after.inputs, strict=False)):
        is_as_it_was = one.name == other.name and one.variadic == other.variadic and one.optional <= other.optional
        require(is_as_it_was, f"its input {one.name} differs")
        if not before.allowed(one) <= after.allowed(other):
            unused = place >= change.inputs or change.type_string(place) in after.allowed(other)
            require(unused and not one.variadic, f"its input {one.name} supports fewer dtypes")
    missing = [item.name for item in after.inputs[max(len(before.inputs), change.inputs) :] if not item.optional]
    require(not missing or after.inputs[-1].variadic, f"the op needs an input {missing[0] if missing else ''}")


def _require_outputs(before: Schema, after: Schema, change: Change) -> None:
    for one, other in list(zip(before.outputs, after.outputs, strict=False))[: change.outputs]:
        tied, still = _tied(before, one, change.inputs), _tied(after, other, change.inputs)
        # An output tied to fewer inputs keeps its type; one tied to more, or to none, may have another.
        is_as_it_was = one.name == other.name and one.variadic == other.variadic and bool(tied) == bool(still)
        require(is_as_it_was and not still - tied, f"its output {one.name} differs")
        require(tied or before.allowed(one) <= after.allowed(other), f"its output {one.name} supports fewer dtypes")
    require(change.outputs <= len(after.outputs) or after.outputs[-1].variadic, "the op has fewer outputs")


def _tied(one: Schema, output: FormalParameter, inputs: int) -> set[str]:
    """Those of the first inputs whose type an output shares."""
    return {formal.name for formal in one.inputs[:inputs] if formal.type == output.type and formal.type in one.types}


def _require_attributes(before: Schema, after: Schema, change: Change) -> None:
    for name, spec in before.attributes.items():
        other = after.attributes.get(name)
        if other is None:
            require(name not in change.attributes and spec.value is None, f"its attribute {name} is removed")
            continue
        is_as_it_was = other.type == spec.type and other.value == spec.value
        require(is_as_it_was, f"the default of its attribute {name} differs")
        require(not other.required or name in change.attributes, f"its attribute {name} is required")
    fresh = [name for name in after.attributes if name not in before.attributes]
    if fresh and (after.name, after.since_version) not in NEUTRAL_ATTRIBUTES:
        raise ConditionFailed(f"a new attribute {fresh[0]} may change its meaning")


def newest_opset() -> int:
    """The newest opset of ai.onnx that the installed onnx knows."""
    return int(onnx.defs.onnx_opset_version())


def ir_version_for(opset: int) -> int:
    """The IR version that an opset of ai.onnx requires."""
    return int(helper.OP_SET_ID_VERSION_MAP[("ai.onnx", opset)])
