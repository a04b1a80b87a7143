"""External data: the files in which a model keeps tensors, and whether they may be trusted.

A location is relative to the folder of the model.  One that is absolute, climbs with `..`, or leaves that folder
through a symbolic link is rejected, as in onnx.  So is a file with hard links, because it may belong elsewhere.  Files
are mapped when a value is read, never earlier; a tensor's checksum is verified then, and before a file is copied.
Format: ExternalData.md of the ONNX repository.

The specification means a checksum of the whole file, some writers give that of the tensor's bytes; either is accepted.
Checksums are computed once for each state of a file, and only if one is given.
"""

import mmap
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PureWindowsPath
from types import MappingProxyType

import onnx

from surgeon.errors import ModelFileError
from surgeon.file.external_data.held_tensors import HeldTensors
from surgeon.file.external_data.on_demand import fetch
from surgeon.file.io.memory_map import State, close_map, map_open, span_of, stamp
from surgeon.file.io.path_encoding import local
from surgeon.file.tensors.decoding import STRING, Array, decode_raw, raw_size

EXTERNAL = onnx.TensorProto.EXTERNAL
_NUMBER = re.compile("[0-9]{1,20}")  # int() also accepts signs, spaces, underscores and other digits
_CHUNK = 1 << 20


def checksum_matches(path: Path, start: int, size: int, checksum: str) -> bool:
    """Whether a checksum matches the bytes `[start, start + size)` of a file, or the whole file.  Raises OSError."""
    state = stamp(path)
    wanted = checksum.strip().lower()
    if (path, state, wanted) in _whole:
        return True
    if _sum_of(path, state, start, size) == wanted:
        return True
    found = _sum_of(path, state, 0, os.path.getsize(path))
    _whole.add((path, state, found))
    return found == wanted


_whole: set[tuple[Path, State | None, str]] = set()  # files that were read completely, with their checksums


@lru_cache(maxsize=1 << 16)
def _sum_of(path: Path, state: State | None, start: int, size: int) -> str:
    """The SHA-1 of some bytes of a file; `state` is part of the cache key."""
    import hashlib  # not at the top: few files have checksums

    found = hashlib.sha1(usedforsecurity=False)
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while size > 0 and (piece := file.read(min(size, _CHUNK))):
            found.update(piece)
            size -= len(piece)
    return found.hexdigest()


@dataclass(frozen=True)
class Extent:
    """The bytes of one tensor in an external data file."""

    location: str
    """Location as in the model."""
    offset: int
    """First byte."""
    size: int
    """Number of bytes."""
    checksum: str = field(default="", compare=False)
    """SHA-1 given by the model; "": none."""


def extent_of(tensor: onnx.TensorProto) -> Extent:
    """The extent of a tensor with external data; an absent length follows from shape and dtype, an absent offset is 0.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if not location:
        raise ModelFileError(f"Tensor {tensor.name!r} is marked as external data, but has no file.")
    if tensor.data_type == STRING:
        raise ModelFileError(f"Tensor {tensor.name!r} holds strings, which ONNX does not allow in external data.")
    need = raw_size(tensor)
    offset, size = _number(entries, "offset", 0, tensor), _number(entries, "length", need, tensor)
    if size < need:
        raise ModelFileError(
            f"Tensor {tensor.name!r} needs {need} bytes, but its entry in {location!r} has {size}. Export it again."
        )
    return Extent(location, offset, size, entries.get("checksum", ""))


def _number(entries: Mapping[str, str], key: str, default: int, tensor: onnx.TensorProto) -> int:
    """The number of bytes in an entry."""
    text = entries.get(key)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise ModelFileError(
            f"Tensor {tensor.name!r} has the {key} {text!r}. Expected a number of bytes in digits 0 to 9. "
            "Export the model again."
        )
    return int(text)


def resolve(folder: Path, location: str) -> Path:
    """The file of a location, below `folder`; ModelFileError if it leads out of it."""
    parts = location.replace("\\", "/").split("/")
    windows = PureWindowsPath(location)
    path = folder / local(location)
    if location.startswith(("/", "\\")) or windows.drive or ".." in parts or "\0" in location:
        raise ModelFileError(
            f"External data {location!r} is outside the model's folder. Move the file into this folder."
        )
    if not _is_below(os.path.realpath(folder), os.path.realpath(path)):
        raise ModelFileError(
            f"External data {location!r} is a link out of the model's folder. Replace it with the file itself (cp -L)."
        )
    return path


def _is_below(folder: str, path: str) -> bool:
    try:
        return os.path.commonpath((folder, path)) == folder
    except ValueError:  # on Windows: another drive
        return False


def check_extent(path: Path, extent: Extent, name: str) -> None:
    """ModelFileError if the file is missing or too short for the tensor called `name`."""
    try:
        status = os.stat(path)
    except OSError as error:
        what = "Put it into the folder of the model"
        if "\\" in extent.location and os.sep == "/":
            what = "Backslashes separate folders only on Windows. Export the model again with '/'"
        raise ModelFileError(
            f"External data file {path} of tensor {name!r} cannot be opened ({error.strerror}). {what}."
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"External data {path} of tensor {name!r} is not a regular file.")
    if status.st_nlink > 1:
        raise ModelFileError(
            f"External data file {path} has {status.st_nlink} hard links. surgeon rejects such files, as "
            "onnx.load does. Replace it with a copy."
        )
    if status.st_size < extent.offset + extent.size:
        raise ModelFileError(
            f"External data file {path} is truncated: tensor {name!r} ends at byte {extent.offset + extent.size}, "
            f"but the file has {status.st_size} bytes. Copy or download it again."
        )


def verify_checksum(path: Path, extent: Extent, name: str) -> None:
    """ModelFileError if the data of the tensor called `name` do not match its checksum, if it has one."""
    if not extent.checksum:
        return
    fetch(path)
    try:
        is_same = checksum_matches(path, extent.offset, extent.size, extent.checksum)
    except OSError as error:
        raise _read_error(path, error) from None
    if not is_same:
        raise ModelFileError(
            f"Tensor {name!r} has the checksum {extent.checksum!r}, which is not the SHA-1 of its data in {path}. "
            "Copy or download that file again."
        )


def _read_error(path: Path, error: OSError) -> ModelFileError:
    return ModelFileError(f"External data file {path} cannot be read: {error.strerror}.")


def files(
    folder: Path, tensors: Iterable[onnx.TensorProto], elsewhere: Mapping[str, Path] = MappingProxyType({})
) -> dict[str, Path]:
    """Location -> path of every file with data of the tensors; checks that each exists and is long enough.

    elsewhere: by location, files that are not below the folder.
    """
    found: dict[str, Path] = {}
    for tensor in tensors:
        extent = extent_of(tensor)
        path = found.get(extent.location)
        if path is None:
            path = found[extent.location] = elsewhere.get(extent.location) or resolve(folder, extent.location)
        check_extent(path, extent, tensor.name)
    return found


def verify_checksums(
    folder: Path, tensors: Iterable[onnx.TensorProto], elsewhere: Mapping[str, Path] = MappingProxyType({})
) -> None:
    """ModelFileError if a tensor's data do not match its checksum; reads those that have one."""
    for tensor in tensors:
        extent = extent_of(tensor)
        if extent.checksum:
            path = elsewhere.get(extent.location) or resolve(folder, extent.location)
            verify_checksum(path, extent, tensor.name)


