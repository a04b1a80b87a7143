"""What lies between two cuts of the main graph: the nodes that the tensors of one need, up to those of the other."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from surgeon.editing.draft import ModelDraft
from surgeon.editing.pruning import FIRST_IR_WITH_DEFAULTS, keep, prune, stored_in
from surgeon.errors import UsageError
from surgeon.listing import first_of
from surgeon.models.exposing import needed
from surgeon.ops.walking import free_names

SHOWN = 4  # names in a sentence


@dataclass(frozen=True, slots=True)
class CutRegion:
    """What two cuts enclose.

    froms: the tensors that it is given.  tos: those that it makes.  nodes: the places of its nodes.  used: all names
    that these read or make.
    """

    froms: tuple[str, ...]
    tos: tuple[str, ...]
    nodes: frozenset[int]
    used: frozenset[str]


def region_of(
    draft: ModelDraft, froms: Sequence[str], tos: Sequence[str], *, weights: bool = False, kept: bool = False
) -> CutRegion:
    """The region between two cuts.  No tensors to cut before: the inputs; none to cut behind: the outputs.

    weights: stored tensors may be named to cut before.  kept: stored tensors that are outputs may be among those to cut
    behind, as they stay.  Raises UsageError where a name is unknown, the two cuts do not enclose a region, or something
    else is needed than what the first one gives.
    """
    graph = draft.graph
    for name in (*froms, *tos):
        draft.require_tensor(name)
    given = [value.name for value in draft.inputs]
    stored = stored_in(graph)
    if not weights:
        held = next((name for name in froms if name in stored and name not in given), None)
        if held is not None:
            raise UsageError(f"{held!r} is a stored tensor, which needs no input; name tensors that nodes make.")
    stay = {value.name for value in graph.output} if kept and not stored.issuperset(tos) else set[str]()
    held = next((name for name in tos if name in stored and name not in stay), None)
    if held is not None:
        raise UsageError(f"{held!r} is a stored tensor, which no node makes; name an output that is computed.")
    ends = list(tos) if tos else _behind(graph, froms)
    both = next((name for name in ends if name in froms or name in given), None)
    if both is not None:
        raise UsageError(f"{both!r} would be an output that is an input; name a tensor that a node makes.")
    nodes, used = needed(graph, ends, froms)
    has_defaults = weights and draft.skeleton.ir_version >= FIRST_IR_WITH_DEFAULTS  # which a caller may set otherwise
    asked = [value.name for value in graph.input] if has_defaults else given
    lacking = [name for name in asked if name in used and name not in froms]
    if froms and lacking:
        one = len(lacking) == 1
        raise UsageError(
            f"{_told(ends)} cannot be computed from {_told(froms)} alone: the {'input' if one else 'inputs'} "
            f"{_told(lacking)} {'is' if one else 'are'} needed too; name {'it' if one else 'them'}, or tensors behind "
            f"{'it' if one else 'them'}, as well."
        )
    idle = next((name for name in froms if name not in used), None)
    if idle is not None:
        raise UsageError(f"{idle!r} is not needed for {_told(ends)} where {_told(froms)} are given; leave it out.")
    return CutRegion(tuple(froms) or tuple(lacking), tuple(ends), frozenset(nodes), frozenset(used))


def extract(
    draft: ModelDraft, froms: Sequence[str], tos: Sequence[str], known: ModelDraft | None = None
) -> Iterable[str]:
    """Keep the region between two cuts alone; returns what was done, in sentences.  Raises UsageError as `region_of`.

    The tensors of the first cut become the inputs, with what is known of them, those of the second the outputs.
    known: another draft of the same model as it is, which may know its tensors already.
    """
    region, graph = region_of(draft, froms, tos, kept=True), draft.graph
    ends = ([value.name for value in values] for values in (graph.input, graph.output))
    if [*ends] == [[*region.froms], [*region.tos]] and len(region.nodes) == len(graph.node):
        return ()
    inputs, outputs = ([(known or draft).facts(name) for name in cut] for cut in (region.froms, region.tos))
    for place in region.nodes:
        step_aside(draft, graph.node[place], region.froms)
    stored = stored_in(graph)
    kept = {value.name for value in graph.input if value.name in stored and value.name in region.used}
    count = len(graph.node)
    keep(graph.node, lambda place, _: place in region.nodes)
    # What is an input already stays where it stands among them, where nobody said in which order.
    stands = set() if froms else {*region.froms}
    now = {value.name: value for value in inputs}
    keep(graph.input, lambda _, value: value.name in kept or value.name in stands)
    for value in graph.input:
        if value.name in stands:
            value.CopyFrom(now[value.name])
    graph.input.MergeFrom(value for value in inputs if value.name not in stands)
    del graph.output[:]
    graph.output.MergeFrom(outputs)
    named = {*region.froms, *region.tos}
    keep(graph.value_info, lambda _, value: value.name not in named)
    is_trained = bool(draft.skeleton.training_info)
    del draft.skeleton.training_info[:]
    prune(draft)
    start = f"from {_told(region.froms)} " if region.froms else ""
    said = f"{len(graph.node):,} of {count:,} nodes are kept, {start}to {_told(region.tos)}"
    return (said, "how the model is trained is left out") if is_trained else (said,)


def behind(graph: GraphProto, names: Collection[str]) -> Iterator[int]:
    """The places of the nodes that these tensors reach, in the graph's order."""
    reached = set(names)
    for place, node in enumerate(graph.node):
        if not reached.isdisjoint(free_names(node)):
            reached.update(filter(None, node.output))
            yield place


def step_aside(draft: ModelDraft, node: NodeProto, names: Collection[str]) -> None:
    """Have a node make tensors of these names under others, where something else is to bear the names."""
    for place, name in enumerate(node.output):
        if name in names:
            node.output[place] = draft.fresh(name)
            draft.claim.tensors[node.output[place]] = draft.claim.original(name)


def _behind(graph: GraphProto, froms: Sequence[str]) -> list[str]:
    """The outputs that a cut reaches, all where there is no cut.  Raises UsageError where there is none."""
    names = [value.name for value in graph.output]
    if not froms:
        return names
    made = {name for place in behind(graph, froms) for name in graph.node[place].output}
    found = [name for name in names if name in made]
    if not found:
        raise UsageError(f"No output of the model is computed from {_told(froms)}; name the tensors to end at.")
    return found


def _told(names: Sequence[str]) -> str:
    return first_of([repr(name) for name in names], SHOWN)

