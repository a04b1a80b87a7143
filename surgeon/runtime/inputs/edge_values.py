"""The edges of a float dtype: zeros, subnormal and huge numbers, infinity and NaN, rows that are constant or offset.

A proof on usual values does not cover them, and rewrites go wrong there: a square overflows, a variance is zero, a
comparison with NaN is false.
"""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

Shape = tuple[int, ...]
# The binary exponents of huge values, as parts of the largest exponent: more than 0.5, so that squares overflow, but
# not near 1, so that sums of some hundred values do not.
_HUGE = (0.55, 0.8)
_MIN_HUGE = 3  # elements, if there are as many
_PART = 1 / 4  # of the elements that may be huge, infinite or NaN are so
_TOP = 1 / 2  # the largest magnitude is within this many binary exponents of the largest number
_FEW = 4096  # elements: permuting so many is cheap
_SMALL = 1e-4  # its square is below the usual epsilons of variances, and far from subnormal
_SMALL_HALF = 2.0**-8  # for dtypes in which the square of _SMALL would be subnormal
_WHOLE, _WHOLE_HALF, _LONGEST = (-2, 47), (-2, 5), 16  # ranges of ordered integers
_FAINT = (0.42, 0.84)  # of the least normal exponent: squares of the first, and the second, are normal numbers
# Binary exponents of large values: the largest, the distance that it keeps from the dtype's largest (two values may be
# added), and the range that contains all of them.
_LOUD, _SPARED, _ALIKE = 18.0, 1.5, 0.2
_INFINITE = (np.inf, -np.inf, np.nan)
# Bits of the mantissa -> a mean that leaves few bits for the values around it.  In float16, sums of 256 products must
# not overflow: some kernels add in float16 and others do not, so a correct rewrite would look wrong.
_MEANS = ((20, 1e4), (10, 16.0), (7, 8.0), (0, 2.0))


def signed_zeros(shape: Shape, random: np.random.Generator) -> np.ndarray:
    """Zeros of both signs; a single zero is positive."""
    return np.where(_alternating(shape, random), -0.0, 0.0)


def _alternating(shape: Shape, random: np.random.Generator) -> np.ndarray:
    """True for half of the elements, in random order; for about half if there are very many."""
    if math.prod(shape) > _FEW:
        return np.asarray(random.random(shape, dtype=np.float32) < 1 / 2)
    return np.asarray(random.permutation(math.prod(shape)).reshape(shape) % 2 == 1)


def denormals(dtype: np.dtype, shape: Shape, random: np.random.Generator) -> np.ndarray:
    """Subnormal numbers of both signs; a quarter are zeros."""
    limits = ml_dtypes.finfo(dtype)
    least, bits = float(limits.smallest_subnormal), int(limits.nmant)
    steps = np.floor(np.exp2(random.uniform(0, bits, shape)))
    made = least * np.minimum(steps, 2**bits - 1) * np.where(_alternating(shape, random), -1.0, 1.0)
    # The first element stays: a tensor of only zeros belongs to another kind.
    zero = (random.random(shape) < _PART) & (np.arange(math.prod(shape)).reshape(shape) > 0)
    return np.where(zero, 0.0, made)


def huge_among_usual(dtype: np.dtype, shape: Shape, random: np.random.Generator) -> np.ndarray:
    """Usual values, with huge ones of alternating signs at the elements of `scattered_places`."""
    low, high = (part * float(ml_dtypes.finfo(dtype).maxexp) for part in _HUGE)
    places = scattered_places(shape, random)
    sign = np.where(_numbered(places) % 2, -1.0, 1.0)
    return np.where(places, sign * np.exp2(random.uniform(low, high, shape)), standard_normal(random, shape))


