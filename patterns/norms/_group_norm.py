"""Group normalisation as exporters write it, and as one node: code that its rules share."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require
from ._per_channel import (
    as_channel_vector,
    channel_count,
    has_shape_of,
    normalised,
    require_spatial,
    scaled_and_shifted,
)


class GroupNorm(Captures):
    """The input, a scale and a bias for each channel, and the number of groups in the attribute of a node.

    groups: x after a Reshape into groups, if there is one. axes: the axes of a mean over it.
    """

    x: Tensor
    epsilon: float
    scale: Constant | Any = None
    bias: Constant | Any = None
    groups: Tensor | Any = None
    axes: list[int] | Any = None
    num_groups: int = 0

    @property
    def number(self) -> int:
        """The number of groups.  Refuse a number that is not fixed."""
        if self.groups is None:
            return self.num_groups
        require(isinstance(self.groups.shape[1], int), "the number of groups must be fixed")
        return int(self.groups.shape[1])

    def vectors(self, dtype: str | None = None) -> list[Any]:
        """Return scale and bias as vectors over the channels, in the dtype of x or another dtype."""
        x, given = self.x, (self.scale, self.bias)
        if self.groups is not None:
            return [as_channel_vector(x, item, number, dtype) for item, number in zip(given, (1, 0), strict=True)]
        require(x.dtype is not None, "the dtype of the input is unknown")
        require(
            all(item.shape == (channel_count(x),) for item in given), "scale and bias must be vectors over the channels"
        )
        return [item.values.astype(dtype or x.dtype) for item in given]


def restored(g: Graph, m: GroupNorm, y: Tensor) -> Tensor:
    """y in the shape of x, optionally with a scale and a bias for each channel."""
    whole = g.any_of(g.reshape(y, g.shape(m.x)), g.such_that(g.reshaped(y), has_shape_of, m.x))
    return scaled_and_shifted(g, whole, m.scale, m.bias)


def is_all(constant: Constant, number: float) -> None:
    """Require a scale or bias of the groups that has no effect."""
    require(bool(np.all(constant.values == number)), "the groups must be normalised with scale one and bias zero")


def instance_norm_form(g: Graph, m: GroupNorm) -> Tensor:
    """Reshape, InstanceNormalization, Reshape, Mul and Add, as both exporters of torch write it."""
    m.groups = g.reshaped(m.x)
    one, zero = (g.such_that(g.any_tensor(), is_all, number) for number in (1.0, 0.0))
    return restored(g, m, g.instance_normalization(m.groups, one, zero, epsilon=m.epsilon))


def mean_variance_form(g: Graph, m: GroupNorm) -> Tensor:
    """Reshape, (x − mean) / √(variance + ε) over each group, Reshape, Mul and Add."""
    m.groups = g.reshaped(m.x)
    return restored(g, m, normalised(g, m.groups, m.axes, m.epsilon))


def onnx_group_norm(g: Graph, m: GroupNorm) -> Tensor:
    """GroupNormalization, which has one scale and one bias for each channel from opset 21 on."""
    return g.group_normalization(m.x, m.scale, m.bias, num_groups=m.num_groups, epsilon=m.epsilon)


def ort_group_norm(g: Graph, m: GroupNorm) -> Tensor:
    """com.microsoft::GroupNorm between two Transposes, because it requires channels last."""
    return ort_group_norm_nhwc(g, m.x, m.scale, bias=m.bias, groups=m.num_groups, epsilon=m.epsilon, act=0)


def ort_group_norm_nhwc(g: Graph, x: Tensor, scale: Any, bias: Any, groups: int, epsilon: float, act: int) -> Tensor:
    """The same with or without an activation. act: 1 for a SiLU."""
    last = g.transpose(x, perm=[0, 2, 3, 1])
    normal = g.ms_group_norm(last, scale, bias, groups=groups, epsilon=epsilon, activation=act, channels_last=1)
    return g.transpose(normal, perm=[0, 3, 1, 2])


def emit_ort_group_norm(g: Graph, m: GroupNorm, act: int = 0) -> Tensor:
    """The same for three axes too.  Refuse inputs that the CUDA kernel does not support."""
    x, groups = m.x, m.number
    scale, bias = m.vectors("float32")
    require(x.rank in (3, 4), "com.microsoft::GroupNorm needs four axes, or three and an inserted one")
    size = channel_count(x) // groups
    fits = size % 2 == 0 and size <= 512
    require(fits, "the kernel of ONNX Runtime needs an even number of channels in a group, at most 512")
    if x.rank == 4:
        return ort_group_norm_nhwc(g, x, scale, bias=bias, groups=groups, epsilon=m.epsilon, act=act)
    return g.squeeze(
        ort_group_norm_nhwc(g, g.unsqueeze(x, [2]), scale, bias=bias, groups=groups, epsilon=m.epsilon, act=act), [2]
    )


def is_valid_grouping(m: GroupNorm) -> None:
    """Require that the first Reshape makes groups of channels, and that each group is normalised separately."""
    require(m.groups is not None or m.num_groups > 0, "there must be groups")
    if m.groups is None:
        return
    require_spatial(m.groups, m.axes)
    is_batch = m.x.shape is not None and m.groups.shape[0] == m.x.shape[0]
    require(is_batch, "the first axis of the groups must be the batch axis of the input")
    require(
        m.number > 0 and channel_count(m.x) % m.number == 0, "the number of groups must divide the number of channels"
    )
