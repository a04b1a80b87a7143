"""How near a miss came: what is worth telling of it, equal ones as one, and the nearest first."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from surgeon.indexing.scope import Node, split_op
from surgeon.misses.findings import NOT_TAKEN, Mismatch
from surgeon.ops.schemas import knows_domain

TOLD = 5  # different near misses of a rule


def grouped(misses: Iterable[Mismatch]) -> list[Mismatch]:
    """Misses that came furthest first, equal ones as one that names the others."""
    groups: dict[tuple[object, ...], list[Mismatch]] = {}
    for miss in misses:
        key = (miss.rule, miss.pattern, miss.where, miss.kind, miss.wanted, miss.found, miss.matched, bool(miss.change))
        groups.setdefault(key, []).append(miss)
    told = [replace(first, others=tuple(miss.node for miss in rest)) for first, *rest in groups.values()]
    return sorted(told, key=nearness)


def worth_telling(miss: Mismatch, root: Node) -> Mismatch:
    """The miss, noted as near where it is: half of the pattern fits, or more, and more of it than the op of the root.

    An op that nobody knows tells enough: it is a placeholder, and of the kind that the rule is for.
    """
    if miss.kind == "target":  # a rule for somebody else
        return miss
    is_placeholder = not knows_domain(split_op(root.op)[0]) and miss.kind not in NOT_TAKEN
    return replace(miss, near=is_placeholder or (miss.matched > 1 and is_near(miss)))


def is_near(miss: Mismatch) -> bool:
    """Whether half of the pattern fits, or more."""
    return 2 * miss.matched >= miss.total


def nearness(miss: Mismatch) -> tuple[float, int]:
    """Sorts what came furthest first."""
    return -miss.matched / max(miss.total, 1), -miss.matched


def deepest(misses: Sequence[Mismatch]) -> list[Mismatch]:
    """The few misses that came furthest, one of each reason."""
    return grouped(misses)[:TOLD]
