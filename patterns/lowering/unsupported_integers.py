"""Ops on integers that TensorRT does not compute with: uint8, which it has at the ends of a network, and others."""

from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule

WIDER = {"uint8": "float32", "uint16": "float32", "int16": "float32", "uint32": "int64"}
STEPS = {"uint8": 2**8, "uint16": 2**16}
ALONE = ("Identity", "Transpose", "Flatten", "DepthToSpace", "SpaceToDepth", "MaxPool")
TOLD = ("Reshape", "Squeeze", "Unsqueeze", "Expand", "Tile", "Gather", "GatherElements", "GatherND")
JOINING = ("Concat", "Max", "Min")
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Mod")
COMPARING = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")


class IntegerOp(Captures):
    """The inputs of a node, and its attributes."""

    x: Tensor
    y: Tensor | Any = None
    ends: Tensor | Any = None
    axes: Tensor | None = None
    steps: Tensor | None = None
    others: tuple[Tensor, ...] = ()
    attributes: dict[str, Any] = {}  # noqa: RUF012

    def further(self) -> list[Any]:
        """The inputs behind the first."""
        return [one for one in (self.y, self.ends, self.axes, self.steps, *self.others) if one is not None]


def written(op: str) -> Callable[..., Any]:
    """The pattern of a node of an op."""

    def node(g: Graph, m: IntegerOp) -> Any:
        inputs = [m.x] if op in ALONE else [m.x, *m.others] if op in JOINING else [m.x, m.y]
        return g.op(op, *inputs, **m.attributes)

    node.__doc__, node.__name__ = f"{op}.", op.lower()
    return node


def sliced(g: Graph, m: IntegerOp) -> Tensor:
    """Slice."""
    return g.slice(m.x, m.y, m.ends, m.axes, m.steps)


def require_narrow(x: Tensor) -> str:
    """The dtype of integers that TensorRT does not compute with."""
    require(str(x.dtype) in WIDER, f"TensorRT computes with {x.dtype} itself, or has no wider dtype for it")
    return str(x.dtype)


@rule(patterns=[*(written(op) for op in (*ALONE, *TOLD)), sliced], target="tensorrt")
def integer_moves(g: Graph, m: IntegerOp) -> Tensor:
    """Move integers that TensorRT does not compute with as floats.

    What: Reshape, Transpose, Slice, Gather, MaxPool and the like of uint8, int16, uint16 or uint32: a Cast to float32
    (int64 for the last) before it, and one back behind it, which go again where others undo them.
    Numerics: none.
    """
    kind = require_narrow(m.x)
    return g.cast(g.op(m.match.root.op, g.cast(m.x, to=WIDER[kind]), *m.further(), **m.attributes), to=kind)


@rule(patterns=[written(op) for op in JOINING], target="tensorrt")
def integer_joins(g: Graph, m: IntegerOp) -> Tensor:
    """Join integers that TensorRT does not compute with as floats, or take the largest or smallest.

    What: Concat, Max and Min of uint8, int16, uint16 or uint32, between Casts.
    Numerics: none.
    """
    kind = require_narrow(m.x)
    wide = [g.cast(one, to=WIDER[kind]) for one in (m.x, *m.further())]
    return g.cast(g.op(m.match.root.op, *wide, **m.attributes), to=kind)


@rule(patterns=[written(op) for op in ARITHMETIC], target="tensorrt")
def integer_arithmetic(g: Graph, m: IntegerOp) -> Tensor:
    """Compute with integers of 8 or 16 bits as int32.

    What: Add, Sub, Mul, Div and Mod of uint8 or uint16: what runs over begins at 0 again, as the remainder tells.
    Numerics: none.
    """
    kind = require_narrow(m.x)
    require(kind == "uint8" or (kind == "uint16" and m.match.root.op != "Mul"), "int32 may not hold the result")
    made = g.op(m.match.root.op, g.cast(m.x, to="int32"), g.cast(m.y, to="int32"))
    made = made if m.match.root.op in ("Div", "Mod") else g.mod(made, np.array(STEPS[kind], np.int32))
    return g.cast(made, to=kind)


@rule(patterns=[written(op) for op in COMPARING], target="tensorrt")
def integer_comparison(g: Graph, m: IntegerOp) -> Any:
    """Compare integers that TensorRT does not compute with as int64.

    What: Equal, Less, Greater and the like of uint8, int16, uint16 or uint32.
    Numerics: none.
    """
    require_narrow(m.x)
    return g.op(m.match.root.op, g.cast(m.x, to="int64"), g.cast(m.y, to="int64"))
