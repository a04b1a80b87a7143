"""Zeros that a Pad adds around the spatial axes, as padding of the convolution or average pooling after it."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class Padded(Captures):
    """The input of a Pad, and the op after it: a convolution by w, or an average pooling.

    around: the pads [begins..., ends...] of these axes, or of all axes.
    """

    x: Tensor
    around: list[int]
    axes: list[int] | None = None
    w: Tensor | None = None
    bias: Tensor | None = None
    kernel_shape: list[int] | Any = None
    attributes: dict[str, Any]


class PaddedIntegers(Padded):
    """The same with the number that the Pad adds, and the zero points of x and w."""

    added: Tensor | None = None
    x_zero: Tensor | None = None
    w_zero: Tensor | None = None


def zero_padded(g: Graph, m: Padded) -> Tensor:
    """Pad with zeros, given explicitly or by default."""
    return g.any_of(*(g.pad(m.x, m.around, zero, m.axes) for zero in (0.0, None)))


def padded_conv(g: Graph, m: Padded) -> Tensor:
    """conv(pad(x))."""
    return g.conv(zero_padded(g, m), m.w, m.bias, **m.attributes)


def padded_average(g: Graph, m: Padded) -> Tensor:
    """average_pool(pad(x))."""
    return g.average_pool(zero_padded(g, m), kernel_shape=m.kernel_shape, **m.attributes)


def padded_integers(g: Graph, m: PaddedIntegers) -> Tensor:
    """conv_integer(pad(x))."""
    return g.conv_integer(g.pad(m.x, m.around, m.added, m.axes), m.w, m.x_zero, m.w_zero, **m.attributes)


def takes_nothing_away(m: Padded) -> None:
    """Refuse negative pads, which slice."""
    require(min(m.around, default=0) >= 0, "the Pad has negative pads")


def with_pads(m: Padded, rank: int | None) -> dict[str, Any]:
    """Return the attributes of the op after the Pad, with the sum of both paddings of its spatial axes.

    rank: the rank of x, if it is known.
    """
    around, settings = m.around, dict(m.attributes)
    require(settings.pop("auto_pad", "NOTSET") in ("NOTSET", "VALID"), "auto_pad selects the padding")
    require(m.axes is None or rank is not None, "the rank of x is unknown, so its negative axes cannot be resolved")
    count = len(around) // 2 if m.axes is None or rank is None else rank
    named = list(range(count)) if m.axes is None else [axis % count for axis in m.axes]
    added = {axis: (around[place], around[place + len(named)]) for place, axis in enumerate(named)}
    require(not any(added.get(0, ())) and not any(added.get(1, ())), "the Pad pads the batch or the channels")
    own = settings.get("pads") or [0] * 2 * (count - 2)
    require(len(own) == 2 * (count - 2), "the pads of the op do not have two numbers for each spatial axis")
    ends = [added.get(axis, (0, 0))[side] for side in (0, 1) for axis in range(2, count)]
    return {**settings, "pads": [one + other for one, other in zip(own, ends, strict=True)]}


@rule(patterns=[padded_conv], conditions=[takes_nothing_away], target="onnx")
def pad_conv(g: Graph, m: Padded) -> Tensor:
    """Fold the zeros that a Pad adds around the spatial axes into the padding of a convolution.

    What: conv(pad(x)) with zeros becomes conv(x) with the sum of both paddings.
    Numerics: exact, except for the order in which the kernel sums.
    """
    rank = m.x.rank if m.x.rank is not None or m.w is None else m.w.rank
    return g.conv(m.x, m.w, m.bias, **with_pads(m, rank))


@rule(patterns=[padded_average], conditions=[takes_nothing_away], target="onnx", opset=7)
def pad_average_pool(g: Graph, m: Padded) -> Tensor:
    """Fold the zeros that a Pad adds around the spatial axes into the padding of an average pooling.

    What: average_pool(pad(x)) with zeros becomes average_pool(x, count_include_pad=1) with the padding.
    Numerics: exact, except for the order in which the kernel sums.
    """
    own = m.attributes
    require(str(m.x.dtype) in ("float32", "float16"), "ONNX Runtime has no average pooling for this dtype")
    require(not own.get("ceil_mode", 0), "with ceil_mode the last window may reach beyond the padding")
    is_counted = not any(own.get("pads") or ()) or own.get("count_include_pad", 0)
    require(is_counted, "the average pooling has padding that it does not count")
    settings = {**with_pads(m, m.x.rank), "count_include_pad": 1}
    require(2 * len(m.kernel_shape) == len(settings["pads"]), "the kernel does not have a size for each spatial axis")
    is_within = all(pad < size for pad, size in zip(settings["pads"], [*m.kernel_shape, *m.kernel_shape], strict=True))
    require(is_within, "a window would contain only padding")
    return g.average_pool(m.x, kernel_shape=m.kernel_shape, **settings)


@rule(patterns=[padded_integers], conditions=[takes_nothing_away], target="onnx")
def pad_conv_integer(g: Graph, m: PaddedIntegers) -> Tensor:
    """Fold zero points that a Pad adds around the spatial axes into the padding of a convolution of integers.

    What: ConvInteger of pad(x) with the zero point of x becomes ConvInteger of x with the sum of both paddings.
    Numerics: none.
    """
    is_one = m.x_zero is not None and m.added is not None and m.x_zero.name == m.added.name
    require(is_one or number(m.added) == number(m.x_zero), "the Pad adds other numbers than the zero point of x")
    rank = m.x.rank if m.w is None else m.x.rank or m.w.rank
    return g.conv_integer(m.x, m.w, m.x_zero, m.w_zero, **with_pads(m, rank))


def number(x: Tensor | None) -> int:
    """Return the number in a constant with one element, or 0 without a constant."""
    if x is None:
        return 0
    require(x.is_constant and x.values.size == 1, "the zero point of x or the number that the Pad adds is not fixed")
    return int(x.values.item())
