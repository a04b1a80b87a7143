"""Reasons why a pattern does not match: the failure of one attempt, and the mismatch that is shown to a user."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from surgeon.ops.schemas.helper_names import helper_name
from surgeon.result_base import ResultBase
from surgeon.text import and_more, format_count

FailureKind = Literal[
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
    "already",
    "limit",
    "error",
]
DECISIVE_KINDS = frozenset(
    {"value", "attribute", "domain", "dtype", "rank", "missing optional"}
)  # the search for a better one ends

KINDS_SHOWING_VALUE = ("dtype", "shape condition", "condition")  # the rule's own sentence does not show the value
KINDS_AT_UNMATCHED_NODE = frozenset({"op", "domain"})  # the node of the failure is not a matched one


@dataclass(frozen=True, slots=True)
class MatchFailure:
    """One reason why a pattern does not match."""

    kind: FailureKind
    """Kind of failure."""
    wanted: str
    """The requirement of the pattern, in words that are equal for equal failures."""
    found: str
    """The part of the model that was found, likewise."""
    seen: str = ""
    """Its position, in the words of the sentence."""
    message: str = ""
    """The sentence, if it is not "expected ..., found ..."."""
    change: str = ""
    """Change to the model that would fix it, as a command; "" if not obvious."""
    where: str = ""
    """file:line in the pattern."""
    op: str = ""
    """Op that this line requires."""
    at: str = ""
    """Node or tensor concerned."""
    opset: int = 0
    """Version of ai.onnx that would fix it; 0: none."""
    assumption: str = ""
    """Assumption on an input of the model that would fix it, as "NAME: WORDS"; "" for none."""

    @property
    def sentence(self) -> str:
        """The failure as a sentence."""
        return self.message or f"expected {self.wanted}, found {self.found}{' ' if self.seen else ''}{self.seen}"


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """A changed line of a rule file, or several consecutive ones."""

    file: str
    """Path of the file."""
    line: int
    """Number of the first line."""
    old: str
    """Current text."""
    new: str
    """Replacement text."""


@dataclass(frozen=True, slots=True)
class RuleFix:
    """A change to a user's pattern after which the rule matches."""

    what: str
    """The change, as a command."""
    lines: tuple[ChangedLine, ...]
    """The changed lines."""


@dataclass(frozen=True, slots=True)
class Mismatch(ResultBase):
    """Why a pattern does not match.  It prints in the form of the command line.  Its fields are those of a report.

    Examples:
        >>> import surgeon
        >>> miss = surgeon.explain("notebooks/models/tiny_distilbert.onnx", "skip_layer_norm")[0]
        >>> miss.node, miss.kind, miss.matched, miss.total, miss.found
        ('node_layer_norm', 'shape condition', 2, 2, 'float[1, min(64, sequence), 32]')
    """

    rule: str
    """Name of the rule."""
    pattern: str
    """Name of the pattern."""
    node: str
    """The last node of the site; "" if the model as a whole lacks something."""
    reason: str
    """The reason, as a sentence."""
    where: str
    """file:line in the pattern."""
    matched: int
    """Number of matched nodes of the pattern."""
    total: int = 0
    """Number of nodes of the form that matched most; 0 if all of it matched."""
    kind: FailureKind = ""
    """Kind of failure: "value", "op", "attribute", "dtype", "escape", "absent", ..."""
    wanted: str = ""
    """The requirement of the pattern, in words that are equal for equal mismatches."""
    found: str = ""
    """The part of the model that was found."""
    change: str = ""
    """The smallest change to the model that would make the rule fire; "" if it is not obvious."""
    op: str = ""
    """Op that this line of the pattern requires."""
    at: str = ""
    """The node or tensor."""
    also: str = ""
    """Another reason that prevents the match."""
    scope: str = ""
    """Body or function that contains the site; "" for the main graph."""
    others: tuple[str, ...] = ()
    """Further nodes with an equal mismatch."""
    opset: int = 0
    """Version of ai.onnx with which the rule would fire; 0: none."""
    assumption: str = ""
    """Assumption with which the rule would fire, as "NAME: WORDS"; "" for none."""
    near: bool = False
    """Whether it is a near miss, which the report of a rewrite shows."""
    of_written: bool = False
    """Whether a node of the match, or one that prevents it, was written by the same run."""
    edits: tuple[RuleFix, ...] = ()
    """Changes to the user's own rule that make it fire here, if `explain` was asked for them."""
    _seen: tuple[Any, ...] = field(default=(), repr=False, compare=False)  # the index and the rule, for drawing

    @property
    def count(self) -> int:
        """The number of sites with this mismatch."""
        return 1 + len(self.others)

    def to_dict(self) -> dict[str, Any]:
        """Return the mismatch as JSON can hold it."""
        edits = [asdict(edit) for edit in self.edits]
        message = {item.name: getattr(self, item.name) for item in fields(self) if not item.name.startswith("_")}
        return {**message, "others": list(self.others), "edits": edits}

    def __str__(self) -> str:
        """Its text on the command line."""
        return "\n".join([mismatch_text(self), *detail_lines(self)])


def mismatch_text(miss: Mismatch, rules: str = "", others: int | None = None) -> str:
    """A mismatch in one line: the rules, the node, the reason, the line of the rule, and how much matched."""
    more = and_more(len(miss.others) if others is None else others, "like it")
    at = f" at {miss.node}{more}" if miss.node else ""
    return f"{rules or miss.rule}{at}: {reason_text(miss)}"


def reason_text(miss: Mismatch) -> str:
    """The reason, the line of the rule, and how much matched."""
    return f"{miss.reason} ({pattern_line(miss.where, miss.op)}){_matched_text(miss) if miss.node else ''}"


def detail_lines(miss: Mismatch) -> Iterator[str]:
    """Further lines of a mismatch: the value found, another reason, and the changes that would fix it."""
    if miss.kind in KINDS_SHOWING_VALUE and miss.found and miss.found not in miss.reason:
        yield f"  found: {miss.found} for {miss.at!r}"
    if miss.also:
        yield f"  and: {miss.also}"
    for number, edit in enumerate(miss.edits):
        yield f"  {'or' if number else 'change the rule'}: {edit.what}"
        for item in edit.lines:
            lines = enumerate(item.new.splitlines(), start=item.line)
            yield from (f"    {Path(item.file).name}:{at}: {text}" for at, text in lines)
    if miss.change:
        yield f"  {'or change the model' if miss.edits else 'change'}: {miss.change}"


def pattern_line(where: str, op: str) -> str:
    """A line of a pattern and its op: gelu.py:9 erf."""
    domain, _, name = op.rpartition("::")
    return f"{where} {helper_name(domain, name) if name.isidentifier() else op}".rstrip()


def _matched_text(miss: Mismatch) -> str:
    """The share of a pattern that matched, to end a sentence; empty if nothing did and its size is unknown."""
    if miss.total:
        return f"; {miss.matched} of {format_count(miss.total, 'node')} matched"
    return f"; {format_count(miss.matched, 'node')} matched" if miss.matched else ""
