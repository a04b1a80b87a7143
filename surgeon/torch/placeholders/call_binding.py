"""Converts a call of a torch operator into a node: tensors become inputs in order, all else attributes by name.

    aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)  ->  inputs self, other; attribute alpha

A tensor that is None is an empty input; trailing ones are dropped unless the operator takes a list of tensors.  An
attribute that is None is omitted; defaults are written.  A dtype is written as its number in onnx.TensorProto.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surgeon.errors import UsageError
from surgeon.ops.torch_schema import SCALAR_TYPES, Argument, TorchSchema

CALL_ID_ATTRIBUTE = "surgeon_call"  # the number of the call of a node, during an export
TEMPORARY_DOMAIN = "placeholder"  # the domain of placeholders during an export: torch refuses some domains
FLOAT32_MAX = 3.4028234663852886e38  # the largest float32
KINDS = {"INT": int, "FLOAT": float, "STRING": str}


@dataclass(frozen=True, slots=True)
class BoundCall:
    """The arguments of one call as inputs and attributes."""

    inputs: tuple[Any, ...]
    """Tensors, None for absent ones, and numbers that become constants."""
    attributes: dict[str, tuple[str, Any]]
    """The kind ("INT", "FLOATS", ...) and the value of each attribute by name."""


def bind(schema: TorchSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all arguments by name, with defaults."""
    values = {item.name: default_of(item) for item in schema.arguments}
    values.update(zip(values, args, strict=False))
    values.update({name: value for name, value in kwargs.items() if name in values})
    return values


def default_of(argument: Argument) -> Any:
    """The default value; a dtype as its number in onnx.TensorProto."""
    value = argument.default
    if argument.base == "ScalarType" and isinstance(value, int):
        return SCALAR_TYPES.get(value)
    return value


def sort_arguments(schema: TorchSchema, values: Mapping[str, Any], is_tensor: Any) -> BoundCall:
    """Split the values of a call into inputs and attributes.

    is_tensor: whether the graph computes a value.  Raises UsageError if the graph computes an attribute, if no
    attribute can hold a value, and if the operator takes several lists of tensors, which make the inputs ambiguous.
    """
    inputs: list[Any] = []
    attributes: dict[str, tuple[str, Any]] = {}
    has_list = any(item.is_list for item in schema.tensors)
    if sum(item.is_list for item in schema.tensors) > 1:
        raise UsageError(
            f"{schema.full} takes several lists of tensors, but the inputs of a node are only one list. Split it into "
            "two operators."
        )
    for item in schema.arguments:
        value = values[item.name]
        if item.is_tensor:
            inputs += list(value or ()) if item.is_list else [value]
        elif item.attribute is not None and value is not None:
            if any(is_tensor(one) for one in (value if isinstance(value, (list, tuple)) else (value,))):
                raise UsageError(
                    f"Argument {item.name!r} of {schema.full} is computed by the graph, but an attribute must be "
                    "known at export. Make it a plain number, or leave its dimension static."
                )
            attributes[item.name] = attribute(item, value)
            if not _fits_float32(attributes[item.name]):
                raise UsageError(
                    f"Argument {item.name!r} of {schema.full} is {value!r}, but an attribute is float32, whose largest "
                    f"value is {FLOAT32_MAX:.4g}. Give a smaller number, or a tensor."
                )
        elif not item.is_left_out and value is not None and value != item.default:
            raise UsageError(
                f"Argument {item.name!r} of {schema.full} is of type {item.type}, for which ONNX has no attribute, so "
                "the node would lose it. Use a module class that calls it as the placeholder, or give it as tensors "
                "and numbers."
            )
    while inputs and inputs[-1] is None and not has_list:
        inputs.pop()
    return BoundCall(tuple(inputs), attributes)


def _fits_float32(made: tuple[str, Any]) -> bool:
    """Whether the numbers of an attribute fit into float32."""
    kind, value = made
    ones = value if isinstance(value, list) else [value]
    return not kind.startswith("FLOAT") or all(abs(one) <= FLOAT32_MAX for one in ones if math.isfinite(one))


def attribute(argument: Argument, value: Any) -> tuple[str, Any]:
    """The kind of an attribute, and its value converted to it."""
    kind = str(argument.attribute)
    if kind.startswith("NUMBER"):
        ones = value if isinstance(value, (list, tuple)) else (value,)
        kind = kind.replace("NUMBER", "FLOAT" if any(isinstance(one, float) for one in ones) else "INT")
    single = kind.removesuffix("S")
    plain = KINDS[single]
    if not kind.endswith("S"):
        return kind, plain(value)
    return kind, [plain(one) for one in (value if isinstance(value, (list, tuple)) else (value,))]


def is_same_operation(one: TorchSchema, other: TorchSchema) -> bool:
    """Whether two overloads are one operation: equal argument names, and equal types up to Tensor and Scalar."""
    return [item.name for item in one.arguments] == [item.name for item in other.arguments] and all(
        mine.type == theirs.type or {mine.base, theirs.base} == {"Tensor", "Scalar"}
        for mine, theirs in zip(one.arguments, other.arguments, strict=True)
    )
