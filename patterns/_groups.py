"""Group normalisation as exporters write it, and as one node: what its rules have in common."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require
from ._moments import channels, has_shape_of, normalised, per_channel, require_spatial, scaled_and_shifted


def restored(g: Graph, x: Tensor, y: Tensor, scale: Constant, bias: Constant) -> Tensor:
    """y in the shape of x, perhaps with a scale and a bias for each channel."""
    whole = g.any_of(g.reshape(y, g.shape(x)), g.such_that(g.reshaped(y), has_shape_of, x))
    return scaled_and_shifted(g, whole, scale, bias)


def is_all(constant: Constant, number: float) -> None:
    """A scale or bias of the groups does nothing."""
    require(bool(np.all(constant.values == number)), "the groups must be normalised with scale one and bias zero")


def by_instances(
    g: Graph, x: Tensor, scale: Constant, bias: Constant, ones: Constant, zeros: Constant, epsilon: float
) -> Tensor:
    """Reshape, InstanceNormalization, Reshape, Mul and Add, as both exporters of torch write it."""
    groups = g.capture("groups", g.reshaped(x))
    one, zero = g.such_that(ones, is_all, 1.0), g.such_that(zeros, is_all, 0.0)
    return restored(g, x, g.instance_normalization(groups, one, zero, epsilon=epsilon), scale, bias)


def by_moments(g: Graph, x: Tensor, scale: Constant, bias: Constant, axes: list[int], epsilon: float) -> Tensor:
    """Reshape, (x − mean) / √(variance + ε) over each group, Reshape, Mul and Add."""
    return restored(g, x, normalised(g, g.capture("groups", g.reshaped(x)), axes, epsilon), scale, bias)


def standard_node(g: Graph, x: Tensor, scale: Constant, bias: Constant, num_groups: int, epsilon: float) -> Tensor:
    """GroupNormalization, which has one scale and bias for each channel from opset 21 on."""
    return g.group_normalization(x, scale, bias, num_groups=num_groups, epsilon=epsilon)


def node_of_ort(g: Graph, x: Tensor, scale: Constant, bias: Constant, num_groups: int, epsilon: float) -> Tensor:
    """com.microsoft::GroupNorm between two Transposes, as it wants channels last."""
    return channels_last(g, x, scale, bias, num_groups, epsilon, 0)


def channels_last(g: Graph, x: Tensor, scale: Any, bias: Any, groups: int, epsilon: float, act: int) -> Tensor:
    """The same with an activation or none.  act: 1 for a SiLU."""
    last = g.transpose(x, perm=[0, 2, 3, 1])
    normal = g.ms_group_norm(last, scale, bias, groups=groups, epsilon=epsilon, activation=act, channels_last=1)
    return g.transpose(normal, perm=[0, 3, 1, 2])


def written_for_ort(g: Graph, x: Tensor, factors: Sequence[Any], groups: int, epsilon: float, act: int = 0) -> Tensor:
    """The same for three axes too.  factors: scale and bias.  Refuses what the kernel for CUDA does not take."""
    require(x.rank in (3, 4), "com.microsoft::GroupNorm wants four axes, or three and one more")
    size = channels(x) // groups
    fits = size % 2 == 0 and size <= 512
    require(fits, "ONNX Runtime's kernel wants an even number of channels in a group, at most 512")
    scale, bias = factors
    if x.rank == 4:
        return channels_last(g, x, scale, bias, groups, epsilon, act)
    return g.squeeze(channels_last(g, g.unsqueeze(x, [2]), scale, bias, groups, epsilon, act), [2])


def are_groups(x: Tensor, groups: Tensor | None = None, axes: list[int] | None = None, num_groups: int = 1) -> None:
    """The first Reshape makes groups of channels, and each is normalised by itself."""
    require(num_groups > 0, "there must be groups")
    if groups is None:
        return
    require_spatial(groups, axes)
    is_batch = x.shape is not None and groups.shape[0] == x.shape[0]
    require(is_batch, "the first axis must be the batch, in groups as in the input")
    require(number_of(groups) > 0 and channels(x) % number_of(groups) == 0, "the groups must divide the channels")


def number_of(groups: Tensor) -> int:
    """How many groups there are.  Refuses a number that is not fixed."""
    require(isinstance(groups.shape[1], int), "the number of groups must be fixed")
    return int(groups.shape[1])


def vectors(
    x: Tensor, groups: Tensor | None, scale: Constant | None, bias: Constant | None, dtype: str | None = None
) -> list[Any]:
    """Scale and bias as vectors over the channels, as one node has them already."""
    if groups is not None:
        return [per_channel(x, scale, 1, dtype), per_channel(x, bias, 0, dtype)]
    require(x.dtype is not None, "the dtype of the input is unknown")
    found = [item for item in (scale, bias) if item is not None]
    require(all(item.shape == (channels(x),) for item in found), "scale and bias must be vectors over the channels")
    return [item.values.astype(dtype or x.dtype) for item in found]
