"""Upgrades a model for the duration of a rewrite."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from surgeon.file.model import Model
from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_model
from surgeon.pipeline.reports.upgrade_report import UpgradeReport
from surgeon.pipeline.upgrading.upgrade import UpgradeCheck, check_upgrade, plan_upgrade, require_opset
from surgeon.proof.check_options import CheckOptions


@dataclass(frozen=True, slots=True)
class UpgradedModel:
    """An upgraded model."""

    model: Model
    """The opened model."""
    original: OutputModel
    """The same model as ONNX Runtime loads it."""
    done: UpgradeReport
    """What the upgrade did."""


@contextmanager
def temporarily_upgraded(
    source: OutputModel,
    opset: int,
    output: Path | None,
    *,
    check: UpgradeCheck,
    options: CheckOptions,
    require_proof: bool = False,
) -> Iterator[UpgradedModel]:
    """A model raised to an opset; its temporary file is removed when the context ends.

    output: path of the rewritten model.  Raises as `surgeon.upgrade`.
    """
    start = time.perf_counter()
    require_opset(opset)
    with ExitStack() as stack:
        before = stack.enter_context(Model.open(source))
        in_memory = isinstance(source, onnx.ModelProto)
        done, patch = plan_upgrade(before, opset, "The model" if in_memory else str(source), str(output or ""))
        made = patch.to_proto() if in_memory else stack.enter_context(temporary_model(before, patch, output))
        if not patch.empty:
            check_upgrade(done, before, source, written=made, check=check, options=options, require_proof=require_proof)
        after = stack.enter_context(Model.open(made))
        done.seconds = time.perf_counter() - start
        yield UpgradedModel(after, made, done)
