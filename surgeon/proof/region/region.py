"""A region: nodes of the source, and the nodes that replace them."""

from dataclasses import dataclass

from surgeon.ir.divisors import divides
from surgeon.ir.scope import Node, Scope


@dataclass(frozen=True, slots=True)
class Region:
    """The nodes that one rewrite, or several chained ones, changed in one scope."""

    scope: Scope
    """The scope of all its nodes."""
    before: tuple[Node, ...]
    """Nodes of the source that rules replaced."""
    after: tuple[Node, ...]
    """Nodes of the replacement that are still there."""
    outputs: tuple[tuple[str, str], ...]
    """Pairs of tensors: one of the source that is still needed, and the one that holds its value now."""
    intended_error: float = 0.0
    """How far the rules may change outputs on purpose; see `numerics.tensor_judge`."""
    intended_differences: frozenset[str] = frozenset()
    """Kinds of inputs, by name, for which the rules differ beyond that."""

    @property
    def sign_sensitive_outputs(self) -> frozenset[str]:
        """Outputs, by their names in the source, of whose zeros a node reads the sign: 1 / -0 is -infinity."""
        return frozenset(old for old, new in self.outputs if any(divides(self.scope, name) for name in {old, new}))
