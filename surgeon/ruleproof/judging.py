"""What becomes of one instance of a rule: rewritten, and proved, equal pairs of models once."""

from collections.abc import Sequence
from pathlib import Path

import onnx

from surgeon.errors import CheckFailed, SurgeonError
from surgeon.matching.compile import Compiled
from surgeon.matching.match import find
from surgeon.rewriting.near_misses import misses_of_pattern
from surgeon.ruleproof.cases import InstanceSpec
from surgeon.ruleproof.instances import read_on
from surgeon.ruleproof.layouts import is_runnable
from surgeon.ruleproof.opsets import Content, content, oldest_alike
from surgeon.ruleproof.result import MUTE, InstanceResult, Standing
from surgeon.ruleproof.trial import RuleTrial
from surgeon.ruleproof.zero_size import compare_zero_size
from surgeon.rules.rule import Rule
from surgeon.verdicts.result import Outcome

KEPT = "must keep its name: it is an output of the graph"  # how a refusal ends that is about the instance alone


class Judging:
    """Judges instances of one rule.  custom_ops: libraries and Python files that implement ops."""

    def __init__(self, rule: Rule, custom_ops: Sequence[str | Path]) -> None:
        self.rule, self.custom_ops = rule, custom_ops
        self._findings: dict[tuple[Content, Content, str], InstanceResult] = {}

    def found(self, case: InstanceSpec, model: onnx.ModelProto) -> InstanceResult:
        """What became of the instance of a case; where its output has to stay as it is, of one that is read on."""
        found = self._found(case, model)
        return self._found(case, read_on(model)) if found.reason.endswith(KEPT) else found

    def _found(self, case: InstanceSpec, model: onnx.ModelProto) -> InstanceResult:
        try:
            trial = RuleTrial(model, self.rule, case.target)
            if not trial.has_fired:
                return _unfired(trial, case.compiled)
            rewritten = trial.rewritten
        except SurgeonError as error:
            return InstanceResult(Standing.FAILED, str(error))
        before, after = content(model), content(rewritten)
        key = before, after, case.layout.kind
        if key not in self._findings:
            found = self._judged(case, trial)
            if found.standing is Standing.UNPROVED and found.is_instance and not found.reason.startswith(MUTE):
                found = self._judged_older(case, oldest_alike(model, before, after), before, after) or found
            self._findings[key] = found
        return self._findings[key]

    def _judged(self, case: InstanceSpec, trial: RuleTrial) -> InstanceResult:
        if case.layout.kind == "empty":
            return compare_zero_size(trial.model, trial.rewritten, self.custom_ops, self.rule.approximate)
        return self._checked(case, trial)

    def _judged_older(
        self, case: InstanceSpec, older: onnx.ModelProto | None, before: Content, after: Content
    ) -> InstanceResult | None:
        """The same two graphs under an older opset that means the same: ONNX Runtime may have the kernels there."""
        if older is None:
            return None
        trial = RuleTrial(older, self.rule, case.target)
        if (content(older), content(trial.rewritten)) != (before, after):
            return None
        found = self._judged(case, trial)
        return None if found.standing is Standing.UNPROVED else found

    def _checked(self, case: InstanceSpec, trial: RuleTrial) -> InstanceResult:
        """What the check of a rewrite finds."""
        try:
            proof = trial.proved(case.layout.dims(), self.custom_ops)
        except CheckFailed as error:
            return InstanceResult(Standing.FAILED, str(error))
        if proof is None:  # nothing was rewritten, which the caller has ruled out
            return InstanceResult(Standing.UNPROVED, "the check did not run")
        if proof.outcome is Outcome.PROVED and not proof.independent:
            reason = f"what is written has no kernel here but the rule's own pattern ({proof.oracle})"
            return InstanceResult(Standing.UNPROVED, reason)
        is_instance = proof.outcome is not Outcome.UNPROVED or is_runnable(trial.model, self.custom_ops)
        return InstanceResult(Standing(proof.outcome.value), proof.reason, proof.worst, is_instance)


def _unfired(trial: RuleTrial, compiled: Compiled) -> InstanceResult:
    """Spared where the pattern finds its instance and the rule refuses it; else the pattern has a fault."""
    index = trial.run.index
    if next(find(index, compiled, index.scopes[0]), None) is not None:
        refusals = trial.refusals
        return InstanceResult(Standing.SPARED, refusals[0].reason if refusals else "the rule refuses it")
    misses = sorted(misses_of_pattern(index, compiled, index.scopes[0]), key=lambda miss: -miss.matched)
    reason = f"{misses[0].reason} ({misses[0].where})" if misses else "no node is where the pattern could start"
    return InstanceResult(Standing.NOT_MATCHED, reason)
