"""The start of a search for a pattern: nodes of its rarest op, and from there up to possible roots."""

from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.associative.identities import SUMS, may_expand
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match_state import MatchCost
from surgeon.rules.matching.root_paths import PatternPositions

CLIMB_LIMIT = 4096
SINGLE = 3  # the depth of a pattern of one node
_SLOT, _OP = attrgetter("slot"), attrgetter("op")


def anchors(compiled: CompiledPattern, scope: Scope) -> list[Node]:
    """Nodes of the required op that is rarest in the scope."""
    by_op = scope.by_op
    if not compiled.required:
        return list(scope.live_nodes()) if compiled.op_glob is None else nodes_matching_glob(scope, *compiled.op_glob)
    rarest = min(compiled.required, key=lambda group: (sum(len(by_op.get(op, ())) for op in group), sorted(group)))
    return sorted((node for op in rarest for node in by_op.get(op, ()) if node.alive), key=_SLOT)


def nodes_matching_glob(scope: Scope, domain: str, op: str) -> list[Node]:
    """Nodes whose domain and op match globs."""
    named = ((split_op(known), nodes) for known, nodes in scope.by_op.items())
    found = [nodes for own, nodes in named if fnmatchcase(own[0], domain) and fnmatchcase(own[1], op)]
    return sorted((node for nodes in found for node in nodes if node.alive), key=_SLOT)


class RootFinder:
    """Finds the possible roots of matches that contain given nodes of one scope."""

    __slots__ = ("_consumers", "_heads", "_promising", "_root_paths", "_scalar", "_scope", "_work", "compiled")

    def __init__(self, index: Index, scope: Scope, compiled: CompiledPattern) -> None:
        self.compiled, self._scope = compiled, scope
        self._heads, self._root_paths = compiled.output_ops[0], compiled.root_paths
        self._consumers, self._work = scope.consumers, MatchCost.of(index)
        self._scalar = partial(index.constants.scalar, scope)
        self._promising: dict[Node, bool] = {}  # cached results of `may_expand`

    def forget(self) -> None:
        """Drop what an edit may have changed."""
        self._promising.clear()

    def roots(self, anchor: Node) -> list[Node]:
        """Possible roots of a match that contains an anchor, nearest first."""
        heads, root_paths, consumers = self._heads, self._root_paths, self._consumers
        scope, work = self._scope, self._work
        depth = self.compiled.depth
        if depth == SINGLE and heads is not None:
            return [anchor]
        start = self._likely(anchor, root_paths.start(anchor.op))
        if not self._leads_on(anchor, start):
            return [anchor] if (heads is None or anchor.op in heads) and root_paths.is_root(start) else []
        found: dict[Node, None] = {}
        level = [(anchor, start)]
        seen: dict[Node, PatternPositions] = {}
        for _ in range(depth):
            further: list[tuple[Node, PatternPositions]] = []
            for node, places in level:
                known = seen.get(node)
                if known is not None:
                    if places <= known:
                        continue
                    places |= known
                seen[node] = places
                if (heads is None or node.op in heads) and root_paths.is_root(places):
                    found[node] = None
                for name in node.outputs:
                    readers = consumers.get(name, ())
                    work.visited += len(readers)
                    for reader in readers:
                        to = root_paths.above(places, reader.op) if reader.alive else None
                        if to and reader.scope is scope:
                            to = self._likely(reader, to)
                            if to:
                                (level if reader.op in TRANSPARENT else further).append((reader, to))
            if not further or len(seen) > CLIMB_LIMIT:
                break
            level = further
        return list(found)

    def _leads_on(self, node: Node, places: PatternPositions) -> bool:
        """Whether a reader of a node can be above it in the pattern; most anchors without a match end here."""
        above, consumers, op_of = self._root_paths.above, self._consumers, _OP
        for name in node.outputs:
            for op in set(map(op_of, consumers.get(name, ()))):
                if above(places, op):
                    return True
        return False

    def _likely(self, node: Node, places: PatternPositions) -> PatternPositions:
        """The positions without products, if the node is a sum that no identity turns into a product."""
        if not places or node.op not in SUMS:
            return places
        sums = self._root_paths.without_products(places)
        if sums is places:
            return places
        promising = self._promising
        if node not in promising:
            promising[node] = may_expand(self._scope.producers, self._scalar, node)
        return places if promising[node] else sums


def cannot_match(scope: Scope, compiled: CompiledPattern, root: Node) -> bool:
    """Whether an input of a node is produced by an op that the pattern excludes there."""
    producers, among = scope.producers, compiled.among
    for place, ops in compiled.below.get(root.op, ()):
        source = producers.get(root.inputs[place]) if place < len(root.inputs) else None
        if source is None or source.op not in ops:
            return True
    return among is not None and not any(name in producers and producers[name].op in among for name in root.inputs)
