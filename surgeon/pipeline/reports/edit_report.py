"""What edits of a whole model did, as data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from onnx import ModelProto

from surgeon.proof.check_result import CheckResult
from surgeon.result_base import ResultBase, to_json_dict


class EditLike(Protocol):
    """What was asked for: an edit, or another value that a change of a whole model is told by."""

    flag: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        ...


@dataclass(frozen=True, slots=True)
class AppliedEdit:
    """What one edit did.

    Attributes:
        edit: the edit.
        said: what was changed, a sentence each; none where the model was so already.
    """

    edit: EditLike
    said: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"edit": self.edit.flag, **self.edit.to_dict(), "said": list(self.said)}


@dataclass(slots=True)
class EditReport(ResultBase):
    """What edits of a whole model did.

    Attributes:
        source: the model that was read, by its path; empty for one in memory.
        output: the file that was to be written, likewise.
        edits: what each did, in order.
        by_structure: whether every node of the result is the original's own, names apart.
        other: what of it is not, as a clause; empty where all is.
        check: the comparison under ONNX Runtime, None where nothing was run.
        nodes: how many nodes the main graph had before and has after.
        bytes: how many of the written model's bytes were copied as they lie, and how many are new; data files apart.
        written: whether a file was.
        seconds: how long it took.
        skeletons: the model before and after, without the data of large tensors.
        refused: why ONNX Runtime loads neither the original nor the result, "" where it loads the original.

    Examples:
        >>> import surgeon
        >>> edits = [surgeon.edits.Rename("input_ids", "tokens")]
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edits, output="renamed.onnx")
        >>> report.outcome, report.edits[0].said
        ('proved', ("input 'input_ids' is called 'tokens'",))
    """

    source: str
    output: str
    edits: list[AppliedEdit] = field(default_factory=list)
    by_structure: bool = True
    other: str = ""
    check: CheckResult | None = None
    nodes: tuple[int, int] = (0, 0)
    bytes: tuple[int, int] = (0, 0)
    written: bool = False
    seconds: float = 0.0
    skeletons: tuple[ModelProto, ModelProto] | None = field(default=None, repr=False, compare=False)
    refused: str = ""

    @property
    def outcome(self) -> str:
        """proved, failed, unproved, unchecked, or unchanged where no edit had anything to do."""
        if not any(done.said for done in self.edits):
            return "unchanged"
        if self.check is not None:
            return self.check.outcome.value
        return "proved" if self.by_structure else "unchecked"

    @property
    def proved(self) -> bool:
        """Whether the result is what it claims to be, or nothing was changed."""
        return self.outcome in ("proved", "unchanged")

    @property
    def doubts(self) -> list[str]:
        """Why the result is not proved, where something was run: one sentence."""
        return [self.check.reason] if self.check is not None and self.outcome != "proved" else []

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON can hold it."""
        return to_json_dict(
            self, "source output outcome edits by_structure other check nodes bytes written seconds refused"
        )

    def __repr__(self) -> str:
        said = "; ".join(sentence for done in self.edits for sentence in done.said) or "nothing to do"
        return f"<EditReport {said}; {self.outcome}>"
