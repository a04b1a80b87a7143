"""Related sizes for several dynamic dims: multiples of register and block sizes, and round totals."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, symbols
from surgeon.shapes.constraints.input_dims import dim_kind

# Relations of a second and a third dim to the first: one less, two more and less, four times (the square) and double,
# a third, three and two times, twice and half, equal; each at sizes beyond common register and block sizes.
IN_TURN = (
    (3, 2, 2),
    (12, 14, 10),
    (4, 16, 8),
    (84, 28, 28),
    (16, 48, 32),
    (32, 64, 16),
    (192, 192, 24),
)
LONE = (2, 10, 14, 20, 28, 48, 64, 192)  # for a single dim: small, and between powers of two
ROUND = 8  # a size that fits registers, blocks and heads, as 3, 4 and 6 do not
MANY_BESIDE_ONE = 72
MAX_SUMS = 2  # sums of dynamic dims that get a round size


def related_sizes(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Related sizes for all of these dims; for one dim, one size after the other.

    Batches are left out where two other dims are there.
    """
    others = [name for name in names if dim_kind(name) != "batch"]
    chosen = others if len(others) > 1 else names
    if len(chosen) == 1:
        yield from ({chosen[0]: size} for size in LONE)
        return
    for sizes in IN_TURN:
        yield {name: sizes[place % len(sizes)] for place, name in enumerate(chosen)}


def one_dim_at_one(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Each of several dims at 1, with the others large."""
    for name in names if len(names) > 1 else ():
        yield {**dict.fromkeys(names, MANY_BESIDE_ONE), name: 1}


def round_totals(sizes: Iterable[Size], base: Mapping[str, int], names: frozenset[str]) -> list[dict[str, int]]:
    """One of these dims changed so that a sum of several is `ROUND`, as a total of past and new; few such sums."""
    found: list[dict[str, int]] = []
    for size in dict.fromkeys(sizes):
        if len(symbols(size)) < 2 or not symbols(size) <= names:
            continue
        for name in sorted(symbols(size)):
            try:
                changed = {name: base[name] + ROUND - evaluate(size, base)}
                is_round = changed[name] > 0 and evaluate(size, {**base, **changed}) == ROUND
            except SizeError:
                continue  # no value: a division by zero
            if is_round:
                found.append(changed)
                break
    return found[:MAX_SUMS]
