"""The texts of a rewrite or an upgrade: its outcome, its proofs, and its errors."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.pipeline.reports.site import NodeInfo, Site
from surgeon.pipeline.reports.upgrade_report import UpgradeReport
from surgeon.text import format_beside_limit, format_count, join_first, runs_text

if TYPE_CHECKING:
    from surgeon.pipeline.reports.edit_report import EditReport
    from surgeon.proof.check_result import CheckResult, LayerComparison
    from surgeon.proof.site_proof import SiteProof
    from surgeon.runtime.numerics.array_comparison import OutputError
    from surgeon.runtime.numerics.tensor_judge import Deviation

SHOWN_RULES = 2
NOT_COVERED = "values and sizes of no such kind, other devices, ONNX Runtime's own optimisations"


def node_line(node: NodeInfo) -> str:
    """A node as ONNX text: outputs = op(inputs, attributes), and its name."""
    inside = ", ".join((*node.inputs, node.attributes) if node.attributes else node.inputs)
    return f"{', '.join(node.outputs)} = {node.op}({inside})  # {node.name}"


def site_lines(site: Site) -> Iterator[str]:
    """The nodes of a site, with a minus before and a plus after."""
    yield from (f"- {node_line(node)}" for node in (*site.replaced, *site.swept))
    for old, new in site.shared.items():
        yield f"- initializer {old}"
        yield f"+ its readers read {new}"
    yield from (f"+ {node_line(node)}" for node in site.added)


def scope_name(site: Site) -> str:
    """The name of a site's scope."""
    return site.scope or "main graph"


def rules_text(site: Site) -> str:
    """The main rule of a site, and its other rules."""
    rule, others = site.rule, [name for name in site.rules if name != site.rule]
    return f"{rule} (with {join_first(others, SHOWN_RULES)})" if others else rule


def site_words(site: Site) -> Iterator[str]:
    """Why a site is unproved or was rolled back, and the errors of both versions if its proof failed."""
    yield site.reason
    worst = site.proof.worst if site.proof is not None else None
    if worst is not None and not worst.ok and worst.original is not None:
        yield f"original {deviation_text(worst.original)}; rewritten {deviation_text(worst.rewritten)}"


def deviation_text(found: "Deviation | OutputError", absolute: str = "") -> str:
    """A deviation in all measures.  absolute: the text of the first one, if three digits are not enough."""
    if not found.max_abs and not found.max_rel:
        return "0"
    ulp = getattr(found, "max_ulp", None)
    units = "" if ulp is None else f", {ulp:.3g} ULP"
    return f"{absolute or f'{found.max_abs:.3g}'} absolute, {found.max_rel:.3g} relative{units}"


def outcome_words(report: Report) -> str:
    check = report.check
    if report.outcome == "unchanged":
        return "nothing matched"
    words: list[str] = []
    if report.edited is not None and report.edited.check is not None:
        words.append(f"the edit {_check_words(report.edited.check)}")
    if report.upgrade is not None and report.upgrade.check is not None:
        words.append(f"the upgrade {_check_words(report.upgrade.check)}")
    if report.proofs or report.rolled_back:
        sites = (*report.sites, *report.rolled_back)
        shared = [site for site in sites if site.is_shared]
        others = [site for site in sites if not site.is_shared]
        words += [_counted(found, what) for found, what in ((others, "site"), (shared, "shared initializer")) if found]
    if check is not None:
        model = "the model without them" if report.rolled_back else "whole model"
        words.append(f"{model} {_check_words(check)}")
    if not words:
        return "(--check none)" if report.written else "(nothing was written)"
    return "; ".join(words)


def _counted(sites: Sequence[Site], what: str) -> str:
    """The numbers of sites by outcome: 3 of 4 sites proved, 1 rolled back."""
    found = Counter("rolled back" if site.undone else site.outcome for site in sites)
    known = [(name, found[name]) for name in ("proved", "unproved", "rolled back") if found[name]]
    (name, count), *more = known or [("proved", 0)]
    others = "".join(f", {number:,} {other}" for other, number in more)
    return f"{count:,} of {format_count(len(sites), what)} {name}{others}"


def _check_words(check: "CheckResult") -> str:
    runs = f"on {runs_text(check.runs, check.oracle)}" if check.outputs else ""
    found = " ".join(part for part in (check.outcome.value, runs) if part)
    return ": ".join(part for part in (found, check.reason.rstrip(".")) if part)


def proof_words(report: Report) -> Iterator[str]:
    """The proofs: how many, by what, and against what."""
    ways: dict[tuple[str, str, bool], dict[object, SiteProof]] = {}
    for proof in report.proofs:
        if proof.runs:
            ways.setdefault((proof.oracle, proof.reference, proof.independent), {})[proof.key] = proof
    for (oracle, reference, independent), proofs in ways.items():
        runs = sum(proof.runs for proof in proofs.values())
        doubt = "" if independent else " (not independent: it proves the wiring, not the op)"
        count = f"{format_count(len(proofs), 'proof')}, {format_count(runs, 'run')}"
        yield f"{count} under {oracle}{doubt}, against {reference}"
    looked = Counter(proof.oracle for proof in report.proofs if proof.oracle and not proof.runs)
    for oracle, count_of in looked.items():
        yield f"{format_count(count_of, 'proof')} by {oracle}"


