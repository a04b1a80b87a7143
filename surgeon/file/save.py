"""Saving a model: the data files first, then the model, each atomically.

The kernel copies what a patch does not change from file to file.  The model is written to a temporary file next to its
target, checked there, synced and renamed.  Data files that are copied are staged in one temporary folder with it, and
moved from there before it; a save that fails leaves everything unchanged.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import onnx

from surgeon.errors import ModelFileError, UsageError
from surgeon.file.external_data import locations, on_demand
from surgeon.file.external_data.held_tensors import HeldTensors, MemorySpan
from surgeon.file.external_data.new_file import LARGE, MIN_BYTES, NewDataFile, name_beside, named_data_file
from surgeon.file.external_data.staging import (
    CopiedDataFile,
    StagedFile,
    holds,
    put_in_place,
    stage,
    stage_copies,
    undo_unless_written,
)
from surgeon.file.io.atomic_file import AtomicFile, sync_folder
from surgeon.file.io.file_copy import copy_span, open_read, read_at, write_all
from surgeon.file.io.memory_map import forget_pages
from surgeon.file.io.path_encoding import local
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.protobuf.byte_edits import ByteEdits, FileSpan, Piece
from surgeon.file.protobuf.payloads import DATA_FIELDS, EXTERNAL_DATA, LOCATION, raw_span, size_of, tensors_in
from surgeon.file.protobuf.wire_format import MAX_SIZE, Buffer, parse_root, write_varint
from surgeon.file.tensors.decoding import raw_size

OutputModel = onnx.ModelProto | Path  # a model in memory, or its file
ExternalDataMode = Literal["auto", "share", "copy", "inline"] | str  # or the name of a data file


# Suffixes that onnx.load reads as text.
_TEXT = (".json", ".textproto", ".prototxt", ".pbtxt", ".txtpb", ".onnxtxt", ".onnxtext", ".onnxjson")
# The first bytes of the fields of a ModelProto: numbers, and length-delimited fields.
_BEGINNINGS = frozenset((0x08, 0x28, *(field << 3 | 2 for field in (2, 3, 4, 6, 7, 8, 14)), 0xA2, 0xCA, 0xD2))
_MAPPED = 1 << 12  # spans up to this size are taken from the map, whose pages are in memory already
_READ = 1 << 18  # spans up to this size are read, longer ones copied by the kernel
_BUFFER = 1 << 20
_ROOM = 1 << 26  # bytes that new tensors may take until a model of held tensors is written with a data file
_GRAPH, _INITIALIZER = 7, 5  # fields of ModelProto and of GraphProto


def save(
    model: Model,
    patch: Patch | None,
    out: str | os.PathLike[str],
    *,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    check: Callable[[Path], None] | None = None,
) -> None:
    """Write the model with the edits of `patch` to `out`, as `saving` does.

    check: called with the path of the written, not yet renamed file; an exception from it stops the save.
    """
    with saving(model, patch, out, external_data=external_data, force=force) as written:
        if check is not None:
            check(written.path)


@dataclass(slots=True)
class WrittenModel:
    """A model that is written, but has not its name yet."""

    path: Path
    """The temporary file; its data files are in the same folder."""
    copied: int
    """Bytes of it that were copied from other files."""
    new: int
    """Its other bytes."""
    is_kept: bool = True
    """Whether the file gets its name when the context ends."""


@contextmanager
def saving(
    model: Model,
    patch: Patch | None,
    out: str | os.PathLike[str],
    *,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
) -> Iterator[WrittenModel]:
    """Write the model with the edits of `patch`; it replaces `out` when the context ends, unless that raises.

    `out` may be the file that the model was opened from.  Without edits the bytes are those of the source.

    external_data
        auto     share in the same folder, else copy
        share    leave the data files unmoved; only into the folder of the source
        copy     reflinks if the file system has them, else a copy that leaves holes as holes
        inline   put the data into the model; refused if it would reach 2 GiB.
        a path   put all large data into this file; see `named_data_file`.
    force        overwrite a data file with other content at the target, and a target that is not a model

    New tensors of 1 MiB or more go to a new data file, `{name of out}.data`, if the model keeps data in files; if the
    model would otherwise reach 2 GiB, all but small ones do.  Not with inline.

    In the folder of the source, copy equals share, since a model finds its data files by their names.  Elsewhere only
    the data files are copied that the written model still uses.

    Raises ModelFileError if the source changed since it was opened or the target cannot be written, UsageError if
    `external_data` does not apply, RewriteError if edits of the patch overlap.  After saving over its own source the
    model has to be opened again.
    """
    named, out = named_data_file(external_data, out), Path(out)
    held = model.held if patch is None else patch.holder.held
    if held and named is None:
        external_data, named = _mode_of_held(model, held, out)
    target = _target(out)
    model.check_unchanged()
    with ExitStack() as stack:
        file: AtomicFile | None = None
        moves: list[StagedFile] = []
        with _explain_os_errors(out):
            home = _folder_to_copy_from(model, out, "inline" if named is not None else external_data)
            if not force and _is_foreign_file(target):
                raise ModelFileError(f"{out} is not a model. Choose another file, or give --force (force=True).")
            fresh = None if patch is None else _new_data(model, patch, out, external_data)
            others = {} if patch is None else patch.files
            if external_data == "inline" and (model.external_tensors or others or held):
                source, pieces = _inlined(model, patch)
                fresh = None
            else:
                source, pieces = model.data, patch.pieces(fresh) if patch is not None else [(0, len(model.data))]
            origin = model.path if source is model.data else None
            if named is not None:
                file = stack.enter_context(AtomicFile(target))
                _require_not_of_source(model, target, out.parent / local(named.location))
                find = partial(_span_of, model, patch, fresh)
                scratch = file.enter_folder() / f".surgeon-{out.name}"
                whole = stack.enter_context(_written_whole(model, scratch, pieces))
                source, origin, fresh, others = whole.data, whole.path, named, {}
                pieces = _relocated(whole.data, origin, find, named)
            if file is not None or home is not None or pieces != [(0, len(source))] or not is_source(model, target):
                file = file or stack.enter_context(AtomicFile(target))
                _write(file.handle, source, origin, pieces)
                extra: list[NewDataFile | CopiedDataFile] = [fresh] if fresh is not None and fresh.size else []
                if home is not None or others:
                    tensors = _external_tensors(model, patch, file.temporary, fresh)
                    locations.verify_checksums(home or out.parent, tensors, others)
                    found = locations.files(home or out.parent, tensors, others)
                    if home is not None:
                        moves = stage_copies(found, file, out, force)
                    else:
                        extra += _missing_files(found, out, external_data, force)
                at_once = not moves and named is None
                for data in extra:
                    moves += _place_new_file(stage(data, file, out), file, stack, at_once=at_once, force=force)
        spans = [piece for piece in pieces if not isinstance(piece, bytes)]
        copied = sum(span.size if isinstance(span, FileSpan) else span[1] - span[0] for span in spans)
        new = sum(len(piece) for piece in pieces if isinstance(piece, bytes))
        written = WrittenModel(target if file is None else file.temporary, copied, new)
        yield written
        if not written.is_kept:
            return
        model.check_unchanged()
        if file is not None:
            if sys.platform == "win32" and is_source(model, target):
                model.close()  # a mapped file cannot be replaced there
            with _explain_os_errors(out):
                put_in_place(file, moves, force)
    sync_folder(target.parent)


def require_folder(folder: Path) -> None:
    """Raise ModelFileError unless the folder exists."""
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder} is a file, not a folder. Choose another folder.")
    if not folder.is_dir():
        raise ModelFileError(f"The folder {folder} does not exist. Create it first.")


def _target(out: Path) -> Path:
    """The file to replace: links are followed, so that they stay links."""
    target = Path(os.path.realpath(out))
    if out.suffix.lower() in _TEXT:
        raise ModelFileError(f"{out} has a text suffix, but models are binary. Choose a name with .onnx.")
    require_folder(target.parent)
    if target.is_dir():
        raise ModelFileError(f"{out} is a folder. Give the path of the file to write.")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        raise ModelFileError(f"{out} is not a regular file. Choose another file.")
    return target


def _is_foreign_file(target: Path) -> bool:
    """Whether there is a file that is not named as a model and does not begin as a ModelProto (onnx.proto)."""
    if not target.exists() or target.suffix.lower() in (".onnx", ".pb"):
        return False
    with target.open("rb") as file:
        head = file.read(1)
    return bool(head) and head[0] not in _BEGINNINGS


def _same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and os.path.samefile(one, other)


def is_source(model: Model, target: Path) -> bool:
    """Whether a file is the one that the model was opened from."""
    return model.path is not None and _same_file(model.path, target)


@contextmanager
def _explain_os_errors(out: Path) -> Iterator[None]:
    """Turn an OSError of writing into one sentence."""
    try:
        yield
    except EOFError:
        raise ModelFileError(f"A source file became shorter while {out} was written. Save again.") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
            why = "the disk is full. Free some space or choose another folder"
        elif error.errno == errno.EROFS:
            why = "the file system is read-only. Choose another folder"
        elif error.errno in (errno.EACCES, errno.EPERM):
            why = "permission denied. Choose another folder or change its permissions"
        elif error.errno == errno.EEXIST:
            why = "another process is writing it. Wait until it has finished"
        else:
            why = f"{error.strerror or error}"
        raise ModelFileError(f"{out} cannot be written: {why}.") from error


class _Writer:
    """Writes pieces to a file: small ones buffered, long spans copied by the kernel."""

    def __init__(self, handle: int, source: Buffer, path: Path | None) -> None:
        self._handle = handle
        self._source = source
        self._descriptor = -1 if path is None else open_read(path)
        self._others: dict[Path, int] = {}
        self._waiting: list[bytes] = []
        self._size = 0

    def write(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, bytes):
                self._gather(piece)
            elif isinstance(piece, MemorySpan):
                self._flush()
                at = os.lseek(self._handle, 0, os.SEEK_CUR)
                piece.held.copy(piece.start, self._handle, at)
                os.ftruncate(self._handle, at + piece.size)
                os.lseek(self._handle, at + piece.size, os.SEEK_SET)
            elif isinstance(piece, FileSpan):
                self._flush()
                if piece.path not in self._others:
                    self._others[piece.path] = open_read(piece.path)
                source = self._others[piece.path]
                on_demand.fetch(piece.path, piece.start, piece.start + piece.size)
                if piece.change is None:
                    copy_span(source, piece.start, piece.size, self._handle)
                else:
                    at = os.lseek(self._handle, 0, os.SEEK_CUR)
                    piece.change.stream(source, piece.start, piece.size, target=self._handle, at=at)
                    os.lseek(self._handle, at + piece.size, os.SEEK_SET)
            else:
                self._span(*piece)
        self._flush()

    def close(self) -> None:
        for descriptor in (self._descriptor, *self._others.values()):
            if descriptor >= 0:
                os.close(descriptor)

    def _span(self, start: int, end: int) -> None:
        size = end - start
        if self._descriptor < 0 or size <= _MAPPED:
            self._gather(self._source[start:end])
        elif size <= _READ:
            data = read_at(self._descriptor, start, size)
            if len(data) != size:
                raise EOFError("the source is shorter than it was")
            self._gather(data)
        else:
            self._flush()
            copy_span(self._descriptor, start, size, self._handle)

    def _gather(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        if self._size > _BUFFER:
            self._flush()

    def _flush(self) -> None:
        write_all(self._handle, b"".join(self._waiting))
        self._waiting, self._size = [], 0
        forget_pages(self._source)


def _missing_files(
    found: dict[str, Path], out: Path, mode: ExternalDataMode, force: bool
) -> list[NewDataFile | CopiedDataFile]:
    """The data files, by location, that are not next to the model yet."""
    places = {name: locations.resolve(out.parent, name) for name in found}
    missing = {name: path for name, path in found.items() if not holds(places[name], path, force)}
    if mode == "share" and missing:
        path = next(iter(missing.values()))
        raise UsageError(f"{path} is not in the folder of {out}, so it cannot be shared. Use copy instead of share.")
    return [CopiedDataFile(name, path) for name, path in missing.items()]


def _folder_to_copy_from(model: Model, out: Path, mode: ExternalDataMode) -> Path | None:
    """The folder of the data files if they have to be copied to another; raises if they cannot."""
    tensors = model.external_tensors
    if not tensors or mode == "inline":
        return None
    home = out.parent if model.path is None else model.path.parent
    same = os.path.samefile(home, out.parent)
    if mode == "share" and not same:
        raise UsageError(
            f"Data files can be shared only inside {home}. Write the model there, or use copy instead of share."
        )
    if model.path is None and mode == "copy":
        raise UsageError("The model came from memory, so its data files are unknown. Open it by its path.")
    for location, path in locations.files(home, tensors).items():
        if _same_file(path, out):
            raise ModelFileError(f"{out} is the data file {location!r} of this model. Choose another file.")
        if not same and os.path.normpath(locations.resolve(out.parent, location)) == os.path.normpath(out):
            raise ModelFileError(f"{out} has the name of the model's data file {location!r}. Choose another file.")
    return None if same else home


def _external_tensors(
    model: Model, patch: Patch | None, written: Path, fresh: NewDataFile | None
) -> list[onnx.TensorProto]:
    """The tensors of the written model whose data are in existing external files."""
    if patch is None or patch.empty:
        return model.external_tensors
    with Model.open(written) as after:
        found = after.external_tensors
        return [item for item in found if fresh is None or locations.extent_of(item).location != fresh.location]


def _new_data(model: Model, patch: Patch, out: Path, mode: ExternalDataMode) -> NewDataFile | None:
    """The data file for large new tensors, if the model keeps data outside or would become too large."""
    if patch.fresh is not None or mode == "inline" or not (model.external_tensors or patch.is_too_large):
        return patch.fresh
    least = MIN_BYTES if patch.is_too_large else LARGE
    return NewDataFile(name_beside(out, model.external_tensors, patch.files), least)


def _place_new_file(
    move: StagedFile, file: AtomicFile, stack: ExitStack, *, at_once: bool, force: bool
) -> list[StagedFile]:
    """Put new data into the place that the check reads; returns the move if it is still to be made.

    at_once: the other data files are in place already, so the new one has to be in place too.
    """
    if not at_once:
        return [move]
    stack.callback(undo_unless_written, move, file)
    move.go(force)
    return []


def _mode_of_held(
    model: Model, held: Mapping[str, HeldTensors], out: Path
) -> tuple[ExternalDataMode, NewDataFile | None]:
    """How a model with held tensors is written: as one file, or with a data file if it would reach 2 GiB."""
    size = len(model.data) + model.external_bytes + sum(one.size for one in held.values())
    if size < MAX_SIZE - _ROOM:
        return "inline", None
    return "auto", NewDataFile(name_beside(out, ()), MIN_BYTES)


def _folder(model: Model) -> Path:
    """The folder of a model's data files."""
    return Path() if model.path is None else model.path.parent


