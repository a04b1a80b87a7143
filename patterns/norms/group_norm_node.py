"""Group normalisation as the op of ONNX Runtime, for targets that do not have it."""

from surgeon import Captures, Graph, Tensor, require, rule
from .._common.floats import half_to_float32


class GroupNormNode(Captures):
    """The inputs and attributes of one node. activation: 1 for a SiLU after it."""

    x: Tensor
    scale: Tensor
    bias: Tensor
    groups: int
    epsilon: float
    activation: int
    channels_last: int


def node(g: Graph, m: GroupNormNode) -> Tensor:
    """com.microsoft::GroupNorm."""
    return g.ms_group_norm(
        *(m.x, m.scale, m.bias),
        groups=m.groups,
        epsilon=m.epsilon,
        activation=m.activation,
        channels_last=m.channels_last,
    )


@rule(patterns=[node], target="any", lacking=True, last=True)
def group_norm_node(g: Graph, m: GroupNormNode) -> Tensor:
    """Write com.microsoft::GroupNorm as Reshape, the moments of each group, Reshape, Mul and Add, and a SiLU.

    What: the node that group_norm and group_norm_silu write for GPUs, if the target cannot run it.  Channels may be
    last.
    Numerics: rounding only.  Half precision is computed in float32.
    """
    require(m.x.rank == 4 and m.x.dtype is not None, "the rank or the dtype of the input is unknown")
    require(m.activation in (0, 1), "expected activation 0 or 1")
    x = g.transpose(m.x, perm=[0, 3, 1, 2]) if m.channels_last else m.x
    groups = g.reshape(half_to_float32(g, x), [0, m.groups, -1])
    centred = g.centred(groups, (-1,))
    normal = g.over_root(centred, g.add(g.mean_last(g.square(centred)), m.epsilon))
    scale, bias = (g.reshape(vector, [-1, 1, 1]) for vector in (m.scale, m.bias))
    made = g.add(g.mul(g.reshape(normal, g.shape(x)), scale), bias)
    made = g.in_dtype(g.mul(made, g.sigmoid(made)) if m.activation else made, m.x.dtype)
    return g.transpose(made, perm=[0, 2, 3, 1]) if m.channels_last else made
