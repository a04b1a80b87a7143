"""What people read of a rewrite or an upgrade: what was done, the outcome, and why nothing matched."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from surgeon.console.console import LOUD, console_for, seconds_text
from surgeon.rewriting.result import Miss, NodeInfo, Report, Site

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from surgeon.upgrading.upgrade import Upgrade

SHOWN_SITES, SHOWN_MISSES = 2, 20


def print_report(report: Report, stream: TextIO, *, diff: bool = False, written: bool = True) -> None:
    """Print what a rewrite did.  diff: also the nodes before and after, site by site.  written: the file was."""
    console = console_for(stream)
    if diff and report.sites:
        click.echo("\n".join(diff_lines(report.sites)), file=stream)
    console.print(_rules_table(report))
    misses = list(_told(report))
    if misses:
        _print_misses(console, misses)
    _print_summary(console, report, written)


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
    """A node as ONNX text has it: outputs = op(inputs, attributes), and its name."""
    inside = ", ".join((*node.inputs, node.attributes) if node.attributes else node.inputs)
    return f"{', '.join(node.outputs)} = {node.op}({inside})  # {node.name}"


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


def _print_summary(console: "Console", report: Report, written: bool) -> None:
    from rich.text import Text

    def line(name: str, *parts: str | tuple[str, str]) -> None:
        console.print(Text.assemble((f"{name:<9}", "bold"), *parts), soft_wrap=True)

    console.print()
    line("nodes", f"{report.nodes_before:,} -> {report.nodes_after:,}")
    line("outcome", LOUD[report.outcome], f" {_outcome_words(report, written)}".rstrip())
    error = _error_words(report)
    if error:
        line("error", error)
    line("time", ", ".join(f"{phase} {seconds_text(value)}" for phase, value in report.seconds.items()))
    line("written", _written_words(report, written))


def _outcome_words(report: Report, written: bool) -> str:
    check = report.check
    if report.outcome == "unchanged":
        return "nothing matched"
    if check is None:
        return "(--check none)" if written else "(nothing to check was written)"
    runs = f"on {check.runs} set{'s' * (check.runs != 1)} of inputs under ONNX Runtime" if check.outputs else ""
    return "  ".join(part for part in (runs, check.reason) if part)


def _error_words(report: Report) -> str:
    worst = report.check.worst if report.check is not None else None
    if worst is None:
        return ""
    return (
        f"at most {worst.max_abs:.3g} absolute, {worst.max_rel:.3g} relative in output {worst.name!r} "
        f"({worst.dtype}; {worst.allowed:.3g} allowed)"
    )


def _written_words(report: Report, written: bool) -> str:
    if not written:
        return "nothing"
    copied = " (the same bytes as the input)" if report.outcome == "unchanged" else ""
    return f"{report.output}{copied}"


def print_upgrade(done: "Upgrade", stream: TextIO, *, written: bool) -> None:
    """Print what an upgrade did.  written: the file was."""
    from rich.text import Text

    console = console_for(stream)

    def line(name: str, *parts: str | tuple[str, str]) -> None:
        console.print(Text.assemble((f"{name:<9}", "bold"), *parts), soft_wrap=True)

    line("opset", f"{done.opset[0]} -> {done.opset[1]}")
    if done.ir_version[0] != done.ir_version[1]:
        line("IR", f"{done.ir_version[0]} -> {done.ir_version[1]}")
    if done.newer:
        line("newer", ", ".join(f"{op} x{count:,}" for op, count in sorted(done.newer.items())))
    for place, (told, count) in enumerate(done.edited.items()):
        line("" if place else "edited", f"{told} (x{count:,})")
    if done.functions:
        line("functions", f" raised too: {', '.join(done.functions)}")
    line("outcome", LOUD[done.outcome], f" {done.check.reason}" if done.check is not None and done.check.reason else "")
    line("time", seconds_text(done.seconds))
    line("written", done.output if written else "nothing")
