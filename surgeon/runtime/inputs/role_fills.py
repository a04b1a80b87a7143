"""Fills of inputs with a role: masks, indices, counts, lengths, conditions, positions, boxes, strings; and integers."""

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

_SMALL = 10  # integers below are usual: products of several still fit a byte of each sign apart
_WITHOUT_TABLE = 2  # rows of a table of unknown size: an index is 0 or 1
_FURTHEST = 100  # positions that look up no table start below it
_WIDEST = 64.0  # pixels of a box
_BESIDE_PIXEL = 2.0**-10  # a box does not start at an edge of a pixel, where rounding decides
_OVERLAPS = (0.2, 0.8)  # thresholds of overlap that detectors use lie between
_MAX_TRIPS = 16  # of a loop that goes on while something is below a length
_MIXED_BITS = 0x6996_9669_9669_6997  # Thue-Morse, so that halves differ, and odd for a float to lose a bit
_NEAR_END = 32  # each smaller divisor has a multiple so near to the end of a dtype
_HIDDEN = 0.4  # part of a mask that is hidden
SPREAD = 4.0  # times usual numbers: what integers in floats are made of
HIDING = (None, -np.inf, -1e4)
"""What hides a score: the least number of the dtype, minus infinity, the -1e4 of BERT."""
# Counts and steps, places to begin, and target shapes: forward by few and many, backward, and beyond an axis.
_COUNTS = ((1, 3, 2, 4), (3, 1, 0, 2), (-1, -2, 1, 0), (5, 4, 7, 6), (-4, -3, -5, -6))
_PLACES = ((1, 2), (-1, -2), (2, 0), (-2, 1), (-1, -2))  # to begin
_TARGETS = ((1, -1, 1), (0, -1), (-1, 2, 1), (2, -1))  # one open size each
COUNTED = len(_COUNTS)
NEGATIVE_COUNTS = (2, 4)
"""Those of them that count from the end: a few steps, and as many as there are."""
SOME_TRIPS = (2, 3, 0, 7)
"""Trips of a loop: usual ones, none, and more than the steps that exporters unroll."""


def _with_pins(made: np.ndarray, pins: Sequence[float], random: np.random.Generator) -> np.ndarray:
    """Put each number at a random place, as far as there is room."""
    flat = np.asarray(made).reshape(-1).copy()
    places = random.permutation(flat.size)[: len(pins)]
    flat[places] = list(pins)[: places.size]
    return flat.reshape(np.shape(made))


def _size(blank: Blank, size: int | str | None) -> int:
    """A size of a role, 0 if unknown."""
    return known_size(size, blank.sizes) or 0


def _rows(blank: Blank, limit: IndexLimit) -> np.ndarray:
    """The number of rows of a table, 0 if unknown; for an index of several parts, the size of each axis."""
    sizes = [_size(blank, size) for size in (limit.table, *limit.beside)]
    parts = _size(blank, limit.parts) or 1
    own = np.array(sizes[:parts])
    is_apart = 1 < parts == len(own) and blank.shape[-1:] == (parts,)
    return own if is_apart else np.asarray(own[own > 0].min(initial=max(own)))


def index_range(blank: Blank) -> tuple[int, np.ndarray]:
    """The lowest index, and the end of the range of each part of an index, within every table that it indexes."""
    low, tops = 0, list[np.ndarray]()
    for limit in blank.spec.role.limits:
        shift = limit.shift + sum(_size(blank, size) for size in limit.sizes)
        rows = _rows(blank, limit)
        if rows.any():
            tops.append(np.maximum(rows - max(shift, 0), 1))
            low = max(low, -shift)
    return low, np.maximum(reduce(np.minimum, tops or [np.asarray(_WITHOUT_TABLE)]), low + 1)


def _indices(blank: Blank) -> np.ndarray:
    """Indices of every row of a small table, or with both ends among them; positions by name rise from 0."""
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
    """Indices from anywhere within their tables: what is read from a lone one on has to be there."""
    low, within = index_range(blank)
    return blank.random.integers(low, within, blank.shape)


