"""Bodies of If, Loop and Scan, and of local functions: their inputs and outputs."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, TypeAlias

from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Node, Scope, qualified_name
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Expr, Size, substitute, symbol, symbols
from surgeon.shapes.tensor_types import (
    BOOL,
    INT64,
    UNKNOWN,
    InferenceContext,
    NodeView,
    PartialShape,
    PartialType,
    TensorType,
    is_unknown,
    normalize_axis,
    require,
)

Functions: TypeAlias = dict[str, dict[str, Scope]]
BODY_OPS = frozenset(("If", "Loop", "Scan"))


def input_draft(owner: NodeView, body: Scope, name: str) -> PartialType:
    """What the owner of a body determines about one of its inputs."""
    proto: Any = body.proto
    position = [value.name for value in proto.input].index(name)
    if owner.node.op == "Loop":
        if position < 2:
            return PartialType((INT64, BOOL)[position], ())
        dtype, shape = owner.facts(position)
        # Dims may change between iterations; the rank hardly ever does.
        return PartialType(dtype, None if shape is None else [None] * len(shape))
    if owner.node.op != "Scan" or owner.opset < 9:
        return PartialType(*UNKNOWN)
    dtype, shape = owner.facts(position)
    states = _states(owner)
    if position < states or shape is None:
        return PartialType(dtype, shape)
    axis = normalize_axis(_axis_at(owner, "scan_input_axes", position - states), len(shape))
    return PartialType(dtype, (*shape[:axis], *shape[axis + 1 :]))


def loop_carried(owner: Node, body: Scope) -> Iterator[tuple[Any, str, str]]:
    """Loop-carried tensors: the body's input, the initial tensor, and the tensor after an iteration."""
    proto: Any = body.proto
    if owner.op == "Loop":
        yield from zip(proto.input[2:], owner.proto.input[2:], (out.name for out in proto.output[1:]), strict=False)


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
    proto: Any = body.proto
    carried = _facts_of(evaluator, body, proto.input[2:])
    return _loop(site, results, carried, free=evaluator.free, trip_count=_trip_count(site, evaluator, body))


def taken_branch(site: NodeView) -> str | None:
    """The branch of an If that is always taken, if sizes determine the condition."""
    condition = site.sizes(0)
    return None if not condition else "then_branch" if condition[0] else "else_branch"


def _facts_of(evaluator: InferenceContext, body: Scope, tensors: Any) -> list[TensorType]:
    return [evaluator.need_facts(body, value.name) for value in tensors]


def _common_type(one: TensorType, other: TensorType) -> PartialType:
    """The dtype and dims that two types share."""
    dtype = one.dtype if one.dtype == other.dtype else None
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return PartialType(dtype, None)
    return PartialType(dtype, [a if a == b else None for a, b in zip(one.shape, other.shape, strict=True)])


def _trip_count(site: NodeView, evaluator: InferenceContext, body: Scope) -> Size | None:
    """The trip count of a Loop; None if it is unknown, or a condition may end the Loop before."""
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


def _loop(
    site: NodeView,
    results: Sequence[TensorType],
    carried: Sequence[TensorType],
    free: Set[str],
    trip_count: Size | None,
) -> Sequence[PartialType]:
    """carried: the body's types of loop-carried inputs.  free: as in `_invariant`."""
    first = [site.facts(2 + place) for place in range(len(site.inputs) - 2)]
    same = _invariant(first, carried, results[1:], free)
    results = [_with(facts, same) for facts in results]
    ends = [_common_type(one, facts) for one, facts in zip(first, results[1:], strict=False)]
    return [*ends, *[_stacked(facts, 0, trip_count) for facts in results[1 + len(first) :]]]


def _invariant(
    first: Sequence[TensorType], carried: Sequence[TensorType], ends: Sequence[TensorType], free: Set[str]
) -> dict[str, Size]:
    """Dims of loop-carried tensors that stay as in the first iteration, by their names in the body.

    By induction: if all of them are equal at the start of an iteration, they are at its end.  free: the dynamic dims of
    the model's inputs; other declared names carry no information (tf2onnx writes a new one for each dim).
    """
    dims: dict[str, tuple[Size, Size]] = {}  # initially, and after an iteration
    for one, inside, end in zip(first, carried, ends, strict=False):
        if one.shape is not None and inside.shape is not None and end.shape is not None:
            sizes = zip(one.shape, inside.shape, end.shape, strict=False)
            dims.update((str(size), (start, last)) for start, size, last in sizes if _is_name(size, free))
    while True:
        known = {name: start for name, (start, _) in dims.items()}
        kept = {name: (start, last) for name, (start, last) in dims.items() if substitute(last, known) == start}
        if len(kept) == len(dims):
            return known
        dims = kept


def _is_name(size: Size, free: Set[str]) -> bool:
    """Whether a dim is one name, and not that of a dynamic dim of the model's inputs."""
    return is_unknown(size) or any(symbol(name) == size for name in symbols(size) - free)


def _with(facts: TensorType, known: Mapping[str, Size]) -> TensorType:
    return facts._replace(shape=None if facts.shape is None else tuple(substitute(size, known) for size in facts.shape))


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
    """The bodies of a node, by the attribute that holds them."""
    attributes: Any = node.proto.attribute if (found := origin.bodies(node)) else ()
    return {attributes[scope.address[-2][1]].name: scope for scope in found}
