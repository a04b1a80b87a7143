"""`surgeon.rewrite` and `surgeon.find`: run rules over a model, prove each site, and save; or only find the sites."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from surgeon.errors import CheckFailed, UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, is_in_memory, resolve_model
from surgeon.file.save import ExternalDataMode
from surgeon.pipeline.acceptance.kernel_support import ANY_PROVIDER, resolve_provider
from surgeon.pipeline.checks import Checks, Progress, Saving
from surgeon.pipeline.component_runs import for_each_component
from surgeon.pipeline.driver import run
from surgeon.pipeline.reports.measurement import BUDGET
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.driver_settings import DriverSettings
from surgeon.pipeline.rewriting.greedy_driver import GreedyDriver
from surgeon.pipeline.rewriting.rollback import rollback_message
from surgeon.pipeline.rewriting.rule_run import gc_paused, open_index
from surgeon.pipeline.rewriting.rule_set import Rules, RuleSet, UpgradeChoice
from surgeon.proof.check_options import CHECKS, Check, CheckOptions, require_output
from surgeon.result_base import ModelAndReport
from surgeon.rules.catalogue import default_group, resolve, unique_rules
from surgeon.rules.matching.match import Match
from surgeon.target_registry import target_of

if TYPE_CHECKING:
    from surgeon.pipeline.measuring.measure import Measure
    from surgeon.runtime.sessions.ep_library import PluginProvider

__all__ = ["Rules", "find", "rewrite"]


@for_each_component
def rewrite(
    source: ModelLike,
    rules: Rules | None = None,
    *,
    inline: str | Sequence[str] = (),
    output: str | os.PathLike[str] | None = None,
    target: str = "ort",
    ep: str | None = None,
    ep_library: str | None = None,
    check: Check = "sites",
    only: str | Sequence[str] = (),
    skip: str | Sequence[str] = (),
    require_proof: bool = False,
    keep_going: bool = False,
    approximate: bool = False,
    fold_limit: int | None = None,
    dry_run: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    expect: Mapping[str, int] | None = None,
    upgrade: UpgradeChoice = "none",
    measure: bool = False,
    at: Sequence[Mapping[str, int]] = (),
    threads: int = 0,
    budget: float = BUDGET,
    options: CheckOptions | None = None,
    progress: Progress | None = None,
) -> tuple[Any, RewriteReport]:
    """Replace the nodes that rules recognise, prove each replacement, and write the model.

    Args:
        source: a path (with `output`, which may be the same path), or a model in memory.
        rules: comma-separated rules or groups: "gelu", "transformers", "./my_rules.py", "./my_rules.py:name",
            "package.module:name".  Exclude a rule with "-name".  "nms" first appends non-maximum suppression to a
            detector.  In Python, rule objects and local functions too; `RewriteReport.edited` describes the
            post-processing.  Default: the group for the target, for example "ort".
        inline: inline local functions before the rules run: "domain::Name", or "all".
        output: output path; needed if the source is a path.
        target: runtime that the model is for: "ort", "onnx", "tensorrt", "contrib", "decomposed", or an installed
            target.
        ep: execution provider: "cpu", "cuda", "dml", "tensorrt" or "any".  Rules write only ops that have a kernel
            there, unless the replaced nodes have no kernel there either.  Default: "cpu" for "ort" and "contrib",
            otherwise "any", or the first provider of ep_library.
        ep_library: plugin with the execution provider: its Python module, or NAME=PATH of its library.
        check: "sites" proves each site separately, "model" runs the whole model before and after and compares, "both"
            does both, "none" neither.
        only: rewrite only sites with a node whose name matches this shell pattern.
        skip: skip sites with a node whose name matches this shell pattern.
        require_proof: treat unproved results as failures.
        keep_going: do not raise CheckFailed for sites that were rolled back.
        approximate: also run the approximate rules of a group, whose results differ by more than rounding.
        fold_limit: size of the largest result that constant folding stores, for example 16MiB.  In Python, bytes.
            Default: 1MiB, and at most 16KiB more than the constants that the result replaces.
        dry_run: report the changes, write nothing.
        external_data: how to save external data: "auto", "share", "copy", "inline", or a file: "weights/m.data".
        force: overwrite a data file of other content.
        expect: required number of sites, by rule; another number is an error, and nothing is written.
        upgrade: raise the opset first, to N or with "auto" to the lowest opset that the matching rules need, unless a
            node would change its meaning.  In Python, `RewriteReport.not_upgraded` says why the opset stayed lower.
        measure: choose among the forms of the rules by measurement, and write a model only if its latency is at most
            1.01 of the model's at each shape.
        at: sizes of the dynamic dimensions of inputs at one shape to measure.  A size that follows from others may be
            left out.
        threads: number of threads for one operator; 0 means one per physical core.
        budget: time for measurements, in seconds.
        options: seeds, sizes, tolerances and limits of the checks.
        progress: called with the rule's name and the number of rewrites so far, and with "prove", "check" and "bisect".

    Returns:
        The model in the same type as `source` (a path: the output path), and a report.  A failed site is rolled back,
        together with sites that depend on it.  The others are kept.

    Raises:
        CheckFailed: a site was rolled back; the error has the report and the remaining model.  If the whole model is
            wrong and no site is to blame, nothing is written and the error has no model.
        ExpectationUnmet: `expect` is not met; nothing is written.
        SurgeonError: bad input.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> path, report = surgeon.rewrite(model, "gelu", output="fused.onnx", check="none")
        >>> report.count("gelu")
        4
    """
    checks = Checks.named(check, CHECKS, require_proof and not dry_run, options, dry_run=dry_run)
    if check in ("sites", "none") and (checks.options.inputs or checks.options.layers):
        raise UsageError("Inputs and layers need the check of the whole model. Choose check='model' or 'both'.")
    require_output(is_in_memory(source), output, dry_run)
    group = "" if inline or rules is not None else default_group(target)
    plugin, ep = (None, ep) if ep_library is None else (_plugin(ep_library, ep, target), ANY_PROVIDER)
    rule_set = RuleSet(
        group or rules or (), inline=_listed(inline), only=_listed(only), skip=_listed(skip), approximate=approximate,
        fold_limit=fold_limit, upgrade=upgrade, expect=expect or {}, target=target, ep=ep,
    )  # fmt: skip
    rule_set.require()
    rule_set.report.default_group = group
    chosen = _measured(rule_set, at, threads, budget) if measure else rule_set
    if not measure and (at or threads or budget != BUDGET):
        raise UsageError("Shapes, threads and a budget are for measurements. Add measure=True, or leave them out.")
    if measure and dry_run:
        raise UsageError("A measurement writes and runs models, so a dry run cannot choose. Leave out one of the two.")
    checks = replace(checks, progress=progress, plugin=plugin)
    with gc_paused():
        made, _ = run(source, [chosen], checks, Saving(output, external_data, force))
    report = rule_set.report
    if report.rolled_back and not keep_going:
        raise CheckFailed(rollback_message(report), report, made)
    return ModelAndReport((made, report))


def _plugin(library: str, ep: str | None, target: str) -> "PluginProvider":
    """The execution provider of a plugin.  Raises UsageError as `find_plugin`, and for a target that takes none."""
    from surgeon.runtime.sessions.ep_library import find_plugin  # not at the top: few runs have any

    if target_of(target).proof_runtime is not target_of("ort").proof_runtime:
        raise UsageError(f"Target {target} is not of ONNX Runtime, so it takes no plugin. Leave out ep_library.")
    return find_plugin(library, ep)


def _measured(rule_set: RuleSet, at: Sequence[Mapping[str, int]], threads: int, budget: float) -> "Measure":
    """The choice among the forms of rules.  Raises UsageError for invalid options."""
    from surgeon.pipeline.measuring.measure import Measure  # not at the top: few runs measure

    found = Measure(rule_set, at, threads, budget)
    found.require()
    return found


def _listed(given: str | Sequence[str]) -> Sequence[str]:
    """One name as a list, or several."""
    return (given,) if isinstance(given, str) else given


def find(source: ModelLike, rules: Rules, *, target: str = "ort", ep: str | None = None) -> Iterable[Match]:
    """Yield the sites where rules would fire, one by one, without rewriting; a node belongs to one match.

    Args:
        source: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
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
    resolve_provider(target, ep)
    proto = resolve_model(source)
    taken: set[Any] = set()
    with Model.open(proto) as model:
        index, found = open_index(model), unique_rules(resolve(rules))
        driver = GreedyDriver(index, DriverSettings(found, target, ep))
        for rule in found:
            for scope in index.scopes:
                for match in driver.matches(rule, scope):
                    if not taken.intersection(match.nodes):
                        taken.update(match.nodes)
                        yield match
