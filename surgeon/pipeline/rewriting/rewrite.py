"""`surgeon.rewrite` and `surgeon.find`: open, match, rewrite, check and save a model."""

import gc
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import onnx
import onnx_graphsurgeon as gs

from surgeon.errors import CheckFailed, GraphError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, exported, resolve_model
from surgeon.file.patch import Patch
from surgeon.file.save import ExternalDataMode, OutputModel, save
from surgeon.pipeline.acceptance.already_fused import already_fused
from surgeon.pipeline.acceptance.kernel_support import ops_left
from surgeon.pipeline.checks import PhaseTimer
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.pipeline.rewriting.driver_settings import DriverSettings, NodeFilter
from surgeon.pipeline.rewriting.greedy_driver import GreedyDriver, Progress
from surgeon.pipeline.rewriting.rewrite_settings import RewriteSettings, UpgradeChoice, require_target
from surgeon.pipeline.rewriting.rule_run import RuleRun, open_index
from surgeon.pipeline.rewriting.unknown_names import require_named
from surgeon.pipeline.rewriting.verification import (
    InspectModel,
    Verification,
    require_expected_counts,
    rollback_message,
)
from surgeon.proof.check_options import Check, CheckOptions, resolve_options, resolve_output
from surgeon.result_base import ModelAndReport
from surgeon.rules.catalogue import resolve, resolve_with_edits, unique_rules
from surgeon.rules.functions.function_definition import LocalFunction
from surgeon.rules.functions.inline_rules import inline_rules
from surgeon.rules.matching.match import Match
from surgeon.rules.rule import Rule
from surgeon.target_registry import target_of
from surgeon.targets.target import Target

if TYPE_CHECKING:
    from surgeon.pipeline.reports.upgrade_report import UpgradeReport

Rules: TypeAlias = str | Rule | LocalFunction | Iterable[str | Rule | LocalFunction]
Selection: TypeAlias = dict[str, tuple[Rule, ...]]


def rewrite(
    source: ModelLike,
    rules: Rules = (),
    *,
    inline: str | Sequence[str] = (),
    output: str | os.PathLike[str] | None = None,
    target: str = "ort",
    ep: str | None = None,
    check: Check = "sites",
    only: str | Sequence[str] = (),
    skip: str | Sequence[str] = (),
    require_proof: bool = False,
    keep_going: bool = False,
    approximate: bool = False,
    dry_run: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    expect: Mapping[str, int] | None = None,
    upgrade: UpgradeChoice = "none",
    options: CheckOptions | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Report]:
    """Replace what the rules recognise, prove each replacement, and write the model.

    Args:
        source: a path (then `output` says where to write; it may be the same path), a ModelProto or a gs.Graph.
        rules: rule objects, local functions, or names as at the command line: "gelu", "./my_rules.py", "ort,-softmax".
            The tail of a detector, as "nms", is an edit that is done first (`Report.edited`).
        inline: local functions whose calls are written out before the rules run, by name ("domain::Name") or "all".
        output: the path to write, for a source that is a path.
        target: where the model is to run: "ort", "onnx", "tensorrt", "contrib", "decomposed", or one that is installed.
        ep: the execution provider that runs it, "cpu", "cuda", "dml", "tensorrt" or "any": nothing is written that it
            has no kernel for, unless it had none for what was there.  None: "cpu" where the target is ONNX Runtime, the
            first of its own where it is another that has some, else "any".
        check: "sites" proves every site on its own, "model" runs both whole models side by side, "both" does both,
            "none" neither.
        only: shell patterns of node names; nothing else is rewritten.
        skip: shell patterns of node names that are left alone.
        require_proof: take back what cannot be proved, as what failed.
        keep_going: do not raise CheckFailed for sites that were rolled back.
        approximate: run rules that change numbers beyond rounding also where they are not named themselves.
        dry_run: say what would happen, write nothing.
        external_data: what becomes of data files: "auto", "share", "copy" or "inline".
        force: overwrite a data file of other content.
        expect: how often rules must fire, by name, for the model to be written.
        upgrade: an opset of ai.onnx to raise the model to first, or "auto" for the least one with which all rules
            fire that wait for one. Where a node would change its meaning, or the whole model answers otherwise (it is
            run, unless `check` is "none"), an older one is taken, or the rules run over the model as it is, and the
            report says why (`Report.not_upgraded`).
        options: seeds, sizes, tolerances and limits of the checks.
        progress: called with the rule's name and the number of rewrites so far, and with "prove", "check" and "bisect".

    Returns:
        The model in the kind it was given (a path: the path written), and a Report.  A site that fails is rolled back
        with what was built on it, and the rest is kept.

    Raises:
        CheckFailed: a site was rolled back; it has the report and the model that is left.  With no model, and nothing
            written, where the whole model is wrong and no site is to blame.
        ExpectationUnmet: `expect` is not met; nothing is written.
        SurgeonError: bad input.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> path, report = surgeon.rewrite(model, "gelu", output="fused.onnx", check="none")
        >>> report.count("gelu")
        4
    """
    names = only if not isinstance(only, str) else (only,), skip if not isinstance(skip, str) else (skip,)
    settings = RewriteSettings(
        output=resolve_output(output),
        target=target,
        ep=ep,
        check=check,
        node_filter=NodeFilter(*names),
        require_proof=require_proof,
        keep_going=keep_going,
        approximate=approximate,
        dry_run=dry_run,
        external_data=external_data,
        force=force,
        expect=expect or {},
        options=resolve_options(options),
        progress=progress,
        inline=(inline,) if isinstance(inline, str) else tuple(inline),
        upgrade=upgrade,
    )
    return rewrite_with(source, rules, settings)


