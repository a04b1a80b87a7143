"""The subgraph between two sets of tensors: find it, and extract it."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from surgeon.errors import UsageError
from surgeon.ops.traversal import names_read
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.prune import FIRST_IR_WITH_DEFAULTS, filter_repeated, initializer_names, prune
from surgeon.proof.model.exposed_outputs import required_nodes
from surgeon.text import join_first

SHOWN, MAX_NAMED = 4, 20  # names in a sentence, and in a command


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The part of the main graph between two sets of tensors."""

    froms: tuple[str, ...]
    """Tensors that it reads."""
    tos: tuple[str, ...]
    """Tensors that it produces."""
    nodes: frozenset[int]
    """Indices of its nodes in the graph."""
    used: frozenset[str]
    """Names of all tensors that its nodes read or produce."""


def subgraph_between(
    draft: ModelDraft, froms: Sequence[str], tos: Sequence[str], *, weights: bool = False, kept: bool = False
) -> Subgraph:
    """The subgraph between two sets of tensors; empty `froms` means the inputs, empty `tos` the outputs.

    weights: `froms` may contain initializers.  kept: `tos` may contain initializers that are outputs.  Raises
    UsageError if a name is unknown, the sets enclose no subgraph, or `tos` need more than `froms`.
    """
    graph = draft.graph
    for name in (*froms, *tos):
        draft.require_tensor(name)
    given = [value.name for value in draft.inputs]
    stored = initializer_names(graph)
    if not weights:
        held = next((name for name in froms if name in stored and name not in given), None)
        if held is not None:
            raise UsageError(f"{held!r} is an initializer. Choose tensors that nodes produce.")
    stay = {value.name for value in graph.output} if kept and not stored.issuperset(tos) else set[str]()
    held = next((name for name in tos if name in stored and name not in stay), None)
    if held is not None:
        raise UsageError(f"{held!r} is an initializer. Choose a tensor that a node produces.")
    ends = list(tos) if tos else _behind(graph, froms)
    both = next((name for name in ends if name in froms or name in given), None)
    if both is not None:
        raise UsageError(f"{both!r} would be both an input and an output. Choose a tensor that a node produces.")
    nodes, used = required_nodes(graph, ends, froms)
    has_defaults = weights and draft.skeleton.ir_version >= FIRST_IR_WITH_DEFAULTS  # callers may override these
    asked = [value.name for value in graph.input] if has_defaults else given
    lacking = [name for name in asked if name in used and name not in froms]
    if froms and lacking:
        raise UsageError(_needs_more(ends, froms, _missing(graph, ends, froms, nodes=nodes, inputs=lacking), asked))
    idle = next((name for name in froms if name not in used), None)
    if idle is not None:
        raise UsageError(f"{_quoted(ends)} does not depend on {idle!r}. Remove it from the inputs.")
    return Subgraph(tuple(froms) or tuple(lacking), tuple(ends), frozenset(nodes), frozenset(used))


def extract(
    draft: ModelDraft, froms: Sequence[str], tos: Sequence[str], known: ModelDraft | None = None
) -> Iterable[str]:
    """Keep only the subgraph between two sets of tensors; returns the changes.  Raises as `subgraph_between`.

    `froms` become the inputs, with their known types, and `tos` the outputs.  known: another draft of the same model,
    with types that are inferred already.
    """
    region, graph = subgraph_between(draft, froms, tos, kept=True), draft.graph
    ends = ([value.name for value in values] for values in (graph.input, graph.output))
    if [*ends] == [[*region.froms], [*region.tos]] and len(region.nodes) == len(graph.node):
        return ()
    inputs, outputs = ([(known or draft).facts(name) for name in cut] for cut in (region.froms, region.tos))
    for place in region.nodes:
        rename_outputs_of(draft, graph.node[place], region.froms)
    stored = initializer_names(graph)
    kept = {value.name for value in graph.input if value.name in stored and value.name in region.used}
    count = len(graph.node)
    filter_repeated(graph.node, lambda place, _: place in region.nodes)
    # Without a given order, existing inputs keep their position.
    stands = set() if froms else {*region.froms}
    now = {value.name: value for value in inputs}
    filter_repeated(graph.input, lambda _, value: value.name in kept or value.name in stands)
    for value in graph.input:
        if value.name in stands:
            value.CopyFrom(now[value.name])
    graph.input.MergeFrom(value for value in inputs if value.name not in stands)
    del graph.output[:]
    graph.output.MergeFrom(outputs)
    named = {*region.froms, *region.tos}
    filter_repeated(graph.value_info, lambda _, value: value.name not in named)
    is_trained = bool(draft.skeleton.training_info)
    del draft.skeleton.training_info[:]
    prune(draft)
    start = f"from {_quoted(region.froms)} " if region.froms else ""
    said = f"{len(graph.node):,} of {count:,} nodes are kept, {start}to {_quoted(region.tos)}"
    return (said, "the training info is removed") if is_trained else (said,)


