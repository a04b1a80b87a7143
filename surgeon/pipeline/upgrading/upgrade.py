"""`surgeon.upgrade`: raise the ai.onnx opset of a model without changing the meaning of any node.

Most ops only accept more types in a newer opset, so only the number in the file changes.  If an attribute became an
input (the axes of ReduceMean) or a default changed, the node is edited.  A node whose meaning would change blocks the
upgrade.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import onnx
from onnx import helper, numpy_helper

from surgeon.errors import GraphError, Unavailable, UsageError
from surgeon.file.editable_model import EditableModel
from surgeon.file.model_like import ModelLike, model_name
from surgeon.file.save import ExternalDataMode
from surgeon.ir.index import Index
from surgeon.ir.scope import DEFAULT_DOMAINS, Node, Scope
from surgeon.ops.schemas import schema
from surgeon.ops.traversal import all_nodes, node_label, unique_name
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.driver import run
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.reports.upgrade_report import UpgradeReport
from surgeon.pipeline.transform import Claim, EqualModels, Words
from surgeon.pipeline.upgrading.declared_opset import declare_opset, fitting_opset, local_functions
from surgeon.proof.check_options import CheckOptions
from surgeon.runtime.provider_support import CPU, ProviderSupport
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.opsets.migration import ir_version_for, migrate_node, newest_opset
from surgeon.shapes.opsets.node_change import Array, Change
from surgeon.text import join_first

UpgradeCheck: TypeAlias = Literal["model", "none"]
UPGRADE_CHECKS = ("model", "none")

NAMED = 3  # nodes named for each op that blocks
SPELLED = 8  # most elements of a constant that its name lists


def upgrade(
    source: ModelLike,
    opset: int,
    output: str | os.PathLike[str],
    *,
    check: UpgradeCheck = "model",
    require_proof: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> UpgradeReport:
    """Write the model with ai.onnx at `opset`, without changing the meaning of any node.

    Args:
        source: a path, or a model in memory.
        opset: opset of ai.onnx to raise the model to.
        output: where to write; it may be the same path.
        check: "model" runs both whole models and compares them, "none" only loads the result.
        require_proof: treat a result that cannot be proved as a failed one.
        external_data: as for `rewrite`.
        force: overwrite a data file of other content.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        The changes, and the result of the check.

    Raises:
        UsageError: the opset is lower than the model's, or unknown.
        GraphError: nodes would change their meaning, or ONNX Runtime would have no kernel for them.
        CheckFailed: the check fails; nothing is written.

    Examples:
        >>> import surgeon
        >>> surgeon.upgrade("notebooks/models/tiny_distilbert.onnx", 21, "newer.onnx", check="none").opset
        (18, 21)
    """
    require_opset(opset)
    checks = Checks.named(check, UPGRADE_CHECKS, require_proof, options)
    raised = Upgrade(opset, model_name(source, "The model"))
    _, report = run(source, [raised], checks, Saving(output, external_data, force))
    [done] = report.steps
    assert isinstance(done, UpgradeReport)  # as `Upgrade` claims
    return done


def require_opset(opset: int) -> None:
    """Raise UsageError for an unknown opset."""
    if not isinstance(opset, int):
        raise UsageError(f"Invalid opset={opset!r}. Give an integer.")
    if not 1 <= opset <= newest_opset():
        raise UsageError(f"Opset {opset} does not exist. The installed onnx supports opsets up to {newest_opset()}.")


def upgrade_skeleton(draft: EditableModel, opset: int, source: str) -> UpgradeReport:
    """Raise the opset of an editable model.  source: name of the model in messages.  Raises as `upgrade`."""
    index = Index(draft)
    index.check()
    old = index.main.opset
    if old is None:
        raise UsageError(f"{source} does not import ai.onnx, so it has no opset to raise.")
    if opset < old:
        raise UsageError(f"{source} has opset {old}. surgeon does not lower opsets, so {opset} is not possible.")
    ir_version = max(index.ir_version, ir_version_for(opset)) if opset > old else index.ir_version
    done = UpgradeReport(source, "", (old, opset), (index.ir_version, ir_version))
    if opset > old:
        meant, done.declared = fitting_opset(index, opset)
        if meant:
            declare_opset(draft.skeleton, meant)
            draft.skeleton.ir_version = ir_version
            index = Index(draft)
    if opset > (index.main.opset or 0):
        judged = _UpgradePlan(index, opset, done)
        if judged.is_blocked:
            earlier = (number for number in range(opset - 1, old, -1) if not _UpgradePlan(index, number).is_blocked)
            raise GraphError(judged.refusal(next(earlier, None)))
        judged.write(draft.skeleton)
        if ir_version != index.ir_version:
            draft.skeleton.ir_version = ir_version
    return done


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Raise ai.onnx to an opset without changing the meaning of any node."""

    opset: int
    """The opset."""
    name: str = "The model"
    """Name of the model in messages."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Raise the opset of a draft, and claim that the models are equal.  Raises as `upgrade`."""
        require_opset(self.opset)
        checks.options.require_dims_of(draft.before.skeleton.graph)
        done = upgrade_skeleton(draft, self.opset, self.name)
        draft.changed()
        return Claim(done, Words.of("upgraded"), EqualModels(), changed=done.opset[0] < done.opset[1])


