"""Tensors of one number that a node would spread itself: zeros_like, full_like, and what folding made of them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule
from .._common.axes import broadcasts_to
from .no_op_zeros import FilledTensor, filled_tensor

PICKING = ("Max", "Min")
COMPARING = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")


class Beside(FilledTensor):
    """What a number everywhere is compared with: x before it, or y behind; many: it, stored whole.

    condition: what chooses between them, where that is a tensor.
    """

    shape: Tensor | Any = None
    y: Tensor | Any = None
    many: Constant | Any = None
    condition: Tensor | Any = None

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The number, of its dtype, without axes.  Refuses a stored tensor of several."""
        if self.many is None:
            one = super().value
            require(one.size == 1, "several numbers are spread")
            return one.reshape(())
        values = self.many.values.reshape(-1)
        require(values.size > 1, "it is one number already")
        require(values.tobytes() == values[:1].tobytes() * values.size, "the numbers are not all the same")
        return np.asarray(values[0])


def number(g: Graph, m: Beside) -> Tensor:
    """The number, spread by a node or in the file."""
    m.full = g.any_of(filled_tensor(g, m), m.many)
    return m.full


def before(op: str) -> Callable[[Graph, Beside], Tensor]:
    """x beside the number."""

    def form(g: Graph, m: Beside) -> Tensor:
        made: Tensor = g.op(op, m.x, number(g, m))
        return made

    form.__doc__, form.__name__ = f"{op} of a tensor and a number everywhere.", f"{op.lower()}_of_number"
    return form


def behind(op: str) -> Callable[[Graph, Beside], Tensor]:
    """The number beside y."""

    def form(g: Graph, m: Beside) -> Tensor:
        made: Tensor = g.op(op, number(g, m), m.y)
        return made

    form.__doc__, form.__name__ = f"{op} of a number everywhere and a tensor.", f"number_{op.lower()}"
    return form


def chosen(g: Graph, m: Beside) -> Tensor:
    """x where a condition holds, the number elsewhere."""
    return g.where(m.condition, m.x, number(g, m))


def left_out(g: Graph, m: Beside) -> Tensor:
    """The number where a condition holds, y elsewhere."""
    return g.where(m.condition, number(g, m), m.y)


def spreads(m: Beside) -> None:
    """What stands beside the number has its sizes, so that the result has them too."""
    whole = m.full.shape
    require(whole is not None, "the shape of the numbers is unknown")
    others = [item.shape for item in (m.x, m.y, m.condition) if item is not None and item.shape is not None]
    is_given = any(broadcasts_to(whole, shape) for shape in others)
    require(is_given, "nothing else gives the result the sizes of the numbers")


@rule(
    patterns=[
        *(before(op) for op in (*PICKING, *COMPARING)), *(behind(op) for op in COMPARING), chosen, left_out,
    ],
    conditions=[spreads],
    target="any",
    opset=8,
)  # fmt: skip
def expanded_scalars(g: Graph, m: Beside) -> Tensor:
    """Read a number as it is where a tensor of it alone was made or stored, and the node would spread it.

    What: Max, Min, comparisons and Where beside zeros_like, ones_like or full_like: ConstantOfShape, Expand of one
    number, or the same folded into the file, which takes less then.
    Numerics: none.
    """
    value = m.value
    if m.condition is not None:
        return g.where(m.condition, value if m.x is None else m.x, value if m.y is None else m.y)
    made: Tensor = g.op(m.match.root.op, *((m.x, value) if m.y is None else (value, m.y)))
    return made
