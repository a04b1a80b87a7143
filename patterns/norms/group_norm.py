"""Group normalisation (Wu and He, arXiv:1803.08494)."""

from math import prod

from surgeon import Graph, Tensor, require, rule
from .._common.axes import has_explicit_axes
from .._common.floats import half_to_float32
from ._group_norm import (
    GroupNorm,
    emit_ort_group_norm,
    instance_norm_form,
    is_valid_grouping,
    mean_variance_form,
    onnx_group_norm,
    ort_group_norm,
)


@rule(
    patterns=[instance_norm_form, mean_variance_form],
    conditions=[has_explicit_axes, is_valid_grouping],
    target="onnx",
    opset=21,
    form_patterns=[onnx_group_norm],
)
def group_norm(g: Graph, m: GroupNorm) -> Tensor:
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
    return g.group_normalization(m.x, *m.vectors(), num_groups=m.number, epsilon=m.epsilon)


@group_norm.on("ort", patterns=[ort_group_norm])
def _(g: Graph, m: GroupNorm) -> Tensor:
    return emit_ort_group_norm(g, m)


@group_norm.on("decomposed")
def decomposed(g: Graph, m: GroupNorm, act: int = 0) -> Tensor:
    """Reshape, the moments of each group, Reshape, Mul and Add; all of half precision in float32."""
    x, sizes = m.x, m.x.shape
    require(x.rank is not None and x.dtype is not None, "the rank or the dtype of the input is unknown")
    size = prod(sizes[1:]) // m.number if all(isinstance(item, int) for item in sizes[1:]) else -1
    groups = g.reshape(x, [0, m.number, size])
    wide = half_to_float32(g, groups)
    centred = g.centred(wide, (-1,))
    normal = g.over_root(centred, g.add(g.mean_last(g.square(centred)), m.epsilon))
    shape, dtype = (-1, *[1] * (x.rank - 2)), x.dtype if wide is groups else "float32"
    scales, biases = (item.reshape(shape) for item in m.vectors(dtype))
    whole: Tensor = g.add(g.mul(g.reshape(normal, g.shape(x)), scales), biases)
    whole = g.mul(whole, g.sigmoid(whole)) if act else whole
    return whole if wide is groups else g.cast(whole, to=x.dtype)
