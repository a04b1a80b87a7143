"""Numbers put into inputs that are made already: those of which a region speaks, and those that two inputs share."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import ml_dtypes
import numpy as np

from surgeon.proof.cases.value_strategies import MOST_PINS, PART_OF_PINS, PART_OF_TWINS, VARIANT_STRIDE
from surgeon.runtime.inputs.input_generator import InputGenerator, ValueKind

Feeds = dict[str, np.ndarray]
HALVES = (0.5, -0.5, 1.5, 2.5)
GRID = tuple(sign * part for sign in (1, -1) for part in (0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4))
CLOSE = 2  # how many times one of two constants may be the other, that there is something between them
BESIDE = (1 + 1 / 64, 1 - 1 / 64)  # times a constant: where a function that has another branch from there on shows it
AROUND = (1, 1 + 2.0**-16, 1 - 2.0**-16)  # times what something is compared with: half of the bits do not tell it
ONE_BESIDE = (0, 1, -1)  # the same added, of integers
LARGE_PIN = 1e4  # of larger numbers the products of a few may leave float16
LARGE_WIDE_PIN = 1e12  # and float32
BEYOND = 1 << 62  # any number of elements
MOST_PIN_TURNS = 32  # in which inputs of few elements meet what they are to meet
ROOMY_PIN = 1 << 8  # what is larger would hide what other sizes are to tell
# For a rule that differs for inputs of a kind, numbers that are larger would make usual inputs ones of that kind.
PINS_WITHIN = (
    (ValueKind.WIDE, max(GRID)),
    (ValueKind.LARGE, 2.0**6),
    (ValueKind.EXTREME, float(np.nextafter(LARGE_PIN, 0))),  # which itself hides scores
    (ValueKind.NON_FINITE, float(np.finfo(np.float64).max)),
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
    """How many of the first of `floats`, `integers` and `compared` reach a comparison exactly, or lie beside it."""


def inject_literals(
    feeds: Feeds,
    plan: InputGenerator,
    constants: Mapping[str, np.ndarray],
    seed: int,
    *,
    edges: Sequence[float] = (),
    most: float = np.inf,
    small: Collection[str] = (),
    ties: bool = False,
    out_of_role: bool = False,
) -> None:
    """Put the scalars among the constants, halves, what is between two that lie close together, and what is beside each
    at random places of the inputs that may hold any number.

    ties: in their place what lies halfway between two steps, if a scalar is the step of a rounding, both for what
    divides by it and for what multiplies: a half of it is as exact as itself, so that the rounding alone decides there.
    Beside them are few numbers with few digits, whose products, quotients and sums lie halfway too, or are equal, and
    the scalars themselves, for several inputs to meet theirs at once; of integers that are compared, these alone.
    Integers are given those of the scalars that are whole, and those one beside; all scalars first, where constants are
    compared with them; lengths that are compared alone are given what they are compared with.  Indices are given what
    the region itself speaks of, as far as their table goes.

    Of those for which there is no room, others come each time that the seed is `VARIANT_STRIDE` further.

    feeds: the inputs by name, replaced in place.  constants: their numbers, by name.  edges: what inputs have to be for
    something to be what it is compared with; these and what is beside them come first, all of them.  most: the largest
    magnitude; with one, NaN is left out too.  small: constants of whose numbers none that is large is put: those that
    the replacement alone has, as it overflows in one order of factors and not in another, and indices and sizes, whose
    largest mean "to the end".  out_of_role: into those inputs alone that leave their role.
    """
    large = LARGE_PIN if any(want.half for want in plan.wants) else LARGE_WIDE_PIN
    spoken = _spoken(constants, edges, small, most=most, large=large, ties=ties)
    random, turn = np.random.default_rng(seed), seed // VARIANT_STRIDE
    for place, want in enumerate(plan.wants):
        if out_of_role and not want.may_ignore_role:
            continue
        if want.kind == "indices" and feeds[want.name].size:
            _point(feeds, want.name, spoken.counted, random)
            continue
        is_whole = want.dtype.kind in "iu" and (
            out_of_role or want.is_compared_length or (want.is_unconstrained and want.kind != "lengths")
        )
        is_float = not is_whole if out_of_role else want.name in plan.edged
        if not is_float and not is_whole:
            continue
        is_compared = is_whole and want.kind == "compared"
        pins = spoken.floats if is_float else [*(spoken.compared if is_compared else ()), *spoken.integers]
        if is_whole and want.is_compared_length and not out_of_role:
            pins = [pin for pin in pins[: spoken.edges] if pin > 0]
        pins = [*dict.fromkeys(pins)][: MOST_PINS + spoken.edges]
        fitting = [pin for pin in pins if (is_float or pin.is_integer()) and _fits(pin, want.dtype)]
        flat = feeds[want.name].reshape(-1).copy()
        room = np.arange(flat.size)
        if ties and is_float:
            own = [number for number in spoken.numbers if 1 / ROOMY_PIN <= abs(number) <= ROOMY_PIN] or GRID
            flat[::2] = random.choice(GRID, room[::2].size)
            flat[1::2] = _digits(own, place, room[1::2].size, turn)
            room = room[::2]
        elif ties and fitting and is_compared:
            flat[:] = _digits(fitting, place, flat.size, turn)
        count = min(max((flat.size + is_whole) // PART_OF_PINS, 1), len(fitting), room.size)
        places = random.choice(room, count, replace=False) if count else ()
        # Others each time, and in each input: where there is room for few, all are met in turn.  Of floats three lie
        # close together, which two inputs are not to hold at once: nobody would see which of them was chosen.
        first = turn + place * (len(AROUND) if is_float else 1)
        for number, at in enumerate(places, first * count):
            flat[at] = fitting[number % len(fitting)]
        feeds[want.name] = flat.reshape(feeds[want.name].shape)


def _spoken(
    constants: Mapping[str, np.ndarray],
    edges: Sequence[float],
    small: Collection[str],
    most: float,
    large: float,
    *,
    ties: bool,
) -> LiteralValues:
    """What scalars speak of, for floats none above `large` of the constants that are to be small."""
    scalars = [(name, float(number)) for name, numbers in constants.items() for number in numbers]
    within = [(name, number) for name, number in scalars if most == np.inf or abs(number) <= most]
    numbers, counted = (
        [number for name, number in within if name not in small or abs(number) <= limit] for limit in (large, LARGE_PIN)
    )
    steps = [number for number in numbers if number and np.isfinite(number)]
    between = [tie for step in steps for half in HALVES[:2] for tie in (half * step, half / step)]
    pairs = pairwise(sorted(set(steps)))
    inside = [(low + high) / 2 for low, high in pairs if 1 / CLOSE <= low / high <= CLOSE]
    inside += [step * part for step in steps if abs(step) <= large for part in BESIDE]
    beside = [number + by for number in counted if number and number.is_integer() for by in (-1, 1)]
    met = [number for number in edges if abs(number) <= min(most, large)]
    near = [number * part for number in met for part in AROUND]
    whole = [float(int(number) + by) for number in met for by in ONE_BESIDE]
    return LiteralValues(
        numbers,
        counted,
        floats=[*near, *(between if ties else [*numbers, *HALVES, *inside])],
        integers=[*whole, *([*beside, *counted] if ties else [*counted, *beside])],
        compared=[*whole, *(number for _, number in scalars)],
        edges=len(near),
    )


def _digits(numbers: Sequence[float], place: int, size: int, turn: int) -> np.ndarray:
    """Numbers for the input at a place among others, by which all of the inputs count through what they can hold.

    Each place of a tensor is a number of as many digits as there are inputs, and the next turn goes on.
    """
    counted = np.arange(turn * size, (turn + 1) * size)
    made: np.ndarray = np.asarray(numbers)[counted // min(len(numbers) ** place, BEYOND) % len(numbers)]
    return made


def injections_needed(constants: Mapping[str, np.ndarray], edges: int, elements: int) -> int:
    """About how often `inject_literals` has to put numbers into an input of so many elements for it to meet them all.

    edges: how many numbers there are for inputs to be, to be what something is compared with.
    """
    scalars = sum(numbers.size for numbers in constants.values())
    pins = min(len(HALVES) * (scalars + 1), MOST_PINS) + len(AROUND) * edges
    return min(-(-pins // max(elements // PART_OF_PINS, 1)), MOST_PIN_TURNS)


def _point(feeds: Feeds, name: str, numbers: Sequence[float], random: np.random.Generator) -> None:
    """Put whole numbers into indices, none beyond the largest that is there."""
    flat = feeds[name].reshape(-1).copy()
    fitting = [int(number) for number in numbers if float(number).is_integer() and 0 <= number <= flat.max()]
    for place, number in zip(random.permutation(flat.size), dict.fromkeys(fitting), strict=False):
        flat[place] = number
    feeds[name] = flat.reshape(feeds[name].shape)


def inject_equal_values(feeds: Feeds, plan: InputGenerator, seed: int, *, opposed: bool = False) -> None:
    """Put numbers of one input where another of its dtype meets them, broadcast, where both may hold any.

    opposed: infinities alone, of the other sign.
    """
    random = np.random.default_rng(seed)
    free = [want.name for want in plan.wants if want.is_unconstrained and want.kind == "plain" and want.name in feeds]
    for pair in pairwise(free):
        one, other = sorted(pair, key=lambda name: feeds[name].size)
        to = feeds[other]
        if _spreads(feeds[one].shape, to.shape) and feeds[one].dtype == to.dtype and to.size:
            from_ = np.broadcast_to(feeds[one], to.shape)
            places = random.random(to.shape) < PART_OF_TWINS
            fitting = np.flatnonzero(np.isinf(from_)) if opposed else np.arange(to.size)
            if fitting.size:
                places.reshape(-1)[random.choice(fitting)] = True
            feeds[other] = np.where(places & np.isinf(from_), -from_, to) if opposed else np.where(places, from_, to)


def nan_first(feeds: Feeds, names: Collection[str]) -> None:
    """Make the first slice of the inputs of most axes NaN: a row throughout, or the first of each column.

    Kernels that pick the largest of a row see NaN there, wherever their registers begin, and of others not all.
    """
    axes = max((feeds[name].ndim for name in names), default=0)
    for name in names:
        if feeds[name].ndim == axes > 0:
            feeds[name] = feeds[name].copy()
            feeds[name][:1] = np.nan


def with_zeros(feeds: Feeds, beside: Sequence[np.ndarray]) -> Feeds:
    """The same with zeros where another array of the shape is not finite, every other time."""
    made = {name: array.copy() for name, array in feeds.items()}
    for array in made.values():
        for other in beside:
            if other.shape == array.shape:
                array.reshape(-1)[np.flatnonzero(~np.isfinite(other))[::2]] = 0
    return made


def _spreads(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _fits(number: float, dtype: np.dtype) -> bool:
    """Whether a dtype holds a number; float16 holds no -3.4e38, as masks in float32 do."""
    if dtype.kind in "iu":  # compared as whole numbers: as a float, the largest int64 is one too large
        return bool(np.iinfo(dtype).min <= int(number) <= np.iinfo(dtype).max)
    limits = ml_dtypes.finfo(dtype)
    return not np.isfinite(number) or bool(float(limits.min) <= number <= float(limits.max))
