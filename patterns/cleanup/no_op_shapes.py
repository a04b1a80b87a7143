"""Nodes that do not change the shape, order or extent of a tensor, for all sizes of its dynamic dimensions."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def keeps_sizes(x: Tensor, y: Tensor) -> None:
    """Require that the output has the sizes of the input, as expressions of the dynamic dimensions."""
    require(x.shape is not None, "the rank of the input is unknown")
    require(x.shape == y.shape, "the result may have another shape than the input")


def reshaped(g: Graph, x: Tensor, shape: Tensor, **attributes: Any) -> Tensor:
    """A Reshape of x."""
    return g.capture("y", g.reshape(x, shape, **attributes))


def flattened(g: Graph, x: Tensor, **attributes: Any) -> Tensor:
    """A Flatten of x."""
    return g.capture("y", g.flatten(x, **attributes))


def asks_for_sizes(x: Tensor, shape: Tensor | None = None) -> None:
    """Require that a known target shape agrees, and not only the declared shape of the result."""
    asked = None if shape is None else shape.elements
    pairs = zip(asked or (), x.shape, strict=False)
    require(all(size in (0, -1, own) for size, own in pairs), "the result may have another shape than the input")


@rule(patterns=[reshaped, flattened], conditions=[keeps_sizes, asks_for_sizes], target="any")
def no_op_reshape(g: Graph, x: Tensor) -> Tensor:
    """Remove a Reshape or Flatten that does not change the shape.

    What: Reshape and Flatten whose result has the sizes of their input.
    Numerics: none.
    """
    return x


def transposed(g: Graph, x: Tensor, **attributes: Any) -> Tensor:
    """A Transpose of x."""
    return g.capture("y", g.transpose(x, **attributes))


def keeps_order(x: Tensor, y: Tensor, attributes: dict[str, Any]) -> None:
    """Require that axes with more than one element stay in order, and that the shape stays the same."""
    perm = attributes.get("perm")
    if perm is not None and perm == sorted(perm):
        return
    keeps_sizes(x, y)
    perm = perm or list(range(x.rank))[::-1]
    require(sorted(perm) == list(range(x.rank)), "the permutation does not fit the rank of the input")
    wide = [axis for axis in perm if x.shape[axis] != 1]
    require(wide == sorted(wide), "it changes the order of axes with more than one element")


@rule(patterns=[transposed], conditions=[keeps_order], target="any")
def no_op_transpose(g: Graph, x: Tensor) -> Tensor:
    """Remove a Transpose that moves nothing.

    What: Transpose that keeps the order of its axes, or that moves only axes of size one and keeps the shape.
    Numerics: none.
    """
    return x


def expanded(g: Graph, x: Tensor, shape: Tensor) -> Tensor:
    """An Expand of x."""
    return g.expand(x, shape)


def tiled(g: Graph, x: Tensor, repeats: Tensor) -> Tensor:
    """A Tile of x."""
    return g.tile(x, repeats)


def repeats_nothing(x: Tensor, shape: Tensor | None = None, repeats: Tensor | None = None) -> None:
    """Require that the target shape or the repeats agree, and not only the declared shape of the result."""
    asked: Any = repeats if shape is None else shape
    require(x.shape is not None and asked.elements is not None, "the target shape or the repeats are unknown")
    kept = x.shape if repeats is None else (1,) * x.rank
    pairs = zip(asked.elements[::-1], kept[::-1], strict=False)
    is_kept = len(asked.elements) <= len(kept) and all(size in (1, own) for size, own in pairs)
    require(is_kept, "the result may have another shape than the input")


@rule(patterns=[expanded, tiled], conditions=[repeats_nothing], target="any")
def no_op_expand(g: Graph, x: Tensor) -> Tensor:
    """Remove Expand and Tile nodes that repeat nothing.

    What: Expand and Tile whose result has the sizes of their input.
    Numerics: none.
    """
    return x
