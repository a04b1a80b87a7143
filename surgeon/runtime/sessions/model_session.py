"""A session of a whole model: ONNX Runtime, with Python implementations of operators for which it has no kernel."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from onnx import ModelProto

from surgeon.errors import SurgeonError
from surgeon.file.model import Model
from surgeon.ops.traversal import holds_any
from surgeon.runtime.sessions.int8_saturation import has_uint8_int8_products
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError, int8_sums_saturate

MAX_BYTES = 1 << 30
"""The largest model that runs node by node, in bytes with its data: memory holds weights several times."""


class ModelSession(Protocol):
    """A session of a whole model.  `name` is for messages; `outputs` may be set to fewer."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once.  Raises SessionError."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def open_model(
    model: Path | ModelProto,
    custom_ops: Sequence[Path | str] = (),
    *,
    optimised: bool = False,
    only_loads: bool = False,
    folder: Path | None = None,
) -> ModelSession:
    """Return a session of a whole model.  A context manager: leave it, or its memory stays in use.

    custom_ops: shared libraries for ONNX Runtime, and Python files (`.py`) of implementations, which work like
    registered ones.  optimised: with ONNX Runtime's optimisations.  only_loads, folder: see `OrtSession`.

    Raises SessionError, with `is_unsupported` and advice if no engine runs the model.  Raises UsageError for a Python
    file that fails, and for an implementation that cannot be pickled.
    """
    try:
        given = model if only_loads else _with_whole_sums(model)
        exact = not only_loads
        return OrtSession(given, custom_ops, optimised=optimised, exact=exact, only_loads=only_loads, folder=folder)
    except SessionError as refused:
        if not refused.is_unsupported:
            raise
        return _in_pieces(model, custom_ops, optimised, refused)


def _with_whole_sums(model: Path | ModelProto) -> Path | ModelProto:
    """A file's model in memory, if its products would saturate on this processor and it is not large."""
    if isinstance(model, ModelProto) or not int8_sums_saturate():
        return model
    try:
        with Model.open(model) as opened:
            fits = len(opened.data) + opened.external_bytes <= MAX_BYTES
            return opened.whole() if fits and has_uint8_int8_products(opened.skeleton) else model
    except SurgeonError:
        return model  # ONNX Runtime reports the error


def _in_pieces(
    model: Path | ModelProto, custom_ops: Sequence[Path | str], optimised: bool, refused: SessionError
) -> ModelSession:
    """A session with Python implementations for a model for which ONNX Runtime lacks a kernel."""
    # Not at the top: few models need them, and all kernels come with them.
    from surgeon.runtime.kernels.kernel_registry import PLUGIN_KERNELS
    from surgeon.runtime.sessions.node_by_node import NodeByNodeSession, used_implementations
    from surgeon.runtime.sessions.unknown_ops import unknown_ops_hint

    with Model.open(model) as opened:
        skeleton, size = opened.skeleton, len(opened.data) + opened.external_bytes
        found = used_implementations(skeleton, custom_ops)
        formulas = holds_any(skeleton, PLUGIN_KERNELS)
        if (found or formulas) and size > MAX_BYTES:
            raise SessionError(
                f"{refused.message.rstrip('.')}. With Python implementations, whole models run only up to "
                f"{MAX_BYTES >> 20:,} MB, and this one has {size >> 20:,} MB. Prove its sites instead.",
                is_unsupported=True,
                lacks=refused.lacks,
            )
        if not (found or formulas):
            what_to_do = unknown_ops_hint(skeleton, custom_ops, has_rules=False)
            raise SessionError(f"{refused.message.rstrip('.')}{what_to_do}.", is_unsupported=True, lacks=refused.lacks)
        whole = opened.whole() if isinstance(model, Path) else model
    try:
        engine = NodeByNodeSession(whole, found, custom_ops, merges_nodes=True, optimised=optimised)
    except SessionError as error:
        if not error.is_unsupported:
            raise
        what_to_do = unknown_ops_hint(whole, custom_ops, has_rules=False)
        raise SessionError(
            f"{error.message.rstrip('.')}{what_to_do}.", is_unsupported=True, lacks=error.lacks
        ) from error
    engine.name = f"{OrtSession.name} and the {engine.name}"
    return engine
