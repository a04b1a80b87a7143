"""The work of a whole model in one run, estimated from the shapes of its tensors."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto

from surgeon.errors import GraphError
from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Node, Scope, qualified_name
from surgeon.proof.node_cost import CostTerm, Extent, node_costs
from surgeon.shapes.algebra.size_expressions import Size, evaluate, symbol, symbols
from surgeon.shapes.shape_inference import ShapeInference

_DEEPEST = 8  # nested calls of functions


class ModelCost:
    """The work of a model in one run, in multiplications of matrix products.

    Bodies count once, tensors of unknown shape not at all.  Raises ModelFileError if the model cannot be read.
    """

    def __init__(self, model: Path | ModelProto) -> None:
        with Model.open(model) as opened:
            try:
                index = Index(opened)
            except GraphError:  # ONNX Runtime refuses the model: nothing runs
                self._inputs: dict[str, Extent] = {}
                self._costs: list[CostTerm] = []
                return
            shapes, main = ShapeInference(OriginalModel(index)), index.main
            known = {name: shapes.facts(main, name).shape for name in main.inputs}
            self._inputs = {name: shape for name, shape in known.items() if shape is not None}
            functions = {
                qualified_name(scope.proto.domain, scope.proto.name): scope
                for scope in index.functions
                if isinstance(scope.proto, onnx.FunctionProto)
            }
            own = [scope for scope in index.scopes if scope.function is None]
            self._costs = [cost for scope in own for cost in _costs(shapes, scope, functions, _DEEPEST)]

    def of(self, feeds: Mapping[str, np.ndarray]) -> int:
        """The work of a run on these inputs."""
        sizes: dict[str, int] = {}
        for name, shape in self._inputs.items():
            for size, number in zip(shape, feeds[name].shape if name in feeds else (), strict=False):
                sizes.update((free, number) for free in symbols(size) if size == symbol(free))

        def at(size: Size) -> int:
            return evaluate(size, sizes)

        return sum(cost.at(at) for cost in self._costs)


def _costs(shapes: ShapeInference, scope: Scope, functions: Mapping[str, Scope], depth: int) -> Iterator[CostTerm]:
    """The work of each node of a scope; for a call, of the function's nodes."""
    for node in scope.nodes:
        called = functions.get(node.op)
        inside = shapes.for_call(node) if called is not None and depth else None
        if inside is not None and called is not None:
            yield from _costs(inside, called, functions, depth - 1)
        else:
            yield from _of_node(shapes, scope, node)


def _of_node(shapes: ShapeInference, scope: Scope, node: Node) -> Iterator[CostTerm]:
    """The work of one node, if the shapes are known."""
    reads, makes = (
        [shapes.facts(scope, name).shape if name else None for name in names] for names in (node.inputs, node.outputs)
    )
    return node_costs(node.op, reads, makes)
