"""Numbers that a Pad adds around the spatial axes, as padding of the maximum pooling after it."""

from math import inf
from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._pool_windows import NOT_A_NUMBER
from .pad_conv import Padded, takes_nothing_away, with_pads

LOWEST = {"float16": -inf, "float32": -inf, "float64": -inf, "int8": -128.0, "uint8": 0.0}


class PaddedMaximum(Padded):
    """The same with the number that the Pad adds.

    base, low, high: the input of a Relu or Clip that makes x, and the bounds of the Clip, or () for a Relu.
    """

    fill: float | None = None
    base: Tensor | Any = None
    low: float | Any = ()
    high: float | None = None


def padded_maximum(g: Graph, m: PaddedMaximum) -> Any:
    """max_pool(pad(x))."""
    return g.max_pool(g.pad(m.x, m.around, m.fill, m.axes), kernel_shape=m.kernel_shape, **m.attributes)


def padded_activation(g: Graph, m: PaddedMaximum) -> Any:
    """max_pool(pad(x)) after an activation that makes x."""
    m.x = g.exposed(g.any_of(g.relu(m.base), g.clip(m.base, m.low, m.high)))
    return padded_maximum(g, m)


@rule(
    patterns=[padded_activation, padded_maximum],
    conditions=[takes_nothing_away],
    target="onnx",
    differs=NOT_A_NUMBER,
)
def pad_max_pool(g: Graph, m: PaddedMaximum) -> Any:
    """Fold numbers that a Pad adds around the spatial axes into the padding of a maximum pooling.

    What: max_pool(pad(x)) becomes max_pool(x) with the sum of both paddings.  The Pad adds the lowest number of the
    dtype, or zeros to the output of a Relu or of a Clip.
    Numerics: none.
    """
    kind, fill = str(m.x.dtype), m.fill or 0.0
    require(kind in LOWEST, "ONNX Runtime has no maximum pooling for this dtype")
    settings = with_pads(m, m.x.rank)
    require(not settings.get("ceil_mode", 0), "with ceil_mode the last window may reach beyond the padding")
    is_within = all(pad < size for pad, size in zip(settings["pads"], [*m.kernel_shape, *m.kernel_shape], strict=True))
    require(is_within, "a window would contain only padding")
    is_dense = set(settings.get("dilations") or [1]) == {1}
    is_above = m.low == () or (m.low is not None and m.low >= 0)
    never_wins = fill == LOWEST[kind] or (m.base is not None and is_above and fill <= 0 and is_dense)
    require(never_wins, "a number that the Pad adds may be the maximum of a window")
    if m.base is None:
        return g.max_pool(m.x, kernel_shape=m.kernel_shape, **settings)
    x = g.relu(m.base) if m.low == () else g.clip(m.base, m.low, m.high)
    return [g.max_pool(x, kernel_shape=m.kernel_shape, **settings), x][: m.output_count]
