"""The models: every export of float32 that other tests make, the real ones, and some with a planted activation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from surgeon.file.model import Model
from surgeon.models.inner_values import find_inner
from tests.architectures import cases as whole
from tests.architectures.exporting import export as exported
from tests.attention import cases as attention
from tests.attention.exporting import export as attending
from tests.edits.sized_exports import ARCHITECTURES, EXPORTERS
from tests.edits.sized_exports import export as sized
from tests.matrix.sample import chosen
from tests.real_models.catalogue import MODELS
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


def corpus(groups: tuple[str, ...], *, short: bool = False) -> Iterator[Sample]:
    """The models of these groups, or a few of each."""
    makers = {"architectures": _architectures, "attention": _attention, "matrix": _matrix, "real": _real}
    for group in groups:
        every = list(makers[group]())
        yield from every[:: max(len(every) // 6, 1)] if short else every


def _architectures() -> Iterator[Sample]:
    for case in whole.cases():
        if case.dtype == "fp32" and case in whole.sample():
            yield Sample(case.name, "architectures", exported(case)[0])
    for arch in ARCHITECTURES:
        for exporter in EXPORTERS:
            if (arch, exporter) not in MISSING:
                yield Sample(f"{arch}-{exporter}", "architectures", sized(arch, exporter).path)


def _attention() -> Iterator[Sample]:
    for case in attention.table():
        if case.dtype == "fp32":
            found = attending(case)
            if found.path is not None:
                yield Sample(case.name, "attention", found.path)


def _matrix() -> Iterator[Sample]:
    for part in chosen():
        for form in part.exports() if part.column.dtype == "fp32" else ():
            if form.path is not None:
                yield Sample(form.name, "matrix", form.path)


def _real() -> Iterator[Sample]:
    for name, real in MODELS.items():
        try:
            yield Sample(name, "real", file_of(name, real))
        except CannotGet as error:
            print(f"  {name} cannot be had: {error}")


def planted(folder: Path, *, short: bool = False) -> Iterator[Sample]:
    """Models in the middle of which one activation reaches 1e5, and is scaled back by the node behind it."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for sample in _architectures():
        made = _with_large(sample.path)
        if made is not None:
            model, name = made
            path = folder / f"{sample.name}.onnx"
            onnx.save(model, path)
            yield Sample(sample.name, "planted", path, name)
            count += 1
        if count == (2 if short else PLANTED):
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
        found = find_inner(model, opened.skeleton, [name]).values.get(name)
    if found is None or found.dtype != np.float32 or not 0 < np.abs(found).max() < np.inf:
        return None
    factor = LARGE / float(np.abs(found).max())
    for stored, value in (("planted_up", factor), ("planted_down", 1 / factor)):
        graph.initializer.append(numpy_helper.from_array(np.float32(value), stored))
    place, maker = next((place, node) for place, node in enumerate(graph.node) if name in node.output)
    maker.output[list(maker.output).index(name)] = "planted_before"
    del graph.value_info[:]
    ups = [("planted_before", "planted_up", "planted"), ("planted", "planted_down", name)]
    for at, (source, factor_name, target) in enumerate(ups, 1):
        graph.node.insert(place + at, helper.make_node("Mul", [source, factor_name], [target], f"{target}/planted"))
    assert all(value.type.tensor_type.elem_type != TensorProto.UNDEFINED for value in graph.output)
    return model, "planted"
