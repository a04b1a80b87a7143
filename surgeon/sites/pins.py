"""Values at which a region turns: the numbers that its own constants speak of, and halves, where rounding ties."""

from collections.abc import Collection, Mapping, Sequence

import ml_dtypes
import numpy as np
from onnx import TensorProto, numpy_helper

from surgeon.inputs.inputs import InputPlan

HALVES = (0.5, -0.5, 1.5, 2.5)
MOST = 24  # different numbers
LARGE_PIN = 1e4  # of larger numbers the products of a few may leave float16
PART = 2  # at least every other element stays as it is


def sprinkle(
    feeds: dict[str, np.ndarray],
    plan: InputPlan,
    constants: Mapping[str, TensorProto],
    seed: int,
    *,
    most: float = np.inf,
    small: Collection[str] = (),
    ties: bool = False,
) -> None:
    """Put the scalars among the constants, and halves, at random places of the inputs that may hold any number.

    ties: in their place what lies halfway between two steps, if a scalar is the step of a rounding, both for what
    divides by it and for what multiplies: a half of it is as exact as itself, so that the rounding alone decides there.
    Indices are given what the region itself speaks of, as far as their table goes.

    An input of one element holds one of them.  feeds: the inputs by name, replaced in place.  most: the
    largest magnitude; with one, NaN is left out too.  small: constants of whose numbers none that is large is put:
    those that the replacement alone has, as it overflows in one order of factors and not in another, and indices and
    sizes, whose largest mean "to the end".
    """
    numbers = [
        float(number)
        for name, tensor in constants.items()
        for number in _scalars(tensor)
        if name not in small or abs(number) <= LARGE_PIN
    ]
    if most < np.inf:
        numbers = [number for number in numbers if abs(number) <= most]
    steps = [number for number in numbers if number and np.isfinite(number)]
    between = [tie for step in steps for half in HALVES[:2] for tie in (half * step, half / step)]
    random = np.random.default_rng(seed)
    for want in plan.wants:
        if want.kind == "indices" and feeds[want.name].size:
            _point(feeds, want.name, numbers, random)
            continue
        is_float, is_whole = want.name in plan.edged, want.free and want.dtype.kind in "iu"
        if not is_float and not is_whole:
            continue
        spoken = between if ties else [*numbers, *HALVES]
        pins = [*dict.fromkeys(spoken if is_float else numbers)][:MOST]
        fitting = [pin for pin in pins if (is_float or pin.is_integer()) and _fits(pin, want.dtype)]
        flat = feeds[want.name].reshape(-1).copy()
        count = min(max(flat.size // PART, 1), len(fitting), flat.size)
        places = random.choice(flat.size, count, replace=False) if count else ()
        for place, pin in zip(places, fitting, strict=False):
            flat[place] = pin
        feeds[want.name] = flat.reshape(feeds[want.name].shape)


def _point(feeds: dict[str, np.ndarray], name: str, numbers: Sequence[float], random: np.random.Generator) -> None:
    """Put whole numbers into indices, none beyond the largest that is there."""
    flat = feeds[name].reshape(-1).copy()
    fitting = [int(number) for number in numbers if float(number).is_integer() and 0 <= number <= flat.max()]
    for place, number in zip(random.permutation(flat.size), dict.fromkeys(fitting), strict=False):
        flat[place] = number
    feeds[name] = flat.reshape(feeds[name].shape)


def _scalars(tensor: TensorProto) -> np.ndarray:
    """The number of a constant of one element, as an array; empty for others and for what is no number."""
    if int(np.prod(tensor.dims)) != 1 or tensor.data_type in (TensorProto.STRING, TensorProto.BOOL):
        return np.empty(0)
    array = numpy_helper.to_array(tensor)
    return np.empty(0) if array.dtype.kind == "c" else array.reshape(-1).astype(np.float64)


def _fits(number: float, dtype: np.dtype) -> bool:
    """Whether a dtype holds a number; float16 holds no -3.4e38, as masks in float32 do."""
    if dtype.kind in "iu":  # compared as whole numbers: as a float, the largest int64 is one too large
        return bool(np.iinfo(dtype).min <= int(number) <= np.iinfo(dtype).max)
    limits = ml_dtypes.finfo(dtype)
    return not np.isfinite(number) or bool(float(limits.min) <= number <= float(limits.max))
