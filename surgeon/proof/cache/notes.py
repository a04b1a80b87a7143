"""Facts of earlier runs on this machine: all sites of a file were proved, or ONNX Runtime loaded a model."""

import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import onnx

from surgeon.file.io.cache_folder import (
    MAX_ENTRY,
    MAX_FOLDER,
    cache_folder,
    mark_used,
    read_entry,
    trim_folder,
    write_entry,
)
from surgeon.proof.cache.environment import environment

SUFFIX = ".note"
_REFERENCE = b"location"  # a key of each reference to external data


def is_noted(fact: str | None) -> bool:
    """Whether an earlier run noted a fact; None is a fact without a key, which is never noted."""
    path = _entry(fact)
    if path is None or read_entry(path, MAX_ENTRY) is None:
        return False
    mark_used(path)
    return True


def note(fact: str | None) -> None:
    """Note a fact for later runs, unless it is None."""
    path = _entry(fact)
    if path is None or read_entry(path, MAX_ENTRY) is not None:
        return
    with suppress(OSError):
        write_entry(path, b"", MAX_ENTRY)
        trim_folder(path.parent, SUFFIX, MAX_FOLDER)


def all_proved(model: Path | None) -> str | None:
    """The fact that all sites of a file were proved; its key has the path, the size and the time of change.

    It decides only whether a worker starts before the first proof, so it may be wrong.
    """
    if model is None:
        return None
    try:
        status = os.stat(model)
    except OSError:
        return None
    return repr(("proved", os.path.abspath(model), status.st_size, status.st_mtime_ns))


def is_loaded(model: Path | onnx.ModelProto, most: int) -> str | None:
    """The fact that ONNX Runtime loads a model; None for one with external data or of more than `most` bytes."""
    if isinstance(model, Path):
        content = model.read_bytes() if model.stat().st_size <= most else _REFERENCE
    else:
        content = model.SerializeToString() if model.ByteSize() <= most else _REFERENCE
    return None if _REFERENCE in content else repr(("loaded", environment(), blake2b(content).hexdigest()))


def _entry(fact: str | None) -> Path | None:
    """The entry of a fact; None without one or without a cache folder."""
    root = cache_folder()
    if fact is None or root is None:
        return None
    return root / "notes" / f"{blake2b(fact.encode(), digest_size=16).hexdigest()}{SUFFIX}"
