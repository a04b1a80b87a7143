"""The results of edits of a whole model, as data."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from onnx import ModelProto

from surgeon.pipeline.reports.report import Report
from surgeon.proof.check_result import CheckResult, Outcome


class EditLike(Protocol):
    """A requested change of a whole model: an edit, or another record such as a merge."""

    flag: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """The change as values that JSON supports."""
        ...


@dataclass(frozen=True, slots=True)
class AppliedEdit:
    """The result of one edit."""

    edit: EditLike
    """The edit."""
    said: Sequence[str]
    """Its changes, one sentence each; empty if it changed nothing."""

    def to_dict(self) -> dict[str, Any]:
        """The edit and its changes as values that JSON supports."""
        return {"edit": self.edit.flag, **self.edit.to_dict(), "said": list(self.said)}


@dataclass(slots=True)
class EditReport(Report):
    """The result of edits of a whole model.

    Examples:
        >>> import surgeon
        >>> edits = [surgeon.edits.Rename("input_ids", "tokens")]
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edits, output="renamed.onnx")
        >>> report.outcome, report.edits[0].said
        ('proved', ("input 'input_ids' is renamed to 'tokens'",))
    """

    JSON = "source output outcome assumptions? edits by_structure other check nodes bytes written seconds refused"

    edits: list[AppliedEdit] = field(default_factory=list)
    """The result of each edit, in order."""
    by_structure: bool = field(default=True, kw_only=True)
    """Whether every node of the result is a node of the original, apart from names."""
    other: str = ""
    """First difference in structure, as a clause; empty without one."""
    nodes: tuple[int, int] = (0, 0)
    """Nodes of the main graph (before, after)."""
    bytes: tuple[int, int] = (0, 0)
    """Bytes of the output file (copied from the source, new), without data files."""
    skeletons: tuple[ModelProto, ModelProto] | None = field(default=None, repr=False, compare=False)
    """Model (before, after), without the data of large tensors."""

    @property
    def changed(self) -> bool:
        """Whether an edit changed anything."""
        return any(done.said for done in self.edits)

    def record(self, found: CheckResult | None) -> None:
        """Add the check of a group of edits; the outcome of the first that is not proved stays."""
        before = self.check
        if found is not None and before is not None:
            reason = " ".join(dict.fromkeys(part for part in (before.reason, found.reason) if part))
            differences = tuple(dict.fromkeys((*before.differs_on, *found.differs_on)))
            worse = found if before.outcome is Outcome.PROVED else before
            found = replace(worse, reason=reason, differs_on=differences)
        self.check = before if found is None else found

    def saved(self, copied: int, new: int, replaces: bool) -> None:
        """Record that the result is written."""
        Report.saved(self, copied, new, replaces)  # no super(): slots make another class
        self.bytes = copied, new

    def __repr__(self) -> str:
        said = "; ".join(sentence for done in self.edits for sentence in done.said) or "nothing to do"
        return f"<EditReport {said}; {self.outcome}>"
