"""Values for inputs that are counts: the literals of the region, their neighbours, and longer ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

import numpy as np

from surgeon.runtime.inputs.input_spec import InputSpec
from surgeon.shapes.constraints.input_dims import known_size

_LADDER = (0, 9, 17, 33, 65, 129, 257)  # beyond each power of two that a kernel may compare a count with
MAX_REPEATED = 1 << 22  # elements of a tensor that is repeated by a count, up to which the count is tried
_MAX_CASES = 64  # of one number at one place: a shape of four places has 16 numbers then


def countable(specs: Iterable[InputSpec]) -> list[InputSpec]:
    """The inputs that are counts, steps or indices, as integers; target shapes are left out."""
    found = (spec for spec in specs if spec.kind == "counts" and spec.dtype.kind in "iu")
    return [spec for spec in found if "target" not in spec.role.flags]


def numbers_for(literals: Iterable[float], dims: Iterable[int], elements: int) -> list[int]:
    """The counts to try: literals of the region and sizes of the run with their neighbours, then longer ones.

    elements: of all inputs of the run.
    """
    integers = [int(number) for number in literals if number.is_integer()]
    beside = [number + by for number in (*integers, *dims) for by in (0, 1, -1)]
    found = dict.fromkeys((*beside, *_LADDER))
    return [number for number in found if abs(number) * elements <= MAX_REPEATED]


def each_count(
    specs: Sequence[InputSpec], sizes: Mapping[str, int], numbers: Sequence[int]
) -> Iterator[dict[str, np.ndarray]]:
    """Each number at each place among all of these inputs; the other places hold 1, or 0 if they may.

    If parts have a fixed sum, the rest is spread over the other parts.
    """
    usual = {spec.name: np.full(spec.shape(sizes), int("zero" not in spec.role.flags)) for spec in specs}
    places = [(spec, place) for spec in specs for place in range(usual[spec.name].size)]
    for number, (spec, place) in islice(product(numbers, places), _MAX_CASES):
        made = {name: array.copy() for name, array in usual.items()}
        flat = made[spec.name].reshape(-1)
        flat[place] = number
        total = known_size(spec.role.whole, sizes)
        if total is not None and flat.size > 1:
            flat[:] = [(total - number) // (flat.size - 1)] * flat.size
            flat[place] = number
            flat[place - 1] += total - flat.sum()
        yield {other.name: made[other.name].astype(other.dtype) for other in specs}
