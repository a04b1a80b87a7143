"""Weights in blocks of a few bits that are read by index or dequantised, for targets without such ops."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from ._blocked_weights import Array, floats, in_parts, repeated
from .matmul_nbits import unpacked


class GatheredBlocks(Captures):
    """A table in blocks, the rows that are read, and the layout of the blocks."""

    data: Constant
    ids: Tensor
    scales: Constant
    zeros: Constant | None = None
    bits: int
    block: int
    rows: int
    blocked: int

    def numbers(self) -> tuple[Array, int]:
        """Return the numbers of the table minus their zero points, and the axis of the blocks.

        Numbers of a few bits are packed in bytes along the last axis, lowest bits first, and so are zero points.
        Without zero points, the zero point is the middle of the range (GatherBlockQuantized in ONNX Runtime's
        ContribOperators.md).
        """
        held, axis = self.data.values, self.blocked % self.data.rank
        is_packed = held.dtype == np.uint8
        if is_packed:
            require(axis == held.ndim - 1, "its numbers must be packed along the axis of the blocks")
            held = unpacked(held, self.bits)
        whole = held.astype(np.int16)
        if self.zeros is None:
            return whole - (2 ** (self.bits - 1) if is_packed else 0), axis
        zeros = self.zeros.values
        zeros = (unpacked(zeros, self.bits) if is_packed else zeros).astype(np.int16)
        zeros = zeros.take(np.arange(self.scales.shape[axis]), axis=axis)
        return whole - repeated(zeros, whole.shape[axis], self.block, axis), axis


def gathered(g: Graph, m: GatheredBlocks) -> Tensor:
    """GatherBlockQuantized."""
    return g.ms_gather_block_quantized(
        *(m.data, m.ids, m.scales, m.zeros),
        bits=m.bits,
        block_size=m.block,
        gather_axis=m.rows,
        quantize_axis=m.blocked,
    )


@rule(patterns=[gathered], target="any", lacking=True, opset=13)
def gather_block_quantized(g: Graph, m: GatheredBlocks) -> Tensor:
    """Write a GatherBlockQuantized as a Gather of the dequantised table.

    What: a table of a few bits in blocks, as in the embeddings of language models, if the target does not support this
    op.  Before opset 21 DequantizeLinear has no blocks, so the table is multiplied by the scale of each block.
    Numerics: rounding only.  The numbers of the table stay the same.
    """
    require(m.bits in (4, 8), f"its numbers must have 4 or 8 bits, but have {m.bits}")
    numbers, axis = m.numbers()
    return g.gather(floats(g, numbers, m.scales.values, block=m.block, axis=axis), m.ids, axis=m.rows % m.data.rank)


class Blocked(Captures):
    """The input of a DequantizeLinear in blocks along an axis."""

    x: Constant
    scale: Constant
    zero: Constant | None = None
    axis: int
    block: int
    attributes: dict[str, Any]


def dequantized(g: Graph, m: Blocked) -> Tensor:
    """DequantizeLinear in blocks."""
    return g.dequantize_linear(m.x, m.scale, m.zero, axis=m.axis, block_size=m.block, **m.attributes)


@rule(patterns=[dequantized], target="any", lacking=True, opset=21)
def dequantize_blocks(g: Graph, m: Blocked) -> Tensor:
    """Write a DequantizeLinear of stored weights in blocks as a product of the numbers and the scale of each block.

    What: if the target does not support DequantizeLinear in blocks, with zero points, or of this dtype.
    Numerics: rounding only.  The weights stay the same numbers.
    """
    require(m.block > 0, "it is not quantised in blocks")
    require(m.x.values.dtype.name in KINDS, f"unsupported dtype of the numbers: {m.x.values.dtype.name}")
    axis = m.axis % m.x.rank
    numbers = m.x.values.astype(np.int64 if m.x.values.dtype.itemsize > 2 else np.int32)
    if m.zero is not None:
        numbers = numbers - repeated(m.zero.values.astype(numbers.dtype), numbers.shape[axis], m.block, axis)
    return in_parts(g, numbers, m.scale.values, block=m.block, axis=axis)


KINDS = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
