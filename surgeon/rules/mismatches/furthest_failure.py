"""Why a pattern does not match at a node: the search, with a listener.

Each way of the search may have one failure: the listener records it and lets the search go on as if it fitted.  If all
else fits, that failure is the only thing wrong.  If no way has a single failure, the one that came furthest is the
result.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.rules.matching.associative.identities import without_virtual
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.listener import Continuation, Reason
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import STEP_LIMIT, MatchState
from surgeon.rules.matching.matcher import build_match, candidate_outputs, first_output
from surgeon.rules.matching.node_matchers import qualified_op
from surgeon.rules.matching.pattern import NodePattern
from surgeon.rules.mismatches import chain_failures, node_failures
from surgeon.rules.mismatches.mismatch import DECISIVE_KINDS, MatchFailure

MAX_FAILURES = 4000  # failures of one search that are looked at
IN_WORDS = {function.__name__: function for function in (*node_failures.REPORTED, *chain_failures.REPORTED)}
AT_UNMATCHED_NODE = ("wrong_op", "no_form", "not_a_chain", "namesake")  # failures whose node is not a matched one

Refuse = Callable[[Match, bool], MatchFailure | None]  # why a match is refused; the flag: whether it has a failure


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


def furthest_failure(index: Index, compiled: CompiledPattern, root: Node, refuse: Refuse) -> FurthestFailure | None:
    """Why a pattern does not match at a node; None if it does and is not refused, or if the node lacks the output."""
    name = first_output(compiled, root)
    return None if name is None else FailureListener(MatchState(index, root.scope), compiled, refuse).search(name)


class FailureListener:
    """Keeps the failure that came furthest in one search.  refuse: judges a match in which all else fits."""

    def __init__(self, state: MatchState, compiled: CompiledPattern, refuse: Refuse) -> None:
        self.state, self.compiled, self.refuse = state, compiled, refuse
        self.sizes = compiled.chain_lengths  # number of pattern nodes by key, if more than one
        self.best: FurthestFailure | None = None
        self.fault: Callable[[], MatchFailure] | None = None  # the failure that this way of the search has
        self.heard = 0

    def search(self, name: str) -> FurthestFailure | None:
        """The furthest failure if the first output is this tensor; None if that matches."""
        self.state.listener = self

        def attempt(then: Continuation, is_near: bool = False) -> bool:
            return self.compiled.outputs[0](self.state, name, then)

        return None if self.exact_first(attempt, partial(self._finish, (name,))) else self.best

    def fails(self, then: Continuation | None, reader: NodePattern | None, reason: Reason) -> bool:
        """Record a failure, and go on as if it fitted, if nothing else has failed yet.  Returns False."""
        self.heard += 1
        if self.heard > MAX_FAILURES:
            return False
        finding = partial(self._words, reader, reason, nodes=tuple(self.state.nodes))
        is_taken = reason[0] not in AT_UNMATCHED_NODE and id(reader) in self.state.node_of_pattern
        depth = self._depth() - (self.sizes.get(id(reader), 1) if is_taken else 0)
        best = self.best
        if best is None or (not best.is_only and not best.is_whole and depth > best.matched):
            self.best = self._furthest(depth, [finding()] if self.fault is None else [self.fault(), finding()])
        if then is not None and self.fault is None:
            self.fault = finding
            then()
            self.fault = None
        return False

    def exact_first(self, attempt: Callable[..., bool], then: Continuation) -> bool:
        """Search the ways in which a choice fits exactly, and only if there are none, those that fail somewhere."""
        state, is_exact, steps, reader = self.state, False, self.state.steps, self.state.reader

        def go_on() -> bool:
            nonlocal is_exact, steps
            is_exact, state.listener = True, self
            state.steps, steps = steps, state.steps
            found = then()
            state.steps, steps = steps, state.steps
            state.listener = None
            return found

        if self.heard > MAX_FAILURES:
            return False
        state.listener, state.steps = None, 0
        if attempt(go_on):
            return True
        state.listener, state.reader, state.steps, taken = self, reader, steps, state.steps
        if taken > STEP_LIMIT:
            self.fails(None, reader, ("too_ambiguous",))
        return not is_exact and attempt(then, is_near=True)

    def _finish(self, names: tuple[str, ...]) -> bool:
        """All outputs so far matched: go on with the next, or check the match as a whole."""
        state, compiled, place = self.state, self.compiled, len(names)
        if place == len(compiled.outputs):
            return self._conclude(names)
        further, matcher = candidate_outputs(state, compiled, names), compiled.outputs[place]
        if not further:
            return self.fails(None, None, ("no_output", compiled, place))
        for name in further:
            state.reader = None
            if matcher(state, name, partial(self._finish, (*names, name))):
                return True
        return False

    def _conclude(self, names: tuple[str, ...]) -> bool:
        """All nodes matched: check the match as a whole; returns whether nothing prevents it."""
        state, nodes = self.state, self.state.nodes
        state.nodes = without_virtual(nodes)
        match, passed, is_free = build_match(state, self.compiled, names)
        blocked = node_failures.removal_failures(state, self.compiled, match, passed=passed, is_free=is_free)
        fault = None if self.fault is None else self.fault()
        against = [fault, *blocked, self.refuse(match, fault is not None)]
        failures = [self._with_line(finding, None) for finding in against if finding is not None]
        if failures:
            done = self._furthest(self._depth(), failures)
            done = done._replace(is_only=done.also is None, is_whole=fault is None)
            if self.best is None or done.rank > self.best.rank:
                self.best = done
        state.nodes = nodes
        return not failures

    def _depth(self) -> int:
        """Number of matched pattern nodes, minus one if something failed."""
        return sum(self.sizes.get(key, 1) for key in self.state.node_of_pattern) - (self.fault is not None)

    def _furthest(self, depth: int, failures: Sequence[MatchFailure]) -> FurthestFailure:
        """The nodes that have matched so far, and one or two failures."""
        state = self.state
        nodes, made = tuple(without_virtual(state.nodes)), frozenset(state.node_of_pattern)
        also = failures[1] if len(failures) > 1 else None
        return FurthestFailure(depth, failures[0], also, is_only=False, nodes=nodes, made=made)

    def _words(self, reader: NodePattern | None, reason: Reason, nodes: Sequence[Node]) -> MatchFailure:
        """A failure in words.  nodes: matched before it."""
        state = MatchState(self.state.index, self.state.scope)
        state.nodes = without_virtual(list(nodes))
        return self._with_line(IN_WORDS[reason[0]](state, *reason[1:]), reader)

    def _with_line(self, finding: MatchFailure, reader: NodePattern | None) -> MatchFailure:
        """A failure with the line of the pattern that is being matched, if it has none yet."""
        where, op = (self.compiled.pattern.where, "") if reader is None else (reader.where, qualified_op(reader))
        return replace(finding, where=finding.where or where, op=finding.op or op)
