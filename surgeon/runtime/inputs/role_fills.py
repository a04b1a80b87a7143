"""Fills for integers and for inputs with a role: masks, indices, counts, lengths, positions, boxes, strings."""

import math
from collections.abc import Callable, Sequence
from functools import reduce

import ml_dtypes
import numpy as np

from surgeon.analysis.input_roles import IndexLimit
from surgeon.runtime.inputs.edge_values import standard_normal
from surgeon.runtime.inputs.fill import Blank, Fill
from surgeon.runtime.inputs.string_values import in_turn
from surgeon.shapes.constraints.input_dims import dim_kind, known_size

_SMALL = 10  # usual integers are below
_WITHOUT_TABLE = 2  # rows of a table of unknown size: an index is 0 or 1
_FURTHEST = 100  # positions that do not index a table start below it
_WIDEST = 64.0  # pixels of a box
_BESIDE_PIXEL = 2.0**-10  # a box does not start at an edge of a pixel, where rounding decides
_OVERLAPS = (0.2, 0.8)  # range of the overlap thresholds of detectors
_MAX_TRIPS = 16  # trips of a loop that continues while a value is below a length
_MIXED_BITS = 0x6996_9669_9669_6997  # Thue-Morse, so that halves differ; odd, so that a float loses a bit
_NEAR_END = 32  # each smaller divisor has a multiple within this distance of the dtype's end
_HIDDEN = 0.4  # hidden part of a mask
SPREAD = 4.0  # factor of usual numbers that become integers in floats
HIDING = (None, -np.inf, -1e4)
"""Numbers that hide a score: the lowest number of the dtype (None), -infinity, the -1e4 of BERT."""
# Counts and steps, start indices, and target shapes: forward by few and many, backward, and beyond an axis.
_COUNTS = ((1, 3, 2, 4), (3, 1, 0, 2), (-1, -2, 1, 0), (5, 4, 7, 6), (-4, -3, -5, -6))
_PLACES = ((1, 2), (-1, -2), (2, 0), (-2, 1), (-1, -2))  # start indices
_TARGETS = ((1, -1, 1), (0, -1), (-1, 2, 1), (2, -1))  # each has one inferred size
COUNTED = len(_COUNTS)
NEGATIVE_COUNTS = (2, 4)
"""Rows of `_COUNTS` that count from the end: by a few steps, and by all."""
SOME_TRIPS = (2, 3, 0, 7)
"""Trips of a loop: usual numbers, none, and more than the steps that exporters unroll."""


def _with_pins(made: np.ndarray, pins: Sequence[float], random: np.random.Generator) -> np.ndarray:
    """Put each number at a random index, as far as there is room."""
    flat = np.asarray(made).reshape(-1).copy()
    places = random.permutation(flat.size)[: len(pins)]
    flat[places] = list(pins)[: places.size]
    return flat.reshape(np.shape(made))


def _size(blank: Blank, size: int | str | None) -> int:
    """A size of a role, 0 if unknown."""
    return known_size(size, blank.sizes) or 0


def _rows(blank: Blank, limit: IndexLimit) -> np.ndarray:
    """The number of rows of a table, 0 if unknown; for a multi-axis index, the size of each axis."""
    sizes = [_size(blank, size) for size in (limit.table, *limit.beside)]
    parts = _size(blank, limit.parts) or 1
    own = np.array(sizes[:parts])
    is_apart = 1 < parts == len(own) and blank.shape[-1:] == (parts,)
    return own if is_apart else np.asarray(own[own > 0].min(initial=max(own)))


def index_range(blank: Blank) -> tuple[int, np.ndarray]:
    """The lowest index, and the end of the range of each part of an index, valid for every table that it indexes."""
    low, tops = 0, list[np.ndarray]()
    for limit in blank.spec.role.limits:
        shift = limit.shift + sum(_size(blank, size) for size in limit.sizes)
        rows = _rows(blank, limit)
        if rows.any():
            tops.append(np.maximum(rows - max(shift, 0), 1))
            low = max(low, -shift)
    return low, np.maximum(reduce(np.minimum, tops or [np.asarray(_WITHOUT_TABLE)]), low + 1)


