"""Steps by what they did, so that a second run over the same model can take some of them and leave out the rest.

That is how a rewrite is rolled back: an index cannot be un-edited, but the run that edited it can be had again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from surgeon.errors import ConditionFailed
from surgeon.ir.scope import Node
from surgeon.pipeline.reports.rewrite_report import Site
from surgeon.rules.matching.matcher import Match
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.replacing.splicer import RewriteStep

NOT_AGAIN = "what another rule wrote here was rolled back"
OWN_NOT_AGAIN = "it shares nodes with a site where this rule was rolled back"


class Replay:
    """Which steps to take again.  allowed: keys of steps, None for all.

    wrote: the steps of the run that wrote nodes which are not of the file.
    refused: the nodes of matches that are not part of it, by the rule's name and the label of the match's root.
    """

    def __init__(self, allowed: Iterable[int] | None = None) -> None:
        self.refused: dict[tuple[str, str], frozenset[str]] = {}
        self._allowed = None if allowed is None else frozenset(allowed)
        self._keys: dict[RewriteStep, int] = {}
        self.wrote: Mapping[Node, RewriteStep] = {}

    def require(self, rule: str, match: Match) -> None:
        """Raise ConditionFailed for a match that is not part of the replay."""
        if self._allowed is not None and self._key(rule, match) not in self._allowed:
            self.refused[rule, match.root.label] = frozenset(node.label for node in match.nodes)
            raise ConditionFailed(NOT_AGAIN)

    def took(self, step: RewriteStep) -> None:
        """Note a step, so that those that build on it can be told."""
        if self._allowed is not None:
            self.key(step)

    def key(self, step: RewriteStep) -> int:
        """What a step is, whatever its new nodes are called: the same in every run over the same model."""
        if step not in self._keys:
            self._keys[step] = self._key(step.rule, step.match)
        return self._keys[step]

    def keys(self, steps: Sequence[RewriteStep]) -> list[int]:
        """The keys of a log, in order."""
        return [self.key(step) for step in steps]

    def _key(self, rule: str, match: Match) -> int:
        place = tuple(self._node(node) for node in match.nodes) or match.outputs
        return hash((rule, match.scope.address, match.pattern.name, place))

    def _node(self, node: Node) -> tuple[int, int]:
        """A node of the source by its place in the file, a new one by the step that made it."""
        step = self.wrote.get(node)
        return (node.source_slot, -1) if step is None else (self.key(step), list(step.added).index(node))


def remaining_near_misses(
    gone: Sequence[Site], misses: Sequence[Mismatch], refused: Mapping[tuple[str, str], frozenset[str]]
) -> Iterator[Mismatch]:
    """The misses of a run without these sites that are not about them.

    A rule that could have had the place of another, had that not come first, is told so once; so is one whose own
    rewrites stood in the way.  refused: as in the run's `Replay`.
    """
    steps = [step for site in gone for step in site.steps]
    rules = {(step.rule, step.root.label) for step in steps}
    taken = [(step.rule, {node.label for node in step.removed if node.original}) for step in steps]
    inside = {label for _, labels in taken for label in labels}
    kept: dict[tuple[str, str], list[Mismatch]] = {}
    for miss in misses:
        if miss.reason == NOT_AGAIN and (miss.rule, miss.node) not in rules:
            nodes = refused.get((miss.rule, miss.node), frozenset())
            takers = {rule for rule, labels in taken if labels & nodes} or {rule for rule, _ in taken}
            if takers != {miss.rule}:
                why = f"{NOT_AGAIN}; name this rule first, or alone"
            elif miss.node not in inside:
                why = OWN_NOT_AGAIN
            else:
                continue
            kept.setdefault((miss.rule, why), []).append(miss)
        elif miss.node not in inside:
            yield miss
    for (_, why), (first, *more) in kept.items():
        yield replace(first, reason=why, others=tuple(miss.node for miss in more))
