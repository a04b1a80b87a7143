"""An upgrade before rules: it is made only if it holds and, unless an opset was asked for, if a rule gains by it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from surgeon.errors import GraphError
from surgeon.file.model import Model
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.pipeline.reports.upgrade_report import UpgradeReport
from surgeon.pipeline.rewriting.rule_run import RuleRun
from surgeon.pipeline.transform import Claim, Failure
from surgeon.pipeline.upgrading.upgrade import Upgrade


class RulesToRun(Protocol):
    """Rules that run after the upgrade."""

    @property
    def report(self) -> Report:
        """Report of the rules."""
        ...

    @property
    def runs(self) -> dict[Model, Any]:
        """Runs that were made to choose an upgrade, by their model."""
        ...

    def run_over(self, model: Model, checks: Checks) -> Any:
        """Run the rules over a model."""
        ...


@dataclass(frozen=True, slots=True)
class UpgradeForRules:
    """Raise the opset before rules run; if that fails, to an older one, or not at all."""

    rules: RulesToRun
    """The rules."""
    opset: Any
    """An opset, or "auto" for the least one with which all rules fire that wait for one."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Raise the opset."""
        if self.opset != "auto":
            return _OpsetChoice(self.rules, checks, None, [self.opset]).next(draft)
        plain = self.rules.runs[draft.before] = self.rules.run_over(draft.before, checks)
        opsets = sorted(plain.run.driver.blocked_by_opset, reverse=True)  # the newest lets all of them fire
        return _OpsetChoice(self.rules, checks, plain.run, opsets).next(draft)


@dataclass(slots=True)
class _OpsetChoice:
    """The opsets that are left to try."""

    rules: RulesToRun
    """The rules."""
    checks: Checks
    """What to establish."""
    plain: RuleRun | None
    """The rules over the model as it is; None if the opset was asked for."""
    opsets: list[int]
    """Opsets to try, in order."""
    opset: int = 0
    """The opset that is tried."""
    why: str = "no rule would fire more often with a newer opset"
    """Why the last opset was not taken, as a clause."""
    first: str = ""
    """Why the first was not taken."""

    def next(self, draft: ModelDraft) -> Claim:
        """The claim of the next opset that the nodes allow; that nothing changes if there is none."""
        report = self.rules.report
        while self.opsets:
            self.opset = self.opsets.pop(0)
            try:
                claim = Upgrade(self.opset).apply(draft, self.checks)
            except GraphError as error:
                self._note(str(error).rstrip("."))
            else:
                if self.plain is None or self._gains(self.plain, draft):
                    assert isinstance(claim.report, UpgradeReport)  # as `Upgrade` claims
                    report.upgrade, report.not_upgraded, claim.less = claim.report, self.first, self._less
                    return claim
                self._note(f"no rule fires more often with opset {self.opset}")
            draft.reset()
        report.upgrade, report.not_upgraded = None, self.why
        return Claim.unchanged(UpgradeReport("", "", (0, 0), (0, 0)))

    def _gains(self, plain: RuleRun, draft: ModelDraft) -> bool:
        """Whether a rule that waits for the opset fires more often in the upgraded model."""
        better = self.rules.runs[draft] = self.rules.run_over(draft, self.checks)
        return _fires_more(plain, better.run, plain.driver.blocked_by_opset[self.opset])

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
