"""A model on its way to another, written for the time between.

It lies beside its source, so that the data files of both are the same; where nothing may be written there, in a folder
of its own with copies of them.
"""

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.save import DataMode, save


@contextmanager
def written_beside(model: Model, patch: Patch, output: Path | None) -> Iterator[Path]:
    """The patched model as a file, gone when the context is left.  output: where the model is to go in the end."""
    assert model.path is not None  # it came from one
    name, home = f".{model.path.stem}.{uuid.uuid4().hex[:12]}.onnx", model.path.parent
    with ExitStack() as stack:
        mode: DataMode = "share"
        if not os.access(home, os.W_OK):
            beside = None if output is None else output.absolute().parent
            home, mode = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".surgeon-", dir=beside))), "copy"
        path = home / name
        try:
            save(model, patch, path, external_data=mode)
            yield path
        finally:
            path.unlink(missing_ok=True)
