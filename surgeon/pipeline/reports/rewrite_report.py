"""What a rewrite did, as data: sites, near misses and the outcome of the checks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx import AttributeProto, NodeProto

from surgeon.connected_components import connected_components
from surgeon.ir.scope import Node
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.result_base import ResultBase
from surgeon.rules.matching.match_state import plain
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.replacing.splicer import RewriteStep

if TYPE_CHECKING:
    from surgeon.pipeline.reports.edit_report import EditReport
    from surgeon.pipeline.reports.upgrade_report import UpgradeReport
    from surgeon.proof.site_proof import SiteProof
    from surgeon.runtime.numerics.array_comparison import OutputError
    from surgeon.runtime.numerics.tensor_judge import TensorError

FAILED_PROOF, NOT_PROVED = "it failed its proof", "it is not proved"  # why a site was rolled back by its own proof
FEW = 8  # up to this number of rules, the text of a report also names those that fired nowhere
MISS_KEYS = ("rule", "node", "reason", "where", "matched", "total", "kind", "op", "change", "opset", "near")
"""Fields of a mismatch in JSON."""


class NodeInfo(NamedTuple):
    """A node by name, op and tensors."""

    name: str
    """Node name."""
    op: str
    """Qualified op."""
    inputs: tuple[str, ...]
    """Tensor names."""
    outputs: tuple[str, ...]
    """Tensor names."""
    attributes: str
    """Text such as "axis=-1, epsilon=1e-05"."""

    def to_dict(self) -> dict[str, Any]:
        """Return the node as JSON can hold it."""
        return {**self._asdict(), "inputs": list(self.inputs), "outputs": list(self.outputs)}


@dataclass(slots=True, eq=False)
class Site(ResultBase):
    """One site: the net change between nodes of the source and final nodes, of one rule or of several that chained.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> site = report.sites[0]
        >>> site.rule, site.root, site.outcome, [node.op for node in site.added]
        ('gelu', 'node_gelu', 'proved', ['com.microsoft::Gelu'])
    """

    steps: Sequence[RewriteStep]
    """Its steps of the edit log."""
    proof: "SiteProof | None" = None
    """Proof of this site by itself; None if none was requested. Equal sites share one."""
    check: CheckResult | None = None
    """Check of the whole model with this site; None if none was requested."""
    undone: str = ""
    """Why the site was rolled back; empty if it was not."""
    guilty: bool = False
    """Whether the whole model is wrong with it, whatever its own proof says."""

    def inherit(self, other: "Site") -> None:
        """Copy the proof and check of the same site of another run."""
        self.proof, self.check = other.proof, other.check

    @property
    def outcome(self) -> str:
        """proved, failed, unproved or unchecked: by the site's own proof, else by the check of the whole model."""
        if self.guilty:
            return Outcome.FAILED.value
        found = self.proof or self.check
        return "unchecked" if found is None else found.outcome.value

    @property
    def error(self) -> "TensorError | OutputError | None":
        """The worst error measured: of the site's own outputs, else of the whole model's."""
        found = self.check if self.guilty and self.check is not None else self.proof or self.check
        return None if found is None else found.worst

    @property
    def reason(self) -> str:
        """Why the site is not proved or was rolled back, as a clause; empty where neither is so."""
        proof = self.proof
        if proof is not None and proof.reason and (not self.undone or self.undone in (FAILED_PROOF, NOT_PROVED)):
            return proof.reason.rstrip(".")
        return self.undone

    @property
    def rule(self) -> str:
        """The rule that names the site: the rule at fault if its proof fails, else the rule that did most of it.

        The rule at fault is the last one that wrote the output that differs.  Most is done by the rule whose remaining
        nodes replace most nodes of the source, directly or through nodes of other rules.
        """
        if len(self.steps) == 1:
            return self.steps[0].rule
        worst = self.proof.worst if self.proof is not None else None
        if worst is not None and not worst.ok:
            at_fault = [step.rule for step in self.steps if worst.name in step.outputs]
            if at_fault:
                return at_fault[-1]
        stands_for: dict[RewriteStep, int] = {}
        wrote = {node: step for step in self.steps for node in step.added}
        for step in self.steps:
            gone = (*step.removed, *step.orphans)
            stands_for[step] = sum(node.original for node in gone) - len(step.kept)
            for earlier in dict.fromkeys(wrote[node] for node in gone if node in wrote):
                if not any(node.alive for node in earlier.added):  # another rule replaced all of its nodes
                    stands_for[step] += stands_for.pop(earlier, 0)
        taken: Counter[str] = Counter()
        for step, count in reversed(stands_for.items()):  # of equal counts, the last
            taken[step.rule] += count
        return taken.most_common(1)[0][0]

    @property
    def is_shared(self) -> bool:
        """Whether only initializers were replaced by equal ones, and no computation changed."""
        first = self.steps[0]  # fast, because nearly all sites have one step
        return not (first.added or first.removed or any(step.removed or step.added for step in self.steps[1:]))

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules that fired here, in order."""
        if len(self.steps) == 1:  # fast, because nearly all sites have one step
            return (self.steps[0].rule,)
        return tuple(dict.fromkeys(step.rule for step in self.steps))

    @property
    def fired(self) -> dict[str, int]:
        """How often each of these rules fired here: more than once if its steps depend on each other."""
        if len(self.steps) == 1:
            return {self.steps[0].rule: 1}
        return dict(Counter(step.rule for step in self.steps if not step.is_for_sizes))

    @property
    def scope(self) -> str:
        """The body or function that contains it; empty for the main graph."""
        return self.steps[-1].scope.label

    @property
    def root(self) -> str:
        """The producer of the first output; an initializer if only initializers were removed."""
        found = (step.root for step in (*reversed(self.steps), self.steps[0]) if step.root.original)
        return next(found, self.steps[-1].root).label

    @property
    def replaced(self) -> tuple[NodeInfo, ...]:
        """Removed nodes of the source."""
        stayed = {old for new, old in self._kept.items() if new.alive}
        gone = (node for step in self.steps for node in step.removed if node.original)
        return tuple(_info(node) for node in gone if node not in stayed)

    @property
    def added(self) -> tuple[NodeInfo, ...]:
        """Inserted nodes that are in the result."""
        kept = self._kept
        return tuple(_info(node) for step in self.steps for node in step.added if node.alive and node not in kept)

    @property
    def _kept(self) -> dict[Node, Node]:
        """By new node that equals a node of the source, that node."""
        found: dict[Node, Node] = {}
        for step in self.steps:
            for new, old in step.kept.items():
                source = found.get(old, old)
                if source.original:
                    found[new] = source
        return found

    @property
    def shared(self) -> dict[str, str]:
        """By removed initializer, the one of equal bytes that replaces it."""
        found: dict[str, str] = {}
        for step in self.steps:
            if step.renamed and not step.removed:
                found.update(step.renamed)
        return found

    @property
    def swept(self) -> tuple[NodeInfo, ...]:
        """Removed nodes of the source that only the replaced ones read."""
        return tuple(_info(node) for step in self.steps for node in step.orphans if node.original)

    def to_dict(self, proof: int | None = None) -> dict[str, Any]:
        """Return the site as JSON can hold it.  proof: the index of its proof in the report's list."""
        return {
            "rule": self.rule,
            "rules": list(self.rules),
            "scope": self.scope,
            "root": self.root,
            "replaced": [node.to_dict() for node in self.replaced],
            "added": [node.to_dict() for node in self.added],
            "swept": [node.to_dict() for node in self.swept],
            **({"shared": self.shared} if self.shared else {}),
            "outcome": self.outcome,
            "errors": None if self.error is None else self.error.to_dict(),
            "proof": proof,
            "undone": self.undone,
        }


