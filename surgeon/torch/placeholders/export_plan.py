"""What one export is to write: the placeholders, the calls seen so far, and how to write a call as a node."""

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
    """A call that became a node.

    schema: by which its arguments were sorted.  inputs, outputs: how many it has.  shapes: of each output, where the
    exporter may forget them: numbers, names of free sizes, and None for what is neither.
    """

    placeholder: Placeholder
    schema: TorchSchema
    inputs: int
    outputs: int
    shapes: list[list[int | str | None]] = field(default_factory=list)


@dataclass(eq=False)
class ExportState:
    """The placeholders of one export and the calls that were written, by their numbers.

    inputs: the example arguments.  calls_by_output: what a node stands for, by the first tensor that it makes.
    """

    placeholders: Sequence[Placeholder]
    version: int
    inputs: ExampleInputs
    calls_by_output: dict[str, ExportedCall] = field(default_factory=dict)
    calls: list[ExportedCall] = field(default_factory=list)
    schemas: dict[Any, tuple[Placeholder, TorchSchema]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in self.placeholders:
            for op, schema in one.canonical.items():
                self.schemas.setdefault(op, (one, schema))

    def add(self, one: Placeholder, op: Any, schema: TorchSchema) -> None:
        """Take another overload, which stands for a placeholder in this export."""
        self.schemas[op] = (one, schema)

    def promoted_arguments(self, op: Any) -> set[str]:
        """The arguments that torch brings to one dtype: those for which a number may stand, and what they go with."""
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
        """Keep a call of an overload, and number it."""
        one, schema = self.schemas[op]
        self.calls.append(ExportedCall(one, schema, len(call.inputs), max(len(op._schema.returns), 1)))
        return len(self.calls) - 1

    @property
    def merges_calls(self) -> bool:
        """Whether equal calls may be merged: only where every operator is known to repeat itself."""
        return all(is_deterministic(op) for op in self.schemas)

    def bind_call(
        self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], is_tensor: Callable[[Any], bool]
    ) -> tuple[Placeholder, BoundCall]:
        """A call of an overload as inputs and attributes."""
        one, schema = self.schemas[op]
        return one, sort_arguments(schema, bind(schema, args, kwargs), is_tensor)


def promote_scalar(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """A plain number as torch takes it beside a tensor: in the tensor's dtype, unless it is of a higher kind."""
    if isinstance(value, torch.Tensor):
        value = value.item()
    kind = torch.result_type(torch.empty(1, dtype=dtype), value) if dtype is not None else torch.tensor(value).dtype
    tensor = onnx.helper.tensor_dtype_to_np_dtype(ONNX_TYPES[kind])
    return np.asarray(value).astype(tensor)
