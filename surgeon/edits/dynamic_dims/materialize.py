"""Writes planned inputs into the model: constants, and nodes that compute sizes at run time."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from surgeon.edits.dynamic_dims.planned_inputs import IndexTuples, IotaTensor, PlannedInput, SizeTensor
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.errors import GraphError
from surgeon.ops.traversal import nested_graphs, nodes_of, unique_name
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.prune import filter_repeated
from surgeon.shapes.algebra.polynomials import SizeFunction
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.tensor_types import INT64, Shape

LIMITS_SINCE = 12  # first opset at which Max and Min accept integers
PARTS_SINCE = 15  # first opset at which Shape has start and end


class SizeWriter:
    """Computes sizes as tensors of one integer: each once, before all other nodes of the main graph."""

    def __init__(self, draft: ModelDraft, opset: int, sources: Mapping[str, tuple[str, int]]) -> None:
        """sources: for each symbol, an input and its axis."""
        self.draft, self.opset, self.sources = draft, opset, sources
        self.nodes: list[NodeProto] = []
        self._taken = draft.taken() | {node.name for node in nodes_of(draft.skeleton)}
        self._sizes: dict[Size, str] = {}
        self._symbols: dict[str, str] = {}
        self._joined: dict[tuple[str, ...], str] = {}
        self._stored: dict[tuple[bytes, str, tuple[int, ...]], str] = {}

    def fresh(self, name: str) -> str:
        """An unused name."""
        found = unique_name(name, self._taken)
        self._taken.add(found)
        return found

    def stored(self, array: np.ndarray, name: str) -> str:
        """Name of an initializer of an array; equal arrays share one."""
        key = array.tobytes(), str(array.dtype), array.shape
        if key not in self._stored:
            self._stored[key] = self.fresh(name)
            self.draft.store(numpy_helper.from_array(array, self._stored[key]))
        return self._stored[key]

    def numbers(self, values: Sequence[int]) -> str:
        """Name of an initializer of integers, which its name lists."""
        listed = [int(value) for value in values]
        return self.stored(np.asarray(listed, np.int64), "_".join(["sizes", *map(str, listed)]))

    def make(self, op: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Add a node before all others; returns its output."""
        made = node_of(op, inputs, self.fresh(name), **attributes)
        self.nodes.append(made)
        output: str = made.output[0]
        return output

    def size(self, size: Size) -> str:
        """Name of a tensor [1] of a size."""
        if size not in self._sizes:
            self._sizes[size] = self._size(size)
        return self._sizes[size]

    def vector(self, values: Sequence[Size]) -> str:
        """Name of a tensor of sizes; neighbouring numbers share one initializer."""
        parts: list[list[Size]] = []
        for value in values:
            if parts and isinstance(value, int) and isinstance(parts[-1][-1], int):
                parts[-1].append(value)
            else:
                parts.append([value])
        names = [
            self.numbers([int(str(x)) for x in part]) if _are_integers(part) else self.size(part[0]) for part in parts
        ]
        if len(names) > 1 and tuple(names) not in self._joined:
            self._joined[tuple(names)] = self.make("Concat", names, "shape", axis=0)
        return self._joined[tuple(names)] if len(names) > 1 else names[0]

    def count(self, axis: int, shape: Shape, size: Size | None = None) -> str:
        """Name of a tensor 0, 1, 2, ... along an axis of a shape, of size 1 along the others."""
        zero, one = (self.stored(np.asarray(number, np.int64), f"number_{number}") for number in (0, 1))
        limit = self.make("Squeeze", [self.size(shape[axis] if size is None else size)], "count")
        found = self.make("Range", [zero, limit, one], "places")
        if len(shape) == 1:
            return found
        target = [-1 if at == axis else 1 for at in range(len(shape))]
        return self.make("Reshape", [found, self.numbers(target)], "places")

    def _size(self, size: Size) -> str:
        if isinstance(size, int):
            return self.numbers([size])
        terms = []
        for monomial, coefficient in size.terms:
            atoms = [atom for atom, power in monomial for _ in range(power)]
            names = [self._symbol(atom) if isinstance(atom, str) else self._call(atom) for atom in atoms]
            if coefficient != 1 or not names:
                names.append(self.numbers([coefficient]))
            terms.append(reduce(self._multiply, names))
        return reduce(self._add, terms)

    def _add(self, one: str, other: str) -> str:
        return self.make("Add", [one, other], "size")

    def _multiply(self, one: str, other: str) -> str:
        return self.make("Mul", [one, other], "size")

    def _divide(self, one: str, other: str) -> str:
        """Rounds towards zero, which is down because sizes are not negative."""
        return self.make("Div", [one, other], "size")

    def _larger(self, one: str, other: str) -> str:
        return self.make("Max", [one, other], "size")

    def _smaller(self, one: str, other: str) -> str:
        return self.make("Min", [one, other], "size")

    def _call(self, call: SizeFunction) -> str:
        names = [self.size(item) for item in call.args]
        if call.kind == "floor":
            return reduce(self._divide, names)
        if self.opset < LIMITS_SINCE:
            raise GraphError(f"{call} needs opset {LIMITS_SINCE}. Raise the opset first.")
        return reduce(self._larger if call.kind == "max" else self._smaller, names)

    def _symbol(self, name: str) -> str:
        if name not in self._symbols:
            self._symbols[name] = self._read_from_input(name)
        return self._symbols[name]

    def _read_from_input(self, name: str) -> str:
        if name not in self.sources:
            raise GraphError(f"The dynamic size meets a size that depends on data ({name}). Choose another dimension.")
        source, axis = self.sources[name]
        if self.opset >= PARTS_SINCE:
            return self.make("Shape", [source], name, start=axis, end=axis + 1)
        whole = self.make("Shape", [source], f"{source}_shape")
        return self.make("Gather", [whole, self.numbers([axis])], name, axis=0)


