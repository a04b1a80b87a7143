"""One call of a local function, as its inside sees it."""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from onnx import AttributeProto

from surgeon.indexing.scope import Scope
from surgeon.shapes.facts import Facts, Values


class Frame(NamedTuple):
    """What the inputs and attributes of a function are in one call.

    scope: of the function.  label: of the call, and those around it.  depth: of calls, from 1.
    """

    scope: Scope
    facts: Mapping[str, Facts]
    values: Mapping[str, Values | None]
    attributes: Mapping[str, AttributeProto]
    label: str
    depth: int

    def key(self) -> Hashable:
        """What the call gives the function: calls of which this is equal see the same inside."""
        values = tuple(sorted((name, None if x is None else tuple(x.flat)) for name, x in self.values.items()))
        given = tuple(sorted((name, item.SerializeToString()) for name, item in self.attributes.items()))
        return (id(self.scope), tuple(sorted(self.facts.items())), values, given)
