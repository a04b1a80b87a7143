"""A region: the net change between nodes of the source and what stands in their place."""

from dataclasses import dataclass

from surgeon.ir.scope import Node, Scope


@dataclass(frozen=True, slots=True)
class Region:
    """What one rewrite, or several that chained, changed in one scope.

    before: nodes of the source that rules replaced.  after: nodes that came and stayed.  outputs: for each tensor of
    the source that is still needed, the tensor that holds its value now.  intended_error: how far the rules may change
    outputs on purpose, see `numerics.tensor_judge`; intended_differences: the kinds of inputs for which they do so
    beyond that, by name.
    """

    scope: Scope
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    outputs: tuple[tuple[str, str], ...]
    intended_error: float = 0.0
    intended_differences: frozenset[str] = frozenset()
