"""The HTML of a rewrite: rules, sites before and after, near misses, and the proof."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from surgeon.display.content.near_misses import idle_rules, near_miss_lines, upgrade_hint, warning_lines
from surgeon.display.content.rewrite import (
    detector_tail_text,
    deviation_text,
    edited_lines,
    error_and_tolerance,
    error_words,
    layer_comparison_text,
    not_covered_words,
    outcome_words,
    proof_words,
    rules_text,
    scope_name,
    site_lines,
    tested_inputs_text,
    upgrade_lines,
)
from surgeon.display.html.elements import (
    Cell,
    HtmlContent,
    Markup,
    RenderContext,
    Row,
    bullet_list,
    code,
    collapsible,
    concat,
    diff_lines,
    element,
    fields,
    outcome_badge,
    outcome_note,
    section,
    table,
)
from surgeon.display.pictures.draw import draw, draw_match
from surgeon.display.registry import register_view, title_from_source
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.pipeline.reports.site import Site
from surgeon.proof.site_proof import SiteProof
from surgeon.rules.matching.match import Match
from surgeon.text import and_more, format_beside_limit, join_first, seconds_text

FEW, KINDS = 3, 12  # names in a line; classes of sites in a notebook cell
OWN_KEYS = ("rule", "scope", "root", "outcome", "proof", "undone")  # the keys of a site that equals another one


def report_json(report: Report) -> dict[str, Any]:
    """A report as in `to_dict`; among equal sites only the first is complete, and the others refer to it."""
    found = report.to_dict()
    for key, sites in (("sites", report.sites), ("rolled_back", report.rolled_back)):
        places = {id(site): place for place, site in enumerate(sites)}
        for first, *others in site_classes(sites):
            for place in (places[id(site)] for site in others):
                record = found[key][place]
                found[key][place] = {"like": places[id(first)], **{name: record[name] for name in OWN_KEYS}}
    return found


@register_view(Report, "rewrite", title_from_source("A rewrite"), report_json)
def rewrite_body(report: Report, context: RenderContext) -> Markup:
    """The whole report of a rewrite."""
    idle = idle_rules(report)
    hints = [element("p", line) for line in (upgrade_hint(report), *report.next_steps, *warning_lines(report)) if line]
    near_misses = near_miss_lines(report, verbose=context.is_full_page)
    equal_sites = site_classes(report.sites), site_classes(report.rolled_back)
    shown = KINDS if not context.is_full_page else None
    more = and_more(max(0, len(equal_sites[0]) - KINDS) if shown else 0, "kinds of sites: surgeon.page(report) has all")
    return concat((
        outcome_note(report.outcome, outcome_words(report)),
        fields(_head(report)),
        section("Rules", (_rules(report, idle), _silent(idle), *hints)),
        section("Rolled back", [site_class_body(sites, context) for sites in equal_sites[1]]),
        section("Sites", [*(site_class_body(sites, context) for sites in equal_sites[0][:shown]), more]),
        section("Not rewritten", bullet_list(line.strip() for line in near_misses) if near_misses else ""),
        section("How it was proved", fields(_proved(report))),
    ))


def _head(report: Report) -> Iterator[tuple[str, HtmlContent]]:
    yield "model", code(report.source) if report.source else ""
    yield "target", report.target if report.ep is None else f"{report.target} ({report.ep})"
    yield from edited_lines(report.edited) if report.edited is not None else ()
    yield from upgrade_lines(report.upgrade) if report.upgrade is not None else ()
    constants = " ({:,} → {:,} of them Constants)".format(*report.constants) if any(report.constants) else ""
    yield "nodes", f"{report.nodes_before:,} → {report.nodes_after:,}{constants}"
    yield "written", code(report.output) if report.written else "nothing"


def _proved(report: Report) -> Iterator[tuple[str, HtmlContent]]:
    for name, words in (("proofs", proof_words(report)), ("differs", error_words(report))):
        for place, line in enumerate(words):
            yield "" if place else name, line
    tried = tested_inputs_text(report)
    yield "tried", tried
    yield "", not_covered_words(report) if tried else ""
    if report.check is not None and report.check.layers is not None:
        yield "layers", layer_comparison_text(report.check.layers)
    yield "time", ", ".join(f"{phase} {seconds_text(value)}" for phase, value in report.seconds.items())


def _rules(report: Report, idle: Iterable[str]) -> Markup:
    """How often each rule fired, where, and the error closest to its limit."""
    rows: list[Row] = []
    for name, count in report.counts.items():
        if name in idle:
            continue
        sites = [site for site in report.sites if name in site.rules]
        rolled_back = sum(name in site.rules for site in report.rolled_back)
        names = detector_tail_text(report) if name in report.tails else join_first([site.root for site in sites], FEW)
        errors = [site.proof.worst for site in sites if site.proof is not None and site.proof.worst is not None]
        worst = max(errors, key=lambda error: error.severity, default=None)
        numbers = () if worst is None else format_beside_limit(worst.gap, worst.allowed)
        share = Cell(" of ".join(numbers), 0 if worst is None else worst.severity)
        rows.append([code(name), count, rolled_back, names, share])
    return table(("rule", "times", "rolled back", "where", "worst error of what is allowed"), rows, "Rules that ran")


def _silent(idle: frozenset[str]) -> Markup:
    return element("p", f"{len(idle):,} other rules did nothing.", class_="faint") if idle else Markup("")


def site_classes(sites: Sequence[Site]) -> list[list[Site]]:
    """Equal sites together: by their rules, their nodes before and after, and their outcome."""
    found: dict[object, list[Site]] = {}
    for site in sites:
        nodes = (tuple((node.op, node.attributes) for node in side) for side in (site.replaced, site.added))
        worst = site.proof.worst if site.proof is not None else None
        reason = site.reason.replace(repr(worst.name), "''") if worst is not None else site.reason
        found.setdefault((site.rules, *nodes, site.outcome, reason), []).append(site)
    return list(found.values())


def site_class_body(sites: Sequence[Site], context: RenderContext) -> Markup:
    """Equal sites, collapsed, with the picture of the first."""
    first = sites[0]
    times = f" × {len(sites):,}" if len(sites) > 1 else ""
    where = f"{first.root}{and_more(len(sites) - 1)}"
    title = concat((outcome_badge(first.outcome), " ", element("b", rules_text(first)), times, " at ", code(where)))
    names = (f"{scope_name(site)}: {site.root}" if site.scope else site.root for site in sites)
    others = collapsible(f"all {len(sites):,} sites", bullet_list(map(code, names))) if len(sites) > 1 else Markup("")
    return collapsible(title, (_site_content(first, context), others))


@register_view(Site, "site", lambda site: f"{site.rule} at {site.root}")
def site_body(site: Site, context: RenderContext) -> Markup:
    """One site, expanded."""
    head = element("p", (outcome_badge(site.outcome), " ", element("b", rules_text(site)), " at ", code(site.root)))
    return concat((head, _site_content(site, context)))


def _site_content(site: Site, context: RenderContext) -> Markup:
    reason = element("p", f"{site.reason}.") if site.reason else Markup("")
    about = f"{rules_text(site)} at {site.root}, before and after"
    drawn = Markup("") if site.is_shared else context.figure(lambda: draw(site), about)
    nodes = diff_lines(site_lines(site))
    proof = fields(_proof_lines(site.proof)) if site.proof is not None else Markup("")
    return concat((reason, drawn, nodes if not drawn else collapsible("nodes", nodes), proof))


def _proof_lines(proof: SiteProof) -> Iterator[tuple[str, HtmlContent]]:
    """The proof of one site, and its largest error."""
    if proof.runs:
        yield "proof", f"{proof.runs:,} runs under {proof.oracle}, against {proof.reference}"
    elif proof.oracle:
        yield "proof", f"{proof.oracle}, against {proof.reference}"
    if proof.kinds:
        yield "tried", ", ".join(proof.kinds)
    if proof.sizes:
        yield "sizes", join_first(proof.sizes, FEW)
    worst = proof.worst
    if worst is not None:
        gap, allowed = error_and_tolerance(worst.gap, worst.allowed, worst.scale)
        yield "differs", f"by {gap} where {allowed} is allowed, in {worst.name!r} ({worst.dtype})"
        if worst.original is not None:
            yield "", f"original {deviation_text(worst.original)}; rewritten {deviation_text(worst.rewritten)}"


@register_view(
    Match, "match", lambda match: f"{match.pattern.name} at {match.root.label}", lambda match: _match_data(match)
)
def match_body(match: Match, context: RenderContext) -> Markup:
    """A match of a pattern: its nodes, and its captures."""
    about = f"{match.pattern.name} at {match.root.label}"
    return concat((
        element("p", (element("b", match.pattern.name), " at ", code(match.root.label), f" ({match.pattern.where})")),
        context.figure(lambda: draw_match(match), about),
        fields((name, code(text)) for name, text in _captures(match)),
    ))


def _captures(match: Match) -> Iterator[tuple[str, str]]:
    """The value of each capture as a text."""
    for name, found in match.bound.items():
        if not name.startswith("_"):
            yield name, "left out" if found is None else str(found[0] if isinstance(found, tuple) else found)


def _match_data(match: Match) -> dict[str, object]:
    return {
        "pattern": match.pattern.name,
        "nodes": [node.label for node in match.nodes],
        "outputs": list(match.outputs),
        "captures": dict(_captures(match)),
    }
