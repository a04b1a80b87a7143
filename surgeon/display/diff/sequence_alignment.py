"""Two rows of items laid against each other in order, as two versions of a text are."""

from collections.abc import Hashable, Iterator, Sequence

AGREED = 16  # items in a row that must be equal until it is believed that the rows are in step again
FURTHEST = 256  # items that may go and come until they are: the work at one gap grows with the square


def aligned(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal items, as (place in the one, place in the other, length), ascending in both.

    Where the rows part, the fewest items are left out after which they agree for a while (Myers, 1986, as far as that).
    """
    at = to = 0
    while at < len(old) and to < len(new):
        length = _agreed(old, new, at, to)
        if length:
            yield at, to, length
            at, to = at + length, to + length
            continue
        found = _in_step(old, new, at, to)
        if found is None:
            return
        at, to = found


def _agreed(old: Sequence[Hashable], new: Sequence[Hashable], at: int, to: int) -> int:
    """How many items are equal from two places on."""
    most = min(len(old) - at, len(new) - to)
    return next((length for length in range(most) if old[at + length] != new[to + length]), most)


def _in_step(old: Sequence[Hashable], new: Sequence[Hashable], at: int, to: int) -> tuple[int, int] | None:
    """The next places from which the rows agree long enough, or to their ends; None where they do not."""
    furthest = {0: 0}  # on each diagonal (of the one less of the other) how far into the one
    for count in range(1, FURTHEST + 1):
        now: dict[int, int] = {}
        for diagonal in range(-count, count + 1, 2):
            place = max(furthest.get(diagonal - 1, -1) + 1, furthest.get(diagonal + 1, -1))
            here, there = at + place, to + place - diagonal
            if place < 0 or here > len(old) or there > len(new) or there < to:
                continue
            length = _agreed(old, new, here, there)
            if length >= AGREED or (length and (here + length, there + length) == (len(old), len(new))):
                return here, there
            now[diagonal] = place + length
        furthest.update(now)
    return None
