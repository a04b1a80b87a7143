"""The inputs and attributes of a node to look for, as closures.

A parameter that some opsets keep in an attribute and others in an input is found in either.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from onnx import AttributeProto

from surgeon.indexing.scope import Node, qualified
from surgeon.matching.advice import other_attribute
from surgeon.matching.captures import another_number, bind_nothing, bind_number, is_held
from surgeon.matching.chain import Matcher, Next
from surgeon.matching.pattern import Literal, Operation, Value, Var
from surgeon.matching.state import Several, State, close, plain
from surgeon.matching.trace import Finding, Kind
from surgeon.ops.records import BROADCASTING, COMMUTATIVE, record
from surgeon.ops.schemas import moved, schema

PERMUTED_INPUTS = 5
AXES = frozenset({"axis", "axes"})


def is_wildcard(operation: Operation) -> bool:
    return any(sign in operation.domain + operation.op for sign in "*?[")


def label_of(operation: Operation) -> str:
    return qualified(operation.domain, operation.op)


def inputs_matcher(operation: Operation, matchers: list[Matcher | None]) -> Callable[[State, Node, Next], bool]:
    """Match the inputs of a node: constants first, then nodes, then variables; order-free where the op is."""
    order = sorted(range(len(matchers)), key=lambda place: _weight(operation.inputs[place]))
    parameters = _moved_parameters(operation)
    optional = {
        place: value for place, value in enumerate(operation.inputs) if isinstance(value, Var) and value.optional
    }
    literals = [place for place, value in enumerate(operation.inputs) if _is_number(value)]
    checks_rank = bool(literals) and operation.op in BROADCASTING and not operation.domain
    free = operation.op in COMMUTATIVE and not operation.domain and 1 < len(matchers) <= PERMUTED_INPUTS
    line = (operation.where, label_of(operation), id(operation))

    def run(state: State, node: Node, inputs: tuple[str, ...], step: int, then: Next) -> bool:
        if step == len(order):
            return then()
        place = order[step]
        matcher, name = matchers[place], inputs[place] if place < len(inputs) else ""

        def on() -> bool:
            return run(state, node, inputs, step + 1, then)

        if state.trace is not None:
            state.trace.line = line
        if matcher is None:
            return on() if not name else _one_too_many(state, operation, node, place, on)
        if place in parameters:
            item = node.attribute(parameters[place])
            if item is not None or not name:
                return _match_parameter(state, node, parameters[place], operation.inputs[place], on)
            if parameters[place] in AXES and _same_axes(state, node, name, operation.inputs[place]):
                return on()
        if not name:
            if place in optional:
                return bind_nothing(state, optional[place], on)
            return state.trace is not None and state.missed(_left_out(operation, node, place))
        return matcher(state, name, on)

    def match(state: State, node: Node, then: Next) -> bool:
        inputs = node.inputs
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        count = len(matchers)
        if operation.rest is not None:
            if operation.rest.name in state.bound:
                if state.bound[operation.rest.name] != inputs[count:]:
                    return state.trace is not None and state.missed(_other_rest(operation, operation.rest, node))
                return run(state, node, inputs, 0, then)
            state.bound[operation.rest.name] = Several(inputs[count:])
            if run(state, node, inputs, 0, then):
                return True
            del state.bound[operation.rest.name]
            return False
        if len(inputs) > count:
            return state.trace is not None and state.missed(_too_many(operation, node, inputs, count))
        if checks_rank and not _keeps_rank(state, operation, inputs, literals):
            return False
        if free and len(inputs) == count:
            return any(run(state, node, order_, 0, then) for order_ in permutations(inputs))
        return run(state, node, inputs, 0, then)

    return match


def _is_number(value: Value | None) -> bool:
    """Whether a value is a constant that stands in the pattern, or a number that it captures."""
    return isinstance(value, Literal) or (isinstance(value, Var) and value.kind == "scalar")


def _input_name(operation: Operation, node: Node, place: int) -> str:
    """An input as its schema calls it, with its position: 2 ('B')."""
    entry = (
        None
        if is_wildcard(operation)
        else schema(operation.domain, operation.op, node.scope.versions.get(operation.domain))
    )
    formal = entry.input_at(place) if entry is not None else None
    return f"{place} ({formal.name!r})" if formal is not None else str(place)


def _finding(
    kind: Kind, operation: Operation, node: Node, wanted: str, found: str, told: str = "", change: str = ""
) -> Finding:
    spot = f"at {node.label!r}"
    return Finding(kind, operation.where, wanted, found, spot, told, change, label_of(operation), node.label)


def _left_out(operation: Operation, node: Node, place: int) -> Finding:
    wanted = f"input {_input_name(operation, node, place)} of {label_of(operation)}"
    return _finding("missing optional", operation, node, wanted, "none")


def _one_too_many(state: State, operation: Operation, node: Node, place: int, then: Next) -> bool:
    if state.trace is None:
        return False
    which = _input_name(operation, node, place)
    wanted, found = f"no input {which} of {label_of(operation)}", state.found(node.inputs[place])
    change = f"leave out input {which} of {node.label}"
    return state.excused(_finding("missing optional", operation, node, wanted, found, change=change), then)


def _too_many(operation: Operation, node: Node, inputs: tuple[str, ...], count: int) -> Finding:
    which = " and ".join(_input_name(operation, node, place) for place in range(count, len(inputs)))
    told = (
        f"{label_of(operation)} at {node.label!r} has {len(inputs)} inputs, wanted {count}: "
        f"the pattern leaves out input {which}"
    )
    wanted, found = f"{count} inputs of {label_of(operation)}", f"{len(inputs)} inputs"
    return _finding("missing optional", operation, node, wanted, found, told)


def _other_rest(operation: Operation, rest: Var, node: Node) -> Finding:
    return _finding("operand", operation, node, f"the inputs that *{rest.name} stands for again", "others")


def _weight(value: Value | None) -> int:
    if isinstance(value, (Literal, type(None))):
        return 0
    return 2 if isinstance(value, Var) else 1


def _moved_parameters(operation: Operation) -> dict[int, str]:
    if is_wildcard(operation):
        return {}
    return {place: name for name, place in moved(operation.domain, operation.op).items()}


def _match_parameter(state: State, node: Node, name: str, value: Value | None, then: Next) -> bool:
    """A parameter that this opset keeps in an attribute."""
    known, found = state.attribute_value(node, name)
    if not known:
        return state.trace is not None and state.missed(_referred("", "", node, name))
    if isinstance(value, Literal):
        wanted = value.value.tolist()
        if _same_value(state, node, name, found, wanted):
            return then()
        return state.trace is not None and state.excused(_attribute(value.where, "", node, name, wanted, found), then)
    if isinstance(value, Var) and value.kind in ("scalar", "list"):
        return then() if _held_axes(state, node, name, value, found) else bind_number(state, value, found, then)
    if isinstance(value, Var) and value.optional and found is None:
        return bind_nothing(state, value, then)
    if state.trace is None:
        return False
    told = f"{name} is an attribute at this opset, wanted a tensor"
    return state.missed(Finding("operand", "", f"{name} as a tensor", "an attribute", f"at {node.label!r}", told))


def _attribute(where: str, op: str, node: Node, name: str, wanted: Any, found: Any) -> Finding:
    change, spot = other_attribute(node, name, wanted), f"at {node.label!r}"
    return Finding("attribute", where, f"{name} = {wanted}", str(found), spot, "", change, op, node.label)


def _referred(where: str, op: str, node: Node, name: str) -> Finding:
    told = f"attribute {name} of {node.label!r} is a reference to the function's own"
    spot = f"at {node.label!r}"
    return Finding("attribute", where, f"a value of {name}", "a reference", spot, told, "", op, node.label)


def _keeps_rank(state: State, operation: Operation, inputs: tuple[str, ...], literals: list[int]) -> bool:
    """A constant of shape [1] must not raise the rank of the result."""
    constants = [state.index.constants.get(state.scope, inputs[place]) for place in literals if place < len(inputs)]
    rank = max((value.array.ndim for value in constants if value is not None), default=0)
    if not rank:
        return True
    ranks = [state.rank(name) for place, name in enumerate(inputs) if place not in literals]
    known = [found for found in ranks if found is not None]
    if known and max(known) >= rank:
        return True
    told = f"a constant of rank {rank} may raise the rank of {label_of(operation)}'s result"
    wanted = "a constant that does not raise the rank"
    return state.missed(Finding("rank", operation.where, wanted, f"one of rank {rank}", told=told))


def attributes_matcher(operation: Operation) -> Callable[[State, Node], Finding | None]:
    """Compare attributes; those that the pattern does not name must be at the schema's defaults.

    The matcher returns what is wrong, or None.  What it binds on the way to a miss is undone by the caller, which knows
    how many names were bound before.
    """
    wanted, others = operation.attributes, operation.others
    given_in = operation.inputs
    parameters = {
        name
        for place, name in _moved_parameters(operation).items()
        if place < len(given_in) and given_in[place] is not None
    }
    parts = operation.outputs if record(label_of(operation)).outputs_in else 0

    def wrong(state: State, node: Node) -> Iterator[Finding]:
        given = node.proto.attribute
        for name, value in wanted.items():
            known, found = state.attribute_value(node, name)
            if not known:
                yield _referred(operation.where, label_of(operation), node, name)
            elif isinstance(value, Var):
                if value.name not in state.bound:
                    state.bound[value.name] = (found,)
                elif not is_held(state, value, found) and not _held_axes(state, node, name, value, found):
                    yield another_number(state, value.name, state.bound[value.name], found)
            elif not _same_value(state, node, name, found, value):
                yield _attribute(operation.where, label_of(operation), node, name, value, found)
        extra = {item.name: item for item in given if item.name not in wanted and item.name not in parameters}
        if others is not None:
            yield from (
                _referred(operation.where, label_of(operation), node, name)
                for name, item in extra.items()
                if item.ref_attr_name
            )
            state.bound[others.name] = ({name: plain(item) for name, item in extra.items()},)
            return
        for name, item in extra.items():
            if not _is_default(node, name, state):
                yield _not_default(operation, node, name, item)

    def match(state: State, node: Node) -> Finding | None:
        if parts and len(node.outputs) != parts:
            return _finding("operand", operation, node, f"{parts} outputs", str(len(node.outputs)))
        if not node.proto.attribute and not wanted and others is None:
            return None
        first, *more = (list if state.trace is not None else _first)(wrong(state, node)) or (None,)
        if first is None or not more:
            return first
        told = "; ".join(item.sentence for item in (first, *more) if item is not None)
        return replace(first, told=told, change="")

    return match


def _first(findings: Iterator[Finding]) -> list[Finding]:
    found = next(findings, None)
    return [] if found is None else [found]


def _not_default(operation: Operation, node: Node, name: str, item: AttributeProto) -> Finding:
    shown = _shown(item)
    told = f"{label_of(operation)} at {node.label!r} has {name} = {shown}, which is not the default"
    change = "" if item.ref_attr_name else other_attribute(node, name, None)
    return _finding("attribute", operation, node, f"{name} at its default", shown, told, change)


def _shown(item: AttributeProto) -> str:
    return f"reference {item.ref_attr_name}" if item.ref_attr_name else str(plain(item))[:60]


def _is_default(node: Node, name: str, state: State) -> bool:
    if name == record(node.op).outputs_in:
        return True  # from opset 18 it says what the number of outputs says before
    known, found = state.attribute_value(node, name)
    domain, _, op = node.op.rpartition("::")
    entry = schema(domain, op, node.scope.versions.get(domain))
    spec = entry.attributes.get(name) if entry is not None else None
    if not known or spec is None or spec.default is None:
        return False
    return _same_value(state, node, name, found, plain(spec.default))


def _same_value(state: State, node: Node, name: str, found: Any, wanted: Any) -> bool:
    """Whether two attribute values say the same; axes are compared modulo the rank."""
    if found is None or wanted is None:
        return found is wanted
    if isinstance(wanted, (bool, int, float)) and isinstance(found, list) and len(found) == 1:
        found = found[0]
    if isinstance(found, (int, float)) and isinstance(wanted, list) and len(wanted) == 1:
        wanted = wanted[0]
    if name in AXES and found != wanted:
        rank = state.rank(node.inputs[0])
        return rank is not None and _positive(node, found, rank) == _positive(node, wanted, rank)
    if isinstance(found, (list, float)) and not isinstance(wanted, str):
        found, wanted = np.asarray(found), np.asarray(wanted)
        if found.dtype.kind in "biuf" and wanted.dtype.kind in "biuf":
            return found.shape == wanted.shape and close(found, wanted, None, 0.0)
        return found.shape == wanted.shape and bool(np.all(found == wanted))
    return bool(found == wanted)


def _same_axes(state: State, node: Node, name: str, wanted: Value | None) -> bool:
    """Whether a constant input names the wanted axes."""
    value = state.index.constants.get(state.scope, name) if isinstance(wanted, (Literal, Var)) else None
    if value is None or value.array.ndim > 1:  # no axes: another op may stand in for the wanted one
        return False
    if isinstance(wanted, Var):
        return _held_axes(state, node, "axes", wanted, value.array.tolist())
    return isinstance(wanted, Literal) and _same_value(state, node, "axes", value.array.tolist(), wanted.value.tolist())


def _held_axes(state: State, node: Node, name: str, var: Var, found: Any) -> bool:
    """Whether a variable stands for these axes already, counted from the other end perhaps."""
    held = state.bound.get(var.name)
    return name in AXES and type(held) is tuple and _same_value(state, node, name, found, held[0])


def _positive(node: Node, axes: Any, rank: int) -> list[int]:
    """Axes counted from the front; their order means something where other inputs run along with them."""
    given = axes if isinstance(axes, list) else [axes]
    known = record(node.op).axes
    if known is not None and known.of_result:
        rank += len(given)
    found = [axis + rank if axis < 0 else axis for axis in given]
    return found if known is not None and known.in_order else sorted(found)
