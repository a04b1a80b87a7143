"""Resolves names of operators, as users write them, to overloads of torch."""

from typing import Any

import torch

from surgeon.errors import UsageError
from surgeon.text import close_matches, join_all

# Aliases of operators in torch; an exporter may see either name.
ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "fix": "trunc",
    "multiply": "mul",
    "negative": "neg",
    "special_expit": "sigmoid",
    "special_psi": "digamma",
    "subtract": "sub",
    "true_divide": "div",
}


class UnknownOperator(UsageError):
    """torch has no operator of this name."""


def split(name: Any, what: str) -> tuple[str, str]:
    """Divide `domain::name`.  Raises UsageError for another form and for a value that is not a string."""
    domain, colons, rest = name.partition("::") if isinstance(name, str) else ("", "", "")
    if not (domain and colons and rest) or "::" in rest or any(letter.isspace() for letter in str(name)):
        raise UsageError(f"{what} is {name!r}, but it must have two names with '::' between, as in 'mylibrary::op'.")
    return domain, rest


def overloads(name: str) -> tuple[tuple[Any, ...], str]:
    """The functional overloads of an operator, the named one first, and its `ns::name`.

    name: `aten::add` or `aten::add.Tensor`.  Raises UsageError for an operator that torch does not have.
    """
    namespace, rest = split(name, "The operator")
    base, _, overload = rest.partition(".")
    packet = _packet(namespace, base)
    if packet is None:
        raise UnknownOperator(
            f"torch has no operator {namespace}::{base}. {_hint(namespace, base)} before you make it a placeholder."
        )
    found = [getattr(packet, one) for one in packet.overloads()]
    if overload:
        named = [one for one in found if one._overloadname == overload]
        if not named:
            listed = ", ".join(one._overloadname for one in found)
            raise UsageError(f"{namespace}::{base} has no overload {overload!r}. It has {listed}.")
        found = [*named, *(one for one in found if one not in named)]
    usable = [one for one in found if not any(item.is_out for item in one._schema.arguments)]
    return tuple(usable or found), f"{namespace}::{base}"


def related_overloads(name: str) -> tuple[Any, ...]:
    """The overloads of the in-place variant, of aliases and of the torch.special variant."""
    namespace, base = split(name, "The operator")
    names = [f"{base}_", f"special_{base}", base.removeprefix("special_"), ALIASES.get(base, base)]
    names += [alias for alias, plain in ALIASES.items() if plain == base]
    found: list[Any] = []
    for other in dict.fromkeys(names):
        packet = _packet(namespace, other) if other != base and (namespace == "aten" or other == f"{base}_") else None
        if packet is not None:
            found += [getattr(packet, one) for one in packet.overloads()]
    return tuple(one for one in found if not any(item.is_out for item in one._schema.arguments))


def _packet(namespace: str, base: str) -> Any:
    """The operator; None if torch has no operator of this name."""
    if not torch._C._jit_get_schemas_for_operator(f"{namespace}::{base}"):
        return None
    return getattr(getattr(torch.ops, namespace), base)


def _hint(namespace: str, base: str) -> str:
    names = [one for one in torch._C._dispatch_get_all_op_names() if one.startswith(f"{namespace}::")]
    near = close_matches(f"{namespace}::{base}", {one.partition(".")[0] for one in names}, cutoff=0.75)
    if near:
        return f"Did you mean {join_all(near, 'or')}? If not, define it with torch.library"
    return "Define it with torch.library.custom_op, or load the library that registers it,"
