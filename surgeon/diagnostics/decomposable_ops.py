"""Ops that a model lacks but contains within composite ops that a rule can decompose."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from surgeon.errors import SurgeonError
from surgeon.ir.index import Index
from surgeon.rules.catalogue import all_rules
from surgeon.rules.matching.pattern import ops_of
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.rule import Rule, RulePlan
from surgeon.target_registry import DECOMPOSED


def mention_decomposable_ops(index: Index, miss: Mismatch) -> Mismatch:
    """A mismatch of an absent op, with a rule that could decompose an op which contains it."""
    if miss.kind != "absent" or not miss.wanted:
        return miss
    wanted = frozenset(miss.wanted.split(" or "))
    for rule, parts in _decomposing():
        composite = _composite_op(index, rule) if wanted & parts else None
        if composite is not None:
            count = _count(index, composite)
            name = composite.rpartition("::")[2]
            how = f"--rules {rule.name} --target {DECOMPOSED} decomposes"
            return replace(miss, reason=f"{miss.reason}; it has {count:,} {name}, which {how}")
    return miss


@cache
def _decomposing() -> tuple[tuple[Rule, frozenset[str]], ...]:
    """Installed rules that can decompose an op, each with the ops that its first pattern needs."""
    return tuple((rule, frozenset(_needed(rule))) for _, _, rule in all_rules() if rule.patterns and rule.is_exact)


def _needed(rule: Rule) -> Iterator[str]:
    for compiled in rule.compiled(rule.patterns[0])[:1]:
        for group in compiled.written_ops.required:
            yield from group


def _composite_op(index: Index, rule: Rule) -> str | None:
    """The op of this model that a rule could decompose; None without one."""
    try:
        plan = rule.plan(DECOMPOSED, index.main.opset)
    except SurgeonError:  # an invalid rule of a package is skipped
        return None
    for compiled in plan.sources if isinstance(plan, RulePlan) else ():
        ops = ops_of(compiled.pattern)
        if len(ops) == 1 and _count(index, min(ops)):
            return min(ops)
    return None


def _count(index: Index, op: str) -> int:
    """Number of remaining source nodes of an op."""
    return sum(node.alive and node.original for scope in index.scopes for node in scope.by_op.get(op, ()))
