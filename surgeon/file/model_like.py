"""Converts the models that callers pass, paths or models in memory, for this package; and results, for callers."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.file.external_data.held_tensors import HeldModel, HeldTensors
from surgeon.file.kinds import Kind, kind_of, titles
from surgeon.file.model import Model

ModelLike: TypeAlias = str | os.PathLike[str] | ModelProto | Any
"""A path, a ModelProto, or a model of one of the `kinds`, whose classes belong to packages that may be missing."""

OpenedModel: TypeAlias = tuple[Model, Callable[[], Path | ModelProto]]
"""A model, opened, and a function that returns it for a runtime, which may write it to a temporary file."""
F = TypeVar("F", bound=Callable[..., Any])


def resolve_model(source: ModelLike) -> Path | ModelProto | HeldModel:
    """An absolute path, a ModelProto, or a model whose tensors stay with their owners.

    Raises UsageError for anything else, if the model cannot be exported, and for several models in one.
    """
    kind = _kind(source)
    if kind is None:
        return source if isinstance(source, (ModelProto, HeldModel)) else Path(os.path.abspath(source))
    parts = kind.parts(source)
    if len(parts) > 1:
        what = f"{kind.title[:1].upper()}{kind.title[1:]} has {len(parts)} models ({', '.join(parts)})"
        raise UsageError(f"{what}. Give one of them: export.components[{next(iter(parts))!r}].program")
    return kind.exported(source)


@contextmanager
def opened_to_run(source: ModelLike) -> Iterator[OpenedModel]:
    """Open a model to read it and to run it."""
    resolved = resolve_model(source)
    with Model.open(resolved) as model:
        yield model, model.runnable if isinstance(resolved, HeldModel) else lambda: resolved


def returned(source: ModelLike, made: ModelProto, held: Mapping[str, HeldTensors]) -> Any:
    """A result as the kind of model that was given.  held: its tensors that stay with their owners."""
    kind = _kind(source)
    return made if kind is None else kind.give(source, made, held)


def parts_of(source: ModelLike) -> Mapping[str, Any]:
    """The models of a container of several, by name; none for a model, and for a value of another type."""
    kind = None if isinstance(source, (ModelProto, HeldModel, str, os.PathLike)) else kind_of(source)
    return {} if kind is None else kind.parts(source)


def joined(source: ModelLike, parts: Mapping[str, Any]) -> Any:
    """A container as the given one, with other models."""
    kind = _kind(source)
    assert kind is not None  # callers have its parts
    return kind.joined(source, parts)


def by_component(*names: str) -> Callable[[F], F]:
    """A function that reads models as one that also takes containers of several, and then returns results by component.

    names: its arguments that are models; all of them have to be containers with the same components.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def read_all(*given: Any, **options: Any) -> Any:
            bound = signature(function).bind(*given, **options)
            held = [parts_of(bound.arguments[name]) for name in names]
            if all(len(parts) < 2 for parts in held):
                return function(*given, **options)
            if any(parts.keys() != held[0].keys() for parts in held):
                raise UsageError("The exports have different components. Give one component of each.")
            results = {}
            for component in held[0]:
                bound.arguments.update((name, parts[component]) for name, parts in zip(names, held, strict=True))
                results[component] = function(*bound.args, **bound.kwargs)
            return results

        return cast(F, read_all)

    return decorate


def model_name(source: ModelLike, unnamed: str = "") -> str:
    """The name of a model: its path as given; `unnamed` for a model in memory."""
    return unnamed if is_in_memory(source) else os.fspath(source)


def is_in_memory(source: object) -> bool:
    """Whether a source is not a path, so that results are returned in memory.  Raises UsageError as `resolve_model`."""
    return _kind(source) is not None or is_proto(source)


def is_proto(source: object) -> bool:
    """Whether a source is a ModelProto itself, of which every result is a new one."""
    return isinstance(source, (ModelProto, HeldModel))


def _kind(source: object) -> Kind | None:
    """The kind of a model in memory; None for a path and a ModelProto.  Raises UsageError for other values."""
    if isinstance(source, (ModelProto, HeldModel, str, os.PathLike)):
        return None
    found = kind_of(source)
    if found is None:
        *known, last = titles()
        raise UsageError(f"Invalid model of type {type(source).__name__}. Give a path, {', '.join(known)} or {last}.")
    return found
