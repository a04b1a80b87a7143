"""Smaller numbers in place of large fixed dims."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from surgeon.proof.region.literals import MAX_UNREDUCED_DIM

SMALLEST = range(5, MAX_UNREDUCED_DIM, 2)  # odd, so that none is a multiple of a vector or of heads


def reduced_dims(sizes: Iterable[int], taken: Iterable[int], literals: Collection[int]) -> dict[int, int]:
    """A smaller number for each dim that can have one, different from each other and from those taken.

    literals: a reduced dim stays above every literal that is below the dim.
    """
    found: dict[int, int] = {}
    known = set(taken)
    for size in sizes:
        least = max((number for number in literals if number < size), default=0)
        numbers = (
            number for number in (*SMALLEST, *range(max(least, MAX_UNREDUCED_DIM) + 1, size)) if least < number < size
        )
        found[size] = next((number for number in numbers if number not in known), size)
        known.add(found[size])
    return found


def restore_in_turn(
    shrunk: Mapping[int, int], fits: Callable[[Mapping[int, int]], bool]
) -> Iterator[Mapping[int, int]]:
    """Reduced dims with some restored each time, as many as fit, until each was restored once.

    fits: whether these reduced dims make little work.  A dim that never fits is left out.
    """
    left = sorted(shrunk, reverse=True)
    while left:
        now = dict(shrunk)
        for size in left:
            fewer = {other: number for other, number in now.items() if other != size}
            now = fewer if fits(fewer) else now
        if len(now) == len(shrunk):
            return
        yield now
        left = [size for size in left if size in now]
