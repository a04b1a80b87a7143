"""A model at a newer opset for the time of a rewrite: the rules run over it, and nobody else sees it."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from surgeon.file.model import Model
from surgeon.file.save import Written
from surgeon.file.temporary_model import written_beside
from surgeon.pipeline.reports.upgrade_report import Upgrade
from surgeon.pipeline.upgrading.upgrade import UpgradeCheck, plan, require_opset, require_same
from surgeon.proof.check_options import CheckOptions


@dataclass(frozen=True, slots=True)
class Raised:
    """An upgraded model.  original: as ONNX Runtime gets it."""

    model: Model
    original: Written
    done: Upgrade


@contextmanager
def raised(
    source: Written,
    opset: int,
    output: Path | None,
    *,
    check: UpgradeCheck,
    options: CheckOptions,
    require_proof: bool = False,
) -> Iterator[Raised]:
    """The model of a file, or one in memory, at an opset; a file of it is gone when the context is left.

    output: where the rewritten model is to go.  Raises as `surgeon.upgrade`.
    """
    start = time.perf_counter()
    require_opset(opset)
    with ExitStack() as stack:
        before = stack.enter_context(Model.open(source))
        in_memory = isinstance(source, onnx.ModelProto)
        done, patch = plan(before, opset, "The model" if in_memory else str(source), str(output or ""))
        made = patch.to_proto() if in_memory else stack.enter_context(written_beside(before, patch, output))
        if not patch.empty:
            require_same(done, before, source, made, check, options, require_proof)
        after = stack.enter_context(Model.open(made))
        done.seconds = time.perf_counter() - start
        yield Raised(after, made, done)
