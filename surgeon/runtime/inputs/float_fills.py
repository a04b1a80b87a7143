"""Fills of float inputs that only arithmetic reads: special numbers, magnitudes, statistics of rows."""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from surgeon.runtime.inputs import edge_values as edges
from surgeon.runtime.inputs.fill import Blank, Fill

NAN, INF = float("nan"), float("inf")
# Every operand of IEEE's table that gives what no other gives.
SPECIAL = (0.0, -0.0, 1.0, -1.0, INF, -INF, NAN)
GRID = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
"""Numbers so few that equal ones meet, and so simple that sums and products of them are exact."""
RANKS_OF_ROWS = (2, 3)
"""Ranks of inputs whose rows are vectors, not parts of pictures."""
THIRD = 1 / 3
"""Part of the exponents from which products of three factors overflow in no order."""
_WIDE = ((-10.0, 6.0), (8.0, 13.0))
"""Binary exponents: of activations that networks hold, past the 6 at which some are cut off; of outliers."""
_WIDE_HALF = ((-10.0, 4.0), (5.0, 6.5))
"""The same for float16: a sum of squares must not overflow, for a fused operator sums in float32 and does not."""
_ZEROS = 1 / 16  # part of activations that are exactly zero, as behind a Relu or a padding
_SMALL_ROWS = (0.0, 1e-4, 1.0)  # factors on rows in turn: squares of small ones are below the epsilons of norms
_SMALL_ROWS_HALF = (0.0, 2.0**-8, 1.0)  # where those squares would be subnormal


def _constant(number: float) -> Callable[[Blank], np.ndarray]:
    return lambda blank: np.full(blank.shape, number)


def _lone(number: float) -> Callable[[Blank], np.ndarray]:
    """Usual numbers with one such number in each row."""

    def make(blank: Blank) -> np.ndarray:
        made = np.array(edges.standard_normal(blank.random, blank.shape), np.float64)
        rows = made.reshape(len(made) if made.ndim else 1, -1)
        if rows.size:
            rows[np.arange(len(rows)), blank.random.integers(0, rows.shape[1], len(rows))] = number
        return made

    return make


def _wide(blank: Blank, *, has_outliers: bool) -> np.ndarray:
    """Floats over many orders of magnitude, with exact zeros; with outliers, one of each sign."""
    usual, outliers = _WIDE_HALF if blank.spec.half else _WIDE
    random = blank.random
    made = np.exp2(random.uniform(*usual, blank.shape)) * random.choice((-1.0, 1.0), blank.shape)
    made = np.where(random.random(blank.shape) < _ZEROS, 0.0, made)
    flat = made.reshape(-1)
    if has_outliers and blank.spec.dtype.itemsize > 1 and flat.size:
        places = random.permutation(flat.size)[:2]
        flat[places] = np.resize((1.0, -1.0), places.size) * np.exp2(random.uniform(*outliers, places.size))
    return flat.reshape(blank.shape)


def special_pairs(place: int, first: int = 0) -> Fill:
    """Special numbers, so that any two of seven inputs hold every pair of them within 49 elements.

    The number of special numbers is prime: with element k = 7·b + a, an input at place p holds the (a + p·b)th of them,
    and two inputs with other p hold two that determine a and b.  first: the first k.
    """

    def make(blank: Blank) -> np.ndarray:
        length = len(SPECIAL)
        tens, ones = np.divmod(first + np.arange(math.prod(blank.shape)), length)
        return np.reshape(np.asarray(SPECIAL)[(ones + place * tens) % length], blank.shape)

    return Fill("special numbers in pairs", make, ("non_finite",))


