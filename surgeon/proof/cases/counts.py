"""Values for inputs that are counts: the literals of the region, their neighbours, and longer ones."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from surgeon.runtime.inputs.input_spec import InputSpec
from surgeon.shapes.constraints.input_dims import known_size

_LADDER = (0, 9, 17, 33, 65, 129, 257)  # beyond each power of two that a kernel may compare a count with
_MAX_COUNT = 1 << 12  # the largest count
_MADE = 1 << 20  # elements of a tensor that is repeated by a count, up to which the count is tried
MAX_TURNS = 64


def countable(wants: Iterable[InputSpec]) -> list[InputSpec]:
    """The inputs that are counts, steps or indices, as integers; target shapes are left out."""
    found = (want for want in wants if want.kind == "counts" and want.dtype.kind in "iu")
    return [want for want in found if "target" not in want.role.flags]


def numbers_for(constants: Iterable[np.ndarray], dims: Iterable[int], elements: int) -> list[int]:
    """The counts to try: literals of the region and sizes of the run with their neighbours, then longer ones.

    elements: of all inputs of the run.
    """
    literals = [int(number) for array in constants for number in array.tolist() if float(number).is_integer()]
    beside = [number + by for number in (*literals, *dims) for by in (0, 1, -1)]
    most = min(_MAX_COUNT, _MADE // max(elements, 1))
    return [number for number in dict.fromkeys((*beside, *_LADDER)) if abs(number) <= most]


def turns_of(wants: Collection[InputSpec], sizes: Mapping[str, int], numbers: Sequence[int]) -> int:
    """The number of turns that put each number at each place."""
    return min(len(numbers) * sum(int(np.prod(want.shape(sizes))) for want in wants), MAX_TURNS)


def count(
    wants: Sequence[InputSpec], sizes: Mapping[str, int], numbers: Sequence[int], turn: int
) -> dict[str, np.ndarray]:
    """One number at one place among all of these inputs; the other places hold 1, or 0 where they may.

    Where parts have a fixed sum, the rest is spread over the other parts.
    """
    made = {want.name: np.full(want.shape(sizes), int("zero" not in want.role.flags)) for want in wants}
    places = [(want, place) for want in wants for place in range(made[want.name].size)]
    if places and numbers:
        want, place = places[turn % len(places)]
        number = numbers[turn // len(places) % len(numbers)]
        flat = made[want.name].reshape(-1)
        flat[place] = number
        total = known_size(want.role.whole, sizes)
        if total is not None and flat.size > 1:
            flat[:] = [(total - number) // (flat.size - 1)] * flat.size
            flat[place] = number
            flat[place - 1] += total - flat.sum()
    return {want.name: made[want.name].astype(want.dtype) for want in wants}
