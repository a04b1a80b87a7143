"""Planned replacements of node inputs: size tensors, repeats, ranges and index tuples."""

from dataclasses import dataclass
from typing import TypeAlias

from surgeon.ir.scope import Node
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.tensor_types import Shape


@dataclass(frozen=True, slots=True)
class SizeTensor:
    """Sizes as an integer tensor."""

    values: tuple[Size, ...]
    """Its elements."""
    scalar: bool
    """Whether it is a scalar, not a vector."""
    dtype: int
    """Element type (TensorProto.DataType)."""


@dataclass(frozen=True, slots=True)
class RepeatedTensor:
    """A tensor that is repeated along an axis."""

    tensor: str
    """Name of the tensor."""
    axis: int
    """Axis of the repetition."""
    shape: Shape
    """Shape of the result."""
    from_one_element: bool
    """Whether its elements along the axis are equal, so that only one of them is repeated."""


@dataclass(frozen=True, slots=True)
class IotaTensor:
    """Integers 0, 1, 2, ... along an axis, broadcast to a shape."""

    axis: int
    """Axis that is counted."""
    shape: Shape
    """Shape of the result."""
    dtype: int
    """Element type (TensorProto.DataType)."""


@dataclass(frozen=True, slots=True)
class IndexTuples:
    """Index tuples with one element that counts 0, 1, 2, ... along an axis."""

    tensor: str
    """Name of the tensor of tuples."""
    element: int
    """Position in each tuple of the element that counts."""
    axis: int
    """Axis that is counted."""
    shape: Shape
    """Shape of the result; along the axis, the other elements are equal."""


Recipe: TypeAlias = SizeTensor | RepeatedTensor | IotaTensor | IndexTuples


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """A planned replacement of an input of a node."""

    node: Node
    """The node."""
    position: int
    """Index of the input."""
    name: str
    """Name of the new tensor during propagation."""
    recipe: Recipe
    """How to compute the new tensor."""


class CannotBeDynamic(Exception):
    """A node with which a size cannot be dynamic."""

    def __init__(
        self,
        node: Node,
        why: str,
        how: str = "Export the model with this dimension dynamic.",
        *,
        number: Size | None = None,
        symbolic: Size | None = None,
    ) -> None:
        """why: completes the sentence "Op at 'node' ...".  how: the remedy.

        number, symbolic: a fixed size of the node that contradicts a symbolic one, if that is the reason.
        """
        super().__init__(why)
        self.node, self.why, self.how, self.number, self.symbolic = node, why, how, number, symbolic


class Revisit(Exception):
    """An earlier node has changed: the propagation continues from there."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.label)
        self.node = node