class _UpgradePlan:
    """The changes of an upgrade at each node, and the nodes that block it."""

    def __init__(self, index: Index, opset: int, done: UpgradeReport | None = None) -> None:
        self.index, self.opset = index, opset
        self.done = done or UpgradeReport("", "", (opset, opset), (0, 0))
        self.changes: list[tuple[Node, Change]] = []
        self.blocked: dict[tuple[str, str], list[str]] = {}
        self.lacking: dict[tuple[str, str], list[str]] = {}
        self.raised: list[Scope] = []
        self._judge()

    @property
    def is_blocked(self) -> bool:
        """Whether nodes would change their meaning, or ONNX Runtime would no longer run them."""
        return bool(self.blocked or self.lacking)

    def _judge(self) -> None:
        """Examine every node."""
        local = local_functions(self.index)
        for scope in self.index.scopes:
            if scope.function is None:
                for node in _onnx_nodes(scope, local):
                    self._judge_node(node, scope.opset or 0)
        for function in self.index.functions:
            self._judge_function(function, local)
        self._judge_training(local)

    def _judge_node(self, node: Node, old: int) -> None:
        found = migrate_node(node, old, self.opset, shapes_of(self.index))
        if isinstance(found, Unavailable):
            self.blocked.setdefault((node.op, found.reason), []).append(node.label)
            return
        lacking = self._lacking(found, old)
        if lacking:
            self.lacking.setdefault((node.op, lacking), []).append(node.label)
        if _changes_version(node.op, old, self.opset):
            self.done.newer[node.op] = self.done.newer.get(node.op, 0) + 1
        if not found.empty:
            self.changes.append((node, found))
            self.done.edited[found.sentence] = self.done.edited.get(found.sentence, 0) + 1

    def _lacking(self, change: Change, old: int) -> str | None:
        """Why ONNX Runtime no longer runs a node at the new opset, as a clause; None if it does or never did.

        It runs a node without a kernel by the function body of the op, which depends on the opset of the model.
        """
        kernels = ProviderSupport.of(CPU)
        if not kernels.runs("", change.node.op, old, change.dtypes(old, before=True)):
            return None
        after = change.dtypes(self.opset)
        return (
            None
            if kernels.runs("", change.op, self.opset, after)
            else kernels.missing_reason("", change.op, self.opset, after)
        )

    def _judge_function(self, function: Scope, local: set[tuple[str, str]]) -> None:
        """A function keeps its opset import, unless one of its ops differs between that and the model's.

        Function and model must agree on the schema of every op in the body (onnx.proto, FunctionProto.opset_import).
        """
        old = function.opset
        if old is None or old >= self.opset:
            return
        scopes = [scope for scope in self.index.scopes if scope.function is function]
        nodes = [node for scope in scopes for node in _onnx_nodes(scope, local)]
        differ = [node for node in nodes if _changes_version(node.op, old, self.opset)]
        for node in differ:
            found = migrate_node(node, old, self.opset, shapes_of(self.index))
            if isinstance(found, Change) and not found.empty:
                found = Unavailable(f"{found.sentence}, which is not possible in a function")
            if isinstance(found, Unavailable):
                self.blocked.setdefault((node.op, found.reason), []).append(f"{node.label} in {function.label}")
        if differ:
            self.raised.append(function)
            self.done.functions.append(function.label.removeprefix("function "))

    def _judge_training(self, local: set[tuple[str, str]]) -> None:
        """Training graphs follow the opset of the model; they are never edited."""
        scope = self.index.main
        infos = self.index.model.skeleton.training_info
        graphs = [graph for info in infos for graph in (info.initialization, info.algorithm)]
        for proto in (proto for graph in graphs for proto in all_nodes(graph.node)):
            if proto.domain not in DEFAULT_DOMAINS or ("", proto.op_type) in local:
                continue
            names = tuple(proto.input), tuple(proto.output)
            node = Node(proto.op_type, *names, scope, 0, proto.SerializeToString())
            found = migrate_node(node, scope.opset or 0, self.opset, shapes_of(self.index))
            if isinstance(found, Change) and not found.empty:
                found = Unavailable(f"{found.sentence}, which is not possible there")
            if isinstance(found, Unavailable):
                label = f"{node_label(proto)} in the training info"
                self.blocked.setdefault((node.op, found.reason), []).append(label)

    def refusal(self, earlier: int | None) -> str:
        """The message about the blocking nodes.  earlier: newest opset that nothing blocks."""
        reasons = []
        if self.blocked:
            parts = [f"{op} at {join_first(at, NAMED)} ({why})" for (op, why), at in self.blocked.items()]
            count = sum(map(len, self.blocked.values()))
            nodes = "one node" if count == 1 else f"{count} nodes"
            reasons.append(f"Opset {self.opset} would change the meaning of {nodes}: {'; '.join(parts)}")
        reasons += [f"{why}: {op} at {join_first(at, NAMED)}" for (op, why), at in self.lacking.items()]
        kept = f"use --opset {earlier}, the newest that keeps" if earlier else "no newer opset keeps"
        return f"{'; '.join(reasons)}; {kept} all results."

    def write(self, skeleton: onnx.ModelProto) -> None:
        """Apply the edits to the examined model."""
        names = _Names(self.index)
        tensors: dict[tuple[str, str, tuple[int, ...], bytes], onnx.TensorProto] = {}

        def constant(name: str, values: Array) -> str:
            key = name, str(values.dtype), values.shape, values.tobytes()
            if key not in tensors:
                tensors[key] = numpy_helper.from_array(values, names.of_constant(name, values))
            return tensors[key].name

        for node, change in self.changes:
            _write(node, change, constant)
        for node, change in sorted(
            self.changes, key=lambda pair: -pair[0].source_slot
        ):  # from the last to the first place
            _insert_around(node, change, names.fresh)
        skeleton.graph.initializer.extend(tensors.values())
        for holder in (skeleton, *(scope.proto for scope in self.raised)):
            for entry in holder.opset_import:
                if entry.domain in DEFAULT_DOMAINS and entry.version < self.opset:
                    entry.version = self.opset