def non_finite_among_usual(
    shape: Shape, random: np.random.Generator, values: tuple[float, ...] = _INFINITE, *, apart: str = ""
) -> np.ndarray:
    """Usual values, with +inf, -inf and NaN (or `values`) in turn at the elements of `scattered_places`.

    apart: "rows" if each row (along the last axis) has only one of the values, because a NaN would hide the effect of a
    row of -inf on a Softmax.  "slices" if each slice along the first axis has one such element, because sums of several
    would turn infinity into NaN.  With fewer than three elements, all of them alternate.
    """
    apart = apart if math.prod(shape) >= _MIN_HUGE else ""
    places = lone_places(shape, random) if apart == "slices" else scattered_places(shape, random)
    number = _numbered(places)
    if apart == "rows":
        number = np.broadcast_to(_numbered(np.asarray(places.any(axis=-1)))[..., None], shape)
    return np.where(places, np.array(values)[number % len(values)], standard_normal(random, shape))


def _numbered(places: np.ndarray) -> np.ndarray:
    """Number the true elements from 0; the numbers of the others are meaningless."""
    return np.asarray((np.cumsum(places) - 1).reshape(places.shape))


def scattered_places(shape: Shape, random: np.random.Generator) -> np.ndarray:
    """Choose about a quarter of the elements, but none in the first slice of each axis that is longer than one.

    Results by row, batch or channel are then usual in that slice, which is the same in all inputs.  At least three
    elements are chosen, and one in every other row.  If fewer than three elements remain outside of that slice, all
    slices count.
    """
    if not shape or not math.prod(shape):
        return np.ones(shape, dtype=np.bool_)
    kept = [np.arange(int(size > 1), size) for size in shape]
    if math.prod([len(places) for places in kept]) < _MIN_HUGE <= math.prod(shape):
        kept = [np.arange(size) for size in shape]
    found = random.random(tuple(map(len, kept)), dtype=np.float32) < _PART
    rows = found.reshape(-1, found.shape[-1])
    rows[np.arange(len(rows)), random.integers(0, rows.shape[1], len(rows))] = True  # no row without one
    flat = found.reshape(-1)
    is_small = flat.size < _FEW
    flat[random.permutation(flat.size)[:_MIN_HUGE] if is_small else random.integers(0, flat.size, _MIN_HUGE)] = True
    places = np.zeros(shape, dtype=np.bool_)
    places[np.ix_(*kept)] = found
    return places