def _indices(blank: Blank) -> np.ndarray:
    """Indices of every row of a small table, or random ones with both ends; inputs named as positions rise from 0."""
    low, within = index_range(blank)
    if blank.spec.is_position and not low:
        return _positions(blank)
    high, random = int(within.min()), blank.random
    made = random.integers(low, within, blank.shape)
    if made.size >= high - low > 2 and not within.ndim:
        made.reshape(-1)[: high - low] = np.arange(low, high)
        return np.asarray(random.permutation(made.reshape(-1)).reshape(blank.shape))
    return _with_pins(made, [high - 1, low], random)


def _between(blank: Blank) -> np.ndarray:
    """Random indices within their tables: elements after a single index must exist."""
    low, within = index_range(blank)
    return blank.random.integers(low, within, blank.shape)


def _backwards(blank: Blank) -> np.ndarray:
    """Indices that count from the end of their tables, if these begin at 0."""
    low, within = index_range(blank)
    if low:
        return _indices(blank)
    high, past = int(within.min()), blank.spec.role.flags & {"beyond", "lookup"} == {"beyond"}
    ends = [-high, -1, *((high, -high - 1) if past else ())]
    return _with_pins(blank.random.integers(-within - past, within + past, blank.shape), ends, blank.random)


def _positions(blank: Blank, *, start: str = "") -> np.ndarray:
    """0, 1, 2, … along the last axis; start: "" for 0, "one" for one random start, "each" for one in each row."""
    *rows, count = blank.shape or (1,)
    low, within = index_range(blank) if blank.spec.role.limits else (0, np.asarray(_FURTHEST))
    last, random = max(int(within.min()) - count, 0), blank.random
    starts = random.integers(0, last + 1, [*rows, 1] if start == "each" else [1]) if start else np.zeros(1, np.int64)
    steps = starts + np.arange(count)
    steps = np.minimum(steps, int(within.min()) - 1) if blank.spec.role.limits else steps
    return np.asarray(np.broadcast_to(steps, blank.shape) if blank.shape else steps.reshape(-1)[:1].reshape(()))


def _leading(blank: Blank, *, is_trailing: bool = False) -> np.ndarray:
    """Ones before zeros (is_trailing: after) along the last axis: a one in each row, no zero in the first row."""
    if not blank.shape or not math.prod(blank.shape):
        return np.full(blank.shape, int(not is_trailing))
    length = blank.shape[-1]
    ones = np.asarray(blank.random.integers(1, length + 1, blank.shape[:-1]))
    if ones.ndim:
        ones.reshape(-1)[:1] = length
    else:  # both values in a vector
        ones = np.asarray(blank.random.integers(1, max(length, 2)))
    places = np.arange(length)[::-1] if is_trailing else np.arange(length)
    return (places < ones[..., None]).astype(np.int64)


