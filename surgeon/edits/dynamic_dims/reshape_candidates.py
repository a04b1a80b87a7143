"""Candidate output shapes of a Reshape with a fixed target once an input size is dynamic.

A Reshape keeps the order of elements.  So an axis of the input has a certain position among the axes of the output: the
same number of elements is before it.  If the old size is 1, there may be several such positions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, product
from math import prod

from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, exact_quotient, substitute, symbols
from surgeon.shapes.algebra.size_expressions import product as times
from surgeon.shapes.op_rules.data_movement import reshaped
from surgeon.shapes.tensor_types import Shape

MAX_READINGS = 16
_PRIMES = (10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079, 10091, 10093, 10099, 10103)


def candidate_shapes(given: Shape, target: Sequence[Size], allow_zero: bool, free: Mapping[str, int]) -> list[Shape]:
    """Possible output shapes, the likeliest first; empty if the target cannot fit the input.

    given: shape of the input.  target: value of the shape input.  free: old sizes of the dynamic dims.
    """
    old = tuple(substitute(size, free) for size in given)
    wanted = [substitute(size, free) for size in target]
    before = [size for size in reshaped(old, wanted, allow_zero) if size is not None]
    if len(before) < len(wanted):
        return []
    now = tuple(size for size in reshaped(given, target, allow_zero) if size is not None)
    fits = len(now) == len(target) and times(now) == times(given)
    if fits and any(symbols(size) & free.keys() for size in target):
        return [now]  # the target is dynamic already
    placed = dict.fromkeys(islice(_assignments(given, old, before, free), MAX_READINGS))
    kept = [reading for reading in placed if _is_valid(reading, given, target, allow_zero)]
    if not kept:
        return [now] if len(now) == len(target) and (fits or -1 in target) else []
    exact = {old[axis] for axis in _dynamic_axes(given, free)}
    # A -1 of exactly the dynamic size needs no change.
    if now in kept and any(size == -1 and before[axis] in exact for axis, size in enumerate(target)):
        return [now, *(reading for reading in kept if reading != now)]
    return kept


def target_for(reading: Shape, given: Shape, allow_zero: bool, free: Mapping[str, int]) -> list[Size]:
    """The simplest target of an output shape: 0 for a size of the input, one -1, and numbers."""
    open_size = set(_dynamic_axes(reading, free))
    made: list[Size] = list(reading)
    if not allow_zero:
        for axis in sorted(open_size):
            if axis < len(given) and given[axis] == reading[axis]:
                made[axis] = 0
                open_size.discard(axis)
    if open_size and all(size != 0 for size in reading):
        made[max(open_size, key=lambda axis: (len(str(reading[axis])), axis))] = -1
    return made


def _dynamic_axes(shape: Shape, free: Mapping[str, int]) -> list[int]:
    """Axes whose size depends on a dynamic dim."""
    return [axis for axis, size in enumerate(shape) if symbols(size) & free.keys()]


def _is_valid(reading: Shape, given: Shape, target: Sequence[Size], allow_zero: bool) -> bool:
    """Whether a reading keeps the number of elements, and each 0 of the target copies the size of the input."""
    kept = not allow_zero
    zeros = [axis for axis, size in enumerate(target) if size == 0 and kept]
    return times(reading) == times(given) and all(reading[axis] == given[axis] for axis in zeros)


def _assignments(given: Shape, old: Shape, before: Sequence[Size], free: Mapping[str, int]) -> Iterator[Shape]:
    """The output shape for each assignment of dynamic input axes to output axes."""
    at = _as_numbers([*given, *before], free)
    widths, sizes = [at(size) for size in before], [at(size) for size in old]
    if prod(widths) != prod(sizes) or not all(widths):
        return
    starts = [1, *accumulate(sizes, lambda a, b: a * b)]
    places = _dynamic_axes(given, free)
    unit = all(size == 1 for size in free.values())
    options = [list(_candidate_axes(starts[axis], sizes[axis], widths, unit)) for axis in places]
    for chosen in product(*options):
        made: list[Size] = list(before)
        for axis, place in zip(places, chosen, strict=True):
            found = exact_quotient(made[place] * given[axis], old[axis])
            if found is None:
                break
            made[place] = found
        else:
            yield tuple(made)


def _candidate_axes(start: int, width: int, widths: Sequence[int], unit: bool) -> Iterator[int]:
    """Output axes that may take a dynamic input axis.  start: elements before it.  width: its size.  widths: output.

    unit: the old size is 1, so the axis may also be at the end of the output axis before or the start of the next.
    """
    ends = list(accumulate(widths, lambda a, b: a * b))
    begins = [end // own for end, own in zip(ends, widths, strict=True)]
    stop = start * width
    ones = [axis for axis, own in enumerate(widths) if own == 1]
    wide = [axis for axis, own in enumerate(widths) if own > 1]
    yield from (axis for axis in ones if begins[axis] == start)
    yield from (axis for axis in wide if begins[axis] < max(stop, start + 1) and ends[axis] > start)
    yield from (axis for axis in ones if start < begins[axis] <= stop)
    if unit:
        yield from (axis for axis in wide if ends[axis] == start)
        yield from (axis for axis in wide if begins[axis] == stop and stop > start + 1)


def _as_numbers(sizes: Sequence[Size], free: Mapping[str, int]) -> Callable[[Size], int]:
    """A function from sizes to numbers: dynamic dims have their old size, every other symbol its own prime."""
    other = sorted({name for size in sizes for name in symbols(size)} - free.keys())
    known = {**dict(zip(other, _PRIMES, strict=False)), **free}

    def at(size: Size) -> int:
        try:
            return evaluate(size, known)
        except SizeError:
            return 0

    return at
