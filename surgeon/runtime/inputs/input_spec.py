"""What inputs a model wants, one by one, and what kinds of values can be asked for."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surgeon.errors import SurgeonError

if TYPE_CHECKING:  # rules ask for the kinds of values alone
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

    USUAL: floats normal(0, 1), integers of both signs.  UNSIGNED: the same, no integer negative.
    WIDE: floats of 2**-10 to 2**6 (beside float16: 2**4), integers to 2**10, exact zeros, both signs.  LARGE: the same
    and a few of up to 2**13 (2**6.5).  WIDE_POSITIVE: WIDE, but floats above zero and integers not below.  Inputs that
    an index or a size hangs on stay as in USUAL.  BENIGN: as small as can be, for models that refuse the others or
    answer NaN: ones, floats in (0.1, 1).

    The others are the edges of a dtype, for float inputs that are `Want.edged`; all else is as in USUAL.  ZEROS: exact
    zeros of both signs.  DENORMALS: subnormal numbers of both signs, and zeros.  EXTREME: usual values and some so
    large that their squares overflow.  NON_FINITE: usual values, and +inf, -inf or NaN at some places, but at none in
    one slice along every axis.  INFINITE: the same without NaN, in one of three seeds NaN throughout, for of a few NaN
    it hangs on their places whether a maximum sees them, and in one each row with infinity of one sign alone.
    CONSTANT_ROWS: normal(0, 1), the same all along the last axis.  OFFSET: normal(0, 1) about a common mean far from
    zero: 1e4; 16 in float16, less in narrower dtypes.  SMALL_OFFSET: the same with 16 at most.  SMALL: normal(0, 1e-4),
    in float16 normal(0, 2**-8): near what is added to a variance lest it be zero.  ORDERED: in turn rows along the last
    axis that rise, or fall, of whole numbers, of parts of one, of zeros but for a one, of ones, of pairs of equals.

    MAGNITUDES: every magnitude that the dtype has, as many of one as of another, of both signs.  SAFE_MAGNITUDES: those
    of a third of its exponents, of which sums of products overflow in no order.  ROW_MAGNITUDES: normal(0, 1), each row
    along the last axis (odd seeds: along all but the first) times a magnitude of its own, for beside a far larger one a
    sum loses the small; none is so large that sums overflow.  SAFE_ROW_MAGNITUDES: the same of a third of the
    exponents, along the last axis, in every other input; in the next seed, the others.

    TINY: normal(0, 1e-16) and normal(0, 1e-32) in turn along the first axis, or as small in other dtypes: products of
    two of the first, and the second themselves, are far below all usual numbers, and still normal ones.  UNIFORM_LARGE:
    all of about one magnitude, 2e5 or in float16 2e4, and of one sign in each column: so are means of them.

    LARGE_INTEGERS: as USUAL, with a few integers that no type of half the bits holds, for inputs that are `Want.far`.
    INTEGER_LIMITS: the same with integers near both ends of their dtype, where sums and products wrap, and of every
    magnitude between; SUMMABLE_INTEGERS: with a few integers of which a sum still fits, and float32 holds none.  In all
    three, bytes are at one end.

    HOLES: masks of random bits, in every other seed of ones alone; some of each row is shown.  HIDDEN_ROWS: the same
    with rows of which all is hidden, whichever bit hides.  In floats that are added to scores (`Want.hides`) what is
    hidden is, as the seed goes, the least number of the dtype, minus infinity, or -1e4, and the rest 0 or usual.
    MASK_GAPS: holes in masks alone, but none at the first of a row, which is all that the first row of a causal
    attention may see, and no two side by side, which may be all that a row with a window sees.  BACKWARDS: indices of
    which some count from the end of their table.

    COUNTS: other sizes, counts, steps and places to begin than the usual ones, some of them negative.

    ZEROS_AND_ONES: zeros and ones, a whole row of zeros among them: what buffers of masks and of scales hold.

    FRACTIONS: floats that are taken for indices, counts, lengths or truths, or that one of these is computed from
    (`Want.fractional`), in turn between whole numbers, halfway between them, NaN, and beside the ends of their range.

    OUT_OF_ROLE: lengths, counts, masks and whatever an index or a size hangs on as if they were plain numbers, for
    inputs that are `Want.leaves_role`: a model that takes any bounds them first, and one that does not refuses.  In
    turn of both signs, the same wide, and not negative.
    """

    USUAL = enum.auto()
    UNSIGNED = enum.auto()
    WIDE = enum.auto()
    LARGE = enum.auto()
    WIDE_POSITIVE = enum.auto()
    BENIGN = enum.auto()
    ZEROS = enum.auto()
    DENORMALS = enum.auto()
    EXTREME = enum.auto()
    NON_FINITE = enum.auto()
    INFINITE = enum.auto()
    CONSTANT_ROWS = enum.auto()
    OFFSET = enum.auto()
    SMALL_OFFSET = enum.auto()
    SMALL = enum.auto()
    ORDERED = enum.auto()
    MAGNITUDES = enum.auto()
    SAFE_MAGNITUDES = enum.auto()
    ROW_MAGNITUDES = enum.auto()
    SAFE_ROW_MAGNITUDES = enum.auto()
    TINY = enum.auto()
    UNIFORM_LARGE = enum.auto()
    LARGE_INTEGERS = enum.auto()
    INTEGER_LIMITS = enum.auto()
    SUMMABLE_INTEGERS = enum.auto()
    HOLES = enum.auto()
    HIDDEN_ROWS = enum.auto()
    MASK_GAPS = enum.auto()
    BACKWARDS = enum.auto()
    COUNTS = enum.auto()
    ZEROS_AND_ONES = enum.auto()
    FRACTIONS = enum.auto()
    OUT_OF_ROLE = enum.auto()

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
        """Whether the edges of its dtype differ from the usual values: a real float that goes into arithmetic alone."""
        return self.is_unconstrained and self.kind == "plain" and self.dtype.name in FLOATS and self.dtype.kind != "c"

    @property
    def takes_large_integers(self) -> bool:
        """Whether it takes integers far from zero, which a cast to fewer bits and back would lose."""
        return (self.takes_wide_values or self.is_compared_length) and self.dtype.kind in "iu"

    @property
    def is_compared_length(self) -> bool:
        """Whether it is a length that nothing but a comparison hangs on."""
        return self.is_unconstrained and self.kind == "lengths"

    @property
    def is_mask(self) -> bool:
        """Whether it says which scores are hidden: a mask, or floats that are added to them."""
        return self.kind == "mask" or (self.takes_edge_values and "scores" in self.role.flags and len(self.dims) > 0)

    @property
    def may_ignore_role(self) -> bool:
        """Whether a proof may give it any numbers, whatever they are taken for."""
        has_role = self.kind in ("lengths", "counts", "mask")  # what is an index as it is has a table's rows alone
        is_bound = has_role or (not self.is_unconstrained and self.kind in ("plain", "compared"))
        is_number = self.dtype.kind in "iu" or (self.dtype.name in FLOATS and self.dtype.kind != "c")
        return is_bound and is_number and self.named is None and not self.keeps_role

    @property
    def fractional(self) -> bool:
        """Whether it is a float that becomes a whole number or a truth, or that one is computed from."""
        is_role = self.kind in ("indices", "counts", "lengths") or (self.kind == "mask" and "truth" in self.role.flags)
        is_float = self.dtype.name in FLOATS and self.dtype.kind != "c"
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

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape under these sizes."""
        return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self.dims)


def _is_signed(dtype: np.dtype) -> bool:
    """Whether a dtype is an integer that can be negative."""
    return dtype.kind == "i" or (dtype.kind == "V" and dtype.name.startswith("int"))
