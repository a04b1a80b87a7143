"""The terminal output of a rewrite or an upgrade."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from surgeon.display.content.near_misses import idle_rules, near_miss_lines, upgrade_hint, warning_lines, why_command
from surgeon.display.content.rewrite import (
    detector_tail_text,
    edited_lines,
    error_words,
    layer_comparison_text,
    not_covered_words,
    outcome_words,
    proof_words,
    rules_text,
    scope_name,
    site_lines,
    site_words,
    tested_inputs_text,
    upgrade_lines,
)
from surgeon.display.terminal.console import OUTCOME_STYLES, labelled_line_printer, make_console
from surgeon.display.terminal.sanitise import sanitise
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.pipeline.reports.site import Site
from surgeon.pipeline.reports.upgrade_report import UpgradeReport
from surgeon.text import and_more, join_first, seconds_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SHOWN_SITES, SHOWN_PLACES = 2, 20


def print_report(report: Report, stream: TextIO, *, diff: bool = False, verbose: bool = False) -> None:
    """Print a rewrite's report.  diff: also the nodes before and after, site by site.  verbose: all near misses."""
    from rich.text import Text

    console = make_console(stream)
    if diff and report.sites:
        click.echo("\n".join(diff_lines(report.sites)), file=stream)
    console.print(_rules_table(report, idle_rules(report)))
    for lines, style in (
        ([upgrade_hint(report), *report.next_steps], "bold green"),
        (warning_lines(report), "bold yellow"),
    ):
        for line in filter(None, lines):
            console.print(Text(line, style=style), soft_wrap=True)
    noted = [site for site in report.sites if site.proof is not None and site.proof.reason]
    doubtful = [site for site in noted if site.outcome == "unproved"]
    with_note = [site for site in noted if site.outcome == "proved"]
    unsure = "written, but unproved" if report.written else "unproved"
    for title, sites in (("rolled back", report.rolled_back), (unsure, doubtful), ("proved, with a note", with_note)):
        if sites:
            _print_sites(console, title, sites)
    near_misses = near_miss_lines(report, verbose=verbose)
    if near_misses:
        console.print()
        console.print(Text("not rewritten", style="bold"))
        for line in near_misses:
            console.print(line, soft_wrap=True)
    _print_summary(console, report)


def diff_lines(sites: Sequence[Site]) -> Iterator[str]:
    """The nodes of each site, with a minus before and a plus after."""
    for number, site in enumerate(sites, 1):
        rules = " + ".join(site.rules)
        place = f"@@ {number}/{len(sites)} {rules} at {site.root} ({scope_name(site)}) @@"
        yield click.style(sanitise(place), fg="cyan")
        for line in site_lines(site):
            yield click.style(sanitise(line), fg="green" if line[0] == "+" else "red")


