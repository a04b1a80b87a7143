"""A model at a newer opset for the time of a rewrite: the rules run over it, and nobody else sees it.

It lies beside its source, so that the data files of both are the same; where nothing may be written there, in a folder
of its own with copies of them.
"""

import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from surgeon.file.model import Model, Patch
from surgeon.file.save import DataMode, Written, save
from surgeon.models.options import CheckOptions
from surgeon.upgrading.result import Upgrade
from surgeon.upgrading.upgrade import plan, require_opset, require_same


@dataclass(frozen=True, slots=True)
class Raised:
    """An upgraded model.  original: as ONNX Runtime gets it."""

    model: Model
    original: Written
    done: Upgrade


@contextmanager
def raised(
    source: Written, opset: int, output: Path | None, *, options: CheckOptions | None, require_proof: bool = False
) -> Iterator[Raised]:
    """The model of a file, or one in memory, at an opset; a file of it is gone when the context is left.

    output: where the rewritten model is to go.  options: of the check of the whole model, None for no check.  Raises
    as `surgeon.upgrade`.
    """
    start = time.perf_counter()
    require_opset(opset)
    with ExitStack() as stack:
        before = stack.enter_context(Model.open(source))
        in_memory = isinstance(source, onnx.ModelProto)
        done, patch = plan(before, opset, "The model" if in_memory else str(source), str(output or ""))
        made = patch.to_proto() if in_memory else stack.enter_context(_written(before, patch, output))
        if options is not None and not patch.empty:
            require_same(done, before, source, made, options, require_proof)
        after = stack.enter_context(Model.open(made))
        done.seconds = time.perf_counter() - start
        yield Raised(after, made, done)


@contextmanager
def _written(model: Model, patch: Patch, output: Path | None) -> Iterator[Path]:
    """The patched model as a file."""
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
