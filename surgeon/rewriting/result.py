"""What a rewrite did, as data: sites, near misses and the outcome of the checks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onnx import AttributeProto

from surgeon.indexing.scope import Node
from surgeon.matching.match import Mismatch
from surgeon.matching.state import plain
from surgeon.prove.compare import OutputError
from surgeon.prove.result import CheckResult, Outcome
from surgeon.rewriting.splice import Step


class NodeInfo(NamedTuple):
    """A node by name, op and tensors."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: str  # as text: "axis=-1, epsilon=1e-05"

    def to_dict(self) -> dict[str, Any]:
        """Return the node as JSON can hold it."""
        return {**self._asdict(), "inputs": list(self.inputs), "outputs": list(self.outputs)}


@dataclass(slots=True)
class Site:
    """One region: the net change between nodes of the source and final nodes, of one rule or of several that chained.

    steps: its part of the edit log.  outcome, error: of the check that covers it; a check of the whole model gives
    every site the model's worst output.
    """

    steps: Sequence[Step]
    outcome: str = "unchecked"
    error: OutputError | None = None

    @property
    def rule(self) -> str:
        """The last rule that wrote here."""
        return self.steps[-1].rule

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules that wrote here, in order."""
        return tuple(dict.fromkeys(step.rule for step in self.steps))

    @property
    def scope(self) -> str:
        """The body or function it lies in; "" for the main graph."""
        return self.steps[-1].scope.label

    @property
    def root(self) -> str:
        """The node that made the first output."""
        return next(step.root for step in (*reversed(self.steps), self.steps[0]) if step.root.original).label

    @property
    def replaced(self) -> tuple[NodeInfo, ...]:
        """Nodes of the source that went."""
        return tuple(_info(node) for step in self.steps for node in step.removed if node.original)

    @property
    def added(self) -> tuple[NodeInfo, ...]:
        """Nodes that came and stayed."""
        return tuple(_info(node) for step in self.steps for node in step.added if node.alive)

    @property
    def swept(self) -> tuple[NodeInfo, ...]:
        """Nodes of the source that only the replaced ones used."""
        return tuple(_info(node) for step in self.steps for node in step.orphans if node.original)

    def to_dict(self) -> dict[str, Any]:
        """Return the site as JSON can hold it."""
        return {
            "rule": self.rule,
            "rules": list(self.rules),
            "scope": self.scope,
            "root": self.root,
            "replaced": [node.to_dict() for node in self.replaced],
            "added": [node.to_dict() for node in self.added],
            "swept": [node.to_dict() for node in self.swept],
            "outcome": self.outcome,
            "errors": None if self.error is None else self.error.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Miss:
    """A rule that found nothing, or a place where it nearly matched, and why."""

    rule: str
    node: str
    reason: str
    where: str
    matched: int

    def to_dict(self) -> dict[str, Any]:
        """Return the miss as JSON can hold it."""
        return {
            "rule": self.rule,
            "node": self.node,
            "reason": self.reason,
            "where": self.where,
            "matched": self.matched,
        }


@dataclass(slots=True)
class Report:
    """What one rewrite did.

    selection: names of the rules run, by the name they were asked for.  nodes: counts over all scopes.  check: the
    numeric comparison, None when it was not asked for.  seconds: by phase.
    """

    source: str
    output: str
    target: str
    selection: dict[str, tuple[str, ...]]
    sites: list[Site] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    nodes_before: int = 0
    nodes_after: int = 0
    check: CheckResult | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """proved, failed, unproved, unchanged (nothing matched) or unchecked."""
        if not self.sites:
            return "unchanged"
        return self.check.outcome.value if self.check is not None else "unchecked"

    @property
    def proved(self) -> bool:
        """Whether the numeric check held, or there was nothing to check."""
        return not self.sites or (self.check is not None and self.check.outcome is Outcome.PROVED)

    def knows(self, name: str) -> bool:
        """Whether rules were asked for under this name, or a rule of this name was run."""
        return name in self.selection or any(name.rpartition(":")[2] in rules for rules in self.selection.values())

    def count(self, name: str) -> int:
        """Sites of all rules that were asked for under this name, or else of the rule of this name or file:name."""
        rules = self.selection.get(name, (name.rpartition(":")[2],))
        return sum(any(rule in rules for rule in site.rules) for site in self.sites)

    @property
    def counts(self) -> dict[str, int]:
        """Sites by rule; a site where rules chained counts for each of them."""
        names = dict.fromkeys(rule for rules in self.selection.values() for rule in rules)
        return {name: sum(name in site.rules for site in self.sites) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON can hold it."""
        return {
            "source": self.source,
            "output": self.output,
            "target": self.target,
            "rules": {name: list(rules) for name, rules in self.selection.items()},
            "outcome": self.outcome,
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "counts": self.counts,
            "sites": [site.to_dict() for site in self.sites],
            "misses": [miss.to_dict() for miss in self.misses],
            "check": self.check.to_dict() if self.check is not None else None,
            "seconds": {phase: round(value, 4) for phase, value in self.seconds.items()},
        }

    def __repr__(self) -> str:
        found = ", ".join(f"{rule} {count}" for rule, count in self.counts.items())
        return f"<Report {found}; nodes {self.nodes_before} -> {self.nodes_after}; {self.outcome}>"


def regions(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps grouped where one builds on what another made, in order; the unit of report, proof and rollback."""
    group: dict[int, list[Step]] = {}
    for step in steps:
        merged = [step]
        for earlier in step.before:
            members = group[id(earlier)]
            if members is not merged:
                merged[:0] = [item for item in members if item not in merged]
        for member in merged:
            group[id(member)] = merged
    return list({id(members): members for members in group.values()}.values())


def miss_of(rule: str, found: Mismatch) -> Miss:
    """A mismatch as the report holds it."""
    return Miss(rule, found.node, found.reason, found.where, found.matched)


def _info(node: Node) -> NodeInfo:
    attributes = ", ".join(f"{item.name}={_shown(item)}" for item in node.proto.attribute)
    return NodeInfo(node.label, node.op, node.inputs, node.outputs, attributes)


def _shown(item: AttributeProto) -> str:
    """An attribute in a few words."""
    if item.ref_attr_name:
        return f"@{item.ref_attr_name}"
    if item.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        numbers = [f"{number:.7g}" for number in (item.floats or [item.f])]
        return f"[{', '.join(numbers)}]" if item.type == AttributeProto.FLOATS else numbers[0]
    if item.type in (AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING):
        return repr(plain(item))
    return str(AttributeProto.AttributeType.Name(item.type)).lower()
