"""What a walk over a draft with free sizes has nodes read, and why it cannot go on."""

from dataclasses import dataclass
from typing import TypeAlias

from surgeon.ir.scope import Node
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.tensor_types import Shape


@dataclass(frozen=True, slots=True)
class SizeTensor:
    """Sizes as a tensor of integers.  scalar: of no axes, for one.  dtype: of its elements."""

    values: tuple[Size, ...]
    scalar: bool
    dtype: int


@dataclass(frozen=True, slots=True)
class RepeatedTensor:
    """A tensor repeated along an axis, to a shape.

    from_one_element: its elements are equal there, and one of them is taken.
    """

    tensor: str
    axis: int
    shape: Shape
    from_one_element: bool


@dataclass(frozen=True, slots=True)
class IotaTensor:
    """0, 1, 2, ... along an axis of a shape, as integers of a dtype."""

    axis: int
    shape: Shape
    dtype: int


@dataclass(frozen=True, slots=True)
class IndexTuples:
    """Indices by tuples, one element of each of which counts 0, 1, 2, ... along an axis.

    shape: of all of them.  cut: the others are equal along that axis, and one of them is taken.
    """

    tensor: str
    element: int
    axis: int
    shape: Shape
    cut: bool


Recipe: TypeAlias = SizeTensor | RepeatedTensor | IotaTensor | IndexTuples


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """What a node is to read at a position.  name: what walks call it."""

    node: Node
    position: int
    name: str
    recipe: Recipe


class CannotBeDynamic(Exception):
    """A node with which a size cannot be free.  why: what follows behind `Op at 'node'`.  how: what to do about it.

    number, symbolic: a number that the node has where its other sizes give a symbolic one, if that is why.
    """

    def __init__(
        self,
        node: Node,
        why: str,
        how: str = "export the model with it free.",
        *,
        number: Size | None = None,
        symbolic: Size | None = None,
    ) -> None:
        super().__init__(why)
        self.node, self.why, self.how, self.number, self.symbolic = node, why, how, number, symbolic


class Revisit(Exception):
    """A node has changed that was passed: the walk goes on from there."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.label)
        self.node = node
