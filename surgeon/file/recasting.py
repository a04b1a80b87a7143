"""Tensor data that turn into another dtype on their way from file to file, block by block."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from surgeon.file.copying import read_at
from surgeon.file.values import Array, dtype_of

CHANGE = "surgeon.change"
"""The key of the entry in a tensor's `external_data` that says by which of a model's recasts its data change."""
Caster = Callable[[Array], Array | None]
"""What has an array in another dtype, or None where it has not."""
_BLOCK = 1 << 18  # elements at a time: what is read stays in the processor's cache until it is converted
_THREADS = 2


@dataclass(slots=True)
class Seen:
    """What a recast has seen of a tensor: its least and largest element that is a number, and whether all were read.

    An element that is not finite counts in neither.
    """

    least: float = 0.0
    most: float = 0.0
    count: int = 0

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.least), abs(self.most))

    def add(self, array: Array) -> None:
        """Take in a block."""
        if array.size:
            least, most = float(array.min()), float(array.max())
            if not (np.isfinite(least) and np.isfinite(most)):
                finite = array[np.isfinite(array)]
                least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
            self.least, self.most = min(self.least, least), max(self.most, most)
            self.count += array.size


@dataclass(frozen=True, slots=True)
class Recast:
    """From one dtype to another.

    name: of the tensor.  saturate: what is finite and too large becomes the largest that there is, not infinity.
    seen: of what was converted.  by: what does it, where it can, for what does not saturate; else numpy does.
    """

    name: str
    old: int
    new: int
    saturate: bool = False
    seen: Seen = field(default_factory=Seen, compare=False)
    by: Caster | None = field(default=None, compare=False)

    def source_size(self, size: int) -> int:
        """How many bytes make so many."""
        return size // dtype_of(self.new).itemsize * dtype_of(self.old).itemsize

    def array(self, array: Array) -> Array:
        """The elements in the new dtype."""
        self.seen.add(array)
        made = None if self.saturate or self.by is None else self.by(array)
        return recast(array, self.new, self.saturate) if made is None else made

    def data(self, data: Any) -> bytes:
        """Raw bytes of the old dtype as those of the new."""
        return self._view(data).tobytes()

    def _view(self, data: Any) -> memoryview:
        """The same, where they lie."""
        made = self.array(np.frombuffer(data, dtype_of(self.old)))
        return np.ascontiguousarray(made).view(np.uint8).data

    def stream(self, source: int, start: int, size: int, write: Callable[[memoryview], None]) -> None:
        """Convert what lies in a file from `start` on into `size` bytes.  EOFError where the file is shorter.

        One block is read and converted while another is written.
        """
        width = dtype_of(self.old).itemsize
        count = size // dtype_of(self.new).itemsize
        blocks = [(start + at * width, min(_BLOCK, count - at) * width) for at in range(0, count, _BLOCK)]
        if len(blocks) < 2:
            for at, length in blocks:
                write(self._converted(source, at, length))
            return
        with ThreadPoolExecutor(_THREADS) as pool:
            for made in _in_turn(pool, self._converted, source, blocks):
                write(made)

    def _converted(self, source: int, at: int, length: int) -> memoryview:
        data = read_at(source, at, length)
        if len(data) < length:
            raise EOFError("the file is shorter than it was")
        return self._view(data)


def _in_turn(
    pool: ThreadPoolExecutor, run: Callable[[int, int, int], memoryview], source: int, blocks: list[tuple[int, int]]
) -> Iterator[memoryview]:
    """What is made of blocks, in order, while no more than two are under way."""
    waiting: list[Future[memoryview]] = []
    for at, length in blocks:
        waiting.append(pool.submit(run, source, at, length))
        if len(waiting) > _THREADS:
            yield waiting.pop(0).result()
    for one in waiting:
        yield one.result()


def recast(array: Array, new: int, saturate: bool = False) -> Array:
    """An array in another dtype, by its `TensorProto.DataType`; what is too large becomes infinite, or saturates."""
    dtype = dtype_of(new)
    if saturate or (dtype.kind == "i" and array.dtype.kind == "i"):  # integers that are too large have no infinity
        bounded = np.clip(array, *limits(new))
        array = np.where(np.isinf(array), array, bounded) if array.dtype.kind not in "iub" else bounded
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)


def limits(dtype: int) -> tuple[float, float]:
    """The least and the largest number of a dtype that is finite."""
    if dtype in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
        info = np.iinfo(dtype_of(dtype))
        return int(info.min), int(info.max)
    import ml_dtypes

    found = ml_dtypes.finfo(dtype_of(dtype))
    return float(found.min), float(found.max)


def smallest(dtype: int) -> float:
    """The least positive number of a float dtype that has all its digits."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype_of(dtype)).smallest_normal)
