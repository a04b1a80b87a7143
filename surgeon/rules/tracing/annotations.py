"""The parameters of a rule's functions, and the capture that the annotation of each declares."""

import builtins
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import onnx_graphsurgeon as gs

from surgeon.errors import RuleError
from surgeon.ops.builder import graph as vocabulary
from surgeon.rules.matching.pattern import CaptureKind

MISSING = inspect.Parameter.empty
_NUMBERS = (float, int, str, bool)
_LISTS = (list, tuple, Sequence)


class ModelAccessWhileTracing(RuleError):
    """A function that is traced as a pattern reads something that only a model has, such as a shape."""


class TracedAttributes(dict[str, Any]):
    """All further attributes of a node, to be unpacked."""

    def __missing__(self, name: str) -> Any:
        raise ModelAccessWhileTracing(f"a pattern is traced without a model, so attribute {name} has no value yet")

    def get(self, name: str, default: Any = None) -> Any:
        """As `__missing__`."""
        return self[name]

    def __contains__(self, name: object) -> bool:
        return bool(self[str(name)])


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a rule's function, or a field of a `Captures` class."""

    name: str
    """Its name."""
    type: Any
    """The annotation; MISSING: none."""
    default: Any = MISSING
    """The default value; MISSING: none."""
    how: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    """As `inspect.Parameter.kind`."""

    @property
    def kind(self) -> CaptureKind:
        """Its kind of capture in a pattern."""
        if self.how is inspect.Parameter.VAR_POSITIONAL:
            return "rest"
        return "attributes" if self.how is inspect.Parameter.VAR_KEYWORD else kind_of(self.type)


@lru_cache(maxsize=1024)  # called for each match
def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of a function, in order.  Raises RuleError for an invalid annotation."""
    code = getattr(function, "__code__", None)
    where = f"{function.__name__} ({code.co_filename}:{code.co_firstlineno})" if code else repr(function)
    signature = inspect.signature(function)
    space = getattr(inspect.unwrap(function), "__globals__", {})
    return tuple(
        Parameter(
            item.name, resolve_annotation(item.annotation, space, f"{where}: {item.name}"), item.default, item.kind
        )
        for item in signature.parameters.values()
    )


def resolve_annotation(annotation: Any, space: Mapping[str, Any], where: str) -> Any:
    """An annotation as an object, if it is text too; names that only type checkers import may be surgeon's.

    Raises RuleError for text that cannot be evaluated.
    """
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, {**vars(builtins), "Any": Any, **vars(vocabulary), **space})
    except Exception as error:
        raise RuleError(
            f"{where} has the annotation {annotation!r}, which cannot be evaluated ({error}). Import its names at run "
            "time, not only for type checkers."
        ) from error


def accepts_arguments(function: object, count: int) -> bool:
    """Whether a function can be called with so many arguments, as far as its signature is known."""
    return _of_function(function, count) if isinstance(function, types.FunctionType) else _accepts(function, count)


def _accepts(function: object, count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))  # type: ignore[arg-type]  # a TypeError for objects that are not callable
    except TypeError:
        return False
    except ValueError:  # a C function without a signature
        return True
    return True


_of_function = lru_cache(maxsize=1024)(_accepts)


def require_kind(parameter: Parameter, who: str) -> None:
    """Raise RuleError for an annotation that captures nothing in a pattern."""
    if parameter.how is inspect.Parameter.VAR_POSITIONAL or kind_of(parameter.type) != "tensor":
        return
    for item in _members(parameter.type):
        if item in (MISSING, Any, object, type(None)) or isinstance(item, TypeVar):
            continue
        if not isinstance(item, type) or not issubclass(item, gs.Tensor):
            text = item.__name__ if isinstance(item, type) else repr(item)
            raise RuleError(
                f"{who}: {parameter.name} has the annotation {text}, which a pattern cannot capture. Use Tensor, "
                "Constant, float, int, str or list."
            )


@lru_cache(maxsize=1024)
def kind_of(annotation: Any) -> CaptureKind:
    """The kind of a capture by its type.  tuple[Tensor, ...]: all further inputs; dict: all further attributes."""
    members = _members(annotation)
    origins = [get_origin(item) or item for item in members]
    if any(isinstance(item, type) and issubclass(item, Mapping) for item in origins):
        return "attributes"
    for item, origin in zip(members, origins, strict=True):
        if origin in _LISTS:
            inner = [kind_of(part) for part in get_args(item) if part is not Ellipsis]
            return "rest" if origin is tuple and "tensor" in inner else "list"
    if any(item in _NUMBERS for item in members):
        return "scalar"
    return "constant" if any(_is_constant(item) for item in members) else "tensor"


def is_list_of_integers(annotation: Any) -> bool:
    """Whether a type means a list of integers only."""
    lists = [item for item in _members(annotation) if (get_origin(item) or item) in _LISTS]
    return bool(lists) and all(set(get_args(item)) - {Ellipsis} == {int} for item in lists)


def _is_constant(item: Any) -> bool:
    return isinstance(item, type) and issubclass(item, gs.Constant)


def is_tensor_annotation(annotation: Any) -> bool:
    """Whether a type means a tensor capture."""
    return any(isinstance(item, type) and issubclass(item, gs.Tensor) for item in _members(annotation))


def _members(annotation: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(member for item in get_args(annotation) for member in _members(item))
    return (type(None) if annotation is None else annotation,)
