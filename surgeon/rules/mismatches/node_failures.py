"""Failures of a node, an input, an attribute or a capture, in words.

The functions in REPORTED take a state with the nodes that had matched, and the report of a matcher to its listener.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from surgeon.ir.scope import Node, split_op
from surgeon.ops.schemas import schema
from surgeon.ops.schemas.attribute_values import value_text
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import STEP_LIMIT, MatchState, plain
from surgeon.rules.matching.node_matchers import NodeDifference, is_wildcard, qualified_op
from surgeon.rules.matching.pattern import AnyOf, LiteralValue, NamedValue, NodeOutput, NodePattern, Value, Var
from surgeon.rules.matching.removability import find_reentry, input_produced_inside, outside_uses
from surgeon.rules.matching.value_matchers import has_size_of
from surgeon.rules.mismatches.mismatch import FailureKind, MatchFailure
from surgeon.rules.mismatches.model_fixes import suggest_attribute, suggest_domain, suggest_removing_uses, suggest_value
from surgeon.text import and_more

FLOAT32 = float(np.finfo(np.float32).eps)


def format_number(number: float, eps: float) -> str:
    """A number as short as its precision allows: 0.4, not 0.400000006 as stored in float32."""
    return f"{float(str(np.float32(number))) if eps == FLOAT32 else number:.10g}"


def value_label(value: Value) -> str:
    """A value of a pattern in words."""
    if isinstance(value, NodeOutput):
        return qualified_op(value.operation)
    if isinstance(value, Var):
        return f"{value.name!r}"
    if isinstance(value, AnyOf):
        return " or ".join(dict.fromkeys(map(value_label, value.forms)))
    return value_label(value.value) if isinstance(value, NamedValue) else "a constant"


def describe_tensor(state: MatchState, name: str) -> str:
    """A tensor in a sentence: its producer's op, a constant, or an input."""
    return " ".join(filter(None, describe_tensor_parts(state, name)))


def describe_tensor_parts(state: MatchState, name: str) -> tuple[str, str]:
    """The same in two parts: its kind, and its name."""
    node = state.producers.get(name)
    if node is not None and node.op != "Constant":
        return node.op, f"at {node.label!r}"
    value = state.index.constants.get(state.scope, name)
    if value is not None:
        number = value.scalar
        return (
            ("constant", repr(name))
            if number is None
            else (f"constant {format_number(number, value.eps)}", f"({name!r})")
        )
    if state.index.constants.is_constant(state.scope, name):
        return "constant", repr(name)
    home = state.scope.defining_scope(name)
    if home is not None and name in home.initializers:
        return "an initializer that is also an input, so a caller may override it", f"({name!r})"
    return ("input", repr(name)) if name else ("nothing", "")


def wrong_op(state: MatchState, operation: NodePattern, name: str) -> MatchFailure:
    """A tensor has another op, perhaps of the same name in another domain."""
    wanted = qualified_op(operation)
    what, seen = describe_tensor_parts(state, name)
    node = state.producers.get(name)
    domain, op = split_op(node.op) if node is not None else ("", "")
    if node is None or op != operation.op:
        return MatchFailure("op", wanted, what, seen, at=_producer_label(state, name))
    message = f"expected {wanted}, found {what} {seen} (domain {domain or 'ai.onnx'})"
    return MatchFailure(
        "domain", wanted, what, seen=seen, message=message, change=suggest_domain(node, operation.domain), at=node.label
    )


def other_output(state: MatchState, operation: NodePattern, position: int, name: str) -> MatchFailure:
    wanted = f"output {position} of {qualified_op(operation)}"
    return MatchFailure("operand", wanted, *describe_tensor_parts(state, name), at=_producer_label(state, name))


def no_form(state: MatchState, value: AnyOf, name: str) -> MatchFailure:
    """A tensor has the op of none of several forms."""
    label, at = value_label(value), _producer_label(state, name)
    return MatchFailure("op", label, *describe_tensor_parts(state, name), where=value.where, op=label, at=at)


def _producer_label(state: MatchState, name: str) -> str:
    """The label of a tensor's producer; empty for an input or an initializer."""
    node = state.producers.get(name)
    return "" if node is None else node.label


def _of(node: Node, kind: FailureKind, wanted: str, found: str, message: str = "", change: str = "") -> MatchFailure:
    return MatchFailure(kind, wanted, found, seen=f"at {node.label!r}", message=message, change=change, at=node.label)


def _input_name(operation: NodePattern, node: Node, place: int) -> str:
    """An input as its schema names it, with its position: 2 ('B')."""
    version = node.scope.versions.get(operation.domain)
    entry = None if is_wildcard(operation) else schema(operation.domain, operation.op, version)
    formal = entry.input_at(place) if entry is not None else None
    return f"{place} ({formal.name!r})" if formal is not None else str(place)


def left_out(state: MatchState, operation: NodePattern, node: Node, place: int) -> MatchFailure:
    wanted = f"input {_input_name(operation, node, place)} of {qualified_op(operation)}"
    return _of(node, "missing optional", wanted, "none")