def at_middle(number: float) -> Fill:
    """Usual numbers with one such number in the middle of each row, in all inputs at the same place."""

    def make(blank: Blank) -> np.ndarray:
        made = np.array(edges.standard_normal(blank.random, blank.shape), np.float64)
        rows = made.reshape(len(made) if made.ndim else 1, -1)
        rows[:, rows.shape[1] // 2 : rows.shape[1] // 2 + 1] = number
        return made

    return Fill("a special number in the middle", make, ("non_finite",))


USUAL = Fill("usual", lambda blank: edges.standard_normal(blank.random, blank.shape))
EQUAL = Fill("equal numbers", lambda blank: blank.random.choice(GRID, blank.shape))
ZEROS = Fill("zeros", lambda blank: edges.signed_zeros(blank.shape, blank.random), ("zeros",))
DENORMALS = Fill(
    "denormals", lambda blank: edges.denormals(blank.spec.dtype, blank.shape, blank.random), ("denormals",)
)
NON_FINITE = Fill(
    "non finite", lambda blank: edges.non_finite_among_usual(blank.shape, blank.random), ("non_finite",)
)
INFINITE = Fill(
    "infinite",
    lambda blank: edges.non_finite_among_usual(blank.shape, blank.random, (INF, -INF)),
    ("non_finite",),
)
NON_FINITE_ROWS = Fill(
    "non finite",
    lambda blank: edges.non_finite_among_usual(blank.shape, blank.random, (-INF, NAN, INF), apart="rows"),
    ("non_finite",),
)
"""Each row has only one of them: NaN would hide the effect of a row of minus infinity on a softmax."""
NON_FINITE_SLICES = Fill(
    "non finite",
    lambda blank: edges.non_finite_among_usual(blank.shape, blank.random, (NAN, INF, -INF), apart="slices"),
    ("non_finite",),
)
"""Each slice along the first axis has only one, because infinity of both signs adds up to NaN."""
ALL_NAN = Fill("all NaN", _constant(NAN), ("non_finite",))
ALL_INF = Fill("all infinite", _constant(INF), ("non_finite",))
ALL_MINUS_INF = Fill("all minus infinite", _constant(-INF), ("non_finite",))
LONE_NAN = Fill("one NaN", _lone(NAN), ("non_finite",))
LONE_INF = Fill("one infinite", _lone(INF), ("non_finite",))
LONE_MINUS_INF = Fill("one minus infinite", _lone(-INF), ("non_finite",))
WIDE = Fill("wide", lambda blank: _wide(blank, has_outliers=False), ("wide",), may_overflow=True)
LARGE = Fill("large", lambda blank: _wide(blank, has_outliers=True), ("large",), may_overflow=True)
EXTREME = Fill(
    "extreme",
    lambda blank: edges.huge_among_usual(blank.spec.dtype, blank.shape, blank.random),
    ("extreme",),
    may_overflow=True,
)
EXTREME_HALF = Fill(
    "extreme",
    lambda blank: edges.huge_among_usual(blank.narrow, blank.shape, blank.random),
    ("extreme",),
    may_overflow=True,
)
UNIFORM_LARGE = Fill(
    "uniform large",
    lambda blank: edges.uniform_large(blank.narrow, blank.shape, blank.random),
    may_overflow=True,
)
TINY = Fill(
    "tiny",
    lambda blank: edges.tiny(blank.narrow, blank.shape, blank.random),
    ("small", "zeros", "denormals"),
    may_overflow=True,
)
SMALL = Fill("small", lambda blank: edges.small(blank.narrow, blank.shape, blank.random), ("small",))
ONES = Fill("ones", _constant(1.0))
NEGATIVE = Fill("negative", lambda blank: -np.abs(edges.standard_normal(blank.random, blank.shape)))
POSITIVE = Fill("positive", lambda blank: np.abs(edges.standard_normal(blank.random, blank.shape)))
CONSTANT = Fill(
    "constant rows", lambda blank: edges.constant_rows(blank.shape, blank.random, many=False), ("constant_rows",)
)
CONSTANT_MORE = Fill(
    "constant rows", lambda blank: edges.constant_rows(blank.shape, blank.random, many=True), ("constant_rows",)
)
ZEROS_AND_ONES = Fill("zeros and ones", lambda blank: edges.zeros_and_ones(blank.shape, blank.random), ("zeros",))


def offset(sign: int, *, is_small: bool) -> Fill:
    """Usual numbers about a mean far from zero; is_small: as far as float16 allows."""

    def make(blank: Blank) -> np.ndarray:
        dtype = np.dtype(np.float16) if is_small and blank.narrow.itemsize > 2 else blank.narrow
        return edges.offset(dtype, blank.shape, sign, blank.random)

    return Fill("offset", make, ("offset",), may_overflow=True)


def ordered(first: int) -> Fill:
    """Rows of one form each: rising, falling, parts of one, one of zeros, ones, pairs of equals."""
    return Fill(
        "ordered",
        lambda blank: edges.ordered_rows(blank.narrow, blank.shape, first, blank.random),
        may_overflow=True,
    )


def magnitudes(part: float, flip: int) -> Fill:
    """A number for each power of two; part: of the exponents, those nearest to zero."""
    return Fill(
        "magnitudes",
        lambda blank: edges.all_magnitudes(blank.narrow, blank.shape, blank.random, flip=flip, part=part),
        ("magnitudes", "extreme"),
        may_overflow=True,
    )


def row_magnitudes(part: float, *, many: bool = False) -> Fill:
    """Usual numbers, those of each row times their own power of two; many: one for all rows of a batch."""
    return Fill(
        "row magnitudes",
        lambda blank: edges.row_magnitudes(blank.narrow, blank.shape, blank.random, many=many, part=part),
        ("magnitudes", "extreme"),
        may_overflow=True,
    )


def mirrored(fill: Fill) -> Fill:
    """A fill with the other sign."""
    return fill._replace(make=lambda blank: -fill.make(blank))


def positive(fill: Fill) -> Fill:
    """The magnitudes of a fill, with ones in place of zeros: for models that take logarithms and quotients."""

    def make(blank: Blank) -> np.ndarray:
        made = np.abs(fill.make(blank))
        return np.where(made == 0, 1, made)

    return fill._replace(name=f"{fill.name} positive", make=make)


def _small_rows(blank: Blank) -> np.ndarray:
    factors = _SMALL_ROWS if float(ml_dtypes.finfo(blank.spec.dtype).tiny) < _SMALL_ROWS[1] ** 2 else _SMALL_ROWS_HALF
    rows = np.resize(factors, blank.shape[:-1])[..., None]
    return np.asarray(edges.standard_normal(blank.random, blank.shape) * rows)


SMALL_ROWS = Fill("rows of zeros and small rows", _small_rows, may_overflow=True)
"""Padding is rows of zeros, and the epsilon that a norm adds to squares shows only on small rows."""


def scaled(factor: float) -> Fill:
    """Usual numbers times a factor."""
    return Fill("small", lambda blank: edges.standard_normal(blank.random, blank.shape) * factor, TINY.kinds)
