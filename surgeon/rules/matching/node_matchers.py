"""Matchers of the inputs and attributes of a node, as closures.

A parameter that is an attribute in some opsets and an input in others is found in either.
"""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt

from surgeon.ir.scope import Node, qualified_name, split_op
from surgeon.ops.schemas import attributes_become_inputs, is_meaningless, schema
from surgeon.ops.schemas.attribute_values import AT_REST, array_of
from surgeon.ops.traits.trait_lookup import BROADCASTING, COMMUTATIVE, traits_of
from surgeon.ops.traversal import without_absent_end
from surgeon.rules.matching.associative.chain import Matcher
from surgeon.rules.matching.listener import Continuation
from surgeon.rules.matching.match_state import MatchState, VariadicBinding, constants_close, plain
from surgeon.rules.matching.pattern import LiteralValue, NodePattern, Value, Var
from surgeon.rules.matching.value_matchers import bind_absent, bind_number, is_bound_to

PERMUTED_INPUTS = 5
AXES, _WILDCARDS = frozenset({"axis", "axes"}), frozenset("*?[")

AtPlace = Callable[[MatchState, Node, str, Continuation], bool]


def is_wildcard(operation: NodePattern) -> bool:
    return not _WILDCARDS.isdisjoint(operation.domain + operation.op)


def qualified_op(operation: NodePattern) -> str:
    return qualified_name(operation.domain, operation.op)


def op_predicate(operation: NodePattern) -> Callable[[str], bool]:
    """A predicate on ops: whether one is the op of the pattern."""
    domain, op = operation.domain or "", operation.op
    if not is_wildcard(operation):
        return qualified_name(operation.domain, op).__eq__

    def accepts(found: str) -> bool:
        its_domain, its_op = split_op(found)
        return fnmatchcase(its_domain, domain) and fnmatchcase(its_op, op)

    return accepts


class InputOrder(NamedTuple):
    """The order in which the inputs of a node are matched."""

    order: tuple[int, ...]
    """Input positions: constants first, then nodes, then variables."""
    parameters: dict[int, str]
    """Input position -> the attribute that some opsets have instead."""
    literals: tuple[int, ...]
    """Input positions of constants."""
    checks_rank: bool
    """Whether a constant may raise the rank of the result."""
    is_free: bool
    """Whether the op is commutative."""

    @classmethod
    def of(cls, operation: NodePattern) -> "InputOrder":
        """The order for one node."""
        inputs, is_known = operation.inputs, not operation.domain
        literals = tuple(place for place, value in enumerate(inputs) if _is_number(value))
        return cls(
            tuple(sorted(range(len(inputs)), key=lambda place: _weight(inputs[place]))),
            _moved_parameters(operation),
            literals,
            checks_rank=bool(literals) and is_known and operation.op in BROADCASTING,
            is_free=is_known and operation.op in COMMUTATIVE and 1 < len(inputs) <= PERMUTED_INPUTS,
        )


def inputs_matcher(
    operation: NodePattern, matchers: list[Matcher | None], accepts: Callable[[str], bool]
) -> Callable[[MatchState, Node, Continuation], bool]:
    """Match the inputs of a node: constants, then nodes, then variables; in any order if the op is commutative.

    accepts: whether an op is that of the pattern.
    """
    plan = InputOrder.of(operation)
    places = [(at, _input_matcher(operation, plan, at, matcher=matchers[at])) for at in plan.order]
    rest, count, last = operation.rest, len(matchers), len(places)

    def run(state: MatchState, node: Node, inputs: tuple[str, ...], step: int, then: Continuation) -> bool:
        if step == last:
            return then()
        place, matcher = places[step]
        name = inputs[place] if place < len(inputs) else ""
        return matcher(state, node, name, lambda: run(state, node, inputs, step=step + 1, then=then))

    def match(state: MatchState, node: Node, then: Continuation, is_near: bool = False) -> bool:
        inputs, listener = without_absent_end(node.inputs), state.listener
        if listener is not None and not accepts(node.op) and len(inputs) > len(set(inputs)) == 1:
            constants = sum(_weight(value) == 0 for value in operation.inputs)
            if constants:  # the operands of another op are one tensor, as in r · r for r²: match it with all others
                return run(state, node, inputs[:1] * count, step=constants, then=then)
        if rest is not None:
            if rest.name in state.bindings:
                if state.bindings[rest.name] == inputs[count:]:
                    return run(state, node, inputs, step=0, then=then)
                return listener is not None and listener.fails(None, operation, ("other_rest", node, rest.name))
            state.bindings[rest.name] = VariadicBinding(inputs[count:])
            if run(state, node, inputs, step=0, then=then):
                return True
            del state.bindings[rest.name]
            return False
        if len(inputs) > count:
            return listener is not None and listener.fails(None, operation, ("too_many", operation, node, inputs))
        if plan.checks_rank and (rank := _raised_rank(state, inputs, plan.literals)):
            return listener is not None and listener.fails(None, operation, ("raises", operation, rank))
        if plan.is_free and len(inputs) == count:
            if listener is not None and not is_near:
                return listener.exact_first(partial(match, state, node), then)
            return any(run(state, node, order, step=0, then=then) for order in permutations(inputs))
        return run(state, node, inputs, step=0, then=then)

    return match


