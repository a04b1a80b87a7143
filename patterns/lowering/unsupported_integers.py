"""Ops on integers that TensorRT does not support: uint8, which it supports only as input and output, and others."""

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
        """The inputs after the first."""
        return [one for one in (self.y, self.ends, self.axes, self.steps, *self.others) if one is not None]


def written(op: str) -> Callable[..., Any]:
    """Return the pattern of a node of an op."""

    def node(g: Graph, m: IntegerOp) -> Any:
        inputs = [m.x] if op in ALONE else [m.x, *m.others] if op in JOINING else [m.x, m.y]
        return g.op(op, *inputs, **m.attributes)

    node.__doc__, node.__name__ = f"{op}.", op.lower()
    return node


def sliced(g: Graph, m: IntegerOp) -> Tensor:
    """Slice."""
    return g.slice(m.x, m.y, m.ends, m.axes, m.steps)


def require_narrow(x: Tensor) -> str:
    """Return the dtype of integers that TensorRT does not support."""
    require(str(x.dtype) in WIDER, f"TensorRT supports {x.dtype}, or has no wider dtype for it")
    return str(x.dtype)


@rule(patterns=[*(written(op) for op in (*ALONE, *TOLD)), sliced], target="tensorrt")
def integer_moves(g: Graph, m: IntegerOp) -> Tensor:
    """Move integers that TensorRT does not support as floats.

    What: Reshape, Transpose, Slice, Gather, MaxPool and similar ops on uint8, int16, uint16 or uint32.  The rule
    inserts a Cast to float32 (int64 for uint32) before, and a Cast back after.  Other Casts may cancel with them.
    Numerics: none.
    """
    kind = require_narrow(m.x)
    return g.cast(g.op(m.match.root.op, g.cast(m.x, to=WIDER[kind]), *m.further(), **m.attributes), to=kind)


@rule(patterns=[written(op) for op in JOINING], target="tensorrt")
def integer_joins(g: Graph, m: IntegerOp) -> Tensor:
    """Concatenate integers that TensorRT does not support as floats, or compute their maximum or minimum.

    What: Concat, Max and Min of uint8, int16, uint16 or uint32, between Casts.
    Numerics: none.
    """
    kind = require_narrow(m.x)
    wide = [g.cast(one, to=WIDER[kind]) for one in (m.x, *m.further())]
    return g.cast(g.op(m.match.root.op, *wide, **m.attributes), to=kind)


@rule(patterns=[written(op) for op in ARITHMETIC], target="tensorrt")
def integer_arithmetic(g: Graph, m: IntegerOp) -> Tensor:
    """Compute with integers of 8 or 16 bits as int32.

    What: Add, Sub, Mul, Div and Mod of uint8 or uint16.  An overflow wraps around to 0, by a remainder.
    Numerics: none.
    """
    kind = require_narrow(m.x)
    require(kind == "uint8" or (kind == "uint16" and m.match.root.op != "Mul"), "int32 may not represent the result")
    made = g.op(m.match.root.op, g.cast(m.x, to="int32"), g.cast(m.y, to="int32"))
    made = made if m.match.root.op in ("Div", "Mod") else g.mod(made, np.array(STEPS[kind], np.int32))
    return g.cast(made, to=kind)


@rule(patterns=[written(op) for op in COMPARING], target="tensorrt")
def integer_comparison(g: Graph, m: IntegerOp) -> Any:
    """Compare integers that TensorRT does not support as int64.

    What: Equal, Less, Greater and similar ops on uint8, int16, uint16 or uint32.
    Numerics: none.
    """
    require_narrow(m.x)
    root = m.match.root  # its operands may be the other way round
    left, right = (m.x, m.y) if root.inputs[0] == m.x.name else (m.y, m.x)
    return g.op(root.op, g.cast(left, to="int64"), g.cast(right, to="int64"))