def _rules_table(report: Report, idle: frozenset[str]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rule", overflow="fold")
    table.add_column("times", justify="right")
    if report.rolled_back:
        table.add_column("rolled back", justify="right")
    table.add_column("where", overflow="fold")
    remaining, rolled_back = _by_rule(report.sites), _by_rule(report.rolled_back)
    for name in report.counts:
        if name in idle:
            continue
        found = remaining.get(name, [])
        times, undone = (sum(site.fired[name] for site in sites) for sites in (found, rolled_back.get(name, [])))
        where = _where(found)
        if name in report.tails:
            times, where = report.count(name), detector_tail_text(report)
        numbers = [f"{times:,}", *([f"{undone:,}" if undone else ""] if report.rolled_back else [])]
        table.add_row(name, *numbers, where, style="" if times or undone else "dim")
    if idle:
        numbers = ["0", *([""] if report.rolled_back else [])]
        table.add_row(f"{len(idle):,} others", *numbers, f"why: {why_command(report, idle)}", style="dim")
    return table


def _by_rule(sites: Iterable[Site]) -> dict[str, list[Site]]:
    """Sites by each rule that fired there."""
    found: dict[str, list[Site]] = {}
    for site in sites:
        for rule in site.rules:
            found.setdefault(rule, []).append(site)
    return found


def _where(sites: Iterable[Site]) -> str:
    """Scopes with their numbers of sites, and the first few names of each."""
    scopes: dict[str, list[Site]] = {}
    for site in sites:
        scopes.setdefault(scope_name(site), []).append(site)
    lines = []
    for scope, found in list(scopes.items())[:SHOWN_SITES]:
        roots = [sanitise(site.root) for site in found[:SHOWN_SITES]]
        lines.append(f"{sanitise(scope)}: {join_first(roots, SHOWN_SITES, len(found))}")
    more = and_more(len(scopes) - SHOWN_SITES, "scopes").lstrip()
    return "\n".join(filter(None, (*lines, more)))


def _print_sites(console: "Console", title: str, sites: Sequence[Site]) -> None:
    """Print sites with their reasons and errors; sites whose texts differ only in names are printed once."""
    from rich.text import Text

    alike: dict[tuple[str, ...], list[Site]] = {}
    for site in sites:
        worst = site.proof.worst if site.proof is not None else None
        name = repr(worst.name) if worst is not None else ""
        words = (item.replace(name, "''") if name else item for item in site_words(site))
        alike.setdefault((rules_text(site), *words), []).append(site)
    console.print()
    console.print(Text(title, style="bold"))
    for found in list(alike.values())[:SHOWN_PLACES]:
        others = and_more(len(found) - 1, "like it")
        reason, *numbers = site_words(found[0])
        console.print(f"  {rules_text(found[0])} at {found[0].root}{others}: {reason}", soft_wrap=True)
        for line in numbers:
            console.print(f"    {line}", style="dim", soft_wrap=True)
    more = and_more(sum(map(len, list(alike.values())[SHOWN_PLACES:])))
    if more:
        console.print(f" {more} (--report has all)", soft_wrap=True)


def _print_summary(console: "Console", report: Report) -> None:
    line = labelled_line_printer(console)

    console.print()
    for name, words in edited_lines(report.edited) if report.edited is not None else ():
        line(name, f" {sanitise(words)}")
    if report.upgrade is not None:
        for name, words in upgrade_lines(report.upgrade):
            line(name, words)
    constants = "{:,} -> {:,} of them Constants".format(*report.constants) if any(report.constants) else ""
    line("nodes", f"{report.nodes_before:,} -> {report.nodes_after:,}", f" ({constants})" if constants else "")
    line("outcome", OUTCOME_STYLES[report.outcome], f"  {outcome_words(report)}".rstrip())
    for place, words in enumerate(proof_words(report)):
        line("" if place else "proofs", words)
    tried = tested_inputs_text(report)
    if tried:
        line("tried", tried)
        line("", not_covered_words(report))
    for place, words in enumerate(error_words(report)):
        line("" if place else "differs", words)
    if report.check is not None and report.check.layers is not None:
        line("layers", layer_comparison_text(report.check.layers))
    line("time", ", ".join(f"{phase} {seconds_text(value)}" for phase, value in report.seconds.items()))
    line("written", _written_words(report))


def _written_words(report: Report) -> str:
    if not report.written:
        return "nothing"
    return f"{report.output}{' (the same bytes as the input)' if report.is_unchanged else ''}"


def print_upgrade(done: UpgradeReport, stream: TextIO, *, written: bool) -> None:
    """Print the report of an upgrade.  written: whether the file was written."""

    console = make_console(stream)
    line = labelled_line_printer(console)

    for name, words in upgrade_lines(done):
        line(name, words)
    line(
        "outcome",
        OUTCOME_STYLES[done.outcome],
        f" {done.check.reason}" if done.check is not None and done.check.reason else "",
    )
    line("time", seconds_text(done.seconds))
    line("written", done.output if written else "nothing")
