"""Products with weights of a few bits in blocks: as ONNX writes them, for targets without ONNX Runtime's MatMulNBits.

Of column n and block k the weights are (number − zero point) · scale; numbers and zero points lie in bytes, the lowest
bits first, and where no zero point is given it is the middle (MatMulNBits in ONNX Runtime's ContribOperators.md).
"""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from ._blocked_weights import floats

BITS = (4, 8)


class Packed(Captures):
    """What is multiplied, the packed weights, their scales and zero points, and how they lie."""

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
        """How many blocks there are of each column, the last of them perhaps not full."""
        return -(-self.inner // self.block)

    def numbers(self) -> np.ndarray[Any, Any]:
        """The numbers less their zero points: [outer, inner]."""
        require(self.bits in BITS, f"its weights have {self.bits} bits")
        held = unpacked(self.weight.values.reshape(self.outer, self.blocks, -1), self.bits)
        middle = np.repeat(self.zeros(), self.block, axis=1)[:, : self.inner]
        found: np.ndarray[Any, Any] = held.reshape(self.outer, -1)[:, : self.inner].astype(np.int16) - middle
        return found

    def zeros(self) -> np.ndarray[Any, Any]:
        """The zero points: [outer, blocks]."""
        if self.zero is None:
            return np.full((self.outer, self.blocks), 2 ** (self.bits - 1), np.int16)
        require(self.zero.dtype == np.uint8, "its zero points are no integers")
        return unpacked(self.zero.values.reshape(self.outer, -1), self.bits)[:, : self.blocks].astype(np.int16)


def unpacked(held: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """The numbers of a few bits in bytes, along the last axis."""
    parts = [(held >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*held.shape[:-1], -1)


def packed(g: Graph, m: Packed) -> Tensor:
    """MatMulNBits."""
    inputs = m.x, m.weight, m.scale, m.zero, m.groups, m.bias
    return g.ms_matmul_nbits(*inputs, K=m.inner, N=m.outer, bits=m.bits, block_size=m.block, **m.attributes)


@rule(patterns=[packed], target="any", lacking=True, opset=13)
def matmul_nbits(g: Graph, m: Packed) -> Tensor:
    """Write a MatMulNBits as a DequantizeLinear in blocks, and a MatMul.

    What: weights that stay in four bits where they fit int4 once the zero point is taken off (all that are quantised
    around the middle), and in eight elsewhere; without a zero point, as TensorRT has it.  Before opset 21 they
    are a product with the scale of each block.
    Numerics: rounding only; the weights are the same numbers.
    """
    require(m.groups is None, "its rows are in groups of an order of their own")
    require(not m.attributes.get("weight_prepacked"), "its weights lie as one kernel wants them")
    numbers = np.ascontiguousarray(m.numbers().T)
    scales = m.scale.values.reshape(m.outer, m.blocks).T
    made = g.matmul(m.x, floats(g, numbers, scales, m.block, axis=0))
    return made if m.bias is None else g.add(made, m.bias)
