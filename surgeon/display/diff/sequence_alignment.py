"""Aligns two sequences in order, as a text diff does."""

from collections.abc import Hashable, Iterator, Sequence

MIN_RUN = 16  # equal items in a row after which the sequences count as aligned again
MAX_GAP = 256  # removed and added items in one gap: its cost grows with the square


def aligned(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal items as (position in old, position in new, length), in ascending order.

    At a gap, the fewest items are skipped after which the sequences agree for a while (Myers, 1986, with a limit).
    """
    at = to = 0
    while at < len(old) and to < len(new):
        length = _equal_length(old, new, at, to)
        if length:
            yield at, to, length
            at, to = at + length, to + length
            continue
        found = _next_alignment(old, new, at, to)
        if found is None:
            return
        at, to = found


def _equal_length(old: Sequence[Hashable], new: Sequence[Hashable], at: int, to: int) -> int:
    """The number of equal items from two positions on."""
    most = min(len(old) - at, len(new) - to)
    return next((length for length in range(most) if old[at + length] != new[to + length]), most)


def _next_alignment(old: Sequence[Hashable], new: Sequence[Hashable], at: int, to: int) -> tuple[int, int] | None:
    """The next positions from which the sequences agree long enough or to their ends; None if there are none."""
    furthest = {0: 0}  # furthest position in old on each diagonal (old minus new)
    for count in range(1, MAX_GAP + 1):
        current: dict[int, int] = {}
        for diagonal in range(-count, count + 1, 2):
            place = max(furthest.get(diagonal - 1, -1) + 1, furthest.get(diagonal + 1, -1))
            here, there = at + place, to + place - diagonal
            if place < 0 or here > len(old) or there > len(new) or there < to:
                continue
            length = _equal_length(old, new, here, there)
            if length >= MIN_RUN or (length and (here + length, there + length) == (len(old), len(new))):
                return here, there
            current[diagonal] = place + length
        furthest.update(current)
    return None
