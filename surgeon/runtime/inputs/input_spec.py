"""The inputs that a model needs, one by one, and the kinds of values that they may get."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surgeon.analysis.assumptions.assumption import Assumption
from surgeon.errors import SurgeonError
from surgeon.runtime.numerics.array_comparison import name_of_dtype

if TYPE_CHECKING:  # rules need only the kinds of values
    from surgeon.analysis.input_roles import InputRole

FLOATS = frozenset(
    (
        *("float64", "complex128", "float32", "complex64", "float16", "bfloat16"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    )
)  # dtypes that round, by name
MAX_CONDITIONS = 4  # that take all combinations of their values; further ones take any


class ValueKind(enum.Enum):
    """What values to make, within what each input's role allows.

    Inputs that an index or a size depends on have USUAL values in wide kinds.  The kinds of `EDGES` change only float
    inputs for which `InputSpec.takes_edge_values` holds.  Added masks (`InputSpec.is_mask`) hide with the lowest number
    of the dtype, minus infinity or -1e4, by seed.
    """

    USUAL = enum.auto()
    """Floats normal(0, 1), integers of both signs."""
    UNSIGNED = enum.auto()
    """USUAL without negative integers."""
    WIDE = enum.auto()
    """Floats of 2**-10 to 2**6 (with float16: 2**4), integers to 2**10, exact zeros, both signs."""
    LARGE = enum.auto()
    """WIDE, and a few floats of up to 2**13 (with float16: 2**6.5)."""
    WIDE_POSITIVE = enum.auto()
    """WIDE with positive floats and non-negative integers."""
    BENIGN = enum.auto()
    """Ones, and floats in (0.1, 1), for models that refuse the others or answer NaN."""
    ZEROS = enum.auto()
    """Zeros of both signs."""
    DENORMALS = enum.auto()
    """Subnormal numbers of both signs, and zeros."""
    EXTREME = enum.auto()
    """USUAL, and some numbers so large that their squares overflow."""
    NON_FINITE = enum.auto()
    """USUAL, and some +inf, -inf or NaN, but none in one slice along every axis."""
    INFINITE = enum.auto()
    """NON_FINITE without NaN; in one of three seeds only NaN, in one rows with infinity of one sign."""
    CONSTANT_ROWS = enum.auto()
    """normal(0, 1), constant along the last axis."""
    OFFSET = enum.auto()
    """normal(0, 1) around a common mean far from zero: 1e4; 16 in float16, less in narrower dtypes."""
    SMALL_OFFSET = enum.auto()
    """OFFSET with a mean of at most 16."""
    SMALL = enum.auto()
    """normal(0, 1e-4), in float16 normal(0, 2**-8): near the epsilon that is added to a variance."""
    ORDERED = enum.auto()
    """Rows in turn: rising or falling integers, shares that add up to 1, one-hot, all ones, pairs of equals."""
    MAGNITUDES = enum.auto()
    """All magnitudes of the dtype with equal frequency, both signs."""
    SAFE_MAGNITUDES = enum.auto()
    """MAGNITUDES of a third of the exponents, so that sums of products overflow in no order."""
    ROW_MAGNITUDES = enum.auto()
    """normal(0, 1), each row along the last axis (odd seeds: all but the first) times its own magnitude."""
    SAFE_ROW_MAGNITUDES = enum.auto()
    """ROW_MAGNITUDES of a third of the exponents, in every other input; the next seed takes the others."""
    TINY = enum.auto()
    """normal(0, 1e-16) and normal(0, 1e-32) in turn along the first axis, or as small in other dtypes."""
    UNIFORM_LARGE = enum.auto()
    """About one magnitude, 2e5 or in float16 2e4, and one sign in each column, so that means are as large."""
    LARGE_INTEGERS = enum.auto()
    """USUAL, and a few integers that do not fit half of the bits."""
    INTEGER_LIMITS = enum.auto()
    """LARGE_INTEGERS, and integers near both limits of the dtype, where sums and products wrap."""
    SUMMABLE_INTEGERS = enum.auto()
    """LARGE_INTEGERS, a few of them not representable in float32, but so small that a sum fits."""
    HOLES = enum.auto()
    """Random mask bits that leave some of each row visible; in every other seed only ones."""
    HIDDEN_ROWS = enum.auto()
    """HOLES with some rows that are hidden as a whole, whichever bit hides."""
    MASK_GAPS = enum.auto()
    """Holes in masks, but none at the first of a row and no two next to each other."""
    BACKWARDS = enum.auto()
    """Indices of which some count from the end of their table."""
    COUNTS = enum.auto()
    """Other sizes, counts, steps and starts than the usual ones, some of them negative."""
    ZEROS_AND_ONES = enum.auto()
    """Zeros and ones, with a whole row of zeros: what buffers of masks and scales hold."""
    FRACTIONS = enum.auto()
    """Floats read as integers or booleans, in turn between integers, halfway, NaN, and next to their limits."""
    OUT_OF_ROLE = enum.auto()
    """Lengths, counts, masks, and inputs of indices and sizes, as if they were plain numbers."""

    @property
    def description(self) -> str:
        """The kind as it is said in a sentence."""
        return self.name.lower().replace("_", " ")


WIDE_KINDS = frozenset((ValueKind.WIDE, ValueKind.LARGE, ValueKind.WIDE_POSITIVE))
POSITIVE_KINDS = frozenset((ValueKind.UNSIGNED, ValueKind.WIDE_POSITIVE, ValueKind.BENIGN))
FAR_KINDS = (ValueKind.LARGE_INTEGERS, ValueKind.INTEGER_LIMITS, ValueKind.SUMMABLE_INTEGERS)
EDGES = (
    ValueKind.ZEROS,
    ValueKind.DENORMALS,
    ValueKind.EXTREME,
    ValueKind.NON_FINITE,
    ValueKind.INFINITE,
    ValueKind.CONSTANT_ROWS,
    ValueKind.OFFSET,
    ValueKind.SMALL_OFFSET,
    ValueKind.SMALL,
    ValueKind.ORDERED,
    ValueKind.MAGNITUDES,
    ValueKind.SAFE_MAGNITUDES,
    ValueKind.ROW_MAGNITUDES,
    ValueKind.SAFE_ROW_MAGNITUDES,
    ValueKind.TINY,
    ValueKind.UNIFORM_LARGE,
    ValueKind.ZEROS_AND_ONES,
)
# These stand for others, or go with them.
_STANDING_IN = frozenset(
    (
        *(
            ValueKind.SMALL_OFFSET,
            ValueKind.INFINITE,
            ValueKind.SAFE_MAGNITUDES,
            ValueKind.ROW_MAGNITUDES,
            ValueKind.SAFE_ROW_MAGNITUDES,
            ValueKind.TINY,
            ValueKind.UNIFORM_LARGE,
        ),
        *(ValueKind.ZEROS_AND_ONES, ValueKind.ORDERED),
    )
)
MASKED_KINDS = (ValueKind.HOLES, ValueKind.HIDDEN_ROWS)
# Kinds of inputs of which a rule may say that it differs there.
DECLARABLE = (
    *(kind for kind in EDGES if kind not in _STANDING_IN),
    *MASKED_KINDS,
    *(ValueKind.BACKWARDS, ValueKind.WIDE, ValueKind.LARGE),
)
# On these, what is infinite or NaN has overflowed, or comes of a zero that a tiny number became on the way: the inputs
# are finite, and few are zero.
OVERFLOWING = frozenset(
    (
        *(
            ValueKind.WIDE,
            ValueKind.LARGE,
            ValueKind.WIDE_POSITIVE,
            ValueKind.EXTREME,
            ValueKind.OFFSET,
            ValueKind.ORDERED,
        ),
        *(
            ValueKind.MAGNITUDES,
            ValueKind.SAFE_MAGNITUDES,
            ValueKind.ROW_MAGNITUDES,
            ValueKind.SAFE_ROW_MAGNITUDES,
            ValueKind.TINY,
            ValueKind.UNIFORM_LARGE,
        ),
    )
)


class InputsUnknown(SurgeonError):
    """No inputs can be made for a model; `reason` says why in one sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input to generate."""

    name: str
    """Name of the graph input."""
    dtype: np.dtype
    """Its numpy dtype."""
    dims: tuple[int | str, ...]
    """Sizes, and names of dynamic dims."""
    role: InputRole
    """Its role in the graph."""
    named: str | None
    """Role that its name suggests; None if names are not read."""
    turn: int
    """Its index among the inputs that are conditions."""
    kind: str
    """Which values it takes: "plain", "compared", "mask", "indices" and so on."""
    is_unconstrained: bool
    """Whether no index and no size depends on its values."""
    half: bool
    """Whether the model has float16 tensors."""
    keeps_role: bool = True
    """Whether values outside of its role are excluded: it belongs to a whole model, or memory depends on its values."""
    assumption: Assumption | None = None
    """The assumption that its values obey."""

    @property
    def signed(self) -> bool:
        """Whether integers are made of both signs."""
        return self.is_unconstrained and self.kind in ("plain", "compared") and _is_signed(self.dtype)

    @property
    def takes_wide_values(self) -> bool:
        """Whether wide-ranging values differ from the usual ones."""
        return self.is_unconstrained and self.kind in ("plain", "compared") and self.named is None

    @property
    def takes_edge_values(self) -> bool:
        """Whether edge values of its dtype differ from the usual ones: a real float that only arithmetic reads."""
        return self.is_unconstrained and self.kind == "plain" and _is_real_float(self.dtype)

    @property
    def takes_large_integers(self) -> bool:
        """Whether it takes integers far from zero, which a cast to fewer bits would change."""
        return (self.takes_wide_values or self.is_compared_length) and self.dtype.kind in "iu"

    @property
    def is_compared_length(self) -> bool:
        """Whether it is a length that is only compared."""
        return self.is_unconstrained and self.kind == "lengths"

    @property
    def is_mask(self) -> bool:
        """Whether it hides scores: a mask, or floats that are added to scores."""
        return self.kind == "mask" or (self.takes_edge_values and "scores" in self.role.flags and len(self.dims) > 0)

    @property
    def may_ignore_role(self) -> bool:
        """Whether a proof may give it values outside of its role."""
        has_role = self.kind in ("lengths", "counts", "mask")  # an index has only the rows of its table
        is_bound = has_role or (not self.is_unconstrained and self.kind in ("plain", "compared"))
        is_number = self.dtype.kind in "iu" or _is_real_float(self.dtype)
        return is_bound and is_number and self.named is None and not self.keeps_role

    @property
    def fractional(self) -> bool:
        """Whether it is a float that is read as an integer or boolean, or from which one is computed."""
        is_role = self.kind in ("indices", "counts", "lengths") or (self.kind == "mask" and "truth" in self.role.flags)
        is_float = _is_real_float(self.dtype)
        is_computed = self.kind == "plain" and not self.is_unconstrained and not self.keeps_role
        return is_float and self.named is None and (is_role or is_computed)

    @property
    def is_index(self) -> bool:
        """Whether it holds indices, some of which may count from the end."""
        return self.kind == "indices" and _is_signed(self.dtype) and self.named != "position"

    def answers_to(self, values: ValueKind) -> bool:
        """Whether values of this kind differ from the usual ones here."""
        if values in WIDE_KINDS:
            return self.takes_wide_values
        if values in EDGES:
            return self.takes_edge_values
        if values in MASKED_KINDS:
            return self.is_mask or (values is ValueKind.HIDDEN_ROWS and self.is_compared_length)
        if values is ValueKind.MASK_GAPS:
            return self.kind == "mask"
        if values in FAR_KINDS:
            return self.takes_large_integers
        if values is ValueKind.OUT_OF_ROLE:
            return self.may_ignore_role
        if values is ValueKind.FRACTIONS:
            return self.fractional
        if values is ValueKind.COUNTS:
            return self.kind == "counts"
        return self.is_index if values is ValueKind.BACKWARDS else True

    def obeying(self, array: np.ndarray) -> np.ndarray:
        """The array with other elements in place of those that violate the assumption."""
        return array if self.assumption is None else self.assumption.obey(array)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape under these sizes."""
        return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self.dims)


def _is_real_float(dtype: np.dtype) -> bool:
    return dtype.kind != "c" and name_of_dtype(dtype) in FLOATS


def _is_signed(dtype: np.dtype) -> bool:
    """Whether a dtype is an integer that can be negative."""
    return dtype.kind == "i" or (dtype.kind == "V" and dtype.name.startswith("int"))