def one_too_many(state: MatchState, operation: NodePattern, node: Node, place: int) -> MatchFailure:
    which = _input_name(operation, node, place)
    wanted, found = f"no input {which} of {qualified_op(operation)}", describe_tensor(state, node.inputs[place])
    message = f"{qualified_op(operation)} at {node.label!r} has an input {which}: {found}; the pattern leaves it out"
    return _of(node, "missing optional", wanted, found, message=message, change=f"remove input {which} of {node.label}")


def too_many(state: MatchState, operation: NodePattern, node: Node, inputs: tuple[str, ...]) -> MatchFailure:
    label, count = qualified_op(operation), len(operation.inputs)
    which = " and ".join(_input_name(operation, node, place) for place in range(count, len(inputs)))
    message = (
        f"{label} at {node.label!r} has {len(inputs)} inputs, expected {count}: the pattern leaves out input {which}"
    )
    return _of(node, "missing optional", f"{count} inputs of {label}", found=f"{len(inputs)} inputs", message=message)


def other_rest(state: MatchState, node: Node, name: str) -> MatchFailure:
    message = f"*{name} must be the same inputs everywhere, but {node.label!r} has others"
    return _of(node, "operand", f"the same inputs for *{name}", "others", message=message)


def raises(state: MatchState, operation: NodePattern, rank: int) -> MatchFailure:
    message = f"a constant of rank {rank} may raise the rank of the result of {qualified_op(operation)}"
    return MatchFailure("rank", "a constant that does not raise the rank", f"one of rank {rank}", message=message)


def other_parameter(state: MatchState, node: Node, name: str, wanted: Any, found: Any, where: str = "") -> MatchFailure:
    """An attribute has another value.  where: the line of the pattern, if it is not that of the operation."""
    change = suggest_attribute(state, node, name, wanted)
    failure = _of(node, "attribute", f"{name} = {value_text(wanted)}", value_text(found), change=change)
    return replace(failure, where=where)


def not_a_tensor(state: MatchState, node: Node, name: str) -> MatchFailure:
    """An attribute in place of a tensor."""
    message = f"{name} is an attribute at this opset, expected a tensor"
    return MatchFailure("operand", f"{name} as a tensor", "an attribute", seen=f"at {node.label!r}", message=message)


def referred(state: MatchState, node: Node, name: str) -> MatchFailure:
    message = f"attribute {name} of {node.label!r} refers to an attribute of the function, so its value is unknown"
    return _of(node, "attribute", f"a value of {name}", found="a reference", message=message)


def different(
    state: MatchState, operation: NodePattern, node: Node, differences: Sequence[NodeDifference]
) -> MatchFailure:
    """The differences of a node as one failure."""
    first, *more = [_difference(state, operation, node, found) for found in differences]
    return replace(first, message="; ".join(item.sentence for item in (first, *more)), change="") if more else first


def _difference(state: MatchState, operation: NodePattern, node: Node, found: NodeDifference) -> MatchFailure:
    how, name, wanted, value = found
    if how == "outputs":
        return _of(node, "operand", f"{wanted} outputs", str(value))
    if how == "reference":
        return referred(state, node, name)
    if how == "again":
        return another_number(state, name, wanted, value)
    if how == "value":
        return other_parameter(state, node, name, wanted=wanted, found=value)
    text = f"reference {value.ref_attr_name}" if value.ref_attr_name else value_text(plain(value))[:60]
    message = f"{qualified_op(operation)} at {node.label!r} has {name} = {text}; the pattern expects the default"
    change = "" if value.ref_attr_name else suggest_attribute(state, node, name, None)
    return _of(node, "attribute", f"{name} at its default", found=text, message=message, change=change)


def another(state: MatchState, key: str, held: Any, name: str) -> MatchFailure:
    """A variable is bound to another tensor."""
    wanted = describe_tensor(state, held) if isinstance(held, str) else str(held)
    what, seen = describe_tensor_parts(state, name)
    who = "a tensor of the pattern" if key.startswith("_") else repr(key)  # surgeon's own names begin with _
    message = f"{who} must be the same tensor everywhere: it is {wanted}, but here it is {what} {seen}".rstrip()
    return MatchFailure("operand", f"the same tensor for {key!r}", what, seen=seen, message=message, at=_reader(state))


def another_number(state: MatchState, key: str, held: Any, number: Any) -> MatchFailure:
    """A name is bound to another number."""
    wanted = held[0] if isinstance(held, tuple) and len(held) == 1 else held
    return other_number(key, value_text(wanted), value_text(number), at=_reader(state))


def other_number(key: str, wanted: str, found: str, at: str = "") -> MatchFailure:
    """A name is bound to one number, and the model has another."""
    message = f"{key!r} must be the same number everywhere: it is {wanted}, but here it is {found}"
    return MatchFailure("value", f"{key!r} equal to {wanted}", found, message=message, at=at)