def _input_matcher(operation: NodePattern, plan: InputOrder, place: int, matcher: Matcher | None) -> AtPlace:
    """Match one input of a node, which may be absent or stored in an attribute."""
    value, parameter = operation.inputs[place], plan.parameters.get(place, "")
    optional = value if isinstance(value, Var) and value.optional else None

    def match(state: MatchState, node: Node, name: str, then: Continuation) -> bool:
        state.reader = operation
        if matcher is None:
            if not name:
                return then()
            reason = "one_too_many", operation, node, place
            return state.listener is not None and state.listener.fails(then, operation, reason)
        if parameter:
            if not name or node.attribute(parameter) is not None:
                return _match_parameter(state, node, parameter, value=value, then=then)
            if parameter in AXES and _same_axes(state, node, name, value):
                return then()
        if name:
            return matcher(state, name, then)
        if optional is not None:
            return bind_absent(state, optional, then)
        reason = "left_out", operation, node, place
        return state.listener is not None and state.listener.fails(None, operation, reason)

    def match_plain(state: MatchState, node: Node, name: str, then: Continuation) -> bool:
        state.reader = operation
        if name:
            return inner(state, name, then)
        reason = "left_out", operation, node, place
        return state.listener is not None and state.listener.fails(None, operation, reason)

    if matcher is None or parameter or optional is not None:
        return match
    inner = matcher
    return match_plain


def _is_number(value: Value | None) -> bool:
    """Whether a value is a literal of the pattern or a captured number."""
    return isinstance(value, LiteralValue) or (isinstance(value, Var) and value.kind == "scalar")


def _weight(value: Value | None) -> int:
    if isinstance(value, (LiteralValue, type(None))):
        return 0
    return 2 if isinstance(value, Var) else 1


def _moved_parameters(operation: NodePattern) -> dict[int, str]:
    if is_wildcard(operation):
        return {}
    return {place: name for name, place in attributes_become_inputs(operation.domain, operation.op).items()}


def _match_parameter(state: MatchState, node: Node, name: str, value: Value | None, then: Continuation) -> bool:
    """Match a parameter that this opset stores in an attribute."""
    listener, reader = state.listener, state.reader
    known, found = state.attribute_value(node, name)
    if not known:
        return listener is not None and listener.fails(None, reader, ("referred", node, name))
    if isinstance(value, LiteralValue):
        wanted = value.value.tolist()
        if _same_value(state, node, name, found=found, wanted=wanted):
            return then()
        reason = "other_parameter", node, name, wanted, found, value.where
        return listener is not None and listener.fails(then, reader, reason)
    if isinstance(value, Var) and value.kind in ("scalar", "list"):
        if _held_axes(state, node, name, var=value, found=found):
            return then()
        return bind_number(state, value, found, then)
    if isinstance(value, Var) and value.optional and found is None:
        return bind_absent(state, value, then)
    return listener is not None and listener.fails(None, reader, ("not_a_tensor", node, name))


def _raised_rank(state: MatchState, inputs: tuple[str, ...], literals: tuple[int, ...]) -> int:
    """The rank of a constant of shape [1] that may raise the rank of the result; 0 if none does."""
    constants = [state.constant(inputs[place]) for place in literals if place < len(inputs)]
    rank = max((value.array.ndim for value in constants if value is not None), default=0)
    if not rank:
        return 0
    ranks = [state.rank(name) for place, name in enumerate(inputs) if place not in literals]
    return 0 if max((found for found in ranks if found is not None), default=-1) >= rank else rank


class NodeDifference(NamedTuple):
    """A difference between a node and a pattern: in the number of outputs, or in an attribute."""

    how: OneOf["outputs", "reference", "again", "value", "default"]
    """Difference; "reference": it refers to an attribute of a function; "again": the name is bound to another value;
    "default": it is not at its default."""
    name: str
    """Attribute, or the capture for "again"; "" for "outputs"."""
    wanted: Any
    """The requirement of the pattern."""
    found: Any
    """The value of the node."""


