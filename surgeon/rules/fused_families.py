"""Families of fused ops: those that the rules of the catalogue write for one operation, for any target."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from typing import TypeAlias

import onnx

from surgeon.connected_components import connected_components
from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.dtype_traits import CAST
from surgeon.rules.catalogue import all_rules
from surgeon.rules.matching.pattern import NodeOutput, Pattern, Value, operands, ops_of
from surgeon.rules.rule import Rule, RuleFunction
from surgeon.target_registry import DECOMPOSED

Ops: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class FusedFamily:
    """Ops that compute one operation, for example Gelu, BiasGelu and FastGelu."""

    name: str
    """The name of its main rule, such as "gelu"."""
    ops: Ops
    """The ops, qualified."""
    rules: frozenset[str]
    """Names of the rules that write them."""
    patterns: frozenset[Ops]
    """The ops of each subgraph that these rules replace, and each of the family's own ops."""

    def is_part_of(self, other: "FusedFamily") -> bool:
        """Whether the rules of another family may replace this one's ops, or the subgraphs that they replace."""
        theirs = frozenset().union(*other.patterns) - other.ops
        return any((pattern - self.ops or pattern) <= theirs for pattern in self.patterns)


@cache
def fused_families() -> Mapping[str, FusedFamily]:
    """The families by name, from the rules of all installed packs.

    Ops that one rule writes are a family, and so are the op that a rule ends with and the one that it writes instead,
    as for LayerNormalization and SkipLayerNormalization.  Ops of ONNX's first opset belong to none: fusions consist of
    them, so their number falls when another fusion is found.

    Raises RuleError for a rule that cannot be traced.
    """
    rules = [rule for _, _, rule in all_rules() if rule.search is None and not rule.is_cleanup and not rule.lacking]
    written = {rule: ops for rule in rules if (ops := _written(rule))}
    known = frozenset().union(*written.values())
    links = [pair for ops in written.values() for pair in pairwise(sorted(ops))]
    for rule, ops in written.items():
        links += [(root, op) for root in _extended(rule, known) for op in ops]
    found = []
    for component in connected_components(sorted(known), links):
        ops = frozenset(component)
        members = [rule for rule in written if written[rule] & ops]
        name = min((rule.name for rule in members), key=lambda name: (len(name), name))
        sources = frozenset(_ops(one) for rule in members for one in _patterns(rule, rule.patterns))
        patterns = sources | {frozenset([op]) for op in ops}
        found.append(FusedFamily(name, ops, frozenset(rule.name for rule in members), patterns))
    return {family.name: family for family in sorted(found, key=lambda family: family.name)}


@cache
def fused_ops() -> Ops:
    """The ops of all families."""
    return frozenset().union(*(family.ops for family in fused_families().values()))


def count_families(ops: Mapping[str, int]) -> dict[str, int]:
    """The number of fused ops by family.  ops: the number of nodes by qualified op."""
    counts = {family.name: sum(ops.get(op, 0) for op in family.ops) for family in fused_families().values()}
    return {name: count for name, count in counts.items() if count}


def _written(rule: Rule) -> Ops:
    """The fused ops that a rule writes, as far as its forms can be traced."""
    functions = [one for form in rule.forms if form.kind != DECOMPOSED for one in rule.recognised(form)]
    found = map(_ops, _patterns(rule, functions))
    return frozenset(op for ops in found for op in ops if _is_fused(op) and ("::" in op or len(ops) == 1))


def _is_fused(op: str) -> bool:
    """Whether an op is of another domain than ONNX's, or newer than its first opset."""
    return "::" in op or not onnx.defs.has(op, 1)


def _patterns(rule: Rule, functions: Iterable[RuleFunction]) -> Iterator[Pattern]:
    return (one.pattern for function in functions for one in rule.compiled(function))


def _ops(pattern: Pattern) -> Ops:
    """As `ops_of`, without conversions between dtypes, which any rule may have."""
    return ops_of(pattern) - {CAST}


def _extended(rule: Rule, known: Ops) -> Ops:
    """The fused ops with which the patterns of a rule end, if each of its patterns may end with one."""
    roots = [known.intersection(chain.from_iterable(map(_roots, _patterns(rule, [one])))) for one in rule.patterns]
    return frozenset().union(*roots) if all(roots) else frozenset()


def _roots(pattern: Pattern) -> Iterator[str]:
    return chain.from_iterable(map(_producers, pattern.outputs))


def _producers(value: Value) -> Iterator[str]:
    """The ops that may produce a value of a pattern."""
    if isinstance(value, NodeOutput):
        yield qualified_name(value.operation.domain, value.operation.op)
    else:
        yield from (op for item in operands(value) if item is not None for op in _producers(item))
