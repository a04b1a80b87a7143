"""Matchers of values other than nodes: parameters, literals, named tensors, and alternative forms."""

from functools import partial
from typing import Any

from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.associative.chain import Matcher
from surgeon.rules.matching.listener import Continuation
from surgeon.rules.matching.match_state import VIRTUAL_PREFIX, MatchState, constants_close
from surgeon.rules.matching.pattern import AnyOf, LiteralValue, Var


def var_matcher(var: Var) -> Matcher:
    """A matcher that binds a parameter, or compares with its binding."""
    key, kind = var.name, var.kind

    def match(state: MatchState, name: str, then: Continuation) -> bool:
        bound = state.bindings
        if name[:1] == VIRTUAL_PREFIX:
            return False
        if key in bound:
            held = bound[key]
            if held == name or (isinstance(held, str) and state.same_values(held, name)):
                return then()
            return state.listener is not None and state.listener.fails(then, state.reader, ("another", key, held, name))
        if kind == "constant" and not state.is_constant(name):
            go_on = partial(_bind, state, key, name, then=then)
            return state.listener is not None and state.listener.fails(go_on, state.reader, ("no_constant", key, name))
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
        if number is not None:
            return bind_number(state, var, number, then)
        reason = "no_integers" if var.is_integers else "no_constant", var.name, name
        return state.listener is not None and state.listener.fails(None, state.reader, reason)

    return match


def constant_number(state: MatchState, var: Var, name: str) -> Any:
    """The number or list that a constant has for a variable; None if it is not such a constant."""
    value = state.constant(name)
    if value is None or (var.kind == "scalar" and value.scalar is None):
        return None
    if var.is_integers and value.array.dtype.kind not in "iu":
        return None
    found = value.array.reshape(-1).tolist()
    return found[0] if var.kind == "scalar" else found


def bind_number(state: MatchState, var: Var, number: Any, then: Continuation) -> bool:
    """Bind a Python value, in a 1-tuple, which distinguishes it from a tensor name."""
    if var.name not in state.bindings:
        return _bind(state, var.name, (number,), then)
    if is_bound_to(state, var, number):
        return then()
    reason = "another_number", var.name, state.bindings[var.name], number
    return state.listener is not None and state.listener.fails(then, state.reader, reason)


def bind_absent(state: MatchState, var: Var, then: Continuation) -> bool:
    """Bind an absent input."""
    if var.name not in state.bindings:
        return _bind(state, var.name, None, then)
    held = state.bindings[var.name]
    if held is None:
        return then()
    return state.listener is not None and state.listener.fails(None, state.reader, ("another", var.name, held, ""))


def is_bound_to(state: MatchState, var: Var, number: Any) -> bool:
    """Whether a name is bound to this number already."""
    held = state.bindings[var.name]
    return bool(held == (number,)) or (
        isinstance(held, tuple) and isinstance(number, (int, float)) and constants_close(held[0], number, None, 0.0)
    )


def literal_matcher(literal: LiteralValue) -> Matcher:
    """A matcher of a constant by value."""

    def match(state: MatchState, name: str, then: Continuation) -> bool:
        if state.equals(name, literal):
            return then()
        if state.listener is None:
            return False
        go_on = then if has_size_of(state, name, literal) else None
        return state.listener.fails(go_on, state.reader, ("another_value", literal, name))

    return match


def has_size_of(state: MatchState, name: str, literal: LiteralValue) -> bool:
    """Whether a tensor is a constant of the same size, so that only its numbers can be wrong."""
    value, wanted = state.constant(name), literal.value
    return value is not None and (value.array.shape == wanted.shape or value.array.size == wanted.size == 1)


def named_matcher(name: str, inner: Matcher) -> Matcher:
    """A matcher that binds an inner tensor."""
    is_asked = not name.startswith("_")  # named by the rule, not by a helper

    def match(state: MatchState, tensor: str, then: Continuation) -> bool:
        if is_asked and tensor[:1] == VIRTUAL_PREFIX:
            return False
        if name in state.bindings:
            held = state.bindings[name]
            if state.same_values(held, tensor):
                return inner(state, tensor, then)
            go_on, reason = partial(inner, state, tensor, then), ("another", name, held, tensor)
            return state.listener is not None and state.listener.fails(go_on, state.reader, reason)
        state.bindings[name] = tensor
        if inner(state, tensor, then):
            return True
        del state.bindings[name]
        return False

    return match


def any_of_matcher(value: AnyOf, forms: tuple[Matcher, ...], heads: tuple[frozenset[str] | None, ...]) -> Matcher:
    """Match any of several forms.  heads: for each form the ops that can produce it (None: any); others are skipped."""
    by_op: dict[str, tuple[Matcher, ...]] = {}

    def made(op: str, is_open: bool) -> tuple[Matcher, ...]:
        """The forms that a node of an op can produce.  is_open: any, since the node may be looked through."""
        return tuple([form for form, ops in zip(forms, heads, strict=True) if is_open or ops is None or op in ops])

    def match(state: MatchState, name: str, then: Continuation, is_near: bool = False) -> bool:
        listener = state.listener
        if listener is not None and not is_near:
            return listener.exact_first(partial(match, state, name), then)
        source = state.producers.get(name if listener is None else state.canonical(name))
        op = "" if source is None else source.op
        tried = by_op.get(op) if listener is None else made(op, is_open=False)
        if tried is None:
            tried = by_op[op] = made(op, op in TRANSPARENT)
        if listener is None:
            return any(form(state, name, then) for form in tried)
        reader = state.reader
        if not tried:
            listener.fails(None, reader, ("no_form", value, name))
        for form in tried or forms:
            state.reader = reader
            form(state, name, then)
        return False

    return match
