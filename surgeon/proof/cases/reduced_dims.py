"""Smaller numbers that stand in for large fixed dims."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from surgeon.proof.region.literals import MAX_UNREDUCED_DIM

REDUCED_SIZES = (5, 7, 9, 11, 13, 10, 14, 15)


def reduced_dims(sizes: Iterable[int], taken: Iterable[int], spoken_of: Collection[int]) -> dict[int, int]:
    """A smaller number for each dim that may have one: no two alike, and none like those that are taken.

    spoken_of: numbers of which it stays above those that are below the dim.
    """
    found: dict[int, int] = {}
    known = set(taken)
    for size in sizes:
        least = max((number for number in spoken_of if number < size), default=0)
        numbers = (
            number
            for number in (*REDUCED_SIZES, *range(max(least, MAX_UNREDUCED_DIM) + 1, size))
            if least < number < size
        )
        found[size] = next((number for number in numbers if number not in known), size)
        known.add(found[size])
    return found


def restore_in_turn(
    shrunk: Mapping[int, int], fits: Callable[[Mapping[int, int], bool], bool]
) -> Iterator[Mapping[int, int]]:
    """The stand-ins without some dims each time, which are as they are then: as many as fit, until all were so.

    fits: whether these stand-ins make little; told whether one dim alone is as it is.  What does not fit is left out.
    """
    left = sorted(shrunk, reverse=True)
    while left:
        now = dict(shrunk)
        for size in left:
            fewer = {other: number for other, number in now.items() if other != size}
            now = fewer if fits(fewer, len(now) == len(shrunk)) else now
        if len(now) == len(shrunk):
            return
        yield now
        left = [size for size in left if size in now]
