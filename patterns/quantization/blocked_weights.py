"""Weights in blocks of a few bits that are read by index or dequantised, for targets without such ops."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from ._blocked_weights import Array, floats, in_parts, repeated
from .matmul_nbits import unpacked


class GatheredBlocks(Captures):
    """A table in blocks, which of its rows are read, and how the blocks lie."""

    data: Constant
    ids: Tensor
    scales: Constant
    zeros: Constant | None = None
    bits: int
    block: int
    rows: int
    blocked: int

    def numbers(self) -> tuple[Array, int]:
        """The numbers of the table less their zero points, and the axis along which the blocks lie.

        Numbers of a few bits lie in bytes along the last axis, the lowest bits first; around the middle of what they
        can be without zero points, which lie so too (GatherBlockQuantized in ONNX Runtime's ContribOperators.md).
        """
        held, axis = self.data.values, self.blocked % self.data.rank
        is_packed = held.dtype == np.uint8
        if is_packed:
            require(axis == held.ndim - 1, "its numbers are not packed along the axis of the blocks")
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
    """Write a GatherBlockQuantized as a Gather of what a DequantizeLinear makes of the table.

    What: a table of a few bits in blocks, as embeddings of language models are stored, where the target has no such op.
    Before opset 21, which has DequantizeLinear in blocks, it is a product with the scale of each block.
    Numerics: rounding only; the table is the same numbers.
    """
    require(m.bits in (4, 8), f"its numbers have {m.bits} bits")
    numbers, axis = m.numbers()
    return g.gather(floats(g, numbers, m.scales.values, block=m.block, axis=axis), m.ids, axis=m.rows % m.data.rank)


class Blocked(Captures):
    """What is dequantised in blocks along an axis."""

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

    What: where the target has no DequantizeLinear in blocks, or none with zero points or of this dtype.
    Numerics: rounding only; the weights are the same numbers.
    """
    require(m.block > 0, "it is not in blocks")
    require(m.x.values.dtype.name in KINDS, f"its numbers are {m.x.values.dtype.name}")
    axis = m.axis % m.x.rank
    numbers = m.x.values.astype(np.int64 if m.x.values.dtype.itemsize > 2 else np.int32)
    if m.zero is not None:
        numbers = numbers - repeated(m.zero.values.astype(numbers.dtype), numbers.shape[axis], m.block, axis)
    return in_parts(g, numbers, m.scale.values, block=m.block, axis=axis)


KINDS = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
