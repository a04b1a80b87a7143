"""Nodes of a model that equal the result of a rule: newer exporters write some operations as one node."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, split_op
from surgeon.ops.schemas import history
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.matcher import match_at
from surgeon.rules.matching.pattern import ops_of
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.rule import Rule, RulePlan
from surgeon.target_registry import ANY_KIND, DECOMPOSED, target_of
from surgeon.targets.target import Target
from surgeon.text import format_count, join_first


def already_fused(index: Index, rules: Sequence[Rule], target: str) -> str | None:
    """How many nodes of the model already equal results of rules for a target, as a clause; None without any.

    Only replacements of one node count, of an op that is not in the rule's patterns or that ONNX does not have: any Add
    of the model could be the result of a rule that writes an Add.
    """
    found = _count_by_op(index, rules, target)
    return f"{_clause(found)} already" if found else None


def _count_by_op(index: Index, rules: Sequence[Rule], target: str) -> Counter[str]:
    nodes = {node: None for rule in rules for node in _nodes(index, rule, target)}
    return Counter(node.op for node in nodes)


def _clause(found: Counter[str]) -> str:
    counts = [
        f"{format_count(count, 'node')} {'is' if count == 1 else 'are'} {_spelled(op)}" for op, count in found.items()
    ]
    return join_first(counts, 3)


def already_fused_mismatch(index: Index, rule: Rule, target: str) -> Mismatch | None:
    """The same for one rule, as a mismatch; None without any."""
    found = _count_by_op(index, [rule], target)
    if not found:
        return None
    clause = _clause(found)
    which = f", which {target_of(target).title} runs{_other_target_text(index, rule, target, found)}"
    reason, there = f"{clause} already{which}", f"{clause}{which}"
    return Mismatch(rule.name, "", "", reason, where=rule.where, matched=0, kind="already", found=there)


def _other_target_text(index: Index, rule: Rule, target: str, ops: Collection[str]) -> str:
    """The op that a rule would write instead for another target of the same runtime, as a clause; may be empty."""
    wanted = target_of(target)
    for other in wanted.also if isinstance(wanted, Target) else ():
        plan = rule.plan(other, index.main.opset)
        if isinstance(plan, RulePlan) and any(ops_of(compiled.pattern) & set(ops) for compiled in plan.sources):
            forms = [compiled for function in rule.recognised(plan.form) for compiled in rule.compiled(function)]
            written = {op for compiled in forms for op in ops_of(compiled.pattern)}
            if len(written) == 1:
                return f"; --target {other} writes {_spelled(*written)}"
    return ""


def _nodes(index: Index, rule: Rule, target: str) -> Iterator[Node]:
    plan = rule.plan(target, index.main.opset)
    if not isinstance(plan, RulePlan) or rule.search is not None:
        return
    wanted = {op for compiled in plan.sources for op in ops_of(compiled.pattern)}
    if not any(history(*split_op(op)) for op in wanted):
        return  # a rule for placeholders, whose result no exporter writes
    for compiled in _forms(rule, target):
        ops = ops_of(compiled.pattern)
        if len(ops) != 1 or any(op in wanted and not split_op(op)[0] for op in ops):
            continue
        for scope in index.scopes:
            nodes = [node for node in scope.live_nodes() if node.op in ops and node.encoded is None]
            yield from (node for node in nodes if match_at(index, compiled, node) is not None)


def _forms(rule: Rule, target: str) -> Iterator[CompiledPattern]:
    """The patterns of the replacements that a rule writes for a target."""
    kinds = set(target_of(target).runs) - {ANY_KIND, DECOMPOSED}
    for form in rule.forms:
        if form.kind in kinds:
            for function in rule.recognised(form):
                yield from rule.compiled(function)


def _spelled(op: str) -> str:
    domain, name = split_op(op)
    return f"{domain or 'ai.onnx'}::{name}"
