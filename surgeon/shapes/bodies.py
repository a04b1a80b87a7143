"""Bodies of If, Loop and Scan, and of local functions: where they are, what goes into them, and what comes out."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from surgeon.indexing.origin import Origin
from surgeon.indexing.scope import Node, Scope, qualified
from surgeon.shapes.facts import BOOL, INT64, UNKNOWN, Draft, Facts, Inference, NodeView, Open, axis_of, require

Functions: TypeAlias = dict[str, dict[str, Scope]]
OWNERS = frozenset(("If", "Loop", "Scan"))


def input_draft(owner: NodeView, body: Scope, name: str) -> Draft:
    """What the node that holds a body says of one of the body's inputs."""
    proto: Any = body.proto
    position = [value.name for value in proto.input].index(name)
    if owner.node.op == "Loop":
        if position < 2:
            return Draft((INT64, BOOL)[position], ())
        dtype, shape = owner.facts(position)
        # The number of elements may change from turn to turn; the number of axes hardly ever does.
        return Draft(dtype, None if shape is None else [None] * len(shape))
    if owner.node.op != "Scan" or owner.opset < 9:
        return Draft(*UNKNOWN)
    dtype, shape = owner.facts(position)
    states = _states(owner)
    if position < states or shape is None:
        return Draft(dtype, shape)
    axis = axis_of(_listed(owner, "scan_input_axes", position - states), len(shape))
    return Draft(dtype, (*shape[:axis], *shape[axis + 1 :]))


def output_drafts(site: NodeView, evaluator: Inference, bodies: Mapping[str, Scope]) -> Sequence[Draft | Facts]:
    """What the bodies of a node say of its outputs."""
    found = {name: _results(evaluator, body) for name, body in bodies.items()}
    if site.node.op == "If":
        chosen = taken(site)
        if chosen:
            return found.get(chosen, ())
        pairs = zip(found.get("then_branch", ()), found.get("else_branch", ()), strict=False)
        return [_either(one, other) for one, other in pairs]
    results = found.get("body", [])
    return _loop(site, results) if site.node.op == "Loop" else _scan(site, results)


def taken(site: NodeView) -> str | None:
    """The branch of an If that is always taken, where the condition follows from the sizes."""
    condition = site.sizes(0)
    return None if not condition else "then_branch" if condition[0] else "else_branch"


def _results(evaluator: Inference, body: Scope) -> list[Facts]:
    proto: Any = body.proto
    return [evaluator.need_facts(body, value.name) for value in proto.output]


def _either(one: Facts, other: Facts) -> Draft:
    """What holds for both."""
    dtype = one.dtype if one.dtype == other.dtype else None
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return Draft(dtype, None)
    return Draft(dtype, [a if a == b else None for a, b in zip(one.shape, other.shape, strict=True)])


def _loop(site: NodeView, results: Sequence[Facts]) -> Sequence[Draft]:
    carried = len(site.inputs) - 2
    ends = [_either(site.facts(2 + place), facts) for place, facts in enumerate(results[1 : 1 + carried])]
    return [*ends, *[_stacked(facts, 0, None) for facts in results[1 + carried :]]]


def _scan(site: NodeView, results: Sequence[Facts]) -> Sequence[Draft]:
    if site.opset < 9:
        return []
    states = _states(site)
    first = site.shape(states)
    turns = None if first is None else first[axis_of(_listed(site, "scan_input_axes", 0), len(first))]
    ends = [Draft(*site.facts(place)) for place in range(states)]
    for place, facts in enumerate(results[states:]):
        ends.append(_stacked(facts, _listed(site, "scan_output_axes", place), turns))
    return ends


def _states(scan: NodeView) -> int:
    """How many of the inputs of a Scan are states; the others are scanned."""
    states = len(scan.inputs) - int(scan.attribute("num_scan_inputs", 0))
    require(states >= 0)
    return states


def _stacked(facts: Facts, axis: int, turns: Any) -> Draft:
    if facts.shape is None:
        return Draft(facts.dtype, None)
    shape: Open = facts.shape
    axis = axis_of(axis, len(shape) + 1)
    return Draft(facts.dtype, [*shape[:axis], turns, *shape[axis:]])


def _listed(site: NodeView, name: str, place: int) -> int:
    axes = site.attribute(name)
    return int(axes[place]) if axes else 0


def functions_of(origin: Origin) -> Functions:
    """The local functions by qualified op and overload."""
    found: Functions = {}
    for scope in origin.index.functions:
        proto: Any = scope.proto
        found.setdefault(qualified(proto.domain, proto.name), {})[proto.overload] = origin.scope(scope)
    return found


def bodies_of(origin: Origin, node: Node) -> dict[str, Scope]:
    """The bodies of a node, by the attribute that holds them."""
    attributes: Any = node.proto.attribute if (found := origin.bodies(node)) else ()
    return {attributes[scope.address[-2][1]].name: scope for scope in found}
