"""Nodes that cut off nothing, and put nothing around."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from .no_op_shapes import keeps_sizes


def sliced(
    g: Graph, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    """A part of x; bounds may be computed."""
    return g.capture("y", g.slice(x, starts, ends, axes, steps))


def sliced_by_attributes(
    g: Graph, x: Tensor, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Tensor:
    """A part of x, as before opset 10."""
    return g.capture("y", g.slice(x, starts, ends, axes))


def goes_forward(steps: Tensor | None = None) -> None:
    """No axis is reversed."""
    require(steps is None or (steps.is_constant and (steps.values > 0).all()), "a step may be negative")


@rule(patterns=[sliced, sliced_by_attributes], conditions=[keeps_sizes, goes_forward], target="any")
def no_op_slice(g: Graph, x: Tensor) -> Tensor:
    """Take out slices that leave nothing out.

    What: Slice forwards whose result has the sizes of its input.
    Numerics: none.
    """
    return x


def padded(
    g: Graph, x: Tensor, pads: list[int], value: float | None = None, axes: Tensor | None = None, **others: Any
) -> Tensor:
    """x with a border, or without one that it had."""
    return g.pad(x, pads, value, axes, **others)


def pads_nothing(pads: list[int]) -> None:
    """All widths are 0."""
    require(not any(pads), "it pads or crops")


@rule(patterns=[padded], conditions=[pads_nothing], target="any")
def no_op_pad(g: Graph, x: Tensor) -> Tensor:
    """Take out Pad nodes whose pads are all 0.

    What: Pad in any mode with widths of 0.
    Numerics: none.
    """
    return x
