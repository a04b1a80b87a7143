"""The report of a run: the changes of its transforms, whether they are proved, and the durations."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surgeon.pipeline.reports.site import Site
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.result_base import JsonRecord, ResultBase

UNCHANGED = "unchanged"
OUTCOMES = ("failed", "unproved", "unchecked", "proved", UNCHANGED)
"""The outcomes of transforms, the worst first."""


@dataclass(slots=True)
class Report(JsonRecord, ResultBase):
    """The result of a run, or of one transform of it, which is of a class with further fields.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> report.proved, len(report.sites), report.nodes
        (True, 4, (180, 164))
    """

    JSON = "source output outcome assumptions? counts parts=steps written seconds"

    source: str
    """Path of the input model; empty if it was in memory."""
    output: str
    """Path of the output file or folder; empty if the result stays in memory."""
    steps: list["Report"] = field(default_factory=list, kw_only=True)
    """Reports of the steps of the run; for one transform, of the steps before it, in order."""
    check: CheckResult | None = field(default=None, kw_only=True)
    """Comparison of the whole models under ONNX Runtime; None if nothing was run."""
    by_structure: bool = field(default=False, kw_only=True)
    """Whether every node of the result is a node of the original, apart from names."""
    refused: str = field(default="", kw_only=True)
    """Why ONNX Runtime loads neither the original nor the result; empty if it loads one or was not run."""
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)
    """Assumptions on the inputs that all of this depends on, as "NAME: WORDS": the user's, and those of the model."""
    written: bool = field(default=False, kw_only=True)
    """Whether the result was written."""
    is_copy: bool = field(default=False, kw_only=True)
    """Whether all bytes of its file were copied."""
    replaces: bool = field(default=False, kw_only=True)
    """Whether the output file replaced another file than the input model."""
    phases: dict[str, float] = field(default_factory=dict, kw_only=True)
    """Seconds by phase, without the steps: "read", "match", "prove", "check", "write"."""

    @property
    def flat(self) -> "list[Report]":
        """All steps and their steps, in order, and this report itself."""
        return [*(inner for step in self.steps for inner in step.flat), self]

    def holds(self, report: "Report") -> bool:
        """Whether a report is this one or one of its steps, by identity."""
        return any(report is one for one in self.flat)

    @property
    def changed(self) -> bool:
        """Whether the transform itself changed the model."""
        return False

    @property
    def own_outcome(self) -> str:
        """The outcome without the steps."""
        if not self.changed:
            return UNCHANGED
        if self.check is not None:
            return self.check.outcome.value
        return "proved" if self.by_structure else "unchecked"

    @property
    def outcome(self) -> str:
        """The worst of failed, unproved, unchecked and proved over all steps; unchanged if nothing was changed."""
        return min((one.own_outcome for one in self.flat), key=OUTCOMES.index)

    @property
    def proved(self) -> bool:
        """Whether all changes are proved, or nothing was changed."""
        return self.outcome in ("proved", UNCHANGED)

    @property
    def doubts(self) -> list[str]:
        """Why sites, or the whole model, are not proved: one sentence each, with the name of the site."""
        found = [
            f"{site.rule} at {site.root}: {site.proof.reason}"
            for site in self.sites
            if site.proof is not None and site.outcome == "unproved"
        ]
        checks = [one.check for one in self.flat if one.check is not None]
        return found + [check.reason for check in checks if check.outcome is not Outcome.PROVED]

    @property
    def sites(self) -> list[Site]:
        """Sites of rules that are in the result."""
        return [site for step in self.steps for site in step.sites]

    @property
    def rolled_back(self) -> list[Site]:
        """Sites of rules that were rolled back because they failed or were not proved."""
        return [site for step in self.steps for site in step.rolled_back]

    @property
    def edits(self) -> list[Any]:
        """The result of each edit, in order."""
        return [done for step in self.steps for done in step.edits]

    @property
    def unused(self) -> dict[str, str]:
        """Patterns of `only` and `skip` that match no node, with a clause on the nearest names."""
        return {pattern: near for step in self.steps for pattern, near in step.unused.items()}

    @property
    def counts(self) -> dict[str, int]:
        """The number of times that each rule fired at sites in the result."""
        return dict(sum((Counter(step.counts) for step in self.steps), Counter[str]()))

    @property
    def nodes(self) -> tuple[int, int]:
        """Nodes (before the first step, after the last)."""
        sizes = [step.nodes for step in self.steps] or [(0, 0)]
        return sizes[0][0], sizes[-1][1]

    @property
    def duration(self) -> float:
        """Seconds, with those of the steps."""
        return sum(self.phases.values()) + sum(step.duration for step in self.steps)

    @property
    def seconds(self) -> Any:
        """The duration; for a rewrite, by phase."""
        return self.duration

    def record(self, found: CheckResult | None) -> None:
        """Set the comparison with the model before."""
        self.check = found

    def timed(self, seconds: Mapping[str, float]) -> None:
        """Add the durations of phases."""
        for phase, value in seconds.items():
            self.phases[phase] = self.phases.get(phase, 0.0) + value

    def saved(self, copied: int, new: int, replaces: bool) -> None:
        """Record that the result of the run is written: the bytes that were copied, the others, and `replaces`."""
        self.written, self.replaces, self.is_copy = True, replaces, not new
        for step in self.steps:
            step.saved(copied, new, replaces)
