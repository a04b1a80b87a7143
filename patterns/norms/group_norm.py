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

    What: (x − mean) / √(variance + ε) with the mean and variance of each group of channels, then · scale + bias for
    each channel.  The standard node needs opset 21, because earlier versions have one scale for each group.  For ONNX
    Runtime the rule writes com.microsoft::GroupNorm, which needs channels last, an even number of channels in a group,
    and a GPU.  On a CPU neither node has a kernel.  ONNX Runtime replaces GroupNormalization by its function body
    there, which is slower than the original nodes and loses digits.  So the rule writes nothing for a CPU.
    Numerics: rounding only.  Half precision is computed in float32.  The CUDA kernel of ONNX Runtime computes the
    variance as mean(x²) − mean(x)², so it loses digits if the mean of a group is large compared with its deviation.
    TensorRT: the node is one normalization layer.  The release notes (8.6) recommend it for mixed precision.
    """
    return g.group_normalization(m.x, *m.vectors(), num_groups=m.number, epsilon=m.epsilon)


@group_norm.on("ort", patterns=[ort_group_norm])
def _(g: Graph, m: GroupNorm) -> Tensor:
    return emit_ort_group_norm(g, m)


@group_norm.on("decomposed")
def decomposed(g: Graph, m: GroupNorm, act: int = 0) -> Tensor:
    """Reshape, the moments of each group, Reshape, Mul and Add.  Half precision is computed entirely in float32."""
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
