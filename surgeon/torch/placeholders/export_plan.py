"""The state of one export: its placeholders, and the calls recorded so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch

from surgeon.ops.torch_schema import TorchSchema
from surgeon.torch.placeholders.call_binding import BoundCall, bind, is_same_operation, sort_arguments
from surgeon.torch.placeholders.example_inputs import ExampleInputs
from surgeon.torch.placeholders.placeholder import Placeholder, is_deterministic, schema_of
from surgeon.torch.tensor_conversion import ONNX_TYPES


@dataclass(frozen=True, slots=True)
class ExportedCall:
    """A call that became a node."""

    placeholder: Placeholder
    """The placeholder of the operator."""
    schema: TorchSchema
    """The schema that splits the arguments."""
    inputs: int
    """The number of inputs."""
    outputs: int
    """The number of outputs."""
    shapes: list[list[int | str | None]] = field(default_factory=list)
    """The output shapes that the exporter may drop: sizes, names of dynamic dims, and None for unknown ones."""


@dataclass(eq=False)
class ExportState:
    """The placeholders and the calls of one export."""

    placeholders: Sequence[Placeholder]
    """The requested and the registered placeholders."""
    version: int
    """The version of the domains of the placeholders."""
    inputs: ExampleInputs
    """The example arguments."""
    calls_by_output: dict[str, ExportedCall] = field(default_factory=dict)
    """The call of each placeholder node by the name of its first output."""
    calls: list[ExportedCall] = field(default_factory=list)
    """The calls by their number."""
    schemas: dict[Any, tuple[Placeholder, TorchSchema]] = field(default_factory=dict)
    """The placeholder and the schema of each overload."""

    def __post_init__(self) -> None:
        for one in self.placeholders:
            for op, schema in one.canonical.items():
                self.schemas.setdefault(op, (one, schema))

    def add(self, one: Placeholder, op: Any, schema: TorchSchema) -> None:
        """Add another overload of a placeholder for this export."""
        self.schemas[op] = (one, schema)

    def promoted_arguments(self, op: Any) -> set[str]:
        """The arguments that torch promotes to one dtype: tensors that may be numbers, and `self`."""
        one, schema = self.schemas[op]
        of_aten = [schema_of(other) for other in one.ops if other._schema.name.startswith("aten::")]
        pairs = [
            (mine, theirs)
            for own in of_aten
            if is_same_operation(schema, own)
            for mine, theirs in zip(schema.arguments, own.arguments, strict=True)
        ]
        numbers = {mine.name for mine, theirs in pairs if mine.is_tensor != theirs.is_tensor}
        return numbers | {"self"} if numbers else set()

    def record_call(self, op: Any, call: BoundCall) -> int:
        """Record a call of an overload and return its number."""
        one, schema = self.schemas[op]
        self.calls.append(ExportedCall(one, schema, len(call.inputs), max(len(op._schema.returns), 1)))
        return len(self.calls) - 1

    @property
    def merges_calls(self) -> bool:
        """Whether equal calls may be merged: all operators are deterministic."""
        return all(is_deterministic(op) for op in self.schemas)

    def bind_call(
        self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], is_tensor: Callable[[Any], bool]
    ) -> tuple[Placeholder, BoundCall]:
        """The placeholder of an overload, and a call of it as inputs and attributes."""
        one, schema = self.schemas[op]
        return one, sort_arguments(schema, bind(schema, args, kwargs), is_tensor)


def promote_scalar(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """A number as an array, in the dtype to which torch promotes it in an operation with a tensor."""
    if isinstance(value, torch.Tensor):
        value = value.item()
    kind = torch.result_type(torch.empty(1, dtype=dtype), value) if dtype is not None else torch.tensor(value).dtype
    tensor = onnx.helper.tensor_dtype_to_np_dtype(ONNX_TYPES[kind])
    return np.asarray(value).astype(tensor)
