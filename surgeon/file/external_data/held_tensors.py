"""Tensors that stay with the objects that hold them: read there, and written to a data file only when one is needed.

In a model they are external data in a file that does not exist, `LOCATION`.  Each tensor has its range in that file, so
equal ranges are equal data.  The file is written once, to a temporary folder, when something runs the model.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

from surgeon.errors import ModelFileError
from surgeon.file.io.file_copy import copy_data, open_read, write_at
from surgeon.file.io.memory_map import close_map, map_open, span_of
from surgeon.file.protobuf.byte_edits import FileSpan
from surgeon.file.tensors.decoding import Array, decode_raw, dtype_of, encode, raw_size

LOCATION = "surgeon.memory"
_STEP = 4096  # alignment, for mapping
_CHUNK = 1 << 22  # bytes that are written at once; zeros are left as holes


@dataclass(eq=False, slots=True)
class HeldTensor:
    """The data of one tensor."""

    owner: Any
    """The object that holds them."""
    start: int
    """Their first byte in the data file."""
    size: int
    """Number of bytes."""
    load: Callable[[], Array]
    """Returns them as an array, which is kept as long as the model is open."""
    file: tuple[Path, int] | None
    """A file that has them, and their first byte there."""
    array: Array | None = None
    """The array, once it is loaded."""


class HeldTensors:
    """The held tensors of one model.

    size    bytes of their data file
    origin  the model as its kind exported it
    """

    def __init__(self) -> None:
        self.size = 0
        self.origin: onnx.ModelProto | None = None
        self._parts: dict[int, HeldTensor] = {}
        self._known: dict[int, HeldTensor] = {}  # by id() of the owner, which the part keeps alive
        self._maps: dict[Path, Any] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._written: dict[Path, int] = {}  # sizes of data files
        self._number = 0
        self._bytes: tuple[HeldTensor | None, np.ndarray[Any, np.dtype[np.uint8]]] = (None, np.empty(0, np.uint8))

    def refer(
        self,
        tensor: onnx.TensorProto,
        owner: object,
        load: Callable[[], Array],
        file: tuple[Path, int] | None = None,
        location: str = LOCATION,
    ) -> None:
        """Let a tensor with a dtype and dims refer to the data of an owner, which are added once."""
        part = self._known.get(id(owner))
        if part is None:
            part = HeldTensor(owner, self.size, raw_size(tensor), load, file=file)
            self._known[id(owner)] = self._parts[part.start] = part
            self.size += max(-(-part.size // _STEP), 1) * _STEP
        tensor.data_location = onnx.TensorProto.EXTERNAL
        point_to(tensor, location, part.start, part.size)

    def owner(self, start: int) -> Any:
        """The owner of the data at an offset."""
        return self._parts[start].owner

    def value(self, tensor: onnx.TensorProto, start: int) -> Array:
        """The value of a tensor whose data are at an offset; read-only.  Raises ModelFileError if they do not fit."""
        part = self._parts[start]
        if part.file is not None:
            return decode_raw(tensor, *span_of(self._mapped(part.file), part.file[1], part.file[1] + raw_size(tensor)))
        array, dims, dtype = self._loaded(part), tuple(tensor.dims), dtype_of(tensor.data_type)
        if array.size != np.prod(dims, dtype=int) or array.dtype.itemsize != dtype.itemsize:
            found = f"{array.dtype}{list(array.shape)}"
            raise ModelFileError(f"Tensor {tensor.name!r} is {dtype}{list(dims)}, but has data of {found}. Correct it.")
        view = array.reshape(dims).view(dtype)
        view.flags.writeable = False
        return view

    def read(self, start: int, first: int, size: int) -> bytes:
        """`size` bytes from byte `first` on of the data at an offset."""
        return self._buffer(self._parts[start])[first : first + size].tobytes()

    def span(self, start: int, size: int) -> FileSpan:
        """The data at an offset, to be copied to a file."""
        part = self._parts[start]
        if part.file is not None:
            return FileSpan(*part.file, size)
        return MemorySpan(Path(LOCATION), start, size, held=self)

    def copy(self, start: int, target: int, at: int) -> None:
        """Write the data at an offset to position `at` of an open file, which has a hole or its end there."""
        part = self._parts[start]
        if part.file is None:
            data = self._buffer(part)
            for first in range(0, len(data), _CHUNK):
                chunk = data[first : first + _CHUNK]
                if chunk.any():
                    write_at(target, chunk.data, at + first)
            return
        source = open_read(part.file[0])
        try:
            copy_data(source, part.file[1], part.size, target=target, at=at)
        finally:
            os.close(source)

    def check(self) -> None:
        """Raise ModelFileError if a file with data is missing or too short."""
        sizes: dict[Path, int] = {}
        for part in self._parts.values():
            if part.file is not None:
                path, first = part.file
                if path not in sizes:
                    sizes[path] = path.stat().st_size if path.is_file() else -1
                if sizes[path] < first + part.size:
                    what = "does not exist" if sizes[path] < 0 else f"has {sizes[path]} bytes"
                    name = getattr(part.owner, "name", None)
                    raise ModelFileError(f"{path} with the data of tensor {name!r} {what}. Load the model again.")

    def write_model(self, data: bytes, files: Mapping[str, "HeldTensors"]) -> Path:
        """A model as a file in a temporary folder, with its data files; `close` removes them.

        files: held tensors by location, these included.  Raises ModelFileError if they cannot be written.
        """
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="surgeon-", ignore_cleanup_errors=True)
        folder, self._number = Path(self._folder.name), self._number + 1
        path = folder / f"model{self._number}.onnx"
        try:
            for location, held in files.items():
                held.check()
                held._write(folder / location)
            path.write_bytes(data)
        except OSError as error:
            raise ModelFileError(
                f"The weights cannot be written to {folder} for a runtime: {error.strerror}. Free some space, or set "
                "TMPDIR to another folder."
            ) from error
        return path

    def close(self) -> None:
        """Forget loaded arrays, and remove temporary files; later queries load and write again."""
        for found in self._maps.values():
            close_map(found)
        self._maps, self._written, self._bytes = {}, {}, (None, np.empty(0, np.uint8))
        for part in self._parts.values():
            part.array = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _write(self, path: Path) -> None:
        """Write the data file, or add what is not in it yet, such as converted weights."""
        done = self._written.get(path, 0)
        if done == self.size:
            return
        with open(path, "r+b" if done else "xb") as file:
            for part in self._parts.values():
                if part.start >= done:
                    self.copy(part.start, file.fileno(), part.start)
            os.ftruncate(file.fileno(), self.size)
        self._written[path] = self.size

    def _loaded(self, part: HeldTensor) -> Array:
        if part.array is None:
            try:
                part.array = np.asarray(part.load())
            except Exception as error:
                name = getattr(part.owner, "name", None)
                raise ModelFileError(f"The data of tensor {name!r} cannot be read ({error}). Load it first.") from error
        return part.array

    def _buffer(self, part: HeldTensor) -> "np.ndarray[Any, np.dtype[np.uint8]]":
        """The bytes of a tensor as in raw_data; those of the last one are kept, since they may have been packed."""
        if self._bytes[0] is not part:
            if part.file is not None:
                data = np.frombuffer(self._mapped(part.file), np.uint8, part.size, part.file[1])
            else:
                array = self._loaded(part)
                packed = array.nbytes != part.size  # elements of fewer than 8 bits
                flat = np.frombuffer(encode(array).raw_data, np.uint8) if packed else np.ascontiguousarray(array)
                data = flat.reshape(-1).view(np.uint8)
            self._bytes = part, data
        return self._bytes[1]

    def _mapped(self, file: tuple[Path, int]) -> Any:
        """The map of a file."""
        path = file[0]
        if path not in self._maps:
            try:
                with open(path, "rb") as opened:
                    self._maps[path] = map_open(opened)
            except (OSError, ValueError) as error:
                raise ModelFileError(f"{path} cannot be read: {error}. Load the model again.") from None
        return self._maps[path]


def point_to(tensor: onnx.TensorProto, location: str, start: int, size: int) -> None:
    """Add the entries of a tensor's range of bytes in a data file."""
    for key, value in (("location", location), ("offset", start), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))


@dataclass(frozen=True)
class MemorySpan(FileSpan):
    """The data of a held tensor."""

    held: HeldTensors = field(kw_only=True)
    """The held tensors that it is one of."""


class HeldModel(NamedTuple):
    """A model whose tensors stay with the objects that hold them."""

    proto: onnx.ModelProto
    """The model; held tensors are external data at `LOCATION`."""
    tensors: HeldTensors
    """These tensors."""
