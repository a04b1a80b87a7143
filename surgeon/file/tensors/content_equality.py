"""Finds tensors of a model with equal bytes, without loading them, and with few reads if they differ early.

Tensors of one dtype and shape are distinguished by a few bytes of each; only if these agree, whole tensors are read,
piece by piece.  Bytes decide: 0.0 and -0.0 differ, and so do two encodings of NaN.
"""

import os
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon.errors import ModelFileError
from surgeon.file.external_data import locations
from surgeon.file.external_data.on_demand import fetch
from surgeon.file.io.file_copy import open_read, read_at
from surgeon.file.model import Model
from surgeon.file.tensors.decoding import raw_size

SMALL = 1024  # bytes up to which a tensor is its own key
PROBE = 64  # bytes read at the start, in the middle and at the end of a larger one
CHUNK = 1 << 20  # bytes read at a time

Table = dict[Hashable, Any]


class _Span(NamedTuple):
    """A range of bytes in a file."""

    location: str
    """Location of external data; "": the model file."""
    start: int
    """First byte."""
    size: int
    """Number of bytes."""


class TensorContents:
    """Reads the bytes of tensors of one model piece by piece, and caches keys that distinguish large ones.

    Tensors are those of the skeleton, or new ones with inline data.  `close` closes the files; later queries open them
    again.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._files: dict[str, int] = {}
        self._known: dict[tuple[str, int], tuple[TensorProto, Hashable]] = {}  # keeping the tensor keeps its id

    def same(self, one: TensorProto, other: TensorProto, theirs: "TensorContents | None" = None) -> bool:
        """Whether two tensors have equal dtypes, shapes and bytes, all of them compared.

        theirs: of the other tensor's model.  Raises ModelFileError if the bytes are missing.
        """
        if (one.data_type, tuple(one.dims)) != (other.data_type, tuple(other.dims)):
            return False
        theirs = theirs or self
        a, b = self._data(one), theirs._data(other)
        if (a == b and (theirs is self or isinstance(a, bytes))) or _size(a) != _size(b):
            return a == b
        return all(x == y for x, y in zip(self._pieces(a), theirs._pieces(b), strict=True))

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def kind(self, tensor: TensorProto) -> Hashable:
        """dtype, shape, doc string and metadata of a tensor; the latter must not be lost."""
        kind = (tensor.data_type, tuple(tensor.dims))
        if not tensor.doc_string and not tensor.metadata_props:
            return kind
        return (*kind, tensor.doc_string, tuple((item.key, item.value) for item in tensor.metadata_props))

    def place(self, tensor: TensorProto) -> Hashable:
        """The location and offset of a tensor in an external file; None for other tensors."""
        if tensor.data_location != locations.EXTERNAL:
            return None
        extent = self._model.extent(tensor)
        return None if extent is None else (extent.location, extent.offset)

    def probe(self, tensor: TensorProto) -> Hashable:
        """All bytes of a small tensor, some of a large one."""
        if tensor.data_location != locations.EXTERNAL and tensor.HasField("raw_data"):
            data: bytes = tensor.raw_data
            if len(data) <= SMALL:
                return data
        return self._remembered("probe", tensor, self._probe)

    def digest(self, tensor: TensorProto) -> Hashable:
        """A digest of a large tensor, to distinguish those with equal probes."""
        return self._remembered("digest", tensor, self._digest)

    def _remembered(self, what: str, tensor: TensorProto, find: Callable[[TensorProto], Hashable]) -> Hashable:
        """A cached key; a tensor that cannot be read is unique, and reading its value reports why."""
        at = what, id(tensor)
        if at not in self._known:
            try:
                key = find(tensor)
            except ModelFileError:
                key = id(tensor)
            self._known[at] = tensor, key
        return self._known[at][1]

    def _probe(self, tensor: TensorProto) -> Hashable:
        data = self._data(tensor)
        size = _size(data)
        if size <= SMALL:
            return self._read(data, 0, size)
        return tuple([self._read(data, start, PROBE) for start in (0, (size - PROBE) // 2, size - PROBE)])

    def _digest(self, tensor: TensorProto) -> Hashable:
        data = self._data(tensor)
        if _size(data) <= SMALL:
            return None  # the probe has all its bytes
        from hashlib import blake2b  # not at the top: few weights look equal

        found = blake2b(digest_size=32)
        for piece in self._pieces(data):
            found.update(piece)
        return found.digest()

    def _data(self, tensor: TensorProto) -> bytes | _Span:
        """The bytes of a tensor as in raw_data, or their span.  Data in typed fields are decoded."""
        if tensor.data_location == locations.EXTERNAL:
            extent = self._model.extent(tensor)
            if extent is not None:
                self._check(extent, tensor.name)
                return _Span(extent.location, extent.offset, raw_size(tensor))
            span = self._model.span(tensor)
            if span is not None:
                return _Span("", span[0], span[1] - span[0])
        elif tensor.HasField("raw_data"):
            return bytes(tensor.raw_data)
        array = self._model.value(tensor)
        if array.dtype == np.dtype(object):
            return b"".join(b"%d:%s" % (len(item), item) for item in map(_encoded, array.flat))
        data: bytes = np.ascontiguousarray(array).tobytes()
        return data if array.nbytes == raw_size(tensor) else b"unpacked " + data  # raw data may be packed

    def _check(self, extent: locations.Extent, name: str) -> None:
        """Verify a checksum, since these reads bypass `Model.value`."""
        if self._model.path is not None:
            locations.verify_checksum(locations.resolve(self._model.path.parent, extent.location), extent, name)

    def _pieces(self, data: bytes | _Span) -> Iterator[bytes]:
        size = _size(data)
        for start in range(0, size, CHUNK):
            yield self._read(data, start, min(CHUNK, size - start))

    def _read(self, data: bytes | _Span, start: int, size: int) -> bytes:
        if isinstance(data, bytes):
            return data[start : start + size]
        if data.location in self._model.held:
            return self._model.held[data.location].read(data.start, start, size)
        start += data.start
        self._fetch(data, start, size)
        if not data.location and self._model.path is None:
            return self._model.data[start : start + size]
        try:
            found = read_at(self._file(data), start, size)
        except OSError as error:
            where = data.location or self._model.path
            raise ModelFileError(f"{where} cannot be read: {error.strerror}.") from None
        if len(found) < size:
            raise ModelFileError(f"{data.location or self._model.path} is shorter than its tensors. Export it again.")
        return found

    def _fetch(self, span: _Span, start: int, size: int) -> None:
        path = self._model.path
        if path is not None:
            fetch(path.parent / span.location if span.location else path, start, start + size)

    def _file(self, span: _Span) -> int:
        """The descriptor of a span's file.  Reads use no map, so they take no memory."""
        if span.location not in self._files:
            if self._model.path is None:
                raise ModelFileError(f"The data in {span.location!r} needs the model's folder. Open it by its path.")
            self._model.check_unchanged()
            path = locations.resolve(self._model.path.parent, span.location) if span.location else self._model.path
            self._files[span.location] = open_read(path)
        return self._files[span.location]


