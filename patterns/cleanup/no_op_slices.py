"""Slices that select everything, and pads of width 0."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from .no_op_shapes import keeps_sizes


def sliced(
    g: Graph, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    """A part of x.  The bounds may be computed."""
    return g.capture("y", g.slice(x, starts, ends, axes, steps))


def sliced_by_attributes(
    g: Graph, x: Tensor, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Tensor:
    """A part of x, in the form before opset 10."""
    return g.capture("y", g.slice(x, starts, ends, axes))


def goes_forward(steps: Tensor | None = None) -> None:
    """Require that no axis is reversed."""
    require(steps is None or (steps.is_constant and (steps.values > 0).all()), "a step may be negative")


@rule(patterns=[sliced, sliced_by_attributes], conditions=[keeps_sizes, goes_forward], target="any")
def no_op_slice(g: Graph, x: Tensor) -> Tensor:
    """Remove a Slice that selects everything.

    What: Slice with positive steps whose result has the sizes of its input.
    Numerics: none.
    """
    return x


def padded(
    g: Graph, x: Tensor, pads: list[int], value: float | None = None, axes: Tensor | None = None, **others: Any
) -> Tensor:
    """A Pad of x, which may also crop."""
    return g.pad(x, pads, value, axes, **others)


def pads_nothing(pads: list[int]) -> None:
    """Require that all pads are 0."""
    require(not any(pads), "it pads or crops")


@rule(patterns=[padded], conditions=[pads_nothing], target="any")
def no_op_pad(g: Graph, x: Tensor) -> Tensor:
    """Remove Pad nodes whose pads are all 0.

    What: Pad in any mode with pads of 0.
    Numerics: none.
    """
    return x
