"""The change of one node of ai.onnx for a newer opset: another op, other attributes and inputs, nodes around it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from onnx import AttributeProto, NodeProto, helper

from surgeon.errors import require
from surgeon.ir.scope import Node
from surgeon.ops.schemas import schema, variables
from surgeon.ops.schemas.attribute_values import type_string
from surgeon.shapes.shape_inference import ShapeInference

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Around: TypeAlias = Callable[[NodeProto, Callable[[str], str]], Sequence[NodeProto]]
"""From the changed node, and a function that makes an unused tensor name, the nodes that replace it, in order."""


class Moved(NamedTuple):
    """A new input with the value of a former attribute."""

    name: str
    """The attribute's name."""
    values: Array
    """Its value."""


@dataclass(slots=True)
class Change:
    """The change of one node for a newer opset."""

    node: Node
    """The node."""
    shapes: ShapeInference
    """Shapes of its model."""
    attributes: dict[str, AttributeProto]
    """Its attributes by name, with the changes so far."""
    op: str
    """Its op type, with the changes so far."""
    operands: list[str | Moved]
    """Its inputs, "" for an omitted one."""
    dropped: list[str] = field(default_factory=list)
    """Attributes to remove."""
    added: dict[str, Any] = field(default_factory=dict)
    """Attributes to add."""
    moved: dict[str, Array | None] = field(default_factory=dict)
    """Attributes that become inputs; None for an omitted input."""
    said: list[str] = field(default_factory=list)
    """Further sentences of the report."""
    around: Around | None = None
    """Returns the nodes that replace this one; None to keep only this node."""

    @classmethod
    def of(cls, node: Node, shapes: ShapeInference) -> "Change":
        """No change yet."""
        return cls(
            node, shapes, {item.name: item for item in node.proto.attribute}, op=node.op, operands=list(node.inputs)
        )

    @property
    def empty(self) -> bool:
        """Whether the node stays unchanged."""
        return not (self.dropped or self.added or self.moved or self.said)

    @property
    def inputs(self) -> int:
        """The number of inputs, including omitted ones before the last."""
        return len(self.operands)

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return len(self.node.outputs)

    @property
    def shape(self) -> Sequence[Any] | None:
        """The shape of the first input; None if its rank is unknown."""
        return self.shapes.shape(self.node.scope, self.node.inputs[0])

    @property
    def rank(self) -> int | None:
        """The rank of the first input; None if it is unknown."""
        return None if self.shape is None else len(self.shape)

    def type_string(self, position: int) -> str:
        """The type of an input as schemas spell it, for example "tensor(float)"; empty if it is unknown."""
        name = self.operands[position] if position < len(self.operands) else ""
        number = self.shapes.dtype(self.node.scope, name) if isinstance(name, str) and name else None
        return type_string(number) if number else ""

    def dtypes(self, opset: int, *, before: bool = False) -> dict[str, int]:
        """The known dtypes of the node's tensors, by type variable of its op."""
        version = schema("", self.node.op if before else self.op, opset)

        def of(one: str | Moved) -> int | None:
            if isinstance(one, Moved):
                return int(helper.np_dtype_to_tensor_dtype(one.values.dtype))
            return self.shapes.dtype(self.node.scope, one) if one else None

        given: Sequence[str | Moved] = self.node.inputs if before else self.operands
        return {} if version is None else variables(version, map(of, given), map(of, self.node.outputs))

    def constant(self, position: int) -> Array | None:
        """The value of an input; None if it is not a small constant."""
        given = self.operands[position]
        if isinstance(given, Moved):
            return given.values
        found = self.shapes.origin.constants.get(self.node.scope, given)
        return None if found is None else found.array

    def value(self, name: str) -> Any:
        """An attribute's value; None if the node does not set it.

        Raises ConditionFailed if the value depends on the call of a function.
        """
        found = self.attributes.get(name)
        require(found is None or not found.ref_attr_name, f"its attribute {name} depends on the call")
        return None if found is None else helper.get_attribute_value(found)

    def drop(self, name: str) -> None:
        """Remove an attribute."""
        del self.attributes[name]
        if name in self.added:
            del self.added[name]
        else:
            self.dropped.append(name)

    def add(self, name: str, value: Any) -> None:
        """Add an attribute."""
        self.attributes[name] = helper.make_attribute(name, value)
        self.added[name] = value

    def move(self, name: str, values: Array | None, place: int = 1) -> None:
        """Turn an attribute into an input, or into an omitted input.

        Raises ConditionFailed if the node's inputs do not allow it.
        """
        message = f"its attribute {name} is an input, but the node has {self.inputs} inputs"
        require(self.inputs == place, message)
        if name in self.attributes:
            self.drop(name)
        self.operands.append("" if values is None else Moved(name, values))
        self.moved[name] = values

    def become(self, op: str) -> None:
        """Change the op; attributes and inputs stay."""
        self.said.append(f"is now {op}")
        self.op = op

    def number(self, name: str) -> Array | None:
        """An attribute as a number of the dtype of the first input; None if the node does not set it.

        Raises ConditionFailed if that dtype is unknown.
        """
        value, known = self.value(name), self.shapes.dtype(self.node.scope, self.node.inputs[0])
        if value is None:
            return None
        require(known, f"its attribute {name} is an input, and its dtype is unknown")
        with np.errstate(over="ignore"):  # float32's lowest number is minus infinity in float16, and bounds nothing
            return np.asarray(value).astype(helper.tensor_dtype_to_np_dtype(known or 0))

    @property
    def sentence(self) -> str:
        """A description of the change."""
        parts = []
        moved = [name for name, values in self.moved.items() if values is not None]
        if moved:
            what, became = ("attributes", "inputs") if len(moved) > 1 else ("attribute", "an input")
            parts.append(f"{what} {' and '.join(moved)} became {became}")
        parts += self.said
        parts += [f"attribute {name} was removed" for name in self.dropped if name not in self.moved]
        parts += [f"attribute {name}={_text(value)} was added" for name, value in self.added.items()]
        return f"{self.node.op}: {' and '.join(parts)}"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