def _inlined(model: Model, patch: Patch | None) -> tuple[Buffer, list[Piece]]:
    """The model, patched in memory first, with its external data inserted in place of their entries."""
    fresh = None if patch is None else patch.fresh
    data = model.data if patch is None or patch.empty else patch.apply()
    return data, _relocated(data, None, partial(_span_of, model, patch, fresh), None)


def _span_of(
    model: Model, patch: Patch | None, fresh: NewDataFile | None, tensor: onnx.TensorProto
) -> bytes | FileSpan:
    """The data of an external tensor of an edited model.  fresh: the new file, which is not written."""
    extent, size = locations.extent_of(tensor), raw_size(tensor)
    others, held = ({}, model.held) if patch is None else (patch.files, patch.holder.held)
    if fresh is not None and extent.location == fresh.location:
        return fresh.part(extent.offset)
    if extent.location in held:
        return held[extent.location].span(extent.offset, size)
    if model.path is None and extent.location not in others:
        raise UsageError("The model came from memory, so its data files are unknown. Open it by its path.")
    path = others.get(extent.location) or locations.resolve(_folder(model), extent.location)
    locations.check_extent(path, extent, tensor.name)
    locations.verify_checksum(path, extent, tensor.name)
    return FileSpan(path, extent.offset, size)


