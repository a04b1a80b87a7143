"""Rewrites one instance by one rule, and proves the result: `rewrite` without its report.

It does not search near misses, and the proof reuses the run.
"""

from functools import cached_property

import onnx

from surgeon.analysis.assumptions.model_assumptions import assumption_lines, with_assumptions
from surgeon.errors import CheckFailed, SurgeonError, UsageError
from surgeon.file.model import Model
from surgeon.ir.index_patch import index_patch
from surgeon.pipeline.acceptance.kernel_support import ANY_PROVIDER
from surgeon.pipeline.rewriting.driver_settings import DriverSettings
from surgeon.pipeline.rewriting.rule_run import RuleRun, gc_paused, open_index
from surgeon.pipeline.rewriting.site_regions import prove_sites
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import Outcome
from surgeon.proof.model.final_check import structural_fault
from surgeon.proof.site_proof import SiteProof, weakest_proof
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.rule import Rule


class InstanceRewrite:
    """A rule run on a model for a target, with the provider of the rule.  Raises SurgeonError as `rewrite` does.

    model: the given one, with the assumptions on its inputs that the conditions of the rule ask for.
    """

    def __init__(self, model: onnx.ModelProto, rule: Rule, target: str) -> None:
        self.model, settings = model, DriverSettings([rule], target, rule.ep or ANY_PROVIDER, is_strict=True)
        with gc_paused():
            while True:
                opened = Model.open(self.model)
                self.run = RuleRun(opened, open_index(opened), settings)
                assumed = self._assuming()
                if assumed is self.model:
                    break
                self.model = assumed
        self.assumptions = assumption_lines(self.model)

    def _assuming(self) -> onnx.ModelProto:
        """The model with further assumptions that the conditions ask for; the same model if there are none."""
        wanted = [miss.assumption for miss in self.run.driver.refusals if miss.assumption]
        try:
            return with_assumptions(self.model, [] if self.has_fired else wanted)
        except UsageError:  # the conditions of two forms contradict each other
            return self.model

    @property
    def has_fired(self) -> bool:
        """Whether anything was rewritten."""
        return bool(self.run.sites)

    @property
    def mismatches(self) -> list[Mismatch]:
        """Matches that the rule declines; if there are none, its near misses."""
        named = {rule.name for rule in self.run.settings.rules}
        return self.run.driver.refusals or self.run.driver.misses(named)

    @cached_property
    def rewritten(self) -> onnx.ModelProto:
        """The model after the rewrite."""
        with gc_paused():
            return index_patch(self.run.index).to_proto()

    def proved(self, options: CheckOptions) -> SiteProof | None:
        """The weakest proof of all sites; None if nothing was rewritten.

        Raises CheckFailed if the rewritten model is invalid.
        """
        if not self.has_fired:
            return None
        with gc_paused():
            prove_sites(self.run, self.model, options)
            proofs = [site.proof for site in self.run.sites if site.proof is not None]
            found = weakest_proof(proofs) if proofs else None
            complaint = None
            if found is None or found.outcome is not Outcome.FAILED:
                complaint = structural_fault(self.run.model, self.rewritten)
        if complaint is not None:
            raise CheckFailed(f"The rewritten model is invalid: {complaint}.")
        return found


def fires(model: onnx.ModelProto, rule: Rule, target: str) -> bool:
    """Whether a rule rewrites a model; True if the rule raises, so that the proof reports it."""
    try:
        return InstanceRewrite(model, rule, target).has_fired
    except SurgeonError:
        return True
