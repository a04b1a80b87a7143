"""What people read of a rewrite or an upgrade: what was done, the outcome, and why nothing matched."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from surgeon.console.clean import clean
from surgeon.console.console import LOUD, console_for, seconds_text, titled
from surgeon.console.misses import help_line, silent_rules, told_lines
from surgeon.listing import and_more, first_of
from surgeon.rewriting.result import NodeInfo, Report, Site
from surgeon.upgrading.result import Upgrade

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from surgeon.sites.proof import SiteProof
    from surgeon.verdicts.compare import OutputError
    from surgeon.verdicts.judge import Deviation
    from surgeon.verdicts.result import CheckResult, Layers

SHOWN_SITES, SHOWN_PLACES, SHOWN_RULES = 2, 20, 2
NOT_COVERED = "not covered: values and sizes of no such kind, other devices, ONNX Runtime's own optimisations"


def print_report(report: Report, stream: TextIO, *, diff: bool = False, verbose: bool = False) -> None:
    """Print what a rewrite did.  diff: also the nodes before and after, site by site.  verbose: whatever was missed."""
    from rich.text import Text

    console = console_for(stream)
    if diff and report.sites:
        click.echo("\n".join(diff_lines(report.sites)), file=stream)
    console.print(_rules_table(report, silent_rules(report)))
    best = help_line(report) or (f"not upgraded: {report.not_upgraded}" if report.not_upgraded else "")
    if best:
        console.print(Text(best, style="bold green" if not report.not_upgraded else "bold yellow"), soft_wrap=True)
    noted = [site for site in report.sites if site.proof is not None and site.proof.reason]
    doubtful = [site for site in noted if site.outcome == "unproved"]
    bound = [site for site in noted if site.outcome == "proved"]
    unsure = "written, but unproved" if report.written else "unproved"
    for title, sites in (("rolled back", report.rolled_back), (unsure, doubtful), ("proved, with a note", bound)):
        if sites:
            _print_sites(console, title, sites)
    misses = told_lines(report, verbose=verbose)
    if misses:
        console.print()
        console.print(Text("not rewritten", style="bold"))
        for told in misses:
            console.print(told, soft_wrap=True)
    _print_summary(console, report)


def diff_lines(sites: Sequence[Site]) -> Iterator[str]:
    """The nodes of each site, before with a minus and after with a plus."""
    for number, site in enumerate(sites, 1):
        rules = " + ".join(site.rules)
        place = f"@@ {number}/{len(sites)} {rules} at {site.root} ({scope_name(site)}) @@"
        yield click.style(clean(place), fg="cyan")
        for node in (*site.replaced, *site.swept):
            yield click.style(clean(f"- {node_line(node)}"), fg="red")
        for old, new in site.shared.items():
            yield click.style(clean(f"- initializer {old}"), fg="red")
            yield click.style(clean(f"+ its readers read {new}"), fg="green")
        for node in site.added:
            yield click.style(clean(f"+ {node_line(node)}"), fg="green")


def node_line(node: NodeInfo) -> str:
    """A node as ONNX text has it: outputs = op(inputs, attributes), and its name."""
    inside = ", ".join((*node.inputs, node.attributes) if node.attributes else node.inputs)
    return f"{', '.join(node.outputs)} = {node.op}({inside})  # {node.name}"


def scope_name(site: Site) -> str:
    """What to call the scope of a site."""
    return site.scope or "main graph"


def _rules_table(report: Report, silent: frozenset[str]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rule", overflow="fold")
    table.add_column("times", justify="right")
    if report.rolled_back:
        table.add_column("rolled back", justify="right")
    table.add_column("where", overflow="fold")
    stand, gone = _by_rule(report.sites), _by_rule(report.rolled_back)
    for name in report.counts:
        if name in silent:
            continue
        found = stand.get(name, [])
        times, undone = (sum(site.fired[name] for site in sites) for sites in (found, gone.get(name, [])))
        numbers = [f"{times:,}", *([f"{undone:,}" if undone else ""] if report.rolled_back else [])]
        table.add_row(name, *numbers, _where(found), style="" if found or undone else "dim")
    if silent:
        numbers = ["0", *([""] if report.rolled_back else [])]
        table.add_row(f"{len(silent):,} others", *numbers, "surgeon explain says why", style="dim")
    return table


def _by_rule(sites: Iterable[Site]) -> dict[str, list[Site]]:
    """Sites by each rule that wrote there."""
    found: dict[str, list[Site]] = {}
    for site in sites:
        for rule in site.rules:
            found.setdefault(rule, []).append(site)
    return found


def _where(sites: Iterable[Site]) -> str:
    """Scopes with their numbers of sites, and the first few names in each."""
    scopes: dict[str, list[str]] = {}
    for site in sites:
        scopes.setdefault(clean(scope_name(site)), []).append(clean(site.root))
    told = []
    for scope, roots in list(scopes.items())[:SHOWN_SITES]:
        told.append(f"{scope}: {first_of(roots, SHOWN_SITES)}")
    more = and_more(len(scopes) - SHOWN_SITES, "scopes").lstrip()
    return "\n".join(filter(None, (*told, more)))


def _print_sites(console: "Console", title: str, sites: Sequence[Site]) -> None:
    """Sites that need a word each: what was found there, and the numbers; words that differ in names alone once."""
    from rich.text import Text

    alike: dict[tuple[str, ...], list[Site]] = {}
    for site in sites:
        worst = site.proof.worst if site.proof is not None else None
        name = repr(worst.name) if worst is not None else ""
        words = (item.replace(name, "''") if name else item for item in _site_words(site))
        alike.setdefault((rules_text(site), *words), []).append(site)
    console.print()
    console.print(Text(title, style="bold"))
    for found in list(alike.values())[:SHOWN_PLACES]:
        others = and_more(len(found) - 1, "like it")
        reason, *numbers = _site_words(found[0])
        console.print(f"  {rules_text(found[0])} at {found[0].root}{others}: {reason}", soft_wrap=True)
        for line in numbers:
            console.print(f"    {line}", style="dim", soft_wrap=True)
    more = and_more(sum(map(len, list(alike.values())[SHOWN_PLACES:])))
    if more:
        console.print(f" {more} (--report has all)", soft_wrap=True)


def rules_text(site: Site) -> str:
    """The rule that a place is named by, and with which others it is one place."""
    rule, others = site.rule, [name for name in site.rules if name != site.rule]
    return f"{rule} (with {first_of(others, SHOWN_RULES)})" if others else rule


def _site_words(site: Site) -> Iterator[str]:
    """Why a site is not proved or was rolled back, then the errors of both sides where its own proof failed."""
    yield site.reason
    worst = site.proof.worst if site.proof is not None else None
    if worst is not None and not worst.ok and worst.original is not None:
        yield f"original {_deviation(worst.original)}; rewritten {_deviation(worst.rewritten)}"


def _deviation(found: "Deviation | OutputError") -> str:
    if not found.max_abs and not found.max_rel:
        return "0"
    ulp = getattr(found, "max_ulp", None)
    units = "" if ulp is None else f", {ulp:.3g} ULP"
    return f"{found.max_abs:.3g} absolute, {found.max_rel:.3g} relative{units}"


def _print_summary(console: "Console", report: Report) -> None:
    line = titled(console)

    console.print()
    if report.upgrade is not None:
        for name, words in upgrade_lines(report.upgrade):
            line(name, words)
    constants = "{:,} -> {:,} of them Constants".format(*report.constants) if any(report.constants) else ""
    line("nodes", f"{report.nodes_before:,} -> {report.nodes_after:,}", f" ({constants})" if constants else "")
    line("outcome", LOUD[report.outcome], f"  {_outcome_words(report)}".rstrip())
    for place, words in enumerate(_proof_words(report)):
        line("" if place else "proofs", words)
    tried = _tried_words(report)
    if tried:
        line("tried", tried)
        line("", NOT_COVERED)
    for place, words in enumerate(_error_words(report)):
        line("" if place else "differs", words)
    if report.check is not None and report.check.layers is not None:
        line("layers", layers_words(report.check.layers))
    line("time", ", ".join(f"{phase} {seconds_text(value)}" for phase, value in report.seconds.items()))
    line("written", _written_words(report))


def _outcome_words(report: Report) -> str:
    check = report.check
    if report.outcome == "unchanged":
        return "nothing matched"
    words: list[str] = []
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
    """What became of sites: 3 of 4 sites proved, 1 rolled back."""
    found = Counter("rolled back" if site.undone else site.outcome for site in sites)
    known = [(name, found[name]) for name in ("proved", "unproved", "rolled back") if found[name]]
    (name, count), *more = known or [("proved", 0)]
    told = "".join(f", {number:,} {other}" for other, number in more)
    return f"{count:,} of {len(sites):,} {what}{'s' * (len(sites) != 1)} {name}{told}"


def _check_words(check: "CheckResult") -> str:
    runs = f"on {check.runs} set{'s' * (check.runs != 1)} of inputs under {check.oracle}" if check.outputs else ""
    found = " ".join(part for part in (check.outcome.value, runs) if part)
    return ": ".join(part for part in (found, check.reason.rstrip(".")) if part)


def _proof_words(report: Report) -> Iterator[str]:
    """How the sites were proved: how many proofs, by what, against what."""
    ways: dict[tuple[str, str, bool], dict[object, SiteProof]] = {}
    for proof in report.proofs:
        if proof.runs:
            ways.setdefault((proof.oracle, proof.reference, proof.independent), {})[proof.key] = proof
    for (oracle, reference, independent), proofs in ways.items():
        runs = sum(proof.runs for proof in proofs.values())
        doubt = "" if independent else " (not independent: it proves the wiring, not the op)"
        count = f"{len(proofs):,} proof{'s' * (len(proofs) != 1)}, {runs:,} run{'s' * (runs != 1)}"
        yield f"{count} under {oracle}{doubt}, against {reference}"


def _tried_words(report: Report) -> str:
    """The kinds of inputs, and the sizes, on which the sites that are proved agree; empty where none was run."""
    proofs = [proof for proof in report.proofs if proof.runs and proof.outcome.value == "proved"]
    if not proofs:
        return ""
    kinds = dict.fromkeys(kind for proof in proofs for kind in proof.kinds)
    sizes = dict.fromkeys(size for proof in proofs for size in proof.sizes)
    numbers = [int(number) for size in sizes for number in re.findall(r" (\d+)(?:,|$)", size)]
    count = f"{len(sizes):,} set{'s' * (len(sizes) != 1)} of sizes"
    free = f"; {count} ({min(numbers)} to {max(numbers):,})" if numbers else ""
    return f"{', '.join(kinds)}{free}"


def _error_words(report: Report) -> Iterator[str]:
    """The error nearest to what is allowed of all proofs that stand, beside the original's, and of the whole models."""
    errors = [site.proof.worst for site in report.sites if site.proof is not None and site.proof.worst is not None]
    if errors:
        worst = max(errors, key=lambda error: error.severity)
        own = "" if worst.original is None else f"; the original by {worst.original.max_abs:.3g}"
        allowed = part_text(worst.allowed, worst.scale)
        yield f"by {worst.gap:.3g} where {allowed} is allowed, in {worst.name!r} ({worst.dtype}){own}"
        if worst.rewritten.max_rel:
            relative, units = worst.rewritten.max_rel, worst.rewritten.max_ulp
            yield f"away from zero by {relative:.3g} of a number, {units:.3g} ULP, at most"
    whole = report.check.worst if report.check is not None else None
    if whole is not None:
        allowed = part_text(whole.allowed, whole.scale)
        yield f"worst {_deviation(whole)} where {allowed} is allowed, in output {whole.name!r} ({whole.dtype})"


