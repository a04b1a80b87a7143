"""Literals of a region and thresholds, put into generated inputs."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import ml_dtypes
import numpy as np

from surgeon.runtime.inputs.input_spec import InputSpec

Feeds = dict[str, np.ndarray]
GRID = tuple(sign * part for sign in (1, -1) for part in (0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4))  # sums have few bits
HALVES = tuple(number for number in GRID if number % 1 == 1 / 2)  # rounding takes either side
CLOSE = 2  # ratio of two constants up to which a number between them is tried
BESIDE = (1 + 1 / 64, 1 - 1 / 64)  # factors on a constant: a function with a branch there shows it near it
AROUND = (1, 1 + 2.0**-16, 1 - 2.0**-16)  # factors on a threshold: equal in half precision
LARGE_LITERAL = 1e4  # products of a few larger numbers may overflow float16
LARGE_WIDE_LITERAL = 1e12  # the same for float32
MAX_LITERALS = 32  # of one input in one case
LITERAL_SPACING = 2  # elements per literal: the others stay usual
ROOM = MAX_LITERALS * LITERAL_SPACING  # elements that hold all of them
ROOMY_LITERAL = 1 << 8  # larger numbers would hide faults at other sizes
# For a rule that intends to differ for a kind of inputs, larger literals would turn usual inputs into that kind.
LITERAL_LIMITS = (
    ("wide", max(GRID)),
    ("large", 2.0**6),
    ("extreme", float(np.nextafter(LARGE_LITERAL, 0))),  # which hides scores
    ("non_finite", float(np.finfo(np.float64).max)),
)


class LiteralValues(NamedTuple):
    """Numbers to put into inputs, from the scalar constants of a region."""

    numbers: list[float]
    """The scalars, without large ones of constants in `small`, for floats."""
    counted: list[float]
    """The same for integers, whose limit is lower."""
    floats: list[float]
    """Numbers for float inputs."""
    integers: list[float]
    """Numbers for integer inputs."""
    compared: list[float]
    """Numbers for integer inputs that are compared with something."""
    edges: int = 0
    """How many of the first of `floats`, `integers` and `compared` reach a comparison exactly, or are next to it."""


def inject_into(
    array: np.ndarray,
    want: InputSpec,
    values: LiteralValues,
    random: np.random.Generator,
    *,
    place: int,
    number: int,
    ties: bool = False,
    out_of_role: bool = False,
) -> np.ndarray:
    """The values of one input with literals of the region at random positions; the same if it may hold none.

    Float inputs get literals, halves, and numbers between and near literals.  Integer inputs get integer literals and
    their neighbours; those that are compared get all scalars first.  Lengths that are only compared get thresholds.
    Indices get literals up to the end of their table.

    With `ties`, float inputs get numbers halfway between two steps of a rounding instead, for a division and for a
    multiplication by the step; half a step is exact, so that only the rounding decides.  Beside them come numbers with
    few digits, whose products, quotients and sums are ties too, and the literals themselves, so that several inputs
    reach theirs at once.

    place: of the input among all.  number: literals that find no room come with the next number.  out_of_role: only
    for inputs that leave their role.
    """
    if out_of_role and not want.may_ignore_role:
        return array
    if want.kind == "indices" and array.size:
        return _point(array, values.counted, random)
    is_whole = want.dtype.kind in "iu" and (
        out_of_role or want.is_compared_length or (want.is_unconstrained and want.kind != "lengths")
    )
    is_float = not is_whole if out_of_role else want.takes_edge_values
    if not is_float and not is_whole:
        return array
    is_compared = is_whole and want.kind == "compared"
    literals = values.floats if is_float else [*(values.compared if is_compared else ()), *values.integers]
    if is_whole and want.is_compared_length and not out_of_role:
        literals = [literal for literal in literals[: values.edges] if literal > 0]
    literals = [*dict.fromkeys(literals)][: MAX_LITERALS + values.edges]
    fitting = [literal for literal in literals if (is_float or literal.is_integer()) and _fits(literal, want.dtype)]
    flat = array.reshape(-1).copy()
    room = np.arange(flat.size)
    if ties and is_float:
        own = [number for number in values.numbers if 1 / ROOMY_LITERAL <= abs(number) <= ROOMY_LITERAL] or GRID
        flat[::2] = random.choice(GRID, room[::2].size)
        flat[1::2] = _digits(own, place, room[1::2].size, number)
        room = room[::2]
    elif ties and fitting and is_compared:
        flat[:] = _digits(fitting, place, flat.size, number)
    count = min(max((flat.size + is_whole) // LITERAL_SPACING, 1), len(fitting), room.size)
    places = random.choice(room, count, replace=False) if count else ()
    # Different literals in each case and each input.  Three floats lie close together: two inputs must not hold
    # them at once, because a swap of the two would not show.
    first = number + place * (len(AROUND) if is_float else 1)
    for next_literal, at in enumerate(places, first * count):
        flat[at] = fitting[next_literal % len(fitting)]
    return flat.reshape(array.shape)


def literal_values(
    constants: Mapping[str, np.ndarray],
    edges: Sequence[float],
    *,
    small: Collection[str],
    most: float,
    half: bool,
    ties: bool,
) -> LiteralValues:
    """The numbers to put into inputs.

    constants: the numbers of the region, by name.  edges: input values that reach a threshold; all of them come first,
    with their neighbours.  most: the largest magnitude; with one, NaN is left out too.  small: constants whose large
    numbers are left out: those of the replacement only, because it may overflow in one order of factors and not in
    another, and indices and sizes, whose largest number means "to the end".  half: whether the model computes in
    float16.  ties: numbers halfway between two steps in place of the literals.
    """
    large = LARGE_LITERAL if half else LARGE_WIDE_LITERAL
    scalars = [(name, float(number)) for name, numbers in constants.items() for number in numbers]
    within = [(name, number) for name, number in scalars if most == np.inf or abs(number) <= most]
    numbers, counted = (
        [number for name, number in within if name not in small or abs(number) <= limit]
        for limit in (large, LARGE_LITERAL)
    )
    steps = [number for number in numbers if number and np.isfinite(number)]
    between = [tie for step in steps for half in (1 / 2, -1 / 2) for tie in (half * step, half / step)]
    pairs = pairwise(sorted(set(steps)))
    inside = [(low + high) / 2 for low, high in pairs if 1 / CLOSE <= low / high <= CLOSE]
    inside += [step * part for step in steps if abs(step) <= large for part in BESIDE]
    beside = [number + by for number in counted if number and number.is_integer() for by in (-1, 1)]
    met = [number for number in edges if abs(number) <= min(most, large)]
    near = [number * part for number in met for part in AROUND]
    whole = [float(int(number) + by) for number in met for by in (0, 1, -1)]
    return LiteralValues(
        numbers,
        counted,
        floats=[*near, *(between if ties else [*numbers, *HALVES, *inside])],
        integers=[*whole, *([*beside, *counted] if ties else [*counted, *beside])],
        compared=[*whole, *(number for _, number in scalars)],
        edges=len(near),
    )


def _digits(numbers: Sequence[float], place: int, size: int, case: int) -> np.ndarray:
    """Numbers for the input at `place`, so that all inputs together count through the combinations.

    The index of each element is a number with one digit per input, and the next case goes on.
    """
    counted = np.arange(case * size, (case + 1) * size)
    steps = min(len(numbers) ** place, (case + 1) * size + 1)  # beyond the last index all have one digit
    made: np.ndarray = np.asarray(numbers)[counted // steps % len(numbers)]
    return made


def injections_needed(constants: Mapping[str, np.ndarray], edges: int, elements: int) -> int:
    """The approximate number of cases until an input of this many elements has held all numbers.

    edges: how many input values reach a threshold.
    """
    scalars = sum(numbers.size for numbers in constants.values())
    literals = min(len(HALVES) * (scalars + 1), MAX_LITERALS) + len(AROUND) * edges
    return min(-(-literals // max(elements // LITERAL_SPACING, 1)), MAX_LITERALS)


def _point(array: np.ndarray, numbers: Sequence[float], random: np.random.Generator) -> np.ndarray:
    """Indices with integers put into them, none beyond the largest index."""
    flat = array.reshape(-1).copy()
    fitting = [int(number) for number in numbers if float(number).is_integer() and 0 <= number <= flat.max()]
    for place, number in zip(random.permutation(flat.size), dict.fromkeys(fitting), strict=False):
        flat[place] = number
    return flat.reshape(array.shape)


def _fits(number: float, dtype: np.dtype) -> bool:
    """Whether a dtype can hold a number; float16 cannot hold -3.4e38, the fill of masks in float32."""
    if dtype.kind in "iu":  # compared as integers: as a float, the largest int64 is one too large
        return bool(np.iinfo(dtype).min <= int(number) <= np.iinfo(dtype).max)
    limits = ml_dtypes.finfo(dtype)
    return not np.isfinite(number) or bool(float(limits.min) <= number <= float(limits.max))
