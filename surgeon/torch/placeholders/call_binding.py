"""How a call of a torch operator becomes a node: tensors are inputs in order, everything else attributes by name.

    aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)  ->  inputs self, other; attribute alpha

A tensor that is None is an empty input (trailing ones are dropped, but where a list of tensors could not be told from
them); an attribute that is None is left out; defaults are written out.  A dtype is written as onnx.TensorProto has it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surgeon.errors import UsageError
from surgeon.ops.torch_schema import SCALAR_TYPES, Argument, TorchSchema

CALL_ID_ATTRIBUTE = "surgeon_call"  # which call a node stands for while an export runs; taken away afterwards
TEMPORARY_DOMAIN = "placeholder"  # the domain of placeholders while an export runs: torch minds some that users want
MOST = 3.4028234663852886e38  # the largest float32
KINDS = {"INT": int, "FLOAT": float, "STRING": str}


@dataclass(frozen=True, slots=True)
class BoundCall:
    """One call sorted.  inputs: tensors, None for absent ones, and plain numbers that become constants.

    attributes: by name, a kind ("INT", "FLOATS", ...) and a value of it.
    """

    inputs: tuple[Any, ...]
    attributes: dict[str, tuple[str, Any]]


def bind(schema: TorchSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all arguments by name, with defaults."""
    values = {item.name: default_of(item) for item in schema.arguments}
    values.update(zip(values, args, strict=False))
    values.update({name: value for name, value in kwargs.items() if name in values})
    return values


def default_of(argument: Argument) -> Any:
    """The default as it is written: a dtype as onnx.TensorProto numbers it."""
    value = argument.default
    if argument.base == "ScalarType" and isinstance(value, int):
        return SCALAR_TYPES.get(value)
    return value


def sort_arguments(schema: TorchSchema, values: Mapping[str, Any], is_tensor: Any) -> BoundCall:
    """Sort the values of a call.

    is_tensor: says of a value whether the graph computes it.  Raises UsageError where it computes an attribute, for
    what no attribute holds, and where a list of tensors stands beside another one, so that the inputs could not be told
    apart.
    """
    inputs: list[Any] = []
    attributes: dict[str, tuple[str, Any]] = {}
    has_list = any(item.is_list for item in schema.tensors)
    if sum(item.is_list for item in schema.tensors) > 1:
        raise UsageError(
            f"{schema.full} takes several lists of tensors, which the inputs of one node cannot tell apart; give it to "
            "the exporter as two operators."
        )
    for item in schema.arguments:
        value = values[item.name]
        if item.is_tensor:
            inputs += list(value or ()) if item.is_list else [value]
        elif item.attribute is not None and value is not None:
            if any(is_tensor(one) for one in (value if isinstance(value, (list, tuple)) else (value,))):
                raise UsageError(
                    f"The argument {item.name!r} of {schema.full} is computed by the graph, and an attribute must be "
                    "known at export; make it a plain number, or leave its dimension static."
                )
            attributes[item.name] = attribute(item, value)
            if not _is_held(attributes[item.name]):
                raise UsageError(
                    f"The argument {item.name!r} of {schema.full} is {value!r}, and an attribute holds float32, of "
                    f"which {MOST:.4g} is the largest; give a smaller number, or a tensor."
                )
        elif not item.is_left_out and value is not None and value != item.default:
            raise UsageError(
                f"The argument {item.name!r} of {schema.full} is of type {item.type}, for which ONNX has no attribute, "
                "so that the node would lose it; name a module class that calls it, or give it as tensors and numbers."
            )
    while inputs and inputs[-1] is None and not has_list:
        inputs.pop()
    return BoundCall(tuple(inputs), attributes)


def _is_held(made: tuple[str, Any]) -> bool:
    """Whether an attribute holds its number: one of float32 makes infinity of what is larger."""
    kind, value = made
    ones = value if isinstance(value, list) else [value]
    return not kind.startswith("FLOAT") or all(abs(one) <= MOST for one in ones if math.isfinite(one))


def attribute(argument: Argument, value: Any) -> tuple[str, Any]:
    """The kind of an attribute and its value as that kind."""
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
    """Whether two overloads are one operation: the same names, and where they differ a number stands for a tensor."""
    return [item.name for item in one.arguments] == [item.name for item in other.arguments] and all(
        mine.type == theirs.type or {mine.base, theirs.base} == {"Tensor", "Scalar"}
        for mine, theirs in zip(one.arguments, other.arguments, strict=True)
    )