def _relocated(
    data: Buffer,
    path: Path | None,
    find: Callable[[onnx.TensorProto], bytes | FileSpan],
    named: NewDataFile | None,
) -> list[Piece]:
    """A model whose large data are in a named file, and the others in the model; without a file all external ones are.

    path: the file of `data`.  find: returns the data of an external tensor.  Of the data in the model, those of the
    initializers of the main graph move, as onnx's `convert_model_to_external_data` does it.
    """
    edits, root = ByteEdits(len(data)), parse_root(data)
    graph = root.child(_GRAPH, 0)
    numbers = range(0 if named is None else len(graph.records(_INITIALIZER)))
    stored = {id(graph.child(_INITIALIZER, number)) for number in numbers}
    for message in tensors_in(root, -1):
        outside = message.records(EXTERNAL_DATA) and message.records(LOCATION)
        tensor = onnx.TensorProto.FromString(message.bytes()) if outside else None
        span: bytes | FileSpan | None = None
        if tensor is not None and tensor.data_location == locations.EXTERNAL:
            span = find(tensor)
        elif named is not None and id(message) in stored:
            span = raw_span(message, path, named.least)
        if span is None:
            continue
        for number in (*DATA_FIELDS, EXTERNAL_DATA, LOCATION):
            records = message.records(number)
            for start, end in zip(records.starts, records.ends, strict=True):
                edits.cut(message.frame_at(start), start, end)
        frame, size = message.frames[-1], size_of((span,))
        if named is None or size < named.least:
            edits.insert(frame, frame.end, b"\x4a" + write_varint(size))
            edits.insert(frame, frame.end, span)
        else:
            entry = onnx.TensorProto(data_location=locations.EXTERNAL)
            named.refer(entry, named.take(span), size)
            edits.insert(frame, frame.end, entry.SerializeToString())
    return edits.pieces()


@contextmanager
def _written_whole(model: Model, scratch: Path, pieces: list[Piece]) -> Iterator[Model]:
    """The edited model in a temporary file, so that its data can be copied from there; itself without edits."""
    if pieces == [(0, len(model.data))]:
        yield model
        return
    with scratch.open("xb") as file:
        _write(file.fileno(), model.data, model.path, pieces)
    with Model.open(scratch) as whole:
        yield whole


def _require_not_of_source(model: Model, target: Path, path: Path) -> None:
    """Raise UsageError if a new data file would overwrite one of the source, which stays."""
    if model.path is not None and not is_source(model, target):
        for known in locations.files(model.path.parent, model.external_tensors).values():
            if _same_file(known, path):
                raise UsageError(f"{path} has the data of {model.path}. Choose another name for the new data file.")


def _write(handle: int, source: Buffer, path: Path | None, pieces: list[Piece]) -> None:
    """Write pieces of a source to a file.  path: the file of the source."""
    with closing(_Writer(handle, source, path)) as writer:
        writer.write(pieces)
