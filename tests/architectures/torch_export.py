"""Writes an architecture as ONNX with one of torch's two exporters.

Loads torch, so only what makes exports imports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.architectures import models
from tests.matrix.torch_export import quiet


def export(arch: str, exporter: str, opset: int, dtype: str, path: Path) -> None:
    """Write the model, its batch (and sequence, for text) dynamic; `exporter` is "ts" or "dynamo"."""
    module, inputs, axes = models.build(arch, dtype)
    options: dict[str, Any] = {"opset_version": opset, "input_names": list(inputs)}
    if exporter == "ts":
        options |= {"dynamo": False, "dynamic_axes": axes}
    else:
        shapes = tuple(dict.fromkeys(dims, torch.export.Dim.DYNAMIC) for dims in axes.values())
        options |= {"dynamo": True, "dynamic_shapes": (shapes,), "external_data": False, "verbose": False}
    with quiet():
        torch.onnx.export(module, tuple(inputs.values()), str(path), **options)