def node_differences(operation: NodePattern) -> Callable[[MatchState, Node], Iterator[NodeDifference]]:
    """A function that yields the differences of a node; attributes that are not named must be at their defaults.

    The caller undoes the bindings that it makes.
    """
    wanted, others = operation.attributes, operation.others
    inputs = operation.inputs
    parameters = {
        name
        for place, name in _moved_parameters(operation).items()
        if place < len(inputs) and inputs[place] is not None
    }
    parts = operation.outputs if traits_of(qualified_op(operation)).shape.output_count_attribute else 0

    def differ(state: MatchState, node: Node) -> Iterator[NodeDifference]:
        if parts and len(node.outputs) != parts:
            yield NodeDifference("outputs", "", parts, len(node.outputs))
            return
        items = node.proto.attribute
        if not items and not wanted and others is None:
            return
        for name, value in wanted.items():
            known, found = state.attribute_value(node, name)
            if not known:
                yield NodeDifference("reference", name, None, None)
            elif isinstance(value, Var):
                if value.name not in state.bindings:
                    state.bindings[value.name] = (found,)
                elif not is_bound_to(state, value, found) and not _held_axes(state, node, name, var=value, found=found):
                    yield NodeDifference("again", value.name, state.bindings[value.name], found)
            elif not _same_value(state, node, name, found=found, wanted=value):
                yield NodeDifference("value", name, value, found)
        extra = {item.name: item for item in items if item.name not in wanted and item.name not in parameters}
        extra = {name: item for name, item in extra.items() if not is_meaningless(*split_op(node.op), name)}
        if others is not None:
            for name, item in extra.items():
                if item.ref_attr_name:
                    yield NodeDifference("reference", name, None, None)
            values = {name: plain(item) for name, item in extra.items() if not item.ref_attr_name}
            state.bindings[others.name] = (values,)
            return
        for name, item in extra.items():
            if not _is_default(node, name, state):
                yield NodeDifference("default", name, None, item)

    return differ


def _is_default(node: Node, name: str, state: MatchState) -> bool:
    if name == traits_of(node.op).shape.output_count_attribute:
        return True  # from opset 18 on it repeats the number of outputs
    known, found = state.attribute_value(node, name)
    domain, _, op = node.op.rpartition("::")
    entry = schema(domain, op, node.scope.versions.get(domain))
    spec = entry.attributes.get(name) if entry is not None else None
    if not known or spec is None:
        return False
    if spec.default is None:
        at_rest = AT_REST.get(name)
        return not spec.required and at_rest is not None and all(item == at_rest for item in found)
    return _same_value(state, node, name, found=found, wanted=plain(spec.default))


def _same_value(state: MatchState, node: Node, name: str, found: Any, wanted: Any) -> bool:
    """Whether two attribute values are equal; axes are compared modulo the rank."""
    if found is None or wanted is None:
        return found is wanted
    array, other = array_of(found), array_of(wanted)
    if array is not None or other is not None:
        return array is not None and other is not None and _same_tensor(array, other)
    if type(found) is type(wanted) and found == wanted:
        return True
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
            return found.shape == wanted.shape and constants_close(found, wanted, None, 0.0)
        return found.shape == wanted.shape and bool(np.all(found == wanted))
    return bool(found == wanted)


def _same_tensor(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Whether two tensor attributes are equal, dtypes included, since the result's dtype may depend on them."""
    is_alike = one.dtype == other.dtype and one.shape == other.shape
    return is_alike and bool(np.all((one == other) | ((one != one) & (other != other))))


def _same_axes(state: MatchState, node: Node, name: str, wanted: Value | None) -> bool:
    """Whether a constant input lists the wanted axes."""
    value = state.constant(name) if isinstance(wanted, (LiteralValue, Var)) else None
    if value is None or value.array.ndim > 1:  # not axes: the node may have another op
        return False
    if isinstance(wanted, Var):
        return _held_axes(state, node, "axes", var=wanted, found=value.array.tolist())
    return isinstance(wanted, LiteralValue) and _same_value(
        state, node, "axes", found=value.array.tolist(), wanted=wanted.value.tolist()
    )


def _held_axes(state: MatchState, node: Node, name: str, var: Var, found: Any) -> bool:
    """Whether a variable is bound to these axes already, perhaps counted from the other end."""
    held = state.bindings.get(var.name)
    return name in AXES and type(held) is tuple and _same_value(state, node, name, found=found, wanted=held[0])


def _positive(node: Node, axes: Any, rank: int) -> list[int]:
    """Axes counted from the front, sorted unless their order matters."""
    given = axes if isinstance(axes, list) else [axes]
    known = traits_of(node.op).shape.axes
    if known is not None and known.of_result:
        rank += len(given)
    found = [axis + rank if axis < 0 else axis for axis in given]
    return found if known is not None and known.in_order else sorted(found)
