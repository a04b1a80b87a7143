"""The torch side of an export: build a variant, count what runs in it, and write it with one of torch's exporters.

Loads torch and transformers, so only what makes exports imports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.attention import decoys, ground_truth, models, modules
from tests.attention.cases import OWN, Case, Variant
from tests.attention.inputs import Inputs, arrays
from tests.attention.models import Subject
from tests.matrix.torch_export import quiet


def build(variant: Variant, dtype: str) -> Subject:
    """The variant in evaluation mode, its weights random but always the same."""
    if variant.attention != OWN:
        return models.build(variant.model, variant.attention, variant.past, dtype)
    torch.manual_seed(models.SEED)
    module, inputs = {**modules.FORMS, **decoys.DECOYS}[variant.model]()
    names: Inputs = {f"x{place}": one for place, one in enumerate(inputs)}
    return Subject(module.eval().to(models.TYPES[dtype]), names, ())


def tensors(inputs: Inputs, dtype: str) -> tuple[torch.Tensor, ...]:
    """The inputs of the export."""
    return tuple(torch.from_numpy(one) for one in arrays(inputs, dtype, {}).values())


def count(variant: Variant) -> dict[str, int]:
    """How often torch runs each operation of the variant, in float32."""
    subject = build(variant, "fp32")
    return dict(ground_truth.count(subject.module, tensors(subject.inputs, "fp32")))


def export(case: Case, path: Path) -> Subject:
    """Write the case as ONNX.  Raises whatever the exporter raises."""
    subject = build(case.variant, case.dtype)
    axes = {name: one.axes() for name, one in subject.inputs.items()}
    options: dict[str, Any] = {"opset_version": case.opset, "input_names": list(subject.inputs)}
    if subject.outputs:
        options["output_names"] = list(subject.outputs)
    if case.exporter == "ts":
        options |= {"dynamo": False, "dynamic_axes": axes if case.dynamic else {}}
    else:
        options |= {"dynamo": True, "external_data": False, "verbose": False}
        if case.dynamic:
            options["dynamic_shapes"] = _shapes(case, axes)
    with quiet(), torch.no_grad():
        torch.onnx.export(subject.module, tensors(subject.inputs, case.dtype), str(path), **options)
    return subject


def _shapes(case: Case, axes: dict[str, dict[int, str]]) -> Any:
    """Free axes as dynamo wants them: a tuple for *inputs, or in the order of the parameters."""
    free = tuple(dict.fromkeys(places, torch.export.Dim.DYNAMIC) for places in axes.values())
    if case.variant.attention != OWN:
        return (free,)
    return free
