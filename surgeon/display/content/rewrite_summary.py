"""The summary of a rewrite: the changes, whether they are correct, and the next steps.

Every limit of the word PROVED is in it: notes of proofs, reasons of unproved sites, fixed sizes, and names that match
nothing.  Only the number of near misses is limited.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from surgeon.display.blocks import Text, lines_of, outcome
from surgeon.display.content.comparison import assumption_clause, compared_text
from surgeon.display.content.near_misses import (
    already_lines,
    idle_rules,
    missed_lines,
    upgrade_hint,
    warning_lines,
    why_command,
)
from surgeon.display.content.report import change, counted_line, edit_lines
from surgeon.display.content.site import unnamed_reason
from surgeon.ops.plugins.builtin_plugins import check_notes
from surgeon.pipeline.reports.measurement import KEPT
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.reports.site import FAILED_PROOF, Site
from surgeon.runtime.sessions.engine_names import KERNEL_ENGINES, replacement_engine
from surgeon.text import and_more, format_count, of_the_limit

CLEANUP = "cleanup"
SiteNames: TypeAlias = Mapping[Site, str]  # the result of `site_names`


def site_names(report: RewriteReport) -> dict[Site, str]:
    """The name of each site: the rule whose nodes are left, or that removed nodes; `cleanup` for helpers.

    A helper keeps its name if the user named it, or if no other rule is left anywhere.
    """
    helpers = report.cleanup - report.named
    sites = (*report.sites, *report.rolled_back)
    found = {site: _site_name(site, helpers) for site in sites}
    return found if set(found.values()) != {CLEANUP} else {site: site.rule for site in sites}


def _site_name(site: Site, helpers: Collection[str]) -> str:
    left = [step.rule for step in site.steps if any(node.alive for node in step.added)] or site.rules
    main = [rule for rule in left if rule not in helpers] or [rule for rule in site.rules if rule not in helpers]
    if site.rule in main or site.outcome == "failed":
        return site.rule
    return Counter(main).most_common(1)[0][0] if main else CLEANUP


def done_lines(report: RewriteReport, names: SiteNames) -> Iterator[Text]:
    """The effects of edits, and the number of sites by rule; their sum is the number of sites next to the outcome."""
    yield from (f"{flag}  {effect}".strip() for flag, effect in edit_lines(report))
    if report.upgrade is not None:
        yield "opset ", *change(report.upgrade.opset)
    counts = Counter(names[site] for site in report.sites)
    if counts:
        yield counted_line({name: count for name, count in counts.items() if name != CLEANUP} | counts)


def summary_rows(report: RewriteReport, names: SiteNames) -> Iterator[tuple[Text, Text]]:
    """The rows below the lines of effects."""
    yield outcome(report.outcome), _outcome_words(report, names)
    if report.default_group:
        yield "rules", f"{report.default_group}, the default for target {report.target}"
    if report.measurement is not None:
        from surgeon.display.content.measurement import measured_rows  # not at the top: few rewrites measure

        yield from measured_rows(report.measurement)
    yield from lines_of("undone", _undone_lines(report))
    yield from lines_of("why", _unproved_lines(report, names))
    yield from lines_of("note", _notes(report, names))
    yield from lines_of("warning", warning_lines(report))
    yield from lines_of("already", already_lines(report))
    yield from lines_of("missed", missed_lines(report))
    yield from lines_of("next", () if is_kept(report) else _next_lines(report))


def is_kept(report: RewriteReport) -> bool:
    """Whether the model stays because no result was as fast."""
    return report.measurement is not None and report.measurement.outcome == KEPT


def _outcome_words(report: RewriteReport, names: SiteNames) -> str:
    """How many sites are proved, and the comparison of whole models."""
    if is_kept(report):
        return "the model stays as it is"
    if report.outcome == "unchanged":
        return "nothing left to do" if any(already_lines(report)) else "no rule matched"
    return "; ".join(_outcome_parts(report, names)).removeprefix("whole model unproved: ")


def _outcome_parts(report: RewriteReport, names: SiteNames) -> Iterator[str]:
    sites = (*report.sites, *report.rolled_back)
    if report.edited is not None and report.edited.check is not None:
        yield f"the edit {compared_text(report.edited.check)}"
    if report.upgrade is not None and report.upgrade.check is not None:
        yield f"the upgrade {compared_text(report.upgrade.check)}"
    if report.proofs or report.rolled_back:
        yield _counted(report, sites)
        yield from () if report.rolled_back else _largest_error(report, names)
    if report.check is not None:
        yield f"{'the model without them' if report.rolled_back else 'whole model'} {compared_text(report.check)}"
    elif not report.proofs and not report.rolled_back and sites:
        why = "--check none" if report.written else "nothing was written, so nothing was proved"
        yield f"{format_count(len(sites), 'site')}; {why}"


def _counted(report: RewriteReport, sites: Sequence[Site]) -> str:
    """The numbers of sites by outcome: "17 of 17 sites", "3 of 4 sites failed their proof and were rolled back"."""
    total, undone = format_count(len(sites), "site"), report.rolled_back
    proved = sum(site.outcome == "proved" for site in report.sites)
    unproved = len(report.sites) - proved
    known = "all" if report.remembered == len(sites) else f"{report.remembered:,}"
    remembered = f", {known} of them before on this machine" if report.remembered else ""
    if not undone:
        return f"{proved:,} of {total}{'' if report.outcome == 'proved' else ' proved'}{remembered}"
    one = len(undone) == 1
    failed = f"failed {'its' if one else 'their'} proof and " * all(site.undone == FAILED_PROOF for site in undone)
    others = "".join(f", {count:,} {name}" for count, name in ((proved, "proved"), (unproved, "unproved")) if count)
    return f"{len(undone):,} of {total} {failed}{'was' if one else 'were'} rolled back{others}{remembered}"


def _largest_error(report: RewriteReport, names: SiteNames) -> Iterator[str]:
    """The error of the sites that is closest to its limit, and its site."""
    errors = [(site.proof.worst, site) for site in report.sites if site.proof is not None]
    known = [(worst.severity, site) for worst, site in errors if worst is not None]
    severity, site = max(known, key=lambda item: item[0], default=(0.0, None))
    if site is not None and severity:
        yield f"largest error {of_the_limit(severity)} ({names[site]} at {site.root})"


def _undone_lines(report: RewriteReport) -> Iterator[str]:
    """Why sites were rolled back: of each rule and kind of reason, the worst site."""
    found: dict[tuple[str, str], list[Site]] = {}
    for site in report.rolled_back:
        found.setdefault((site.rule, site.undone), []).append(site)
    for sites in found.values():
        worst = max(sites, key=_severity)
        yield f"{worst.rule} at {worst.root}{and_more(len(sites) - 1)}: {worst.reason}"


def _severity(site: Site) -> float:
    worst = site.proof.worst if site.proof is not None else None
    return worst.severity if worst is not None else 0.0


def _unproved_lines(report: RewriteReport, names: SiteNames) -> Iterator[str]:
    """Why sites that were written are not proved, each reason once for each rule."""
    for name, sites in _by_reason(report, names, "unproved"):
        yield f"{name} at {sites[0].root}{and_more(len(sites) - 1)}: {sites[0].reason}"


def _notes(report: RewriteReport, names: SiteNames) -> Iterator[str]:
    """The limits of the word PROVED, each once."""
    found: dict[str, Counter[str]] = {}
    for name, sites in _by_reason(report, names, "proved"):
        found.setdefault(sites[0].reason, Counter())[name] += len(sites)
    wired = [site for site in report.sites if site.outcome == "proved" and site.proof and not site.proof.independent]
    if wired:
        reason = "the replacement ran by the rule's own pattern, so only its wiring is proved"
        found[reason] = Counter(names[site] for site in wired)
    yield from (f"{_named(counts)}: {reason}" for reason, counts in found.items())
    yield from check_notes(node.op for site in report.sites for node in site.added)
    yield from _engine_lines(report)
    if report.assumptions:
        yield f"proved only {assumption_clause(report.assumptions)}"
    if report.upgrade is not None and report.upgrade.refused:
        yield report.upgrade.refused
    if report.dims and (report.proofs or (report.check is not None and report.check.runs)):
        is_proved = report.check or any(site.outcome == "proved" for site in report.sites)
        sizes = ", ".join(f"{name} = {size:,}" for name, size in report.dims.items())
        yield f"{'proved only for' if is_proved else 'checked only with'} {sizes} (--dim)"


def _engine_lines(report: RewriteReport) -> list[str]:
    """Which engines ran replacements of proved sites in place of the target's runtime, and why it did not."""
    proofs = [site.proof for site in report.sites if site.proof is not None and site.outcome == "proved"]
    ran = [(proof, replacement_engine(proof.oracle)) for proof in proofs if proof.runs]
    engines = (report.runtime,) if report.runtime else () if report.not_on_target else KERNEL_ENGINES
    others = [(proof, engine) for proof, engine in ran if proof.not_on_target or engine not in engines]
    whole = f"the replacement{'s' * (len(ran) != 1)}"
    counts = Counter(engine for _, engine in others)
    reasons = dict.fromkeys(filter(None, (report.not_on_target, *(proof.not_on_target for proof, _ in others))))
    why = f", as {next(iter(reasons))}" if reasons else ""
    return [f"{engine} ran {whole if n == len(ran) else f'{n:,} of {whole}'}{why}" for engine, n in counts.items()]


def _named(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in counts.items())


def _by_reason(report: RewriteReport, names: SiteNames, outcome_name: str) -> Iterator[tuple[str, list[Site]]]:
    """The sites of an outcome whose proofs have a reason, by rule and reason, with the name of the rule."""
    found: dict[tuple[str, str], list[Site]] = {}
    for site in report.sites:
        if site.proof is not None and site.outcome == outcome_name and site.reason:
            found.setdefault((names[site], unnamed_reason(site)), []).append(site)
    return ((name, sites) for (name, _), sites in found.items())


def _next_lines(report: RewriteReport) -> Iterator[str]:
    """The next steps."""
    yield from filter(None, (upgrade_hint(report), *report.next_steps))
    idle = idle_rules(report)
    if report.outcome == "unchanged" and idle:
        yield f"{why_command(report, idle)} shows what comes near"
