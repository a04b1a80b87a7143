"""Dataclasses as JSON values and back; data of another process are read according to the expected types."""

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

_Record = TypeVar("_Record")


def to_json_value(value: Any) -> Any:
    """A dataclass as dicts, lists, numbers and text, without fields that have `compare=False`."""
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        return {name: to_json_value(getattr(value, name)) for name in _fields(kind)}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json_value(item) for item in value]
    if value is None or isinstance(value, str):
        return value
    return value.item() if hasattr(value, "item") else value  # numpy's numbers too


def from_json_value(kind: type[_Record], value: Any) -> _Record:
    """The dataclass from `to_json_value`.  Raises ValueError for values of other types."""
    made: _Record = _read(kind, value)
    return made


@cache
def _fields(kind: type) -> Mapping[str, Any]:
    """The types of a dataclass's fields by name, without those that have `compare=False`."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.compare}


def _read(kind: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        fields = _fields(kind)
        if value.keys() == fields.keys():
            return kind(**{name: _read(hint, value[name]) for name, hint in fields.items()})
    elif origin in (typing.Union, types.UnionType):
        return None if value is None else _read(next(item for item in arguments if item is not type(None)), value)
    elif origin is tuple and isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_read(item, one) for item, one in zip(kinds, value, strict=True))
    elif isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, dict):
        return {key: _read(arguments[1], item) for key, item in value.items()}
    elif isinstance(kind, type) and issubclass(kind, enum.Enum) and value in kind.__members__:
        return kind[value]
    elif kind is float and isinstance(value, int | float):
        return float(value)
    elif kind in (bool, int, str) and type(value) is kind:
        return value
    raise ValueError(f"{value!r} is not of type {kind}")
