"""What stands against a match, as data: one finding of one attempt, and the mismatch that a person reads."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

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
    wanted: str
    found: str
    spot: str = ""
    told: str = ""
    change: str = ""
    where: str = ""
    op: str = ""
    at: str = ""
    opset: int = 0

    @property
    def sentence(self) -> str:
        """The finding as people read it."""
        return self.told or f"wanted {self.wanted}, found {self.found}{' ' if self.spot else ''}{self.spot}"


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """A line of a rule's file as it is and as it would be, or several that go together.

    file: its path; line: the number of the first one.
    """

    file: str
    line: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """A change to a rule's own pattern with which it fires where it was missed.

    what: what it does, as a command; lines: what is to be pasted, and where.
    """

    what: str
    lines: tuple[ChangedLine, ...]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a pattern does not fit somewhere.

    rule, pattern: by name.  node: the last node of the place, "" where the model as a whole lacks something; scope: the
    body or function it lies in, "" for the main graph.  reason: the sentence; also: what else stands against it.
    where: file:line of the pattern; op: what that line asks for.  kind, wanted, found: the same in fields; at: the node
    where it was found.  matched of total: nodes of the pattern that fit, and those of the form that came furthest.
    change: the smallest change to the model that would make the rule fire, "" where it is not obvious.  others: the
    further nodes with an equal miss.  opset: the version of ai.onnx with which the rule would fire, 0 where that is no
    help.  near: whether the rule came so near that who reads of a rewrite should know.  edits: of the rule, where it is
    the user's own and `explain` was asked: each makes it fire here.
    """

    rule: str
    pattern: str
    node: str
    reason: str
    where: str
    matched: int
    total: int = 0
    kind: Kind = ""
    wanted: str = ""
    found: str = ""
    change: str = ""
    op: str = ""
    at: str = ""
    also: str = ""
    scope: str = ""
    others: tuple[str, ...] = ()
    opset: int = 0
    near: bool = False
    edits: tuple[RuleEdit, ...] = ()

    @property
    def count(self) -> int:
        """At how many places it is missed so."""
        return 1 + len(self.others)

    def to_dict(self) -> dict[str, Any]:
        """Return the mismatch as JSON can hold it."""
        return {**asdict(self), "others": list(self.others)}
