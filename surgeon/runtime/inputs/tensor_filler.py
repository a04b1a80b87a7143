"""The values of one input: random, of the requested kind, within its role."""

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

import ml_dtypes
import numpy as np

from surgeon.analysis.input_roles import IndexLimit
from surgeon.runtime.inputs.edge_values import edge_values, standard_normal
from surgeon.runtime.inputs.fractional_values import fractional
from surgeon.runtime.inputs.input_spec import (
    EDGES,
    FAR_KINDS,
    MASKED_KINDS,
    MAX_CONDITIONS,
    POSITIVE_KINDS,
    WIDE_KINDS,
    InputSpec,
    InputsUnknown,
    ValueKind,
)
from surgeon.runtime.inputs.mask_values import low_of, random_mask
from surgeon.runtime.inputs.string_values import in_turn
from surgeon.shapes.constraints.input_dims import known_size

_MAX_ELEMENTS = 1 << 28
_INDEX_WITHOUT_TABLE = 2  # an index into a table of unknown size: 0 or 1
_PLAIN_INTEGERS = 10
_FURTHEST_PLACE = 100  # of a position that looks up no table
_WIDEST, _BESIDE_WHOLE = 64.0, 2.0**-10  # of boxes, in pixels
_THRESHOLDS = (0.2, 0.8)  # of how far boxes overlap
# Binary exponents of wide-ranging values: of all magnitudes; of a tail of each sign in every tensor, past the 6 at
# which activations are cut off; of a large value of each sign.  The second row is for models that hold float16: sums
# of squares must not overflow inside, for a fused operator sums in float32 and does not.
_WIDE = ((-10.0, 6.0), (3.0, 6.0), (8.0, 13.0))
_WIDE_HALF = ((-10.0, 4.0), (3.0, 4.0), (5.0, 6.5))
_WIDE_INTEGERS = 10.0
_NEAR_END = 4  # of bytes: how far from the end of their dtype
_FAR_PART = 1 / 2  # of integers that are near the limits of their dtype
_EXACT = 63  # bits of the integers that are drawn by magnitude
_HELD_BY_DOUBLES = 50  # binary exponent of integers of which ONNX Runtime, which sums some in doubles, sums several
_SHUFFLED = 1 << 16  # elements up to which the places of some are the first of all, shuffled
_TRIPS = (2, 3, 0, 7)  # of a loop, in turn
_MAX_TRIPS = 16  # of a loop that goes on while something is below a length
# Counts and steps, places to begin, and shapes to make, in turn: the usual ones are 2, 0, and -1 before ones.  In the
# last turn what is counted goes backwards, from the end on.
_COUNTS = ((1, 3, 2, 4), (3, 1, 0, 2), (-1, -2, 1, 0), (5, 4, 7, 6), (-4, -3, -5, -6))
_PLACES = ((1, 2), (-1, -2), (2, 0), (-2, 1), (-1, -2))
_TARGETS = ((1, -1, 1), (0, -1), (-1, 2, 1), (2, -1))
_SPANS = (9, 1 << 10, 1 << 10)  # of numbers out of their role, in turn; of the last none is negative
_SPREAD = 4.0  # times usual numbers that whole ones are made of
_ZEROS = 1 / 16  # the part of wide-ranging values that are exactly zero


