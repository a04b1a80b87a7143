"""Group normalisation (Wu and He, arXiv:1803.08494)."""

from math import prod

from surgeon import Constant, Graph, Tensor, require, rule
from ._axes import over_named_axes
from ._groups import (
    are_groups,
    by_instances,
    by_moments,
    node_of_ort,
    number_of,
    standard_node,
    vectors,
    written_for_ort,
)
from ._numbers import widened


@rule(
    patterns=[by_instances, by_moments],
    conditions=[over_named_axes, are_groups],
    target="onnx",
    opset=21,
    form_patterns=[standard_node],
)
def group_norm(
    g: Graph,
    x: Tensor,
    epsilon: float,
    scale: Constant | None = None,
    bias: Constant | None = None,
    groups: Tensor | None = None,
    num_groups: int = 0,
) -> Tensor:
    """Fuse a group normalisation into one GroupNormalization node, or com.microsoft::GroupNorm for GPUs.

    What: each group of channels less its mean, over √(its variance + ε), then · scale + bias for each channel.  It
    needs opset 21: before, GroupNormalization had one scale for a group.  For ONNX Runtime it becomes
    com.microsoft::GroupNorm, which wants channels last, an even number of them in a group, and a GPU: on a CPU there is
    no kernel for either node, and the body that stands in for GroupNormalization is slower than what is there and loses
    digits, so nothing is written.
    Numerics: rounding only; half precision is computed in float32.  ONNX Runtime's kernel for CUDA takes the variance
    as mean(x²) − mean(x)², so that it has few digits where the mean of a group is large beside its deviation.
    TensorRT: the node is one normalization layer, which its release notes (8.6) ask for in mixed precision.
    """
    number = num_groups if groups is None else number_of(groups)
    return g.group_normalization(x, *vectors(x, groups, scale, bias), num_groups=number, epsilon=epsilon)


@group_norm.on("ort", patterns=[node_of_ort])
def _(
    g: Graph,
    x: Tensor,
    epsilon: float,
    scale: Constant | None = None,
    bias: Constant | None = None,
    groups: Tensor | None = None,
    num_groups: int = 0,
) -> Tensor:
    number = num_groups if groups is None else number_of(groups)
    return written_for_ort(g, x, vectors(x, groups, scale, bias, "float32"), number, epsilon)


@group_norm.on("decomposed")
def decomposed(
    g: Graph, x: Tensor, scale: Constant, bias: Constant, num_groups: int, epsilon: float, act: int = 0
) -> Tensor:
    """Reshape, the moments of each group, Reshape, Mul and Add; all of half precision in float32."""
    require(x.rank is not None and x.dtype is not None, "the rank or the dtype of the input is unknown")
    sizes = x.shape[1:]
    size = prod(sizes) // num_groups if all(isinstance(item, int) for item in sizes) else -1
    groups = g.reshape(x, [0, num_groups, size])
    wide = widened(g, groups)
    centred = g.centred(wide, (-1,))
    normal = g.over_root(centred, g.add(g.mean_last(g.square(centred)), epsilon))
    shape, dtype = (-1, *[1] * (x.rank - 2)), x.dtype if wide is groups else "float32"
    scales, biases = (item.reshape(shape) for item in vectors(x, None, scale, bias, dtype))
    whole: Tensor = g.add(g.mul(g.reshape(normal, g.shape(x)), scales), biases)
    whole = g.mul(whole, g.sigmoid(whole)) if act else whole
    return whole if wide is groups else g.cast(whole, to=x.dtype)
