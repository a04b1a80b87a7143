"""A temporary model between two steps of a pipeline.

It is written next to its source, so that both share the data files; if that folder is read-only, in a temporary folder
with copies of them.  Leftovers of killed runs are recognised by their names, and removed by the next run of the same
source on the same machine.
"""

import contextlib
import os
import platform
import re
import sys
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from surgeon.file.io.atomic_file import is_alive
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.save import ExternalDataMode, save


def temporary_path(folder: Path, source: Path) -> Path:
    """A new path in a folder for a temporary model of a source; leftovers of dead runs are removed first."""
    remove_leftovers(folder, source)
    return folder / f"{_prefix(source)}{os.getpid()}-{uuid.uuid4().hex[:12]}.onnx"


def remove_leftovers(folder: Path, source: Path) -> None:
    """Remove the temporary models of a source that runs of this machine left in a folder when they were killed."""
    dead = re.compile(rf"{re.escape(_prefix(source))}(\d+)-[0-9a-f]{{12}}\.onnx(\.data)?")
    for entry in () if sys.platform == "win32" else os.listdir(folder):  # on Windows process ids cannot be checked
        match = dead.fullmatch(entry)
        if match and not is_alive(int(match[1])):
            with contextlib.suppress(FileNotFoundError):  # another run was faster
                (folder / entry).unlink()


def _prefix(source: Path) -> str:
    """The beginning of the names of a source's temporary models."""
    here = f"{zlib.crc32(platform.node().encode()):08x}"  # process ids of another machine mean nothing here
    return f".{source.stem}.surgeon-{here}-"


@contextmanager
def temporary_folder(source: Path, output: Path | None) -> Iterator[tuple[Path, ExternalDataMode]]:
    """The folder for temporary models of a source, and how data files are saved.  output: the final output."""
    home = source.absolute().parent
    if os.access(home, os.W_OK):
        yield home, "share"
        return
    beside = None if output is None else output.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".surgeon-", dir=beside) as folder:
        yield Path(folder), "copy"


@contextmanager
def temporary_model(model: Model, patch_for: Callable[[Path], Patch], output: Path | None) -> Iterator[Path]:
    """The patched model as a file, removed at exit.

    patch_for: the patch for a path, after which new data files are named.  output: the final output.
    """
    assert model.path is not None  # callers pass a model from a file
    with ExitStack() as stack:
        home, mode = stack.enter_context(temporary_folder(model.path, output))
        path = temporary_path(home, model.path)
        for made in (path, path.with_name(f"{path.name}.data")):  # new weights, if the model keeps some in files
            stack.callback(made.unlink, missing_ok=True)
        save(model, patch_for(path), path, external_data=mode)
        yield path
