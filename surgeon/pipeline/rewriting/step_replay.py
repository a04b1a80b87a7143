"""Identifies rewrite steps across runs, so that a second run can repeat only some of them.

A rollback works this way: the edits of an index are not undone, the run is repeated without some of its steps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from surgeon.errors import ConditionFailed
from surgeon.ir.scope import Node
from surgeon.pipeline.reports.site import Site
from surgeon.rules.matching.match import Match
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.replacing.splicer import RewriteStep

NOT_AGAIN = "a rewrite by another rule was rolled back here"
NOTHING: Mapping[int, str] = MappingProxyType({})
OWN_NOT_AGAIN = "it shares nodes with a site where this rule was rolled back"


class Replay:
    """Which steps to repeat.

    Attributes:
        wrote: By node that is not in the file, the step that inserted it.
        refused: By rule and label of the root, the nodes of matches that are not repeated.
        denied: By key of a step that is not repeated, why; all others may be.
    """

    def __init__(self, allowed: Iterable[int] | None = None, denied: Mapping[int, str] = NOTHING) -> None:
        """allowed: keys of the steps to repeat; None for all.  denied: as in the class."""
        self.refused: dict[tuple[str, str], frozenset[str]] = {}
        self.denied = dict(denied)
        self._allowed = None if allowed is None else frozenset(allowed)
        self._keys: dict[RewriteStep, int] = {}
        self.wrote: Mapping[Node, RewriteStep] = {}

    def without(self, denied: Mapping[int, str]) -> "Replay":
        """The same without further steps.  denied: as in the class."""
        return Replay(self._allowed, {**self.denied, **denied})

    def require(self, rule: str, match: Match) -> None:
        """Raise ConditionFailed for a match that is not repeated."""
        if self._allowed is None and not self.denied:
            return
        key = self._key(rule, match)
        if key in self.denied or (self._allowed is not None and key not in self._allowed):
            self.refused[rule, match.root.label] = frozenset(node.label for node in match.nodes)
            raise ConditionFailed(self.denied.get(key, NOT_AGAIN))

    def took(self, step: RewriteStep) -> None:
        """Record a step, so that steps that build on it have keys."""
        if self._allowed is not None or self.denied:
            self.key(step)

    def key(self, step: RewriteStep) -> int:
        """A key that is equal in every run over the same model, independent of names of new nodes."""
        if step not in self._keys:
            self._keys[step] = self._key(step.rule, step.match)
        return self._keys[step]

    def keys(self, steps: Sequence[RewriteStep]) -> list[int]:
        """The keys of a log, in order."""
        return [self.key(step) for step in steps]

    def _key(self, rule: str, match: Match) -> int:
        place = tuple(self._node(node) for node in match.nodes) or match.outputs
        return hash((rule, match.scope.address, match.pattern.name, place, match.content))

    def _node(self, node: Node) -> tuple[int, int]:
        """A node of the source by its place in the file, a new one by its step."""
        step = self.wrote.get(node)
        return (node.source_slot, -1) if step is None else (self.key(step), list(step.added).index(node))


def remaining_near_misses(
    gone: Sequence[Site], misses: Sequence[Mismatch], refused: Mapping[tuple[str, str], frozenset[str]]
) -> Iterator[Mismatch]:
    """The near misses of a repeated run, without those that concern rolled back sites.

    A rule that could fire at a site of an earlier rule that was rolled back gets one near miss that says so; so does a
    rule that its own rolled back rewrites block.  refused: as in `Replay`.
    """
    steps = [step for site in gone for step in site.steps]
    rules = {(step.rule, step.root.label) for step in steps}
    removed = [(step.rule, {node.label for node in step.removed if node.original}) for step in steps]
    inside = {label for _, labels in removed for label in labels}
    kept: dict[tuple[str, str], list[Mismatch]] = {}
    for miss in misses:
        if miss.reason == NOT_AGAIN and (miss.rule, miss.node) not in rules:
            nodes = refused.get((miss.rule, miss.node), frozenset())
            takers = {rule for rule, labels in removed if labels & nodes} or {rule for rule, _ in removed}
            if takers != {miss.rule}:
                why = f"{NOT_AGAIN}; list this rule first, or run only this rule"
            elif miss.node not in inside:
                why = OWN_NOT_AGAIN
            else:
                continue
            kept.setdefault((miss.rule, why), []).append(miss)
        elif miss.node not in inside:
            yield miss
    for (_, why), (first, *more) in kept.items():
        yield replace(first, reason=why, others=tuple(miss.node for miss in more))
