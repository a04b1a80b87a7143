"""Node names and placeholders that the user gave and the model does not have: an error, or a report."""

from collections.abc import Sequence

from surgeon.errors import UsageError
from surgeon.ir.index import Index
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.rules.rule import Rule
from surgeon.text import did_you_mean


def require_named(report: RewriteReport, rules: Sequence[Rule], index: Index, *, for_many: bool) -> None:
    """Raise UsageError for a pattern of node names without a match, and for a placeholder that no plugin replaces.

    for_many: the rules run on other models too, so a pattern without a match is not an error.
    """
    pattern = next(iter(report.unused), None)
    if pattern is not None and not for_many:
        raise UsageError(f"{unmatched(pattern, report.unused[pattern])} Nothing was written.")
    fired = {step.rule for site in report.sites for step in site.steps}
    for rule in rules:
        if rule.placeholder and rule.name not in fired:
            raise UsageError(f"{_no_plugin(rule, report, index)} Nothing was written.")


def _no_plugin(rule: Rule, report: RewriteReport, index: Index) -> str:
    """Why no plugin replaces a placeholder, in a sentence."""
    ops = dict.fromkeys(op for scope in index.scopes for op, nodes in scope.by_op.items() if nodes)
    if rule.placeholder not in ops:
        return f"The model has no node {rule.placeholder}; {did_you_mean(rule.placeholder, ops)}"
    miss = next(miss for miss in report.misses if miss.rule == rule.name)
    return f"No node {rule.placeholder} was replaced by a plugin: {miss.reason.rstrip('.')}."


def unmatched(pattern: str, near: str) -> str:
    """A sentence on a pattern that matches no node.  near: a clause on the nearest names."""
    return f"No node name matches {pattern!r} (--only, --skip); {near}"