def not_covered_words(report: Report) -> str:
    """What a proof does not cover, with other sizes if the user fixed some."""
    held = [f"{name} but {size}" for name, size in report.dims.items()]
    sizes = f"sizes of {' and of '.join(held)}, " if held else ""
    return f"not covered: {sizes}{NOT_COVERED}"


def tested_inputs_text(report: Report) -> str:
    """The kinds and sizes of inputs on which the proved sites agree; empty without runs."""
    proofs = [proof for proof in report.proofs if proof.runs and proof.outcome.value == "proved"]
    if not proofs:
        return ""
    kinds = dict.fromkeys(kind for proof in proofs for kind in proof.kinds)
    return _inputs_words(kinds, dict.fromkeys(size for proof in proofs for size in proof.sizes))


def inputs_text(check: "CheckResult") -> tuple[str, str]:
    """The kinds and sizes of the inputs of a comparison, and what they do not cover."""
    return _inputs_words(check.kinds, check.sizes) or "the inputs that were given", f"not covered: {NOT_COVERED}"


def _inputs_words(kinds: Collection[str], sizes: Collection[str]) -> str:
    numbers = [int(number) for size in sizes for number in re.findall(r" (\d+)(?:,|$)", size)]
    count = f"{format_count(len(sizes), 'set')} of sizes"
    free = f"; {count} ({min(numbers)} to {max(numbers):,})" if numbers else ""
    return f"{', '.join(kinds)}{free}"


def error_words(report: Report) -> Iterator[str]:
    """The error closest to its limit over all proofs, with the original's, and the error of the whole models."""
    errors = [site.proof.worst for site in report.sites if site.proof is not None and site.proof.worst is not None]
    if errors:
        worst = max(errors, key=lambda error: error.severity)
        own = "" if worst.original is None else f"; the original by {worst.original.max_abs:.3g}"
        gap, allowed = error_and_tolerance(worst.gap, worst.allowed, worst.scale)
        yield f"by {gap} where {allowed} is allowed, in {worst.name!r} ({worst.dtype}){own}"
        if worst.rewritten.max_rel:
            relative, units = worst.rewritten.max_rel, worst.rewritten.max_ulp
            yield f"away from zero by {relative:.3g} of a number, {units:.3g} ULP, at most"
    whole = report.check.worst if report.check is not None else None
    if whole is not None:
        gap, allowed = error_and_tolerance(whole.max_abs, whole.allowed, whole.scale)
        deviation = deviation_text(whole, gap)
        yield f"worst {deviation} where {allowed} is allowed, in output {whole.name!r} ({whole.dtype})"


def error_and_tolerance(gap: float, allowed: float, scale: float) -> tuple[str, str]:
    """An error, and its tolerance with the scale of the tensor."""
    if not allowed or not scale or not math.isfinite(allowed / scale):
        return format_beside_limit(gap, allowed)
    found, text = format_beside_limit(gap, allowed, (3, 2))
    return found, f"{text} ({allowed / scale:.2g} of {scale:.3g})"


def upgrade_lines(done: UpgradeReport) -> Iterator[tuple[str, str]]:
    """The effects of an upgrade: a title, empty for continuation lines, and a text."""
    yield "opset", f"{done.opset[0]} -> {done.opset[1]}"
    if done.ir_version[0] != done.ir_version[1]:
        yield "IR", f"{done.ir_version[0]} -> {done.ir_version[1]}"
    if done.declared:
        yield "declared", done.declared
    if done.newer:
        yield "newer", ", ".join(f"{op} x{count:,}" for op, count in sorted(done.newer.items()))
    for place, (sentence, count) in enumerate(done.edited.items()):
        yield "" if place else "edited", f"{sentence} (x{count:,})"
    if done.functions:
        yield "functions", f" raised too: {', '.join(done.functions)}"
    if done.refused:
        yield "note", done.refused


def detector_tail_text(report: Report) -> str:
    """What a rewrite did about the post-processing of a detector."""
    return "an edit, done before the rules" if report.edited is not None else "the model answers so already"


def edited_lines(done: "EditReport") -> Iterator[tuple[str, str]]:
    """The effects of the edit before the rules: a title, empty for continuation lines, and a text."""
    for applied in done.edits:
        for place, sentence in enumerate(applied.said):
            yield "" if place else applied.edit.flag, sentence


def layer_comparison_text(layers: "LayerComparison") -> str:
    """The result of comparing inner tensors, in one line."""
    if layers.left_out:
        return layers.left_out
    if not layers.compared:
        return "no inner tensor has the same name in both models"
    if layers.first_different:
        return f"the first tensor to leave tolerance is '{layers.first_different}' ({layers.compared:,} compared)"
    return f"{format_count(layers.compared, 'tensor')} of the same name compared, none leaves tolerance"
