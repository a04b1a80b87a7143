"""All interpretations of a graph in which a size is dynamic, the likelier ones first."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count, islice

from surgeon.edits.dynamic_dims.batch_mixing import batch_mixing_tensors
from surgeon.edits.dynamic_dims.op_constraints import check
from surgeon.edits.dynamic_dims.planned_inputs import CannotBeDynamic
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.errors import GraphError
from surgeon.ir.index import Index
from surgeon.shapes.hypothetical_shapes import Place

MOST_WALKS, MOST_FURTHER = 48, 8  # in all, and in all once one fits where the old size is not 1
Choices = Mapping[Hashable, int]


@dataclass(frozen=True)
class Interpretation:
    """A finished propagation, in which each node fits its inputs."""

    walk: SizePropagation
    """The propagation."""
    choices: Choices
    """Chosen reading of each ambiguous Reshape."""

    @cached_property
    def mixed(self) -> set[Place]:
        """The tensors that may depend on several samples at once, as far as the operators say."""
        return batch_mixing_tensors(self.walk)

    @cached_property
    def mixed_outputs(self) -> frozenset[str]:
        """The outputs among them."""
        main = self.walk.index.main
        return frozenset(value.name for value in main.proto.output if (main, value.name) in self.mixed)

    def follows(self, output: str) -> bool:
        """Whether an output has samples along one of its axes, and is no matrix of them."""
        shape = self.walk.shapes.shape(self.walk.index.main, output) or ()
        return sum(self.walk.is_dynamic([size]) for size in shape) == 1

    @property
    def has_others(self) -> bool:
        """Whether a node of it can be read in another way."""
        return bool(self.walk.choice_points)

    @property
    def recipes(self) -> object:
        """Everything that it changes, to compare it with another."""
        return {(item.node, item.position): item.recipe for item in self.walk.given.values()}


class Interpretations:
    """The interpretations of a graph that fit; iterate over it.

    Choices are tried first where the walk got furthest before it failed, and there the last one first.

    Attributes:
        stuck: where the interpretation that got furthest failed; None where none failed.
    """

    def __init__(self, index: Index, free: Mapping[str, int]) -> None:
        self.index, self.free = index, free
        self.stuck: CannotBeDynamic | None = None
        self._furthest = -1

    def __iter__(self) -> Iterator[Interpretation]:
        waiting: list[tuple[int, int, Choices]] = [(0, 0, {})]
        seen: list[Choices] = []
        order, left = count(1), MOST_WALKS
        further = MOST_WALKS if 1 in self.free.values() else MOST_FURTHER
        while waiting and left > 0:
            _, _, choices = heappop(waiting)
            if choices in seen:
                continue
            seen.append(choices)
            left -= 1
            walk = SizePropagation(self.index, self.free, choices)
            if self._is_through(walk):
                yield Interpretation(walk, choices)
                left = min(left, further - len(seen))
            for key, (_, ways) in reversed(walk.choice_points.items()):
                for way in range(1, ways) if key not in choices else ():
                    heappush(waiting, (-walk.reached, next(order), {**choices, key: way}))

    def first(self) -> list[Interpretation]:
        """The likeliest interpretation, as a list of one; none where none fits."""
        return list(islice(self, 1))

    def _is_through(self, walk: SizePropagation) -> bool:
        """Walk through the graph; returns whether that is possible."""
        try:
            walk.run(check)
            if walk.fixing_nodes:
                node, why = next(iter(walk.fixing_nodes.items()))
                raise CannotBeDynamic(node, f"{why}; whether that follows is not told")
        except CannotBeDynamic as stuck:
            if walk.reached > self._furthest:
                self.stuck, self._furthest = stuck, walk.reached
            return False
        return True

    def refusal(self, otherwise: CannotBeDynamic | None = None) -> GraphError:
        """Why no interpretation is taken: where the one that got furthest failed."""
        names, stuck = " and ".join(map(repr, self.free)), otherwise or self.stuck
        if stuck is None:
            return GraphError(f"There are too many ways to read the graph with {names} free; free fewer sizes at once.")
        node = stuck.node
        return GraphError(f"With {names} free, {node.op} at {node.label!r} {stuck.why}; {stuck.how}")
