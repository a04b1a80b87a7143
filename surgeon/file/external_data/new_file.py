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

from surgeon.errors import ModelFileError, UsageError
from surgeon.file.external_data import locations
from surgeon.file.external_data.held_tensors import MemorySpan, point_to
from surgeon.file.io.file_copy import copy_data, open_read, write_all
from surgeon.file.protobuf.byte_edits import FileSpan, read_span
from surgeon.file.protobuf.payloads import RAW, Body, size_of
from surgeon.file.protobuf.wire_format import LEN, write_varint
from surgeon.file.tensors.decoding import STRING, raw_size
from surgeon.text import parse_bytes

MODES = "auto", "share", "copy", "inline"
"""Values of `external_data` that name no file."""
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
    _parts: list[tuple[int, onnx.TensorProto | FileSpan | bytes]] = field(default_factory=list)
    _known: dict[FileSpan | bytes, int] = field(default_factory=dict)

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

    def take(self, data: FileSpan | bytes) -> int:
        """Add bytes, of another file or in memory, equal ones once; returns their offset."""
        if data not in self._known:
            self._known[data] = self._take(data, size_of((data,)))
        return self._known[data]

    def _take(self, data: onnx.TensorProto | FileSpan | bytes, size: int) -> int:
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
        point_to(tensor, self.location, start, size)

    def write(self, handle: int) -> None:
        """Write the data to an empty file; the kernel copies those of other files."""
        for start, data in self._parts:
            if isinstance(data, MemorySpan):
                data.held.copy(data.start, handle, start)
                continue
            if not isinstance(data, FileSpan):
                os.lseek(handle, start, os.SEEK_SET)
                write_all(handle, data if isinstance(data, bytes) else data.raw_data)
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


def named_data_file(external_data: str, out: str | os.PathLike[str]) -> NewDataFile | None:
    """The empty data file that a value of `external_data` names for a model at `out`; None for one of `MODES`.

    The value is a path relative to the folder of `out`, perhaps with a minimum size: "weights/m.data,least=1MB".
    Raises UsageError for any other value, and for a file outside of that folder, which ONNX Runtime refuses.
    """
    if external_data in MODES:
        return None
    name, sign, least = external_data.partition(",least=")
    if not Path(name).suffix or "," in name:
        raise UsageError(
            f"Unknown external_data={external_data!r}. Choose auto, share, copy or inline, or name a file with a "
            "suffix, such as weights/model.data or model.data,least=1MB."
        )
    folder, location = Path(os.path.abspath(out)).parent, Path(os.path.normpath(name)).as_posix()
    try:
        path = locations.resolve(folder, location)
        size = max(parse_bytes(least), 1) if sign else MIN_BYTES
    except ModelFileError:
        raise UsageError(
            f"The data file {name} is not in the folder {folder} of the model, and ONNX Runtime refuses such files. "
            "Give a path relative to that folder, without '..'."
        ) from None
    except ValueError as error:
        raise UsageError(f"In external_data, {error}.") from None
    if path == folder / Path(out).name:
        raise UsageError(f"The data file {name} would overwrite the model {out}. Choose another name.")
    return NewDataFile(location, size)