def part_text(allowed: float, scale: float) -> str:
    """A tolerance, and as a part of the numbers that it is for: it tells nothing without them."""
    if not allowed or not scale or not math.isfinite(allowed / scale):
        return f"{allowed:.3g}"
    return f"{allowed:.2g} ({allowed / scale:.2g} of {scale:.3g})"


def _written_words(report: Report) -> str:
    if not report.written:
        return "nothing"
    same = not report.sites and report.upgrade is None
    return f"{report.output}{' (the same bytes as the input)' if same else ''}"


def print_upgrade(done: Upgrade, stream: TextIO, *, written: bool) -> None:
    """Print what an upgrade did.  written: the file was."""

    console = console_for(stream)
    line = titled(console)

    for name, words in upgrade_lines(done):
        line(name, words)
    line("outcome", LOUD[done.outcome], f" {done.check.reason}" if done.check is not None and done.check.reason else "")
    line("time", seconds_text(done.seconds))
    line("written", done.output if written else "nothing")


def upgrade_lines(done: Upgrade) -> Iterator[tuple[str, str]]:
    """What an upgrade did, line by line: a title, empty where it goes on, and words."""
    yield "opset", f"{done.opset[0]} -> {done.opset[1]}"
    if done.ir_version[0] != done.ir_version[1]:
        yield "IR", f"{done.ir_version[0]} -> {done.ir_version[1]}"
    if done.newer:
        yield "newer", ", ".join(f"{op} x{count:,}" for op, count in sorted(done.newer.items()))
    for place, (told, count) in enumerate(done.edited.items()):
        yield "" if place else "edited", f"{told} (x{count:,})"
    if done.functions:
        yield "functions", f" raised too: {', '.join(done.functions)}"


def layers_words(layers: "Layers") -> str:
    """What comparing inner tensors found, in one line."""
    if layers.left_out:
        return layers.left_out
    if not layers.compared:
        return "no inner tensor has the same name in both models"
    plural = "s" * (layers.compared != 1)
    if layers.first_different:
        return f"the first tensor to leave tolerance is '{layers.first_different}' ({layers.compared:,} compared)"
    return f"{layers.compared:,} tensor{plural} of the same name compared, none leaves tolerance"
