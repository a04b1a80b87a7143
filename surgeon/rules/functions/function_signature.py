"""The signature of a local function, read from a Python function: inputs, and keyword-only parameters as attributes."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from onnx import AttributeProto

from surgeon.errors import RuleError

ATTRIBUTE_TYPES = {
    "float": AttributeProto.FLOAT,
    "int": AttributeProto.INT,
    "bool": AttributeProto.INT,
    "str": AttributeProto.STRING,
    "list[float]": AttributeProto.FLOATS,
    "list[int]": AttributeProto.INTS,
    "list[str]": AttributeProto.STRINGS,
}
ATTRIBUTE_CONVERTERS: dict[int, Callable[[Any], Any]] = {
    AttributeProto.FLOAT: float,
    AttributeProto.INT: int,
    AttributeProto.STRING: str,
    AttributeProto.FLOATS: lambda value: [float(item) for item in value],
    AttributeProto.INTS: lambda value: [int(item) for item in value],
    AttributeProto.STRINGS: lambda value: [str(item) for item in value],
}


class Signature(NamedTuple):
    """The signature of a local function."""

    domain: str
    """Operator domain."""
    name: str
    """Operator type."""
    inputs: tuple[str, ...]
    """Names of the inputs."""
    kinds: Mapping[str, int]
    """Attribute name -> AttributeProto.AttributeType."""
    defaults: Mapping[str, Any]
    """Attribute name -> default value."""

    @property
    def op(self) -> str:
        """The qualified op."""
        return f"{self.domain}::{self.name}"


def signature_of(op: str, function: Callable[..., Any], where: str) -> Signature:
    """The signature of a function of a graph and tensors; parameters after the * are attributes.

    Raises RuleError for a signature that no local function can have.
    """
    domain, _, name = op.rpartition("::")
    who = f"Local function {op} ({where})"
    if not domain or not name or domain == "ai.onnx":
        raise RuleError(f'{who} needs its own domain, for example "my.domain::{name or "Name"}".')
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except NameError:
        parameters = list(inspect.signature(function).parameters.values())
    inputs: list[str] = []
    kinds: dict[str, int] = {}
    defaults: dict[str, Any] = {}
    for parameter in parameters[1:]:
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            if parameter.default not in (None, inspect.Parameter.empty) or _type_text(parameter) in ATTRIBUTE_TYPES:
                raise RuleError(
                    f"{who} has {parameter.name!r} among its tensors. To make it an attribute, put a * before it."
                )
            inputs.append(parameter.name)
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            kinds[parameter.name] = _kind(parameter, who)
            if parameter.default is not inspect.Parameter.empty:
                defaults[parameter.name] = parameter.default
        else:
            raise RuleError(
                f"{who} has a parameter *{parameter.name}, but its number of inputs must be fixed. Name each input."
            )
    if not inputs:
        raise RuleError(f"{who} needs the graph as its first parameter, and then at least one tensor.")
    return Signature(domain, name, tuple(inputs), kinds=kinds, defaults=defaults)


def _kind(parameter: inspect.Parameter, who: str) -> int:
    text = _type_text(parameter)
    if text not in ATTRIBUTE_TYPES:
        kinds = ", ".join(ATTRIBUTE_TYPES)
        raise RuleError(f"{who} has an attribute {parameter.name!r} without a type. Annotate it as one of {kinds}.")
    return ATTRIBUTE_TYPES[text]


def _type_text(parameter: inspect.Parameter) -> str:
    """The annotation of a parameter as text: "list[float]" however it is written."""
    given = parameter.annotation
    text = given.__name__ if isinstance(given, type) and not getattr(given, "__args__", None) else str(given)
    text = re.sub(r"typing\.|collections\.abc\.|, \.\.\.|\s", "", text)
    return re.sub(r"^(tuple|Tuple|List|Sequence)\[", "list[", text)
