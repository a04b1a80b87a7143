"""The models: exports that the tests make, ONNX's own cases of single ops, and real ones that others made."""

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from surgeon.edits import Dim, Hold
from tests.exports import cache_base


@dataclass(frozen=True)
class Sample:
    """A model by its name: a file, or a ModelProto.

    edits: what is done before the rules.  dims: sizes of free dimensions to build for, where usual ones do not suit.
    """

    name: str
    source: Any
    edits: tuple[Any, ...] = ()
    dims: dict[str, int] = field(default_factory=dict)


SIZES = {name: {"batch": 1, "sequence": 576} for name in ("silero_half", "silero_16k")}  # what they are given
BEFORE: dict[str, tuple[Any, ...]] = {
    "silero": (Hold("sr", "16000"),),  # which branch is taken hangs on it, and the builder takes no such branch
    "aecmos": (Dim("batch_size", 1),),  # its states are of one, and TensorRT wants to know what a Squeeze leaves
}


Maker = Callable[[], Sample | None]
"""Exports a model, or gets it; None where it is not to be had."""


def files_in(folders: list[Path]) -> Iterator[Maker]:
    """All models in these folders."""
    for folder in folders:
        for path in sorted(folder.rglob("*.onnx")):
            if not path.name.startswith("."):
                yield partial(Sample, str(path.relative_to(folder)), path)


def kept() -> Iterator[Maker]:
    """The exports that the tests have made and kept."""
    return files_in([cache_base(), cache_base().with_name("surgeon-matrix")])


def cases() -> Iterator[Maker]:
    """ONNX's own cases of single ops and of functions' bodies."""
    from tests.onnx_cases import onnx_cases

    for case in onnx_cases():
        yield partial(Sample, case.name, case.model)


def held() -> Iterator[Maker]:
    """The same with small inputs behind the first held at the case's value, as exporters write settings."""
    from tests.onnx_cases import array_of, onnx_cases

    for case in onnx_cases():
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        values = dict(zip([value.name for value in model.graph.input], case.data_sets[0][0], strict=False))
        for value in list(model.graph.input)[1:]:
            if not value.type.HasField("tensor_type"):
                continue
            array = np.asarray(array_of(values.get(value.name)))
            if array.ndim < 2 and array.size <= SMALL and array.dtype.kind in "fiub":
                model.graph.input.remove(value)
                model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        yield partial(Sample, case.name, model)


def real() -> Iterator[Maker]:
    """Models in wheels of the package index."""
    from tests.real_models.catalogue import FURTHER, MODELS, Wheel

    for name, one in {**MODELS, **FURTHER}.items():
        if isinstance(one.source, Wheel):
            yield partial(_had, name, one)


def _had(name: str, one: Any) -> Sample | None:
    from tests.real_models.getting import CannotGet, file_of

    try:
        return Sample(name, file_of(name, one), BEFORE.get(name, ()), SIZES.get(name, dict(one.dims)))
    except CannotGet as error:
        print(f"{name} cannot be had: {error}", file=sys.stderr, flush=True)
        return None


def attention() -> Iterator[Maker]:
    """Every module and architecture of the table of attention, in every column of it."""
    from tests.attention.cases import table
    from tests.attention.exporting import export

    def made(case: Any) -> Sample | None:
        found = export(case)
        return None if found.path is None else Sample(f"attention/{case.name}", found.path)

    return (partial(made, case) for case in table())


def architectures() -> Iterator[Maker]:
    """Whole architectures, through both exporters."""
    from tests.architectures.cases import cases as every
    from tests.architectures.exporting import export

    return (partial(_exported, "architectures", export, case) for case in every())


def activations() -> Iterator[Maker]:
    """The exports in which GELUs are counted."""
    from tests.exports import cases as every
    from tests.exports import export

    return (partial(_exported, "exports", export, case) for case in every())


def _exported(group: str, export: Callable[[Any], Any], case: Any) -> Sample | None:
    try:
        return Sample(f"{group}/{case.name}", export(case)[0])
    except Exception as error:  # noqa: BLE001  an exporter raises what it likes
        print(f"{case.name} is not exported: {type(error).__name__}", file=sys.stderr, flush=True)
        return None


def matrix() -> Iterator[Maker]:
    """Every form of the matrix of activations, norms and products, in every column.

    In an order of no meaning, always the same, so that a run that broke off has seen a sample.
    """
    from tests.matrix.sample import every

    def made(part: Any, place: int) -> Sample | None:
        form = part.exports()[place]
        return None if form.path is None else Sample(f"matrix/{form.name}", form.path)

    parts = every()
    random.Random(0).shuffle(parts)
    for part in parts:
        for place in range(len(part.exports())):
            yield partial(made, part, place)


SMALL = 16  # elements of an input that may be a setting
GROUPS: dict[str, Callable[[], Iterator[Maker]]] = {
    "kept": kept,
    "cases": cases,
    "held": held,
    "real": real,
    "attention": attention,
    "architectures": architectures,
    "exports": activations,
    "matrix": matrix,
}


