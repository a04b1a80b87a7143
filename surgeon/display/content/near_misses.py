"""The texts about sites that a rewrite did not change: the most useful hint, and the near misses."""

from collections import Counter
from collections.abc import Iterable, Sequence

from surgeon.display.blocks import Item, Items, Section, Span, Text, first_entries
from surgeon.ops.schemas import only_ort_knows
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.unknown_names import unmatched
from surgeon.printed_commands import command, placed, upgrade_to
from surgeon.rules.mismatches.mismatch import Mismatch, mismatch_text
from surgeon.shapes.opsets.migration import newest_opset
from surgeon.text import and_more

MAX_MISSED = 3  # near misses in a summary: the first shows what is wrong, the others whether it is one thing


def missed_lines(report: RewriteReport) -> list[Text]:
    """The first near misses of the rules that the user named, and why named rules found nothing."""
    named = [item for item in _ordered(report) if item.rule in report.named and not item.of_written]
    near = [item for item in named if (item.near or _matches_fully(item)) and not _is_hinted(item, report)]
    lines: list[Text] = [_line(group) for group in grouped(near)]
    there = {item.rule for item in report.misses if item.kind == "already"}
    active = _fired_rules(report) | there | {item.rule for item in near}
    for rules in report.selection.values():
        if rules and report.named.issuperset(rules) and active.isdisjoint(rules):
            lines += [_silent_line(report, rule) for rule in rules]
    shown, left = first_entries(lines, MAX_MISSED)
    return [*shown, *([(and_more(left).lstrip(), Span(": -v shows them", "shell"))] if left else [])]


def _is_hinted(item: Mismatch, report: RewriteReport) -> bool:
    """Whether another line of the summary has the mismatch."""
    return item.kind == "error" or (item.kind == "opset" and _matches_fully(item) and upgrade_hint(report) is not None)


def _line(mismatches: Sequence[Mismatch]) -> str:
    first, rules = mismatches[0], ", ".join(dict.fromkeys(item.rule for item in mismatches))
    return mismatch_text(first, rules, sum(item.count for item in mismatches) - 1)


def _silent_line(report: RewriteReport, rule: str) -> str:
    """Why a rule found nothing."""
    best = next((item for item in _ordered(report) if item.rule == rule), None)
    return f"{rule}: nothing in the model comes near" if best is None else mismatch_text(best)


def already_lines(report: RewriteReport) -> list[str]:
    """Which nodes of the model the named rules would write."""
    there = [item for item in report.misses if item.kind == "already" and item.rule in report.named]
    tails = [f"{name}: the model answers so" for name in report.tails if report.edited is None]
    return [f"{item.rule}: {item.found}" for item in there] + tails


def near_miss_section(report: RewriteReport) -> Section:
    """The near misses by reason, a line for each named rule without one, and, folded, all other reasons."""
    mismatches, idle = [item for item in _ordered(report) if not item.of_written], idle_rules(report)
    near = [item for item in mismatches if item.near or (item.rule in report.named and _matches_fully(item))]
    active = _fired_rules(report).union(item.rule for item in near)
    silent = [rule for rule in report.counts if rule in report.named - active]
    lines = [_silent_line(report, rule) for rule in silent]
    if not near and idle and report.outcome == "unchanged":
        lines.append(f"{len(idle):,} rules: nothing in the model matches")
    shown = grouped(item for item in near if not _is_hinted(item, report))
    rest = grouped(item for item in mismatches if item not in near and item.rule not in silent)
    others = Section("other reasons", [Items([_item(group) for group in rest])])
    nearest = Items([_item(group) for group in shown], more="reasons")
    return Section("not rewritten", [nearest, Items(lines, len(lines)), others])


def _item(mismatches: Sequence[Mismatch]) -> Item:
    """Mismatches with one reason: where and why, and the change that helps."""
    first, count = mismatches[0], sum(item.count for item in mismatches)
    rules = ", ".join(dict.fromkeys(item.rule for item in mismatches))
    change = [Span(f"change: {first.change}", "help")] if first.change else []
    return Item(mismatch_text(first, rules, count - 1), change)


def warning_lines(report: Report) -> list[str]:
    """Requests of each rewrite that were not fulfilled, and why the model cannot be loaded, a clause each."""
    return [line for one in report.flat if isinstance(one, RewriteReport) for line in _warnings(one)]


