"""Nodes at which a pattern may match, or would if one op were another: where to look for near misses."""

from collections.abc import Iterator
from functools import lru_cache

from surgeon.ir.scope import Node, Scope, split_op
from surgeon.rules.matching.anchors import CLIMB_LIMIT, nodes_matching_glob
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.op_requirements import by_rarity
from surgeon.rules.matching.pattern import AnyOf, LiteralValue, NamedValue, NodeOutput, Pattern, Value

SIGHT = 3  # depth of op neighbourhoods
SLACK = 1  # levels above the pattern's size
FEW = 64  # maximum number of nodes at which the search looks past other ops


@lru_cache(maxsize=4096)  # more patterns than all rules have, since each rewrite reads them in turn
def pattern_size(pattern: Pattern, made: frozenset[int] = frozenset()) -> int:
    """The number of nodes of a pattern.  made: ids of matched operations, which choose a form of an any_of."""
    known: dict[int, frozenset[int]] = {}  # values are shared, and nested helpers share them many times

    def operations(value: Value | None) -> frozenset[int]:
        if id(value) not in known:
            known[id(value)] = counted(value)
        return known[id(value)]

    def counted(value: Value | None) -> frozenset[int]:
        if isinstance(value, NamedValue):
            return operations(value.value)
        if isinstance(value, AnyOf):
            return min((operations(form) for form in value.forms), key=lambda form: (-len(form & made), len(form)))
        if not isinstance(value, NodeOutput):
            return frozenset()
        return frozenset({id(value.operation)}).union(*(operations(item) for item in value.operation.inputs))

    return len(frozenset().union(*(operations(value) for value in pattern.outputs)))


def candidate_roots(compiled: CompiledPattern, scope: Scope, breadth: int, *, may_lack: bool = False) -> Iterator[Node]:
    """Nodes at which a pattern may match, or would if ops were of another domain.

    breadth: how many of the required ops are searched, the rarest first.  may_lack: search even if a required op is
    absent.
    """
    if not may_lack and compiled.lacks_required_op(lambda ops: scope.has_any(ops) or bool(_namesakes(scope, ops))):
        return
    if compiled.op_glob is not None:
        yield from nodes_matching_glob(scope, *compiled.op_glob)
        return
    spelling = compiled.written_ops
    if not spelling.required:
        heads = spelling.heads[0]
        yield from scope.live_nodes() if heads is None else _nodes(scope, heads)
        return
    groups: list[frozenset[str]] = []
    for wanted in sorted(spelling.required, key=by_rarity):
        group = wanted if scope.has_any(wanted) else _namesakes(scope, wanted)
        if group:
            groups.append(group)
        elif not may_lack:
            return
    if not groups:
        return
    groups.sort(key=lambda group: sum(len(scope.by_op.get(op, ())) for op in group))
    way = TolerantRootPaths(scope, compiled)
    seen: set[Node] = set()
    late: list[Node] = []  # roots above another op come last: most are explained by then
    anchors = [_nodes(scope, group) for group in groups[:breadth]]
    for nodes in anchors:
        is_rare = len(nodes) <= 2 * len(anchors[0]) + FEW
        for anchor in nodes:
            straight, around = way.up(anchor, is_rare)
            late += reversed(around)
            for root in reversed(straight):
                if root not in seen:
                    seen.add(root)
                    yield root
    yield from (root for root in dict.fromkeys(late) if root not in seen)
    if not seen and not late:
        yield from _nodes(scope, spelling.heads[0] or frozenset())


class TolerantRootPaths:
    """Climbs from a required op to possible roots, as `RootFinder` does, but tolerantly.

    Ops of other domains count as those of the pattern, one op on the path may be any, and the climb ends soon above the
    pattern's size.  For an op of a tensor and a constant (r²), one of that tensor twice (r · r) counts.
    """

    def __init__(self, scope: Scope, compiled: CompiledPattern) -> None:
        self.scope = scope
        self.heads, self.allowed = _bare(compiled.written_ops.heads[0]), _bare(compiled.written_ops.allowed)
        self.depth = min(compiled.depth, pattern_size(compiled.pattern) + SLACK)
        first = next(iter(compiled.pattern.outputs), None)  # a search has none
        inputs = first.operation.inputs if isinstance(first, NodeOutput) else ()
        self.may_double = any(isinstance(value, LiteralValue) for value in inputs)

    def up(self, anchor: Node, is_rare: bool) -> tuple[list[Node], list[Node]]:
        """Possible roots, nearest first: those straight above, and those above another op.

        is_rare: whether to look past other ops.
        """
        found: tuple[list[Node], list[Node]] = ([], [])
        level, seen = {anchor: False}, {anchor}
        for _ in range(self.depth):
            above: dict[Node, bool] = {}
            for node, has_passed in level.items():
                is_doubled = self.may_double and len(node.inputs) > len(set(node.inputs)) == 1
                if self.heads is None or split_op(node.op)[1] in self.heads or is_doubled:
                    found[has_passed].append(node)
                for reader in (reader for name in node.outputs for reader in self.scope.readers(name)):
                    passes = self.allowed is not None and split_op(reader.op)[1] not in self.allowed
                    if passes and (has_passed or not is_rare):
                        continue
                    if reader not in seen and reader.scope is self.scope and reader.alive:
                        above[reader] = above.get(reader, True) and (passes or has_passed)
            seen.update(above)
            level = above
            if not level or len(seen) > CLIMB_LIMIT:
                break
        return found


def _bare(ops: frozenset[str] | None) -> frozenset[str] | None:
    return None if ops is None else frozenset(split_op(op)[1] for op in ops)


def _nodes(scope: Scope, group: frozenset[str]) -> list[Node]:
    return [node for op in sorted(group) for node in scope.by_op.get(op, ()) if node.alive]


def _namesakes(scope: Scope, group: frozenset[str]) -> frozenset[str]:
    """Ops of the same names in other domains that occur in the scope, which has none of the ops themselves."""
    names = {split_op(op)[1] for op in group}
    others = (op for op in scope.by_op if op not in group and split_op(op)[1] in names)
    return frozenset(op for op in others if scope.has(op))


def op_neighbourhood(root: Node | None, depth: int = SIGHT) -> tuple[object, ...]:
    """The ops of a node and of its producers, `depth` nodes down."""
    if root is None or not depth:
        return () if root is None else (root.op,)
    producers = root.scope.producers
    return root.op, *[op_neighbourhood(producers.get(name), depth - 1) for name in root.inputs]
