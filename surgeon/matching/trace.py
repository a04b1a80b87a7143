"""What an attempt to match found in its way: the deepest miss, and the one that alone stands against a match.

An attempt that explains itself may excuse one miss and go on as if it were none.  Where all else then fits, that miss
is the reason, and mending it would make the pattern fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from surgeon.indexing.scope import Node

Kind = Literal[
    "",
    "value",
    "operand",
    "op",
    "domain",
    "attribute",
    "missing optional",
    "dtype",
    "rank",
    "shape condition",
    "condition",
    "escape",
    "graph output",
    "opset",
    "kernel",
    "schema",
    "target",
    "absent",
    "limit",
]
EXCUSES = 48  # misses excused in turn in one attempt
CERTAIN = frozenset(
    {"value", "attribute", "domain", "dtype", "rank", "missing optional"}
)  # no better one is looked for

NOT_TAKEN = frozenset({"op", "domain"})  # the node at which these are found is not among those that match


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that stands against a match.

    where: file:line of the pattern; op: what that line asks for.  wanted, found: in words that hold for all equal
    misses; spot: where it was found, as the sentence says it; at: the node or tensor concerned, where it is one.
    told: the sentence, where it is not `wanted ..., found ...`.  change: what would mend it, as a command; empty where
    that is not obvious.  opset: the version of ai.onnx at which it would be mended, 0 where that is no help.
    """

    kind: Kind
    where: str
    wanted: str
    found: str
    spot: str = ""
    told: str = ""
    change: str = ""
    op: str = ""
    at: str = ""
    opset: int = 0

    @property
    def sentence(self) -> str:
        """The finding as people read it."""
        return self.told or f"wanted {self.wanted}, found {self.found}{' ' if self.spot else ''}{self.spot}"


@dataclass(frozen=True, slots=True)
class Deepest:
    """The furthest that an attempt came.

    matched: nodes that fit.  also: what stands in the way beside the finding.  is_only: all else fits.  nodes: those
    that were matched by then.  forms: which form of each any_of was being tried.  is_whole: all nodes fit, and the
    match as a whole was refused.
    """

    matched: int
    finding: Finding
    also: Finding | None
    is_only: bool
    nodes: tuple[Node, ...]
    forms: dict[int, int]
    is_whole: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether mending the finding would make the pattern fit, and nothing more likely is to be looked for."""
        return self.is_only and self.finding.kind in CERTAIN

    @property
    def rank(self) -> tuple[bool, bool, bool, int]:
        """Sorts last what is certain to be the reason, and came furthest."""
        return self.is_whole, self.is_only, self.is_certain, self.matched


class Trace:
    """Keeps the deepest of all misses seen in one attempt.

    excuse: the miss that is being taken for none.  excuses: how many more may be, one at a time.  forms: which form of
    each any_of is being tried.  line: file:line and op of the pattern that is being matched, and its key in the state.
    sizes: nodes of the pattern by such a key, where they are more than one.  refusal: why a match was not accepted.
    """

    __slots__ = ("best", "excuse", "excuses", "forms", "line", "refusal", "sizes")

    def __init__(self, excuses: int = 0) -> None:
        self.best: Deepest | None = None
        self.excuse: Finding | None = None
        self.excuses = excuses
        self.forms: dict[int, int] = {}
        self.line = ("", "", 0)
        self.sizes: dict[int, int] = {}
        self.refusal: Finding | None = None

    def placed(self, finding: Finding) -> Finding:
        """A finding with the line of the pattern that is being matched, where it has none of its own."""
        if finding.where and finding.op:
            return finding
        where, op, _ = self.line
        return replace(finding, where=finding.where or where, op=finding.op or op)

    def note(self, nodes: Sequence[Node], made: Mapping[int, Node], finding: Finding) -> None:
        """Remember a miss on the way if it lies deeper than the one remembered.

        made: the node of each part of the pattern that is matched or being matched.
        """
        best, depth = self.best, self._depth(made)
        if finding.kind not in NOT_TAKEN and self.line[2] in made:
            depth -= self.sizes.get(self.line[2], 1)
        if best is None or (not best.is_only and not best.is_whole and depth > best.matched):
            first, also = (finding, None) if self.excuse is None else (self.excuse, finding)
            self.best = Deepest(depth, first, also, False, tuple(nodes), dict(self.forms))

    def _depth(self, made: Mapping[int, Node]) -> int:
        """Nodes of the pattern that are matched, one less where a miss in one is excused."""
        return sum(self.sizes.get(key, 1) for key in made) - (self.excuse is not None)

    def complete(self, nodes: Sequence[Node], made: Mapping[int, Node], findings: Sequence[Finding]) -> bool:
        """All nodes fit; findings: what stands against the match as a whole.  Returns whether to look no further."""
        against = [self.excuse, *findings] if self.excuse is not None else list(findings)
        matched = self._depth(made)
        is_only = len(against) == 1
        done = Deepest(
            matched,
            against[0],
            None if is_only else against[1],
            is_only,
            tuple(nodes),
            dict(self.forms),
            self.excuse is None,
        )
        if self.best is None or done.rank > self.best.rank:
            self.best = done
        return is_only and against[0].kind in CERTAIN
