"""Casts tensor data to another dtype while they are copied from file to file, block by block."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import onnx

from surgeon.file.io.file_copy import read_in_order, read_into, write_at
from surgeon.file.tensors.decoding import Array, dtype_of

CHANGE = "surgeon.change"
"""The key in a tensor's `external_data` of the number of its conversion among a model's recasts."""
Caster = Callable[[Array, Array], bool]
"""Converts an array into another of its shape and another dtype; returns False if it cannot."""
_BLOCK = 1 << 18  # elements of a block, which fits into the processor's cache


@dataclass(slots=True)
class CastRange:
    """The range of the finite elements that a cast has read."""

    least: float = 0.0
    """Smallest element, at most 0."""
    most: float = 0.0
    """Largest element, at least 0."""
    count: int = 0
    """Number of elements."""

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.least), abs(self.most))

    def add(self, array: Array) -> None:
        """Add a block."""
        if array.size:
            least, most = float(array.min()), float(array.max())
            if not (np.isfinite(least) and np.isfinite(most)):
                finite = array[np.isfinite(array)]
                least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
            self.least, self.most = min(self.least, least), max(self.most, most)
            self.count += array.size

    def add_made(self, array: Array, made: Array) -> None:
        """Add a block by its converted values, if they suffice.

        The bits of floats of one sign are ordered like their magnitudes, and integers are compared much faster.  If a
        value is infinite or NaN, or all are subnormal, the original array is read.
        """
        usual = _USUAL.get(made.dtype.name)
        if usual is None or not made.size:
            self.add(array)
            return
        positive, any_sign = int(made.view(np.int16).max()), int(made.view(np.uint16).max())
        most = max(positive, any_sign & 0x7FFF if any_sign & 0x8000 else 0)
        if not usual[0] <= most < usual[1]:
            self.add(array)
            return
        self.most = max(self.most, float(np.array(most, np.int16).view(made.dtype)))
        self.count += array.size


_USUAL = {"float16": (0x0400, 0x7C00), "bfloat16": (0x0080, 0x7F80)}
"""The bits of the smallest normal number, and of infinity."""


class DataChange(Protocol):
    """A change of a tensor's data while they are copied; hashable, so that shared data are changed once."""

    def stored(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """A copy of a changed tensor with the dtype and the shape of its data before."""
        ...

    def changed_size(self, size: int) -> int:
        """The number of changed bytes for all `size` source bytes."""
        ...

    def source_size(self, size: int) -> int:
        """The number of source bytes for `size` changed bytes."""
        ...

    def array(self, array: Array) -> Array:
        """The changed elements."""
        ...

    def data(self, data: Any) -> bytes:
        """The changed bytes of raw data."""
        ...

    def stream(self, source: int, start: int, size: int, target: int, at: int) -> None:
        """Change data of a file from `start` on to `size` bytes of another, from `at` on; EOFError if too few."""
        ...

    def unseen(self) -> Self:
        """The same without what it has noted of the data."""
        ...


@dataclass(frozen=True, slots=True)
class TensorCast:
    """A cast of one tensor."""

    name: str
    """Name of the tensor."""
    old: int
    """TensorProto.DataType before."""
    new: int
    """TensorProto.DataType after."""
    saturate: bool = False
    """Whether finite values that overflow become the largest finite value instead of infinity."""
    seen: CastRange = field(default_factory=CastRange, compare=False)
    """Range of the converted elements."""
    kernel: Caster | None = field(default=None, compare=False)
    """Faster implementation, used without `saturate`; None: numpy."""

    def stored(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """A copy of a converted tensor with the dtype before."""
        before = onnx.TensorProto()
        before.CopyFrom(tensor)
        before.data_type = self.old
        return before

    def unseen(self) -> "TensorCast":
        """The same with a new range."""
        return replace(self, seen=CastRange())

    def changed_size(self, size: int) -> int:
        """The number of converted bytes for `size` source bytes."""
        return size // dtype_of(self.old).itemsize * dtype_of(self.new).itemsize

    def source_size(self, size: int) -> int:
        """The number of source bytes for `size` converted bytes."""
        return size // dtype_of(self.new).itemsize * dtype_of(self.old).itemsize

    def array(self, array: Array) -> Array:
        """The elements in the new dtype."""
        made = np.empty(array.shape, dtype_of(self.new))
        self._convert(array, made, self.seen)
        return made

    def _convert(self, array: Array, made: Array, seen: CastRange) -> None:
        """Write the converted elements into an array of the new dtype."""
        if self.saturate or self.kernel is None or not self.kernel(array, made):
            made[...] = cast_array(array, self.new, self.saturate)
        if self.saturate:
            seen.add(array)
        else:
            seen.add_made(array, made)

    def data(self, data: Any) -> bytes:
        """Convert raw bytes."""
        return self.array(np.frombuffer(data, dtype_of(self.old))).tobytes()

    def stream(self, source: int, start: int, size: int, target: int, at: int) -> None:
        """Convert data of a file from `start` on to `size` bytes of another, from `at` on.

        EOFError if the file is shorter.  All blocks use the same memory, since new pages take longer than the cast; and
        a single thread, since two wait for each other's reads and writes, which take most of the time.
        """
        old, new = dtype_of(self.old), dtype_of(self.new)
        count = size // new.itemsize
        read_in_order(source, start, count * old.itemsize)
        read, made = np.empty(min(_BLOCK, count), old), np.empty(min(_BLOCK, count), new)
        given, handed_on = _bytes_of(read), _bytes_of(made)
        for first in range(0, count, _BLOCK):
            if count - first < len(read):
                read, made = read[: count - first], made[: count - first]
                given, handed_on = _bytes_of(read), _bytes_of(made)
            read_into(source, start + first * old.itemsize, given)
            self._convert(read, made, self.seen)
            write_at(target, handed_on, at + first * new.itemsize)


def _bytes_of(array: Array) -> memoryview:
    """The bytes of an array, without a copy."""
    return array.view(np.uint8).data


def range_of(array: Array) -> CastRange:
    """The range of an array, computed in blocks, since it may be a view of a file."""
    seen, flat = CastRange(), array.reshape(-1)
    for at in range(0, flat.size, _BLOCK):
        seen.add(flat[at : at + _BLOCK])
    return seen


def cast_array(array: Array, new: int, saturate: bool = False) -> Array:
    """An array in another dtype, given as `TensorProto.DataType`; overflow becomes infinity, or saturates."""
    dtype = dtype_of(new)
    if saturate or (dtype.kind == "i" and array.dtype.kind == "i"):  # integers have no infinity
        bounded = np.clip(array, *finite_limits(new))
        array = np.where(np.isinf(array), array, bounded) if array.dtype.kind not in "iub" else bounded
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)


def finite_limits(dtype: int) -> tuple[float, float]:
    """The smallest and largest finite number of a dtype."""
    if dtype in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
        info = np.iinfo(dtype_of(dtype))
        return int(info.min), int(info.max)
    import ml_dtypes

    found = ml_dtypes.finfo(dtype_of(dtype))
    return float(found.min), float(found.max)


def smallest(dtype: int) -> float:
    """The smallest positive normal number of a dtype; 1 for integers."""
    if dtype in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
        return 1.0
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype_of(dtype)).smallest_normal)
