"""Steps by what they did, so that a second run over the same model can take some of them and leave out the rest.

That is how a rewrite is rolled back: an index cannot be un-edited, but the run that edited it can be had again.
"""

from collections.abc import Iterable, Sequence

from surgeon.errors import Refused
from surgeon.indexing.scope import Node
from surgeon.matching.match import Match
from surgeon.rewriting.splice import Step

NOT_AGAIN = "what another rule wrote here was rolled back"


class Recipe:
    """Which steps to take again.  allowed: keys of steps, None for all."""

    def __init__(self, allowed: Iterable[int] | None = None) -> None:
        self._allowed = None if allowed is None else frozenset(allowed)
        self._keys: dict[Step, int] = {}

    def require(self, rule: str, match: Match) -> None:
        """Raise Refused for a match that is not part of the recipe."""
        if self._allowed is not None and self._key(rule, match) not in self._allowed:
            raise Refused(NOT_AGAIN)

    def took(self, step: Step) -> None:
        """Note a step, so that those that build on it can be told."""
        if self._allowed is not None:
            self.key(step)

    def key(self, step: Step) -> int:
        """What a step is, whatever its new nodes are called: the same in every run over the same model."""
        if step not in self._keys:
            self._keys[step] = self._key(step.rule, step.match)
        return self._keys[step]

    def keys(self, steps: Sequence[Step]) -> list[int]:
        """The keys of a log, in order."""
        return [self.key(step) for step in steps]

    def _key(self, rule: str, match: Match) -> int:
        place = tuple(self._node(node) for node in match.nodes) or match.outputs
        return hash((rule, match.scope.address, match.pattern.name, place))

    def _node(self, node: Node) -> tuple[int, int]:
        """A node of the source by its place in the file, a new one by the step that made it."""
        step = node.step
        return (node.origin, -1) if step is None else (self.key(step), list(step.added).index(node))
