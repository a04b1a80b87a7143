"""The result for one tensor of a rewritten region, as the console and the report show it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from surgeon.result_base import JsonRecord


@dataclass(frozen=True, slots=True)
class Deviation(JsonRecord):
    """How far a result is from the reference, over elements where both are finite.

    Integers count in ones; strings and booleans count 1 if any differs.  All numbers are infinite for another shape or
    dtype.
    """

    JSON = "max_abs max_rel max_ulp"

    max_abs: float
    """Largest |result - reference|."""
    max_rel: float
    """Largest |result - reference| / |reference| over elements of at least a thousandth of the scale."""
    max_ulp: float
    """The same in units in the last place of the output dtype at |reference|."""


@dataclass(frozen=True, slots=True)
class TensorError(JsonRecord):
    """One tensor judged on one set of inputs.  It is a record of results, which reports show one by one."""

    JSON = "name dtype original rewritten gap scale allowed severity ok why"

    name: str
    """Name of the tensor."""
    dtype: str
    """Its dtype, by name."""
    original: Deviation | None
    """Deviation of the original; None without a reference, where the original serves as one."""
    rewritten: Deviation
    """Deviation of the rewrite."""
    scale: float
    """Largest magnitude of the elements that are like the decisive one."""
    allowed: float
    """How far the decisive element may be from the reference."""
    ok: bool
    """Whether the tensor passes."""
    why: str
    """What is wrong, in words; "" for nothing."""
    severity: float
    """`gap` / `allowed`, over elements further from the reference than the original; infinite where NaN, infinity,
    dtype or shape differ."""
    gap: float = 0.0
    """How far the decisive element is from the reference."""
    is_informative: bool = True
    """Whether rounding leaves enough to judge: zeros in place of the result would be found."""
    original_error: float = 0.0
    """Error of the original where only that accepts the gap, as with a wrong kernel; else 0."""
    may_hide: bool = False
    """Whether the absolute error of kernels is a large part of the values."""
    is_hidden: bool = False
    """Whether only that error accepts the gap."""
    limit_over_scale: float = 0.0
    """The limit of the largest number, as a part of that number."""
    because: str = ""
    """The reason for the largest part of that limit, as a clause."""
    place: int | None = field(default=None, compare=False)
    """The decisive element, counted along the axes in turn; None where none is."""


def worst_error(errors: Iterable[TensorError]) -> TensorError:
    """Return the error that is furthest beyond what is allowed.  Raises ValueError for none at all."""
    return max(errors, key=lambda error: (not error.ok, error.severity))


def lost_to_rounding_reason(error: TensorError) -> str:
    """Why a result is unproved whose values are lost to rounding."""
    return (
        f"rounding leaves nothing of {error.name!r} to be judged: it may differ by {error.allowed:.3g} on a scale of "
        f"{error.scale:.3g}, or as much, wherever it was computed"
    )


def original_wrong_reason(error: TensorError, against: str) -> str:
    """Why a result is unproved that is no further from the reference than an original that is wrong."""
    return (
        f"what runs the original here is wrong itself: {error.name!r} errs by {error.original_error:.3g} on a scale of "
        f"{error.scale:.3g} ({against}), and the replacement hardly less; try another version of ONNX Runtime"
    )


def hidden_by_kernel_error_reason(error: TensorError) -> str:
    """Why a result is unproved that is small beside the error of kernels, which would accept anything."""
    return (
        f"{error.name!r} differs by {error.gap:.3g} on a scale of {error.scale:.3g}, which kernels may err by here, "
        "but which is too much of it to tell another function from this one"
    )