def _write(node: Node, change: Change, constant: Callable[[str, Array], str]) -> None:
    """Edit one node."""
    proto = node.proto
    proto.op_type = change.op
    for name in change.dropped:
        del proto.attribute[next(place for place, item in enumerate(proto.attribute) if item.name == name)]
    proto.input[:] = [one if isinstance(one, str) else constant(*one) for one in change.operands]
    proto.attribute.extend(helper.make_attribute(*item) for item in change.added.items())


def _insert_around(node: Node, change: Change, fresh: Callable[[str], str]) -> None:
    """Insert nodes around an edited one."""
    if change.around is not None:
        edited = onnx.NodeProto()
        edited.CopyFrom(node.proto)
        protos = node.scope.proto.node
        del protos[node.source_slot]
        for made in reversed(change.around(edited, fresh)):
            protos.insert(node.source_slot, made)


class _Names:
    """Fresh tensor names, unique in all scopes, because a body may read tensors of the main graph."""

    def __init__(self, index: Index) -> None:
        self._taken: set[str] = set()
        for scope in index.scopes:
            for names in (scope.producers, scope.initializers, scope.inputs, scope.sparse, scope.consumers):
                self._taken.update(names)

    def fresh(self, name: str) -> str:
        """An unused name similar to this one."""
        found = unique_name(name, self._taken)
        self._taken.add(found)
        return found

    def of_constant(self, name: str, values: Array) -> str:
        """A name with the values of a small constant: axes_-1."""
        return self.fresh("_".join([name, *map(str, values.ravel().tolist())]) if values.size <= SPELLED else name)


def _onnx_nodes(scope: Scope, local: set[tuple[str, str]]) -> Iterator[Node]:
    """The nodes of ai.onnx in a scope, without calls of local functions."""
    for node in scope.nodes:
        if "::" not in node.op and ("", node.op) not in local:
            yield node


def _changes_version(op: str, old: int, new: int) -> bool:
    before, after = schema("", op, old), schema("", op, new)
    return before is None or after is None or before.since_version != after.since_version
