"""Nodes that give a tensor the shape, order or extent that it already has, for all sizes of its dynamic dims."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def keeps_sizes(x: Tensor, y: Tensor) -> None:
    """The output has the sizes of the input, as expressions of the dynamic dims."""
    require(x.shape is not None, "the rank of the input is unknown")
    require(x.shape == y.shape, "the result need not have the shape of the input")


def reshaped(g: Graph, x: Tensor, shape: Tensor, **attributes: Any) -> Tensor:
    """x in a shape."""
    return g.capture("y", g.reshape(x, shape, **attributes))


def flattened(g: Graph, x: Tensor, **attributes: Any) -> Tensor:
    """x as a matrix."""
    return g.capture("y", g.flatten(x, **attributes))


def asks_for_sizes(x: Tensor, shape: Tensor | None = None) -> None:
    """A target that is known says so too, and not just what a file states of the result."""
    asked = None if shape is None else shape.elements
    pairs = zip(asked or (), x.shape, strict=False)
    require(all(size in (0, -1, own) for size, own in pairs), "the result need not have the shape of the input")


@rule(patterns=[reshaped, flattened], conditions=[keeps_sizes, asks_for_sizes], target="any")
def no_op_reshape(g: Graph, x: Tensor) -> Tensor:
    """Take out reshapes to the shape that a tensor has already.

    What: Reshape and Flatten whose result has the sizes of their input.
    Numerics: none.
    """
    return x


def transposed(g: Graph, x: Tensor, **attributes: Any) -> Tensor:
    """x with its axes in another order."""
    return g.capture("y", g.transpose(x, **attributes))


def keeps_order(x: Tensor, y: Tensor, attributes: dict[str, Any]) -> None:
    """Axes of more than one element stay in order, and the shape stays."""
    perm = attributes.get("perm")
    if perm is not None and perm == sorted(perm):
        return
    keeps_sizes(x, y)
    perm = perm or list(range(x.rank))[::-1]
    require(sorted(perm) == list(range(x.rank)), "its axes are not those of its input")
    wide = [axis for axis in perm if x.shape[axis] != 1]
    require(wide == sorted(wide), "it changes the order of axes that have more than one element")


@rule(patterns=[transposed], conditions=[keeps_order], target="any")
def no_op_transpose(g: Graph, x: Tensor) -> Tensor:
    """Take out transposes that move nothing.

    What: Transpose that keeps the order of its axes, or moves only axes of one element and keeps the shape.
    Numerics: none.
    """
    return x


def expanded(g: Graph, x: Tensor, shape: Tensor) -> Tensor:
    """x repeated along axes of one element."""
    return g.expand(x, shape)


def tiled(g: Graph, x: Tensor, repeats: Tensor) -> Tensor:
    """x repeated along axes."""
    return g.tile(x, repeats)


def repeats_nothing(x: Tensor, shape: Tensor | None = None, repeats: Tensor | None = None) -> None:
    """What it is repeated by says so, not the shape that a file states of the result."""
    asked: Any = repeats if shape is None else shape
    require(x.shape is not None and asked.elements is not None, "how often the input is repeated is unknown")
    kept = x.shape if repeats is None else (1,) * x.rank
    pairs = zip(asked.elements[::-1], kept[::-1], strict=False)
    is_kept = len(asked.elements) <= len(kept) and all(size in (1, own) for size, own in pairs)
    require(is_kept, "the result need not have the shape of the input")


def over_spread(g: Graph, x: Tensor, divisor: Tensor, shape: Tensor) -> Tensor:
    """x over what was spread before."""
    return g.div(x, g.capture("spread", g.shared(g.expand(divisor, shape))))


def times_spread(g: Graph, x: Tensor, factor: Tensor, shape: Tensor) -> Tensor:
    """x times what was spread before."""
    return g.mul(x, g.capture("spread", g.shared(g.expand(factor, shape))))


def spread_to_it(x: Tensor, spread: Tensor) -> None:
    """It was spread to the shape of x, which a product spreads it to itself."""
    require(spread.shape is not None and spread.shape == x.shape, "what is spread need not have the shape of x")


@rule(patterns=[over_spread, times_spread], conditions=[spread_to_it], target="any")
def redundant_expand(g: Graph, x: Tensor, divisor: Tensor | None = None, factor: Tensor | None = None) -> Tensor:
    """Divide by a tensor as it is, or multiply with it, without spreading it first.

    What: Div by an Expand to the shape of x, as torch's normalize writes lengths, and Mul with one, as gates are.
    Numerics: none.
    """
    return g.mul(x, factor) if divisor is None else g.div(x, divisor)


@rule(patterns=[expanded, tiled], conditions=[repeats_nothing], target="any")
def no_op_expand(g: Graph, x: Tensor) -> Tensor:
    """Take out Expand and Tile nodes that repeat nothing.

    What: Expand and Tile whose result has the sizes of their input.
    Numerics: none.
    """
    return x
