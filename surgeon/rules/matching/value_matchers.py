"""Matchers of values other than nodes: parameters, literals, named tensors, and alternative forms."""

from typing import Any

from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.associative.chain import Continuation, Matcher
from surgeon.rules.matching.match_state import VIRTUAL_PREFIX, MatchState, constants_close
from surgeon.rules.matching.pattern import LiteralValue, Var


def var_matcher(var: Var) -> Matcher:
    """A matcher that binds a parameter, or compares with its binding."""
    key, kind = var.name, var.kind

    def match(state: MatchState, name: str, then: Continuation) -> bool:
        bound = state.bindings
        if name[:1] == VIRTUAL_PREFIX:
            return False
        if key in bound:
            held = bound[key]
            return (held == name or (isinstance(held, str) and state.same_values(held, name))) and then()
        if kind == "constant" and not state.is_constant(name):
            return False
        return _bind(state, key, name, then)

    return _captured_number(var) if kind in ("scalar", "list") else match


def _bind(state: MatchState, key: str, held: Any, then: Continuation) -> bool:
    state.bindings[key] = held
    if then():
        return True
    del state.bindings[key]
    return False


def _captured_number(var: Var) -> Matcher:
    """Bind the Python value of a small constant."""

    def match(state: MatchState, name: str, then: Continuation) -> bool:
        number = constant_number(state, var, name)
        return number is not None and bind_number(state, var, number, then)

    return match


def constant_number(state: MatchState, var: Var, name: str) -> Any:
    """The number or list that a constant has for a variable; None if it is not such a constant."""
    value = state.constant(name)
    if value is None or (var.kind == "scalar" and value.scalar is None):
        return None
    found = value.array.reshape(-1).tolist()
    return found[0] if var.kind == "scalar" else found


def bind_number(state: MatchState, var: Var, number: Any, then: Continuation) -> bool:
    """Bind a Python value, in a 1-tuple, which distinguishes it from a tensor name."""
    if var.name in state.bindings:
        return is_bound_to(state, var, number) and then()
    return _bind(state, var.name, (number,), then)


def bind_absent(state: MatchState, var: Var, then: Continuation) -> bool:
    """Bind an absent input."""
    if var.name in state.bindings:
        return state.bindings[var.name] is None and then()
    return _bind(state, var.name, None, then)


def is_bound_to(state: MatchState, var: Var, number: Any) -> bool:
    """Whether a name is bound to this number already."""
    held = state.bindings[var.name]
    return bool(held == (number,)) or (
        isinstance(held, tuple) and isinstance(number, (int, float)) and constants_close(held[0], number, None, 0.0)
    )


def literal_matcher(literal: LiteralValue) -> Matcher:
    """A matcher of a constant by value."""
    return lambda state, name, then: state.equals(name, literal) and then()


def named_matcher(name: str, inner: Matcher) -> Matcher:
    """A matcher that binds an inner tensor."""
    is_asked = not name.startswith("_")  # named by the rule, not by a helper

    def match(state: MatchState, tensor: str, then: Continuation) -> bool:
        if is_asked and tensor[:1] == VIRTUAL_PREFIX:
            return False
        if name in state.bindings:
            return state.same_values(state.bindings[name], tensor) and inner(state, tensor, then)
        state.bindings[name] = tensor
        if inner(state, tensor, then):
            return True
        del state.bindings[name]
        return False

    return match


def any_of_matcher(forms: tuple[Matcher, ...], heads: tuple[frozenset[str] | None, ...]) -> Matcher:
    """Match any of several forms.  heads: for each form the ops that can produce it (None: any); others are skipped."""
    by_op: dict[str, tuple[Matcher, ...]] = {}

    def made(op: str) -> tuple[Matcher, ...]:
        """The forms that a node of an op can produce; any, if it may be looked through."""
        is_open = op in TRANSPARENT
        fitting = (form for form, ops in zip(forms, heads, strict=True) if is_open or ops is None or op in ops)
        return tuple(fitting)

    def match(state: MatchState, name: str, then: Continuation) -> bool:
        source = state.producers.get(name)
        op = "" if source is None else source.op
        tried = by_op.get(op)
        if tried is None:
            tried = by_op[op] = made(op)
        return any(form(state, name, then) for form in tried)

    return match
