"""Bodies of If, Loop and Scan, and of local functions: their inputs and outputs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Node, Scope, qualified_name
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Expr, Size
from surgeon.shapes.op_rules.axis_labels import AxisLabels, LabelRule, rank, unrelated
from surgeon.shapes.tensor_types import (
    BOOL,
    INT64,
    UNKNOWN,
    InferenceContext,
    NodeView,
    PartialShape,
    PartialType,
    TensorType,
    normalize_axis,
    require,
)

Functions: TypeAlias = dict[str, dict[str, Scope]]
BODY_OPS = frozenset(("If", "Loop", "Scan"))


def input_types(owner: NodeView, body: Scope) -> dict[str, PartialType]:
    """The types of the inputs of a body, from its owner; for a Loop, those of the first iteration."""
    return {name: _input_type(owner, position) for position, name in enumerate(body.input_names)}


def _input_type(owner: NodeView, position: int) -> PartialType:
    if owner.node.op == "Loop":
        return PartialType((INT64, BOOL)[position], ()) if position < 2 else PartialType(*owner.facts(position))
    if owner.node.op != "Scan" or owner.opset < 9:
        return PartialType(*UNKNOWN)
    dtype, shape = owner.facts(position)
    states = _states(owner)
    if position < states or shape is None:
        return PartialType(dtype, shape)
    axis = normalize_axis(_axis_at(owner, "scan_input_axes", position - states), len(shape))
    return PartialType(dtype, (*shape[:axis], *shape[axis + 1 :]))


def types_after_iteration(
    body: Scope, types: Mapping[str, PartialType], facts: Callable[[Scope, str], TensorType]
) -> dict[str, PartialType]:
    """The remaining types of a Loop's inputs after an iteration: dims that it changes are unknown."""
    kept = dict(types)
    for given, end in zip(body.input_names[2:], body.output_names[1:], strict=False):
        dtype, before = types[given]
        after = facts(body, end).shape
        if before is None or after is None:  # an iteration hardly ever changes the rank
            kept[given] = PartialType(dtype, before and [None] * len(before))
        else:
            kept[given] = PartialType(dtype, _common_shape(before, after))
    return kept


def with_open_dims(types: Mapping[str, PartialType]) -> dict[str, PartialType]:
    """Types with only the dtypes and ranks."""
    return {name: PartialType(dtype, shape and [None] * len(shape)) for name, (dtype, shape) in types.items()}


def output_drafts(
    site: NodeView, evaluator: InferenceContext, bodies: Mapping[str, Scope]
) -> Sequence[PartialType | TensorType]:
    """The types of a node's outputs by its bodies."""
    found = {name: _facts_of(evaluator, body, body.proto.output) for name, body in bodies.items()}
    if site.node.op == "If":
        chosen = taken_branch(site)
        if chosen:
            return found.get(chosen, ())
        pairs = zip(found.get("then_branch", ()), found.get("else_branch", ()), strict=False)
        return [_common_type(one, other) for one, other in pairs]
    require("body" in bodies)
    body, results = bodies["body"], found["body"]
    if site.node.op == "Scan":
        return _scan(site, results)
    first = [site.facts(2 + place) for place in range(len(site.inputs) - 2)]
    trip_count = _trip_count(site, evaluator, body)
    ends = [_common_type(one, facts) for one, facts in zip(first, results[1:], strict=False)]
    return [*ends, *[_stacked(facts, 0, trip_count) for facts in results[1 + len(first) :]]]


def taken_branch(site: NodeView) -> str | None:
    """The branch of an If that is always taken, if sizes determine the condition."""
    condition = site.sizes(0)
    return None if not condition else "then_branch" if condition[0] else "else_branch"


def _facts_of(evaluator: InferenceContext, body: Scope, tensors: Any) -> list[TensorType]:
    return [evaluator.need_facts(body, value.name) for value in tensors]


def _common_type(one: TensorType, other: TensorType) -> PartialType:
    """The dtype and dims that two types share."""
    dtype = one.dtype if one.dtype == other.dtype else None
    return PartialType(dtype, _common_shape(one.shape, other.shape))


