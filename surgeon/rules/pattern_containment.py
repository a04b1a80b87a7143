"""Whether a pattern occurs in the result of a form, decided from the two traces."""

from collections.abc import Iterator, Sequence
from itertools import permutations, zip_longest
from typing import Any

import numpy as np

from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.trait_lookup import COMMUTATIVE
from surgeon.rules.matching.pattern import (
    AnyOf,
    LiteralValue,
    NamedValue,
    NodeOutput,
    NodePattern,
    Pattern,
    Value,
    Var,
    walk_values,
)

MAX_PERMUTED_INPUTS = 4  # inputs of a commutative op that are tried in any order
MAX_STEPS = 20_000  # limit of the search; beyond it the pattern counts as absent

Held = dict[str, Any]


def pattern_occurs_in(pattern: Pattern, written: Pattern) -> bool:
    """Whether a pattern matches nodes of a form's result, for all values of the captures.

    Sums and products are compared as nested, so an occurrence is certain, but further ones may be missed.
    """
    search = _Embedding([value for value in emitted_values(written) if isinstance(value, NodeOutput)])
    return any(True for _ in search.outputs(pattern.outputs, {}))


def emitted_values(pattern: Pattern) -> list[Value]:
    """The values of a form's trace, with the first of several alternatives."""
    return list(walk_values([_plain(value) for value in pattern.outputs], _below_written))


def _plain(value: Value) -> Value:
    """A value with the first of several alternatives, and without capture names."""
    while isinstance(value, (AnyOf, NamedValue)):
        value = value.forms[0] if isinstance(value, AnyOf) else value.value
    return value


def _below_written(value: Value) -> tuple[Value | None, ...]:
    inputs = value.operation.inputs if isinstance(value, NodeOutput) else ()
    return tuple(None if item is None else _plain(item) for item in inputs)


class _Embedding:
    """One search for a pattern.  made: outputs of nodes.  steps: number of compared values."""

    def __init__(self, made: Sequence[Value]) -> None:
        self.made, self.steps = made, 0

    def outputs(self, wanted: Sequence[Value], held: Held) -> Iterator[Held]:
        """The ways in which all outputs of a pattern occur among the outputs of nodes."""
        if not wanted:
            yield held
            return
        for value in self.made:
            for way in self.fits(wanted[0], value, held):
                yield from self.outputs(wanted[1:], way)

    def fits(self, wanted: Value | None, found: Value | None, held: Held) -> Iterator[Held]:
        """The ways in which a value of a pattern equals a value of the form, as bindings of the pattern's captures."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            return
        if wanted is None or found is None:
            if wanted is found:
                yield held
            return
        found = _plain(found)
        if isinstance(wanted, AnyOf):
            for form in wanted.forms:
                yield from self.fits(form, found, held)
        elif isinstance(wanted, NamedValue):
            yield from self.fits(wanted.value, found, held)
        elif isinstance(wanted, Var):
            kind = found.kind if isinstance(found, Var) else "constant" if isinstance(found, LiteralValue) else "tensor"
            if held.get(wanted.name, found) is found and wanted.kind in ("tensor", kind):
                yield {**held, wanted.name: found}
        elif isinstance(wanted, LiteralValue):
            if isinstance(found, LiteralValue) and np.array_equal(wanted.value, found.value):
                yield held
        elif isinstance(found, NodeOutput) and found.position == wanted.position:
            yield from self._same_node(wanted.operation, found.operation, held)

    def _same_node(self, wanted: NodePattern, found: NodePattern, held: Held) -> Iterator[Held]:
        op = qualified_name(wanted.domain, wanted.op)
        is_open = wanted.rest is not None or wanted.others is not None
        if is_open or op != qualified_name(found.domain, found.op) or wanted.attributes != found.attributes:
            return
        is_free = op in COMMUTATIVE and len(found.inputs) <= MAX_PERMUTED_INPUTS
        for order in permutations(found.inputs) if is_free else [found.inputs]:
            ways = [held]
            for one, other in zip_longest(wanted.inputs, order):
                ways = [further for way in ways for further in self.fits(one, other, way)]
            yield from ways
