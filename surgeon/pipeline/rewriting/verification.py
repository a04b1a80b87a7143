"""Proves sites, compares whole models, bisects failures, rolls sites back, and writes the result."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import onnx

from surgeon.errors import CheckFailed, ExpectationUnmet, ModelFileError, UsageError
from surgeon.file.patch import Patch
from surgeon.file.save import OutputModel, save
from surgeon.ir.function_table import accidental_calls
from surgeon.ir.index_patch import index_patch
from surgeon.ops.traversal import function_key
from surgeon.pipeline.checks import PhaseTimer
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.pipeline.reports.site import FAILED_PROOF, NOT_PROVED, Site
from surgeon.pipeline.rewriting.rewrite_settings import RewriteSettings
from surgeon.pipeline.rewriting.rule_run import RuleRun
from surgeon.pipeline.rewriting.step_replay import remaining_near_misses
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.final_check import model_check, structural_fault
from surgeon.proof.model.load_check import loading, require_loaded, tolerated_lacks
from surgeon.text import and_more, did_you_mean

if TYPE_CHECKING:
    from surgeon.proof.model.model_check import ModelCheck

InspectModel = Callable[[OutputModel], None]
WriteModel = Callable[[Patch, InspectModel], Any]


class _AtFault(Exception):
    """The written model is wrong as a whole."""


@dataclass(slots=True)
class Verification:
    """The checks of one run, and the rollbacks that follow from them."""

    run: RuleRun
    """Run of the rules; a rollback replaces it."""
    report: Report
    """Report of the rewrite, which is updated."""
    source: OutputModel
    """Model that the user gave."""
    original: OutputModel
    """Model that the rules ran over: the source, or its upgraded or edited version."""
    settings: RewriteSettings
    """Arguments of the rewrite."""
    clock: PhaseTimer
    """Durations of the phases."""
    write: WriteModel
    """Writes the model of a patch, calls the given check on it, and returns the result."""
    _models: "ModelCheck | None" = field(default=None, init=False)
    _last: "_Examination | None" = field(default=None, init=False)

    def prove(self) -> None:
        """Prove every site; roll back those that fail or, if proof is required, are not proved."""
        self._roll_back_accidental_calls()
        if self.settings.check not in ("sites", "both") or not self.run.sites:
            return
        # Not at the top: a run without proofs does not import it.
        from surgeon.pipeline.rewriting.site_regions import prove_sites

        self._report_phase("prove")
        with self.clock.phase("prove"):
            while any(site.proof is None for site in self.run.sites):
                prove_sites(self.run, self.original, self.settings.options)
                failed = [site for site in self.run.sites if site.outcome == "failed"]
                unproved = [site for site in self.run.sites if site.outcome == "unproved"]
                unproved = unproved if self.settings.require_proof else []
                for sites, why in ((failed, FAILED_PROOF), (unproved, NOT_PROVED)):
                    for site in sites:
                        site.undone = why
                if failed or unproved:
                    self._roll_back([*failed, *unproved])

    def finish(self) -> Any:
        """Write the result; if the whole model is wrong, find the sites at fault and roll them back first."""
        while True:
            require_expected_counts(self.report, self.settings.expect)
            try:
                with self.clock.phase("write"):
                    patch = index_patch(self.run.index)
                return self.write(patch, self._inspect)
            except _AtFault:
                with self.clock.phase("bisect"):
                    culprits = self._culprits()
                    if culprits:
                        self._roll_back(culprits)
            if not culprits:
                self._give_up()

    def _inspect(self, written: OutputModel) -> None:
        """Compare the written model with the original; raises _AtFault if it is wrong."""
        self.report.refused = ""
        if not self.run.sites:
            if self.original is not self.source:
                options = self.settings.options
                note = require_loaded("rewritten", [self.source], written, options=options, report=self.report)
                self.report.refused = note or ""
            return
        self._report_phase("check")
        with self.clock.phase("check"):
            found = self._examine(written, layers=True)
            if found.is_wrong and found.result is not None and self._differs_on_purpose():
                found = found.as_intended(self._approximate())
            self._record(found)
            if found.is_wrong:
                raise _AtFault
            if found.result is not None and found.result.outcome is Outcome.UNPROVED and self.settings.require_proof:
                self._give_up()

    def _examine(self, written: OutputModel, *, layers: bool = False) -> "_Examination":
        """Check a model: whether it is valid, loads and, if the check says so, has the outputs of the original.

        layers: compare inner tensors too, if the options say so.
        """
        if self.settings.check == "none":
            return self._examine_loading(written)
        complaint = structural_fault(self.run.model, written)
        if complaint is not None:
            return _Examination(True, f"it is invalid, {complaint}")
        if self.settings.check == "sites":
            return self._examine_loading(written)
        if self._models is None:
            self._models = model_check(self.run.model, self.original, self.settings.options)
        result = self._models.check(written, layers=layers and self.settings.options.layers)
        if result.outcome is Outcome.UNPROVED:  # it may not have run
            return replace(self._examine_loading(written), result=result)
        return _Examination(result.outcome is Outcome.FAILED, result.reason.rstrip("."), result)

    def _examine_loading(self, written: OutputModel) -> "_Examination":
        """Whether ONNX Runtime loads a model; the report notes if it does not load the original either."""
        tolerated = tolerated_lacks(self.report.target, self.report.ep)
        found = loading([self.source], written, self.settings.options, tolerated)
        self.report.refused = found.note
        return _Examination(bool(found.fault), found.fault)

    def _approximate(self) -> list[str]:
        """Rules in the result that change numbers beyond rounding."""
        inexact = {rule.name for rule in self.run.settings.rules if not rule.is_exact}
        return sorted({name for site in self.run.sites for name in site.rules if name in inexact})

    def _exact_sites(self) -> list[Site]:
        """Sites whose rules change numbers by rounding at most."""
        inexact = set(self._approximate())
        return [site for site in self.run.sites if inexact.isdisjoint(site.rules)]

    def _differs_on_purpose(self) -> bool:
        """Whether the whole model differs only because of approximate rules."""
        exact = self._exact_sites()
        return len(exact) < len(self.run.sites) and not self._fails(exact)

    def _record(self, found: "_Examination") -> None:
        self._last = found
        self.report.check = found.result
        for site in self.run.sites:
            site.check = found.result

    def _fault(self, sites: int = 1) -> str:
        """What is wrong with the whole model, as a clause.  sites: number of sites at fault."""
        return "" if self._last is None else self._last.description(sites)

    def _culprits(self) -> list[Site]:
        """Sites without which the whole model is right, found by bisection; empty if no sites are to blame."""
        from surgeon.proof.model.bisect import find_culprits

        self._report_phase("bisect")
        exact = self._exact_sites()
        are_to_blame = len(exact) == len(self.run.sites) or self._fails(exact)  # all sites together are known to fail
        culprits = find_culprits(exact if are_to_blame else self.run.sites, self._fails)
        for site in culprits:
            site.guilty, site.undone = True, f"the whole model is wrong with it: {self._fault(len(culprits))}"
        return culprits

    def _fails(self, sites: Sequence[Site]) -> bool:
        """Whether the source with only these sites rewritten is wrong; no file of it is kept."""
        try:
            return self._is_wrong(self.run.rerun_with(sites)[0])
        finally:
            gc.collect()  # an index has reference cycles, and there are many trials

    def _is_wrong(self, trial: RuleRun) -> bool:
        """Whether the result of a run is wrong."""
        if not trial.sites:
            return self._examine(self.original).is_wrong
        patch = index_patch(trial.index)
        if isinstance(self.original, onnx.ModelProto):
            return self._examine(patch.to_proto()).is_wrong

        def look(written: OutputModel) -> None:
            raise _Examined(self._examine(written).is_wrong)

        try:
            beside = self.original.with_name(f"{self.original.stem}.bisect.onnx")
            save(self.run.model, patch, beside, external_data="share", check=look)
        except _Examined as seen:
            return seen.is_wrong
        except ModelFileError:  # no space beside the source: write it where the result will be
            try:
                self.write(patch, look)
            except _Examined as seen:
                return seen.is_wrong
        raise AssertionError("saving looks at what it writes")

    def _roll_back(self, sites: Sequence[Site]) -> None:
        """Run again without these sites and those that build on them."""
        gone = set(sites)
        self.run, lost = self.run.rerun_with([site for site in self.run.sites if site not in gone])
        for site in lost:
            site.undone = "it builds on what was rolled back"
        for site in (*lost, *self.run.sites):
            site.check = None  # it was a check of an earlier model
        self.report.rolled_back += [*sites, *lost]
        self.report.sites, self.report.check = self.run.sites, None
        self.report.nodes_after = self.run.index.count_nodes()
        self.report.misses = list(
            remaining_near_misses(self.report.rolled_back, self.run.driver.misses(), self.run.replay.refused)
        )
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
                site.undone = f"the local function would be the body of {node.label!r} too, which stays as it is"
                gone.append(site)
        if gone:
            self._roll_back(gone)

    def _give_up(self) -> NoReturn:
        result = self.report.check
        if result is not None and result.outcome is Outcome.UNPROVED:
            reason = result.reason.rstrip(".")
            raise CheckFailed(f"The rewritten model is not proved: {reason}; nothing was written.", self.report)
        raise CheckFailed(
            f"The rewritten model differs from the original and no site is to blame alone: {self._fault()}; "
            "nothing was written.",
            self.report,
        )

    def _report_phase(self, phase: str) -> None:
        if self.settings.progress is not None:
            self.settings.progress(phase, len(self.run.sites))


@dataclass(frozen=True, slots=True)
class _Examination:
    """What the check of one written model found."""

    is_wrong: bool
    """Whether the model must not be kept."""
    fault: str = ""
    """What is wrong, as a clause."""
    result: CheckResult | None = None
    """Comparison with the original; None if nothing was compared."""

    def description(self, sites: int = 1) -> str:
        """The fault and, if inner tensors were compared, the first tensor that differs.  sites: sites at fault."""
        first = None if self.result is None else self.result.first_different
        together = f"with all {sites:,} sites at fault " if sites > 1 else ""
        return f"{self.fault}; {together}the first tensor to leave tolerance is {first!r}" if first else self.fault

    def as_intended(self, rules: Sequence[str]) -> "_Examination":
        """The same if only approximate rules cause the difference: unproved, but not wrong."""
        if self.result is None:
            return self
        names, plural = " and ".join(rules), "s" * (len(rules) == 1)
        reason = f"{self.description()}, as {names} change{plural} numbers on purpose; without, all agrees."
        return _Examination(False, "", replace(self.result, outcome=Outcome.UNPROVED, reason=reason))


class _Examined(Exception):
    """A trial has been checked and must not be kept."""

    def __init__(self, is_wrong: bool) -> None:
        super().__init__(is_wrong)
        self.is_wrong = is_wrong


def require_expected_counts(
    report: Report, expect: Mapping[str, int], there: Callable[[str], str | None] = lambda _: None
) -> None:
    """Raise ExpectationUnmet if a rule fired another number of times, UsageError for a rule that did not run.

    there: by name, nodes of the source that the rule would write, as a clause; None without any.
    """
    wrong = []
    for name, wanted in expect.items():
        if not report.knows(name):
            names = [*report.selection, *(rule for rules in report.selection.values() for rule in rules)]
            raise UsageError(
                f"A number of sites is expected of {name!r}, which is not run; {did_you_mean(name, names)}"
            )
        found, gone = report.count(name), report.count(name, rolled_back=True)
        if found != wanted:
            more = f", the {gone} that {'was' if gone == 1 else 'were'} rolled back aside," if gone else ""
            times, were = "time" if found == 1 else "times", "was" if wanted == 1 else "were"
            known = there(name) if found < wanted else None
            because = f" ({known}: the exporter may write the op itself now)" if known else ""
            wrong.append(f"{name} fires {found} {times}{more} where {wanted} {were} expected{because}")
    if wrong:
        raise ExpectationUnmet(f"{'; '.join(wrong)}; nothing was written.", report)


def rollback_message(report: Report) -> str:
    """One sentence on the sites that were rolled back; empty if there are none."""
    sites = report.rolled_back
    if not sites:
        return ""
    total = len(sites) + len(report.sites)
    count = f"{len(sites):,} of {total:,} site{'s' * (total != 1)} {'was' if len(sites) == 1 else 'were'} rolled back"
    rest = f"the other {len(report.sites):,} stand{'s' * (len(report.sites) == 1)}"
    if not report.sites:
        rest = "nothing is left of the rewrite"
    first = f"{sites[0].rule} at {sites[0].root}: {sites[0].reason}"
    return f"{count} ({first}{and_more(len(sites) - 1)}); {rest}."
