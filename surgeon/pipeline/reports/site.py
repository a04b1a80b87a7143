"""A site of a rewrite: the net change, its outcome and its proof."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx import AttributeProto, NodeProto

from surgeon.connected_components import connected_components
from surgeon.ir.scope import Node, qualified_name
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.result_base import ResultBase, json_of
from surgeon.rules.matching.match_state import plain
from surgeon.rules.replacing.splicer import RewriteStep

if TYPE_CHECKING:
    from surgeon.proof.site_proof import SiteProof
    from surgeon.runtime.numerics.array_comparison import OutputError
    from surgeon.runtime.numerics.tensor_judge import TensorError

FAILED_PROOF, NOT_PROVED = "it failed its proof", "it is not proved"  # why a site was rolled back by its own proof


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
        """The node as values that JSON supports."""
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
    """The separate proof of this site; None if none was requested.  Equal sites share one."""
    check: CheckResult | None = None
    """Check of the whole model with this site; None if none was requested."""
    undone: str = ""
    """Why the site was rolled back; empty if it was not."""
    guilty: bool = False
    """Whether the whole model is wrong with it, even if its own proof says otherwise."""

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
        """Why the site is not proved or was rolled back, as a clause; empty for other sites."""
        proof = self.proof
        if proof is not None and proof.reason and (not self.undone or self.undone in (FAILED_PROOF, NOT_PROVED)):
            return proof.reason.rstrip(".")
        return self.undone

    @property
    def rule(self) -> str:
        """The rule that names the site: the rule at fault if its proof fails, else the rule with the largest part.

        The rule at fault is the last one that wrote the output that differs.  The largest part is that of the rule
        whose remaining nodes replace most nodes of the source, directly or through nodes of other rules.
        """
        if len(self.steps) == 1:
            return self.steps[0].rule
        if self._at_fault:
            return self._at_fault[-1].rule
        stands_for: dict[RewriteStep, int] = {}
        wrote = {node: step for step in self.steps for node in step.added}
        for step in self.steps:
            gone, still = (*step.removed, *step.orphans), {*step.kept.values()}
            stands_for[step] = sum(node.original for node in gone) - len(step.kept)
            for earlier in dict.fromkeys(wrote[node] for node in gone if node in wrote and node not in still):
                if not any(node.alive for node in earlier.added):  # another rule replaced all of its nodes
                    stands_for[step] += stands_for.pop(earlier, 0)
        taken: Counter[str] = Counter()
        for step, count in reversed(stands_for.items()):  # of equal counts, the last
            taken[step.rule] += count
        return taken.most_common(1)[0][0]

    @property
    def _at_fault(self) -> list[RewriteStep]:
        """The steps that wrote the output that differs, in order; empty if the proof does not fail."""
        worst = self.proof.worst if self.proof is not None else None
        return [step for step in self.steps if worst is not None and not worst.ok and worst.name in step.outputs]

    @property
    def step_at_fault(self) -> RewriteStep:
        """The last step that wrote the output that differs, or else the last step."""
        return (self._at_fault or self.steps)[-1]

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
        """By new node that equals a node of the source, names of outputs included, that node."""
        found: dict[Node, Node] = {}
        for step in self.steps:
            for new, old in step.kept.items():
                source = found.get(old, old)
                if source.original and new.outputs == source.outputs:
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
        """The site as values that JSON supports.  proof: the index of its proof in the report's list."""
        return {
            **json_of(self, "rule rules scope root replaced added swept shared? outcome errors=error"),
            "proof": proof,
            "undone": self.undone,
        }


def group_dependent_steps(steps: Sequence[RewriteStep]) -> list[list[RewriteStep]]:
    """Groups of dependent steps, in order; a group is the unit of report, proof and rollback."""
    return connected_components(steps, ((earlier, step) for step in steps for earlier in step.before))


def _info(node: Node) -> NodeInfo:
    proto = node.proto
    op = qualified_name(proto.domain, proto.op_type)
    return NodeInfo(node.label, op, node.inputs, outputs=node.outputs, attributes=attributes_text(proto))


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
