"""New tensors that go to a data file, if a model keeps its weights outside.

Only large ones do, so that a rewrite does not add a file for a few biases.  If the model could not hold the others, all
of more than MIN_BYTES go: onnx's `convert_model_to_external_data` moves no smaller ones either, since the entry for
the file takes a hundred bytes too, and shape inference reads them.  Format: ExternalData.md of the ONNX repository.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from surgeon.file.external_data import locations
from surgeon.file.io.file_copy import copy_data, open_read, write_all
from surgeon.file.protobuf.byte_edits import FileSpan, read_span
from surgeon.file.protobuf.payloads import RAW, Body, size_of
from surgeon.file.protobuf.wire_format import LEN, write_varint
from surgeon.file.tensors.decoding import STRING, raw_size

MIN_BYTES = 1024  # minimum bytes of a tensor in a data file
LARGE = 1 << 20  # bytes from which on a tensor goes there even if the model could hold it
PAGE = 4096  # alignment of tensors of at least that size, for mapping
WORD = 64  # alignment of smaller ones


@dataclass
class NewDataFile:
    """A data file to be written, and the data that go into it."""

    location: str
    """Its location, relative to the model."""
    least: int = LARGE
    """Minimum size of a new tensor that is stored in it, in bytes."""
    size: int = 0
    """Its size so far, in bytes."""
    _parts: list[tuple[int, onnx.TensorProto | FileSpan]] = field(default_factory=list)
    _known: dict[FileSpan, int] = field(default_factory=dict)

    def body(self, tensor: onnx.TensorProto, body_of: Callable[[onnx.TensorProto], Body]) -> Body:
        """The record of a new tensor, whose data go to the file if they are raw and large.

        body_of: returns the record with inline data.
        """
        data: onnx.TensorProto | FileSpan = tensor
        size = len(tensor.raw_data)
        if size < self.least:
            body = body_of(tensor)
            spans = [piece for piece in body if isinstance(piece, FileSpan)]
            span = _raw(spans[0], tensor) if len(spans) == 1 else None
            if span is not None:
                data, size = span, span.size
            elif size_of(body) >= self.least and all(isinstance(piece, bytes) for piece in body):  # cut out, in memory
                whole = onnx.TensorProto.FromString(b"".join(piece for piece in body if isinstance(piece, bytes)))
                data, size = whole, len(whole.raw_data)
            if size < self.least:
                return body
        outside = onnx.TensorProto(
            name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, data_location=locations.EXTERNAL
        )
        self.refer(outside, self._take(data, size), size)
        return (outside.SerializeToString(),)

    def take(self, span: FileSpan) -> int:
        """Add bytes of another file, equal ones once; returns their offset."""
        if span not in self._known:
            self._known[span] = self._take(span, span.size)
        return self._known[span]

    def _take(self, data: onnx.TensorProto | FileSpan, size: int) -> int:
        step = PAGE if size >= PAGE else WORD
        start = -(-self.size // step) * step
        self._parts.append((start, data))
        self.size = start + size
        return start

    def part(self, start: int) -> bytes | FileSpan:
        """The data at an offset in the future file."""
        data = dict(self._parts)[start]
        return data.raw_data if isinstance(data, onnx.TensorProto) else data

    def refer(self, tensor: onnx.TensorProto, start: int, size: int) -> None:
        """Point a tensor to its data in the file."""
        for key, value in (("location", self.location), ("offset", start), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))

    def write(self, handle: int) -> None:
        """Write the data to an empty file; the kernel copies those of other files."""
        for start, data in self._parts:
            if isinstance(data, onnx.TensorProto):
                os.lseek(handle, start, os.SEEK_SET)
                write_all(handle, data.raw_data)
                continue
            source = open_read(data.path)
            try:
                if data.change is None:
                    copy_data(source, data.start, data.size, target=handle, at=start)
                else:
                    data.change.stream(source, data.start, data.size, target=handle, at=start)
            finally:
                os.close(source)
        os.ftruncate(handle, self.size)


def _raw(span: FileSpan, tensor: onnx.TensorProto) -> FileSpan | None:
    """The data of a tensor in the span of its record; None if the record is not raw data."""
    if span.change is not None:
        return span
    size = 0 if tensor.data_type == STRING else raw_size(tensor)
    header = bytes((RAW << 3 | LEN,)) + write_varint(size)
    is_raw = span.size == size + len(header) and read_span(span, len(header)) == header
    return FileSpan(span.path, span.start + len(header), size) if is_raw else None


def name_beside(out: Path, tensors: Iterable[onnx.TensorProto], others: Iterable[str] = ()) -> str:
    """A location for the new data of a model at `out` that no tensor with external data uses.

    others: further locations that are taken.
    """
    taken = {os.path.normpath(locations.extent_of(tensor).location) for tensor in tensors}
    taken.update(map(os.path.normpath, others))
    named = os.fsencode(out.name)
    stem = named.decode("utf-8", "replace")  # a location is UTF-8, the name of a file may be any bytes
    number, name = 1, f"{stem}.data"
    while os.path.normpath(name) in taken:
        number += 1
        name = f"{stem}.{number}.data"
    return name
