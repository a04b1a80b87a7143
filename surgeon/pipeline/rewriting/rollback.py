"""The claims of a run of rules: all its sites at first, and fewer after each rollback."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from surgeon.ir.function_table import accidental_calls
from surgeon.ops.traversal import function_key
from surgeon.pipeline.acceptance.kernel_support import next_steps
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.reports.site import FAILED_PROOF, NOT_PROVED, Site
from surgeon.pipeline.rewriting.rule_run import RuleRun, gc_paused
from surgeon.pipeline.rewriting.step_replay import remaining_near_misses
from surgeon.pipeline.snapshot import Snapshot
from surgeon.pipeline.transform import Claim, EqualModels, Failure, Relation, Words
from surgeon.proof.check_result import Outcome
from surgeon.proof.model.load_check import tolerated_lacks
from surgeon.text import and_more

WORDS = Words.of("rewritten")._replace(
    differs="The rewritten model differs from the original, and no single site is the cause"
)


@dataclass(slots=True)
class RuleClaims:
    """The claims of one run of rules; a rollback replaces the run."""

    run: RuleRun
    """Run of the rules."""
    report: RewriteReport
    """Report of the rules, which is updated."""
    checks: Checks
    """The checks."""
    confirm: Callable[[], None]
    """Raises if rules fired another number of times than expected."""
    relation: Relation = field(default_factory=EqualModels)
    """How whole models are compared."""
    _is_announced: bool = False
    _undeclared: tuple[str, ...] = ()

    def report_run(self) -> None:
        """Report the replacements and near misses of the run, and the size of its result."""
        run, report = self.run, self.report
        report.sites, report.nodes_after = run.sites, run.index.count_nodes()
        report.constants = report.constants[0], run.index.count_constants()
        report.next_steps = (*next_steps(report.target, run.index), *self._undeclared)
        misses = run.driver.misses(report.named)
        report.misses = list(remaining_near_misses(report.rolled_back, misses, run.replay.refused))

    def first(self, draft: ModelDraft) -> Claim:
        """The claim of all sites, except for those that would change other nodes."""
        self._roll_back_accidental_calls()
        return self._claim(draft)

    def _claim(self, draft: ModelDraft) -> Claim:
        draft.rewritten = self.run.index
        return Claim(
            self.report,
            WORDS,
            self.relation,
            changed=bool(self.run.sites),
            sites=self.run.sites,
            prove=self._prove,
            confirm=self.confirm,
            less=self._less,
            tolerated=tolerated_lacks(self.report.target, self.report.ep),
        )

    def _prove(self, before: Snapshot) -> Failure | None:
        """Prove the sites without a proof; to blame are the failed and, if proof is required, the unproved ones."""
        if all(site.proof is not None for site in self.run.sites):
            return None
        # Not at the top: a run without proofs does not import it.
        from surgeon.pipeline.rewriting.proof_runtime import find_runtime
        from surgeon.pipeline.rewriting.site_regions import prove_sites
        from surgeon.proof.cache.notes import all_proved, note

        if not self._is_announced:
            self._is_announced = True
            self._report_phase("prove")
        with self.checks.timer.phase("prove"):
            options = self.checks.options
            runtime = find_runtime(self.report, options, self.checks.plugin)
            prove_sites(self.run, before.runnable, options, runtime)
        self._report_undeclared()
        if self.checks.options.cache and {site.outcome for site in self.run.sites} == {"proved"}:
            note(all_proved(self.run.model.path))
        failed = [site for site in self.run.sites if site.outcome == "failed"]
        unproved = [site for site in self.run.sites if site.outcome == "unproved" and self.checks.require_proof]
        for sites, why in ((failed, FAILED_PROOF), (unproved, NOT_PROVED)):
            for site in sites:
                site.undone = why
        return Failure("sites are not proved", sites=[*failed, *unproved]) if failed or unproved else None

    def _report_undeclared(self) -> None:
        """Report once the operators at proved, failed or unproved sites that have no declared traits."""
        from surgeon.runtime.sessions.unknown_ops import undeclared_hint

        steps = [step for site in self.run.sites for step in site.steps]
        ops = dict.fromkeys(node.op for step in steps for node in (*step.removed, *step.orphans, *step.added))
        foreign = [op for op in ops if not self.run.index.local.is_called(op)]
        hint = undeclared_hint(foreign, self.checks.options.custom_ops)
        if hint and hint not in self._undeclared:
            self._undeclared += (hint,)
            self.report.next_steps += (hint,)

    def _less(self, failure: Failure, draft: ModelDraft) -> Claim | None:
        """The claim without the sites to blame; None if the whole model is wrong and no sites are to blame."""
        if failure.is_doubt:
            return None
        with gc_paused(), self.checks.timer.phase("prove" if failure.sites else "bisect"):
            exact = self._exact_sites()
            if failure.sites:
                self._roll_back(failure.sites)
            elif failure.result is not None and len(exact) < len(self.run.sites) and not self._fails(exact, failure):
                self.relation = self._intended(failure)
            else:
                culprits = self._culprits(exact, failure)
                if not culprits:
                    return None
                self._roll_back(culprits)
        return self._claim(draft)

    def _exact_sites(self) -> list[Site]:
        """Sites whose rules change numbers by rounding at most."""
        inexact = set(self._approximate())
        return [site for site in self.run.sites if inexact.isdisjoint(site.rules)]

    def _approximate(self) -> list[str]:
        """Rules in the result that change numbers beyond rounding."""
        inexact = {rule.name for rule in self.run.settings.rules if not rule.is_exact}
        return sorted({name for site in self.run.sites for name in site.rules if name in inexact})

    def _intended(self, failure: Failure) -> Relation:
        """The relation of models that differ only because of approximate rules: unproved, but not wrong."""
        rules = self._approximate()
        names, plural = " and ".join(rules), "s" * (len(rules) == 1)
        reason = f"{failure.description}, because {names} change{plural} numbers on purpose; without, the models agree."
        assert failure.result is not None  # a comparison failed
        found = replace(failure.result, outcome=Outcome.UNPROVED, reason=reason)
        return lambda *_: found

    def _culprits(self, exact: Sequence[Site], failure: Failure) -> list[Site]:
        """Sites without which the whole model is right, found by bisection; empty if no sites are to blame."""
        from surgeon.proof.model.bisect import find_culprits

        self._report_phase("bisect")
        are_to_blame = len(exact) == len(self.run.sites) or self._fails(exact, failure)
        culprits = find_culprits(exact if are_to_blame else self.run.sites, lambda sites: self._fails(sites, failure))
        first = "" if failure.result is None else failure.result.first_different
        together = f"with all {len(culprits):,} sites at fault " if len(culprits) > 1 else ""
        where = f"; {together}the first tensor outside the tolerance is {first!r}" if first else ""
        for site in culprits:
            site.guilty, site.undone = True, f"it makes the whole model wrong: {failure.reason}{where}"
        return culprits

    def _fails(self, sites: Sequence[Site], failure: Failure) -> bool:
        """Whether the model with only these sites rewritten is wrong; no file of it is kept."""
        try:
            draft = ModelDraft(self.run.model)
            draft.rewritten = self.run.rerun_with(sites)[0].index
            return failure.is_wrong(draft)
        finally:
            gc.collect()  # an index has reference cycles, and there are many trials

    def _roll_back(self, sites: Sequence[Site]) -> None:
        """Run again without these sites and those that depend on them."""
        gone = set(sites)
        if any(rule.once for rule in self.run.settings.rules):
            self.run, lost = self.run.rerun_without(gone)
        else:
            self.run, lost = self.run.rerun_with([site for site in self.run.sites if site not in gone])
        for site in lost:
            site.undone = "it depends on a rewrite that was rolled back"
        for site in (*lost, *self.run.sites):
            site.check = None  # it was a check of an earlier model
        self.report.rolled_back += [*sites, *lost]
        self.report.check = None
        self.report_run()
        self._roll_back_accidental_calls()

    def _roll_back_accidental_calls(self) -> None:
        """Roll back sites whose local function would also become the body of other nodes."""
        index = self.run.index
        accidental = accidental_calls(index.scopes, index.local)
        gone: list[Site] = []
        for site in self.run.sites if accidental else ():
            keys = [function_key(function) for step in site.steps for function in step.fragment.functions]
            node = next((accidental[key] for key in keys if key in accidental), None)
            if node is not None:
                site.undone = f"node {node.label!r} would also call the new local function"
                gone.append(site)
        if gone:
            self._roll_back(gone)

    def _report_phase(self, phase: str) -> None:
        if self.checks.progress is not None:
            self.checks.progress(phase, len(self.run.sites))


def rollback_message(report: Report) -> str:
    """A sentence on the sites that were rolled back; there is at least one."""
    sites = report.rolled_back
    total = len(sites) + len(report.sites)
    count = f"{len(sites):,} of {total:,} site{'s' * (total != 1)} {'was' if len(sites) == 1 else 'were'} rolled back"
    rest = f"the other {len(report.sites):,} are kept" if len(report.sites) > 1 else "the other site is kept"
    if not report.sites:
        rest = "no rewrite is left"
    first = f"{sites[0].rule} at {sites[0].root}: {sites[0].reason}"
    return f"{count} ({first}{and_more(len(sites) - 1)}); {rest}."
