"""The signature and the docstring of a helper, for `help`."""

import inspect
import keyword
from collections.abc import Callable, Iterator
from typing import Any

from onnx import defs

from surgeon.ops.schemas.helper_names import snake_case
from surgeon.ops.schemas.op_schema import FormalParameter, Schema, display_domain, history, schema

ORT_MANUAL = "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md"
_NONE = inspect.Parameter.empty


# A helper of a graph adds a node when called.  Its `__doc__`, which `help(g.layer_normalization)` shows, is made on
# demand from the schema, so the class itself is described here.
class HelperFunction:
    __slots__ = ("_ask", "_call", "_name")

    def __init__(self, name: str, call: Callable[..., Any], ask: Callable[[], tuple[inspect.Signature, str]]) -> None:
        """name: name of the helper.  ask: returns its signature and docstring."""
        self._name, self._call, self._ask = name, call, ask

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "HelperFunction":
        """Return the helper itself: with this method, `help` treats it as a function, not as data."""
        return self

    @property
    def __name__(self) -> str:
        return self._name

    @property
    def __doc__(self) -> str:  # type: ignore[override]  # `object` has a plain string
        return self._ask()[1]

    @property
    def __signature__(self) -> inspect.Signature:
        return self._ask()[0]

    def __repr__(self) -> str:
        return f"<helper {self._name}{self._ask()[0]}>"


def described(domain: str, op: str, version: int | None) -> tuple[inspect.Signature, str]:
    """The signature of an operator's helper at a version of its domain (None: the newest), and the standard's text."""
    found = schema(domain, op, version) or history(domain, op)[-1]
    title = f"{display_domain(domain)}::{op}, as of version {found.since_version}."
    return inspect.Signature(list(_parameters(found))), f"{title}\n\n{_text(found)}"


def described_function(function: Callable[..., Any]) -> tuple[inspect.Signature, str]:
    """The same for a function of a graph, without the graph parameter."""
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:]), inspect.getdoc(function) or ""


def _parameters(found: Schema) -> Iterator[inspect.Parameter]:
    """Inputs in order, then attributes by keyword."""
    needed = max((place for place, one in enumerate(found.inputs) if not (one.optional or one.variadic)), default=-1)
    for place, formal in enumerate(found.inputs):
        if formal.variadic:
            yield inspect.Parameter(parameter_name(found, formal), inspect.Parameter.VAR_POSITIONAL)
        else:
            default = None if place > needed else _NONE
            name = parameter_name(found, formal)
            yield inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
    for attribute in sorted(found.attributes):
        spec = found.attributes[attribute]
        default = _NONE if spec.required else _plain(spec.value)
        yield inspect.Parameter(attribute, inspect.Parameter.KEYWORD_ONLY, default=default)


def parameter_name(found: Schema, formal: FormalParameter) -> str:
    """The Python name of an input: snake_case, with a trailing `_` if a keyword or an attribute has that name."""
    name = snake_case(formal.name)
    return name + "_" if keyword.iskeyword(name) or name in found.attributes else name


def _plain(value: Any) -> Any:
    """A default in readable form: 1e-05 for the nearest float32."""
    if isinstance(value, bytes):
        return value.decode()
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _text(found: Schema) -> str:
    """The documentation of the standard, or of ONNX Runtime for its own operators."""
    try:
        text = defs.get_schema(found.name, found.since_version, found.domain).doc
    except defs.SchemaError:
        return f"{ORT_MANUAL}#{found.domain}.{found.name}" if found.domain else ORT_MANUAL
    return inspect.cleandoc(text or "")
