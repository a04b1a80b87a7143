"""Arithmetic with a constant that changes nothing: times or over 1, plus or minus 0, exactly."""

from collections.abc import Iterator

from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope
from surgeon.matching.search import Found, Search
from surgeon.ops.records import COMMUTATIVE, RECORDS

NEUTRAL = {op.name: op.neutral for op in RECORDS.values() if op.neutral is not None}
PLACES = {name: (1, 0) if name in COMMUTATIVE else (1,) for name in NEUTRAL}  # where the constant may stand


def _neutral_arithmetic(index: Index, scope: Scope) -> Iterator[Found]:
    """Products and quotients with 1, sums and differences with 0; 1e-12 is not 0.

    Binds `x`, the `constant`, and `y`, the result.
    """
    nodes = [node for op in NEUTRAL for node in scope.by_op.get(op, ()) if node.alive]
    known: dict[tuple[str, int], bool] = {}
    for node in sorted(nodes, key=lambda item: item.slot):
        for place in PLACES[node.op] if node.alive and len(node.inputs) == 2 else ():
            key = node.inputs[place], NEUTRAL[node.op]
            if key not in known:
                known[key] = _is(index, scope, *key)
            if known[key]:
                yield _found(node, place)
                break


neutral_arithmetic = Search(_neutral_arithmetic, "no product or quotient with 1 and no sum or difference with 0")


def _is(index: Index, scope: Scope, name: str, number: int) -> bool:
    """Whether a constant has one element and it is this number; a weight that happens to be all ones is data."""
    value = index.constants.scalar(scope, name)
    return value is not None and value[0] == number


def _found(node: Node, place: int) -> Found:
    y = node.outputs[0]
    return Found((node,), (y,), {"x": node.inputs[1 - place], "constant": node.inputs[place], "y": y})
