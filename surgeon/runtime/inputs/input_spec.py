"""The inputs that a model needs, and the values that each of them may get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surgeon.analysis.assumptions.assumption import Assumption
from surgeon.errors import SurgeonError
from surgeon.runtime.numerics.array_comparison import name_of_dtype

if TYPE_CHECKING:
    from surgeon.analysis.input_roles import InputRole

FLOATS = frozenset(
    (
        *("float64", "complex128", "float32", "complex64", "float16", "bfloat16"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    )
)  # dtypes that round, by name
MAX_CONDITIONS = 4  # conditions that get all combinations of values; further ones get any values


class InputsUnknown(SurgeonError):
    """Inputs cannot be generated for a model; `reason` is one clause."""

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
    kind: str
    """The kind of its values: "plain", "compared", "mask", "indices" and so on."""
    is_unconstrained: bool
    """Whether no index or size depends on its values."""
    half: bool
    """Whether the model has float16 tensors."""
    keeps_role: bool = True
    """Whether values must fit its role, because it is an input of a whole model or memory depends on its values."""
    assumption: Assumption | None = None
    """The assumption that its values obey."""

    @property
    def signed(self) -> bool:
        """Whether generated integers have both signs."""
        return self.is_unconstrained and self.kind in ("plain", "compared") and _is_signed(self.dtype)

    @property
    def takes_wide_values(self) -> bool:
        """Whether it can get wide-ranging values, beyond the usual ones."""
        return self.is_unconstrained and self.kind in ("plain", "compared") and self.named is None

    @property
    def takes_edge_values(self) -> bool:
        """Whether it can get edge values of its dtype: it is a real float that only arithmetic reads."""
        return self.is_unconstrained and self.kind == "plain" and _is_real_float(self.dtype)

    @property
    def takes_large_integers(self) -> bool:
        """Whether it can get integers far from zero, which a cast to fewer bits would change."""
        return (self.takes_wide_values or self.is_compared_length) and self.dtype.kind in "iu"

    @property
    def is_compared_length(self) -> bool:
        """Whether it is a length that is only compared."""
        return self.is_unconstrained and self.kind == "lengths"

    @property
    def is_position(self) -> bool:
        """Whether it holds positions: by its use, or by its name if it is an index."""
        return self.kind == "positions" or (self.kind == "indices" and self.named == "position")

    @property
    def is_mask(self) -> bool:
        """Whether it hides scores: a mask, or floats that are added to scores."""
        return self.kind == "mask" or (self.takes_edge_values and "scores" in self.role.flags and len(self.dims) > 0)

    @property
    def may_ignore_role(self) -> bool:
        """Whether a proof may give it values that do not fit its role."""
        has_role = self.kind in ("lengths", "counts", "mask")  # an index has only the rows of its table
        is_bound = has_role or (not self.is_unconstrained and self.kind in ("plain", "compared"))
        is_number = self.dtype.kind in "iu" or _is_real_float(self.dtype)
        return is_bound and is_number and self.named is None and not self.keeps_role

    @property
    def fractional(self) -> bool:
        """Whether it is a float that the graph reads as an integer or boolean, or converts to one."""
        is_role = self.kind in ("indices", "counts", "lengths") or (self.kind == "mask" and "truth" in self.role.flags)
        is_float = _is_real_float(self.dtype)
        is_computed = self.kind == "plain" and not self.is_unconstrained and not self.keeps_role
        return is_float and self.named is None and (is_role or is_computed)

    @property
    def is_index(self) -> bool:
        """Whether it holds indices that may count from the end."""
        return self.kind == "indices" and _is_signed(self.dtype) and not self.is_position

    def obeying(self, array: np.ndarray) -> np.ndarray:
        """The array, with elements that violate the assumption replaced."""
        return array if self.assumption is None else self.assumption.obey(array)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape for these sizes of dynamic dims."""
        return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self.dims)


def _is_real_float(dtype: np.dtype) -> bool:
    return dtype.kind != "c" and name_of_dtype(dtype) in FLOATS


def _is_signed(dtype: np.dtype) -> bool:
    """Whether a dtype is an integer that can be negative."""
    return dtype.kind == "i" or (dtype.kind == "V" and dtype.name.startswith("int"))
