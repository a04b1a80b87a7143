"""The one function that says how two models differ."""

import time
from collections.abc import Iterator

from onnx import GraphProto, ModelProto

from surgeon.diagnosis.inspection import type_text
from surgeon.differing.changes import GraphChanges, merged
from surgeon.differing.result import ModelChange, ModelDiff
from surgeon.differing.side import GraphSide, ends_of
from surgeon.file.model import Model
from surgeon.file.sameness import Contents
from surgeon.file.source import Source, as_written, label
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope
from surgeon.rewriting.rewrite import paused_collector


def diff(first: Source, second: Source) -> ModelDiff:
    """Say how two models differ: nodes are matched by what they are and what is around them, not by their names.

    Nothing is run: whether they compute the same is for `surgeon.compare`.

    Args:
        first: a path, a ModelProto or a gs.Graph.
        second: the same.

    Returns:
        What differs, equal changes once; names alone are no difference.

    Raises:
        ModelFileError: a file cannot be read.
        GraphError: a model contradicts itself.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> found = surgeon.diff("models/tiny_distilbert.onnx", "out.onnx")
        >>> found.changes[-1].what
        'Div, Erf, Add, Mul ×2 → com.microsoft::Gelu'
    """
    started = time.perf_counter()
    with paused_collector(), Model.open(as_written(first)) as one, Model.open(as_written(second)) as other:
        contents = Contents(one), Contents(other)
        try:
            found = _ModelChanges(Index(one), Index(other), contents)
        finally:
            for held in contents:
                held.close()
        changes = [*_of_header(one.skeleton, other.skeleton), *found.changes]
    return ModelDiff(
        first=label(first),
        second=label(second),
        nodes=found.nodes,
        same=found.same,
        renamed=found.renamed,
        changes=merged(changes),
        seconds=time.perf_counter() - started,
    )


class _ModelChanges:
    """Compares the main graphs, functions of one name, and the bodies of nodes that stand for each other."""

    def __init__(self, one: Index, other: Index, contents: tuple[Contents, Contents]) -> None:
        self._indexes, self._contents = (one, other), contents
        self._bodies = tuple(_bodies(index) for index in (one, other))
        self.changes: list[ModelChange] = []
        self.same = self.renamed = 0
        self.nodes = (_count(one), _count(other))
        self._compare(one.main, other.main)
        theirs = {scope.label: scope for scope in other.functions}
        for scope in one.functions:
            if scope.label in theirs:
                self._compare(scope, theirs[scope.label])

    def _compare(self, one: Scope, other: Scope) -> None:
        waiting = [(one, other)]
        while waiting:
            scopes = waiting.pop()
            names = [[set(side) for side in ends_of(scope)] for scope in scopes]
            by_name = scopes[0] is self._indexes[0].main and names[0] == names[1]
            sides = [GraphSide(index, scope, by_name) for index, scope in zip(self._indexes, scopes, strict=True)]
            found = GraphChanges(sides[0], sides[1], self._contents, scopes[0].label)
            self.changes += found.changes
            self.same, self.renamed = self.same + found.same, self.renamed + found.renamed
            for at, to in found.pairing.to.items():
                ours, theirs = (
                    bodies.get(side.nodes[place], [])
                    for bodies, side, place in zip(self._bodies, sides, (at, to), strict=True)
                )
                waiting += zip(ours, theirs, strict=False)


def _bodies(index: Index) -> dict[Node, list[Scope]]:
    """The bodies of each node that holds some."""
    found: dict[Node, list[Scope]] = {}
    for scope in index.scopes:
        if scope.owner is not None:
            found.setdefault(scope.owner, []).append(scope)
    return found


def _count(index: Index) -> int:
    return sum(node.op != "Constant" for scope in index.scopes for node in scope.nodes)


def _values(graph: GraphProto, side: str) -> dict[str, str]:
    """The inputs or outputs of a graph with their types; a stored tensor is no input, though old files list it."""
    stored = {tensor.name for tensor in graph.initializer} if side == "input" else set()
    return {item.name: type_text(item.type) for item in getattr(graph, side) if item.name not in stored}


def _of_header(one: ModelProto, other: ModelProto) -> Iterator[ModelChange]:
    """What models say of themselves: inputs and outputs, opsets, functions."""
    for side in ("input", "output"):
        values = [_values(model.graph, side) for model in (one, other)]
        for name in dict.fromkeys((*values[0], *values[1])):
            texts = [held.get(name, "") for held in values]
            if texts[0] != texts[1]:
                yield ModelChange("interface", f"{side} {name}: {texts[0] or 'nothing'} → {texts[1] or 'nothing'}")
        if list(values[0]) != list(values[1]) and sorted(values[0]) == sorted(values[1]):
            yield ModelChange("interface", f"the {side}s come in another order: {', '.join(values[1])}")
    opsets = [{item.domain or "ai.onnx": item.version for item in model.opset_import} for model in (one, other)]
    for domain in dict.fromkeys((*opsets[0], *opsets[1])):
        before, after = (held.get(domain, "none") for held in opsets)
        if before != after:
            yield ModelChange("opset", f"opset of {domain}: {before} → {after}")
    functions = [{f"{item.domain}::{item.name}" for item in model.functions} for model in (one, other)]
    for name in sorted(functions[0] ^ functions[1]):
        which = "first" if name in functions[0] else "second"
        yield ModelChange("interface", f"the local function {name} is in the {which} model alone")
