"""Freeing sizes of a draft's inputs: which reading of the graph fits, and the draft written so."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from surgeon.editing.dims import state
from surgeon.editing.draft import ModelDraft
from surgeon.editing.freed import Freed
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
class _Read:
    """A walk that is through, and what it mixes."""

    walk: Walk
    mixed: set[Place]

    @property
    def answers(self) -> frozenset[str]:
        """The outputs that it mixes."""
        main = self.walk.index.main
        return frozenset(value.name for value in main.proto.output if (main, value.name) in self.mixed)


def free_size(draft: ModelDraft, name: str, old: int, feeds: Mapping[str, int]) -> tuple[int, Freed]:
    """Make all that held an old size of a draft follow the symbol that its inputs have in its place.

    name: the symbol.  feeds: the axes of the inputs that have it.  Returns how many nodes follow, and what is claimed.
    Raises GraphError naming the node where that cannot be told.
    """
    index, claim = draft.index, draft.claim
    if index.main.is_unsorted:
        raise GraphError("The nodes of the model stand in no order, so that no size can be freed; sort them first.")
    found = _search(index, {name: old})
    walk = found.walk
    answers: dict[str, int | None] = {}
    mixed_outputs = []
    for value in draft.graph.output:
        axes = [axis for axis, size in enumerate(walk.shapes.shape(index.main, value.name) or ()) if walk.hangs([size])]
        shape = walk.shapes.shape(index.main, value.name) or ()
        if value.name in found.answers or len(axes) > 1 or (axes and shape[axes[0]] != symbol(name)):
            mixed_outputs.append(claim.original(value.name))
        else:
            answers[claim.original(value.name)] = axes[0] if axes else None
    _state(walk)
    nodes = write(draft, walk, _sources(draft, walk))
    draft.changed()
    told = {claim.original(source): axis for source, axis in feeds.items()}
    follows = any(axis is not None for axis in answers.values())
    return nodes, Freed(name, old, told, answers if follows else {}, tuple(mixed_outputs))


def _sources(draft: ModelDraft, walk: Walk) -> dict[str, tuple[str, int]]:
    """For each free size an input, and the axis of it that has the size."""
    found: dict[str, tuple[str, int]] = {}
    for value in draft.inputs:
        for axis, size in enumerate(walk.shapes.shape(walk.index.main, value.name) or ()):
            if size == symbol(str(size)):
                found.setdefault(str(size), (value.name, axis))
    return found


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
    return GraphError(f"With {names} free, {node.op} at {node.label!r} {stuck.why}; {stuck.how}")


def _state(walk: Walk) -> None:
    """State the shapes anew that hang on what is free, of outputs and of what value_info tells."""
    for scope in (scope for scope in walk.index.scopes if scope.function is None):
        given = () if scope.owner is None else scope.proto.input
        for value in (*given, *scope.proto.output, *scope.proto.value_info):
            if value.type.HasField("tensor_type"):
                facts = walk.shapes.facts(scope, value.name)
                if (scope, value.name) in walk.doubted or walk.hangs(facts.shape or ()):
                    state(value, facts)
