"""Makes a dim dynamic: tries the possible readings of ambiguous Reshapes, the likelier ones first."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count, islice

from surgeon.edits.dynamic_dims.batch_mixing import batch_mixing_tensors
from surgeon.edits.dynamic_dims.op_constraints import UNCLEAR, check
from surgeon.edits.dynamic_dims.planned_inputs import CannotBeDynamic
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.errors import GraphError
from surgeon.ir.index import Index
from surgeon.shapes.hypothetical_shapes import Place

MAX_WALKS, MAX_FURTHER_WALKS = 48, 8  # in all, and in all after one fits, unless the old size is 1
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
        """Tensors that may depend on several samples at once, judged by operators."""
        return batch_mixing_tensors(self.walk)

    @cached_property
    def mixed_outputs(self) -> frozenset[str]:
        """Outputs among them."""
        main = self.walk.index.main
        return frozenset(value.name for value in main.proto.output if (main, value.name) in self.mixed)

    def follows(self, output: str) -> bool:
        """Whether exactly one axis of an output is dynamic."""
        shape = self.walk.shapes.shape(self.walk.index.main, output) or ()
        return sum(self.walk.is_dynamic([size]) for size in shape) == 1

    @property
    def has_others(self) -> bool:
        """Whether a node has another reading."""
        return bool(self.walk.notes.choice_points)

    @property
    def recipes(self) -> object:
        """All planned changes, for comparison with another interpretation."""
        return {(item.node, item.position): item.recipe for item in self.walk.given.values()}


class Interpretations:
    """Iterates over the interpretations of a graph that fit.

    Choices of the propagation that got furthest are tried first, and of these the last one first.

    Attributes:
        stuck: The node at which the propagation that got furthest failed; None if none failed.
    """

    def __init__(self, index: Index, free: Mapping[str, int]) -> None:
        self.index, self.free = index, free
        self.stuck: CannotBeDynamic | None = None
        self._furthest = -1

    def __iter__(self) -> Iterator[Interpretation]:
        waiting: list[tuple[int, int, Choices]] = [(0, 0, {})]
        seen: list[Choices] = []
        order, left = count(1), MAX_WALKS
        further = MAX_WALKS if 1 in self.free.values() else MAX_FURTHER_WALKS
        while waiting and left > 0:
            _, _, choices = heappop(waiting)
            if choices in seen:
                continue
            seen.append(choices)
            left -= 1
            walk = SizePropagation(self.index, self.free, choices)
            if self._finishes(walk):
                yield Interpretation(walk, choices)
                left = min(left, further - len(seen))
            for key, (_, ways) in reversed(walk.notes.choice_points.items()):
                for way in range(1, ways) if key not in choices else ():
                    heappush(waiting, (-walk.reached, next(order), {**choices, key: way}))

    def first(self) -> list[Interpretation]:
        """The likeliest interpretation, as a list of one; empty if none fits."""
        return list(islice(self, 1))

    def _finishes(self, walk: SizePropagation) -> bool:
        """Run a propagation; returns whether it finishes."""
        try:
            walk.run(check)
            if walk.notes.fixing_nodes:
                node, why = next(iter(walk.notes.fixing_nodes.items()))
                raise CannotBeDynamic(node, f"{why}, {UNCLEAR}")
        except CannotBeDynamic as stuck:
            if walk.reached > self._furthest:
                self.stuck, self._furthest = stuck, walk.reached
            return False
        return True

    def refusal(self, otherwise: CannotBeDynamic | None = None) -> GraphError:
        """The error if no interpretation is right: it has the node at which the best one failed."""
        names, stuck = " and ".join(map(repr, self.free)), otherwise or self.stuck
        if stuck is None:
            return GraphError(f"The graph has too many interpretations with {names} dynamic. Choose fewer dimensions.")
        node = stuck.node
        return GraphError(f"{names} cannot be dynamic: {node.op} at {node.label!r} {stuck.why}. {stuck.how}")
