"""Sizes that several free dims have at once: in turn such as fit registers and blocks, and such as have a round sum."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, symbols
from surgeon.shapes.constraints.input_dims import dim_kind

# One more, two less and two more, four times and the square, three times, a third, half, and the same of two that are
# many; a third dim, as between two matrices, is one of these to either.
IN_TURN = (
    (3, 2, 2),
    (12, 14, 10),
    (4, 16, 8),
    (84, 28, 28),
    (16, 48, 32),
    (32, 64, 16),
    (192, 192, 24),
)
LONE = (2, 10, 14, 20, 28, 48, 64, 192)  # of one alone: few, and between the powers of two that it may be above
ROUND = 8  # of free dims: what fits registers, blocks and heads, as 3, 4 and 6 do not
MANY_BESIDE_ONE = 72
MOST_SUMS = 2  # of free dims, that are made a round size


def related_sizes(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Sizes for all of these dims, but batches beside two others; for one alone one after the other."""
    others = [name for name in names if dim_kind(name) != "batch"]
    chosen = others if len(others) > 1 else names
    if len(chosen) == 1:
        yield from ({chosen[0]: size} for size in LONE)
        return
    for sizes in IN_TURN:
        yield {name: sizes[place % len(sizes)] for place, name in enumerate(chosen)}


def one_dim_at_one(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Each of several dims at 1 beside many of the others."""
    for name in names if len(names) > 1 else ():
        yield {**dict.fromkeys(names, MANY_BESIDE_ONE), name: 1}


def round_totals(sizes: Iterable[Size], base: Mapping[str, int], names: frozenset[str]) -> list[dict[str, int]]:
    """One of these dims changed so that a sum of several is `ROUND`, as a total of past and new: few such sums."""
    found: list[dict[str, int]] = []
    for size in dict.fromkeys(sizes):
        if len(symbols(size)) < 2 or not symbols(size) <= names:
            continue
        for name in sorted(symbols(size)):
            try:
                changed = {name: base[name] + ROUND - evaluate(size, base)}
                is_round = changed[name] > 0 and evaluate(size, {**base, **changed}) == ROUND
            except SizeError:
                continue  # no sum: something in it is divided by what is 0 there
            if is_round:
                found.append(changed)
                break
    return found[:MOST_SUMS]
