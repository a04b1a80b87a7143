"""Variants of a pattern: a form for each `any_of`, the omitted inputs, and the number of tensors in `*rest`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from surgeon.ops.schemas import schema
from surgeon.rules.matching.pattern import AnyOf, NamedValue, NodeOutput, NodePattern, Pattern, Value, Var, walk_values

MAX_VARIANTS = 24


@dataclass(frozen=True, slots=True)
class PatternVariant:
    """One variant of a pattern."""

    forms: Mapping[int, int] = field(default_factory=dict)
    """The index of the form by the id of its `any_of`."""
    absent: frozenset[str] = frozenset()
    """The names of omitted inputs."""
    rest: int = 2
    """The number of tensors in `*rest`."""
    label: str = ""
    """The differences from the first variant in words; empty for that one."""


def variants(pattern: Pattern, *, pairs: bool = True) -> list[PatternVariant]:
    """The variants of a pattern: the first form of everything, then each other form by itself, then pairs of forms.

    pairs: whether to include the pairs.
    """
    base = PatternVariant()
    singles = list(_variations(pattern, base))
    found = [base, *singles]
    for place, one in enumerate(singles if pairs else ()):
        for other in singles[place + 1 :]:
            if len(found) >= MAX_VARIANTS:
                break
            if not set(one.forms) & set(other.forms) and (one.rest == 2 or other.rest == 2):
                found.append(_merged(one, other))
    return list({_identity(pattern, variant): variant for variant in reversed(found)}.values())[::-1]


def _variations(
    pattern: Pattern, base: PatternVariant, known: frozenset[int] = frozenset()
) -> Iterator[PatternVariant]:
    """Each variant that differs from `base` in one choice, and those with the choices that it adds."""
    values = list(reachable(pattern, base))
    for value in values:
        if isinstance(value, AnyOf) and id(value) not in known and id(value) not in base.forms:
            for place in range(1, len(value.forms)):
                label = f"{value.where} form {place + 1}"
                changed = PatternVariant(
                    {**base.forms, id(value): place}, base.absent, base.rest, _and(base.label, label)
                )
                yield changed
                yield from _variations(pattern, changed, known | {id(item) for item in values})
    if known:
        return
    for var in (value for value in values if isinstance(value, Var)):
        if var.optional and not _is_needed(var, values):
            yield PatternVariant(base.forms, base.absent | {var.name}, base.rest, _and(base.label, f"no {var.name}"))
        if var.kind == "rest":
            yield PatternVariant(base.forms, base.absent, 1, _and(base.label, f"one in *{var.name}"))


def _is_needed(var: Var, values: Iterable[Value]) -> bool:
    """Whether an op requires a capture, which is optional only because other forms do not use it."""
    for operation in (value.operation for value in values if isinstance(value, NodeOutput)):
        known = schema(operation.domain, operation.op, None)
        for item, formal in zip(operation.inputs, () if known is None else known.inputs, strict=False):
            if isinstance(item, Var) and item.name == var.name and not (formal.optional or formal.variadic):
                return True
    return False


def _merged(one: PatternVariant, other: PatternVariant) -> PatternVariant:
    forms, absent = {**one.forms, **other.forms}, one.absent | other.absent
    return PatternVariant(forms, absent, min(one.rest, other.rest), _and(one.label, other.label))


def _and(label: str, more: str) -> str:
    return f"{label}, {more}" if label else more


def _identity(pattern: Pattern, variant: PatternVariant) -> Any:
    """The key of a variant: only the choices that remain reachable."""
    values = list(reachable(pattern, variant))
    return (
        tuple((id(value), variant.forms.get(id(value), 0)) for value in values if isinstance(value, AnyOf)),
        tuple(value.name for value in values if isinstance(value, Var) and value.name in variant.absent),
        variant.rest if any(isinstance(value, Var) and value.kind == "rest" for value in values) else 0,
    )


def reachable(pattern: Pattern, variant: PatternVariant) -> list[Value]:
    """Every value of a variant once, outputs first, including captures in attributes."""

    def under(value: Value) -> list[Value | None]:
        if isinstance(value, AnyOf):
            return [value.forms[variant.forms.get(id(value), 0)]]
        if isinstance(value, NamedValue):
            return [value.value]
        if isinstance(value, NodeOutput):
            operation = value.operation
            extra = [item for item in operation.attributes.values() if isinstance(item, Var)]
            return [*operation.inputs, operation.rest, *extra][::-1]
        return []

    return walk_values(pattern.outputs[::-1], under)


def operations_of(pattern: Pattern, variant: PatternVariant) -> list[NodePattern]:
    """The nodes of a variant, each once."""
    found = (value.operation for value in reachable(pattern, variant) if isinstance(value, NodeOutput))
    return list(dict.fromkeys(found))


def parameters_of(pattern: Pattern, variant: PatternVariant) -> dict[str, Var]:
    """The captures of a variant by name, without absent ones; `*rest` becomes `rest_0`, `rest_1`."""
    found: dict[str, Var] = {}
    for value in reachable(pattern, variant):
        if isinstance(value, Var) and value.name not in variant.absent and value.kind != "attributes":
            names = [f"{value.name}_{place}" for place in range(variant.rest)] if value.kind == "rest" else [value.name]
            found.update(dict.fromkeys(names, value))
    order = list(pattern.function.__code__.co_varnames) if hasattr(pattern.function, "__code__") else []
    return dict(sorted(found.items(), key=lambda item: order.index(item[1].name) if item[1].name in order else 99))


def has_any(pattern: Pattern, variant: PatternVariant) -> bool:
    """Whether a variant contains an unconstrained value, so that it cannot be instantiated."""
    return any(isinstance(value, Var) and value.is_any for value in reachable(pattern, variant))