def _common_shape(one: PartialShape | None, other: PartialShape | None) -> PartialShape | None:
    if one is None or other is None or len(one) != len(other):
        return None
    return [a if a == b else None for a, b in zip(one, other, strict=True)]


def _trip_count(site: NodeView, evaluator: InferenceContext, body: Scope) -> Size | None:
    """The trip count of a Loop; None if it is unknown, or if a condition may end the Loop earlier."""
    trip_count = site.sizes(0) if site.has(0) else None
    if trip_count is None or len(trip_count) != 1 or not isinstance(trip_count[0], (int, Expr)) or trip_count[0] == -1:
        return None
    starts = not site.has(1) or site.sizes(1) == [True]
    return trip_count[0] if starts and _condition_stays_true(evaluator, body) else None


def _condition_stays_true(evaluator: InferenceContext, body: Scope) -> bool:
    """Whether the condition of a Loop is passed through, or true."""
    proto: Any = body.proto
    name, given = proto.output[0].name, proto.input[1].name
    while name != given:
        maker = body.producers.get(name)
        if maker is None or traits_of(maker.op).data.identity_when != "always":
            break
        name = maker.inputs[0]
    if name == given:
        return True
    value = evaluator.need_value(body, name)
    return value is not None and value.size == 1 and value.reshape(-1)[0] is True


def _scan(site: NodeView, results: Sequence[TensorType]) -> Sequence[PartialType]:
    if site.opset < 9:
        return []
    states = _states(site)
    first = site.shape(states)
    trip_count = None if first is None else first[normalize_axis(_axis_at(site, "scan_input_axes", 0), len(first))]
    ends = [PartialType(*site.facts(place)) for place in range(states)]
    for place, facts in enumerate(results[states:]):
        ends.append(_stacked(facts, _axis_at(site, "scan_output_axes", place), trip_count))
    return ends


def _states(scan: NodeView) -> int:
    """How many inputs of a Scan are states; the others are scanned."""
    states = len(scan.inputs) - int(scan.attribute("num_scan_inputs", 0))
    require(states >= 0)
    return states


def _stacked(facts: TensorType, axis: int, trip_count: Any) -> PartialType:
    if facts.shape is None:
        return PartialType(facts.dtype, None)
    shape: PartialShape = facts.shape
    axis = normalize_axis(axis, len(shape) + 1)
    return PartialType(facts.dtype, [*shape[:axis], trip_count, *shape[axis:]])


def _axis_at(site: NodeView, name: str, place: int) -> int:
    axes = site.attribute(name)
    return int(axes[place]) if axes else 0


def functions_of(origin: OriginalModel) -> Functions:
    """The local functions by qualified op and overload."""
    found: Functions = {}
    for scope in origin.index.functions:
        proto: Any = scope.proto
        found.setdefault(qualified_name(proto.domain, proto.name), {})[proto.overload] = origin.scope(scope)
    return found


def bodies_of(origin: OriginalModel, node: Node) -> dict[str, Scope]:
    """The bodies of a node, by attribute."""
    attributes: Any = node.proto.attribute if (found := origin.bodies(node)) else ()
    return {attributes[scope.address[-2][1]].name: scope for scope in found}


def _scanned_axes(view: NodeView) -> AxisLabels:
    """A Scan runs along an axis of its last inputs; the nodes of its body have other labels."""
    require(view.opset >= 9)
    count = view.attribute("num_scan_inputs", 1)
    places = range(len(view.inputs) - count, len(view.inputs))
    axes = view.attribute("scan_input_axes") or [0] * count
    labels = {place: [(place, axis) for axis in range(rank(view, place))] for place in places}
    runs = [(place, normalize_axis(axis, rank(view, place))) for place, axis in zip(places, axes, strict=True)]
    return AxisLabels(labels, mixed=runs)


LABELS: dict[str, LabelRule] = {"If": unrelated, "Loop": unrelated, "Scan": _scanned_axes}
