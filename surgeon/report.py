"""What people read of a rewrite: a table of rules and sites, the outcome, and why nothing matched."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from surgeon.result import Miss, NodeInfo, Report, Site

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PLAIN_WIDTH = 120  # columns where the output is no terminal
SHOWN_SITES, SHOWN_MISSES = 2, 20
LOUD = {
    "proved": ("PROVED", "bold green"),
    "failed": ("FAILED", "bold white on red"),
    "unproved": ("UNPROVED", "bold black on yellow"),
    "unchanged": ("UNCHANGED", "bold yellow"),
    "unchecked": ("NOT CHECKED", "bold yellow"),
}


def console_for(stream: TextIO) -> "Console":
    """A rich console on this stream: plain and wide where it is no terminal, so that no name is cut."""
    from rich.console import Console

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def print_report(report: Report, stream: TextIO, *, diff: bool = False, dry_run: bool = False) -> None:
    """Print what a rewrite did.  diff: also the nodes before and after, site by site."""
    console = console_for(stream)
    if diff and report.sites:
        click.echo("\n".join(diff_lines(report.sites)), file=stream)
    console.print(_rules_table(report))
    misses = list(_told(report))
    if misses:
        _print_misses(console, misses)
    console.print(_summary(report, dry_run))


def diff_lines(sites: Sequence[Site]) -> Iterator[str]:
    """The nodes of each site, before with a minus and after with a plus."""
    for number, site in enumerate(sites, 1):
        rules = " + ".join(site.rules)
        yield click.style(f"@@ {number}/{len(sites)} {rules} at {site.root} ({scope_name(site)}) @@", fg="cyan")
        for node in (*site.replaced, *site.swept):
            yield click.style(f"- {node_line(node)}", fg="red")
        for node in site.added:
            yield click.style(f"+ {node_line(node)}", fg="green")


def node_line(node: NodeInfo) -> str:
    """A node as ONNX text has it: outputs = op(inputs), and its name."""
    return f"{', '.join(node.outputs)} = {node.op}({', '.join(node.inputs)})  # {node.name}"


def scope_name(site: Site) -> str:
    """What to call the scope of a site."""
    return site.scope or "main graph"


def _rules_table(report: Report) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rule", overflow="fold")
    table.add_column("sites", justify="right")
    table.add_column("where", overflow="fold")
    by_rule: dict[str, list[Site]] = {}
    for site in report.sites:
        by_rule.setdefault(site.rule, []).append(site)
    names = dict.fromkeys(rule for rules in report.selection.values() for rule in rules)
    for name in names:
        found = by_rule.get(name, [])
        table.add_row(name, f"{len(found):,}", _where(found), style="" if found else "dim")
    return table


def _where(sites: Iterable[Site]) -> str:
    """Scopes with their numbers of sites, and the first few names in each."""
    scopes: dict[str, list[str]] = {}
    for site in sites:
        scopes.setdefault(scope_name(site), []).append(site.root)
    told = []
    for scope, roots in list(scopes.items())[:SHOWN_SITES]:
        more = len(roots) - SHOWN_SITES
        names = ", ".join(roots[:SHOWN_SITES]) + (f" and {more:,} more" if more > 0 else "")
        told.append(f"{scope}: {names}")
    more = len(scopes) - SHOWN_SITES
    return "\n".join(told) + (f"\nand {more:,} more scopes" if more > 0 else "")


def _told(report: Report) -> Iterator[Miss]:
    """The misses worth a line, in the order of the rules; those that name a node come first."""
    order = {name: place for place, name in enumerate(rule for rules in report.selection.values() for rule in rules)}
    yield from sorted(report.misses, key=lambda miss: (not miss.node, order.get(miss.rule, 0)))


def _print_misses(console: "Console", misses: Sequence[Miss]) -> None:
    from rich.text import Text

    console.print(Text("\nnot rewritten", style="bold"))
    for miss in misses[:SHOWN_MISSES]:
        console.print(miss_text(miss), style="" if miss.node else "dim", soft_wrap=True)
    if len(misses) > SHOWN_MISSES:
        console.print(f"  and {len(misses) - SHOWN_MISSES:,} more (--report has them all)", soft_wrap=True)


def miss_text(miss: Miss) -> str:
    """A miss in one line: the rule, where in the model, why, where in the rule, and how much of it fitted."""
    place = f" at {miss.node}" if miss.node else ""
    matched = f"; {miss.matched} node{'s' * (miss.matched != 1)} matched" if miss.matched else ""
    return f"  {miss.rule}{place}: {miss.reason} ({miss.where}){matched}"


def _summary(report: Report, dry_run: bool) -> "Table":
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    grid.add_row("", "")
    grid.add_row("nodes", f"{report.nodes_before:,} -> {report.nodes_after:,}")
    word, style = LOUD[report.outcome]
    told = Text.assemble((word, style), " " if (rest := _outcome_words(report, dry_run)) else "", rest)
    grid.add_row("outcome", told)
    error = _error_words(report)
    if error:
        grid.add_row("error", error)
    grid.add_row("time", ", ".join(f"{phase} {_seconds(value)}" for phase, value in report.seconds.items()))
    grid.add_row("written", _written_words(report, dry_run))
    return grid


def _outcome_words(report: Report, dry_run: bool) -> str:
    check = report.check
    if report.outcome == "unchanged":
        return "nothing matched"
    if check is None:
        return "(dry run)" if dry_run else "(--check none)"
    runs = f"on {check.runs} set{'s' * (check.runs != 1)} of inputs under ONNX Runtime" if check.runs else ""
    return "  ".join(part for part in (runs, check.reason) if part)


def _error_words(report: Report) -> str:
    worst = report.check.worst if report.check is not None else None
    if worst is None:
        return ""
    return (
        f"at most {worst.max_abs:.3g} absolute, {worst.max_rel:.3g} relative in output {worst.name!r} "
        f"({worst.dtype}; {worst.allowed:.3g} allowed)"
    )


def _written_words(report: Report, dry_run: bool) -> str:
    if dry_run:
        return "nothing (dry run)"
    if report.outcome == "failed":
        return "nothing"
    copied = " (the same bytes as the input)" if report.outcome == "unchanged" else ""
    return f"{report.output}{copied}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 100 else f"{value:.0f} s"
