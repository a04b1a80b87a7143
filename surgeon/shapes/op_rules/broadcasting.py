"""Combination of shapes: broadcasting, and the choice between two names of one dim."""

from collections.abc import Iterable

from surgeon.shapes.algebra.size_expressions import Size, as_function, at_least, has_calls, size_max
from surgeon.shapes.tensor_types import PartialShape, is_unknown


def broadcast(*shapes: PartialShape) -> list[Size | None]:
    """The shape of a multidirectional broadcast (ONNX, Broadcasting)."""
    rank = max(map(len, shapes), default=0)
    padded: list[list[Size | None]] = [[*[1] * (rank - len(shape)), *shape] for shape in shapes]
    return [broadcast_size(sizes) for sizes in zip(*padded, strict=True)]


def broadcast_size(sizes: Iterable[Size | None]) -> Size | None:
    """The size of a dimension to which all of these broadcast."""
    found: Size | None = 1
    for size in sizes:
        if size == found or (size is not None and _is_one(size)):
            continue
        found = size if found == 1 else _agreed(found, size)
    return found


def _is_one(size: Size) -> bool:
    """Whether a size is 1, or a quotient that is 1 unless the tensor is empty."""
    call = as_function(size)
    return size == 1 or (call is not None and call.kind == "floor" and at_least(call.args[1], call.args[0]))


def _agreed(size: Size | None, other: Size | None) -> Size | None:
    """The common size of two that are equal or of which one is 1: a number if there is one, else the larger one.

    If both are unknown, either may be 1.
    """
    for one, beside in ((size, other), (other, size)):
        if isinstance(one, int):
            return one
        if one is None:
            return beside if isinstance(beside, int) else None
    return None if size is None or other is None else size_max(size, other)


def more_specific_size(size: Size, other: Size) -> Size:
    """The more specific of two sizes that must be equal."""
    return min(size, other, key=_vagueness)


def _vagueness(size: Size) -> int:
    """0 for a number, then the plain names, those with calls, and those with an unknown dim."""
    if isinstance(size, int):
        return 0
    if is_unknown(size):
        return 3
    return 2 if has_calls(size, "floor", "min", "max") else 1
