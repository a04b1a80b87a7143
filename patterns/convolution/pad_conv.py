"""Zeros put around the spatial axes by a Pad, as the padding of the convolution or average behind it."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class Padded(Captures):
    """What is padded, and the op behind that: a convolution by w, or an average over windows.

    around: the pads [begins..., ends...] of these axes, or of all.
    """

    x: Tensor
    around: list[int]
    axes: list[int] | None = None
    w: Tensor | None = None
    bias: Tensor | None = None
    kernel_shape: list[int] | Any = None
    attributes: dict[str, Any]


def zero_padded(g: Graph, m: Padded) -> Tensor:
    """Pad with zeros, the zero written out or not."""
    return g.any_of(*(g.pad(m.x, m.around, zero, m.axes) for zero in (0.0, None)))


def padded_conv(g: Graph, m: Padded) -> Tensor:
    """conv(pad(x))."""
    return g.conv(zero_padded(g, m), m.w, m.bias, **m.attributes)


def padded_average(g: Graph, m: Padded) -> Tensor:
    """average_pool(pad(x))."""
    return g.average_pool(zero_padded(g, m), kernel_shape=m.kernel_shape, **m.attributes)


def takes_nothing_away(m: Padded) -> None:
    """A negative pad is a slice."""
    require(min(m.around, default=0) >= 0, "the Pad takes something away")


def with_pads(m: Padded, rank: int | None) -> dict[str, Any]:
    """The attributes of the op behind the Pad, with the sum of both paddings of its spatial axes.

    rank: of x, where it is known.
    """
    around, settings = m.around, dict(m.attributes)
    require(settings.pop("auto_pad", "NOTSET") in ("NOTSET", "VALID"), "the padding is chosen by auto_pad")
    require(m.axes is None or rank is not None, "the rank of x is unknown, so the axes cannot be told")
    count = len(around) // 2 if m.axes is None or rank is None else rank
    named = list(range(count)) if m.axes is None else [axis % count for axis in m.axes]
    added = {axis: (around[place], around[place + len(named)]) for place, axis in enumerate(named)}
    require(not any(added.get(0, ())) and not any(added.get(1, ())), "the Pad adds a batch or a channel")
    own = settings.get("pads") or [0] * 2 * (count - 2)
    ends = [added.get(axis, (0, 0))[side] for side in (0, 1) for axis in range(2, count)]
    return {**settings, "pads": [one + other for one, other in zip(own, ends, strict=True)]}


@rule(patterns=[padded_conv], conditions=[takes_nothing_away], target="onnx")
def pad_conv(g: Graph, m: Padded) -> Tensor:
    """Let a convolution add the zeros that a Pad puts around the spatial axes.

    What: conv(pad(x)) with zeros becomes conv(x) with the sum of both paddings.
    Numerics: exact, but for the order in which the kernel sums.
    """
    rank = m.x.rank if m.x.rank is not None or m.w is None else m.w.rank
    return g.conv(m.x, m.w, m.bias, **with_pads(m, rank))


@rule(patterns=[padded_average], conditions=[takes_nothing_away], target="onnx", opset=7)
def pad_average_pool(g: Graph, m: Padded) -> Tensor:
    """Let an average add the zeros that a Pad puts around the spatial axes.

    What: average_pool(pad(x)) with zeros becomes average_pool(x, count_include_pad=1) with the padding.
    Numerics: exact, but for the order in which the kernel sums.
    """
    own = m.attributes
    require(str(m.x.dtype) in ("float32", "float16"), "ONNX Runtime has no average over windows of this type")
    require(not own.get("ceil_mode", 0), "with ceil_mode the last window may reach beyond the padding")
    is_counted = not any(own.get("pads") or ()) or own.get("count_include_pad", 0)
    require(is_counted, "the average has padding of its own, which it does not count")
    settings = {**with_pads(m, m.x.rank), "count_include_pad": 1}
    is_within = all(pad < size for pad, size in zip(settings["pads"], [*m.kernel_shape, *m.kernel_shape], strict=True))
    require(is_within, "a window would lie in the padding alone")
    return g.average_pool(m.x, kernel_shape=m.kernel_shape, **settings)
