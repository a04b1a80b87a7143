"""Rules as a transform: they run over a model, each site is proved, and sites that fail are rolled back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from surgeon.errors import ExpectationUnmet, UsageError
from surgeon.file.model import Model
from surgeon.pipeline.acceptance.already_fused import already_fused
from surgeon.pipeline.acceptance.kernel_support import resolve_provider
from surgeon.pipeline.checks import Checks, Progress
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.reports.rewrite_report import RewriteReport, named_rules
from surgeon.pipeline.rewriting.driver_settings import DriverSettings, NodeFilter
from surgeon.pipeline.rewriting.rollback import RuleClaims
from surgeon.pipeline.rewriting.rule_run import RuleRun, gc_paused, open_index
from surgeon.pipeline.rewriting.unknown_names import require_named
from surgeon.pipeline.transform import Claim, Compound, Transform
from surgeon.proof.check_options import require_expected_counts
from surgeon.rules.catalogue import resolve_with_edits, unique_rules
from surgeon.rules.functions.function_definition import LocalFunction
from surgeon.rules.rule import Rule
from surgeon.text import did_you_mean

if TYPE_CHECKING:
    from surgeon.rules.op_table import OpTable

Rules: TypeAlias = str | Rule | LocalFunction | Iterable[str | Rule | LocalFunction]
Selection: TypeAlias = dict[str, tuple[Rule, ...]]
UpgradeChoice: TypeAlias = int | Literal["none", "auto"]


@dataclass(frozen=True)
class RuleSet:
    """Replace the nodes that rules recognise; the fields are those of `surgeon.rewrite`."""

    rules: Rules = ()
    """Rule objects, local functions, or names as at the command line; "nms", for example, is an edit before them."""
    inline: Sequence[str] = ()
    """Local functions whose calls are inlined first."""
    only: Sequence[str] = ()
    """Shell patterns of node names; only these are rewritten."""
    skip: Sequence[str] = ()
    """Shell patterns of node names that are not rewritten."""
    approximate: bool = False
    """Whether a group of rules includes those that change numbers beyond rounding."""
    fold_limit: int | None = None
    """Bytes of the largest result that rules fold; None for their own limits."""
    upgrade: UpgradeChoice = "none"
    """Opset to which the model is raised first; "auto" for the lowest one with which all waiting rules fire."""
    expect: Mapping[str, int] = field(default_factory=dict)
    """Required number of sites of rules, by name."""
    target: str = "ort"
    """Name of the target."""
    ep: str | None = None
    """Execution provider; None for the default of the target."""
    for_many: bool = False
    """Whether the rules run on other models too: a pattern that matches no node is then reported, not an error."""
    report: RewriteReport = field(default_factory=lambda: RewriteReport("", "", "", {}), compare=False, repr=False)
    """Report of the rules, and of the upgrade and the edit before them."""

    @cached_property
    def resolved(self) -> tuple[Selection, list[str]]:
        """The rules, and the names of edits among their names.  Raises RuleError for unknown and contradictory ones."""
        is_empty = not self.rules and self.inline
        found, tails = ({}, []) if is_empty else resolve_with_edits(self.rules, approximate=self.approximate)
        if self.fold_limit is None:
            return found, tails
        limited = {rule: rule.limited(self.fold_limit) for rule in unique_rules(found)}
        if all(rule is other for rule, other in limited.items()):
            raise UsageError("No rule folds constants, so fold_limit has no effect. Add the rule constant_folding.")
        return {name: tuple(limited[rule] for rule in rules) for name, rules in found.items()}, tails

    def require(self) -> None:
        """Raise UsageError for invalid values, and RuleError for rules that cannot run."""
        resolve_provider(self.target, self.ep)
        if isinstance(self.upgrade, bool) or not (self.upgrade in ("none", "auto") or isinstance(self.upgrade, int)):
            raise UsageError(f"Invalid upgrade={self.upgrade!r}. Give an opset, 'auto' or 'none'.")
        require_expected_counts(self.expect)
        limit = self.fold_limit
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise UsageError(f"Invalid fold_limit={limit!r}. Give a number of bytes, at least 0.")
        for names in (self.only, self.skip):
            if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
                raise UsageError("Invalid only or skip. Give shell patterns of node names, as in only='/encoder/*'.")
        _ = self.resolved

    def expand(self, draft: ModelDraft, checks: Checks) -> Sequence[Transform | Compound]:
        """The edit and the upgrade before the rules, and the rules."""
        with checks.timer.phase("read"):
            self.require()
        selection, tails = self.resolved
        self.report.target, self.report.ep, self.report.tails = self.target, self.ep, tuple(tails)
        rules = RuleTransform(self, selection)
        steps: list[Transform | Compound] = [rules]
        if self.upgrade != "none":
            from surgeon.pipeline.rewriting.upgrade_for_rules import UpgradeForRules  # not at the top: rarely needed

            steps.insert(0, UpgradeForRules(self.upgrade, self.report, rules.run_over))
        if tails:
            from surgeon.pipeline.rewriting.aliased_edit import aliased_edits  # not at the top: rarely needed

            steps[:0] = [aliased_edits(tails[0], self.target, self.report)]
        return steps


@dataclass(frozen=True, slots=True)
class FirstRun:
    """The rules after their first run over a model."""

    run: RuleRun
    """The run."""
    first: Selection
    """Rules that ran before the others."""
    nodes: int
    """Nodes before the rules ran."""
    constants: int
    """Constant nodes before the rules ran."""
    unused: dict[str, str]
    """Patterns of node names that match no node, with a clause on the nearest names."""


@dataclass(frozen=True, slots=True)
class RuleTransform:
    """The rules of a rule set, without the steps before them."""

    rule_set: RuleSet
    """The rule set."""
    selection: Selection
    """Its rules, by the name that the user gave."""
    runs: dict[Model, FirstRun] = field(default_factory=dict, compare=False, repr=False)
    """Runs so far, by their model: those that choose an upgrade happen before `apply`."""

    @property
    def report(self) -> RewriteReport:
        """Report of the rules."""
        return self.rule_set.report

    def run_over(self, model: Model, checks: Checks) -> FirstRun:
        """Run the rules over a model."""
        asked, timer = self.rule_set, checks.timer
        with gc_paused():
            with timer.phase("read"):
                index, first = open_index(model), list[Rule]()
                if asked.inline:
                    from surgeon.rules.functions.inline_rules import inline_rules  # not at the top: few runs inline

                    first = inline_rules(index, asked.inline)
            filtered = NodeFilter(asked.only, asked.skip)
            before = index.count_nodes(), index.count_constants(), filtered.unused(index)
            by_name: Selection = {rule.name: (rule,) for rule in first}
            rules = unique_rules(by_name | self.selection)
            table = self._op_table(checks)
            settings = DriverSettings(rules, asked.target, asked.ep, first, op_table=table, node_filter=filtered)
            found = FirstRun(RuleRun(model, index, settings, _with_proof_warmup(checks, model)), by_name, *before)
            if table is not None:
                table.save()
        self.runs[model] = found
        return found

    def _op_table(self, checks: Checks) -> "OpTable | None":
        """The ops that the rules require; None if all rules are named, because near misses trace those in any case."""
        names = {name: [rule.name for rule in rules] for name, rules in self.selection.items()}
        by_group = set().union(*names.values()) - named_rules(names)
        if not by_group or not checks.options.cache:
            return None
        from surgeon.rules.op_table import OpTable  # not at the top: for groups only

        return OpTable.open()

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Run the rules over the model before the draft, and claim that each site computes the same."""
        checks.options.require_dims_of(draft.before.skeleton.graph)
        found = self.runs.get(draft.before) or self.run_over(draft.before, checks)
        self.runs.clear()
        run, report, asked = found.run, self.rule_set.report, self.rule_set
        everything = found.first | self.selection
        report.selection = {name: tuple(rule.name for rule in rules) for name, rules in everything.items()}
        report.cleanup = frozenset(rule.name for rules in everything.values() for rule in rules if rule.is_cleanup)
        report.unused, report.dims = found.unused, dict(checks.options.dims)
        report.nodes_before, report.constants = found.nodes, (found.constants, found.constants)
        claims = RuleClaims(run, report, checks, confirm=partial(confirm_counts, report, asked.expect))
        claims.report_run()
        require_named(report, unique_rules(self.selection), run.index, for_many=asked.for_many)
        confirm_counts(report, asked.expect, partial(_already_there, run, everything))
        return claims.first(draft)


