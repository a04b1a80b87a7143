"""How much one run of a whole model computes, counted from the shapes of what its nodes make.

What is worth running once more hangs on this count and on no clock: a model sees the same inputs on any machine.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto

from surgeon.errors import GraphError
from surgeon.file.model import Model
from surgeon.indexing.index import Index
from surgeon.indexing.origin import Origin
from surgeon.indexing.scope import Node, Scope, qualified, split_op
from surgeon.ops.schemas import schema
from surgeon.shaping.shapes import Shapes
from surgeon.shaping.symbols import Size, SizeError, evaluate, symbol, symbols

ELEMENT = 16  # multiplications of a product that take as long as one element that is made otherwise
INTERPRETED = 1 << 10  # the same for an element of an operator without a kernel, which Python computes
_DEEPEST = 8  # functions that call functions
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
Extent = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class _Load:
    """What one node computes: for each element of a tensor so many others, and how much each of these counts."""

    each: Extent
    others: Extent = ()
    counts: int = 1

    def at(self, sizes: Mapping[str, int]) -> int:
        """The count at these sizes; 0 where one has no value."""
        try:
            return self.counts * math.prod(evaluate(size, sizes) for size in (*self.each, *self.others))
        except SizeError:
            return 0


class Workload:
    """What a model computes in one run, in multiplications of products.

    Bodies count as run once, tensors of unknown shape not at all.  Raises ModelFileError where it cannot be read.
    """

    def __init__(self, model: Path | ModelProto) -> None:
        with Model.open(model) as opened:
            try:
                index = Index(opened)
            except GraphError:  # ONNX Runtime refuses what makes a tensor twice: nothing is run
                self._inputs: dict[str, Extent] = {}
                self._loads: list[_Load] = []
                return
            shapes, main = Shapes(Origin(index)), index.main
            known = {name: shapes.facts(main, name).shape for name in main.inputs}
            self._inputs = {name: shape for name, shape in known.items() if shape is not None}
            functions = {
                qualified(scope.proto.domain, scope.proto.name): scope
                for scope in index.functions
                if isinstance(scope.proto, onnx.FunctionProto)
            }
            own = [scope for scope in index.scopes if scope.function is None]
            self._loads = [load for scope in own for load in _loads(shapes, scope, functions, _DEEPEST)]

    def of(self, feeds: Mapping[str, np.ndarray]) -> int:
        """What a run on these inputs computes."""
        sizes: dict[str, int] = {}
        for name, shape in self._inputs.items():
            for size, number in zip(shape, feeds[name].shape if name in feeds else (), strict=False):
                sizes.update((free, number) for free in symbols(size) if size == symbol(free))
        return sum(load.at(sizes) for load in self._loads)


def _loads(shapes: Shapes, scope: Scope, functions: Mapping[str, Scope], depth: int) -> Iterator[_Load]:
    """What each node of a scope computes; a call of a function what its nodes do."""
    for node in scope.nodes:
        called = functions.get(node.op)
        inside = shapes.inside(node) if called is not None and depth else None
        if inside is not None and called is not None:
            yield from _loads(inside, called, functions, depth - 1)
        else:
            yield from _of_node(shapes, scope, node)


def _of_node(shapes: Shapes, scope: Scope, node: Node) -> Iterator[_Load]:
    """What one node computes, where the shapes are known."""
    reads = [shapes.facts(scope, name).shape if name else None for name in node.inputs]
    made = next(
        (shape for name in node.outputs if name and (shape := shapes.facts(scope, name).shape) is not None), None
    )
    domain, op = split_op(node.op)
    if made is None:
        return
    if schema(domain, op, None) is None:
        yield _Load(made, counts=INTERPRETED)
        return
    yield _Load(made, counts=ELEMENT)
    first, second = (*reads, None, None)[:2]
    if first is None or second is None:
        return
    if "MatMul" in op or op == "Gemm":
        yield _Load(made, first[-1:])
    elif "ConvTranspose" in op:
        yield _Load(first, second[1:])
    elif "Conv" in op:
        yield _Load(made, second[1:])
    elif "Attention" in op:
        yield _Load(first, second[-2:-1], counts=2)
    elif op in _RECURRENT:
        yield from (_Load(first[:-1], weight) for weight in reads[1:3] if weight is not None)