class TensorFiller:
    """Makes the values of one input."""

    def __init__(self, want: InputSpec, seed: int, sizes: Mapping[str, int], values: ValueKind) -> None:
        self.want, self.seed, self.sizes = want, seed, sizes
        self.values = values if want.answers_to(values) else ValueKind.USUAL
        self.tame = values is ValueKind.BENIGN
        self.shape = want.shape(sizes)
        self._key = zlib.crc32(want.name.encode())
        self.random = np.random.default_rng([seed, self._key])
        if math.prod(self.shape) >= _MAX_ELEMENTS:
            raise InputsUnknown(f"input '{want.name}' of shape {list(self.shape)} is too large to make")

    def fill(self) -> np.ndarray:
        """Return the array, in the input's dtype and shape."""
        makers: dict[str, Callable[[], np.ndarray]] = {
            "words": lambda: in_turn(self.want.role.words, self.shape, self.seed, self._key),
            "coins": lambda: np.asarray(self.random.integers(0, 2, self.shape)),
            "condition": self._condition,
            "mask": self._mask,
            "indices": lambda: self._indices(self.want.named == "position"),
            "counts": lambda: self._counts(self.want.role.flags),
            "lengths": self._lengths,
            "keys": self._keys,
            "positions": lambda: self._positions(None),
            "compared": self._compared,
            "boxes": self._boxes,
            "plain": self._plain,
        }
        dtype = np.dtype(object) if self.want.kind == "words" else self.want.dtype
        made = np.asarray(self._out_of_role() if self.values is ValueKind.OUT_OF_ROLE else makers[self.want.kind]())
        if self.values is ValueKind.FRACTIONS:
            is_plain = self.want.kind == "plain"
            made = fractional(np.floor(_SPREAD * made) if is_plain else made, self.seed, self.random)
        with np.errstate(invalid="ignore"):  # narrow floats have no infinity: it becomes NaN
            return self.want.obeying(made.astype(dtype).reshape(self.shape))

    def _condition(self) -> np.ndarray:
        """Both values in turn by seed; several conditions go through all combinations."""
        if self.want.turn >= MAX_CONDITIONS:
            return np.full(self.shape, self.random.integers(0, 2))
        return np.full(self.shape, (self.seed >> self.want.turn) & 1)

    def _mask(self) -> np.ndarray:
        """Leading ones along the last axis (odd seeds: trailing), the first row all ones, the others at least one.

        A scalar is 0 in odd seeds.
        """
        if self.tame or not math.prod(self.shape):
            return np.ones(self.shape, dtype=np.int64)
        if not self.shape:
            return np.asarray((self.seed + 1) % 2)
        if self.values in MASKED_KINDS or self.values is ValueKind.MASK_GAPS:
            return self._non_zero_mask(1 - self._hidden())
        length = self.shape[-1]
        ones = self.random.integers(1, length + 1, self.shape[:-1])
        if ones.ndim:
            ones.reshape(-1)[0] = length
        else:
            ones = np.asarray(length if self.seed % 2 == 0 else self.random.integers(1, max(length, 2)))
        places = np.arange(length) if self.seed % 2 == 0 else np.arange(length)[::-1]
        return (places < ones[..., None]).astype(np.int64)

    def _non_zero_mask(self, shown: np.ndarray) -> np.ndarray:
        """A mask whose ones become other non-zero numbers in one set of three, if only zero or not counts."""
        flags, bits = self.want.role.flags, 8 * self.want.dtype.itemsize
        if self.want.dtype.kind not in "iu" or self.seed % 3 != 2 or not flags & {"truth"} or flags & {"bit", "scores"}:
            return shown
        half = 1 << bits // 2  # which a cast to half of the bits loses
        any_but_0 = np.array([half, *((-1,) if self.want.dtype.kind == "i" else ()), 2, 1])
        turns = np.cumsum(shown).reshape(self.shape) - 1
        return np.asarray(np.where(shown, any_but_0[turns % len(any_but_0)], 0))

    def _indices(self, ascending: bool) -> np.ndarray:
        """Values within every table that they index, offsets on the way included."""
        low, tops = 0, list[np.ndarray]()
        for limit in self.want.role.limits:
            shift = limit.shift + sum(map(self._size, limit.sizes))
            rows = self._rows(limit)
            if rows.any():
                tops.append(np.maximum(rows - max(shift, 0), 1))
                low = max(low, -shift)
        tops = tops or [np.asarray(1 if self.tame else _INDEX_WITHOUT_TABLE)]
        within = np.maximum(reduce(np.minimum, tops), low + 1)  # of each part of an index, or of all
        high = int(within.min())
        if ascending and low == 0:
            return self._positions(high)
        if self.values is ValueKind.BACKWARDS and low == 0:
            past = self.want.role.flags & {"beyond", "lookup"} == {"beyond"}
            ends = [-high, -1, *((high, -high - 1) if past else ())]
            return self._with_pins(self.random.integers(-within - past, within + past, self.shape), ends)
        made = self.random.integers(low, low + 1 if self.tame else within, self.shape)
        if not self.tame and made.size >= high - low > 2 and not within.ndim:  # each row of the table
            made.reshape(-1)[: high - low] = np.arange(low, high)
            return np.asarray(self.random.permutation(made.reshape(-1)).reshape(self.shape))
        is_between = made.size == 1 and self.seed % 3 == 2  # a place to begin: what is read from it on has to be there
        return made if self.tame or is_between else self._with_pins(made, [high - 1, low])

    def _size(self, size: int | str | None) -> int:
        """A size of a role, 0 if unknown."""
        return known_size(size, self.sizes) or 0

    def _rows(self, limit: IndexLimit) -> np.ndarray:
        """The number of rows of a table, 0 if unknown; for an index of several parts, the size of each axis."""
        sizes = [self._size(size) for size in (limit.table, *limit.beside)]
        parts = self._size(limit.parts) or 1
        own = np.array(sizes[:parts])
        is_apart = 1 < parts == len(own) and self.shape[-1:] == (parts,)
        return own if is_apart else np.asarray(own[own > 0].min(initial=max(own)))

    def _boxes(self) -> np.ndarray:
        """Rows of x1, y1, x2, y2, of one pixel to `_WIDEST`, within an image, across its edges and beyond.

        By turn, one of four has width 0, and one has an integer or half-integer size but starts next to an integer,
        because at an edge itself rounding decides.  No box has negative size, which kernels may refuse.  With five
        columns the first is the image.  Where their overlap matters, see `_overlapping`.
        """
        if self.shape[-1:] not in ((4,), (5,)):
            return self._plain()
        rows, columns = math.prod(self.shape[:-1]), self.shape[-1]
        scale = np.exp2(self.random.uniform(0, np.log2(_WIDEST), (rows, 1)))
        starts = scale * self.random.uniform(-0.5, 1.0, (rows, 2))
        sizes = scale * self.random.uniform(0.1, 1.5, (rows, 2))
        turn = (np.arange(rows)[:, None] + self.seed) % 4
        sizes = np.where(turn == 1, sizes * (0.0, 1.0), sizes)
        starts = np.where(turn == 3, np.floor(starts) + _BESIDE_WHOLE, starts)
        sizes = np.where(turn == 3, np.ceil(2 * sizes) / 2, sizes)
        if "overlap" in self.want.role.flags:
            starts, sizes = self._overlapping(starts, sizes)
        corners = np.concatenate([starts, starts + sizes], axis=1)
        if columns == 4:
            return corners
        want = replace(self.want, dims=self.want.dims[:-1], kind="indices")
        images = TensorFiller(want, self.seed, self.sizes, self.values)._indices(ascending=False)
        return np.concatenate([images.reshape(-1, 1), corners], axis=1)

    def _overlapping(self, starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Every other box is the one before, moved to the right until the two overlap by a usual threshold.

        The intersection of two boxes of width w, one moved by d, is (w - d) / (w + d) of their union.
        """
        count = len(starts) // 2
        share = self.random.uniform(*_THRESHOLDS, count)
        sizes[1::2], starts[1::2] = sizes[0 : 2 * count : 2], starts[0 : 2 * count : 2]
        starts[1::2, 0] += sizes[1::2, 0] * (1 - share) / (1 + share)
        return starts, sizes

    def _positions(self, high: int | None) -> np.ndarray:
        """0, 1, 2, ... along the last axis, below `high`; in other sets from a random start, or one start for each row.

        A sequence continues after its cache, and rows that are padded on the left start at different positions.
        """
        *rows, count = self.shape or (1,)
        last = max((_FURTHEST_PLACE if high is None else high) - count, 0)
        turn = 0 if self.tame else self.seed % 3
        starts = self.random.integers(0, last + 1, [*rows, 1] if turn == 2 else [1]) if turn else np.zeros(1, np.int64)
        steps = starts + np.arange(count)
        if high is not None:
            steps = np.minimum(steps, high - 1)
        return np.asarray(np.broadcast_to(steps, self.shape) if self.shape else steps.reshape(()))

    def _counts(self, flags: frozenset[str]) -> np.ndarray:
        """Shapes, counts and steps: small and positive; in some sets a loop does not run."""
        if "target" in flags:
            target = np.ones(self.shape, dtype=np.int64)
            target.reshape(-1)[:1] = -1
            return self._turned(_TARGETS) if self.values is ValueKind.COUNTS else target
        whole = self.want.role.whole
        total = known_size(whole, self.sizes)
        if total is not None and len(self.shape) == 1 and self.shape[0]:
            ends = np.sort(self.random.integers(0, total + 1, self.shape[0] - 1))
            return np.diff(ends, prepend=0, append=total)
        if self.values is ValueKind.COUNTS:
            return self._turned(_PLACES if "zero" in flags else _COUNTS)
        if "trip" in flags:
            return np.full(self.shape, 1 if self.tame else _TRIPS[self.seed % len(_TRIPS)])
        if "zero" in flags:
            return np.zeros(self.shape, dtype=np.int64)
        return np.full(self.shape, 1 if self.tame else 2)

    def _turned(self, turns: tuple[tuple[int, ...], ...]) -> np.ndarray:
        """The numbers of a turn, repeated."""
        return np.resize(np.array(turns[self.seed % len(turns)], np.int64), self.shape)

    def _lengths(self) -> np.ndarray:
        """Between 1 and the smallest dynamic dim that may be a sequence; the first is that dim.

        A scalar that is compared is 0 in some sets: it may be the trip count of a loop.  A length that is only compared
        may be any positive number, and near the limits of its dtype a negative one too.
        """
        if self.tame:
            return np.ones(self.shape, dtype=np.int64)
        if self.values in FAR_KINDS:
            return (
                self._integers()
                if self.values is ValueKind.INTEGER_LIMITS
                else np.asarray(np.maximum(self._integers(), 1))
            )
        longest = min((size for key, size in self.sizes.items() if "batch" not in key.lower() and size > 0), default=3)
        if self.want.named is None and not self.want.is_unconstrained and "length" not in self.want.role.flags:
            longest = min(longest, _MAX_TRIPS)
        lengths = np.asarray(self.random.integers(1, longest + 1, self.shape))
        is_none = not self.shape and "compared" in self.want.role.flags and self.seed % 3 == 2
        lengths.reshape(-1)[:1] = 0 if is_none else longest
        if self.values is ValueKind.HIDDEN_ROWS:
            lengths.reshape(-1)[-1:] = 0
        return lengths

    def _keys(self) -> np.ndarray:
        """The number of keys of the longest sequence, past included, or the index of the last key of each sequence.

        Where each has one new key, all sequences but the first are shorter in every other set.
        """
        count = self.want.role.keys[0]
        new, past = self._size(count.new), self._size(count.past)
        if count.is_total:
            return np.full(self.shape, new + past)
        last = np.full(self.shape, max(new + past - 1, 0))
        if new == 1 and self.seed % 2 and not self.tame:
            last.reshape(-1)[1:] = self.random.integers(0, past + 1, self.shape).reshape(-1)[1:]
        return last

    def _compared(self) -> np.ndarray:
        """Values around usual bounds of integers: 0 and 1, and in every other set some below and above."""
        if self.values in WIDE_KINDS or self.values in FAR_KINDS:
            return self._integers()
        below_too = self.want.signed and self.values is ValueKind.USUAL and self.seed % 2 == 1
        return np.asarray(self.random.integers(-2 if below_too else 0, 3 if below_too else 2, self.shape))

    def _plain(self) -> np.ndarray:
        """Values without a known role: floats normal(0, 1), bytes over their whole range, small integers; or wide."""
        dtype = self.want.dtype
        if dtype.kind in "iu":
            return self._integers()
        if dtype.kind == "V" and "int" in dtype.name:
            limits = ml_dtypes.iinfo(dtype)
            low = int(limits.min) if self.want.signed and self.values not in POSITIVE_KINDS else 0
            return np.asarray(self.random.integers(low, int(limits.max) + 1, self.shape))
        if self.values in MASKED_KINDS:
            return self._hidden_floats()
        if self.values in EDGES:
            return edge_values(self.values, dtype, self.shape, seed=self.seed, random=self.random, half=self.want.half)
        if self.tame:
            return np.asarray(self.random.uniform(0.1, 1.0, self.shape))
        make = self._wide if self.values in WIDE_KINDS else lambda: standard_normal(self.random, self.shape)
        return np.asarray(make() + 1j * make() if dtype.kind == "c" else make())

    def _out_of_role(self) -> np.ndarray:
        """By turn: small numbers of both signs, numbers of all magnitudes, and non-negative numbers."""
        dtype, turn = self.want.dtype, self.seed % len(_SPANS)
        limits = np.iinfo(dtype) if dtype.kind in "iu" else None
        span = _SPANS[turn] if limits is None else min(_SPANS[turn], int(limits.max))
        far = np.exp2(self.random.uniform(0, np.log2(span), self.shape))
        signs = self.random.choice((-1, 1) if turn < 2 and (limits is None or limits.min < 0) else (1,), self.shape)
        return signs * (far if limits is None else np.floor(far))

    def _hidden_floats(self) -> np.ndarray:
        """A bias of scores: a very low number where a mask would hide, else 0 or usual values."""
        is_hidden = self._hidden()
        shown = standard_normal(self.random, self.shape) if self.seed % 2 else np.zeros(self.shape)
        return np.where(is_hidden, low_of(self.want.dtype, self.seed), shown)

    def _hidden(self) -> np.ndarray:
        rows, apart = self.values is ValueKind.HIDDEN_ROWS, self.values is ValueKind.MASK_GAPS
        return random_mask(self.shape, self.seed, self.random, rows=rows, apart=apart)

    def _integers(self) -> np.ndarray:
        """Integers for arithmetic: of both signs, unless an index or a size depends on them."""
        dtype = self.want.dtype
        if self.tame:
            return np.ones(self.shape, dtype=np.int64)
        negative = self.want.signed and self.values not in POSITIVE_KINDS
        if dtype.itemsize == 1:
            limits = np.iinfo(dtype)
            low = 0 if self.values in POSITIVE_KINDS else limits.min
            made = self.random.integers(low, int(limits.max) + 1, self.shape)
            if self.values in FAR_KINDS:  # all at one end, so that sums are as large as they can be
                inwards = self.random.integers(0, _NEAR_END, self.shape)
                is_low = negative and (self.values is ValueKind.LARGE_INTEGERS or self.seed % 2 == 1)
                return np.asarray(int(limits.min) + inwards if is_low else int(limits.max) - inwards)
        elif self.values in WIDE_KINDS:
            made = np.exp2(self.random.uniform(0, _WIDE_INTEGERS, self.shape)).astype(np.int64)
            made = made * self.random.choice((-1, 1) if negative else (1,), self.shape)
            tail = int(self._power(_WIDE[1]))
            made = self._with_pins(made, [tail, -tail if negative else 0, 0])
        else:
            made = self.random.integers(1 - _PLAIN_INTEGERS if negative else 0, _PLAIN_INTEGERS, self.shape)
        if self.values is ValueKind.LARGE_INTEGERS:
            far = (1 << (4 * dtype.itemsize - 1)) + 5  # squares still fit, once
            made = self._with_pins(made.astype(np.int64), [far, -far if negative else far + 2])
        if self.values is ValueKind.SUMMABLE_INTEGERS:
            far = (1 << min(8 * dtype.itemsize - 7, _HELD_BY_DOUBLES)) + 5
            made = self._with_pins(made.astype(np.int64), [far, -far + 1 if negative else far + 2])
        if self.values is ValueKind.INTEGER_LIMITS:
            made = self._near_limits(made, negative)
        if negative and self.values is ValueKind.USUAL:
            size = int(self.random.integers(1, _PLAIN_INTEGERS))
            made = self._with_pins(made, [size, -size])
        return np.where(made == 0, 1, made) if "divisor" in self.want.role.flags else np.asarray(made)

    def _near_limits(self, made: np.ndarray, negative: bool) -> np.ndarray:
        """Every other integer is near the largest or, if it may be negative, lowest of its dtype; one is at each.

        Of the rest, every other has any magnitude, or equals a small one in half of its bits.
        """
        limits = np.iinfo(self.want.dtype)
        bits = int(limits.max).bit_length()
        ends = np.where(self.random.random(self.shape) < (0.5 if negative else 0.0), -1, 1).astype(object)
        below = self.random.integers(0, _PLAIN_INTEGERS, self.shape).astype(object)
        below.reshape(-1)[self.seed % 2 : self.seed % 2 + 1] = 0
        near = np.asarray(ends * (int(limits.max) - below), object)  # the largest uint64 does not fit int64
        large = np.exp2(self.random.uniform(0, min(bits, _EXACT) - 1, self.shape)).astype(np.int64).astype(object)
        beyond = (1 << (bits + 1) // 2) + np.abs(made)
        far = np.asarray(ends * np.where(self.random.random(self.shape) < 1 / 2, large, beyond), object)
        kind = self.random.random(self.shape)
        kind.reshape(-1)[self.seed % 2 : self.seed % 2 + 1] = 0.0
        whole = np.asarray(made, object)
        chosen = np.where(kind < _FAR_PART, near, np.where(kind < _FAR_PART * 3 / 2, far, whole))
        least = (self.seed + 1) % 2  # beside the largest, or the only one in its turn
        chosen.reshape(-1)[least : least + negative] = int(limits.min)
        return chosen.astype(self.want.dtype)

    def _wide(self) -> np.ndarray:
        """Floats over many orders of magnitude, with exact zeros, and both tails in the smallest of tensors."""
        all_of_them, tail, far = _WIDE_HALF if self.want.half else _WIDE
        made = np.exp2(self.random.uniform(*all_of_them, self.shape)) * self.random.choice((-1.0, 1.0), self.shape)
        made = np.where(self.random.random(self.shape) < _ZEROS, 0.0, made)
        pins = [self._power(tail), -self._power(tail), 0.0]
        if self.values is ValueKind.LARGE and self.want.dtype.itemsize > 1:
            pins = [self._power(far), -self._power(far), *pins]
        made = self._with_pins(made, pins)
        return np.where(made == 0, 1.0, np.abs(made)) if self.values is ValueKind.WIDE_POSITIVE else made

    def _power(self, exponents: tuple[float, float]) -> float:
        """Two to a random exponent a little above the lowest."""
        return float(np.exp2(self.random.uniform(exponents[0] + 0.1, exponents[1])))

    def _with_pins(self, made: np.ndarray, pins: list[float]) -> np.ndarray:
        """Put each pin at a random place; if there is room for only one, the seed chooses it."""
        if (self.seed + self._key) % 2:
            pins = [pins[1], pins[0], *pins[2:]]
        flat = np.asarray(made).reshape(-1).copy()
        size, count = flat.size, len(pins)
        few = size > _SHUFFLED  # then drawing some is far less work than shuffling all
        places = self.random.choice(size, count, replace=False) if few else self.random.permutation(size)
        for place, pin in zip(places, pins, strict=False):
            flat[place] = pin
        return flat.reshape(self.shape)
