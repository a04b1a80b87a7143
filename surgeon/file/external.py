"""External data: which files a model keeps tensors in, where they lie, and whether they may be trusted.

A location counts from the folder of the model.  One that is absolute, climbs with `..`, or leaves that folder through
a symbolic link is refused, as onnx itself refuses it.  Files are mapped when a value is asked for, never read before;
checksums are kept as they are and not computed.  Format: ExternalData.md of the ONNX repository.
"""

import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

import onnx

from surgeon.errors import ModelFileError
from surgeon.file.values import STRING, Array, decode_raw, raw_size

EXTERNAL = onnx.TensorProto.EXTERNAL


@dataclass(frozen=True)
class Extent:
    """Bytes `[offset, offset + size)` of the file at `location`, taken by one tensor."""

    location: str
    offset: int
    size: int


def extent_of(tensor: onnx.TensorProto) -> Extent:
    """Where a tensor with external data lies; an absent offset is 0, an absent length what shape and dtype need."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if not location:
        raise ModelFileError(f"Tensor {tensor.name!r} is marked as external data but names no file.")
    if tensor.data_type == STRING:
        raise ModelFileError(f"Tensor {tensor.name!r} holds strings, which ONNX does not allow in external data.")
    need = raw_size(tensor)
    try:
        offset, size = int(entries.get("offset") or 0), int(entries.get("length") or need)
    except ValueError:
        offset = size = -1
    if offset < 0 or size < 0:
        raise ModelFileError(f"Tensor {tensor.name!r} has an offset or length that is no number of bytes.")
    if size < need:
        raise ModelFileError(
            f"Tensor {tensor.name!r} needs {need} bytes, but its entry in {location!r} has {size}: export it again."
        )
    return Extent(location, offset, size)


def resolve(folder: Path, location: str) -> Path:
    """The file that a location means, below `folder`; ModelFileError when it leads out of it."""
    parts = location.replace("\\", "/").split("/")
    windows = PureWindowsPath(location)
    path = folder / location
    if location.startswith(("/", "\\")) or windows.drive or ".." in parts or "\0" in location:
        raise ModelFileError(
            f"External data {location!r} points outside of the model's folder: move the file beside the model."
        )
    home, real = os.path.realpath(folder), os.path.realpath(path)
    if os.path.commonpath((home, real)) != home:
        raise ModelFileError(
            f"External data {location!r} is a link that leaves the model's folder: put the file itself there (cp -L)."
        )
    return path


def check_extent(path: Path, extent: Extent, name: str) -> None:
    """ModelFileError when the file is missing or too short for the tensor called `name`."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise ModelFileError(
            f"External data file {path} of tensor {name!r} cannot be opened, {error.strerror}: put it by the model."
        ) from None
    if not os.path.isfile(path):
        raise ModelFileError(f"External data {path} of tensor {name!r} is not a regular file.")
    if status.st_size < extent.offset + extent.size:
        raise ModelFileError(
            f"External data file {path} is too short: tensor {name!r} ends at byte {extent.offset + extent.size}, "
            f"the file at {status.st_size}."
        )


def files(folder: Path, tensors: Iterable[onnx.TensorProto]) -> dict[str, Path]:
    """Location -> path of every file that the tensors lie in, each checked to be there and long enough."""
    found: dict[str, Path] = {}
    for tensor in tensors:
        extent = extent_of(tensor)
        path = found.get(extent.location)
        if path is None:
            path = found[extent.location] = resolve(folder, extent.location)
        check_extent(path, extent, tensor.name)
    return found


class Store:
    """Reads tensors from the data files beside one model; each file is mapped once."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._maps: dict[Path, mmap.mmap] = {}

    def value(self, tensor: onnx.TensorProto) -> Array:
        """The value of a tensor with external data: a read-only view of the mapped file where the dtype allows."""
        extent = extent_of(tensor)
        if self.folder is None:
            raise ModelFileError(
                f"Tensor {tensor.name!r} lies in {extent.location!r}, but the model came from memory: "
                "open it by its path, so that the folder is known."
            )
        path = resolve(self.folder, extent.location)
        check_extent(path, extent, tensor.name)
        if not raw_size(tensor):
            return decode_raw(tensor, b"")
        found = self._maps.get(path)
        if found is None or len(found) < extent.offset + extent.size:
            try:
                with open(path, "rb") as file:
                    found = self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except OSError as error:
                raise ModelFileError(f"External data file {path} cannot be read: {error.strerror}.") from None
        return decode_raw(tensor, found, extent.offset, extent.offset + extent.size)

    def close(self) -> None:
        """Let go of the maps; arrays that still look into one keep it alive."""
        for found in self._maps.values():
            close_map(found)
        self._maps.clear()


def close_map(found: mmap.mmap) -> None:
    """Unmap now, or, where arrays still look into it, when the last of them goes."""
    try:
        found.close()
    except BufferError:
        return  # exported to numpy; the collector unmaps it with the last array


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
