"""Which rules removed the ops that a pattern now lacks, and which ops they produced instead."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from surgeon.ir.index import Index
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.replacing.splicer import RewriteStep
from surgeon.text import join_first

SHOWN = 2  # ops and rules named in a message


@dataclass(slots=True)
class _Op:
    """The changes of rules to the nodes of one op."""

    count: int = 0
    """Nodes removed."""
    made: dict[str, int] = field(default_factory=dict)
    """By op of a node that was added in their place: index of the first such step in the log."""
    rules: dict[str, int] = field(default_factory=dict)
    """By name of a rule that removed them: index of its first such step in the log."""


class OpHistory:
    """The changes of the steps of a log to each op; computed on demand, because most runs never need it."""

    def __init__(self, index: Index, log: Sequence[RewriteStep]) -> None:
        self._index, self._log = index, log

    @cached_property
    def _ever(self) -> set[str]:
        return {op for scope in self._index.scopes for op in scope.by_op}

    @cached_property
    def _gone(self) -> dict[str, _Op]:
        found: defaultdict[str, _Op] = defaultdict(_Op)
        for number, step in enumerate(self._log):
            ops = [node.op for node in step.removed]
            for op in ops:
                found[op].count += 1
            for op in set(ops):
                found[op].rules.setdefault(step.rule, number)
                for node in step.added:
                    found[op].made.setdefault(node.op, number)
        return found

    def annotate(self, miss: Mismatch) -> Mismatch:
        """A mismatch, with the rules that removed the missing op and the ops that they produced."""
        wanted = miss.wanted.split(" or ") if miss.kind == "absent" else []
        known = [self._gone[op] for op in wanted if op in self._ever and op in self._gone]
        if not known:
            return miss
        made, rules = _first([one.made for one in known]), _first([one.rules for one in known])
        count = sum(one.count for one in known)
        change = f"replaced {count:,} with {made}" if made else f"removed {count:,}"
        return replace(miss, reason=f"{miss.reason} left; {rules} {change}")


def _first(found: Sequence[Mapping[str, int]]) -> str:
    """The names that come first in the log, as text."""
    at = sorted((number, name) for one in found for name, number in one.items())
    return join_first(list(dict.fromkeys(name for _, name in at)), SHOWN)
