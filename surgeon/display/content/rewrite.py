"""A rewrite or an upgrade as blocks: the rules that fired, the outcome, the proofs, and the errors."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from surgeon.display.blocks import (
    Block,
    Cell,
    Document,
    Facts,
    Number,
    Section,
    Span,
    Table,
    Text,
    lines_of,
    toned,
)
from surgeon.display.content.comparison import (
    NOT_COVERED,
    check_words,
    inputs_words,
    layer_comparison_text,
)
from surgeon.display.content.near_misses import (
    idle_rules,
    near_miss_section,
    why_command,
)
from surgeon.display.content.report import (
    change,
    headed_document,
    labelled_lines,
    nodes_change,
    outcome_rows,
    proof_section,
)
from surgeon.display.content.rewrite_summary import done_lines, site_names, summary_rows
from surgeon.display.content.site import kinds_of_sites, reasons, scope_name, site_classes
from surgeon.display.registry import reports
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.reports.site import Site
from surgeon.pipeline.reports.upgrade_report import UpgradeReport
from surgeon.runtime.sessions.engine_names import ORIGINAL_ITSELF
from surgeon.text import and_more, format_count, join_first, of_the_limit

if TYPE_CHECKING:
    from surgeon.proof.site_proof import SiteProof

SHOWN_SITES = 2
OWN_KEYS = ("rule", "scope", "root", "outcome", "proof", "undone")  # the keys of a site that equals another one


def report_json(report: RewriteReport) -> dict[str, Any]:
    """A report as in `to_dict`; among equal sites only the first is complete, and the others refer to it."""
    found = report.to_dict()
    for key, sites in (("sites", report.sites), ("rolled_back", report.rolled_back)):
        places = {id(site): place for place, site in enumerate(sites)}
        for first, *others in site_classes(sites):
            for place in (places[id(site)] for site in others):
                record = found[key][place]
                found[key][place] = {"like": places[id(first)], **{name: record[name] for name in OWN_KEYS}}
    return found


@reports(RewriteReport, "rewrite", report_json)
def document(report: RewriteReport) -> Document:
    """A rewrite."""
    same = "" if report.changed or report.steps or not report.is_copy else "identical to the input"
    names = site_names(report)
    done, rows = list(done_lines(report, names)), list(summary_rows(report, names))
    is_plain = len(rows) == 1 + bool(report.default_group) and len(set(names.values())) <= 1
    hint = "details and nodes: -v" if report.rolled_back else "" if is_plain else "details: -v, or --report report.html"
    return headed_document(
        report, nodes_change(report.nodes), done=done, rows=rows, details=_details(report), same=same, advice=hint
    )


def _details(report: RewriteReport) -> Iterator[Block]:
    if report.measurement is not None:
        from surgeon.display.content.measurement import measured_section  # not at the top: few rewrites measure

        yield measured_section(report.measurement)
    yield Section("rules", [_rules_table(report)])
    noted = [site for site in report.sites if site.proof is not None and site.proof.reason]
    doubtful = [site for site in noted if site.outcome == "unproved"]
    with_note = [site for site in noted if site.outcome == "proved"]
    yield Section("rolled back", [reasons(report.rolled_back), *kinds_of_sites(report.rolled_back)])
    yield Section("written, but unproved" if report.written else "unproved", [reasons(doubtful)])
    yield Section("proved, with a note", [reasons(with_note)])
    yield near_miss_section(report)
    if report.sites:
        yield Section("sites", kinds_of_sites(report.sites))
    yield Section("worst errors", [_errors_table(report)])
    yield Section("proofs", [Facts(list(_proof_facts(report)))])


def _rules_table(report: RewriteReport) -> Table:
    """How often each rule fired, and where."""
    idle, rows = idle_rules(report), list[Sequence[Cell]]()
    remaining, rolled_back = _by_rule(report.sites), _by_rule(report.rolled_back)
    for name in report.counts:
        if name in idle:
            continue
        found = remaining.get(name, [])
        times, undone = (sum(site.fired[name] for site in sites) for sites in (found, rolled_back.get(name, [])))
        where = _where(found)
        if name in report.tails:
            times, where = report.count(name), detector_tail_text(report)
        row = Span(name, "code"), times, *_undone(report, undone), where
        rows.append(toned(row, "" if times or undone else "faint"))
    if idle:
        rows += [toned((f"{len(idle):,} others", 0, *_undone(report, 0), f"why: {why_command(report, idle)}"), "faint")]
    heads = ("rule", "times", *(["rolled back"] if report.rolled_back else ()), "where")
    return Table("Rules that ran", heads, rows, most=len(rows))


def _undone(report: RewriteReport, count: int) -> list[Cell]:
    """The cell of rolled back sites; none if there are none in the report."""
    return [Number(f"{count:,}" if count else "", count)] if report.rolled_back else []


def _by_rule(sites: Iterable[Site]) -> dict[str, list[Site]]:
    """Sites by each rule that fired there."""
    found: dict[str, list[Site]] = {}
    for site in sites:
        for rule in site.rules:
            found.setdefault(rule, []).append(site)
    return found


def _where(sites: Iterable[Site]) -> str:
    """Scopes with their numbers of sites, and the first few names of each."""
    scopes: dict[str, list[str]] = {}
    for site in sites:
        scopes.setdefault(scope_name(site), []).append(site.root)
    shown = [f"{scope}: {join_first(roots, SHOWN_SITES)}" for scope, roots in list(scopes.items())[:SHOWN_SITES]]
    return f"{'; '.join(shown)}{and_more(len(scopes) - SHOWN_SITES, 'scopes')}"


def _errors_table(report: RewriteReport) -> Table:
    """The error of each rule that is closest to its limit."""
    rows = []
    for name, sites in _by_rule(report.sites).items():
        errors = [site.proof.worst for site in sites if site.proof is not None and site.proof.worst is not None]
        worst = max(errors, key=lambda error: error.severity, default=None)
        if worst is not None:
            rows.append((Span(name, "code"), Number(of_the_limit(worst.severity), worst.severity)))
    return Table("Worst errors", ("rule", "largest error"), rows)


def _proof_facts(report: RewriteReport) -> Iterator[tuple[str, Text]]:
    yield "target", report.target if report.ep is None else f"{report.target} ({report.ep})"
    yield from upgrade_lines(report.upgrade) if report.upgrade is not None else ()
    yield "Constants", change(report.constants) if any(report.constants) else ""
    yield from lines_of("proofs", proof_words(report))
    tried = tested_inputs_text(report)
    yield "tried", tried
    yield "", not_covered_words(report) if tried else ""
    yield from lines_of("differs", error_words(report))
    if report.check is not None and report.check.layers is not None:
        yield "layers", layer_comparison_text(report.check.layers)


@reports(UpgradeReport, "upgrade")
def upgrade_document(done: UpgradeReport) -> Document:
    """An upgrade."""
    already = "" if done.changed else f"the model already has opset {done.opset[0]}"
    reason = check_words(done.check) if done.check is not None else already
    effects = [row for row in upgrade_lines(done) if row[0] not in ("opset", "note")]
    rows = [*outcome_rows(done, reason), ("note", done.refused)]
    opset = ("opset ", *change(done.opset)) if done.opset[0] != done.opset[1] else f"opset {done.opset[0]}"
    return headed_document(done, opset, done=labelled_lines(effects), rows=rows, details=proof_section(done.check))


def proof_words(report: RewriteReport) -> Iterator[str]:
    """The proofs: how many, by what, and against what."""
    ways: dict[tuple[str, bool], dict[object, SiteProof]] = {}
    for proof in report.proofs:
        if proof.runs:
            ways.setdefault((proof.oracle, proof.independent), {})[proof.key] = proof
    for (oracle, independent), proofs in ways.items():
        references = dict.fromkeys(proof.reference for proof in proofs.values())
        others = [reference for reference in references if reference != ORIGINAL_ITSELF]
        runs = sum(proof.runs for proof in proofs.values())
        doubt = "" if independent else " (not independent: it proves the wiring, not the op)"
        count = f"{format_count(len(proofs), 'proof')}, {format_count(runs, 'run')}"
        yield f"{count} under {oracle}{doubt}, against {' and '.join(others or references)}"
    looked = Counter(proof.oracle for proof in report.proofs if proof.oracle and not proof.runs)
    for oracle, count_of in looked.items():
        yield f"{format_count(count_of, 'proof')} by {oracle}"


def not_covered_words(report: RewriteReport) -> str:
    """The limits of a proof, with other sizes if the user fixed some."""
    held = [f"{name} but {size}" for name, size in report.dims.items()]
    sizes = f"sizes of {' and of '.join(held)}, " if held else ""
    return f"not covered: {sizes}{NOT_COVERED}"


def tested_inputs_text(report: RewriteReport) -> str:
    """The kinds and sizes of inputs on which the proved sites agree; empty without runs."""
    proofs = [proof for proof in report.proofs if proof.runs and proof.outcome.value == "proved"]
    if not proofs:
        return ""
    kinds = dict.fromkeys(kind for proof in proofs for kind in proof.kinds)
    return inputs_words(kinds, dict.fromkeys(size for proof in proofs for size in proof.sizes))


def error_words(report: RewriteReport) -> Iterator[str]:
    """The error closest to its limit over all proofs, and the error of the whole models."""
    errors = [site.proof.worst for site in report.sites if site.proof is not None and site.proof.worst is not None]
    if errors:
        worst = max(errors, key=lambda error: error.severity)
        yield f"by {of_the_limit(worst.severity)} at most, in {worst.name!r} ({worst.dtype})"
    whole = report.check.worst if report.check is not None else None
    if whole is not None:
        yield f"by {of_the_limit(whole.severity)} at most in the whole model, in output {whole.name!r} ({whole.dtype})"


def upgrade_lines(done: UpgradeReport) -> Iterator[tuple[str, Text]]:
    """The effects of an upgrade: a title, empty for continuation lines, and a text."""
    yield "opset", change(done.opset)
    if done.ir_version[0] != done.ir_version[1]:
        yield "IR", change(done.ir_version)
    if done.declared:
        yield "declared", done.declared
    if done.newer:
        yield "newer", ", ".join(f"{op} x{count:,}" for op, count in sorted(done.newer.items()))
    yield from lines_of("edited", (f"{sentence} (x{count:,})" for sentence, count in done.edited.items()))
    if done.functions:
        yield "functions", f"raised too: {', '.join(done.functions)}"
    if done.refused:
        yield "note", done.refused


def detector_tail_text(report: RewriteReport) -> str:
    """The effect of a rewrite on the post-processing of a detector."""
    return "an edit, done before the rules" if report.edited is not None else "the model answers so already"