def _warnings(report: RewriteReport) -> list[str]:
    lines = [f"not upgraded: {report.not_upgraded}"] if report.not_upgraded else []
    if report.refused:
        lines.append(f"{report.refused}; remedies: {command('check', report.source or 'IN')}")
    if newer := newer_ops_warning(report):
        lines.append(newer)
    for first, *others in grouped(item for item in report.misses if item.kind == "error"):
        more = and_more(sum(item.count for item in others), "like it")
        lines.append(f"{first.rule} at {first.node}{more}: {first.reason}, so these nodes stay")
    return lines + [unmatched(pattern, near) for pattern, near in report.unused.items()]


def newer_ops_warning(report: RewriteReport) -> str | None:
    """A warning about new nodes whose op only ONNX Runtime has at this opset of ai.onnx; None without such nodes."""
    added = (node for site in report.sites for step in site.steps for node in step.added if node.alive)
    plain = [(node.op, node.scope.versions.get("", 1)) for node in added if "::" not in node.op]
    found = Counter(name for name, opset in plain if only_ort_knows("", name, opset))
    if not found:
        return None
    ops = ", ".join(f"{name}{f' x{count:,}' if count > 1 else ''}" for name, count in found.items())
    later = range(max(opset for _, opset in plain), newest_opset() + 1)
    since = next((opset for opset in later if not any(only_ort_knows("", name, opset) for name in found)), 0)
    how = f": add --upgrade {since}, or first {upgrade_to(since)}" if since else ""
    return f"ONNX Runtime takes {ops} at this opset of ai.onnx, and onnx.checker does not{how}"


def upgrade_hint(report: RewriteReport) -> str | None:
    """How many more sites a newer opset would allow, in one line; None for none."""
    more_fires = fires_with_opset(report)
    if not more_fires or report.not_upgraded:
        return None
    more = ", ".join(
        f"{' and '.join(f'{count:,} {rule}' for rule, count in rules.items())} more with opset {opset}"
        for opset, rules in more_fires.items()
    )
    best = max(more_fires)
    again = "auto" if report.upgrade is None else best
    return f"{more}: add --upgrade {again}, or {upgrade_to(best)}"


def why_command(report: RewriteReport, idle: frozenset[str]) -> str:
    """The command that explains why rules did not fire.  idle: their names."""
    sets = [name for name, rules in report.selection.items() if idle.intersection(rules)]
    return command("explain", "IN", "--rules", ",".join(sets), *placed(report.target, report.ep))


def fires_with_opset(report: RewriteReport) -> dict[int, dict[str, int]]:
    """How many more sites each rule would have with a newer opset, by opset, in ascending order."""
    found: dict[int, dict[str, int]] = {}
    for mismatch in report.misses:
        if mismatch.opset and _matches_fully(mismatch):
            rules = found.setdefault(mismatch.opset, {})
            rules[mismatch.rule] = rules.get(mismatch.rule, 0) + mismatch.count
    return dict(sorted(found.items()))


def idle_rules(report: RewriteReport) -> frozenset[str]:
    """Rules of groups and of large files that did nothing."""
    return frozenset(report.counts) - _fired_rules(report) - report.named - {*report.tails}


def _fired_rules(report: RewriteReport) -> frozenset[str]:
    """The rules that fired, also those that were rolled back."""
    return frozenset(step.rule for site in (*report.sites, *report.rolled_back) for step in site.steps)


def grouped(mismatches: Iterable[Mismatch]) -> list[list[Mismatch]]:
    """Mismatches grouped by reason: within a rule by their fields, across rules by their text."""
    found: dict[tuple[str, ...], list[Mismatch]] = {}
    for mismatch in mismatches:
        by_fields = (mismatch.rule, mismatch.where, mismatch.kind, mismatch.wanted)
        key = by_fields if mismatch.wanted else ("", mismatch.reason)
        found.setdefault((*key, mismatch.change), []).append(mismatch)
    return list(found.values())


def _matches_fully(mismatch: Mismatch) -> bool:
    """Whether the whole pattern matches, and another reason prevents the rewrite."""
    return bool(mismatch.node) and mismatch.total == 0


def _ordered(report: RewriteReport) -> list[Mismatch]:
    """The mismatches: those with a known change, full matches, then the nearest; more matched nodes first."""
    most: dict[str, int] = {}
    for mismatch in report.misses:
        most[mismatch.rule] = max(most.get(mismatch.rule, 0), mismatch.matched)
    order = {name: place for place, name in enumerate(rule for rules in report.selection.values() for rule in rules)}

    def key(mismatch: Mismatch) -> tuple[object, ...]:
        nearness = mismatch.matched / mismatch.total if mismatch.total else 1.0
        is_full, place = _matches_fully(mismatch), order.get(mismatch.rule, 0)
        return not mismatch.node, not mismatch.change, not is_full, -nearness, -most[mismatch.rule], place

    return sorted(report.misses, key=key)