def no_constant(state: MatchState, key: str, name: str) -> MatchFailure:
    return MatchFailure("operand", f"a constant for {key!r}", *describe_tensor_parts(state, name), at=_reader(state))


def no_integers(state: MatchState, key: str, name: str) -> MatchFailure:
    """The same for a list of integers."""
    wanted = f"constant integers for {key!r}"
    return MatchFailure("operand", wanted, *describe_tensor_parts(state, name), at=_reader(state))


def _reader(state: MatchState) -> str:
    """The reader of a variable that failed: the last matched node, since a variable has no line in the pattern."""
    return state.nodes[-1].label if state.nodes else ""


def another_value(state: MatchState, literal: LiteralValue, name: str) -> MatchFailure:
    """Another constant than required, or none."""
    is_number = literal.value.size == 1 and literal.value.dtype.kind in "biuf"
    text = f"{float(literal.value.reshape(-1)[0]):.10g}" if is_number else str(literal.value.tolist())
    what, seen = describe_tensor_parts(state, name)
    value, is_alike = state.constant(name), has_size_of(state, name, literal)
    kind: FailureKind = "value" if value is not None else "operand"
    array = None
    if value is not None and is_alike and value.array.dtype.kind in "iu":
        array = np.asarray(literal.value).astype(value.array.dtype).reshape(value.array.shape)
    change, at = (suggest_value(state, name, value=text, array=array), name) if is_alike else ("", "")
    return MatchFailure(kind, f"the constant {text}", what, seen, change=change, where=literal.where, at=at)


def no_output(state: MatchState, compiled: CompiledPattern, place: int) -> MatchFailure:
    """No tensor can be a further output of a pattern."""
    by = " or ".join(sorted(compiled.output_ops[place] or ())) or "any op"
    wanted = f"output {place} of the pattern ({by})"
    return MatchFailure("operand", wanted, "none that reads a matched tensor", where=compiled.pattern.where)


def too_ambiguous(state: MatchState) -> MatchFailure:
    """The search was given up."""
    message = f"stopped after {STEP_LIMIT} steps, because this sum or product can match in too many ways"
    return MatchFailure("limit", "a chain of fewer operands", "too many", message=message)


OF_OPERATIONS = (wrong_op, other_output, different, other_parameter, referred, not_a_tensor, raises)
OF_INPUTS = (left_out, one_too_many, too_many, other_rest)
OF_VALUES = (another, another_number, another_value, no_constant, no_integers, no_form)
REPORTED = (*OF_OPERATIONS, *OF_INPUTS, *OF_VALUES, no_output, too_ambiguous)


def removal_failures(
    state: MatchState, compiled: CompiledPattern, match: Match, passed: set[Node], is_free: bool
) -> list[MatchFailure]:
    """Why the nodes of a match cannot be removed."""
    nodes, names = match.nodes, match.outputs
    if not is_free:
        apart = {asked.node for asked in match.sizes}
        inside = apart.union(nodes)
        return [
            (_held if name in state.scope.protected else _read)(state, node, name, inside)
            for node, name in outside_uses(state, nodes, names, apart=apart)
        ]
    made = input_produced_inside(state, compiled, nodes)
    if made is not None:
        key, source = made
        message = f"the pattern's input {key!r} is computed inside the match, by {source.label!r}"
        found = f"the result of {source.op}"
        return [MatchFailure("escape", f"{key!r} from outside the match", found, message=message, at=source.label)]
    node = find_reentry(state, compiled, nodes, names=names, passed=passed) if len(names) > 1 else None
    if node is None:
        return []
    message = f"{node.label!r} is outside the match, but between two of its nodes"
    return [MatchFailure("escape", "no node between the matched ones", node.op, message=message, at=node.label)]


def _held(state: MatchState, node: Node, name: str, inside: set[Node]) -> MatchFailure:
    why = state.scope.protected[name]
    message = f"{name!r} (output of {node.label!r}) cannot be removed: {why}"
    is_output = name in state.scope.output_names
    others = [reader for reader in state.scope.readers(name) if reader not in inside]
    where = state.scope.label or "the graph"
    change = f"remove {name!r} from the outputs of {where}" if is_output and not others else ""
    kind: FailureKind = "graph output" if is_output else "escape"
    return MatchFailure(
        kind, "no use outside the match", why, seen=repr(name), message=message, change=change, at=node.label
    )


def _read(state: MatchState, node: Node, name: str, inside: set[Node]) -> MatchFailure:
    scope = state.scope
    readers = [item for item in dict.fromkeys(scope.consumers[name]) if item not in inside and item.alive]
    first = readers[0]
    where = "" if first.scope is scope else f" (in {first.scope.label})"
    by = f"{first.label!r}{where}{and_more(len(readers) - 1)}"
    message = f"{name!r} (output of {node.label!r}) is also read by {by}, outside the match"
    found, change = f"a use by {first.op}", suggest_removing_uses(name, readers)
    return MatchFailure(
        "escape", "no use outside the match", found, seen=repr(name), message=message, change=change, at=node.label
    )
