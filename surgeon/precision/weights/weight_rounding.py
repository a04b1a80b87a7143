"""Rounding of a weight to integers with a scale for each block, while its data are copied from file to file.

A weight is seen as rows of `columns` elements, which are multiplied and summed: `[N, K]` for a product.  Each block of
a row has a scale, and a zero point if the integers are not symmetric.  Layouts: the schemas of `MatMulNBits` and
`GatherBlockQuantized` of ONNX Runtime.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import onnx

from surgeon.file.io.file_copy import read_into, write_at
from surgeon.file.tensors.decoding import Array, dtype_of, raw_size

Part = Literal["codes", "table", "scales", "zeros", "restored"]
"""Integers of a product, or of a lookup in the same bytes; scales; zero points; and floats with the rounded values."""
BLOCKS = 16, 32, 64, 128, 256
"""Sizes of blocks for which ONNX Runtime has kernels."""
ACCURACY_LEVELS = {4: 0, 8: 4}
"""The usual accuracy level by bits: with 0, a CPU restores 8 bits in every run, which takes longer than floats."""
_PANEL = 1 << 21  # elements of a weight that are in memory at once


@dataclass(frozen=True, slots=True)
class BlockRounding:
    """How weights are rounded."""

    bits: int
    """4 or 8."""
    block: int
    """Number of elements with one scale."""
    symmetric: bool
    """Whether the zero point is fixed at half of the range."""
    accuracy_level: int = 0
    """The attribute of products: 4 lets kernels round activations to 8 bits too, which is faster on a CPU."""

    @property
    def scale_parts(self) -> tuple[Part, ...]:
        """The parts besides the integers."""
        return ("scales",) if self.symmetric else ("scales", "zeros")

    def blocks(self, columns: int) -> int:
        """The number of blocks of a row; the last may be padded."""
        return -(-columns // self.block)

    def scales(self, rows: Array) -> tuple[Array, Array, Array]:
        """The elements `[rows, blocks, block]` of rows of a weight, the scales and the zero points `[rows, blocks]`.

        Symmetric: the element with the largest magnitude becomes the lowest integer, which uses the whole range, as
        ONNX Runtime's own quantiser does.  The scales have the dtype of the weight, so they are rounded first.
        """
        count, columns = rows.shape
        blocks, middle, most = self.blocks(columns), 1 << (self.bits - 1), (1 << self.bits) - 1
        values = np.zeros((count, blocks * self.block), np.float32)
        values[:, :columns] = rows
        values = values.reshape(count, blocks, self.block)
        least, largest = values.min(axis=2), values.max(axis=2)
        with np.errstate(invalid="ignore", over="ignore"):
            if self.symmetric:
                scales = np.where(largest > -least, largest, least) / -np.float32(middle)
            else:
                least, largest = np.minimum(least, 0), np.maximum(largest, 0)
                scales = largest / np.float32(most) - least / np.float32(most)
            scales = scales.astype(rows.dtype)
            divisor = np.where(scales == 0, 1, scales).astype(np.float32)
            zeros = np.full_like(least, middle) if self.symmetric else np.clip(np.rint(-least / divisor), 0, most)
            return values, scales, zeros.astype(np.uint8)

    def round(self, values: Array, scales: Array, zeros: Array) -> Array:
        """The integers `[rows, blocks, block]` of elements."""
        divisor = np.where(scales == 0, 1, scales).astype(np.float32)[..., None]
        with np.errstate(invalid="ignore", over="ignore"):
            codes: Array = np.clip(np.rint(values / divisor) + zeros[..., None], 0, (1 << self.bits) - 1)
            return codes.astype(np.uint8)

    def restore(self, codes: Array, scales: Array, zeros: Array, columns: int) -> Array:
        """The rows that the integers represent, in float32."""
        wide = (codes.astype(np.float32) - zeros[..., None].astype(np.float32)) * scales[..., None].astype(np.float32)
        return wide.reshape(len(codes), -1)[:, :columns]

    def pack(self, codes: Array) -> Array:
        """Integers `[rows, n]` in bytes, the first of a byte in its low bits."""
        if self.bits == 8:
            return codes
        if codes.shape[1] % 2:
            codes = np.pad(codes, ((0, 0), (0, 1)))
        return np.asarray(codes[:, ::2] | codes[:, 1::2] << 4)


@dataclass(slots=True)
class WeightLoss:
    """The squared error of a rounded weight."""

    error: float = 0.0
    """Sum of the squared differences."""
    total: float = 0.0
    """Sum of the squared elements."""
    is_known: bool = False
    """Whether the weight was rounded."""

    @property
    def relative(self) -> float | None:
        """The norm of the difference relative to that of the weight; None before the weight was rounded."""
        if not self.is_known:
            return None
        return float(np.sqrt(self.error / self.total)) if self.total else 0.0


@dataclass(frozen=True, slots=True)
class RoundedPart:
    """One of the tensors that a rounded weight consists of, or the weight with the values that they represent."""

    part: Part
    """Which one."""
    rounding: BlockRounding
    """How the weight is rounded."""
    old: int
    """Dtype of the weight, as `TensorProto.DataType`."""
    dims: tuple[int, int]
    """Shape of the stored weight."""
    transposed: bool
    """Whether the stored rows are those of the blocks: `[N, K]`, not `[K, N]`."""
    seen: WeightLoss = field(default_factory=WeightLoss, compare=False)
    """The error, known once the integers are written."""

    @property
    def _sizes(self) -> tuple[int, int]:
        """Rows and columns of the weight as the blocks see it."""
        return self.dims if self.transposed else (self.dims[1], self.dims[0])

    def tensor(self, name: str) -> onnx.TensorProto:
        """Name, dtype and shape of the part as a tensor."""
        (rows, columns), rounding = self._sizes, self.rounding
        blocks, bits = rounding.blocks(columns), rounding.bits
        dims = {
            "codes": (rows, blocks, rounding.block * bits // 8),
            "table": (rows, columns * bits // 8),
            "scales": (rows, blocks),
            "zeros": (rows, (blocks * bits + 7) // 8),
            "restored": self.dims,
        }
        dtype = self.old if self.part in ("scales", "restored") else onnx.TensorProto.UINT8
        return onnx.TensorProto(name=name, data_type=dtype, dims=dims[self.part])

    def stored(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """The tensor of the weight before."""
        before = onnx.TensorProto()
        before.CopyFrom(tensor)
        before.data_type = self.old
        before.dims[:] = self.dims
        return before

    def unseen(self) -> "RoundedPart":
        """The same with a new loss."""
        return replace(self, seen=WeightLoss())

    def changed_size(self, size: int) -> int:
        """The bytes of the part."""
        return raw_size(self.tensor(""))

    def source_size(self, size: int) -> int:
        """The bytes of the weight: each part depends on all of them."""
        return self.dims[0] * self.dims[1] * int(dtype_of(self.old).itemsize)

    def array(self, array: Array) -> Array:
        """The part of a weight, in its shape."""
        made = self.tensor("")
        found = b"".join(part.tobytes() for _, part in self._parts(lambda first, last: array[first, last]))
        return np.frombuffer(found, dtype_of(made.data_type)).reshape(tuple(made.dims))

    def data(self, data: Any) -> bytes:
        """The bytes of the part of a weight's raw data."""
        return self.array(np.frombuffer(data, dtype_of(self.old)).reshape(self.dims)).tobytes()

    def stream(self, source: int, start: int, size: int, target: int, at: int) -> None:
        """Round the weight of a file panel by panel.  EOFError if the file is shorter."""
        dtype = dtype_of(self.old)

        def read(rows: slice, columns: slice) -> Array:
            panel = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype)
            bytes_of = panel.view(np.uint8)
            place, step = start + (rows.start * self.dims[1] + columns.start) * dtype.itemsize, self.dims[1]
            if panel.shape[1] == step:
                read_into(source, place, bytes_of.reshape(-1).data)
                return panel
            for number in range(len(panel)):
                read_into(source, place + number * step * dtype.itemsize, bytes_of[number].data)
            return panel

        for first, part in self._parts(read):
            write_at(target, np.ascontiguousarray(part).reshape(-1).view(np.uint8).data, at + first)

    def _parts(self, read: Any) -> Iterator[tuple[int, Array]]:
        """Pieces of the part in order, each with its first byte.  read: elements of the stored weight by two slices."""
        rows, columns = self._sizes
        if self.part in ("codes", "table"):
            self.seen.error = self.seen.total = 0.0
            self.seen.is_known = True
        across = self.part == "restored" and not self.transposed  # the rows of the file are columns here
        length, other = (columns, rows) if across else (rows, columns)
        step = max(_PANEL // max(other, 1), 1)
        step = -(-step // self.rounding.block) * self.rounding.block
        each = self.changed_size(0) // max(length, 1)
        for first in range(0, length, step):
            some, every = slice(first, min(first + step, length)), slice(0, other)
            panel = read(some, every) if self.transposed or across else read(every, some)
            made = self._rounded(panel if self.transposed else panel.T)
            yield first * each, made.T if across else made

    def _rounded(self, rows: Array) -> Array:
        """The part of some rows."""
        values, scales, zeros = self.rounding.scales(rows)
        if self.part == "scales":
            return scales
        if self.part == "zeros":
            return self.rounding.pack(zeros)
        codes = self.rounding.round(values, scales, zeros)
        if self.part == "restored":
            return self.rounding.restore(codes, scales, zeros, rows.shape[1]).astype(rows.dtype)
        gap = self.rounding.restore(codes, scales, zeros, rows.shape[1]) - rows
        self.seen.error += float(np.square(gap, dtype=np.float64).sum())
        self.seen.total += float(np.square(rows, dtype=np.float64).sum())
        return self.rounding.pack(codes.reshape(len(codes), -1))