def nodes_reachable_from(graph: GraphProto, names: Collection[str]) -> Iterator[int]:
    """Indices of the nodes that depend on these tensors, in the graph's order."""
    reached = set(names)
    for place, node in enumerate(graph.node):
        if not reached.isdisjoint(names_read(node)):
            reached.update(filter(None, node.output))
            yield place


def rename_outputs_of(draft: ModelDraft, node: NodeProto, names: Collection[str]) -> None:
    """Rename outputs of a node that have one of these names, because other tensors take the names."""
    for place, name in enumerate(node.output):
        if name in names:
            node.output[place] = draft.fresh(name)
            draft.claim.tensors[node.output[place]] = draft.claim.original(name)


def _missing(
    graph: GraphProto, ends: Sequence[str], froms: Sequence[str], nodes: Collection[int], inputs: Sequence[str]
) -> list[str]:
    """Tensors that a subgraph needs besides `froms`: on each path from an input, the last before nodes they reach.

    nodes: indices of the subgraph's nodes if `inputs` were given too.
    """
    reached, beside = set(froms), set(inputs)
    found: dict[str, None] = {}
    for place in sorted(nodes):
        node = graph.node[place]
        reads, made = names_read(node), set(filter(None, node.output))
        if not reached.isdisjoint(reads):
            found.update(dict.fromkeys(name for name in reads if name in beside - reached))
            reached |= made
        elif not beside.isdisjoint(reads):
            beside |= made
    if not reached.issuperset(ends):  # an output that does not depend on `froms`
        found.update(dict.fromkeys(inputs))
    return list(found)


def _needs_more(ends: Sequence[str], froms: Sequence[str], missing: Sequence[str], inputs: Sequence[str]) -> str:
    """The message for a subgraph that needs tensors besides `froms`, with a sufficient set."""
    own, inner = [name for name in inputs if name in missing], [name for name in missing if name not in inputs]
    kinds = (("input", own), ("tensor", inner))
    also = [f"the {kind}{'s' * (len(found) > 1)} {_quoted(found)}" for kind, found in kinds if found]
    verb = "is" if len(missing) == 1 else "are"
    cut = [*froms, *own, *inner]
    return (
        f"{_quoted(ends)} cannot be computed only from {_quoted(froms)}: {' and '.join(also)} {verb} also needed. "
        f"Start from {','.join(cut) if len(cut) <= MAX_NAMED else join_first(cut, MAX_NAMED)}"
    )


def _behind(graph: GraphProto, froms: Sequence[str]) -> list[str]:
    """The outputs that depend on `froms`; all if it is empty.  Raises UsageError if there are none."""
    names = [value.name for value in graph.output]
    if not froms:
        return names
    made = {name for place in nodes_reachable_from(graph, froms) for name in graph.node[place].output}
    found = [name for name in names if name in made]
    if not found:
        raise UsageError(f"No output of the model depends on {_quoted(froms)}. Choose the outputs of the subgraph.")
    return found


def _quoted(names: Sequence[str]) -> str:
    return join_first([repr(name) for name in names], SHOWN)
