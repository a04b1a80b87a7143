"""Normalisation to length one: x divided by its Euclidean norm along an axis."""

from surgeon import Graph, Tensor, require, rule
from .._common.axes import has_explicit_axes
from .._common.floats import half_to_float32

DIFFERS = {
    "zeros": "a row of zeros gives zeros, but a division without a floor gives NaN",
    "denormals": "a row shorter than the floor gets length one, but the floor leaves it shorter",
    "extreme": "the squares may overflow if only one of the two forms scales the row first",
    "non_finite": "a row with an infinity gives infinity over infinity, which each runtime computes differently",
}
MAX_FLOOR = 1e-6


def is_expanded_like(spread: Tensor, x: Tensor) -> None:
    """Refuse an Expand to a shape other than the shape of x."""
    require(
        spread.shape is not None and spread.shape == x.shape, "the length must be expanded to the shape of the input"
    )


def floored(g: Graph, x: Tensor, axes: list[int], floor: float) -> Tensor:
    """x / max(‖x‖, floor) as in torch.nn.functional.normalize.  The length may be expanded to the shape of x first."""
    least = g.any_of(g.clip(g.length_over(x, axes), floor), g.max(g.length_over(x, axes), floor))
    spread = g.such_that(g.expand(least, g.any_tensor()), is_expanded_like, x)
    return g.div(x, g.any_of(spread, least))


def plain(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """x / ‖x‖."""
    return g.any_of(g.div(x, g.length_over(x, axes)), g.mul(x, g.rsqrt(g.sum_over(g.square(x), axes))))


def no_bfloat16(x: Tensor) -> None:
    """Refuse bfloat16: no runtime here has LpNormalization for bfloat16, so it cannot be proved."""
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
    """Fuse x divided by its Euclidean length along an axis into one LpNormalization node.

    What: x / ‖x‖ or x / max(‖x‖, floor).  The floor is at most 1e-6.
    Numerics: rounding only for rows that are longer than the floor.  A row of zeros gives zeros.
    """
    require(len(axes) == 1, "LpNormalization supports only one axis")
    require(floor <= MAX_FLOOR, f"the floor is {floor:g}, but LpNormalization has no floor")
    return g.lp_normalization(x, axis=axes[0], p=2)


@l2_norm.on("decomposed")
def _(g: Graph, x: Tensor, axis: int) -> Tensor:
    wide = half_to_float32(g, x)
    unit = g.div(wide, g.sqrt(g.reduce_sum(g.mul(wide, wide), axes=[axis], keepdims=1)))
    return g.cast(unit, to=x.dtype) if wide is not x else unit