def _backwards(blank: Blank) -> np.ndarray:
    """Indices that count from the end of their tables, where these begin at 0."""
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
    """Ones before zeros along the last axis (is_trailing: behind them): a one in each row, no zero in the first."""
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
    """Which elements a mask hides: holes with something left in each row, some whole rows, all, or none.

    gaps: holes that are not neighbours and never the first of a row, so that a causal row sees a key too.
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
            found[::half] = form == "a row"  # some: rows of ones only, if ones are what hides
        if form == "some" and len(found) > 1:
            found[-1] = True
    return found.reshape(blank.shape)


def mask(form: str, *, by: float | None = None, beside: bool = False, any_number: bool = False) -> Fill:
    """A mask that hides holes, gaps, "a row", "all" or "none"; "some" is "a row" for masks whose ones hide.

    by: what hides a score in floats, None for the least number.  beside: usual numbers where nothing is hidden, else
    zeros.  any_number: ones become other numbers than zero, where that is all that counts.
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
    """Ones become 2 to half of the bits, which a cast to half of them loses, and -1 and 2."""
    half = 1 << 4 * blank.spec.dtype.itemsize
    numbers = np.array([half, *((-1,) if blank.spec.dtype.kind == "i" else ()), 2, 1])
    return np.where(shown, np.resize(numbers, shown.shape), 0)


def _condition(blank: Blank) -> np.ndarray:
    return np.ones(blank.shape, np.int64)


def constant(number: float, name: str) -> Fill:
    """One number throughout."""
    return Fill(name, lambda blank: np.full(blank.shape, number))


def _counts(blank: Blank) -> np.ndarray:
    """Shapes, counts and steps: small and positive."""
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
    """Counts, places and targets of one of `COUNTED` rows: forward, backward, none, beyond an axis."""

    def make(blank: Blank) -> np.ndarray:
        flags = blank.spec.role.flags
        if known_size(blank.spec.role.whole, blank.sizes) is not None:
            return _counts(blank)
        table = _TARGETS if "target" in flags else _PLACES if "zero" in flags else _COUNTS
        return np.resize(np.array(table[min(way, len(table) - 1)], np.int64), blank.shape)

    return Fill("counts", make, may_not_fit=True)


def count_at_a_place(array: np.ndarray) -> Fill:
    """This array: one count at one place, the others usual."""
    return Fill("counts", lambda _: array, may_not_fit=True)


def _lengths(blank: Blank, *, last: int | None = None) -> np.ndarray:
    """Between 1 and the smallest dynamic dim that may be a sequence; the first is that dim, or the last is `last`."""
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
    """The number of keys of the longest sequence, past included, or the index of the last key of each sequence.

    is_shorter: where each sequence has one new key, all but the first are shorter.
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
    """Rows of x1, y1, x2, y2, of one pixel to `_WIDEST`, within an image, across its edges and beyond.

    In turn one has width 0, and one has an integer or half-integer size.  With five columns the first is the image.
    Where overlap matters, every other box is the one before, moved until the two overlap by a usual threshold: the
    intersection of two boxes of width w, one moved by d, is (w - d) / (w + d) of their union.
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
    """Small integers, of both signs unless an index or a size depends on them; bytes over their whole range."""
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
    """The same with 1 in place of 0 where something is divided by it, which would end the process."""
    return np.where(made == 0, 1, made) if "divisor" in blank.spec.role.flags else made


