"""Clip, including ReLU6 and hardtanh: a tensor limited to two bounds."""

from surgeon import Graph, Tensor, require, rule

NARROW = 1e-4


def lower_first(g: Graph, x: Tensor, low: float, high: float) -> Tensor:
    """min(max(x, low), high)."""
    return g.capture("whole", g.min(g.max(x, low), high))


def upper_first(g: Graph, x: Tensor, low: float, high: float) -> Tensor:
    """max(min(x, high), low)."""
    return g.capture("whole", g.max(g.min(x, high), low))


def from_zero(g: Graph, x: Tensor, high: float) -> Tensor:
    """min(relu(x), high), which is ReLU6 for high = 6.  The minimum may be a Clip."""
    positive = g.relu(x)
    return g.any_of(
        g.capture("whole", g.min(positive, high)), g.clip(positive, None, high), g.clip(positive, 0.0, high)
    )


def in_order(high: float | None, low: float | None = 0.0) -> None:
    """Require a lower bound below the upper one.  Otherwise both sides are constant, but with different values."""
    require(low is not None or high is not None, "Clip has no bounds")
    if low is None or high is None:
        return
    require(low <= high, "the lower bound must not exceed the upper one")
    require(high - low > NARROW, "the bounds are too close together for a check to distinguish values between them")


def keeps_rank(x: Tensor, whole: Tensor | None = None) -> None:
    """Refuse a bound of shape [1] for a scalar: Max and Min return a vector, but Clip does not."""
    ranks = {x.rank, x.rank if whole is None else whole.rank}
    require(None in ranks or len(ranks) == 1, "a bound would increase the rank of the result")


def require_kernel(g: Graph, x: Tensor) -> None:
    """Refuse a Clip that ONNX Runtime cannot load.  It reports the error too late for a Clip in an inlined function."""
    require(g.opset > 11 or x.dtype != "float64", "below opset 12 no kernel supports Clip for float64")
    require(x.dtype != "bfloat16", "no kernel supports Clip for bfloat16")


def below_replaced(g: Graph, x: Tensor, low: float) -> Tensor:
    """The bound in place of the numbers below it."""
    return g.capture("whole", g.where(g.any_of(g.less(x, low), g.less_or_equal(x, low)), low, x))


def above_replaced(g: Graph, x: Tensor, high: float) -> Tensor:
    """The bound in place of the numbers above it."""
    return g.capture("whole", g.where(g.any_of(g.greater(x, high), g.greater_or_equal(x, high)), high, x))


@rule(patterns=[below_replaced, above_replaced], conditions=[keeps_rank], target="any", opset=9)
def where_clip(g: Graph, x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    """Limit a tensor by Max or Min, instead of by a comparison and a Where.

    What: Where(x < low, low, x) and Where(x > high, high, x), which keep NaN as Max and Min do.  Both together become a
    Clip.  The rule does not match Where(x > low, x, low), which replaces NaN by the bound.
    Numerics: exact.
    """
    return g.min(x, high) if low is None else g.max(x, low)


def node(g: Graph, x: Tensor, low: float | None, high: float | None) -> Tensor:
    """Clip with optional bounds."""
    return g.clip(x, low, high)


@rule(
    patterns=[lower_first, upper_first, from_zero],
    conditions=[in_order, keeps_rank],
    target="onnx",
    form_patterns=[node],
)
def clip(g: Graph, x: Tensor, high: float, low: float = 0.0) -> Tensor:
    """Fuse a maximum and a minimum, or a ReLU and a minimum, into one Clip node.

    What: min(max(x, low), high) in either order.  The bounds are numbers, and low is less than high.
    Numerics: exact.
    """
    require_kernel(g, x)
    return g.clip(x, low, high)


@clip.on("decomposed")
def _(g: Graph, x: Tensor, low: float | None, high: float | None) -> Tensor:
    require_kernel(g, x)
    require(g.opset > 7, "Max and Min broadcast only from opset 8 on")
    above = x if low is None else g.max(x, low)
    return above if high is None else g.min(above, high)