def _hidden(blank: Blank, form: str) -> np.ndarray:
    """The elements that a mask hides: holes that leave an element in each row, some whole rows, all, or none.

    gaps: holes that are not adjacent and never first in a row, so that each causal row sees a key.
    """
    if not blank.shape or form in ("all", "none"):
        return np.full(blank.shape, form not in ("none", "gaps"))
    found = (blank.random.random(blank.shape) < _HIDDEN).reshape(-1, blank.shape[-1])
    if form == "gaps":
        found[:, ::2] = False
    elif found.size:
        found[np.arange(len(found)), blank.random.integers(0, found.shape[1], len(found))] = False
        half = max(len(found) // 2, 1)
        if form in ("a row", "some"):
            found[::half] = form == "a row"  # "some" hides by ones: a row of only ones
        if form == "some" and len(found) > 1:
            found[-1] = True
    return found.reshape(blank.shape)


def mask(form: str, *, by: float | None = None, beside: bool = False, any_number: bool = False) -> Fill:
    """A mask that hides "holes", "gaps", "a row", "all" or "none"; "some" is "a row" for masks whose ones hide.

    by: the number that hides a score in float masks, None for the lowest number.  beside: visible elements are usual
    numbers instead of zeros.  any_number: ones become various nonzero numbers, for masks that test only for zero.
    """

    def make(blank: Blank) -> np.ndarray:
        hidden = _hidden(blank, form)
        if blank.spec.kind != "mask":
            least = float(ml_dtypes.finfo(blank.spec.dtype).min)
            low = least if by is None else max(by, least) if np.isfinite(by) else by
            return np.where(hidden, low, standard_normal(blank.random, blank.shape) if beside else 0.0)
        shown = np.where(hidden, 0, 1)
        return _other_than_one(blank, shown) if any_number else shown

    kinds = {"holes": ("holes",), "gaps": ("holes",), "none": ()}.get(form, ("hidden_rows",))
    is_endless = by == -np.inf
    kinds += ("non_finite",) if is_endless else ()
    return Fill(f"mask that hides {form}", make, kinds, may_overflow=not is_endless)


def _other_than_one(blank: Blank, shown: np.ndarray) -> np.ndarray:
    """Ones become -1, 2, and a power of two that a cast to half of the bits loses."""
    half = 1 << 4 * blank.spec.dtype.itemsize
    numbers = np.array([half, *((-1,) if blank.spec.dtype.kind == "i" else ()), 2, 1])
    return np.where(shown, np.resize(numbers, shown.shape), 0)


def _condition(blank: Blank) -> np.ndarray:
    return np.ones(blank.shape, np.int64)


def constant(number: float, name: str) -> Fill:
    """The same number in every element."""
    return Fill(name, lambda blank: np.full(blank.shape, number))


def _counts(blank: Blank) -> np.ndarray:
    """Small positive shapes, counts and steps."""
    flags = blank.spec.role.flags
    if "target" in flags:
        target = np.ones(blank.shape, dtype=np.int64)
        target.reshape(-1)[:1] = -1
        return target
    total = known_size(blank.spec.role.whole, blank.sizes)
    if total is not None and len(blank.shape) == 1 and blank.shape[0]:
        ends = np.sort(blank.random.integers(0, total + 1, blank.shape[0] - 1))
        return np.diff(ends, prepend=0, append=total)
    return np.full(blank.shape, 0 if "zero" in flags and "trip" not in flags else 2)


def counts(way: int) -> Fill:
    """Counts, start indices or target shapes of one of the `COUNTED` rows: forward, backward, none, beyond an axis."""

    def make(blank: Blank) -> np.ndarray:
        flags = blank.spec.role.flags
        if known_size(blank.spec.role.whole, blank.sizes) is not None:
            return _counts(blank)
        table = _TARGETS if "target" in flags else _PLACES if "zero" in flags else _COUNTS
        return np.resize(np.array(table[min(way, len(table) - 1)], np.int64), blank.shape)

    return Fill("counts", make, may_not_fit=True)


def count_at_a_place(array: np.ndarray) -> Fill:
    """The given array: one special count, the others usual."""
    return Fill("counts", lambda _: array, may_not_fit=True)


def _lengths(blank: Blank, *, last: int | None = None) -> np.ndarray:
    """Between 1 and the smallest dynamic dim that may be a sequence.  The first is that dim; last: the last length."""
    longest = min((size for name, size in blank.sizes.items() if size > 0 and dim_kind(name) != "batch"), default=3)
    is_known = blank.spec.named == "length" or "length" in blank.spec.role.flags
    if not blank.spec.is_unconstrained and not is_known:
        longest = min(longest, _MAX_TRIPS)
    made = np.asarray(blank.random.integers(1, longest + 1, blank.shape))
    made.reshape(-1)[:1] = longest
    if last is not None:
        made.reshape(-1)[-1:] = last
    return made


def _keys(blank: Blank, *, is_shorter: bool = False) -> np.ndarray:
    """The number of keys of the longest sequence, with its past, or the index of the last key of each sequence.

    is_shorter: if each sequence has one new key, all sequences but the first are shorter.
    """
    count = blank.spec.role.keys[0]
    new, past = _size(blank, count.new), _size(blank, count.past)
    if count.is_total:
        return np.full(blank.shape, new + past)
    last = np.full(blank.shape, max(new + past - 1, 0))
    if is_shorter and new == 1:
        last.reshape(-1)[1:] = blank.random.integers(0, past + 1, blank.shape).reshape(-1)[1:]
    return last


def _boxes(blank: Blank) -> np.ndarray:
    """Rows of x1, y1, x2, y2: boxes of one pixel to `_WIDEST` pixels, within an image, across its edges and outside.

    Some boxes have width 0, and some have an integer or half-integer size.  With five columns, the first is the image.
    If overlap matters, every second box is a copy of the one before, shifted so that the two overlap by a usual
    threshold: for boxes of width w and shift d, intersection over union is (w - d) / (w + d).
    """
    if blank.shape[-1:] not in ((4,), (5,)):
        return standard_normal(blank.random, blank.shape)
    random, rows, columns = blank.random, math.prod(blank.shape[:-1]), blank.shape[-1]
    scale = np.exp2(random.uniform(0, np.log2(_WIDEST), (rows, 1)))
    starts = scale * random.uniform(-0.5, 1.0, (rows, 2))
    sizes = scale * random.uniform(0.1, 1.5, (rows, 2))
    sizes[1::4] *= (0.0, 1.0)
    starts[3::4] = np.floor(starts[3::4]) + _BESIDE_PIXEL
    sizes[3::4] = np.ceil(2 * sizes[3::4]) / 2
    if "overlap" in blank.spec.role.flags:
        count = rows // 2
        share = random.uniform(*_OVERLAPS, count)
        sizes[1::2], starts[1::2] = sizes[0 : 2 * count : 2], starts[0 : 2 * count : 2]
        starts[1::2, 0] += sizes[1::2, 0] * (1 - share) / (1 + share)
    corners = np.concatenate([starts, starts + sizes], axis=1)
    if columns == 5:
        images = _indices(blank._replace(shape=blank.shape[:-1]))
        corners = np.concatenate([images.reshape(-1, 1), corners], axis=1)
    return corners.reshape(blank.shape)


def _compared(blank: Blank) -> np.ndarray:
    """Integers around usual bounds."""
    low, high = (-2, 3) if blank.spec.signed else (0, 2)
    return blank.random.integers(low, high, blank.shape)


def _integers(blank: Blank) -> np.ndarray:
    """Small integers, of both signs unless an index or a size depends on them; bytes have their whole range."""
    dtype, random = blank.spec.dtype, blank.random
    if dtype.kind == "V":
        limits = ml_dtypes.iinfo(dtype)
        return random.integers(int(limits.min) if blank.spec.signed else 0, int(limits.max) + 1, blank.shape)
    if dtype.itemsize == 1:
        made = random.integers(np.iinfo(dtype).min, int(np.iinfo(dtype).max) + 1, blank.shape)
    else:
        made = random.integers(1 - _SMALL if blank.spec.signed else 0, _SMALL, blank.shape)
    return nonzero_divisor(blank, made)


def nonzero_divisor(blank: Blank, made: np.ndarray) -> np.ndarray:
    """The array with 1 instead of 0 if it is a divisor, because a division by 0 would end the process."""
    return np.where(made == 0, 1, made) if "divisor" in blank.spec.role.flags else made


def _every_length(blank: Blank, can_sum: bool) -> list[int]:
    """One integer for each bit length and sign that the input may hold, the longest first, and both ends."""
    dtype, bits = np.iinfo(blank.spec.dtype), int(np.iinfo(blank.spec.dtype).max).bit_length()
    lengths = [1 << bit | _MIXED_BITS & (1 << bit) - 1 for bit in range(bits - 1, -1, -1)]
    halves = [(1 << bits // 2) + 5, (1 << (bits + 1) // 2) + 1]  # half of the bits lose these
    numbers = [int(dtype.max), int(dtype.min), *halves, *(sign * number for number in lengths for sign in (1, -1))]
    most = 1 << min(bits - 6, 50) if can_sum else 1 << bits
    lowest = int(dtype.min) if blank.spec.signed or blank.spec.is_compared_length else 0
    return [number for number in numbers if lowest <= number <= dtype.max and abs(number) <= most] or [1]


def integers_of_every_length(*, can_sum: bool, first: int = 0, beside: int = 0) -> Fill:
    """The integers of `_every_length`, starting with number `first`, plus an offset, so that two inputs almost agree.

    can_sum: no number so large that a sum of 64 overflows, and none beyond 2**50.  Up to there ONNX Runtime, which sums
    some integers in float64, sums several exactly.
    """

    def make(blank: Blank) -> np.ndarray:
        numbers, limits = _every_length(blank, can_sum), np.iinfo(blank.spec.dtype)
        near = [number + beside if number + beside <= limits.max else number - beside for number in numbers]
        places = (first + np.arange(math.prod(blank.shape))) % len(near)
        return nonzero_divisor(blank, np.array(near, dtype=object)[places].reshape(blank.shape))

    return Fill("integers of every length", make)


def mixed_integers(*, can_sum: bool) -> Fill:
    """The integers of `_every_length` in random order."""

    def make(blank: Blank) -> np.ndarray:
        numbers = np.array(_every_length(blank, can_sum), dtype=object)
        return nonzero_divisor(blank, numbers[blank.random.integers(0, len(numbers), blank.shape)])

    return Fill("integers of every length, mixed", make)


def near_end(*, is_low: bool) -> Fill:
    """Integers within `_NEAR_END` of one end of the dtype, so that sums are as large as possible."""

    def make(blank: Blank) -> np.ndarray:
        limits = np.iinfo(blank.spec.dtype)
        near = 4 if blank.spec.dtype.itemsize == 1 else _NEAR_END
        inwards = blank.random.integers(0, near, blank.shape).astype(object)
        return int(limits.min) + inwards if is_low and blank.spec.signed else int(limits.max) - inwards

    return Fill("integers near a limit of the dtype", make)


def wide_integers(blank: Blank) -> np.ndarray:
    """Integers up to 2**10, like token ids and sizes, of both signs."""
    made = np.exp2(blank.random.uniform(0, 10, blank.shape)).astype(np.int64)
    return nonzero_divisor(blank, made * blank.random.choice((-1, 1) if blank.spec.signed else (1,), blank.shape))


def any_number(way: str) -> Fill:
    """Plain numbers for lengths, counts and masks: "few" (small) or "many" of both signs, or "not negative"."""

    def make(blank: Blank) -> np.ndarray:
        dtype = blank.spec.dtype
        limits = np.iinfo(dtype) if dtype.kind in "iu" else None
        span = 9 if way == "few" else 1 << 10  # the loops and tensors that they may count stay small
        span = span if limits is None else min(span, int(limits.max))
        far = np.exp2(blank.random.uniform(0, np.log2(span), blank.shape))
        is_signed = way != "not negative" and (limits is None or limits.min < 0)
        signs = blank.random.choice((-1, 1) if is_signed else (1,), blank.shape)
        return signs * (far if limits is None else np.floor(far))

    return Fill("out of role", make, ("holes", "hidden_rows", "backwards"), may_not_fit=True)


FRACTIONS = (0.3, 0.5, 0.7)
"""Distances of floats below an integer: rounding goes up, to the even integer, and down."""


def _read_as_integers(blank: Blank) -> np.ndarray:
    made = np.asarray(usual_values(blank), np.float64)
    return np.floor(SPREAD * made) if blank.spec.kind == "plain" else made


def fractions(part: float) -> Fill:
    """Floats that become indices, counts or booleans: a fraction below an integer, or above zero."""

    def make(blank: Blank) -> np.ndarray:
        made = _read_as_integers(blank)
        return np.where(made >= 1, made - part, made + part)

    return Fill("fractions", make)


def _beside_integers(blank: Blank) -> np.ndarray:
    """A fraction below or above an integer, so that rounding may leave a range; one number is negative."""
    made = _read_as_integers(blank)
    made += blank.random.choice((-FRACTIONS[0], FRACTIONS[0], FRACTIONS[2]), made.shape)
    made.reshape(-1)[1:2] = -FRACTIONS[0]
    return made


def _nan_among_integers(blank: Blank) -> np.ndarray:
    made = _read_as_integers(blank)
    holes = blank.random.random(made.shape) < 1 / 4
    holes.reshape(-1)[:1] = True
    return np.where(holes, np.nan, made)


def words(first: int) -> Fill:
    """Strings of the region, starting with number `first`."""
    return Fill("strings", lambda blank: in_turn(blank.spec.role.words, blank.shape, first, _key(blank)))


def _key(blank: Blank) -> int:
    return sum(blank.spec.name.encode())


def _plain(blank: Blank) -> np.ndarray:
    dtype = blank.spec.dtype
    if dtype.kind in "iu" or (dtype.kind == "V" and "int" in dtype.name):
        return _integers(blank)
    made = standard_normal(blank.random, blank.shape)
    return made + 1j * standard_normal(blank.random, blank.shape) if dtype.kind == "c" else np.asarray(made)


_USUAL: dict[str, Callable[[Blank], np.ndarray]] = {
    "words": lambda blank: in_turn(blank.spec.role.words, blank.shape, 0, _key(blank)),
    "coins": lambda blank: blank.random.integers(0, 2, blank.shape),
    "condition": _condition,
    "mask": _leading,
    "indices": _indices,
    "counts": _counts,
    "lengths": _lengths,
    "keys": _keys,
    "positions": _positions,
    "compared": _compared,
    "boxes": _boxes,
    "plain": _plain,
}


def usual_values(blank: Blank) -> np.ndarray:
    """The usual values of an input, by its role."""
    return np.asarray(_USUAL[blank.spec.kind](blank))


def _calm(blank: Blank) -> np.ndarray:
    """Values that almost every node accepts: positive numbers below one, ones, the first index."""
    kind, made = blank.spec.kind, usual_values(blank)
    if kind in ("coins", "condition", "mask", "lengths"):
        return np.ones(blank.shape, np.int64)
    if kind == "indices":
        return np.full(blank.shape, index_range(blank)[0])
    if kind in ("plain", "compared") and blank.spec.dtype.kind in "iu":
        return np.ones(blank.shape, np.int64)
    if kind == "counts" and known_size(blank.spec.role.whole, blank.sizes) is None:
        return np.asarray(np.minimum(made, 1))
    return blank.random.uniform(0.1, 1.0, blank.shape) if kind == "plain" else made


def _sampled(blank: Blank) -> np.ndarray:
    """Usual values; for inputs with a role, a random choice among those that strategies try in turn."""
    spec, random = blank.spec, blank.random
    if spec.kind == "condition" or (spec.kind == "mask" and not blank.shape):
        return np.full(blank.shape, random.integers(2))
    if spec.kind == "mask":
        return _leading(blank, is_trailing=bool(random.integers(2)))
    if spec.kind == "counts" and "trip" in spec.role.flags:
        return np.full(blank.shape, random.choice(SOME_TRIPS))
    if spec.kind == "lengths" and not blank.shape and "compared" in spec.role.flags:
        return usual_values(blank) * random.integers(2)  # at 0, a loop that continues below this length ends
    if spec.kind == "words":
        return in_turn(spec.role.words, blank.shape, int(random.integers(len(spec.role.words) or 1)), _key(blank))
    return usual_values(blank)


def _further(blank: Blank) -> np.ndarray:
    """Valid values unlike those of the first sample: padding of any length, positions from any start."""
    if not blank.shape:
        return _sampled(blank)
    longer = blank._replace(shape=(blank.shape[0] + 1, *blank.shape[1:]))  # the first row is usually full
    if blank.spec.is_position:
        made = _positions(longer, start="each") if blank.random.integers(2) else _between(longer)
    else:
        made = _keys(longer, is_shorter=True) if blank.spec.kind == "keys" else _sampled(longer)
    return made[1:]


def _not_negative(blank: Blank) -> np.ndarray:
    """Usual values without negative integers."""
    made = usual_values(blank)
    is_whole = blank.spec.signed and made.dtype.kind == "i"
    return np.asarray(nonzero_divisor(blank, np.where(made < 0, -1 - made, made))) if is_whole else made


def _beyond_half(blank: Blank) -> np.ndarray:
    """Usual integers, and one of each sign that does not fit half of the bits; their squares still fit all bits."""
    far = (1 << (4 * blank.spec.dtype.itemsize - 1)) + 5
    return _with_pins(usual_values(blank).astype(np.int64), [far, -far if blank.spec.signed else far + 2], blank.random)


BESIDE_INTEGERS = Fill("fractions", _beside_integers)
NAN_AMONG_INTEGERS = Fill("NaN as an integer", _nan_among_integers, ("non_finite",))
USUAL = Fill("usual", usual_values)
CALM = Fill("calm", _calm)
SAMPLED = Fill("usual", _sampled)
"""For the few sets of inputs without a strategy: each draws the values of conditions and the side of padding."""
FURTHER = Fill("a further sample", _further)
NOT_NEGATIVE = Fill("usual integers, none negative", _not_negative)
BEYOND_HALF = Fill("integers that do not fit in half of their bits", _beyond_half)
ANY_NON_ZERO_MASK = mask("holes", any_number=True)
TRAILING_MASK = Fill("mask with trailing ones", lambda blank: _leading(blank, is_trailing=True))
BETWEEN = Fill("indices between the ends", _between)
BACKWARDS = Fill("indices from the end", _backwards, ("backwards",))
ONE_START = Fill("positions from one start", lambda blank: _positions(blank, start="one"))
EACH_START = Fill("positions from a start in each row", lambda blank: _positions(blank, start="each"))
NO_LENGTH = Fill("a length of zero", lambda blank: _lengths(blank, last=0), ("hidden_rows",))
SHORTER_KEYS = Fill("shorter sequences", lambda blank: _keys(blank, is_shorter=True))
WIDE_INTEGERS = Fill("wide", wide_integers, ("wide",))
EQUAL_INTEGERS = Fill("equal numbers", lambda blank: nonzero_divisor(blank, blank.random.integers(0, 3, blank.shape)))
