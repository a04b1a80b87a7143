"""The traits that users declare of their operators: `indices=(1,), random=False, like="GridSample"`."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from surgeon.errors import UsageError
from surgeon.ops.schemas.op_schema import normalize_domain, operators, schema
from surgeon.ops.traits.op_traits import NO_TABLE, IndexedTable
from surgeon.ops.traits.trait_lookup import OP_TRAITS, DeclaredTraits, has_traits, traits_of
from surgeon.text import did_you_mean, format_count


def declared_traits(
    name: str,
    function: Callable[..., Any] | None,
    *,
    indices: Sequence[int] | None,
    counts: Sequence[int] | None,
    random: bool | None,
    like: str | None,
) -> DeclaredTraits | None:
    """The declared traits of an operator; None if nothing is declared.  An argument of None declares nothing.

    function: computes it from its inputs and attributes; None if its inputs are unknown.  indices: positions of inputs
    that index the first axis of the first other input.  counts: positions of inputs with counts and sizes.  random:
    whether it draws random numbers.  like: the operator with which it shares all other traits.

    Raises:
        UsageError: an unknown operator, an input that it does not have, or a value of another type.
    """
    if all(word is None for word in (indices, counts, random, like)):
        return None
    inputs, least = _inputs_of(function)
    known_as, needed = (name, 0) if like is None else _known(name, like, least)
    found = traits_of(known_as)._replace(name=name)
    if indices is not None:
        _require_slots(name, "indices", indices, inputs)
        known = {lookup.indices: lookup for lookup in found.indexing.lookups}
        last = max(indices, default=0) + 1 if inputs is None else len(inputs) - 1
        tables = (slot for slot in range(last + 1) if slot not in (*indices, *(counts or ())))
        table = next(tables, NO_TABLE)
        found = found.having(lookups=tuple(known.get(slot, IndexedTable(slot, table)) for slot in indices))
    if counts is not None:
        _require_slots(name, "counts", counts, inputs)
        found = found.having(counts=tuple(counts))
    if random not in (None, True, False):
        raise UsageError(f"Invalid random={random!r} of {name}. Write random=True or random=False.")
    if random is not None:
        found = found.having(random="always" if random else "")
    return DeclaredTraits(found, "" if like is None else like, needed)


def _inputs_of(function: Callable[..., Any] | None) -> tuple[list[str] | None, int | None]:
    """The parameters that may be inputs, and how many of them have no default; None if both are unknown."""
    try:
        parameters = list(inspect.signature(function).parameters.values()) if function is not None else None
    except ValueError:  # a function in C may state none
        parameters = None
    if parameters is None or any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None, None
    found = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return [one.name for one in found], sum(one.default is one.empty for one in found)


def _known(name: str, like: Any, least: int | None) -> tuple[str, int]:
    """The qualified name of an operator with a schema or traits, and its minimum number of inputs, at most `least`."""
    domain, _, op = str(like).rpartition("::")
    found, known = f"{domain}::{op}" if normalize_domain(domain) else op, schema(domain, op)
    if not has_traits(found) and known is None:
        near = did_you_mean(str(like), (*operators(""), *OP_TRAITS))
        raise UsageError(f"Unknown operator like={like!r} of {name}; {near}")
    if known is not None and least is not None and least < known.min_inputs:
        needs = f"which needs {format_count(known.min_inputs, 'input')}"
        raise UsageError(f"{name} is declared like={like!r}, {needs}, but its function accepts {least}.")
    return found, 0 if known is None else known.min_inputs


def _require_slots(name: str, word: str, slots: Any, inputs: Sequence[str] | None) -> None:
    """Raise UsageError for anything but a sequence of positions of inputs."""
    if not isinstance(slots, (tuple, list)) or not all(type(slot) is int and slot >= 0 for slot in slots):
        raise UsageError(f"Invalid {word}={slots!r} of {name}. Write positions of inputs, for example {word}=(1,).")
    beyond = next((slot for slot in slots if inputs is not None and slot >= len(inputs)), None)
    if beyond is not None:
        last = f"the last input is {len(inputs or ()) - 1}, {inputs[-1]!r}" if inputs else "it has none"
        raise UsageError(f"{name} is declared with {word}={slots!r}, but has no input {beyond}; {last}.")
