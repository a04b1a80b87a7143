"""Raising the ai.onnx opset of a model without changing what any node means.

Most ops only take more types from one opset to the next, so nothing but the number in the file changes; where an
attribute became an input (the axes of ReduceMean), the node is edited.  A node that would mean something else blocks
the upgrade.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from onnx import helper, numpy_helper

from surgeon.errors import GraphError, Refusal, UsageError
from surgeon.file.editable import Editable
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.save import DataMode, Written, save
from surgeon.indexing.index import Index
from surgeon.indexing.scope import DEFAULT_DOMAINS, Node, Scope
from surgeon.listing import first_of
from surgeon.models.options import CheckOptions, options_of
from surgeon.models.whole_model import invalidity, model_check, require_passed
from surgeon.ops.schemas import schema
from surgeon.ops.walking import all_nodes, label_of, unused
from surgeon.opsets.lossless import Change, ir_version_for, judge, newest_opset
from surgeon.shapes.indexed import shapes_of
from surgeon.upgrading.result import Upgrade

NAMED = 3  # nodes named for each op that blocks


def upgrade(
    source: str | os.PathLike[str],
    opset: int,
    output: str | os.PathLike[str],
    *,
    check: Literal["model", "none"] = "model",
    require_proof: bool = False,
    external_data: DataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> Upgrade:
    """Write the model with ai.onnx at `opset`, every node meaning what it meant.

    Args:
        source: the model's path.
        opset: the version of ai.onnx to raise it to.
        output: where to write; it may be the same path.
        check: "model" runs both whole models and compares them, "none" does not.
        require_proof: treat a result that cannot be proved as a failed one.
        external_data: as for `rewrite`.
        force: overwrite a data file of other content.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        What was changed, and the result of the check.

    Raises:
        UsageError: an opset that is older than the model's, or unknown.
        GraphError: nodes would change their meaning; it names them.
        CheckFailed: the check fails; nothing is written.

    Examples:
        >>> import surgeon
        >>> surgeon.upgrade("notebooks/models/tiny_distilbert.onnx", 21, "newer.onnx", check="none").opset
        (18, 21)
    """
    start = time.perf_counter()
    options_of(options).require()
    require_opset(opset)
    with Model.open(source) as model:
        options_of(options).require_dims_of(model.skeleton.graph)
        done, patch = plan(model, opset, str(source), str(output))

        def inspect(path: Path) -> None:
            require_same(done, model, Path(source), path, options_of(options), require_proof)

        try:
            save(
                model,
                patch,
                output,
                external_data=external_data,
                force=force,
                check=inspect if check == "model" and not patch.empty else None,
            )
        finally:
            done.seconds = time.perf_counter() - start
    return done


def require_opset(opset: int) -> None:
    """Raise UsageError for an opset that there is not."""
    if not 1 <= opset <= newest_opset():
        raise UsageError(f"There is no opset {opset}; the installed onnx knows those up to {newest_opset()}.")


def plan(model: Model, opset: int, source: str, output: str) -> tuple[Upgrade, Patch]:
    """What to edit in a model, so that it is of an opset; nothing is checked or written.  Raises as `upgrade`."""
    draft = Editable(model)
    done = raise_skeleton(draft, opset, source)
    done.output = output
    return done, draft.patch() if done.opset[0] < opset else Patch(model)


def raise_skeleton(draft: Editable, opset: int, source: str) -> Upgrade:
    """Raise the opset of a model that may be changed freely.  Raises as `upgrade`.

    source: what to call the model in a refusal.
    """
    index = Index(draft)
    index.check()
    old = index.main.opset
    if old is None:
        raise UsageError(f"{source} imports no ai.onnx, so there is no opset to raise.")
    if opset < old:
        raise UsageError(f"{source} has opset {old}; an upgrade to {opset} would lower it, which is not supported.")
    ir_version = max(index.ir_version, ir_version_for(opset)) if opset > old else index.ir_version
    done = Upgrade(source, "", (old, opset), (index.ir_version, ir_version))
    if opset > old:
        judged = _Judgement(index, opset, done)
        judged.judge()
        judged.write(draft.skeleton)
        if ir_version != index.ir_version:
            draft.skeleton.ir_version = ir_version
    return done


class _Judgement:
    """The judgement on every node, and the edits that follow."""

    def __init__(self, index: Index, opset: int, done: Upgrade) -> None:
        self.index, self.opset, self.done = index, opset, done
        self.changes: list[tuple[Node, Change]] = []
        self.blocked: dict[tuple[str, str], list[str]] = {}
        self.raised: list[Scope] = []

    def judge(self) -> None:
        """Look at every node; raises GraphError when some would change their meaning."""
        local = {
            (item.domain if item.domain not in DEFAULT_DOMAINS else "", item.name)
            for item in self.index.model.skeleton.functions
        }
        for scope in self.index.scopes:
            if scope.function is None:
                for node in _own(scope, local):
                    self._judge_node(node, scope.opset or 0)
        for function in self.index.functions:
            self._judge_function(function, local)
        self._judge_training(local)
        if self.blocked:
            raise GraphError(self._refusal())

    def _judge_node(self, node: Node, old: int) -> None:
        found = judge(node, old, self.opset, shapes_of(self.index))
        if isinstance(found, Refusal):
            self.blocked.setdefault((node.op, found.reason), []).append(node.label)
            return
        if _moves(node.op, old, self.opset):
            self.done.newer[node.op] = self.done.newer.get(node.op, 0) + 1
        if not found.empty:
            self.changes.append((node, found))
            told = _sentence(node.op, found)
            self.done.edited[told] = self.done.edited.get(told, 0) + 1

    def _judge_function(self, function: Scope, local: set[tuple[str, str]]) -> None:
        """A function keeps its own import, unless an op of it differs between that and the model's.

        Function and model must agree on the schema of every op in the body (onnx.proto, FunctionProto.opset_import).
        """
        old = function.opset
        if old is None or old >= self.opset:
            return
        scopes = [scope for scope in self.index.scopes if scope.function is function]
        nodes = [node for scope in scopes for node in _own(scope, local)]
        differ = [node for node in nodes if _moves(node.op, old, self.opset)]
        for node in differ:
            found = judge(node, old, self.opset, shapes_of(self.index))
            if isinstance(found, Change) and not found.empty:
                found = Refusal(f"{_sentence(node.op, found)}, which cannot be done inside of a function,")
            if isinstance(found, Refusal):
                self.blocked.setdefault((node.op, found.reason), []).append(f"{node.label} in {function.label}")
        if differ:
            self.raised.append(function)
            self.done.functions.append(function.label.removeprefix("function "))

    def _judge_training(self, local: set[tuple[str, str]]) -> None:
        """The graphs that train the model follow its opset; nothing edits them."""
        scope = self.index.main
        infos = self.index.model.skeleton.training_info
        graphs = [graph for info in infos for graph in (info.initialization, info.algorithm)]
        for proto in (proto for graph in graphs for proto in all_nodes(graph.node)):
            if proto.domain not in DEFAULT_DOMAINS or ("", proto.op_type) in local:
                continue
            names = tuple(proto.input), tuple(proto.output)
            node = Node(proto.op_type, *names, scope, 0, proto.SerializeToString())
            found = judge(node, scope.opset or 0, self.opset, shapes_of(self.index))
            if isinstance(found, Change) and not found.empty:
                found = Refusal(f"{_sentence(node.op, found)}, which cannot be done there,")
            if isinstance(found, Refusal):
                label = f"{label_of(proto)} in the training info"
                self.blocked.setdefault((node.op, found.reason), []).append(label)

    def _refusal(self) -> str:
        parts = []
        for (op, reason), labels in self.blocked.items():
            parts.append(f"{op} at {first_of(labels, NAMED)} ({reason.rstrip(',')})")
        count = sum(map(len, self.blocked.values()))
        nodes = "one node does" if count == 1 else f"{count} nodes do"
        return f"Opset {self.opset} would change what {nodes}: {'; '.join(parts)}. Export the model at that opset."

    def write(self, skeleton: onnx.ModelProto) -> None:
        """Turn the judgement into edits of the model that was judged."""
        tensors: dict[tuple[str, str, bytes], onnx.TensorProto] = {}
        names = _Names(self.index)
        for node, change in self.changes:
            proto = node.proto
            for name in change.dropped:
                del proto.attribute[next(place for place, item in enumerate(proto.attribute) if item.name == name)]
            for name, values in change.moved.items():
                if values is None:
                    proto.input.append("")
                    continue
                key = (name, str(values.dtype), values.tobytes())
                if key not in tensors:
                    tensors[key] = numpy_helper.from_array(values, names.fresh(name, values))
                proto.input.append(tensors[key].name)
            proto.attribute.extend(helper.make_attribute(*item) for item in change.added.items())
        skeleton.graph.initializer.extend(tensors.values())
        for holder in (skeleton, *(scope.proto for scope in self.raised)):
            for entry in holder.opset_import:
                if entry.domain in DEFAULT_DOMAINS and entry.version < self.opset:
                    entry.version = self.opset


class _Names:
    """Fresh tensor names: unique in all scopes, as a body may read what the main graph makes."""

    def __init__(self, index: Index) -> None:
        self._taken: set[str] = set()
        for scope in index.scopes:
            self._taken.update(scope.producers, scope.initializers, scope.inputs, scope.sparse, scope.consumers)

    def fresh(self, name: str, value: np.ndarray[Any, np.dtype[Any]]) -> str:
        """A name that says what the constant is: axes_-1."""
        found = unused("_".join([name, *map(str, value.ravel().tolist())]), self._taken)
        self._taken.add(found)
        return found


def _own(scope: Scope, local: set[tuple[str, str]]) -> Iterator[Node]:
    """The nodes of ai.onnx in a scope, calls of local functions left out."""
    for node in scope.nodes:
        if "::" not in node.op and ("", node.op) not in local:
            yield node


def _moves(op: str, old: int, new: int) -> bool:
    before, after = schema("", op, old), schema("", op, new)
    return before is None or after is None or before.since_version != after.since_version


def _sentence(op: str, change: Change) -> str:
    parts = []
    moved = [name for name, values in change.moved.items() if values is not None]
    if moved:
        what, became = ("attributes", "inputs") if len(moved) > 1 else ("attribute", "an input")
        parts.append(f"{what} {' and '.join(moved)} became {became}")
    parts += [f"attribute {name} went" for name in change.dropped if name not in change.moved]
    parts += [f"attribute {name}={value} came" for name, value in change.added.items()]
    return f"{op}: {' and '.join(parts)}"


def require_same(
    done: Upgrade, model: Model, source: Written, written: Written, options: CheckOptions, require_proof: bool
) -> None:
    """Hold an upgraded model against its source, and note what came of it.

    Raises GraphError where it is not valid, CheckFailed where it differs, or is not proved although it has to be.
    """
    complaint = invalidity(model, written)
    if complaint is not None:
        raise GraphError(f"The upgraded model would be invalid ({complaint}); nothing was written.")
    done.check = model_check(model, source, options).check(written)
    require_passed("upgraded", done.check, require_proof, done)