def rewrite_with(source: ModelLike, rules: Rules, settings: RewriteSettings) -> tuple[Any, Report]:
    """`rewrite` with all arguments in one record."""
    settings.refuse_misuse(source)
    with gc_paused():
        return ModelAndReport((_rewrite_graph if isinstance(source, gs.Graph) else _rewrite)(source, rules, settings))


def _rewrite(source: Any, rules: Rules, settings: RewriteSettings) -> tuple[Any, Report]:
    """Rewrite a file or a ModelProto."""
    clock = PhaseTimer()
    is_file = not isinstance(source, onnx.ModelProto)
    original: OutputModel = Path(os.fspath(source)) if is_file else source
    with ExitStack() as stack:
        with clock.phase("read"):
            selection: dict[str, tuple[Rule, ...]] = {}
            tails: list[str] = []
            if rules or not settings.inline:
                selection, tails = resolve_with_edits(rules, approximate=settings.approximate)
            before = stack.enter_context(Model.open(original))
        settings.options.require_dims_of(before.skeleton.graph)
        edited = None
        if tails:
            from surgeon.pipeline.rewriting.aliased_edit import apply_aliased_edit  # not at the top: rarely needed

            with clock.phase("edit"):
                original, edited = apply_aliased_edit(
                    tails[0], original, settings.output, stack, **settings.edit_arguments()
                )
        model = before if edited is None else stack.enter_context(Model.open(original))
        over, not_upgraded = _attempt(model, original, selection=selection, settings=settings, clock=clock, stack=stack)
        run = over.run
        names = {name: tuple(rule.name for rule in found) for name, found in (over.first | selection).items()}
        report = Report(str(source) if is_file else "", str(settings.output or ""), settings.target, names)
        report.seconds, report.ep = clock.seconds, settings.ep
        report.upgrade, report.not_upgraded = over.upgrade, not_upgraded
        report.tails, report.edited, report.unused = tuple(tails), edited, over.unused
        report.nodes_before, report.nodes_after = over.nodes, run.index.count_nodes()
        report.constants = over.constants, run.index.count_constants()
        report.dims = dict(settings.options.dims)
        report.next_steps = _next_steps(run)
        with clock.phase("match"):
            report.sites, report.misses = run.sites, run.driver.misses()
        require_named(report, unique_rules(selection), over.run.index, for_many=settings.for_many)
        require_expected_counts(report, settings.expect, partial(_already_there, run, over.first | selection))
        if settings.dry_run:
            before.check_data()  # as saving would
            return source, report

        def write(patch: Patch, inspect: InspectModel) -> Any:
            with clock.phase("write"):
                if settings.output is None:
                    made = patch.to_proto()
                    inspect(made)
                    return made
                to = settings.output
                before.check_unchanged()
                save(over.model, patch, to, external_data=settings.external_data, force=settings.force, check=inspect)
                report.written = True
                return to

        checks = Verification(
            run=run,
            report=report,
            source=Path(os.fspath(source)) if is_file else source,
            original=over.original,
            settings=settings,
            clock=clock,
            write=write,
        )
        checks.prove()
        result = checks.finish()
    if report.rolled_back and not settings.keep_going:
        raise CheckFailed(rollback_message(report), report, result)
    return result, report


def _next_steps(run: RuleRun) -> tuple[str, ...]:
    """What to do before the rewritten model runs on the target, one clause each."""
    target = target_of(run.settings.target)
    steps = target.next_steps(run.index) if isinstance(target, Target) and target.next_steps is not None else ()
    return (*ops_left(run.settings.target, run.index), *steps)


