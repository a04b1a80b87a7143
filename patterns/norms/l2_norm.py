"""Normalisation to length one: x over its Euclidean norm along an axis."""

from surgeon import Graph, Tensor, require, rule
from .._common.axes import has_explicit_axes
from .._common.floats import half_to_float32

DIFFERS = {
    "zeros": "a row of zeros gives zeros, where a division without a floor gives NaN",
    "denormals": "a row shorter than the floor is made one of length one, where the floor leaves it short",
    "extreme": "the squares may overflow where the runtime scales the row first, or the other way about",
    "non_finite": "a row that holds an infinity gives what the runtime makes of infinity over infinity",
}
MAX_FLOOR = 1e-6


def is_expanded_like(spread: Tensor, x: Tensor) -> None:
    """Refuse an Expand to another shape than that of x."""
    require(spread.shape is not None and spread.shape == x.shape, "the length must be spread to the shape of the input")


def floored(g: Graph, x: Tensor, axes: list[int], floor: float) -> Tensor:
    """x / max(‖x‖, floor), as torch's normalize writes it, perhaps spread to the shape of x first."""
    least = g.any_of(g.clip(g.length_over(x, axes), floor), g.max(g.length_over(x, axes), floor))
    spread = g.such_that(g.expand(least, g.any_tensor()), is_expanded_like, x)
    return g.div(x, g.any_of(spread, least))


def plain(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """x / ‖x‖."""
    return g.any_of(g.div(x, g.length_over(x, axes)), g.mul(x, g.rsqrt(g.sum_over(g.square(x), axes))))


def no_bfloat16(x: Tensor) -> None:
    """Nothing here runs LpNormalization of bfloat16, so that nothing could be proved."""
    require(x.dtype != "bfloat16", "ONNX Runtime has no kernel for LpNormalization of bfloat16")


def node(g: Graph, x: Tensor, axis: int) -> Tensor:
    """LpNormalization with p = 2."""
    return g.lp_normalization(x, axis=axis, p=2)


@rule(
    patterns=[floored, plain],
    conditions=[has_explicit_axes, no_bfloat16],
    target="onnx",
    form_patterns=[node],
    differs=DIFFERS,
)
def l2_norm(g: Graph, x: Tensor, axes: list[int], floor: float = 0.0) -> Tensor:
    """Fuse x over its Euclidean length along an axis into one LpNormalization node.

    What: x / ‖x‖ or x / max(‖x‖, floor), the floor at most 1e-6.
    Numerics: rounding only for rows that are longer than the floor.  A row of zeros gives zeros.
    """
    require(len(axes) == 1, "LpNormalization works along one axis")
    require(floor <= MAX_FLOOR, f"the floor is {floor:g}: LpNormalization has none")
    return g.lp_normalization(x, axis=axes[0], p=2)


@l2_norm.on("decomposed")
def _(g: Graph, x: Tensor, axis: int) -> Tensor:
    wide = half_to_float32(g, x)
    unit = g.div(wide, g.sqrt(g.reduce_sum(g.mul(wide, wide), axes=[axis], keepdims=1)))
    return g.cast(unit, to=x.dtype) if wide is not x else unit