def lone_places(shape: Shape, random: np.random.Generator) -> np.ndarray:
    """One element in each slice along the first axis, except the last of several slices; in a vector, one element."""
    slices = shape[0] if len(shape) > 1 else 1
    places = np.zeros((slices, math.prod(shape) // slices), dtype=np.bool_)
    marked = np.arange(max(slices - 1, 1))
    places[marked, random.integers(0, places.shape[1], len(marked))] = True
    return places.reshape(shape)


def constant_rows(shape: Shape, random: np.random.Generator, *, many: bool) -> np.ndarray:
    """Values that are constant along the last axis; many: along all axes but the first.  A vector is constant."""
    return np.broadcast_to(standard_normal(random, _one_each(shape, many)), shape)


def _one_each(shape: Shape, many: bool) -> Shape:
    """The shape with one number for each row along the last axis; many: along all axes but the first."""
    kept = min(1, max(len(shape) - 1, 0)) if many else max(len(shape) - 1, 0)
    return shape[:kept] + (1,) * (len(shape) - kept)


def offset(dtype: np.dtype, shape: Shape, sign: int, random: np.random.Generator) -> np.ndarray:
    """Usual values around a large mean of this sign."""
    mean = next(mean for bits, mean in _MEANS if ml_dtypes.finfo(dtype).nmant >= bits)
    return standard_normal(random, shape) + sign * mean


def small(dtype: np.dtype, shape: Shape, random: np.random.Generator) -> np.ndarray:
    """Usual values, scaled so that their squares are at most about the epsilon of a variance."""
    return standard_normal(random, shape) * (_SMALL if float(ml_dtypes.finfo(dtype).tiny) < _SMALL**2 else _SMALL_HALF)


def ordered_rows(dtype: np.dtype, shape: Shape, first: int, random: np.random.Generator) -> np.ndarray:
    """Rows of one form each, starting with form `first`: a rule may be correct only for unordered numbers."""
    made = np.asarray(standard_normal(random, shape))
    ends = _WHOLE if ml_dtypes.finfo(dtype).maxexp > _LONGEST else _WHOLE_HALF
    long = shape[-1] if shape else 1
    forms: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
        lambda rows: np.floor(np.linspace(*ends, long)),
        lambda rows: (np.abs(rows) + 1) / (np.abs(rows) + 1).sum(axis=-1, keepdims=True),
        lambda rows: np.arange(long) == random.integers(long, size=(len(rows), 1)),
        lambda rows: np.sort(rows)[:, ::-1],
        np.sort,
        np.ones_like,
        lambda rows: rows[:, np.arange(long) // 2],
    )
    listed = made.reshape(-1, long) if made.size else made.reshape(0, 1)
    for place, form in enumerate(forms):
        rows = listed[(place - first) % len(forms) :: len(forms)]
        rows[:] = form(rows) if rows.size else rows
    return made


def all_magnitudes(
    dtype: np.dtype, shape: Shape, random: np.random.Generator, *, flip: int = 0, part: float = 1.0, top: float = 1.0
) -> np.ndarray:
    """Normal numbers of all exponents: one from each of as many equal intervals as elements, the last near its end.

    Signs alternate from interval to interval; `flip` swaps them.  part: the share of exponents to use, those nearest to
    zero; top: the share of the exponents above zero.
    """
    limits = ml_dtypes.finfo(dtype)
    least, most = part * int(limits.minexp), part * top * (int(limits.maxexp) - 1)
    count = math.prod(shape)
    turn = random.permutation(count)
    places = (turn + random.random(count)) / max(count, 1)
    places[turn == count - 1] = 1 - _TOP * random.random() / (most - least)
    made = np.exp2(least + (most - least) * places) * np.where((turn + flip) % 2, -1.0, 1.0)
    return np.asarray(made.reshape(shape))


def row_magnitudes(
    dtype: np.dtype, shape: Shape, random: np.random.Generator, *, many: bool, part: float = 1.0
) -> np.ndarray:
    """Usual numbers, each row times one of `all_magnitudes`, but not so large that sums overflow."""
    magnitudes = np.abs(all_magnitudes(dtype, _one_each(shape, many), random, part=part, top=_HUGE[1]))
    return np.asarray(standard_normal(random, shape) * magnitudes)


def tiny(dtype: np.dtype, shape: Shape, random: np.random.Generator) -> np.ndarray:
    """Usual values times one of two tiny factors, in turn along the first axis."""
    factors = np.exp2(np.array(_FAINT) * int(ml_dtypes.finfo(dtype).minexp))
    first = np.arange(shape[0] if shape else 1)
    each = factors[first % len(factors)]
    return np.asarray(standard_normal(random, shape) * each.reshape((-1, *(1,) * (len(shape) - 1)) if shape else ()))


def uniform_large(dtype: np.dtype, shape: Shape, random: np.random.Generator) -> np.ndarray:
    """Numbers of about one large magnitude; signs alternate along the last axis, equally in all inputs."""
    top = min(_LOUD, float(ml_dtypes.finfo(dtype).maxexp) - _SPARED)
    sign = np.where(np.arange(shape[-1] if shape else 1) % 2, -1.0, 1.0).reshape(shape[-1:])
    return np.asarray(sign * np.exp2(random.uniform(top - _ALIKE, top, shape)))


def zeros_and_ones(shape: Shape, random: np.random.Generator) -> np.ndarray:
    """Zeros and ones at random; if there are several rows along the last axis, the first is zeros."""
    made = random.integers(0, 2, shape).astype(np.float64)
    if len(shape) > 1 and made.size:
        made.reshape(-1, shape[-1])[0] = 0.0
    return made


def standard_normal(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Numbers of normal(0, 1); large arrays in single precision, which takes half the time."""
    return random.standard_normal(shape, dtype=np.float32 if math.prod(shape) > _FEW else np.float64)
