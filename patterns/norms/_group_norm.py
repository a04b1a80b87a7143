"""Group normalisation as exporters write it, and as one node: what its rules have in common."""

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
    """What is normalised, a scale and a bias for each channel, and the number of groups that a node says.

    groups: x as it is reshaped into groups, where it is.  axes: those of a mean in it.
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
        """How many groups there are.  Refuses a number that is not fixed."""
        if self.groups is None:
            return self.num_groups
        require(isinstance(self.groups.shape[1], int), "the number of groups must be fixed")
        return int(self.groups.shape[1])

    def vectors(self, dtype: str | None = None) -> list[Any]:
        """Scale and bias as vectors over the channels, as one node has them already; in the dtype of x, or another."""
        x, given = self.x, (self.scale, self.bias)
        if self.groups is not None:
            return [as_channel_vector(x, item, number, dtype) for item, number in zip(given, (1, 0), strict=True)]
        require(x.dtype is not None, "the dtype of the input is unknown")
        require(
            all(item.shape == (channel_count(x),) for item in given), "scale and bias must be vectors over the channels"
        )
        return [item.values.astype(dtype or x.dtype) for item in given]


def restored(g: Graph, m: GroupNorm, y: Tensor) -> Tensor:
    """y in the shape of x, perhaps with a scale and a bias for each channel."""
    whole = g.any_of(g.reshape(y, g.shape(m.x)), g.such_that(g.reshaped(y), has_shape_of, m.x))
    return scaled_and_shifted(g, whole, m.scale, m.bias)


def is_all(constant: Constant, number: float) -> None:
    """A scale or bias of the groups does nothing."""
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
    """GroupNormalization, which has one scale and bias for each channel from opset 21 on."""
    return g.group_normalization(m.x, m.scale, m.bias, num_groups=m.num_groups, epsilon=m.epsilon)


def ort_group_norm(g: Graph, m: GroupNorm) -> Tensor:
    """com.microsoft::GroupNorm between two Transposes, as it wants channels last."""
    return ort_group_norm_nhwc(g, m.x, m.scale, bias=m.bias, groups=m.num_groups, epsilon=m.epsilon, act=0)


def ort_group_norm_nhwc(g: Graph, x: Tensor, scale: Any, bias: Any, groups: int, epsilon: float, act: int) -> Tensor:
    """The same with an activation or none.  act: 1 for a SiLU."""
    last = g.transpose(x, perm=[0, 2, 3, 1])
    normal = g.ms_group_norm(last, scale, bias, groups=groups, epsilon=epsilon, activation=act, channels_last=1)
    return g.transpose(normal, perm=[0, 3, 1, 2])


def emit_ort_group_norm(g: Graph, m: GroupNorm, act: int = 0) -> Tensor:
    """The same for three axes too.  Refuses what the kernel for CUDA does not take."""
    x, groups = m.x, m.number
    scale, bias = m.vectors("float32")
    require(x.rank in (3, 4), "com.microsoft::GroupNorm wants four axes, or three and one more")
    size = channel_count(x) // groups
    fits = size % 2 == 0 and size <= 512
    require(fits, "ONNX Runtime's kernel wants an even number of channels in a group, at most 512")
    if x.rank == 4:
        return ort_group_norm_nhwc(g, x, scale, bias=bias, groups=groups, epsilon=m.epsilon, act=act)
    return g.squeeze(
        ort_group_norm_nhwc(g, g.unsqueeze(x, [2]), scale, bias=bias, groups=groups, epsilon=m.epsilon, act=act), [2]
    )


def is_valid_grouping(m: GroupNorm) -> None:
    """The first Reshape makes groups of channels, and each is normalised by itself."""
    require(m.groups is not None or m.num_groups > 0, "there must be groups")
    if m.groups is None:
        return
    require_spatial(m.groups, m.axes)
    is_batch = m.x.shape is not None and m.groups.shape[0] == m.x.shape[0]
    require(is_batch, "the first axis must be the batch, in groups as in the input")
    require(m.number > 0 and channel_count(m.x) % m.number == 0, "the groups must divide the channels")
