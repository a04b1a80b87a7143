"""Where the search for a pattern begins: at nodes of the op that is rarest, and from there up to possible roots."""

from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter

from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope, split_op
from surgeon.matching.algebra import SUMS, promises
from surgeon.matching.compile import Compiled
from surgeon.matching.state import Work
from surgeon.matching.ways import Places
from surgeon.ops.records import TRANSPARENT

CLIMB_LIMIT = 4096
SINGLE = 3  # the depth of a pattern of one node
_SLOT = attrgetter("slot")


def anchors(compiled: Compiled, scope: Scope) -> list[Node]:
    """Nodes of the op that the pattern needs and the scope has fewest of."""
    by_op = scope.by_op
    if not compiled.required:
        return list(scope.live_nodes()) if compiled.wild is None else fitting(scope, *compiled.wild)
    rarest = min(compiled.required, key=lambda group: (sum(len(by_op.get(op, ())) for op in group), sorted(group)))
    return sorted((node for op in rarest for node in by_op.get(op, ()) if node.alive), key=_SLOT)


def fitting(scope: Scope, domain: str, op: str) -> list[Node]:
    """Nodes whose domain and op fit globs."""
    named = ((split_op(known), nodes) for known, nodes in scope.by_op.items())
    found = [nodes for own, nodes in named if fnmatchcase(own[0], domain) and fnmatchcase(own[1], op)]
    return sorted((node for nodes in found for node in nodes if node.alive), key=_SLOT)


def climb(
    index: Index, scope: Scope, compiled: Compiled, anchor: Node, promising: dict[Node, bool] | None = None
) -> list[Node]:
    """Nodes from which a match through the anchor may start: its readers, as the pattern has them, nearest first.

    promising: what `promises` has said of nodes, where nothing was edited since.
    """
    promising = {} if promising is None else promising
    heads, ways, consumers, work = compiled.heads[0], compiled.ways, scope.consumers, Work.of(index)
    scalar = partial(index.constants.scalar, scope)
    if compiled.depth == SINGLE and heads is not None:
        return [anchor]

    def likely(node: Node, places: Places) -> Places:
        """The places without those of products, where a node is a sum of which algebra makes none."""
        sums = ways.without_laws(places) if places and node.op in SUMS else places
        if sums is not places and node not in promising:
            promising[node] = promises(scope.producers, scalar, node)
        return places if sums is places or promising[node] else sums

    found: dict[Node, None] = {}
    level = [(anchor, likely(anchor, ways.start(anchor.op)))]
    seen: dict[Node, Places] = {}
    for _ in range(compiled.depth):
        further: list[tuple[Node, Places]] = []
        for node, places in level:
            known = seen.get(node)
            if known is not None:
                if places <= known:
                    continue
                places |= known
            seen[node] = places
            if (heads is None or node.op in heads) and ways.is_root(places):
                found[node] = None
            for name in node.outputs:
                readers = consumers.get(name, ())
                work.visited += len(readers)
                for reader in readers:
                    to = ways.above(places, reader.op) if reader.alive else None
                    if to and reader.scope is scope:
                        to = likely(reader, to)
                        if to:
                            (level if reader.op in TRANSPARENT else further).append((reader, to))
        if not further or len(seen) > CLIMB_LIMIT:
            break
        level = further
    return list(found)


def is_hopeless(scope: Scope, compiled: Compiled, root: Node) -> bool:
    """Whether an input of a node is made by an op that the pattern cannot have there, as one look tells."""
    producers, among = scope.producers, compiled.among
    for place, ops in compiled.below.get(root.op, ()):
        source = producers.get(root.inputs[place]) if place < len(root.inputs) else None
        if source is None or source.op not in ops:
            return True
    return among is not None and not any(name in producers and producers[name].op in among for name in root.inputs)
