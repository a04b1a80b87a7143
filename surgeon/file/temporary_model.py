"""A model on its way to another, written for the time between.

It lies beside its source, so that the data files of both are the same; where nothing may be written there, in a folder
of its own with copies of them.  What a killed run left behind is recognised by its name, and goes with the next run of
the same source on the same machine.
"""

import contextlib
import os
import platform
import re
import sys
import tempfile
import uuid
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from surgeon.file.io.atomic_file import is_alive
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.save import ExternalDataMode, save


def path_between(folder: Path, source: Path) -> Path:
    """A new path in a folder for what comes of a source, after those of dead runs are swept."""
    here = f"{zlib.crc32(platform.node().encode()):08x}"  # another machine's process ids say nothing on this one
    start = f".{source.stem}.surgeon-{here}-"
    dead = re.compile(rf"{re.escape(start)}(\d+)-[0-9a-f]{{12}}\.onnx")
    for entry in () if sys.platform == "win32" else os.listdir(folder):  # there nothing says who lives
        match = dead.fullmatch(entry)
        if match and not is_alive(int(match[1])):
            with contextlib.suppress(FileNotFoundError):  # another run was faster
                (folder / entry).unlink()
    return folder / f"{start}{os.getpid()}-{uuid.uuid4().hex[:12]}.onnx"


@contextmanager
def home_between(source: Path, output: Path | None) -> Iterator[tuple[Path, ExternalDataMode]]:
    """The folder for what comes of a source, and what becomes of data files.  output: where it goes in the end."""
    home = source.absolute().parent
    if os.access(home, os.W_OK):
        yield home, "share"
        return
    beside = None if output is None else output.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".surgeon-", dir=beside) as folder:
        yield Path(folder), "copy"


@contextmanager
def temporary_model(model: Model, patch: Patch, output: Path | None) -> Iterator[Path]:
    """The patched model as a file, gone when the context is left.  output: where the model is to go in the end."""
    assert model.path is not None  # it came from one
    with ExitStack() as stack:
        home, mode = stack.enter_context(home_between(model.path, output))
        path = path_between(home, model.path)
        stack.callback(path.unlink, missing_ok=True)
        save(model, patch, path, external_data=mode)
        yield path
