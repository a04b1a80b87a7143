"""The report of a recipe, and the part of it that a lock file saves."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.result_base import JsonRecord, ResultBase

_WORST = ("failed", "unproved", "unchecked", "proved")


@dataclass(slots=True)
class RecipeReport(JsonRecord, ResultBase):
    """What the steps of a recipe did.

    Examples:
        >>> import surgeon
        >>> recipe = surgeon.Recipe([surgeon.Rules("gelu")])
        >>> _, report = surgeon.run(recipe, "notebooks/models/tiny_distilbert.onnx", "out.onnx")
        >>> report.outcome, len(report.parts)
        ('proved', 1)
    """

    JSON = "source output outcome counts parts written seconds"

    source: str
    """The path of the model; empty for a model in memory."""
    output: str
    """The path of the output file; empty for a model in memory."""
    parts: list[EditReport | Report] = field(default_factory=list)
    """A report of each group of edits and of each step of rules, in order."""
    written: bool = False
    """Whether a file was written."""
    seconds: float = 0.0
    """How long the run took, in seconds."""

    @property
    def outcome(self) -> str:
        """The worst of failed, unproved, unchecked and proved over all parts; unchanged without changes."""
        found = {part.outcome for part in self.parts}
        return next((outcome for outcome in _WORST if outcome in found), "unchanged")

    @property
    def proved(self) -> bool:
        """Whether all changes are proved."""
        return self.outcome in ("proved", "unchanged")

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule fired; rules that did not fire are left out."""
        found: Counter[str] = Counter()
        for part in self.parts:
            if isinstance(part, Report):
                found.update(part.counts)
        return {rule: count for rule, count in found.items() if count}

    def locked(self) -> list[dict[str, Any]]:
        """The part that must not change in the next run: counts of rules, and sentences of edits."""
        return [
            {"rules": part.counts}
            if isinstance(part, Report)
            else {"edits": [[done.edit.flag, list(done.said)] for done in part.edits]}
            for part in self.parts
        ]

    def __repr__(self) -> str:
        return f"<RecipeReport {len(self.parts)} parts; {self.outcome}>"
