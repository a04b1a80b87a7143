"""Compares two models."""

import time
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from onnx import FunctionProto

from surgeon.display.diff.diff_graph import DiffGraph
from surgeon.display.diff.graph_changes import GraphChanges, in_report_order
from surgeon.display.diff.interface_changes import function_changes, interface_changes
from surgeon.display.diff.metadata_changes import metadata_lines, node_metadata_lines, unread_tensor_lines
from surgeon.display.diff.model_diff import ModelChange, ModelDiff
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, by_component, model_name, resolve_model
from surgeon.file.tensors.content_equality import TensorContents
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traversal import function_key
from surgeon.pipeline.rewriting.rule_run import gc_paused


@by_component("first", "second")
def diff(first: ModelLike, second: ModelLike) -> ModelDiff:
    """List the differences between two models: nodes are paired by op and surroundings, not by name.

    Nothing is run.  `surgeon.compare` checks whether both compute the same.

    Args:
        first: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
        second: the same.

    Returns:
        The differences, equal changes once.  Names do not count, and metadata is listed separately (`told`).

    Raises:
        ModelFileError: a file cannot be read.
        GraphError: a model contradicts itself.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> found = surgeon.diff("notebooks/models/tiny_distilbert.onnx", "out.onnx")
        >>> found.changes[-1].what
        'Div, Erf, Add, Mul ×2 → com.microsoft::Gelu'
    """
    started = time.perf_counter()
    with gc_paused(), Model.open(resolve_model(first)) as one, Model.open(resolve_model(second)) as other:
        contents = TensorContents(one), TensorContents(other)
        try:
            found = _ModelChanges(Index(one), Index(other), contents)
        finally:
            for content in contents:
                content.close()
        changes = [*interface_changes(one.skeleton, other.skeleton), *found.changes]
        metadata = [*metadata_lines(one.skeleton, other.skeleton), *found.unread, *node_metadata_lines(found.metadata)]
    return ModelDiff(
        first=model_name(first),
        second=model_name(second),
        nodes=found.nodes,
        same=found.same,
        renamed=found.renamed,
        changes=in_report_order(changes),
        told=metadata,
        seconds=time.perf_counter() - started,
    )


class _ModelChanges:
    """Compares the main graphs, functions of the same name, and the bodies of paired nodes."""

    def __init__(self, one: Index, other: Index, contents: tuple[TensorContents, TensorContents]) -> None:
        self._indexes, self._contents = (one, other), contents
        self.changes: list[ModelChange] = []
        self.same = self.renamed = 0
        self.metadata = Counter[str]()
        self.nodes = (_count(one), _count(other))
        self.unread = list(unread_tensor_lines(one.main, other.main))
        self._compare(one.main, other.main)
        others = {_key(scope): scope for scope in other.functions}
        for scope in one.functions:
            if _key(scope) in others:
                self.changes += function_changes(scope, others[_key(scope)])
                self._compare(scope, others[_key(scope)])

    def _compare(self, one: Scope, other: Scope) -> None:
        no_names: dict[str, Hashable] = {}
        pending = [((one, other), (no_names, no_names), 0)]
        while pending:
            scopes, outside, depth = pending.pop()
            names = [(set(scope.input_names), set(scope.output_names)) for scope in scopes]
            by_name = scopes[0] is self._indexes[0].main and names[0] == names[1]
            sides = [
                DiffGraph(index, scope, by_name, around)
                for index, scope, around in zip(self._indexes, scopes, outside, strict=True)
            ]
            found = GraphChanges(sides[0], sides[1], self._contents, scopes[0].label)
            self.changes += found.changes
            self.metadata.update(found.metadata)
            self.same, self.renamed = self.same + found.same, self.renamed + found.renamed
            if scopes[0].bodies and scopes[1].bodies:
                numbers = {at: at for at in found.pairing.second_of}, found.pairing.first_of
                inside = [side.outside_of_bodies(depth, known) for side, known in zip(sides, numbers, strict=True)]
                for pair in self._pairs_of_bodies(sides, found.pairing.second_of):
                    pending.append((pair, (inside[0], inside[1]), depth + 1))

    def _pairs_of_bodies(self, sides: Sequence[DiffGraph], pairs: Mapping[int, int]) -> Iterator[tuple[Scope, Scope]]:
        """The bodies of paired nodes, by attribute; a body that only one node has is a change."""
        for at, to in pairs.items():
            nodes = [side.nodes[place] for side, place in zip(sides, (at, to), strict=True)]
            ours, others = (_bodies(index, node) for index, node in zip(self._indexes, nodes, strict=True))
            for key in ours.keys() & others.keys():
                yield ours[key], others[key]
            for key in sorted(ours.keys() ^ others.keys()):
                which = "first" if key in ours else "second"
                site = ((nodes[0].label,), (nodes[1].label,))
                what = f"{nodes[0].op} has the body {key[0]} only in the {which} model"
                self.changes.append(ModelChange("attributes", what, sites=(site,), scope=sides[0].scope.label))


def _bodies(index: Index, node: Node) -> dict[tuple[str, int], Scope]:
    """The bodies of a node, by attribute name and position."""
    return {(body.attribute, body.address[-1][1]): body for body in index.bodies(node)}


def _key(scope: Scope) -> Hashable:
    """The identity of a function."""
    assert isinstance(scope.proto, FunctionProto), "bodies are compared where their nodes are"
    return function_key(scope.proto)


def _count(index: Index) -> int:
    return sum(node.op != "Constant" for scope in index.scopes for node in scope.nodes)
