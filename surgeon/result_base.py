"""What makes a result show itself: where HTML is shown, as in a notebook, and as what JSON holds."""

import enum
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

_ROOM = "surgeon.display.html.render"  # far above all results: it is looked up when a notebook asks, and by nobody else
FIRST = '<!doctype html>\n<html lang="en" data-made-by="surgeon">'
"""What a page begins with."""
SUFFIXES = (".html", ".htm")
"""What the names of pages end in."""


class ResultBase:
    """A result that shows itself in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What a notebook shows: HTML that needs no script, on a light ground or a dark one."""
        return str(import_module(_ROOM).fragment(self))


class ModelAndReport(tuple[Any, Any]):
    """A model, or the path or the parts that were written, and the report; a notebook shows the report."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(self[1]._repr_html_())

    def __repr__(self) -> str:
        return f"({_short(self[0])}, {self[1]!r})"


def _short(model: Any) -> str:
    """A path as it is, a model in memory by its kind: all of its text would be too much."""
    if isinstance(model, list):
        return f"[{', '.join(map(_short, model))}]"
    return repr(model) if isinstance(model, (str, os.PathLike)) else f"<{type(model).__name__}>"


def to_json_dict(record: object, names: str) -> dict[str, Any]:
    """Attributes of a result as JSON can hold them, seconds with four places.  names: with spaces between."""
    found = {name: _plain(getattr(record, name)) for name in names.split()}
    return {name: round(value, 4) if name == "seconds" else value for name, value in found.items()}


def _plain(value: Any) -> Any:
    """What a result holds: other results by their own `to_dict`."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
