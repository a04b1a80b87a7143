"""The result for one tensor of a rewritten region, as shown in the console and the report."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from surgeon.result_base import JsonRecord


@dataclass(frozen=True, slots=True)
class Deviation(JsonRecord):
    """How far a result is from the reference, over elements that are finite in both.

    For strings and booleans, 1 if any differs.  All numbers are infinite for another shape or dtype.
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
    """Deviation of the original; None if the original serves as the reference."""
    rewritten: Deviation
    """Deviation of the rewrite."""
    scale: float
    """Largest magnitude of the elements similar to the decisive one."""
    allowed: float
    """Largest allowed distance of the decisive element from the reference."""
    ok: bool
    """Whether the tensor passes."""
    why: str
    """The difference in words; empty if the tensor passes."""
    severity: float
    """Largest `gap` / `allowed` over elements further from the reference than the original.

    Infinite if NaN, infinity, dtype or shape differ.
    """
    gap: float = 0.0
    """How far the decisive element is from the reference."""
    is_informative: bool = True
    """Whether rounding leaves enough to judge: zeros instead of the result would fail."""
    original_error: float = 0.0
    """Error of the original if the gap passes only because of it, as with a wrong kernel; else 0."""
    may_hide: bool = False
    """Whether the absolute error of kernels is a large share of the values."""
    is_hidden: bool = False
    """Whether the gap passes only because of that error."""
    limit_over_scale: float = 0.0
    """The limit of the largest number, as a share of that number."""
    because: str = ""
    """The reason for the largest part of that limit, as a clause."""
    place: int | None = field(default=None, compare=False)
    """Flat index of the decisive element; None without one."""


def worst_error(errors: Iterable[TensorError]) -> TensorError:
    """Return the error furthest beyond its limit.  Raises ValueError without any."""
    return max(errors, key=lambda error: (not error.ok, error.severity))


def lost_to_rounding_reason(error: TensorError) -> str:
    """Why a result is unproved: its values are lost in rounding."""
    return (
        f"{error.name!r} cannot be judged: in every run, rounding by itself may change it by {error.allowed:.3g} or a "
        f"similar share (values up to {error.scale:.3g})"
    )


def original_wrong_reason(error: TensorError, against: str) -> str:
    """Why a result is unproved: it is close to an original that is wrong."""
    return (
        f"the runtime computes the original wrongly: {error.name!r} is off by {error.original_error:.3g} (values up to "
        f"{error.scale:.3g}, {against}), and the replacement by about as much. Try another version of ONNX Runtime"
    )


def hidden_by_kernel_error_reason(error: TensorError) -> str:
    """Why a result is unproved: it is small compared with the error of kernels, which would accept any result."""
    return (
        f"{error.name!r} differs by {error.gap:.3g} (values up to {error.scale:.3g}). Kernels may have such an error "
        "here, but it is too large to distinguish this function from another"
    )
