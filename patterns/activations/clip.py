"""Clip, ReLU6 and hardtanh among it: a tensor cut off at two bounds."""

from surgeon import Graph, Tensor, require, rule

NARROW = 1e-4


def lower_first(g: Graph, x: Tensor, low: float, high: float) -> Tensor:
    """min(max(x, low), high)."""
    return g.capture("whole", g.min(g.max(x, low), high))


def upper_first(g: Graph, x: Tensor, low: float, high: float) -> Tensor:
    """max(min(x, high), low)."""
    return g.capture("whole", g.max(g.min(x, high), low))


def from_zero(g: Graph, x: Tensor, high: float) -> Tensor:
    """min(relu(x), high), ReLU6 where that is 6; the minimum may be a Clip."""
    positive = g.relu(x)
    return g.any_of(
        g.capture("whole", g.min(positive, high)), g.clip(positive, None, high), g.clip(positive, 0.0, high)
    )


def in_order(high: float | None, low: float | None = 0.0) -> None:
    """Bounds the wrong way round make either a constant, but not the same."""
    require(low is not None or high is not None, "it has no bounds")
    if low is None or high is None:
        return
    require(low <= high, "the lower bound must not exceed the upper one")
    require(high - low > NARROW, "the bounds lie too close for a check to tell what is between them")


def keeps_rank(x: Tensor, whole: Tensor | None = None) -> None:
    """A bound of shape [1] makes a vector of a scalar, and Clip does not."""
    ranks = {x.rank, x.rank if whole is None else whole.rank}
    require(None in ranks or len(ranks) == 1, "a bound would raise the rank of the result")


def require_kernel(g: Graph, x: Tensor) -> None:
    """Refuse what ONNX Runtime cannot load: it says so too late of a Clip that is inlined."""
    require(g.opset > 11 or x.dtype != "float64", "below opset 12 no kernel takes Clip of doubles")
    require(x.dtype != "bfloat16", "no kernel takes Clip of bfloat16")


def node(g: Graph, x: Tensor, low: float | None, high: float | None) -> Tensor:
    """Clip; a bound may be left out."""
    return g.clip(x, low, high)


@rule(
    patterns=[lower_first, upper_first, from_zero],
    conditions=[in_order, keeps_rank],
    target="onnx",
    form_patterns=[node],
)
def clip(g: Graph, x: Tensor, high: float, low: float = 0.0) -> Tensor:
    """Fuse a maximum and a minimum, or a ReLU and a minimum, into one Clip node.

    What: min(max(x, low), high) in either order, with numbers for bounds that are in order.
    Numerics: exact.
    """
    require_kernel(g, x)
    return g.clip(x, low, high)


@clip.on("decomposed")
def _(g: Graph, x: Tensor, low: float | None, high: float | None) -> Tensor:
    require_kernel(g, x)
    require(g.opset > 7, "Max and Min broadcast from opset 8 on")
    above = x if low is None else g.max(x, low)
    return above if high is None else g.min(above, high)
