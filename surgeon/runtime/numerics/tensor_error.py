"""What was found of one tensor of a rewritten region, as a value that the console and the report share."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from surgeon.runtime.numerics.array_comparison import jsonable


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far one result is from the reference, over the elements where both are finite.

    `max_abs` is the largest |result - reference|; `max_rel` the largest of |result - reference| / |reference|, and
    `max_ulp` of |result - reference| in units in the last place (the distance between the output dtype's numbers at
    |reference|), both over elements of at least a thousandth of the scale: smaller ones may well be all error.
    Integers count in ones, strings and booleans 1 if any differs.  All are infinite for results that cannot be compared
    (another dtype or shape).
    """

    max_abs: float
    max_rel: float
    max_ulp: float

    def to_dict(self) -> dict[str, float | str]:
        """Return the fields as strict JSON can hold them."""
        return {name: jsonable(getattr(self, name)) for name in ("max_abs", "max_rel", "max_ulp")}


@dataclass(frozen=True, slots=True)
class TensorError:
    """One tensor judged on one set of inputs.

    `original` is None where there was no reference: the original then served as one.  `gap` is by how much the element
    that was decisive differs from the reference, `allowed` what it may differ by, `scale` the largest magnitude of the
    elements that are like it.  `why` says in words what is wrong (empty when nothing is).  `severity` says how far
    towards (or past 1: beyond) what is allowed the gap goes, elements left out that are no further from the reference
    than the original; infinite where NaN, infinity, dtype or shape differ.  `is_informative`: whether rounding left
    something to be judged, so that zeros in place of the result, say, would have been found.  `original_error`: by how
    much the original itself errs where that alone excuses the gap and no rounding explains it, as where a kernel is
    wrong; else 0.  `may_hide`: whether what kernels err by, a part of one, is no small part of what is there;
    `is_hidden`: whether that alone excuses a gap.
    """

    name: str
    dtype: str
    original: Deviation | None
    rewritten: Deviation
    scale: float
    allowed: float
    ok: bool
    why: str
    severity: float
    gap: float = 0.0
    is_informative: bool = True
    original_error: float = 0.0
    may_hide: bool = False
    is_hidden: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as strict JSON can hold them; a number that is not finite is a string."""
        numbers = {name: jsonable(getattr(self, name)) for name in ("gap", "scale", "allowed", "severity")}
        deviations = {"original": self.original and self.original.to_dict(), "rewritten": self.rewritten.to_dict()}
        return {"name": self.name, "dtype": self.dtype, **deviations, **numbers, "ok": self.ok, "why": self.why}


def worst_error(errors: Iterable[TensorError]) -> TensorError:
    """Return the error that is furthest beyond what is allowed.  Raises ValueError for none at all."""
    return max(errors, key=lambda error: (not error.ok, error.severity))


def lost_to_rounding_reason(error: TensorError) -> str:
    """Why a result of which rounding left nothing to be judged is unproved."""
    return (
        f"rounding leaves nothing of {error.name!r} to be judged: it may differ by {error.allowed:.3g} on a scale of "
        f"{error.scale:.3g}, or as much, wherever it was computed"
    )


def original_wrong_reason(error: TensorError, against: str) -> str:
    """Why a result is unproved that is no further from the reference than an original that is wrong itself."""
    return (
        f"what runs the original here is wrong itself: {error.name!r} errs by {error.original_error:.3g} on a scale of "
        f"{error.scale:.3g} ({against}), and the replacement hardly less; try another version of ONNX Runtime"
    )


def hidden_by_kernel_error_reason(error: TensorError) -> str:
    """Why a result is unproved that is so small that what kernels err by excuses anything."""
    return (
        f"{error.name!r} differs by {error.gap:.3g} on a scale of {error.scale:.3g}, which kernels may err by here, "
        "but which is too much of it to tell another function from this one"
    )
