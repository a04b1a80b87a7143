"""Zeros put around the spatial axes by a Pad, as the padding of the convolution or average behind it."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def zero_padded(g: Graph, x: Tensor, around: list[int], axes: list[int] | None) -> Tensor:
    """Pad with zeros, the zero written out or not."""
    return g.any_of(g.pad(x, around, 0.0, axes), g.pad(x, around, None, axes))


def padded_conv(
    g: Graph,
    x: Tensor,
    around: list[int],
    w: Tensor,
    bias: Tensor | None = None,
    axes: list[int] | None = None,
    **attributes: Any,
) -> Tensor:
    """conv(pad(x))."""
    return g.conv(zero_padded(g, x, around, axes), w, bias, **attributes)


def padded_average(
    g: Graph, x: Tensor, around: list[int], kernel_shape: list[int], axes: list[int] | None = None, **attributes: Any
) -> Tensor:
    """average_pool(pad(x))."""
    return g.average_pool(zero_padded(g, x, around, axes), kernel_shape=kernel_shape, **attributes)


def takes_nothing_away(around: list[int]) -> None:
    """A negative pad is a slice."""
    require(min(around, default=0) >= 0, "the Pad takes something away")


def sum_of_pads(
    axes_of_x: int | None, around: list[int], axes: list[int] | None, attributes: dict[str, Any]
) -> list[int]:
    """The pads [begins..., ends...] of the spatial axes, with those that the op behind the Pad has itself."""
    require(attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID"), "the padding is chosen by auto_pad")
    require(axes is None or axes_of_x is not None, "the rank of x is unknown, so the axes cannot be told")
    rank = len(around) // 2 if axes is None or axes_of_x is None else axes_of_x
    named = [axis % rank for axis in axes] if axes is not None else list(range(rank))
    added = {axis: (around[place], around[place + len(named)]) for place, axis in enumerate(named)}
    require(not any(added.get(0, ())) and not any(added.get(1, ())), "the Pad adds a batch or a channel")
    own = attributes.get("pads") or [0] * 2 * (rank - 2)
    ends = [added.get(axis, (0, 0))[side] for side in (0, 1) for axis in range(2, rank)]
    return [one + other for one, other in zip(own, ends, strict=True)]


def behind(attributes: dict[str, Any], pads: list[int]) -> dict[str, Any]:
    """The attributes of an op with pads in place of its own."""
    return {**{name: value for name, value in attributes.items() if name != "auto_pad"}, "pads": pads}


@rule(patterns=[padded_conv], conditions=[takes_nothing_away], target="onnx")
def pad_conv(
    g: Graph,
    x: Tensor,
    around: list[int],
    w: Tensor,
    bias: Tensor | None = None,
    axes: list[int] | None = None,
    **attributes: Any,
) -> Tensor:
    """Let a convolution add the zeros that a Pad puts around the spatial axes.

    What: conv(pad(x)) with zeros becomes conv(x) with the sum of both paddings.
    Numerics: exact, but for the order in which the kernel sums.
    """
    rank = x.rank if x.rank is not None else w.rank
    return g.conv(x, w, bias, **behind(attributes, sum_of_pads(rank, around, axes, attributes)))


@rule(patterns=[padded_average], conditions=[takes_nothing_away], target="onnx", opset=7)
def pad_average_pool(
    g: Graph, x: Tensor, around: list[int], kernel_shape: list[int], axes: list[int] | None = None, **attributes: Any
) -> Tensor:
    """Let an average add the zeros that a Pad puts around the spatial axes.

    What: average_pool(pad(x)) with zeros becomes average_pool(x, count_include_pad=1) with the padding.
    Numerics: exact, but for the order in which the kernel sums.
    """
    require(str(x.dtype) in ("float32", "float16"), "ONNX Runtime has no average over windows of this type")
    require(not attributes.get("ceil_mode", 0), "with ceil_mode the last window may reach beyond the padding")
    own = any(attributes.get("pads") or ()) and not attributes.get("count_include_pad", 0)
    require(not own, "the average has padding of its own, which it does not count")
    found = sum_of_pads(x.rank, around, axes, attributes)
    sizes = [*kernel_shape, *kernel_shape]
    require(all(pad < size for pad, size in zip(found, sizes, strict=True)), "a window would lie in the padding alone")
    return g.average_pool(x, kernel_shape=kernel_shape, **{**behind(attributes, found), "count_include_pad": 1})
