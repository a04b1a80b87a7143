"""Products with weights of a few bits in blocks, written in ONNX ops, for targets without MatMulNBits of ONNX Runtime.

For column n and block k, the weights are (number − zero point) · scale.  Numbers and zero points are packed in bytes,
lowest bits first.  Without a zero point, it is the middle (MatMulNBits in ONNX Runtime's ContribOperators.md).
"""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from ._blocked_weights import floats

BITS = (4, 8)


class Packed(Captures):
    """The left factor, the packed weights, their scales and zero points, and their layout."""

    x: Tensor
    weight: Constant
    scale: Constant
    zero: Constant | Any = None
    groups: Tensor | Any = None
    bias: Tensor | Any = None
    inner: int
    outer: int
    bits: int = 4
    block: int
    attributes: dict[str, Any]

    @property
    def blocks(self) -> int:
        """The number of blocks in each column.  The last block may be incomplete."""
        return -(-self.inner // self.block)

    def numbers(self) -> np.ndarray[Any, Any]:
        """The numbers minus their zero points: [outer, inner]."""
        require(self.bits in BITS, f"its weights must have 4 or 8 bits, but have {self.bits}")
        held = unpacked(self.weight.values.reshape(self.outer, self.blocks, -1), self.bits)
        middle = np.repeat(self.zeros(), self.block, axis=1)[:, : self.inner]
        found: np.ndarray[Any, Any] = held.reshape(self.outer, -1)[:, : self.inner].astype(np.int16) - middle
        return found

    def zeros(self) -> np.ndarray[Any, Any]:
        """The zero points: [outer, blocks]."""
        if self.zero is None:
            return np.full((self.outer, self.blocks), 2 ** (self.bits - 1), np.int16)
        require(self.zero.dtype == np.uint8, "its zero points must be uint8")
        return unpacked(self.zero.values.reshape(self.outer, -1), self.bits)[:, : self.blocks].astype(np.int16)


def unpacked(held: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Unpack numbers of a few bits from bytes, along the last axis."""
    parts = [(held >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*held.shape[:-1], -1)


def packed(g: Graph, m: Packed) -> Tensor:
    """MatMulNBits."""
    inputs = m.x, m.weight, m.scale, m.zero, m.groups, m.bias
    return g.ms_matmul_nbits(*inputs, K=m.inner, N=m.outer, bits=m.bits, block_size=m.block, **m.attributes)


@rule(patterns=[packed], target="any", lacking=True, opset=13)
def matmul_nbits(g: Graph, m: Packed) -> Tensor:
    """Write a MatMulNBits as a DequantizeLinear in blocks, and a MatMul.

    What: weights minus the zero point stay int4 if they fit, as all weights quantised around the middle do.  Otherwise
    they become int8.  The DequantizeLinear has zero point 0, as TensorRT requires.  Before opset 21 the weights are
    multiplied by the scale of each block.
    Numerics: rounding only.  The weights stay the same numbers.
    """
    require(m.groups is None, "its rows are permuted in groups (g_idx)")
    require(not m.attributes.get("weight_prepacked"), "its weights are prepacked for one kernel")
    numbers = np.ascontiguousarray(m.numbers().T)
    scales = m.scale.values.reshape(m.outer, m.blocks).T
    made = g.matmul(m.x, floats(g, numbers, scales, m.block, axis=0))
    return made if m.bias is None else g.add(made, m.bias)
