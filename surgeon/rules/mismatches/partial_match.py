"""The state of the tolerant matcher: partial matches so far, and the failure that came furthest."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.rules.matching.associative.chain import Continuation
from surgeon.rules.matching.associative.identities import without_virtual
from surgeon.rules.matching.match_state import STEP_LIMIT, MatchState
from surgeon.rules.mismatches.mismatch import DECISIVE_KINDS, KINDS_AT_UNMATCHED_NODE, MatchFailure

WAYS = 8  # partial matches that are followed at once


class FurthestFailure(NamedTuple):
    """The failure of the attempt that matched most at a node."""

    matched: int
    """Number of matched nodes."""
    finding: MatchFailure
    """The failure."""
    also: MatchFailure | None
    """A further failure."""
    is_only: bool
    """Whether everything else matches."""
    nodes: tuple[Node, ...]
    """Matched nodes of the model."""
    made: frozenset[int]
    """Ids of the matched operations of the pattern."""
    is_whole: bool = False
    """Whether all nodes matched, but the match was refused as a whole."""

    @property
    def is_certain(self) -> bool:
        """Whether fixing the failure would surely make the pattern match."""
        return self.is_only and self.finding.kind in DECISIVE_KINDS

    @property
    def rank(self) -> tuple[bool, bool, bool, int]:
        """Sort key: the most certain and furthest failure last."""
        return self.is_whole, self.is_only, self.is_certain, self.matched


class PatternLine(NamedTuple):
    """The operation of the pattern that is being matched."""

    where: str
    """file:line in the pattern."""
    op: str
    """Its op."""
    key: int
    """Its id."""


class PartialMatch(MatchState):
    """One way in which a pattern matches so far.  fault: the only failure."""

    __slots__ = ("fault",)

    def __init__(self, index: Index, scope: Scope) -> None:
        super().__init__(index, scope)
        self.fault: MatchFailure | None = None

    def copy(self) -> "PartialMatch":
        """An independent copy."""
        made = PartialMatch(self.index, self.scope)
        made.bindings, made.nodes, made.node_of_pattern, made.fault = (
            dict(self.bindings),
            without_virtual(self.nodes),
            dict(self.node_of_pattern),
            self.fault,
        )
        return made

    def with_node(self, key: int, node: Node, passed: Iterable[Node] = ()) -> "PartialMatch":
        """A copy with one more node of the pattern matched.  passed: nodes that were looked through."""
        made = self.copy()
        made.nodes += [*passed, node]
        made.node_of_pattern[key] = node
        return made

    @property
    def reader(self) -> str:
        """The reader of a variable that failed: the last matched node, since a variable has no line in the pattern."""
        return self.nodes[-1].label if self.nodes else ""


class FailureTracker:
    """Keeps the failure that came furthest.  sizes: number of pattern nodes by key, if more than one."""

    def __init__(self, sizes: dict[int, int]) -> None:
        self.sizes = sizes
        self.best: FurthestFailure | None = None

    def refused(self, fit: PartialMatch, against: list[MatchFailure]) -> None:
        """All nodes matched.  against: failures of the match as a whole."""
        if against:
            also = against[1] if len(against) > 1 else None
            done = _deepest(
                fit, self._depth(fit), against[0], also=also, is_only=also is None, is_whole=fit.fault is None
            )
            if self.best is None or done.rank > self.best.rank:
                self.best = done

    def failed(self, fits: Iterable[PartialMatch], finding: MatchFailure, line: PatternLine) -> list[PartialMatch]:
        """Record a failure that ends partial matches, if one came further than all before; returns no matches."""
        finding = with_pattern_line(finding, line)
        for fit in fits:
            is_taken = finding.kind not in KINDS_AT_UNMATCHED_NODE and line.key in fit.node_of_pattern
            best, depth = self.best, self._depth(fit) - (self.sizes.get(line.key, 1) if is_taken else 0)
            if best is None or (not best.is_only and not best.is_whole and depth > best.matched):
                first, also = (finding, None) if fit.fault is None else (fit.fault, finding)
                self.best = _deepest(fit, depth, first, also)
        return []

    def tolerated(self, fits: Iterable[PartialMatch], finding: MatchFailure, line: PatternLine) -> list[PartialMatch]:
        """Record a failure and continue as if it matched, if nothing else has failed yet."""
        fits = list(fits)
        self.failed(fits, finding, line)
        found = [fit.copy() for fit in fits if fit.fault is None]
        for fit in found:
            fit.fault = with_pattern_line(finding, line)
        return found

    def _depth(self, fit: PartialMatch) -> int:
        """Number of matched pattern nodes, minus one if something failed."""
        return sum(self.sizes.get(key, 1) for key in fit.node_of_pattern) - (fit.fault is not None)

    def kept(self, fits: list[PartialMatch]) -> list[PartialMatch]:
        """The partial matches that came furthest; those without a fault first."""
        if len(fits) <= WAYS:
            return fits
        return sorted(fits, key=lambda fit: (fit.fault is not None, -self._depth(fit)))[:WAYS]

    def exact_matches(
        self, fit: PartialMatch, attempt: Callable[[MatchState, Continuation], bool], line: PatternLine
    ) -> list[PartialMatch]:
        """The partial matches with which the exact matcher continues."""
        state, found = fit.copy(), list[PartialMatch]()

        def then() -> bool:
            found.append(state.copy())
            return len(found) == WAYS

        attempt(state, then)
        if state.steps > STEP_LIMIT:
            message = f"gave up after {STEP_LIMIT} steps; the chain is too ambiguous"
            self.failed(
                [fit], MatchFailure("limit", "a chain of fewer operands", "too many", seen="", message=message), line
            )
        return found


def _deepest(
    fit: PartialMatch,
    depth: int,
    finding: MatchFailure,
    also: MatchFailure | None,
    is_only: bool = False,
    is_whole: bool = False,
) -> FurthestFailure:
    return FurthestFailure(
        depth,
        finding,
        also,
        is_only=is_only,
        nodes=tuple(fit.nodes),
        made=frozenset(fit.node_of_pattern),
        is_whole=is_whole,
    )


def with_pattern_line(finding: MatchFailure, line: PatternLine) -> MatchFailure:
    """A failure with the line of the pattern that is being matched, if it has none yet."""
    if finding.where and finding.op:
        return finding
    return replace(finding, where=finding.where or line.where, op=finding.op or line.op)