@dataclass(slots=True)
class Report(ResultBase):
    """What one rewrite did.  Its fields are keys of the JSON report, so they stay together in one record.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> report.outcome, report.count("gelu"), report.nodes_before, report.nodes_after
        ('proved', 4, 180, 164)
    """

    source: str
    """Path of the input model; empty if it was in memory."""
    output: str
    """Path of the output file; empty if the result stays in memory."""
    target: str
    """Target that the rules wrote for."""
    selection: dict[str, tuple[str, ...]]
    """Names of the rules that ran, by the name that the user gave."""
    sites: list[Site] = field(default_factory=list)
    """Sites that are in the result."""
    rolled_back: list[Site] = field(default_factory=list)
    """Sites that were rolled back because they failed or were not proved."""
    misses: list[Mismatch] = field(default_factory=list)
    """For each rule that found nothing or nearly matched, why."""
    nodes_before: int = 0
    """Nodes in all scopes of the source, without Constants."""
    nodes_after: int = 0
    """Nodes in all scopes of the result, without Constants."""
    check: CheckResult | None = None
    """Comparison of the whole models; None if none was requested."""
    written: bool = False
    """Whether the output file was written."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Duration by phase: "read", "match", "prove", "check", "write"."""
    ep: str | None = None
    """Execution provider that the user gave; None for the default."""
    constants: tuple[int, int] = (0, 0)
    """Constant nodes (before, after)."""
    upgrade: "UpgradeReport | None" = None
    """Upgrade of the opset before the rules ran; None if there was none."""
    not_upgraded: str = ""
    """Why the requested upgrade was not done; empty if none was requested or it was done."""
    tails: tuple[str, ...] = ()
    """Names among the rules that stand for an edit, such as "nms"."""
    edited: "EditReport | None" = None
    """What that edit did before the rules ran; None without one."""
    unused: dict[str, str] = field(default_factory=dict)
    """Patterns of `only` and `skip` that match no node, with a clause on the nearest names.

    Only a recipe continues with such patterns, because it may also be meant for other models.
    """
    dims: dict[str, int] = field(default_factory=dict)
    """Sizes of dynamic dims that the user gave for the proofs, by name."""
    misstated: str = ""
    """Node whose declared shape contradicts its inferred shape, as text; empty if there is none."""
    refused: str = ""
    """Why ONNX Runtime loads neither the original nor the result; empty if it loads one or was not run."""
    next_steps: tuple[str, ...] = ()
    """What to do before the model runs on the target, such as sizes to give, one clause each."""

    @property
    def outcome(self) -> str:
        """The worst of failed, unproved, unchecked and proved over all sites, or unchanged where nothing matched.

        A site that was rolled back counts too, although it is not in the result.
        """
        found = {site.outcome for site in (*self.sites, *self.rolled_back)}
        if self.check is not None:
            found.add(self.check.outcome.value)
        found.update(one.outcome for one in (self.upgrade, self.edited) if one is not None)
        return next(
            (outcome for outcome in ("failed", "unproved", "unchecked", "proved") if outcome in found), "unchanged"
        )

    @property
    def is_unchanged(self) -> bool:
        """Whether the model is unchanged."""
        return not self.sites and self.upgrade is None and self.edited is None

    @property
    def proved(self) -> bool:
        """Whether every site is proved, or there was nothing to prove."""
        return self.outcome in ("proved", "unchanged")

    @property
    def proofs(self) -> "list[SiteProof]":
        """The proofs of all sites; a shared proof once."""
        found = {id(site.proof): site.proof for site in (*self.sites, *self.rolled_back) if site.proof is not None}
        return list(found.values())

    @property
    def doubts(self) -> list[str]:
        """Why sites, or the whole model, are not proved: one sentence each, the site named."""
        found = [
            f"{site.rule} at {site.root}: {site.proof.reason}"
            for site in self.sites
            if site.proof is not None and site.outcome == "unproved"
        ]
        checks = (*(one.check for one in (self.edited, self.upgrade) if one is not None), self.check)
        return found + [one.reason for one in checks if one is not None and one.outcome is Outcome.UNPROVED]

    def knows(self, name: str) -> bool:
        """Whether the user gave this name of rules, or a rule of this name ran."""
        inner = name.rpartition(":")[2]
        return name in (*self.selection, *self.tails) or any(inner in rules for rules in self.selection.values())

    def count(self, name: str, *, rolled_back: bool = False) -> int:
        """How often the rules that the user gave by this name fired, or the rule of this name or file:name.

        If several of them chained at a site, the one that fired most often there counts.  rolled_back: count the sites
        that were rolled back instead of those in the result.
        """
        if name in self.tails:
            return int(self.edited is not None and not rolled_back)
        rules = self.selection.get(name, (name.rpartition(":")[2],))
        sites = self.rolled_back if rolled_back else self.sites
        return sum(max((fired for rule, fired in site.fired.items() if rule in rules), default=0) for site in sites)

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule fired at sites in the result."""
        found = {name: self.count(name) for name in self.tails}
        found |= {rule: 0 for rules in self.selection.values() for rule in rules}
        fired = Counter(step.rule for site in self.sites for step in site.steps if not step.is_for_sizes)
        return found | {rule: found.get(rule, 0) + times for rule, times in fired.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON can hold it."""
        places = {id(proof): place for place, proof in enumerate(self.proofs)}
        return {
            "source": self.source,
            "output": self.output,
            "target": self.target,
            **({} if self.ep is None else {"ep": self.ep}),
            "rules": {name: list(rules) for name, rules in self.selection.items()},
            "outcome": self.outcome,
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "constants": list(self.constants),
            **({} if self.edited is None else {"edited": self.edited.to_dict()}),
            "upgrade": None if self.upgrade is None else self.upgrade.to_dict(),
            "not_upgraded": self.not_upgraded,
            **({"unused": list(self.unused)} if self.unused else {}),
            **({"dims": self.dims} if self.dims else {}),
            **{name: text for name in ("misstated", "refused") if (text := getattr(self, name))},
            **({"next_steps": list(self.next_steps)} if self.next_steps else {}),
            "counts": self.counts,
            "sites": [site.to_dict(places.get(id(site.proof))) for site in self.sites],
            "rolled_back": [site.to_dict(places.get(id(site.proof))) for site in self.rolled_back],
            "proofs": [proof.to_dict() for proof in self.proofs],
            "misses": [
                {**{key: getattr(miss, key) for key in MISS_KEYS}, "others": list(miss.others)} for miss in self.misses
            ],
            "check": self.check.to_dict() if self.check is not None else None,
            "written": self.written,
            "seconds": {phase: round(value, 4) for phase, value in self.seconds.items()},
        }

    def __repr__(self) -> str:
        shown = {rule: count for rule, count in self.counts.items() if count or len(self.counts) <= FEW}
        silent = [f"{len(self.counts) - len(shown)} other rules 0"] if len(shown) < len(self.counts) else []
        found = ", ".join([*(f"{rule} {count}" for rule, count in shown.items()), *silent])
        gone = f"; {len(self.rolled_back)} rolled back" if self.rolled_back else ""
        return f"<Report {found}{gone}; nodes {self.nodes_before} -> {self.nodes_after}; {self.outcome}>"


def group_dependent_steps(steps: Sequence[RewriteStep]) -> list[list[RewriteStep]]:
    """Groups of dependent steps, in order; a group is the unit of report, proof and rollback."""
    return connected_components(steps, ((earlier, step) for step in steps for earlier in step.before))


def _info(node: Node) -> NodeInfo:
    return NodeInfo(node.label, node.op, node.inputs, outputs=node.outputs, attributes=attributes_text(node.proto))


def attributes_text(node: NodeProto) -> str:
    """The attributes of a node as text."""
    return ", ".join(f"{item.name}={_shown(item)}" for item in node.attribute)


def _shown(item: AttributeProto) -> str:
    """An attribute as short text."""
    if item.ref_attr_name:
        return f"@{item.ref_attr_name}"
    if item.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        numbers = [f"{number:.7g}" for number in (item.floats or [item.f])]
        return f"[{', '.join(numbers)}]" if item.type == AttributeProto.FLOATS else numbers[0]
    if item.type in (AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING):
        return repr(plain(item))
    return str(AttributeProto.AttributeType.Name(item.type)).lower()
