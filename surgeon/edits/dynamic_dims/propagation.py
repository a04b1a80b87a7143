"""Propagates dynamic sizes node by node; goes back when an earlier node has to change."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from surgeon.edits.dynamic_dims.planned_inputs import (
    CannotBeDynamic,
    IotaTensor,
    PlannedInput,
    Recipe,
    RepeatedTensor,
    Revisit,
    SizeTensor,
)
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.printed_commands import command
from surgeon.shapes.algebra.size_expressions import Expr, Size, substitute, symbols
from surgeon.shapes.hypothetical_shapes import HypotheticalShapes
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import INT64, NodeView, TensorType, ValueArray, objects

Visit: TypeAlias = "Callable[[SizePropagation, NodeView], None]"
MAX_RETURNS = 64  # most times to go back, plus four per node


@dataclass(slots=True)
class NodeNotes:
    """Findings of a propagation at nodes."""

    choice_points: dict[Hashable, tuple[Node, int]] = field(default_factory=dict)
    """By inputs of an ambiguous node, in order: the node, and its number of readings."""
    unknown_nodes: dict[Node, None] = field(default_factory=dict)
    """Nodes with dynamic inputs and unknown output shapes."""
    fixing_nodes: dict[Node, str] = field(default_factory=dict)
    """Nodes that fix a dynamic size until a later node makes them follow, with the reason."""
    position_readers: set[Node] = field(default_factory=set)
    """Nodes whose indices were made to enumerate positions along a dynamic dim."""
    position_enumerators: set[Node] = field(default_factory=set)
    """Nodes that use planned position numbers as values."""


class SizePropagation:
    """One propagation of dynamic sizes through a graph.

    Attributes:
        fixed_sizes: The old size of each dynamic dim.
        reading_choices: By inputs of an ambiguous node, the reading to take; the first one by default.
        shapes: Shapes of the graph with the planned inputs.
        view: The same shapes, or those inside the call of a local function.
        notes: Findings at nodes.
        given: Planned inputs, by node and position, in order.
        reached: Number of finished nodes of the main graph.
        doubted: Tensors whose declared shape may be of the old size.
    """

    def __init__(self, index: Index, free: Mapping[str, int], choices: Mapping[Hashable, int]) -> None:
        self.index, self.fixed_sizes, self.reading_choices = index, free, choices
        self.shapes = HypotheticalShapes(index)
        self.view: ShapeInference = self.shapes
        self.notes = NodeNotes()
        self.given: dict[tuple[Node, int], PlannedInput] = {}
        self.reached = 0
        self._frozen: Node | None = None  # call of the local function that is being visited
        self._number = 0
        given = [name for name in index.main.inputs if self.is_dynamic(self.shapes.facts(index.main, name).shape or ())]
        self.doubted = self.shapes.doubt((index.main, name) for name in given)

    def is_dynamic(self, sizes: "Sequence[Size | None]") -> bool:
        """Whether any of the sizes depends on a dynamic dim."""
        return any(size is not None and not self.fixed_sizes.keys().isdisjoint(symbols(size)) for size in sizes)

    def fixed_size(self, size: Size) -> Size:
        """The old value of a size."""
        return substitute(size, self.fixed_sizes)

    def choose(self, site: NodeView, key: Hashable, count: int) -> int:
        """Index of the reading to take, of `count`.  key: identifies the node by its inputs."""
        if count > 1:
            self.notes.choice_points.setdefault(key, (site.node, count))
        return min(self.reading_choices.get(key, 0), count - 1)

    def plan_input(
        self, site: NodeView, position: int, recipe: Recipe, facts: TensorType, value: ValueArray | None = None
    ) -> None:
        """Plan another input of a node.  Raises CannotBeDynamic in a local function, which may have other calls."""
        node = site.node
        if self._frozen is not None:
            how = command("rewrite", "IN", "OUT", "--inline", self._frozen.op)
            why = f"calls a function that contains the old size at {node.label!r}"
            raise CannotBeDynamic(self._frozen, why, f"Inline it: {how}")
        self._number += 1
        name = f"\0{self._number}"
        self.given[node, position] = PlannedInput(node, position, name, recipe)
        self.shapes.suppose(node, position, name, facts=facts, value=value)

    def plan_size_input(self, site: NodeView, position: int, values: Sequence[Size], scalar: bool = False) -> None:
        """Plan an input of sizes."""
        dtype = site.dtype(position) or INT64
        array = objects(list(values), () if scalar else None)
        facts = TensorType(dtype, tuple(array.shape))
        self.plan_input(site, position, SizeTensor(tuple(values), scalar, dtype), facts=facts, value=array)

    def fixed(self, site: NodeView, position: int) -> bool:
        """Whether an input is constant in the file, or a repetition of a constant."""
        name = site.inputs[position]
        given = next((item.recipe for item in self.given.values() if item.name == name), None)
        name = given.tensor if isinstance(given, RepeatedTensor) else name
        return self.shapes.is_constant(site.scope, name)

    def is_constant(self, site: NodeView, position: int) -> bool:
        """Whether an input is constant in the file and not planned."""
        return self.shapes.is_constant(site.scope, site.inputs[position])

    def constant(self, site: NodeView, position: int) -> "np.ndarray[Any, Any] | None":
        """The array of a constant input; None for any other."""
        name = site.inputs[position]
        return self.shapes.origin.constants.array(site.scope, name) if self.is_constant(site, position) else None

    def plan_repeat(self, site: NodeView, position: int, axis: int, size: Size, cut: bool = False) -> None:
        """Plan to repeat an input along an axis.  cut: repeat only its first element there."""
        shape = site.shape(position) or ()
        made = (*shape[:axis], size, *shape[axis + 1 :])
        recipe = RepeatedTensor(site.inputs[position], axis, made, cut)
        self.plan_input(site, position, recipe, TensorType(site.dtype(position), made))

    def plan_range(self, site: NodeView, position: int, axis: int, size: Size) -> None:
        """Plan an input 0, 1, 2, ... along an axis."""
        shape, dtype = site.shape(position) or (), site.dtype(position) or INT64
        made = (*shape[:axis], size, *shape[axis + 1 :])
        self.plan_input(site, position, IotaTensor(axis, made, dtype), TensorType(dtype, made))

    def node_view(self, node: Node) -> NodeView:
        """A node with its current inputs and shapes."""
        return self.view.site(node)

    def run(self, visit: Visit) -> None:
        """Visit all nodes, those of a body before its owner.  Raises CannotBeDynamic."""
        nodes, returns = self.index.main.nodes, 0
        while self.reached < len(nodes):
            try:
                self._visit(nodes[self.reached], visit)
                self.reached += 1
            except Revisit as back:
                returns += 1
                if returns > MAX_RETURNS + 4 * len(nodes):
                    raise CannotBeDynamic(back.node, "has too many interpretations") from None
                self.reached = self._rewind(back.node)

    def _visit(self, node: Node, visit: Visit) -> None:
        for body in self.shapes.bodies(node):
            for inner in body.nodes:
                self._visit(inner, visit)
        site = self.node_view(node)
        if self.reads_dynamic(site):
            inside, function = self.view.for_call(node), self.shapes.function(node)
            if inside is None or function is None:
                visit(self, site)
                return
            with self._within(node, inside):
                for inner in function.nodes:
                    self._visit(inner, visit)

    def reads_dynamic(self, site: NodeView) -> bool:
        """Whether an input of a node, or of a node in its bodies, depends on a dynamic dim."""
        for place in filter(site.has, range(len(site.inputs))):
            value = site.value(place)
            numbers = () if value is None else [item for item in value.flat if isinstance(item, Expr)]
            if self.is_dynamic(site.shape(place) or ()) or self.is_dynamic(numbers):
                return True
        inner = (node for body in self.shapes.bodies(site.node) for node in body.nodes)
        return any(self.reads_dynamic(self.node_view(node)) for node in inner)

    @contextmanager
    def _within(self, call: Node, inside: ShapeInference) -> Iterator[None]:
        before = self.view, self._frozen
        self.view, self._frozen = inside, self._frozen or call
        try:
            yield
        finally:
            self.view, self._frozen = before

    def _rewind(self, node: Node) -> int:
        """Undo planned inputs of all later nodes; returns the index of the node in the main graph."""
        slot = slot_of(node)
        for other, position in reversed(list(self.given)):  # latest first
            if slot_of(other) <= slot:
                break
            del self.given[other, position]
            self.shapes.restore(other)
        self.notes.fixing_nodes = {
            other: why for other, why in self.notes.fixing_nodes.items() if slot_of(other) < slot
        }
        return slot


def slot_of(node: Node) -> int:
    """Index in the main graph of a node, or of the node whose body contains it."""
    scope: Scope = node.scope
    while scope.owner is not None:
        node, scope = scope.owner, scope.owner.scope
    return node.slot