def _every_length(blank: Blank, can_sum: bool) -> list[int]:
    """One integer for each count of bits and each sign that the input may hold, the longest first, and both ends."""
    dtype, bits = np.iinfo(blank.spec.dtype), int(np.iinfo(blank.spec.dtype).max).bit_length()
    lengths = [1 << bit | _MIXED_BITS & (1 << bit) - 1 for bit in range(bits - 1, -1, -1)]
    halves = [(1 << bits // 2) + 5, (1 << (bits + 1) // 2) + 1]  # half of the bits lose these
    numbers = [int(dtype.max), int(dtype.min), *halves, *(sign * number for number in lengths for sign in (1, -1))]
    most = 1 << min(bits - 6, 50) if can_sum else 1 << bits
    lowest = int(dtype.min) if blank.spec.signed or blank.spec.is_compared_length else 0
    return [number for number in numbers if lowest <= number <= dtype.max and abs(number) <= most] or [1]


def integers_of_every_length(*, can_sum: bool, first: int = 0, beside: int = 0) -> Fill:
    """The integers of `_every_length`, from one of them on, and others `beside` them, so that two inputs nearly meet.

    can_sum: none so large that a sum of 64 of them overflows, and none beyond 2**50, up to which ONNX Runtime, which
    sums some integers in float64, sums several exactly.
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
    """Integers within `_NEAR_END` of one end of the dtype, so that sums are as large as they can be."""

    def make(blank: Blank) -> np.ndarray:
        limits = np.iinfo(blank.spec.dtype)
        near = 4 if blank.spec.dtype.itemsize == 1 else _NEAR_END
        inwards = blank.random.integers(0, near, blank.shape).astype(object)
        return int(limits.min) + inwards if is_low and blank.spec.signed else int(limits.max) - inwards

    return Fill("integers near an end", make)


def wide_integers(blank: Blank) -> np.ndarray:
    """Integers up to 2**10, as token ids and sizes are, of both signs."""
    made = np.exp2(blank.random.uniform(0, 10, blank.shape)).astype(np.int64)
    return nonzero_divisor(blank, made * blank.random.choice((-1, 1) if blank.spec.signed else (1,), blank.shape))


def any_number(way: str) -> Fill:
    """Lengths, counts and masks as if they were plain numbers: "few" of both signs, "many", or "not negative"."""

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
"""Parts of a step by which floats stay below an integer: rounding goes up, to the even one, and down."""


def _read_as_integers(blank: Blank) -> np.ndarray:
    made = np.asarray(usual_values(blank), np.float64)
    return np.floor(SPREAD * made) if blank.spec.kind == "plain" else made


def fractions(part: float) -> Fill:
    """Floats that become indices, counts or booleans, by a part of a step below an integer; zeros are above theirs."""

    def make(blank: Blank) -> np.ndarray:
        made = _read_as_integers(blank)
        return np.where(made >= 1, made - part, made + part)

    return Fill("fractions", make)


def _beside_integers(blank: Blank) -> np.ndarray:
    """Within a part of a step of an integer on either side, so that rounding may leave a range; one is negative."""
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
    """Strings of the region, from one of them on."""
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
    """Usual values that nearly every node takes: positive numbers below one, ones, the first index."""
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
    """Usual values, one of several that strategies try in turn for inputs with a role."""
    spec, random = blank.spec, blank.random
    if spec.kind == "condition" or (spec.kind == "mask" and not blank.shape):
        return np.full(blank.shape, random.integers(2))
    if spec.kind == "mask":
        return _leading(blank, is_trailing=bool(random.integers(2)))
    if spec.kind == "counts" and "trip" in spec.role.flags:
        return np.full(blank.shape, random.choice(SOME_TRIPS))
    if spec.kind == "lengths" and not blank.shape and "compared" in spec.role.flags:
        return usual_values(blank) * random.integers(2)  # at 0 a loop that goes on while something is below it ends
    if spec.kind == "words":
        return in_turn(spec.role.words, blank.shape, int(random.integers(len(spec.role.words) or 1)), _key(blank))
    return usual_values(blank)


def _not_negative(blank: Blank) -> np.ndarray:
    """Usual values with integers of one sign."""
    made = usual_values(blank)
    is_whole = blank.spec.signed and made.dtype.kind == "i"
    return np.asarray(nonzero_divisor(blank, np.where(made < 0, -1 - made, made))) if is_whole else made


def _beyond_half(blank: Blank) -> np.ndarray:
    """Usual integers, and one of each sign that half of their bits do not hold; squares of these still fit."""
    far = (1 << (4 * blank.spec.dtype.itemsize - 1)) + 5
    return _with_pins(usual_values(blank).astype(np.int64), [far, -far if blank.spec.signed else far + 2], blank.random)


BESIDE_INTEGERS = Fill("fractions", _beside_integers)
NAN_AMONG_INTEGERS = Fill("NaN as an integer", _nan_among_integers, ("non_finite",))
USUAL = Fill("usual", usual_values)
CALM = Fill("calm", _calm)
SAMPLED = Fill("usual", _sampled)
"""For the few sets of inputs that no strategy makes: each draws the values of conditions and the side of padding."""
NOT_NEGATIVE = Fill("usual integers of one sign", _not_negative)
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
