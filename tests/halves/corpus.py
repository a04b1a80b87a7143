"""The models: every export of float32 that other tests make, the real ones, and some with a planted activation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from surgeon.file.model import Model
from surgeon.proof.model.inner_tensors import run_inner_tensors
from tests.architectures import cases as whole
from tests.architectures.exporting import export as exported
from tests.attention import cases as attention
from tests.attention.exporting import export as attending
from tests.edits.sized_exports import ARCHITECTURES, EXPORTERS
from tests.edits.sized_exports import export as sized
from tests.matrix.sample import chosen
from tests.real_models.catalogue import MODELS, Real
from tests.real_models.getting import CannotGet, file_of

PLANTED, LARGE = 20, 1e5
MISSING = {("swin", "dynamo")}
"""What the exporter does not write."""


@dataclass(frozen=True)
class Sample:
    """A model.  group: under which it is told.  planted: the tensor in it that reaches 1e5, if there is one."""

    name: str
    group: str
    path: Path
    planted: str = ""


Maker = Callable[[], Sample | None]
"""Exports a model, or gets it; None where it is not to be had."""


def corpus(groups: tuple[str, ...], *, each: int = 1) -> Iterator[Sample]:
    """The models of these groups, or one in so many of each but of the real ones."""
    makers = {"architectures": _architectures, "attention": _attention, "matrix": _matrix, "real": _real}
    for group in groups:
        every = list(makers[group]())
        made = (maker() for maker in (every if group == "real" else every[::each]))
        yield from (sample for sample in made if sample is not None)


def _architectures() -> Iterator[Maker]:
    for case in whole.cases():
        if case.dtype == "fp32" and case in whole.sample():
            yield partial(_exported, case)
    for arch in ARCHITECTURES:
        for exporter in EXPORTERS:
            if (arch, exporter) not in MISSING:
                yield partial(_sized, arch, exporter)


def _exported(case: Any) -> Sample:
    return Sample(case.name, "architectures", exported(case)[0])


def _sized(arch: str, exporter: str) -> Sample:
    return Sample(f"{arch}-{exporter}", "architectures", sized(arch, exporter).path)


def _attention() -> Iterator[Maker]:
    for case in attention.table():
        if case.dtype == "fp32":
            yield partial(_attending, case)


def _attending(case: Any) -> Sample | None:
    path = attending(case).path
    return None if path is None else Sample(case.name, "attention", path)


def _matrix() -> Iterator[Maker]:
    for part in chosen():
        if part.column.dtype == "fp32":
            for place in range(len(part.exports())):
                yield partial(_form, part, place)


def _form(part: Any, place: int) -> Sample | None:
    form = part.exports()[place]
    return None if form.path is None else Sample(form.name, "matrix", form.path)


def _real() -> Iterator[Maker]:
    for name, real in MODELS.items():
        yield partial(_had, name, real)


def _had(name: str, real: Real) -> Sample | None:
    try:
        return Sample(name, "real", file_of(name, real))
    except CannotGet as error:
        print(f"  {name} cannot be had: {error}", file=sys.stderr)
        return None


def planted(folder: Path, most: int = PLANTED) -> Iterator[tuple[Sample, Path]]:
    """Models in the middle of which one activation reaches 1e5, and is scaled back behind it; and those without."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for maker in _architectures():
        sample = maker()
        made = None if sample is None else _with_large(sample.path)
        if sample is not None and made is not None:
            model, name = made
            path = folder / f"{sample.name}.onnx"
            onnx.save(model, path)
            yield Sample(sample.name, "planted", path, name), sample.path
            count += 1
        if count == most:
            return


def _with_large(path: Path) -> tuple[onnx.ModelProto, str] | None:
    """A model with a product whose result is scaled up and down again; None where it has none to be seen."""
    model = onnx.load(path)
    graph = model.graph
    products = [node.output[0] for node in graph.node if node.op_type in ("MatMul", "Gemm", "Conv")]
    if not products:
        return None
    name = products[len(products) // 2]
    with Model.open(model) as opened:
        found = run_inner_tensors(model, opened.skeleton, [name]).values.get(name)
    if found is None or found.dtype != np.float32 or not 0 < np.abs(found).max() < np.inf:
        return None
    factor = (LARGE / float(np.abs(found).max())) ** 0.5  # in two steps, so that float16 holds the factor itself
    for stored, value in (("planted_up", factor), ("planted_down", 1 / factor)):
        graph.initializer.append(numpy_helper.from_array(np.float32(value), stored))
    place, maker = next((place, node) for place, node in enumerate(graph.node) if name in node.output)
    maker.output[list(maker.output).index(name)] = "planted_before"
    del graph.value_info[:]
    ups = [
        ("planted_before", "planted_up", "planted_between"),
        ("planted_between", "planted_up", "planted"),
        ("planted", "planted_down", "planted_behind"),
        ("planted_behind", "planted_down", name),
    ]
    for at, (source, factor_name, target) in enumerate(ups, 1):
        graph.node.insert(place + at, helper.make_node("Mul", [source, factor_name], [target], f"{target}/planted"))
    assert all(value.type.tensor_type.elem_type != TensorProto.UNDEFINED for value in graph.output)
    return model, "planted"
