"""Chooses where to split a model, and lists the tensors that cross each cut."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from onnx import NodeProto, TensorProto

from surgeon.connected_components import reachable
from surgeon.errors import ModelFileError, UsageError
from surgeon.file.tensors.decoding import raw_size
from surgeon.ops.traits.trait_lookup import is_random
from surgeon.ops.traversal import all_nodes, called_function_key, function_key, names_read
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.prune import initializer_names
from surgeon.proof.model.exposed_outputs import required_nodes

WINDOW = 4  # a cut is at most (bytes of a part / WINDOW) from the position with the requested bytes


@dataclass(frozen=True, slots=True)
class PartBoundary:
    """Inputs and outputs of a part, without tensors that follow from stored tensors only."""

    inputs: tuple[str, ...]
    """Tensors that the part reads."""
    outputs: tuple[str, ...]
    """Tensors that the part returns."""


class SplitPlanner:
    """Splits the nodes of a model that depend on its inputs, in order.

    A node that depends only on initializers belongs to every part that reads it; an unused node belongs to none.
    """

    def __init__(self, draft: ModelDraft) -> None:
        self._draft = draft
        graph = draft.graph
        self._outputs = [value.name for value in graph.output]
        live = required_nodes(graph, self._outputs)[0]
        drawing = {function_key(item) for item in draft.skeleton.functions if any(map(is_random, all_nodes(item.node)))}
        self._fixed = initializer_names(graph)
        self._nodes: list[tuple[NodeProto, list[str]]] = []
        self._maker: dict[str, int] = {}
        for place, node in enumerate(graph.node):
            reads = names_read(node)
            draws = any(is_random(inner) or called_function_key(inner) in drawing for inner in all_nodes([node]))
            if self._fixed.issuperset(reads) and not draws:
                self._fixed.update(node.output)
            elif place in live:
                self._maker.update((name, len(self._nodes)) for name in node.output if name)
                self._nodes.append((node, reads))

    def at_tensors(self, tensors: Sequence[str]) -> list[PartBoundary]:
        """The parts between these tensors: nodes that the first one needs, further nodes of the second, and so on.

        Raises UsageError for tensors that are unknown or do not split the model.
        """
        for name in tensors:
            self._draft.require_tensor(name)
            if name not in self._maker:
                raise UsageError(
                    f"{name!r} does not split the model: it is not computed from inputs, or no output needs it. "
                    "Choose another tensor."
                )

        def makers(place: int) -> list[int]:
            return [self._maker[read] for read in self._nodes[place][1] if read in self._maker]

        stages = [len(tensors)] * len(self._nodes)
        for stage, name in reversed(list(enumerate(sorted(tensors, key=self._maker.__getitem__)))):
            for place in reachable([self._maker[name]], makers):
                stages[place] = stage
        lacking = next((stage for stage in range(len(tensors) + 1) if stage not in stages), None)
        if lacking is not None:
            ordered = sorted(tensors, key=self._maker.__getitem__)
            name = ordered[lacking] if lacking < len(ordered) else ordered[-1]
            side = "between it and the tensors before it" if lacking < len(ordered) else "after it"
            raise UsageError(f"{name!r} does not split the model: no node is {side}. Leave it out.")
        return self._ends(stages)

    def into_parts(self, parts: int) -> list[PartBoundary]:
        """Parts with similar bytes of weights, with as few tensors as possible across each cut.

        Raises UsageError if there are fewer nodes than parts.
        """
        count = len(self._nodes)
        if count < 2:
            raise UsageError(f"A model with {count} {'node' if count == 1 else 'nodes'} cannot be split.")
        if not 2 <= parts <= count:
            raise UsageError(f"A model with {count:,} nodes cannot be split into {parts} parts. Give 2 to {count:,}.")
        weights = list(accumulate(self._weights(), initial=0.0))
        crossing = self._crossing()
        cuts, least = [], 1
        for number in range(1, parts):
            wanted, slack = weights[-1] * number / parts, weights[-1] / parts / WINDOW
            first, last = (bisect_left(weights, wanted + side * slack) for side in (-1, 1))
            most = count - (parts - number)
            places = range(min(max(first, least), most), min(max(last, least), most) + 1)
            cuts.append(min(places, key=lambda place: (crossing[place], abs(weights[place] - wanted))))
            least = cuts[-1] + 1
        stages = [stage for stage, (start, end) in enumerate(pairwise([0, *cuts, count])) for _ in range(start, end)]
        return self._ends(stages)

    def _ends(self, stages: Sequence[int]) -> list[PartBoundary]:
        """Inputs and outputs of the parts.  stages: by node, its part."""
        count = max(stages) + 1
        froms: list[dict[str, None]] = [{} for _ in range(count)]
        passed: set[str] = set(self._outputs)
        for stage, (_, reads) in zip(stages, self._nodes, strict=True):
            for name in reads:
                if name not in self._fixed and (name not in self._maker or stages[self._maker[name]] < stage):
                    froms[stage][name] = None
                    passed.add(name)
        tos: list[list[str]] = [[] for _ in range(count)]
        for name, place in self._maker.items():
            if name in passed:
                tos[stages[place]].append(name)
        order = {name: place for place, name in enumerate(self._outputs)}
        tos[-1].sort(key=lambda name: order.get(name, len(order)))
        tos[-1] += [name for name in self._outputs if name in self._fixed]
        return [PartBoundary(tuple(start), tuple(end)) for start, end in zip(froms, tos, strict=True)]

    def _weights(self) -> Iterator[float]:
        """By node, the bytes of the initializers that it is the first to read, plus a small constant."""
        sizes = {tensor.name: _size(tensor) for tensor in self._draft.graph.initializer}
        least = 1 + sum(sizes.values()) / 1e6 / len(self._nodes)
        for _, reads in self._nodes:
            yield least + sum(sizes.pop(name, 0) for name in reads)

    def _crossing(self) -> list[float]:
        """By position between nodes, the number of tensors that cross it; a tensor of unknown dtype counts as many."""
        found = [0.0] * (len(self._nodes) + 1)
        last: dict[str, int] = {}
        for place, (_, reads) in enumerate(self._nodes):
            last.update((name, place) for name in reads if name in self._maker)
        index, shapes = self._draft.index, self._draft.shapes
        for name, place in last.items():
            cost = 1.0 if shapes.dtype(index.main, name) is not None else len(found)
            found[self._maker[name] + 1] += cost
            found[place + 1] -= cost
        return list(accumulate(found))


def _size(tensor: TensorProto) -> int:
    try:
        return raw_size(tensor)
    except ModelFileError:  # a tensor of strings
        return 0