def node_of(op: str, inputs: Sequence[str], name: str, **attributes: Any) -> NodeProto:
    """A node with the name of its output."""
    return helper.make_node(op, list(inputs), [name], name=name, **attributes)


def materialize(draft: ModelDraft, walk: SizePropagation, sources: Mapping[str, tuple[str, int]]) -> int:
    """Write all planned inputs of a propagation; returns the number of changed nodes."""
    writer = SizeWriter(draft, walk.index.main.opset or 1, sources)
    before: dict[int, dict[int, list[NodeProto]]] = defaultdict(lambda: defaultdict(list))
    graphs = {}
    names: dict[str, str] = {}
    replaced: set[str] = set()
    for given in walk.given.values():
        scope = given.node.scope
        graphs[id(scope.proto)] = scope.proto
        front = before[id(scope.proto)][given.node.source_slot]
        name = _written(writer, walk, given, names=names, front=front)
        names[given.name] = name
        inputs = given.node.proto.input
        inputs.extend([""] * (given.position + 1 - len(inputs)))
        replaced.add(inputs[given.position])
        inputs[given.position] = name
    graphs[id(walk.index.main.proto)] = walk.index.main.proto
    before[id(walk.index.main.proto)][0] = [*writer.nodes, *before[id(walk.index.main.proto)][0]]
    for key, proto in graphs.items():
        rows = [row for place, node in enumerate(proto.node) for row in (*before[key][place], node)]
        if len(rows) > len(proto.node):
            del proto.node[:]
            proto.node.extend(rows)
    _drop_unread(draft, replaced)
    return len({given.node for given in walk.given.values()})


def _written(
    writer: SizeWriter, walk: SizePropagation, given: PlannedInput, names: Mapping[str, str], front: list[NodeProto]
) -> str:
    """The tensor of one recipe; nodes that have to be near its consumer are added to `front`."""
    recipe = given.recipe
    if isinstance(recipe, SizeTensor):
        return _numbers(writer, recipe)

    def node(op: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        made = node_of(op, inputs, writer.fresh(name), **attributes)
        front.append(made)
        return str(made.output[0])

    if isinstance(recipe, IotaTensor):
        found = writer.count(recipe.axis, recipe.shape)
        return found if recipe.dtype == INT64 else writer.make("Cast", [found], "places", to=recipe.dtype)
    if isinstance(recipe, IndexTuples):
        tuples = walk.shapes.origin.constants.array(given.node.scope, recipe.tensor)
        assert tuples is not None  # only constant tuples are planned
        return _tuples(writer, recipe, tuples)
    source = names.get(recipe.tensor, recipe.tensor)
    if recipe.from_one_element:
        source = node("Gather", [source, writer.numbers([0])], f"{source}_one", axis=recipe.axis)
    rank = len(recipe.shape)
    target = [recipe.shape[axis] if axis == recipe.axis else 1 for axis in range(rank)]
    return node("Expand", [source, writer.vector(target)], f"{source}_repeated")


def _tuples(writer: SizeWriter, recipe: IndexTuples, tuples: np.ndarray) -> str:
    """Index tuples with one element that counts; the others are unchanged.  tuples: those of the old size."""
    lead = recipe.shape[:-1]
    counted = writer.count(recipe.axis, (*(1 for _ in lead), 1), size=recipe.shape[recipe.axis])
    parts = []
    for element in range(tuples.shape[-1]):
        source = counted
        if element != recipe.element:
            source = writer.stored(tuples.take([0], recipe.axis).take([element], -1), "places")
        parts.append(writer.make("Expand", [source, writer.vector([*lead, 1])], "places"))
    return writer.make("Concat", parts, "places", axis=len(lead))


def _numbers(writer: SizeWriter, recipe: SizeTensor) -> str:
    if recipe.scalar:
        name = writer.make("Squeeze", [writer.size(recipe.values[0])], "count")
    elif _are_integers(recipe.values) and recipe.dtype != INT64:
        dtype = helper.tensor_dtype_to_np_dtype(recipe.dtype)
        return writer.stored(np.asarray([int(str(value)) for value in recipe.values], dtype), "sizes")
    else:
        name = writer.vector(recipe.values)
    return name if recipe.dtype == INT64 else writer.make("Cast", [name], name, to=recipe.dtype)


def _are_integers(values: Sequence[Size]) -> bool:
    return all(isinstance(value, int) for value in values)


def _drop_unread(draft: ModelDraft, names: set[str]) -> None:
    """Remove initializers and Constants of these names that have no consumer left."""
    read = {name for node in nodes_of(draft.skeleton) for name in node.input}
    read |= {value.name for graph in nested_graphs(draft.graph) for value in (*graph.output, *graph.input)}
    gone = names - read
    filter_repeated(draft.graph.initializer, lambda _, tensor: tensor.name not in gone)
    filter_repeated(draft.graph.node, lambda _, node: not (node.op_type == "Constant" and node.output[0] in gone))
    filter_repeated(draft.graph.value_info, lambda _, value: value.name not in gone)
