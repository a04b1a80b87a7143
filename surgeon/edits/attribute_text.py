"""Parses and formats node attributes as text: alpha=0.5, sizes=[1,2], mode=linear, label:string=3."""

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from onnx import AttributeProto, NodeProto, helper

from surgeon.errors import UsageError
from surgeon.ops.plugins.builtin_plugins import names_plugin, plugin_of
from surgeon.ops.plugins.plugin_declaration import VERSION, Plugin
from surgeon.ops.schemas import Schema
from surgeon.ops.schemas.attribute_values import coerce

Plain: TypeAlias = int | float | str
_FORM = "NAME[:TYPE]=VALUE (TYPE: int, float, string, ints, floats or strings)"
_KINDS: Mapping[str, Callable[[str], Plain]] = MappingProxyType({"int": int, "float": float, "string": str})


def parse_attribute(text: str) -> tuple[str, Any]:
    """Name and value.  An integer is an int, another number a float, other text a string; commas separate a list.

    Raises UsageError for another syntax.
    """
    head, sign, value = text.partition("=")
    name, _, kind = head.partition(":")
    if not sign or not name or (kind and kind.removesuffix("s") not in _KINDS):
        raise UsageError(f"{text!r} is not of the form {_FORM}.")
    read = _KINDS[kind.removesuffix("s")] if kind else _parse_untyped
    bracketed = value.startswith("[") and value.endswith("]")
    try:
        if kind.endswith("s") or (not kind and (bracketed or "," in value)):
            parts = [part.strip() for part in value.strip("[]").split(",") if part.strip()]
            return name, _of_one_type([read(part) for part in parts])
        return name, read(value)
    except ValueError:
        raise UsageError(f"{value!r} in {text!r} is not of type {kind}; the form is {_FORM}.") from None


def format_attribute(name: str, value: Any) -> str:
    """The text that `parse_attribute` parses."""
    if isinstance(value, (list, tuple)):
        kind = next((kind for kind, read in _KINDS.items() if value and all(type(item) is read for item in value)), "")
        return f"{name}:{kind or 'int'}s=[{','.join(map(str, value))}]"
    kind = "string" if isinstance(value, str) and parse_attribute(f"{name}={value}")[1] != value else ""
    return f"{name}{f':{kind}' if kind else ''}={value}"


def set_attributes(node: NodeProto, schema: Schema | None, values: Mapping[str, Any]) -> None:
    """Set attributes of a node, with the types that its operator or plugin declares.

    Raises RuleError if a value does not fit that type, UsageError if it fits no attribute.
    """
    version = {VERSION: str(values[VERSION])} if VERSION in values else {}
    node.attribute.extend(helper.make_attribute(name, value) for name, value in version.items())
    plugin = plugin_of(node) if names_plugin(node.domain, node.op_type) else None
    rest = {name: value for name, value in values.items() if name not in version}
    node.attribute.extend([_attribute(node, schema, plugin, name=name, value=value) for name, value in rest.items()])


def _attribute(node: NodeProto, schema: Schema | None, plugin: Plugin | None, name: str, value: Any) -> AttributeProto:
    spec = None if schema is None else schema.attributes.get(name)
    field = None if plugin is None else plugin.attributes.get(name)
    if spec is not None:
        value = coerce(node.op_type, spec, value)
    elif field is not None:
        read = _KINDS.get(field.kind)
        if read is not None and field.kind != "int":
            value = [read(item) for item in value] if isinstance(value, (list, tuple)) else read(value)
        if field.length > 1 and not isinstance(value, (list, tuple)):
            value = [value]
    if isinstance(value, (list, tuple)) and not value:
        return helper.make_attribute(name, [], attr_type=AttributeProto.INTS)
    try:
        return helper.make_attribute(name, value)
    except (TypeError, ValueError):
        raise UsageError(f"Attribute {name!r} cannot be {value!r}. Give a number, a string or a list.") from None


def _parse_untyped(text: str) -> Plain:
    """A number if the text is one, else the text."""
    try:
        found = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        found = text
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return found
    return text


def _of_one_type(values: list[Plain]) -> list[Plain]:
    """Values of one type: floats if one is a float, strings if one is a string."""
    if any(isinstance(value, str) for value in values):
        return [str(value) for value in values]
    return [float(value) for value in values] if any(isinstance(value, float) for value in values) else values
