"""Findings of the runs of one proof case, and the outcome if none of them failed."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.check_result import Outcome
from surgeon.proof.judge.error_summary import ErrorSummary
from surgeon.proof.proof_case import ProofCase
from surgeon.runtime.inputs.string_values import unmatched
from surgeon.runtime.sessions.engine_names import ORIGINAL_ITSELF


@dataclass(slots=True)
class RunFindings:
    """Findings of the runs of one case."""

    summary: ErrorSummary
    """Errors of the outputs."""
    runs: int = 0
    """Sets of inputs compared."""
    oracle: str = ""
    """Runtime of the replacement, and of the original if that differs."""
    not_on_target: str = ""
    """Why the target's runtime did not run the replacement on all inputs."""
    independent: bool = True
    """Whether neither side ran by a rule's own pattern."""
    reference: str = ORIGINAL_ITSELF
    """Name of the reference for both sides; results that are close to the original's need no other."""
    refusal: str = ""
    """Why the original did not run on the first inputs that it refused."""
    depends_on_weights: bool = False
    """Whether the region fails only for other weights than the usual ones."""
    is_informative: bool = False
    """Whether some run was at sizes other than 1."""
    unsupported_empty: str = ""
    """Sizes, one of them 0, at which the original runs and the replacement does not."""
    kinds: dict[str, None] = field(default_factory=dict)
    """Strategies on whose inputs both sides agreed."""
    assignments: list[DimAssignment] = field(default_factory=list)
    """Sizes at which both sides agreed."""

    @property
    def sizes(self) -> Iterable[str]:
        """The sizes at which both sides agreed, in words."""
        return (assignment.description for assignment in self.assignments if assignment.by_symbol)

    def agreement(self, case: ProofCase) -> tuple[Outcome, str]:
        """The outcome if no run failed: unproved if the runs were not informative."""
        if not self.runs and not self.refusal:
            why = "its inputs are too large to generate, or one of their dims is always 0"
            return Outcome.UNPROVED, why
        if not self.runs:
            why = f"the original nodes reject all generated inputs ({self.refusal.rstrip('.')})"
            return Outcome.UNPROVED, f"{why}{case.cure}"
        if not self.is_informative:
            why = "of all sizes tried, the original nodes run only with every dynamic dim equal to 1"
            return Outcome.UNPROVED, f"{why}{case.cure}"
        if case.inputs and not self.summary.is_informative:
            why = "no run could show a difference: every output was empty, NaN or dominated by rounding"
            return Outcome.UNPROVED, why
        if doubt := unmatched(case.models.before) or self.summary.unproved_reason():
            return Outcome.UNPROVED, doubt
        only_one = "with a past, the replacement runs several rows only in a batch of one" if case.cache_limits else ""
        scope = _scope_note(case.intended_differences, self.unsupported_empty)
        notes = self.summary.loose_limit_note(), scope, only_one
        return Outcome.PROVED, "; ".join(filter(None, notes))


def _scope_note(intended: Collection[str], empty: str) -> str:
    """The inputs that a proof does not cover, as a note; empty for none.

    intended: kinds of inputs for which a rule differs on purpose.  empty: sizes, one of them 0, at which only the
    original runs.
    """
    kinds = " and ".join(sorted(intended))
    notes = (
        f"equal for all inputs except {kinds} ones, where the rule differs on purpose" if kinds else "",
        f"the replacement does not run if a size is 0 ({empty}), but the original does" if empty else "",
    )
    return "; ".join(filter(None, notes))
