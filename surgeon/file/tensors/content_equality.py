"""Which tensors of a model hold the same bytes: told without loading them, and without reading those that differ early.

Tensors of one dtype and shape are told apart by a few bytes of each; only where these agree is all of a tensor read,
piece by piece.  Bytes decide: 0.0 and -0.0 differ, and so do two spellings of NaN.
"""

import os
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon.errors import ModelFileError
from surgeon.file.external_data import locations
from surgeon.file.external_data.on_demand import bring
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
    """Reads the bytes of tensors of one model piece by piece, and remembers what told large ones apart.

    Tensors are those of the skeleton, or new ones that hold their data.  `close` lets go of the files; what is asked
    later opens them again.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._files: dict[str, int] = {}
        self._known: dict[tuple[str, int], tuple[TensorProto, Hashable]] = {}  # a tensor is kept: its id stays its own

    def same(self, one: TensorProto, other: TensorProto, theirs: "TensorContents | None" = None) -> bool:
        """Whether two tensors have one dtype, one shape and the same bytes, all of them compared.

        theirs: of another model, which the other is of.  Raises ModelFileError where the bytes are missing.
        """
        if (one.data_type, tuple(one.dims)) != (other.data_type, tuple(other.dims)):
            return False
        theirs = theirs or self
        a, b = self._data(one), theirs._data(other)
        if (a == b and (theirs is self or isinstance(a, bytes))) or _size(a) != _size(b):
            return a == b
        return all(x == y for x, y in zip(self._pieces(a), theirs._pieces(b), strict=True))

    def close(self) -> None:
        """Let go of the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def kind(self, tensor: TensorProto) -> Hashable:
        """dtype, shape, and what was written about a tensor, which is not to be lost."""
        kind = (tensor.data_type, tuple(tensor.dims))
        if not tensor.doc_string and not tensor.metadata_props:
            return kind
        return (*kind, tensor.doc_string, tuple((item.key, item.value) for item in tensor.metadata_props))

    def place(self, tensor: TensorProto) -> Hashable:
        """Where in an external file a tensor lies, None for any other."""
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
        """What tells large tensors apart whose probes agree."""
        return self._remembered("digest", tensor, self._digest)

    def _remembered(self, what: str, tensor: TensorProto, find: Callable[[TensorProto], Hashable]) -> Hashable:
        """A key; what cannot be read is like nothing else, and whoever needs its value says why."""
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
            return None  # its probe was all of it
        from hashlib import blake2b  # not at the top: few weights look alike

        found = blake2b(digest_size=32)
        for piece in self._pieces(data):
            found.update(piece)
        return found.digest()

    def _data(self, tensor: TensorProto) -> bytes | _Span:
        """The bytes of a tensor as raw_data has them, or where they lie.  Data in typed fields are decoded."""
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
        return data if array.nbytes == raw_size(tensor) else b"unpacked " + data  # below 8 bits raw data are packed

    def _check(self, extent: locations.Extent, name: str) -> None:
        """What is read here goes by `Model.value`, and so past what that looks at."""
        if self._model.path is not None:
            locations.check_sum(locations.resolve(self._model.path.parent, extent.location), extent, name)

    def _pieces(self, data: bytes | _Span) -> Iterator[bytes]:
        size = _size(data)
        for start in range(0, size, CHUNK):
            yield self._read(data, start, min(CHUNK, size - start))

    def _read(self, data: bytes | _Span, start: int, size: int) -> bytes:
        if isinstance(data, bytes):
            return data[start : start + size]
        start += data.start
        self._bring(data, start, size)
        if not data.location and self._model.path is None:
            return self._model.data[start : start + size]
        try:
            found = read_at(self._file(data), start, size)
        except OSError as error:
            where = data.location or self._model.path
            raise ModelFileError(f"{where} cannot be read, {error.strerror}: see that it is in its place.") from None
        if len(found) < size:
            raise ModelFileError(f"{data.location or self._model.path} is shorter than its tensors: export it again.")
        return found

    def _bring(self, span: _Span, start: int, size: int) -> None:
        path = self._model.path
        if path is not None:
            bring(path.parent / span.location if span.location else path, start, start + size)

    def _file(self, span: _Span) -> int:
        """The descriptor of the file that a span is of.  What is read goes through no map, so it takes no memory."""
        if span.location not in self._files:
            if self._model.path is None:
                raise ModelFileError(f"The data in {span.location!r} need the model's folder: open it by its path.")
            self._model.check_unchanged()
            path = locations.resolve(self._model.path.parent, span.location) if span.location else self._model.path
            self._files[span.location] = open_read(path)
        return self._files[span.location]


class DuplicateFinder:
    """Tensors by content: of equal ones, which came first."""

    def __init__(self, contents: TensorContents) -> None:
        self._contents = contents
        self._keys = (contents.kind, contents.probe, contents.digest)
        self._table: Table = {}
        self._placed: Table = {}

    def first(self, tensor: TensorProto) -> TensorProto:
        """The first tensor given that is equal to this one; itself where there was none."""
        place = self._contents.place(tensor)
        if place is None:
            return self._first(self._table, tensor, 0)
        key = self._contents.kind(tensor), place
        if key not in self._placed:  # the same bytes of the same file need no reading
            self._placed[key] = self._first(self._table, tensor, 0)
        found: TensorProto = self._placed[key]
        return found

    def _first(self, table: Table, tensor: TensorProto, depth: int) -> TensorProto:
        """As `first`, within those that the keys so far do not tell apart; a further key is asked of two or more."""
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