def _already_there(run: RuleRun, selection: Selection, name: str) -> str | None:
    """Nodes of the source that a rule, or a group of rules, would write, as a clause; None without any."""
    by_rule = {rule.name: (rule,) for rules in selection.values() for rule in rules}
    return already_fused(run.index, selection.get(name) or by_rule[name], run.settings.target)


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """The rules after they ran over a model: the source, or its upgraded version."""

    model: Model
    """Model that the rules ran over."""
    original: OutputModel
    """The same model as ONNX Runtime loads it."""
    run: RuleRun
    """Run of the rules."""
    first: Selection
    """Rules that ran before the others."""
    nodes: int
    """Nodes before the rules ran."""
    constants: int
    """Constant nodes before the rules ran."""
    unused: dict[str, str]
    """Patterns of node names that match no node, with a clause on the nearest names."""
    upgrade: "UpgradeReport | None" = None
    """Upgrade that produced the model; None without one."""

    @classmethod
    def over(
        cls, model: Model, original: OutputModel, *, selection: Selection, settings: RewriteSettings, clock: PhaseTimer
    ) -> "_Rewritten":
        """Run the rules."""
        with clock.phase("read"):
            index = open_index(model)
            first = inline_rules(index, settings.inline) if settings.inline else []
        with clock.phase("match"):
            before = index.count_nodes(), index.count_constants(), settings.node_filter.unused(index)
            by_name: Selection = {rule.name: (rule,) for rule in first}
            rules = DriverSettings(
                unique_rules(by_name | selection), settings.target, settings.ep, first, node_filter=settings.node_filter
            )
            run = RuleRun(model, index, rules, settings.with_proof_warmup())
        return cls(model, original, run, by_name, *before)


def _attempt(
    model: Model,
    original: OutputModel,
    *,
    selection: Selection,
    settings: RewriteSettings,
    clock: PhaseTimer,
    stack: ExitStack,
) -> tuple[_Rewritten, str]:
    """Run the rules, over an upgraded model if that is requested and useful; also return why not, as a clause."""
    rewritten = partial(_Rewritten.over, selection=selection, settings=settings, clock=clock)
    if settings.upgrade == "none":
        return rewritten(model, original), ""
    if isinstance(settings.upgrade, int):
        plain, opsets = None, [settings.upgrade]
    else:
        plain = rewritten(model, original)
        opsets = sorted(plain.run.driver.blocked_by_opset, reverse=True)  # the newest lets all of them fire
    # Not at the top: few rewrites upgrade.
    from surgeon.pipeline.upgrading.temporary_upgrade import temporarily_upgraded

    check: Literal["model", "none"] = "none" if settings.check == "none" or settings.dry_run else "model"
    why, first_failure = "no rule would fire more often with a newer opset", ""
    for opset in opsets:
        try:
            with clock.phase("upgrade"):
                made = stack.enter_context(
                    temporarily_upgraded(
                        original,
                        opset,
                        settings.output,
                        check=check,
                        options=settings.options,
                        require_proof=settings.require_proof,
                    )
                )
        except (CheckFailed, GraphError) as error:
            why = str(error).rstrip(".").removesuffix("; nothing was written")
        else:
            better = replace(rewritten(made.model, made.original), upgrade=made.done)
            if plain is None or _gains(plain.run, better.run, plain.run.driver.blocked_by_opset[opset]):
                return better, first_failure
            why = f"no rule fires more often with opset {opset}"
        first_failure = first_failure or f"to opset {opset}: {why}"
    return plain or rewritten(model, original), why


def _gains(plain: RuleRun, better: RuleRun, rules: Iterable[str]) -> bool:
    """Whether one of these rules fires more often in the better run."""
    one, other = (Counter(step.rule for step in run.driver.log) for run in (plain, better))
    return any(other[rule] > one[rule] for rule in rules)


def find(source: ModelLike, rules: Rules, *, target: str = "ort", ep: str | None = None) -> Iterable[Match]:
    """Yield the sites where rules would fire, one by one, without rewriting; a node belongs to one match.

    Args:
        source: a path, a ModelProto or a gs.Graph.
        rules: as for `rewrite`.
        target: as for `rewrite`.
        ep: as for `rewrite`.

    Returns:
        The matches, in the order of the rules, then of the scopes, then of the nodes in the file.

    Raises:
        SurgeonError: bad input.

    Examples:
        >>> import surgeon
        >>> [match.root.label for match in surgeon.find("notebooks/models/tiny_distilbert.onnx", "gelu")][:2]
        ['node_gelu', 'node_gelu_1']
    """
    require_target(target, ep)
    proto = resolve_model(source)
    taken: set[Any] = set()
    with Model.open(proto) as model:
        index = open_index(model)
        for rule in unique_rules(resolve(rules)):
            driver = GreedyDriver(index, DriverSettings([rule], target, ep))
            for scope in index.scopes:
                for match in driver.matches(rule, scope):
                    if not taken.intersection(match.nodes):
                        taken.update(match.nodes)
                        yield match


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable the cyclic garbage collector: an index has many small objects and no garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _rewrite_graph(source: gs.Graph, rules: Rules, settings: RewriteSettings) -> tuple[gs.Graph, Report]:
    """Rewrite a gs.Graph through the export and import of onnx-graphsurgeon."""

    def back(result: Any, report: Report) -> gs.Graph:
        is_same = report.is_unchanged
        return source if settings.dry_run or is_same else gs.import_onnx(result)

    try:
        result, report = _rewrite(exported(source), rules, settings)
    except CheckFailed as error:
        if error.result is not None and isinstance(error.report, Report):
            error.result = back(error.result, error.report)
        raise
    return back(result, report), report
