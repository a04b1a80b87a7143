"""Freeing sizes of a draft's inputs: which reading of the graph fits, and the draft written so."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from surgeon.editing.draft import ModelDraft
from surgeon.errors import GraphError
from surgeon.freeing.checks import check
from surgeon.freeing.mixing import mixed
from surgeon.freeing.plan import Stuck
from surgeon.freeing.walk import Walk
from surgeon.freeing.writing import write
from surgeon.indexing.index import Index
from surgeon.shapes.supposed import Place
from surgeon.shapes.symbols import symbol

MOST_WALKS, MOST_BETTER = 32, 8  # until one is through, and beyond it to find one that mixes less


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a draft was freed.

    nodes: how many were made to follow.  answers: of each output that follows, the axes that do so alone, with the
    symbols that are their sizes.  mixed: outputs whose elements hang on more than one place along what is free.
    """

    nodes: int
    answers: Mapping[str, Mapping[str, Sequence[int]]]
    mixed: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Read:
    """A walk that is through, and what it mixes."""

    walk: Walk
    mixed: set[Place]

    @property
    def answers(self) -> frozenset[str]:
        """The outputs that it mixes."""
        main = self.walk.index.main
        return frozenset(value.name for value in main.proto.output if (main, value.name) in self.mixed)


def free_sizes(draft: ModelDraft, free: Mapping[str, int]) -> Outcome:
    """Make all that held the old sizes of a draft follow the symbols that its inputs have in their place.

    free: the old size of each symbol.  Raises GraphError naming the node where that cannot be told.
    """
    index = draft.index
    if index.main.is_unsorted:
        raise GraphError("The nodes of the model stand in no order; sort them first.")
    found = _search(index, free)
    walk = found.walk
    answers: dict[str, dict[str, list[int]]] = {}
    for value in draft.graph.output:
        for axis, size in enumerate(walk.shapes.facts(index.main, value.name).shape or ()):
            for name in free:
                if size == symbol(name):
                    answers.setdefault(value.name, {}).setdefault(name, []).append(axis)
    sources = {}
    for value in draft.inputs:
        for axis, size in enumerate(walk.shapes.facts(index.main, value.name).shape or ()):
            if not isinstance(size, int) and size == symbol(str(size)):
                sources.setdefault(str(size), (value.name, axis))
    _state(draft, walk)
    nodes = write(draft, walk, sources)
    draft.changed()
    return Outcome(nodes, answers, found.answers)


def _search(index: Index, free: Mapping[str, int]) -> _Read:
    """The reading that mixes least, of those that fit; the likelier ones first."""
    waiting: list[Mapping[Hashable, int]] = [{}]
    seen: list[Mapping[Hashable, int]] = []
    stuck: Stuck | None = None
    best: _Read | None = None
    others: list[_Read] = []
    while waiting and len(seen) < (MOST_BETTER if best else MOST_WALKS):
        choices = waiting.pop(0)
        if choices in seen:
            continue
        seen.append(choices)
        walk = Walk(index, free, choices)
        try:
            walk.run(check)
            if walk.losing:
                node, why = next(iter(walk.losing.items()))
                raise Stuck(node, f"{why}; whether that follows is not told")
        except Stuck as refusal:
            stuck = stuck or refusal
        else:
            read = _Read(walk, mixed(walk))
            if not read.answers:
                return read
            others.append(read)
            best = min(others, key=lambda item: (len(item.answers), len(item.mixed)))
        turned = [(key, place) for key, (_, count) in reversed(walk.trail.items()) for place in range(1, count)]
        waiting += [{**choices, key: place} for key, place in turned if key not in choices]
    if best is None:
        raise _refusal(stuck, free)
    outputs = {value.name for value in index.main.proto.output}
    if best.answers >= outputs:  # nothing of it can be held against the original
        _require_one(best, others, free)
    return best


def _require_one(best: _Read, others: Sequence[_Read], free: Mapping[str, int]) -> None:
    """Raise GraphError where a graph can be read in two ways, or not be read, and nothing tells which is right."""
    if best.walk.unsure:
        node = next(iter(best.walk.unsure))
        raise _refusal(Stuck(node, "makes something of which nothing can be told"), free)
    for other in others:
        same = {(x.node, x.position): x.recipe for x in other.walk.given.values()}
        if same != {(x.node, x.position): x.recipe for x in best.walk.given.values()}:
            node = next(node for node, _ in best.walk.trail.values())
            raise _refusal(Stuck(node, "can be read in two ways that differ"), free)


def _refusal(stuck: Stuck | None, free: Mapping[str, int]) -> GraphError:
    names = " and ".join(map(repr, free))
    if stuck is None:
        return GraphError(f"There are too many ways to read the graph with {names} free; free fewer sizes at once.")
    node = stuck.node
    return GraphError(f"With {names} free, {node.op} at {node.label!r} {stuck.why}; export the model with that size free.")


def _state(draft: ModelDraft, walk: Walk) -> None:
    """State the shapes anew that hang on what is free, of outputs and of what value_info tells."""
    doubted = {name for scope, name in walk.doubted if scope is walk.index.main}
    for value in (*draft.graph.output, *draft.graph.value_info):
        shape = walk.shapes.facts(walk.index.main, value.name).shape
        if not value.type.HasField("tensor_type") or (value.name not in doubted and not walk.hangs(shape or ())):
            continue
        stated = value.type.tensor_type
        stated.ClearField("shape")
        for size in shape or ():
            dim = stated.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            elif "?" not in str(size):
                dim.dim_param = str(size)
