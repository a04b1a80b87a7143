"""An upgrade before rules: it stays if its claim holds and, without a requested opset, if a rule fires more often."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from surgeon.errors import GraphError
from surgeon.file.model import Model
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rule_run import RuleRun
from surgeon.pipeline.transform import Claim, Failure
from surgeon.pipeline.upgrading.upgrade import Upgrade


@dataclass(frozen=True, slots=True)
class UpgradeForRules:
    """Raise the opset before rules run; if that fails, to an older one, or not at all."""

    opset: Any
    """An opset, or "auto" for the lowest one with which all waiting rules fire."""
    report: RewriteReport
    """Report of the rules."""
    run_over: Callable[[Model, Checks], Any]
    """Runs the rules over a model."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Raise the opset."""
        if self.opset != "auto":
            return _OpsetChoice(self, checks, None, [self.opset]).next(draft)
        plain = self.run_over(draft.before, checks).run
        opsets = sorted(plain.driver.blocked_by_opset, reverse=True)  # the newest lets all of them fire
        return _OpsetChoice(self, checks, plain, opsets).next(draft)


@dataclass(slots=True)
class _OpsetChoice:
    """The remaining opsets to try."""

    asked: UpgradeForRules
    """The request."""
    checks: Checks
    """The checks."""
    plain: RuleRun | None
    """The rules over the original model; None for a requested opset."""
    opsets: list[int]
    """Opsets to try, in order."""
    opset: int = 0
    """The opset that is tried."""
    why: str = "no rule would fire more often with a newer opset"
    """Why the last opset was rejected, as a clause."""
    first: str = ""
    """Why the first opset was rejected."""

    def next(self, draft: ModelDraft) -> Claim:
        """The claim of the next opset that the nodes allow; without one, the claim that nothing changes."""
        report = self.asked.report
        report.steps[:] = [step for step in report.steps if step is not report.upgrade]
        while self.opsets:
            self.opset = self.opsets.pop(0)
            try:
                claim = Upgrade(self.opset).apply(draft, self.checks)
            except GraphError as error:
                self._note(str(error).rstrip("."))
            else:
                if self.plain is None or self._gains(self.plain, draft):
                    report.steps.append(claim.report)
                    report.not_upgraded, claim.less = self.first, self._less
                    return claim
                self._note(f"no rule fires more often with opset {self.opset}")
            draft.reset()
        report.not_upgraded = self.why
        return Claim.unchanged(report)

    def _gains(self, plain: RuleRun, draft: ModelDraft) -> bool:
        """Whether a rule that waits for the opset fires more often in the upgraded model."""
        better = self.asked.run_over(draft, self.checks).run
        return _fires_more(plain, better, plain.driver.blocked_by_opset[self.opset])

    def _less(self, failure: Failure, draft: ModelDraft) -> Claim:
        """The claim of the next opset."""
        self._note(failure.message)
        return self.next(draft)

    def _note(self, why: str) -> None:
        self.why = why.removesuffix("; nothing was written")
        self.first = self.first or f"to opset {self.opset}: {self.why}"


def _fires_more(plain: RuleRun, better: RuleRun, rules: Iterable[str]) -> bool:
    """Whether one of these rules fires more often in the better run."""
    one, other = (Counter(step.rule for step in run.driver.log) for run in (plain, better))
    return any(other[rule] > one[rule] for rule in rules)
