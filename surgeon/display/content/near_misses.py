"""What people read of the sites that a rewrite left as they are: what would help most, and the near misses."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from surgeon.ops.schemas import only_ort_knows
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.pipeline.rewriting.unknown_names import unmatched
from surgeon.printed_commands import command, placed, upgrade_to
from surgeon.rules.mismatches.mismatch import Mismatch, mismatch_text
from surgeon.shapes.opsets.migration import newest_opset
from surgeon.text import and_more

MANY = 8  # rules asked for by one name, beyond which it names a set, and each of them goes without saying
MOST_LINES = 5
ALL, NOWHERE = "--verbose has all", "nothing in the model comes near"


@dataclass(frozen=True, slots=True)
class NearMissGroup:
    """Misses for one reason, of one rule or of several.  The first stands for all."""

    misses: tuple[Mismatch, ...]

    @property
    def first(self) -> Mismatch:
        """The one that is told."""
        return self.misses[0]

    @property
    def count(self) -> int:
        """At how many sites."""
        return sum(miss.count for miss in self.misses)

    def lines(self) -> Iterator[str]:
        """Where and why, in one line, and what would mend it in another."""
        rules = ", ".join(dict.fromkeys(miss.rule for miss in self.misses))
        yield f"  {mismatch_text(self.first, rules, self.count - 1)}"
        if self.first.change:
            yield f"    change: {self.first.change}"


def near_miss_lines(report: Report, *, verbose: bool = False) -> list[str]:
    """The near misses, grouped by reason, and a line for each rule asked for by its name that did nothing.

    verbose: every reason that is known, of every rule.
    """
    named, silent, misses = named_rules(report), idle_rules(report), _ordered(report)
    near = {miss for miss in misses if verbose or miss.near or (miss.rule in named and _is_whole(miss))}
    helped = {miss for miss in near if miss.kind == "opset" and _is_whole(miss)} if upgrade_hint(report) else set()
    groups = grouped(miss for miss in misses if miss in near and (verbose or miss not in helped))
    shown, left = _fitting(groups, len(groups) * 2 if verbose else MOST_LINES)
    if left:
        shown.append(f" {and_more(left, 'reasons')} ({ALL})")
    about, did = {miss.rule for miss in near}, _rules_that_wrote(report)
    for rule in report.counts:
        if rule in named and rule not in about and rule not in did:
            best = next((miss for miss in misses if miss.rule == rule), None)
            shown.append(f"  {rule}: {NOWHERE}" if best is None else f"  {mismatch_text(best)}")
    if not near and silent and report.outcome == "unchanged":
        shown.append(f"  {len(silent):,} rules: {NOWHERE}")
    return shown


def warning_lines(report: Report) -> list[str]:
    """What did not come to pass as it was asked for, and why nothing loads the model, a clause each."""
    told = [f"not upgraded: {report.not_upgraded}"] if report.not_upgraded else []
    if report.misstated:
        told.append(report.misstated)
    if report.refused:
        told.append(f"{report.refused}; what to do: {command('check', report.source or 'IN')}")
    if newer := too_new(report):
        told.append(newer)
    return told + [unmatched(pattern, near) for pattern, near in report.unused.items()]


def too_new(report: Report) -> str:
    """What is said of ops that a rewrite wrote into ai.onnx before ONNX has them there; "" where all are of the opset.

    ONNX Runtime registers some ops, as LayerNormalization, for every opset, so it loads such a model.
    """
    added = (node for site in report.sites for step in site.steps for node in step.added if node.alive)
    plain = [(node.op, node.scope.versions.get("", 1)) for node in added if "::" not in node.op]
    found = Counter(name for name, opset in plain if only_ort_knows("", name, opset))
    if not found:
        return ""
    told = ", ".join(f"{name}{f' x{count:,}' if count > 1 else ''}" for name, count in found.items())
    later = range(max(opset for _, opset in plain), newest_opset() + 1)
    since = next((opset for opset in later if not any(only_ort_knows("", name, opset) for name in found)), 0)
    how = f": add --upgrade {since}, or first {upgrade_to(since)}" if since else ""
    return f"ONNX Runtime takes {told} at this opset of ai.onnx, and onnx.checker does not{how}"


def upgrade_hint(report: Report) -> str:
    """What would help most, in one line; "" where nothing is known that would."""
    waiting = waiting_for(report)
    if not waiting or report.not_upgraded:
        return ""
    told = ", ".join(
        f"{' and '.join(f'{count:,} {rule}' for rule, count in rules.items())} more with opset {opset}"
        for opset, rules in waiting.items()
    )
    best = max(waiting)
    again = "auto" if report.upgrade is None else best
    return f"{told}: add --upgrade {again}, or {upgrade_to(best)}"


def why_command(report: Report, silent: frozenset[str]) -> str:
    """The command that says why rules did not fire.  silent: their names."""
    sets = [name for name, rules in report.selection.items() if silent.intersection(rules)]
    return command("explain", "IN", "--rules", ",".join(sets), *placed(report.target, report.ep))


def waiting_for(report: Report) -> dict[int, dict[str, int]]:
    """How often each rule would fire more with a newer opset, by that opset, the oldest first."""
    found: dict[int, dict[str, int]] = {}
    for miss in report.misses:
        if miss.opset and _is_whole(miss):
            rules = found.setdefault(miss.opset, {})
            rules[miss.rule] = rules.get(miss.rule, 0) + miss.count
    return dict(sorted(found.items()))


def named_rules(report: Report) -> frozenset[str]:
    """The rules that were asked for by a name of their own, or of few."""
    return frozenset(rule for rules in report.selection.values() if len(rules) <= MANY for rule in rules)


def idle_rules(report: Report) -> frozenset[str]:
    """Rules that were asked for among many, as a set, and that did nothing."""
    return frozenset(report.counts) - _rules_that_wrote(report) - named_rules(report) - {*report.tails}


def _rules_that_wrote(report: Report) -> frozenset[str]:
    """Those that fired, rolled back or not."""
    return frozenset(step.rule for site in (*report.sites, *report.rolled_back) for step in site.steps)


def grouped(misses: Iterator[Mismatch] | Sequence[Mismatch]) -> list[NearMissGroup]:
    """Misses for the same reason as one; one rule's are alike where their fields are, others' where the words are."""
    found: dict[tuple[str, ...], list[Mismatch]] = {}
    for miss in misses:
        fields = (miss.rule, miss.where, miss.kind, miss.wanted) if miss.wanted else ("", miss.reason)
        found.setdefault((*fields, miss.change), []).append(miss)
    return [NearMissGroup(tuple(alike)) for alike in found.values()]


def _is_whole(miss: Mismatch) -> bool:
    """Whether the whole pattern fits, and something else kept the rule from it."""
    return bool(miss.node) and miss.total == 0


def _ordered(report: Report) -> list[Mismatch]:
    """The misses: those that could be mended first, then those of which all fits, then the nearest.

    Of rules that come as near, the one of which the most nodes fit is told first.
    """
    most: dict[str, int] = {}
    for miss in report.misses:
        most[miss.rule] = max(most.get(miss.rule, 0), miss.matched)
    order = {name: place for place, name in enumerate(rule for rules in report.selection.values() for rule in rules)}

    def key(miss: Mismatch) -> tuple[object, ...]:
        nearness = miss.matched / miss.total if miss.total else 1.0
        return not miss.node, not miss.change, not _is_whole(miss), -nearness, -most[miss.rule], order.get(miss.rule, 0)

    return sorted(report.misses, key=key)


def _fitting(groups: Sequence[NearMissGroup], room: int) -> tuple[list[str], int]:
    """The lines of the first groups, as many as there is room for, and how many groups are left out."""
    lines: list[str] = []
    for place, group in enumerate(groups):
        mine, rest = list(group.lines()), len(groups) - place - 1
        if len(lines) + len(mine) + (rest > 0) > room:
            return lines, rest + 1
        lines += mine
    return lines, 0
