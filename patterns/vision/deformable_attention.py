"""Attention to a few positions of each level (Zhu et al., "Deformable DETR", arXiv:2010.04159)."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule

DIFFERS = {"non_finite": "for a NaN position each kernel gives other numbers"}
VERSION: dict[str, Any] = {"plugin_version": "2", "plugin_namespace": ""}  # version 2 is in TensorRT 10.11 and newer


class Places(Captures):
    """The values of all levels, the size and start of each level, and the positions and weights for each query."""

    value: Tensor
    sizes: Tensor
    starts: Tensor
    places: Tensor
    weights: Tensor
    settings: dict[str, Any]

    def levels(self) -> list[tuple[int, int, int]]:
        """The height, width and start of each level."""
        require(self.sizes.is_constant and self.starts.is_constant, "the sizes of the levels must be constant")
        sizes, starts = self.sizes.values.reshape(-1, 2).tolist(), self.starts.values.reshape(-1).tolist()
        return [(int(tall), int(wide), int(start)) for (tall, wide), start in zip(sizes, starts, strict=True)]

    def numbers(self) -> tuple[int, int, int, int]:
        """The number of heads, their size, the number of queries, and the number of positions in each level."""
        require(self.value.rank == 4 and self.places.rank == 6, "the ranks of the values and the positions are unknown")
        found = (*self.value.shape[2:], self.places.shape[1], self.places.shape[4])
        require(
            all(isinstance(size, int) for size in found), "the numbers of heads, queries and positions must be fixed"
        )
        return found


def placeholder(g: Graph, m: Places) -> Tensor:
    """The node that mmdeploy writes for mmcv."""
    tensors = m.value, m.sizes, m.starts, m.places, m.weights
    made: Tensor = g.op("*::MMCVMultiScaleDeformableAttention", *tensors, **m.settings)
    return made


@rule(patterns=[placeholder], target={"onnx": 16}, differs=DIFFERS)
def deformable_attention(g: Graph, m: Places) -> Tensor:
    """Write deformable attention that was exported as a placeholder with GridSample, or as a TensorRT plugin.

    What: for each query and head, the weighted sum of the values at its positions in each level, with bilinear
    interpolation.  The sizes of the levels must be constant.  For ONNX, the rule writes one GridSample for each level,
    which needs fixed numbers of queries, heads and positions.
    Numerics: rounding only.  Positions are scaled to -1 to 1 and back.
    TensorRT: the plugin MultiscaleDeformableAttnPlugin_TRT (version 2 needs TensorRT 10.11).  TensorRT-RTX does not
    have it.  For TensorRT-RTX, apply the rule with target onnx first.
    """
    heads, width, queries, count = m.numbers()
    rows = g.transpose(m.value, perm=[0, 2, 3, 1])
    grid = g.sub(g.mul(m.places, 2.0), 1.0)
    taken = []
    for number, (tall, wide, start) in enumerate(m.levels()):
        level = g.reshape(g.slice(rows, [start], [start + tall * wide], [3]), [-1, width, tall, wide])
        own = g.transpose(g.gather(grid, np.array(number), axis=3), perm=[0, 2, 1, 3, 4])
        at = g.reshape(own, [-1, queries, count, 2])
        taken.append(g.grid_sample(level, at, mode="bilinear" if g.opset < 20 else "linear", align_corners=0))
    by = g.reshape(g.transpose(m.weights, perm=[0, 2, 1, 3, 4]), [-1, 1, queries, count * len(taken)])
    summed = g.reduce_sum(g.mul(g.concat(*taken, axis=3) if len(taken) > 1 else taken[0], by), [3], keepdims=0)
    return g.transpose(g.reshape(summed, [-1, heads * width, queries]), perm=[0, 2, 1])


@deformable_attention.on("tensorrt")
def _(g: Graph, m: Places) -> Tensor:
    m.levels()
    sizes, starts = (g.literal(one.values.astype(np.int32)) for one in (m.sizes, m.starts))
    name = "trt.plugins::MultiscaleDeformableAttnPlugin_TRT"
    made = g.op(name, m.value, sizes, starts, m.places, m.weights, **VERSION)
    require(
        m.value.rank == 4 and all(isinstance(size, int) for size in m.value.shape[2:]),
        "the number or the size of the heads is unknown",
    )
    return g.reshape(made, [0, 0, m.value.shape[2] * m.value.shape[3]])
