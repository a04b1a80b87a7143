"""What the rules of group normalisation have in common: how exporters write one, and how ONNX Runtime's node wants it."""

import numpy as np

from patterns._moments import channels, normalised, per_channel, require_spatial, reshaped, scaled_and_shifted
from surgeon import Constant, Graph, Tensor, require

MOST_IN_A_GROUP = 512  # channels in a group that ONNX Runtime's kernel for CUDA takes


def in_groups(g: Graph, x: Tensor) -> Tensor:
    """x with the groups as second axis, and what belongs to one in the axes behind it."""
    return g.capture("groups", reshaped(g, x))


def restored(g: Graph, x: Tensor, y: Tensor, scale: Constant, bias: Constant) -> Tensor:
    """y in the shape of x, perhaps with a scale and a bias for each channel."""
    whole = g.any_of(g.reshape(y, g.shape(x)), g.such_that(reshaped(g, y), has_shape_of, x))
    return scaled_and_shifted(g, whole, scale, bias)


def has_shape_of(y: Tensor, x: Tensor) -> None:
    """What leaves the groups is what went in."""
    require(x.shape is not None and None not in x.shape, "the shape of the input is unknown")
    require(y.shape == x.shape, "the result must have the shape of the input")


def is_all(constant: Constant, number: float) -> None:
    """A scale or bias of the groups does nothing."""
    require(bool(np.all(constant.values == number)), "the groups must be normalised with scale one and bias zero")


def by_instances(
    g: Graph, x: Tensor, scale: Constant, bias: Constant, ones: Constant, zeros: Constant, epsilon: float
) -> Tensor:
    """Reshape, InstanceNormalization, Reshape, Mul and Add, as both exporters of torch write it."""
    ones, zeros = g.such_that(ones, is_all, 1.0), g.such_that(zeros, is_all, 0.0)
    return restored(g, x, g.instance_normalization(in_groups(g, x), ones, zeros, epsilon=epsilon), scale, bias)


def by_moments(g: Graph, x: Tensor, scale: Constant, bias: Constant, axes: list[int], epsilon: float) -> Tensor:
    """Reshape, (x − mean) / √(variance + ε) over each group, Reshape, Mul and Add."""
    return restored(g, x, normalised(g, in_groups(g, x), axes, epsilon), scale, bias)


def standard_node(g: Graph, x: Tensor, scale: Constant, bias: Constant, num_groups: int, epsilon: float) -> Tensor:
    """GroupNormalization, which has one scale and bias for each channel from opset 21 on."""
    return g.group_normalization(x, scale, bias, num_groups=num_groups, epsilon=epsilon)


def node_of_ort(
    g: Graph, x: Tensor, scale: Constant, bias: Constant, num_groups: int, epsilon: float, activation: int = 0
) -> Tensor:
    """com.microsoft::GroupNorm between two Transposes, as it wants channels last."""
    last = g.transpose(x, perm=[0, 2, 3, 1])
    normal = g.ms_group_norm(
        last, scale, bias, groups=num_groups, epsilon=epsilon, activation=activation, channels_last=1
    )
    return g.transpose(normal, perm=[0, 3, 1, 2])


def written_for_ort(
    g: Graph, x: Tensor, scale: np.ndarray, bias: np.ndarray, number: int, epsilon: float, activation: int = 0
) -> Tensor:
    """The same for three axes too.  Refuses what ONNX Runtime's kernel for CUDA does not take."""
    require(x.rank in (3, 4), "com.microsoft::GroupNorm wants four axes, or three and one more")
    size = channels(x) // number
    require(size % 2 == 0, "ONNX Runtime's kernel wants an even number of channels in a group")
    require(size <= MOST_IN_A_GROUP, f"ONNX Runtime's kernel takes up to {MOST_IN_A_GROUP} channels in a group")
    if x.rank == 4:
        return node_of_ort(g, x, scale, bias, number, epsilon, activation)
    return g.squeeze(node_of_ort(g, g.unsqueeze(x, [2]), scale, bias, number, epsilon, activation), [2])


def are_groups(x: Tensor, groups: Tensor | None = None, axes: list[int] | None = None) -> None:
    """The first Reshape makes groups of channels, and each is normalised by itself."""
    if groups is None:
        return
    require_spatial(groups, axes)
    require(x.shape is not None, "the shape of the input is unknown")
    require(groups.shape[0] == x.shape[0] is not None, "the first axis must be the batch, in groups as in the input")
    count, number = groups.shape[1], channels(x)
    is_whole = isinstance(count, int) and count > 0 and number % count == 0
    require(is_whole, "the number of groups must be fixed and divide the channels")


def vectors(
    x: Tensor, groups: Tensor | None, scale: Constant | None, bias: Constant | None, dtype: str | None = None
) -> list[np.ndarray]:
    """Scale and bias as vectors over the channels, as one node has them already."""
    if groups is not None:
        return [per_channel(x, scale, 1, dtype), per_channel(x, bias, 0, dtype)]
    require(x.dtype is not None, "the dtype of the input is unknown")
    for item in (scale, bias):
        require(item.shape == (channels(x),), "scale and bias must be vectors over the channels")
    return [item.values.astype(dtype or x.dtype) for item in (scale, bias)]