def _already_there(run: RuleRun, selection: Selection, name: str) -> str | None:
    """Nodes of the source that a rule, or a group of rules, would write, as a clause; None without any."""
    by_rule = {rule.name: (rule,) for rules in selection.values() for rule in rules}
    return already_fused(run.index, selection.get(name) or by_rule[name], run.settings.target)


def _with_proof_warmup(checks: Checks, model: Model) -> Progress | None:
    """The progress callback; at the first rewrite it also starts a worker if the proofs of the file are not stored."""
    if checks.dry_run or not checks.sites:
        return checks.progress
    from surgeon.proof.cache.notes import all_proved, is_noted  # not at the top: for proofs only

    if checks.options.cache and is_noted(all_proved(model.path)):
        return checks.progress
    progress, is_started = checks.progress, False

    def report(rule: str, count: int) -> None:
        nonlocal is_started
        if not is_started:
            # Not at the top: a run without proofs does not import it.
            from surgeon.proof.site.worker_proofs import start

            is_started = True
            start()
        if progress is not None:
            progress(rule, count)

    return report


def confirm_counts(report: RewriteReport, expect: Mapping[str, int], there: Any = lambda _: None) -> None:
    """Raise ExpectationUnmet if a rule fired another number of times, UsageError for a rule that did not run.

    there: by name, nodes of the source that the rule would write, as a clause; None without any.
    """
    wrong = []
    for name, wanted in expect.items():
        if not report.knows(name):
            names = [*report.selection, *(rule for rules in report.selection.values() for rule in rules)]
            raise UsageError(f"--expect has a count for {name!r}, but no such rule runs; {did_you_mean(name, names)}")
        found, gone = report.count(name), report.count(name, rolled_back=True)
        if found != wanted:
            more = f" (and {gone} {'was' if gone == 1 else 'were'} rolled back)" if gone else ""
            times, were = "time" if found == 1 else "times", "was" if wanted == 1 else "were"
            known = there(name) if found < wanted else None
            because = f" ({known}: the exporter may already write the op)" if known else ""
            wrong.append(f"{name} was applied {found} {times}{more}, but {wanted} {were} expected{because}")
    if wrong:
        raise ExpectationUnmet(f"{'; '.join(wrong)}; nothing was written.", report)
