"""Where the search for a pattern begins: at nodes of the op that is rarest, and from there up to possible roots."""

from fnmatch import fnmatchcase
from operator import attrgetter

from surgeon.indexing.scope import Node, Scope, split_op
from surgeon.matching.algebra import MULTIPLIES
from surgeon.matching.compile import Compiled
from surgeon.matching.work import Work
from surgeon.ops.records import TRANSPARENT

CLIMB_LIMIT = 4096
SINGLE = 3  # the depth of a pattern of one node
_SLOT = attrgetter("slot")


def anchors(compiled: Compiled, scope: Scope) -> list[Node]:
    """Nodes of the op that the pattern needs and the scope has fewest of."""
    by_op = scope.by_op
    if not compiled.required:
        return list(scope.live_nodes()) if compiled.wild is None else fitting(scope, *compiled.wild)
    rarest = min(compiled.required, key=lambda group: sum(len(by_op.get(op, ())) for op in group))
    return sorted((node for op in rarest for node in by_op.get(op, ()) if node.alive), key=_SLOT)


def fitting(scope: Scope, domain: str, op: str) -> list[Node]:
    """Nodes whose domain and op fit globs."""
    named = ((split_op(known), nodes) for known, nodes in scope.by_op.items())
    found = [nodes for own, nodes in named if fnmatchcase(own[0], domain) and fnmatchcase(own[1], op)]
    return sorted((node for nodes in found for node in nodes if node.alive), key=_SLOT)


def _adds_products(scope: Scope, node: Node) -> bool:
    """Whether a sum may be a product multiplied out, by the ops of its operands."""
    producers = scope.producers
    for name in node.inputs:
        source = producers.get(name)
        if source is not None and source.op in MULTIPLIES:
            return True
    return False


def climb(scope: Scope, compiled: Compiled, anchor: Node, work: Work) -> list[Node]:
    """Nodes from which a match through the anchor may start: its readers, over ops of the pattern, nearest first."""
    heads, allowed, consumers = compiled.heads[0], compiled.allowed, scope.consumers
    by_laws = compiled.by_laws
    if compiled.depth == SINGLE and heads is not None:
        return [anchor]
    found: list[Node] = []
    level, seen = [anchor], {anchor}
    for _ in range(compiled.depth):
        above: list[Node] = []
        for node in level:
            if (heads is None or node.op in heads) and (node.op not in by_laws or _adds_products(scope, node)):
                found.append(node)
            for name in node.outputs:
                readers = consumers.get(name, ())
                work.visited += len(readers)
                for reader in readers:
                    if allowed is not None and reader.op not in allowed:
                        continue
                    if reader.alive and reader not in seen and reader.scope is scope:
                        seen.add(reader)
                        (level if reader.op in TRANSPARENT else above).append(reader)
        if not above or len(seen) > CLIMB_LIMIT:
            break
        level = above
    return found
