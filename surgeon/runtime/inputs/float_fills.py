"""Fills for float inputs that only arithmetic reads: special numbers, magnitudes, row statistics."""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from surgeon.runtime.inputs import edge_values as edges
from surgeon.runtime.inputs.fill import Blank, Fill

NAN, INF = float("nan"), float("inf")
# The operands that IEEE 754 treats differently from each other.
SPECIAL = (0.0, -0.0, 1.0, -1.0, INF, -INF, NAN)
GRID = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
"""So few numbers that equal ones meet, and so simple that their sums and products are exact."""
RANKS_OF_ROWS = (2, 3)
"""Ranks of inputs whose rows are vectors, not parts of images."""
THIRD = 1 / 3
"""Share of the exponents with which products of three factors never overflow, in any order."""
_WIDE = ((-10.0, 6.0), (8.0, 13.0))
"""Binary exponents of usual activations (some ops clip at 6), and of outliers."""
_WIDE_HALF = ((-10.0, 4.0), (5.0, 6.5))
"""The same for float16.  A sum of squares must not overflow, because a fused operator sums in float32."""
_ZEROS = 1 / 16  # share of activations that are exactly zero, as after a Relu or a padding
_SMALL_ROWS = (0.0, 1e-4, 1.0)  # factors of rows in turn: squares of small rows are below the epsilons of norms
_SMALL_ROWS_HALF = (0.0, 2.0**-8, 1.0)  # for dtypes in which those squares would be subnormal


def _constant(number: float) -> Callable[[Blank], np.ndarray]:
    return lambda blank: np.full(blank.shape, number)


def _lone(number: float) -> Callable[[Blank], np.ndarray]:
    """Usual numbers with this number once in each row."""

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
    """Special numbers, arranged so that any two of seven inputs contain every pair within 49 elements.

    There are 7 special numbers, a prime.  Element k = 7·b + a of the input at position p is number (a + p·b) mod 7.
    For two inputs with different p, the two numbers determine a and b.  first: the first k.
    """

    def make(blank: Blank) -> np.ndarray:
        length = len(SPECIAL)
        tens, ones = np.divmod(first + np.arange(math.prod(blank.shape)), length)
        return np.reshape(np.asarray(SPECIAL)[(ones + place * tens) % length], blank.shape)

    return Fill("special numbers in pairs", make, ("non_finite",))


def at_middle(number: float) -> Fill:
    """Usual numbers with this number in the middle of each row, at the same index in all inputs."""

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
NON_FINITE = Fill("non finite", lambda blank: edges.non_finite_among_usual(blank.shape, blank.random), ("non_finite",))
INFINITE = Fill(
    "infinite", lambda blank: edges.non_finite_among_usual(blank.shape, blank.random, (INF, -INF)), ("non_finite",)
)
NON_FINITE_ROWS = Fill(
    "non finite",
    lambda blank: edges.non_finite_among_usual(blank.shape, blank.random, (-INF, NAN, INF), apart="rows"),
    ("non_finite",),
)
"""Each row has only one of these numbers: NaN would hide the effect of a row of -infinity on a softmax."""
NON_FINITE_SLICES = Fill(
    "non finite",
    lambda blank: edges.non_finite_among_usual(blank.shape, blank.random, (NAN, INF, -INF), apart="slices"),
    ("non_finite",),
)
"""Each slice along the first axis has only one, because infinities of both signs add up to NaN."""
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
    ("large",),
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
    """Usual numbers around a mean far from zero; is_small: as far as float16 allows."""

    def make(blank: Blank) -> np.ndarray:
        dtype = np.dtype(np.float16) if is_small and blank.narrow.itemsize > 2 else blank.narrow
        return edges.offset(dtype, blank.shape, sign, blank.random)

    return Fill("offset", make, ("offset",), may_overflow=True)


def ordered(first: int) -> Fill:
    """Rows of one form each: rising, falling, shares that sum to one, one-hot, ones, equal pairs."""
    return Fill(
        "ordered", lambda blank: edges.ordered_rows(blank.narrow, blank.shape, first, blank.random), may_overflow=True
    )


def magnitudes(part: float, flip: int) -> Fill:
    """Numbers of all powers of two; part: the share of exponents to use, those nearest to zero."""
    return Fill(
        "magnitudes",
        lambda blank: edges.all_magnitudes(blank.narrow, blank.shape, blank.random, flip=flip, part=part),
        ("magnitudes", "extreme"),
        may_overflow=True,
    )


def row_magnitudes(part: float, *, many: bool = False) -> Fill:
    """Usual numbers, each row times its own power of two; many: one power for all rows of a batch."""
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
    """The magnitudes of a fill, with ones instead of zeros, for models with logarithms and quotients."""

    def make(blank: Blank) -> np.ndarray:
        made = np.abs(fill.make(blank))
        return np.where(made == 0, 1, made)

    return fill._replace(name=f"{fill.name} positive", make=make)


def _small_rows(blank: Blank) -> np.ndarray:
    factors = _SMALL_ROWS if float(ml_dtypes.finfo(blank.spec.dtype).tiny) < _SMALL_ROWS[1] ** 2 else _SMALL_ROWS_HALF
    rows = np.resize(factors, blank.shape[:-1])[..., None]
    return np.asarray(edges.standard_normal(blank.random, blank.shape) * rows)


SMALL_ROWS = Fill("rows of zeros and small rows", _small_rows, may_overflow=True)
"""Padding consists of rows of zeros.  The epsilon of a norm is visible only on small rows."""


def scaled(factor: float) -> Fill:
    """Usual numbers times a factor."""
    return Fill("small", lambda blank: edges.standard_normal(blank.random, blank.shape) * factor, TINY.kinds)