class DuplicateFinder:
    """Finds equal tensors, and the first of them."""

    def __init__(self, contents: TensorContents) -> None:
        self._contents = contents
        self._keys = (contents.kind, contents.probe, contents.digest)
        self._table: Table = {}
        self._placed: Table = {}

    def first(self, tensor: TensorProto) -> TensorProto:
        """The first tensor given that equals this one; itself if there was none."""
        place = self._contents.place(tensor)
        if place is None:
            return self._first(self._table, tensor, 0)
        key = self._contents.kind(tensor), place
        if key not in self._placed:  # equal extents need no reading
            self._placed[key] = self._first(self._table, tensor, 0)
        found: TensorProto = self._placed[key]
        return found

    def _first(self, table: Table, tensor: TensorProto, depth: int) -> TensorProto:
        """As `first`, among tensors with equal keys so far; a further key is computed only for two or more."""
        key = self._keys[depth](tensor)
        held = table.setdefault(key, tensor)
        if held is tensor or depth + 1 == len(self._keys):
            found: TensorProto = held
            return found
        if not isinstance(held, dict):
            held = table[key] = {self._keys[depth + 1](held): held}
        return self._first(held, tensor, depth + 1)


def _size(data: bytes | _Span) -> int:
    return len(data) if isinstance(data, bytes) else data.size


def _encoded(text: Any) -> bytes:
    return str(text).encode("utf-8", "surrogateescape")
