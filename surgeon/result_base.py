"""Base of results: how they are shown in notebooks, and converted to JSON."""

import enum
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

_ROOM = "surgeon.display.html.render"  # in a higher package: imported only when a notebook shows a result
FIRST = '<!doctype html>\n<html lang="en" data-made-by="surgeon">'
"""The beginning of a page."""
SUFFIXES = (".html", ".htm")
"""Suffixes of page files."""


class ResultBase:
    """A result that shows itself in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """HTML for a notebook: without scripts, for light and dark themes."""
        return str(import_module(_ROOM).fragment(self))


class ModelAndReport(tuple[Any, Any]):
    """A model, or the written path or parts, and the report; a notebook shows the report."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(self[1]._repr_html_())

    def __repr__(self) -> str:
        return f"({_short(self[0])}, {self[1]!r})"


def _short(model: Any) -> str:
    """A path as it is, a model in memory by its type, since its text would be too long."""
    if isinstance(model, list):
        return f"[{', '.join(map(_short, model))}]"
    return repr(model) if isinstance(model, (str, os.PathLike)) else f"<{type(model).__name__}>"


def to_json_dict(record: object, names: str) -> dict[str, Any]:
    """Attributes of a result for JSON, seconds with four decimals.  names: separated by spaces."""
    found = {name: _plain(getattr(record, name)) for name in names.split()}
    return {name: round(value, 4) if name == "seconds" else value for name, value in found.items()}


def _plain(value: Any) -> Any:
    """A value for JSON: other results by their `to_dict`."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
