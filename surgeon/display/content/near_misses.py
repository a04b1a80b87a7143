"""The texts about sites that a rewrite did not change: the most useful hint, and the near misses."""

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

MANY = 8  # the most rules of one name that count as named by the user
MAX_LINES = 5
ALL, NOWHERE = "--verbose has all", "nothing in the model comes near"


@dataclass(frozen=True, slots=True)
class NearMissGroup:
    """Near misses with the same reason, of one rule or of several."""

    mismatches: tuple[Mismatch, ...]
    """The mismatches; the first one is shown."""

    @property
    def first(self) -> Mismatch:
        """The mismatch that is shown."""
        return self.mismatches[0]

    @property
    def count(self) -> int:
        """The number of sites."""
        return sum(mismatch.count for mismatch in self.mismatches)

    def lines(self) -> Iterator[str]:
        """Where and why in one line, and the change that helps in another."""
        rules = ", ".join(dict.fromkeys(mismatch.rule for mismatch in self.mismatches))
        yield f"  {mismatch_text(self.first, rules, self.count - 1)}"
        if self.first.change:
            yield f"    change: {self.first.change}"


def near_miss_lines(report: Report, *, verbose: bool = False) -> list[str]:
    """The near misses grouped by reason, and a line for each rule that the user named and that did nothing.

    verbose: every known reason, of every rule.
    """
    named, idle, mismatches = named_rules(report), idle_rules(report), _ordered(report)
    near = {item for item in mismatches if verbose or item.near or (item.rule in named and _matches_fully(item))}
    has_hint = upgrade_hint(report) is not None
    helped = {item for item in near if has_hint and item.kind == "opset" and _matches_fully(item)}
    groups = grouped(mismatch for mismatch in mismatches if mismatch in near and (verbose or mismatch not in helped))
    shown, omitted = _lines_that_fit(groups, len(groups) * 2 if verbose else MAX_LINES)
    if omitted:
        shown.append(f" {and_more(omitted, 'reasons')} ({ALL})")
    about, did = {mismatch.rule for mismatch in near}, _fired_rules(report)
    for rule in report.counts:
        if rule in named and rule not in about and rule not in did:
            best = next((mismatch for mismatch in mismatches if mismatch.rule == rule), None)
            shown.append(f"  {rule}: {NOWHERE}" if best is None else f"  {mismatch_text(best)}")
    if not near and idle and report.outcome == "unchanged":
        shown.append(f"  {len(idle):,} rules: {NOWHERE}")
    return shown


def warning_lines(report: Report) -> list[str]:
    """Requests that were not fulfilled, and why the model cannot be loaded, a clause each."""
    lines = [f"not upgraded: {report.not_upgraded}"] if report.not_upgraded else []
    if report.refused:
        lines.append(f"{report.refused}; what to do: {command('check', report.source or 'IN')}")
    if newer := newer_ops_warning(report):
        lines.append(newer)
    return lines + [unmatched(pattern, near) for pattern, near in report.unused.items()]


def newer_ops_warning(report: Report) -> str | None:
    """A warning about ops that a rewrite wrote and that this opset of ai.onnx does not have; None without such ops.

    ONNX Runtime registers some ops, as LayerNormalization, for every opset, so it loads such a model.
    """
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


def upgrade_hint(report: Report) -> str | None:
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


def why_command(report: Report, idle: frozenset[str]) -> str:
    """The command that explains why rules did not fire.  idle: their names."""
    sets = [name for name, rules in report.selection.items() if idle.intersection(rules)]
    return command("explain", "IN", "--rules", ",".join(sets), *placed(report.target, report.ep))


def fires_with_opset(report: Report) -> dict[int, dict[str, int]]:
    """How many more sites each rule would have with a newer opset, by opset, in ascending order."""
    found: dict[int, dict[str, int]] = {}
    for mismatch in report.misses:
        if mismatch.opset and _matches_fully(mismatch):
            rules = found.setdefault(mismatch.opset, {})
            rules[mismatch.rule] = rules.get(mismatch.rule, 0) + mismatch.count
    return dict(sorted(found.items()))


def named_rules(report: Report) -> frozenset[str]:
    """The rules that the user named, by themselves or in a small set."""
    return frozenset(rule for rules in report.selection.values() if len(rules) <= MANY for rule in rules)


def idle_rules(report: Report) -> frozenset[str]:
    """Rules of large sets that did nothing."""
    return frozenset(report.counts) - _fired_rules(report) - named_rules(report) - {*report.tails}


def _fired_rules(report: Report) -> frozenset[str]:
    """The rules that fired, also those that were rolled back."""
    return frozenset(step.rule for site in (*report.sites, *report.rolled_back) for step in site.steps)


def grouped(mismatches: Iterator[Mismatch] | Sequence[Mismatch]) -> list[NearMissGroup]:
    """Mismatches grouped by reason: within a rule by their fields, across rules by their text."""
    found: dict[tuple[str, ...], list[Mismatch]] = {}
    for mismatch in mismatches:
        by_fields = (mismatch.rule, mismatch.where, mismatch.kind, mismatch.wanted)
        key = by_fields if mismatch.wanted else ("", mismatch.reason)
        found.setdefault((*key, mismatch.change), []).append(mismatch)
    return [NearMissGroup(tuple(equal)) for equal in found.values()]


def _matches_fully(mismatch: Mismatch) -> bool:
    """Whether the whole pattern matches, and another reason prevents the rewrite."""
    return bool(mismatch.node) and mismatch.total == 0


def _ordered(report: Report) -> list[Mismatch]:
    """The mismatches: first those with a known change, then full matches, then the nearest.

    Among equally near rules, the one with the most matching nodes comes first.
    """
    most: dict[str, int] = {}
    for mismatch in report.misses:
        most[mismatch.rule] = max(most.get(mismatch.rule, 0), mismatch.matched)
    order = {name: place for place, name in enumerate(rule for rules in report.selection.values() for rule in rules)}

    def key(mismatch: Mismatch) -> tuple[object, ...]:
        nearness = mismatch.matched / mismatch.total if mismatch.total else 1.0
        is_full, place = _matches_fully(mismatch), order.get(mismatch.rule, 0)
        return not mismatch.node, not mismatch.change, not is_full, -nearness, -most[mismatch.rule], place

    return sorted(report.misses, key=key)


def _lines_that_fit(groups: Sequence[NearMissGroup], most_lines: int) -> tuple[list[str], int]:
    """The lines of the first groups, up to `most_lines`, and the number of omitted groups."""
    lines: list[str] = []
    for place, group in enumerate(groups):
        lines_of_group, rest = list(group.lines()), len(groups) - place - 1
        if len(lines) + len(lines_of_group) + (rest > 0) > most_lines:
            return lines, rest + 1
        lines += lines_of_group
    return lines, 0
