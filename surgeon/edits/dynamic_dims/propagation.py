"""The walk over a draft in which sizes are free: node by node, what fits no more is made to follow."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
MOST_TURNS = 64  # and four for each node: how often a walk may come back to one


class SizePropagation:
    """One walk.

    fixed_sizes: the old size of each symbol.  reading_choices: which reading a Reshape takes, by what it reads; the
    first where none is named.  choice_points: the Reshapes with more than one, in order, and how many they have.
    unknown_nodes: nodes of which nothing is known, and what they get hangs on what is free.  fixing_nodes: nodes that
    fix what is free where they need not, until something asks for it.  position_readers: nodes whose indices were made
    to tell the places along what is free; position_enumerators: nodes that were given numbers of those places for what
    they are.  reached: how many nodes of the main graph it has passed.
    """

    def __init__(self, index: Index, free: Mapping[str, int], choices: Mapping[Hashable, int]) -> None:
        self.index, self.fixed_sizes, self.reading_choices = index, free, choices
        self.shapes = HypotheticalShapes(index)
        self.view: ShapeInference = self.shapes
        self.choice_points: dict[Hashable, tuple[Node, int]] = {}
        self.unknown_nodes: dict[Node, None] = {}
        self.fixing_nodes: dict[Node, str] = {}
        self.position_readers: set[Node] = set()
        self.position_enumerators: set[Node] = set()
        self.given: dict[tuple[Node, int], PlannedInput] = {}
        self.reached = 0
        self._frozen: Node | None = None  # the call of a function that is looked into
        self._number = 0
        given = [name for name in index.main.inputs if self.is_dynamic(self.shapes.facts(index.main, name).shape or ())]
        self.doubted = self.shapes.doubt((index.main, name) for name in given)

    def is_dynamic(self, sizes: "Sequence[Size | None]") -> bool:
        """Whether any of some sizes hangs on what is free."""
        return any(size is not None and not self.fixed_sizes.keys().isdisjoint(symbols(size)) for size in sizes)

    def fixed_size(self, size: Size) -> Size:
        """A size as it was."""
        return substitute(size, self.fixed_sizes)

    def choose(self, site: NodeView, key: Hashable, count: int) -> int:
        """Which of some readings to take."""
        if count > 1:
            self.choice_points.setdefault(key, (site.node, count))
        return min(self.reading_choices.get(key, 0), count - 1)

    def plan_input(
        self, site: NodeView, position: int, recipe: Recipe, facts: TensorType, value: ValueArray | None = None
    ) -> None:
        """Have the node read something else at a position.

        Raises CannotBeDynamic in a function, which others may call.
        """
        node = site.node
        if self._frozen is not None:
            how = command("rewrite", "IN", "OUT", "--inline", self._frozen.op)
            why = f"calls a function that holds the old size at {node.label!r}"
            raise CannotBeDynamic(self._frozen, why, f"inline it: {how}")
        self._number += 1
        name = f"\0{self._number}"
        self.given[node, position] = PlannedInput(node, position, name, recipe)
        self.shapes.suppose(node, position, name, facts=facts, value=value)

    def plan_size_input(self, site: NodeView, position: int, values: Sequence[Size], scalar: bool = False) -> None:
        """The same of sizes."""
        dtype = site.dtype(position) or INT64
        array = objects(list(values), () if scalar else None)
        facts = TensorType(dtype, tuple(array.shape))
        self.plan_input(site, position, SizeTensor(tuple(values), scalar, dtype), facts=facts, value=array)

    def fixed(self, site: NodeView, position: int) -> bool:
        """Whether what a node reads is fixed in the file, though it may be repeated."""
        name = site.inputs[position]
        given = next((item.recipe for item in self.given.values() if item.name == name), None)
        name = given.tensor if isinstance(given, RepeatedTensor) else name
        return self.shapes.is_constant(site.scope, name)

    def is_constant(self, site: NodeView, position: int) -> bool:
        """Whether what a node reads is fixed in the file, and hangs on nothing that was given."""
        return self.shapes.is_constant(site.scope, site.inputs[position])

    def constant(self, site: NodeView, position: int) -> "np.ndarray[Any, Any] | None":
        """What a node reads, where it is so."""
        name = site.inputs[position]
        return self.shapes.origin.constants.array(site.scope, name) if self.is_constant(site, position) else None

    def plan_repeat(self, site: NodeView, position: int, axis: int, size: Size, cut: bool = False) -> None:
        """Repeat what the node reads at a position along an axis; cut: of what it holds there one is enough."""
        shape = site.shape(position) or ()
        made = (*shape[:axis], size, *shape[axis + 1 :])
        recipe = RepeatedTensor(site.inputs[position], axis, made, cut)
        self.plan_input(site, position, recipe, TensorType(site.dtype(position), made))

    def plan_range(self, site: NodeView, position: int, axis: int, size: Size) -> None:
        """Have it read 0, 1, 2, ... along an axis."""
        shape, dtype = site.shape(position) or (), site.dtype(position) or INT64
        made = (*shape[:axis], size, *shape[axis + 1 :])
        self.plan_input(site, position, IotaTensor(axis, made, dtype), TensorType(dtype, made))

    def node_view(self, node: Node) -> NodeView:
        """A node of the draft, as it is now."""
        return self.view.site(node)

    def run(self, visit: Visit) -> None:
        """Visit all nodes, those of bodies before what holds them.  Raises CannotBeDynamic."""
        nodes, turns = self.index.main.nodes, 0
        while self.reached < len(nodes):
            try:
                self._visit(nodes[self.reached], visit)
                self.reached += 1
            except Revisit as back:
                turns += 1
                if turns > MOST_TURNS + 4 * len(nodes):
                    raise CannotBeDynamic(back.node, "is read in ever other ways") from None
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
        """Whether anything that a node is given hangs on what is free, or that nodes in its bodies are given."""
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
        """Take back what was given to nodes behind one; returns its place in the main graph."""
        slot = slot_of(node)
        for other, position in reversed(list(self.given)):  # they stand in the order of the walk
            if slot_of(other) <= slot:
                break
            del self.given[other, position]
            self.shapes.restore(other)
        self.fixing_nodes = {other: why for other, why in self.fixing_nodes.items() if slot_of(other) < slot}
        return slot


def slot_of(node: Node) -> int:
    """The place of a node in the main graph, or of the one that holds it."""
    scope: Scope = node.scope
    while scope.owner is not None:
        node, scope = scope.owner, scope.owner.scope
    return node.slot
