"""Settings of a run of rules: the rules, the target, and the nodes that may be rewritten."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from onnx import FunctionProto

from surgeon.errors import ConditionFailed
from surgeon.ir.index import Index
from surgeon.rules.matching.match import Match
from surgeon.rules.rule import Rule
from surgeon.text import did_you_mean

if TYPE_CHECKING:
    from surgeon.rules.op_table import OpTable


@dataclass(slots=True)
class NodeFilter:
    """Which nodes to rewrite: shell patterns of node names."""

    only: Sequence[str] = ()
    """Patterns of which one has to match a node of a match; empty for no restriction."""
    skip: Sequence[str] = ()
    """Patterns that decline a match if one of them matches a node of it."""

    def unused(self, index: Index) -> dict[str, str]:
        """Patterns that match no node or initializer, each with a clause on the nearest names."""
        patterns = (*self.only, *self.skip)
        labels: dict[str, None] = {}
        for scope in index.scopes if patterns else ():
            stored = [] if isinstance(scope.proto, FunctionProto) else scope.proto.initializer
            labels.update(dict.fromkeys([*(node.label for node in scope.nodes), *(item.name for item in stored)]))
        unmatched = (item for item in patterns if not any(fnmatchcase(name, item) for name in labels))
        return {item: did_you_mean(item, labels) for item in unmatched}

    def require_allowed(self, match: Match) -> None:
        """Raise ConditionFailed for a match that the patterns exclude."""
        if not self.only and not self.skip:
            return
        names = [node.label for node in match.nodes] or list(match.outputs)
        if self.only and not any(fnmatchcase(name, item) for name in names for item in self.only):
            raise ConditionFailed("--only excludes this node")
        if any(fnmatchcase(name, item) for name in names for item in self.skip):
            raise ConditionFailed("--skip excludes this node")


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """Which rules run, for which target, on which nodes."""

    rules: Sequence[Rule]
    """All rules, in the order in which they are tried."""
    target: str
    """Name of the target."""
    ep: str | None = None
    """Execution provider; None for the default of the target."""
    inline_rules: Sequence[Rule] = ()
    """Those of `rules` that inline calls of local functions; they run first."""
    op_table: "OpTable | None" = None
    """The ops that the rules require, from earlier runs; None: all rules are traced."""
    node_filter: NodeFilter = field(default_factory=NodeFilter)
    """Nodes that may be rewritten."""
    is_strict: bool = False
    """Whether an exception of a built-in rule ends the run, as that of any other rule, instead of declining a match."""
