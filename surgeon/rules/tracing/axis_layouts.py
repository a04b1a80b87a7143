"""The axes of captured tensors, by name."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from surgeon.errors import RuleError
from surgeon.rules.tracing.annotations import MISSING
from surgeon.shapes.algebra.size_expressions import parse_size, symbol

ANY_AXES, SOME_AXES, ANY_SIZE, OUTER = "...", "*", "_", "."
AXIS_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class AxisLayouts:
    """The layouts of a captured tensor; see `dims`."""

    layouts: tuple[tuple[str, ...], ...]
    """Axis names of each allowed layout."""
    default: Any
    """Value of the capture if the pattern does not bind it."""

    def __str__(self) -> str:
        return " or ".join(", ".join(layout) or "none" for layout in self.layouts)


def dims(*layouts: str, default: Any = MISSING) -> Any:
    """The axes of a captured tensor, by name: the value of a field of `Captures`.

    Args:
        layouts: axes from the first to the last, separated by spaces: "batch heads rows columns".  Axes of the same
            name have the same size.  A number is a fixed size.  `heads*columns` is a size computed from others,
            `rows?` the size of that name or 1, `_` any size, `...` any number of axes, and `*ahead` any number with a
            name, everywhere the same ones.  `.heads`, in a record that is a field of another, is also that axis of
            the other.  The first of several layouts with the tensor's rank counts; "" is a scalar.
        default: the value of the capture if the matching pattern does not bind it.

    Returns:
        The axes, for a record of captures; a match whose tensors have other axes is refused, with a reason.

    Raises:
        RuleError: no layout is given, one has `...` or named axes twice, or a word in one is not an axis.

    Examples:
        >>> from surgeon import Captures, Tensor, dims
        >>> class Product(Captures):
        ...     a: Tensor = dims("... rows inner")
        ...     b: Tensor = dims("inner columns")
        ...     columns: int
        >>> [field.name for field in Product.fields()]
        ['a', 'b']
    """
    texts = [layout for layout in layouts if isinstance(layout, str)]
    read = tuple(tuple(layout.split()) for layout in texts)
    if not read or len(texts) < len(layouts) or any(sum(map(_are_some, layout)) > 1 for layout in read):
        raise RuleError('dims expects names of axes, such as dims("batch rows columns"), with at most one "...".')
    for axis in dict.fromkeys(axis for layout in read for axis in layout):
        if not _is_axis(axis):
            raise RuleError(
                f"{axis!r} in dims is not an axis. Write names separated by spaces, numbers, or sizes without spaces "
                "(2*width, rows+1). A ? after an axis also allows size 1."
            )
    return AxisLayouts(read, default)


def _is_axis(axis: str) -> bool:
    """Whether it is a name, a number, a computed size, or one of the signs."""
    if axis in (ANY_AXES, ANY_SIZE) or AXIS_NAME.fullmatch(axis.removeprefix(SOME_AXES).removeprefix(OUTER)):
        return True
    text = axis.removesuffix("?").replace(OUTER, "")
    size = parse_size(text)
    return size >= 0 if isinstance(size, int) else size != symbol(text) or AXIS_NAME.fullmatch(text) is not None


def _are_some(axis: str) -> bool:
    return axis == ANY_AXES or axis.startswith(SOME_AXES)


@lru_cache(maxsize=1024)
def open_axis(layout: tuple[str, ...]) -> int | None:
    """The position of the axis that matches any number of axes."""
    return next((place for place, axis in enumerate(layout) if _are_some(axis)), None)


def fits_rank(layout: tuple[str, ...], rank: int) -> bool:
    return len(layout) == rank if open_axis(layout) is None else len(layout) - 1 <= rank