class Store:
    """Reads tensors from the data files of one model; each file is mapped once.

    elsewhere: by location, files that are not below its folder.  held: by location, tensors that are in no file.
    """

    def __init__(
        self,
        folder: Path | None,
        elsewhere: Mapping[str, Path] = MappingProxyType({}),
        held: Mapping[str, HeldTensors] = MappingProxyType({}),
    ) -> None:
        self.folder, self._elsewhere, self.held = folder, elsewhere, held
        self._maps: dict[Path, mmap.mmap] = {}

    def value(self, tensor: onnx.TensorProto) -> Array:
        """The value of a tensor with external data: read-only, a view of the map if it is large."""
        if self.held:
            extent = extent_of(tensor)
            if extent.location in self.held:
                return self.held[extent.location].value(tensor, extent.offset)
        return decode_raw(tensor, *span_of(*self._mapped(tensor)))

    def fill(self, model: onnx.ModelProto) -> None:
        """Load the data of all external tensors of a model into it."""
        for tensor in tensors_of(model):
            if tensor.data_location == EXTERNAL:
                extent = extent_of(tensor)
                if extent.location in self.held:
                    tensor.raw_data = self.held[extent.location].read(extent.offset, 0, raw_size(tensor))
                else:
                    found, start, _ = self._mapped(tensor)
                    tensor.raw_data = found[start : start + raw_size(tensor)]
                del tensor.external_data[:]
                tensor.data_location = onnx.TensorProto.DEFAULT

    def _mapped(self, tensor: onnx.TensorProto) -> tuple[mmap.mmap | bytes, int, int]:
        """The range of a tensor in a mapped file; for an empty tensor nothing is mapped."""
        extent = extent_of(tensor)
        path, size = self._elsewhere.get(extent.location), raw_size(tensor)
        if path is None and self.folder is not None:
            path = resolve(self.folder, extent.location)
        if path is None:
            raise ModelFileError(
                f"Tensor {tensor.name!r} is in {extent.location!r}, but the model came from memory. "
                "Open it by its path, so that the folder is known."
            )
        check_extent(path, extent, tensor.name)
        verify_checksum(path, extent, tensor.name)
        if not size:
            return b"", 0, 0
        fetch(path, extent.offset, extent.offset + extent.size)
        found = self._maps.get(path)
        if found is None or len(found) < extent.offset + extent.size:
            try:
                with open(path, "rb") as file:
                    found = self._maps[path] = map_open(file)
            except OSError as error:
                raise _read_error(path, error) from None
        return found, extent.offset, extent.offset + extent.size

    def close(self) -> None:
        """Close the maps; arrays that refer to one keep it alive."""
        for found in self._maps.values():
            close_map(found)
        self._maps.clear()
        for held in self.held.values():
            held.close()


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every TensorProto of a model: initializers, sparse ones, attributes, bodies, functions, training info."""
    yield from _graph(model.graph)
    for info in model.training_info:
        yield from _graph(info.initialization)
        yield from _graph(info.algorithm)
    for function in model.functions:
        yield from _attributes(function.attribute_proto)
        for node in function.node:
            yield from _attributes(node.attribute)


def _graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in graph.node:
        if node.attribute:
            yield from _attributes(node.attribute)


def _attributes(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("g"):
            yield from _graph(attribute.g)
        if attribute.HasField("sparse_tensor"):
            yield attribute.sparse_tensor.values
            yield attribute.sparse_tensor.indices
        yield from attribute.tensors
        for graph in attribute.graphs:
            yield from _graph(graph)
        for sparse in attribute.sparse_tensors:
            yield sparse.values
            yield sparse.indices
