"""Base of results: how they are shown in notebooks, and converted to JSON."""

import enum
import json
import math
import os
from collections.abc import Mapping
from functools import partial, reduce
from importlib import import_module
from typing import Any, ClassVar

_ROOM = "surgeon.display.html.render"  # in a higher package: imported only when a notebook shows a result
FIRST = '<!doctype html>\n<html lang="en" data-made-by="surgeon">'
"""The beginning of a page."""
DEPTH = 5  # of a site in an envelope; values of this depth are one line each in a text of JSON
SUFFIXES = (".html", ".htm")
"""Suffixes of page files."""


class JsonRecord:
    """A record that declares its JSON keys once, as `json_of` reads them."""

    __slots__ = ()
    JSON: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """The record as values that JSON supports."""
        return json_of(self, self.JSON)


class ResultBase:
    """A result with an HTML display for notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """HTML for a notebook: without scripts, for light and dark themes."""
        return str(import_module(_ROOM).fragment(self))


class ModelAndReport(tuple[Any, Any]):
    """A model, or the written path or parts, and the report; a notebook shows the report."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        return str(self[1]._repr_html_())

    def __repr__(self) -> str:
        return f"({_short(self[0])}, {self[1]!r})"


def _short(model: Any) -> str:
    """A path as it is; a model in memory by its type, because its text would be too long."""
    if isinstance(model, list):
        return f"[{', '.join(map(_short, model))}]"
    return repr(model) if isinstance(model, (str, os.PathLike)) else f"<{type(model).__name__}>"


def json_of(record: object, names: str) -> dict[str, Any]:
    """Attributes of a record for JSON, seconds with four decimals.

    names: separated by spaces: `rules`; `from=change.0`, a key with the path of its value, which is None if a part of
    the path is; `ep?`, a key that is left out if its value is empty.
    """
    found = {}
    for name in names.split():
        key, _, path = name.rstrip("?").partition("=")
        value = _plain(reduce(_part, (path or key).split("."), record))
        if value or not name.endswith("?"):
            found[key] = _rounded(value) if key == "seconds" else value
    return found


def _part(value: Any, name: str) -> Any:
    if value is None:
        return None
    return value[int(name)] if name.isdecimal() else getattr(value, name)


def _rounded(seconds: Any) -> Any:
    return {key: round(value, 4) for key, value in seconds.items()} if isinstance(seconds, dict) else round(seconds, 4)


def _plain(value: Any) -> Any:
    """A value for JSON: other records by their `to_dict`; a number that is not finite as a string."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def json_text(value: Any, *, ascii_only: bool = False, depth: int = 0) -> str:
    """A text of JSON in which each site of a report is one line, so that tools find and compare sites by line."""
    line = partial(json.dumps, ensure_ascii=ascii_only, allow_nan=False)
    inner = list(value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ())
    if depth == DEPTH or not any(isinstance(one, (dict, list, tuple)) for one in inner):
        return line(value)
    lines = [json_text(one, ascii_only=ascii_only, depth=depth + 1) for one in inner]
    if isinstance(value, dict):
        lines = [f"{line(str(key))}: {text}" for key, text in zip(value, lines, strict=True)]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    indent = "\n" + " " * depth
    return f"{begin}{indent} {f',{indent} '.join(lines)}{indent}{end}"
