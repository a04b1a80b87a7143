"""Matchers of what is no node: parameters, constants by value, named tensors, and forms of one tensor."""

from dataclasses import replace
from functools import partial
from typing import Any

from surgeon.matching.advice import other_value
from surgeon.matching.chain import Matcher, Next
from surgeon.matching.pattern import Literal, Var
from surgeon.matching.state import VIRTUAL, State, close
from surgeon.matching.trace import Finding
from surgeon.ops.records import TRANSPARENT


def var_matcher(var: Var) -> Matcher:
    """A matcher that binds a parameter, or compares with what it is bound to already."""
    key, kind = var.name, var.kind

    def match(state: State, name: str, then: Next) -> bool:
        bound = state.bound
        if name[:1] == VIRTUAL:
            return False
        if key in bound:
            held = bound[key]
            if held == name or (isinstance(held, str) and state.same(held, name)):
                return then()
            return state.trace is not None and state.excused(_another(state, key, held, name), then)
        if kind == "constant" and not state.index.constants.is_constant(state.scope, name):
            if state.trace is None:
                return False
            return state.excused(_no_constant(state, key, name), partial(_bind, state, key, name, then))
        bound[key] = name
        if then():
            return True
        del bound[key]
        return False

    return _captured_number(var) if kind in ("scalar", "list") else match


def _bind(state: State, key: str, name: str, then: Next) -> bool:
    state.bound[key] = name
    if then():
        return True
    del state.bound[key]
    return False


def _another(state: State, key: str, held: Any, name: str) -> Finding:
    """A variable stands for another tensor already."""
    wanted = state.found(held) if isinstance(held, str) else str(held)
    what, spot = state.sighting(name)
    told = f"wanted {key!r} to be {wanted} again, found {what} {spot}".rstrip()
    return Finding("operand", "", f"{key!r} again", what, spot, told, at=_reader(state))


def _no_constant(state: State, key: str, name: str) -> Finding:
    what, spot = state.sighting(name)
    return Finding("operand", "", f"a constant for {key!r}", what, spot, at=_reader(state))


def _reader(state: State) -> str:
    """Where a variable missed: it has no line of its own, and the node that reads it is the last one matched."""
    return state.nodes[-1].label if state.nodes else ""


def _captured_number(var: Var) -> Matcher:
    """Bind the Python value in a small constant."""

    def match(state: State, name: str, then: Next) -> bool:
        value = state.index.constants.get(state.scope, name)
        if value is None or (var.kind == "scalar" and value.scalar is None):
            return state.trace is not None and state.missed(_no_constant(state, var.name, name))
        found = value.array.reshape(-1).tolist()
        return bind_number(state, var, found[0] if var.kind == "scalar" else found, then)

    return match


def bind_number(state: State, var: Var, number: Any, then: Next) -> bool:
    """Bind a Python value (kept in a 1-tuple, to tell it from a tensor's name)."""
    if var.name in state.bound:
        if is_held(state, var, number):
            return then()
        if state.trace is None:
            return False
        return state.excused(another_number(state, var.name, state.bound[var.name], number), then)
    state.bound[var.name] = (number,)
    if then():
        return True
    del state.bound[var.name]
    return False


def bind_nothing(state: State, var: Var, then: Next) -> bool:
    """Bind an input that is left out."""
    if var.name in state.bound:
        held = state.bound[var.name]
        if held is None:
            return then()
        return state.trace is not None and state.missed(_another(state, var.name, held, ""))
    state.bound[var.name] = None
    if then():
        return True
    del state.bound[var.name]
    return False


def another_number(state: State, key: str, held: Any, number: Any) -> Finding:
    """A name stands for another number already."""
    wanted = held[0] if isinstance(held, tuple) and len(held) == 1 else held
    return Finding("value", "", f"{key!r} to be {wanted} again", str(number), at=_reader(state))


def is_held(state: State, var: Var, number: Any) -> bool:
    """Whether a name is bound to this number already."""
    held = state.bound[var.name]
    return bool(held == (number,)) or (
        isinstance(held, tuple) and isinstance(number, (int, float)) and close(held[0], number, None, 0.0)
    )


def literal_matcher(literal: Literal) -> Matcher:
    wanted = (
        f"{float(literal.value.reshape(-1)[0]):.10g}"
        if literal.value.size == 1 and literal.value.dtype.kind in "biuf"
        else str(literal.value.tolist())
    )

    def match(state: State, name: str, then: Next) -> bool:
        if state.equals(name, literal):
            return then()
        return state.trace is not None and _another_value(state, literal, wanted, name, then)

    return match


def _another_value(state: State, literal: Literal, wanted: str, name: str, then: Next) -> bool:
    what, spot = state.sighting(name)
    value = state.index.constants.get(state.scope, name)
    alike = value is not None and value.array.shape == literal.value.shape
    alike = alike or (value is not None and value.array.size == literal.value.size == 1)
    if not alike:
        return state.missed(
            Finding("value" if value is not None else "operand", literal.where, f"the constant {wanted}", what, spot)
        )
    change = other_value(state, name, wanted)
    finding = Finding("value", literal.where, f"the constant {wanted}", what, spot, change=change, at=name)
    return state.excused(finding, then)


def named_matcher(name: str, inner: Matcher) -> Matcher:
    is_asked = not name.startswith("_")  # by the rule, not by a word for itself

    def match(state: State, tensor: str, then: Next) -> bool:
        if is_asked and tensor[:1] == VIRTUAL:
            return False
        if name in state.bound:
            if state.same(state.bound[name], tensor):
                return inner(state, tensor, then)
            if state.trace is None:
                return False
            return state.excused(_another(state, name, state.bound[name], tensor), lambda: inner(state, tensor, then))
        state.bound[name] = tensor
        if inner(state, tensor, then):
            return True
        del state.bound[name]
        return False

    return match


def any_of_matcher(
    forms: tuple[Matcher, ...],
    key: int,
    heads: tuple[frozenset[str] | None, ...],
    any_head: frozenset[str] | None,
    wanted: Finding,
) -> Matcher:
    """Match any of several forms.

    heads: for each form the ops that can make it (None: anything); others are not tried.  any_head: those of all forms;
    wanted: what to say where none of them is there.
    """
    by_op: dict[str, tuple[Matcher, ...]] = {}

    def made(op: str) -> tuple[Matcher, ...]:
        """The forms that a node of an op can make; what it lets through may be made by any."""
        is_open = op in TRANSPARENT
        fitting = (form for form, ops in zip(forms, heads, strict=True) if is_open or ops is None or op in ops)
        return tuple(fitting)

    def match(state: State, name: str, then: Next) -> bool:
        if state.trace is None:
            source = state.producers.get(name)
            op = "" if source is None else source.op
            tried = by_op.get(op)
            if tried is None:
                tried = by_op[op] = made(op)
            return any(form(state, name, then) for form in tried)
        node = state.producers.get(state.canonical(name))
        if any_head is not None and (node is None or node.op not in any_head):
            what, spot = state.sighting(name)
            state.missed(replace(wanted, found=what, spot=spot))
        for place, form in enumerate(forms):
            state.trace.forms[key] = place
            if form(state, name, then):
                return True
        return False

    return match
