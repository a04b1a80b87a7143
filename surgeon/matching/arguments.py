"""The inputs and attributes of a node to look for, as closures.

A parameter that some opsets keep in an attribute and others in an input is found in either.
"""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np

from surgeon.indexing.scope import Node, qualified
from surgeon.matching.captures import bind_nothing, bind_number
from surgeon.matching.chains import Matcher, Next
from surgeon.matching.pattern import Literal, Operation, Value, Var
from surgeon.matching.state import Several, State, close, plain
from surgeon.ops.schemas import moved, schema

COMMUTATIVE = frozenset(
    {"And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Min", "Sum", "Mean"}
)
BROADCASTING = COMMUTATIVE | {"Pow", "Mod", "PRelu", "Where", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}
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
    literals = [place for place, value in enumerate(operation.inputs) if isinstance(value, Literal)]
    checks_rank = bool(literals) and operation.op in BROADCASTING and not operation.domain
    free = operation.op in COMMUTATIVE and not operation.domain and 1 < len(matchers) <= PERMUTED_INPUTS

    def run(state: State, node: Node, inputs: tuple[str, ...], step: int, then: Next) -> bool:
        if step == len(order):
            return then()
        place = order[step]
        matcher, name = matchers[place], inputs[place] if place < len(inputs) else ""

        def on() -> bool:
            return run(state, node, inputs, step + 1, then)

        if matcher is None:
            return (
                on()
                if not name
                else state.missed(operation.where, f"{label_of(operation)} has an input {place} too many")
            )
        if place in parameters:
            item = node.attribute(parameters[place])
            if item is not None or not name:
                return _match_parameter(state, node, parameters[place], operation.inputs[place], on)
            if parameters[place] in AXES and _same_axes(state, node, name, operation.inputs[place]):
                return on()
        if not name:
            if place in optional:
                return bind_nothing(state, optional[place], on)
            return state.missed(operation.where, f"wanted input {place} of {label_of(operation)}, found none")
        return matcher(state, name, on)

    def match(state: State, node: Node, then: Next) -> bool:
        inputs = node.inputs
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        count = len(matchers)
        if operation.rest is not None:
            if operation.rest.name in state.bound:
                return state.bound[operation.rest.name] == inputs[count:] and run(state, node, inputs, 0, then)
            state.bound[operation.rest.name] = Several(inputs[count:])
            if run(state, node, inputs, 0, then):
                return True
            del state.bound[operation.rest.name]
            return False
        if len(inputs) > count:
            return state.missed(
                operation.where, f"{label_of(operation)} at {node.label!r} has {len(inputs)} inputs, wanted {count}"
            )
        if checks_rank and not _keeps_rank(state, operation, inputs, literals):
            return False
        if free and len(inputs) == count:
            return any(run(state, node, order_, 0, then) for order_ in permutations(inputs))
        return run(state, node, inputs, 0, then)

    return match


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
        return state.missed(node.label, f"attribute {name} is a reference to the function's own")
    if isinstance(value, Literal):
        if _same_value(state, node, name, found, value.value.tolist()):
            return then()
        return state.missed(value.where, f"wanted {name} = {value.value.tolist()}, found {found} at {node.label!r}")
    if isinstance(value, Var) and value.kind in ("scalar", "list"):
        return bind_number(state, value, found, then)
    if isinstance(value, Var) and value.optional and found is None:
        return bind_nothing(state, value, then)
    return state.missed(node.label, f"{name} is an attribute at this opset, wanted a tensor")


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
    return state.missed(
        operation.where, f"a constant of rank {rank} may raise the rank of {label_of(operation)}'s result"
    )


def attributes_matcher(operation: Operation) -> Callable[[State, Node], bool]:
    """Compare attributes; those that the pattern does not name must be at the schema's defaults."""
    wanted, others = operation.attributes, operation.others
    parameters = set(_moved_parameters(operation).values())
    parts = operation.outputs if label_of(operation) == "Split" else 0

    def match(state: State, node: Node) -> bool:
        given = node.proto.attribute
        if parts and len(node.outputs) != parts:
            return state.missed(operation.where, f"wanted {parts} outputs, found {len(node.outputs)} at {node.label!r}")
        if not given and not wanted and others is None:
            return True
        for name, value in wanted.items():
            known, found = state.attribute_value(node, name)
            if not known:
                return state.missed(
                    operation.where, f"attribute {name} of {node.label!r} is a reference to the function's own"
                )
            if isinstance(value, Var):
                if not bind_number(state, value, found, lambda: True):
                    return False
            elif not _same_value(state, node, name, found, value):
                return state.missed(operation.where, f"wanted {name} = {value}, found {found} at {node.label!r}")
            elif value is None and found is not None:
                return False
        extra = {item.name: item for item in given if item.name not in wanted and item.name not in parameters}
        if others is not None:
            if any(item.ref_attr_name for item in extra.values()):
                return state.missed(
                    operation.where, f"an attribute of {node.label!r} is a reference to the function's own"
                )
            state.bound[others.name] = ({name: plain(item) for name, item in extra.items()},)
            return True
        for name, item in extra.items():
            if not _is_default(node, name, state):
                return state.missed(
                    operation.where,
                    f"{label_of(operation)} at {node.label!r} has {name} = {_shown(item)}, which is not the default",
                )
        return True

    # What `match` binds on the way to a miss is undone by the caller, which knows how many names were bound before.
    return match


def _shown(item: Any) -> str:
    return f"reference {item.ref_attr_name}" if item.ref_attr_name else str(plain(item))[:60]


def _is_default(node: Node, name: str, state: State) -> bool:
    if name == "num_outputs" and node.op == "Split":
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
    value = state.index.constants.get(state.scope, name) if isinstance(wanted, Literal) else None
    return (
        isinstance(wanted, Literal)
        and value is not None
        and _same_value(state, node, "axes", value.array.tolist(), wanted.value.tolist())
    )


def _positive(node: Node, axes: Any, rank: int) -> list[int]:
    """Axes counted from the front; their order means something where other inputs run along with them."""
    given = axes if isinstance(axes, list) else [axes]
    if node.op == "Unsqueeze":
        rank += len(given)  # its axes are those of the result (ONNX spec, Unsqueeze-13)
    found = [axis + rank if axis < 0 else axis for axis in given]
    return found if node.op == "Slice" else sorted(found)
