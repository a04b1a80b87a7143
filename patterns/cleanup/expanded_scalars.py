"""Tensors filled with one number that a node would broadcast itself: zeros_like, full_like, and their folded forms."""

from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule
from .._common.axes import broadcasts_to
from .no_op_zeros import FilledTensor, filled_tensor

PICKING = ("Max", "Min")
COMPARING = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")


class Beside(FilledTensor):
    """A tensor filled with one number, and the other operand x; for Where, x if it is before it, or y after it.

    many: the filled tensor, if it is stored whole. condition: the condition of a Where, if it is a tensor.
    """

    shape: Tensor | Any = None
    y: Tensor | Any = None
    many: Constant | Any = None
    condition: Tensor | Any = None

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The number in its dtype, without axes.  Refuses a stored tensor of different numbers."""
        if self.many is None:
            one = super().value
            require(one.size == 1, "more than one number is expanded")
            return one.reshape(())
        values = self.many.values.reshape(-1)
        require(values.size > 1, "it is already a single number")
        require(values.tobytes() == values[:1].tobytes() * values.size, "the numbers of the stored tensor differ")
        return np.asarray(values[0])


def number(g: Graph, m: Beside) -> Tensor:
    """The filled tensor, expanded by a node or stored in the file."""
    m.full = g.any_of(filled_tensor(g, m), m.many)
    return m.full


def before(op: str) -> Callable[[Graph, Beside], Tensor]:
    """Return the pattern of an op with x before the filled tensor."""

    def form(g: Graph, m: Beside) -> Tensor:
        made: Tensor = g.op(op, m.x, number(g, m))
        return made

    form.__doc__, form.__name__ = f"{op} of a tensor and a filled tensor.", f"{op.lower()}_of_number"
    return form


def chosen(g: Graph, m: Beside) -> Tensor:
    """x if a condition is true, otherwise the number."""
    return g.where(m.condition, m.x, number(g, m))


def left_out(g: Graph, m: Beside) -> Tensor:
    """The number if a condition is true, otherwise y."""
    return g.where(m.condition, number(g, m), m.y)


def spreads(m: Beside) -> None:
    """Require that the other operands give the result the sizes of the filled tensor."""
    whole = m.full.shape
    require(whole is not None, "the shape of the filled tensor is unknown")
    others = [item.shape for item in (m.x, m.y, m.condition) if item is not None and item.shape is not None]
    is_given = any(broadcasts_to(whole, shape) for shape in others)
    require(is_given, "no other operand gives the result the sizes of the filled tensor")


@rule(
    patterns=[*(before(op) for op in (*PICKING, *COMPARING)), chosen, left_out],
    conditions=[spreads],
    target="any",
    opset=8,
)
def expanded_scalars(g: Graph, m: Beside) -> Tensor:
    """Pass a single number to a node that broadcasts it, instead of a tensor filled with this number.

    What: Max, Min, comparisons and Where with zeros_like, ones_like or full_like: ConstantOfShape, Expand of one
    number, or the same folded into the file.  Without the folded tensor the file is smaller.
    Numerics: none.
    """
    value = m.value
    if m.condition is not None:
        return g.where(m.condition, value if m.x is None else m.x, value if m.y is None else m.y)
    root = m.match.root  # a comparison may have its operands the other way round
    made: Tensor = g.op(root.op, *((m.x, value) if root.inputs[0] == m.x.name else (value, m.x)))
    return made
