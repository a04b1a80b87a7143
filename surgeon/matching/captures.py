"""Matchers of what is no node: parameters, constants by value, named tensors, and forms of one tensor."""

from typing import Any

from surgeon.matching.chains import Matcher, Next
from surgeon.matching.pattern import Literal, Var
from surgeon.matching.state import State, close


def var_matcher(var: Var) -> Matcher:
    """A matcher that binds a parameter, or compares with what it is bound to already."""
    key, kind = var.name, var.kind

    def match(state: State, name: str, then: Next) -> bool:
        bound = state.bound
        if key in bound:
            held = bound[key]
            if held == name or (isinstance(held, str) and state.same(held, name)):
                return then()
            if state.trace is None:
                return False
            wanted = state.found(held) if isinstance(held, str) else held
            return state.missed(_reader(state), f"wanted {key!r} to be {wanted} again, found {state.found(name)}")
        if kind == "constant" and not state.index.constants.is_constant(state.scope, name):
            return state.missed(_reader(state), f"wanted a constant for {key!r}, found {state.found(name)}")
        bound[key] = name
        if then():
            return True
        del bound[key]
        return False

    return _captured_number(var) if kind in ("scalar", "list") else match


def _reader(state: State) -> str:
    """Where a variable missed: it has no line of its own, and the node that reads it is the last one matched."""
    return state.nodes[-1].label if state.nodes else ""


def _captured_number(var: Var) -> Matcher:
    """Bind the Python value in a small constant."""

    def match(state: State, name: str, then: Next) -> bool:
        value = state.index.constants.get(state.scope, name)
        if value is None or (var.kind == "scalar" and value.scalar is None):
            return state.missed(_reader(state), f"wanted a constant for {var.name!r}, found {state.found(name)}")
        found = value.array.reshape(-1).tolist()
        return bind_number(state, var, found[0] if var.kind == "scalar" else found, then)

    return match


def bind_number(state: State, var: Var, number: Any, then: Next) -> bool:
    """Bind a Python value (kept in a 1-tuple, to tell it from a tensor's name)."""
    if var.name in state.bound:
        held = state.bound[var.name]
        return (held == (number,) or _near(held, number)) and then()
    state.bound[var.name] = (number,)
    if then():
        return True
    del state.bound[var.name]
    return False


def bind_nothing(state: State, var: Var, then: Next) -> bool:
    """Bind an input that is left out."""
    if var.name in state.bound:
        return state.bound[var.name] is None and then()
    state.bound[var.name] = None
    if then():
        return True
    del state.bound[var.name]
    return False


def _near(held: Any, number: Any) -> bool:
    return isinstance(held, tuple) and isinstance(number, (int, float)) and close(held[0], number, None, 0.0)


def literal_matcher(literal: Literal) -> Matcher:
    wanted = (
        f"{float(literal.value.reshape(-1)[0]):.10g}"
        if literal.value.size == 1 and literal.value.dtype.kind in "biuf"
        else str(literal.value.tolist())
    )

    def match(state: State, name: str, then: Next) -> bool:
        if state.equals(name, literal):
            return then()
        if state.trace is None:
            return False
        return state.missed(literal.where, f"wanted the constant {wanted}, found {state.found(name)}")

    return match


def named_matcher(name: str, inner: Matcher) -> Matcher:
    def match(state: State, tensor: str, then: Next) -> bool:
        if name in state.bound:
            return state.same(state.bound[name], tensor) and inner(state, tensor, then)
        state.bound[name] = tensor
        if inner(state, tensor, then):
            return True
        del state.bound[name]
        return False

    return match


def any_of_matcher(forms: tuple[Matcher, ...]) -> Matcher:
    def match(state: State, name: str, then: Next) -> bool:
        return any(form(state, name, then) for form in forms)

    return match
