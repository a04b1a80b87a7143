"""An analysis outside of the engine: which inputs each output needs.

It imports the framework and the edges of tensors, and no other module of surgeon knows of it.
"""

from collections.abc import Callable

from onnx import ModelProto

from surgeon.analysis.dataflow import Dataflow
from surgeon.ir.edges import Edges, Tensor
from surgeon.ir.index import Index

Names = frozenset[str]


class NeededInputs(Dataflow[Names]):
    """The inputs of a model that the values of its tensors are computed from; shapes do not count."""

    def __init__(self, index: Index) -> None:
        super().__init__(frozenset())
        self._index, self._edges = index, Edges(index, by_call=True)

    def join(self, one: Names, other: Names) -> Names:
        return one | other

    def equation(self, tensor: Tensor, fact: Callable[[Tensor], Names]) -> Names:
        scope, name, calls = tensor
        if scope is self._index.main and name in scope.inputs:
            return frozenset((name,))
        read = list(self._edges.origins(tensor))  # what a body or a function is given, and what it returns
        node = scope.producers.get(name)
        if node is not None and not read and node.op != "Shape":
            read = [self._edges.tensor(scope, given, calls) for given in node.inputs if given]
        return frozenset().union(*map(fact, read))


def needed_inputs(model: ModelProto) -> dict[str, Names]:
    """For each output of a model, the inputs that it needs."""
    index = Index.over(model)
    needed = NeededInputs(index)
    return {name: needed[Tensor(index.main, name)] for name in index.main.output_names}


def nodes_between(model: ModelProto, name: str, output: str) -> set[str]:
    """The operators by which an input reaches an output."""
    index = Index.over(model)
    needed = NeededInputs(index)
    path = needed.path([Tensor(index.main, output)], lambda names: name in names)
    return {node.op for tensor in path for node in Edges(index, by_call=True).makers(tensor)}
