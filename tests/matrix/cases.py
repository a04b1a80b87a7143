"""Cases of the matrix and their exports: made in this process on first use, one family at a time, and cached.

A family of forms is exported as one model, as dynamo's cost is by the export and not by its size, and cut into one
file for each form, which share no tensor.  Where a family as a whole does not export, each form is tried alone, so that
one form's fault is not another's.  A batch axis is free at even opsets and fixed at odd ones.

The cache is `$XDG_CACHE_HOME/surgeon-matrix`, in folders by library versions and by the source of the factory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    from tests.matrix.forms import Form  # whose file loads torch

OPSETS = {"ts": range(11, 21), "dynamo": range(18, 24)}
DTYPES = ("fp32", "fp16")
FACTORY = ("forms", "torch_export", "cases")
"""Files that every export depends on; beside them, each on the file that its family is in."""


@dataclass(frozen=True)
class Column:
    """One way to export: `exporter` "ts" or "dynamo", ONNX `opset`, `dtype` "fp32" or "fp16"."""

    exporter: str
    opset: int
    dtype: str

    @property
    def name(self) -> str:
        """For instance `dynamo18-fp16`."""
        return f"{self.exporter}{self.opset}-{self.dtype}"


@dataclass(frozen=True)
class Export:
    """What became of one form in one column.

    path: the file, None where the exporter failed.  truth: sites that torch ran, by operation.  fault: the exporter's
    own words, empty where it wrote a file.
    """

    form: str
    column: Column
    path: Path | None
    truth: dict[str, int]
    fault: str

    @property
    def name(self) -> str:
        """For instance `gelu.nn-dynamo18-fp16`."""
        return f"{self.form}-{self.column.name}"


def columns() -> tuple[Column, ...]:
    """Every exporter, opset and dtype."""
    return tuple(Column(name, opset, dtype) for name, opsets in OPSETS.items() for opset in opsets for dtype in DTYPES)


@cache
def cache_folder(family_name: str) -> Path:
    """Where a family's exports are kept: a folder for each set of library versions and each version of the factory."""
    from tests.matrix.modules import file_of

    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surgeon-matrix"
    versions = [f"{name}{metadata.version(name)}" for name in ("torch", "onnx", "onnxscript")]
    here = Path(__file__).parent
    files = [here / f"{name}.py" for name in (*FACTORY, file_of(family_name))] + [here.parent / "truth.py"]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:8]
    return base / "-".join([*versions, key])


@cache
def family(name: str, column: Column, start: int = 0, step: int = 1) -> tuple[Export, ...]:
    """The exports of the forms of a family in one column, from the one at `start` on one of `step`."""
    from tests.matrix.modules import FAMILIES

    forms = FAMILIES[name][start::step]
    folder = cache_folder(name) / column.name / (name if step == 1 else f"{name}-{start}-of-{step}")
    record = folder / "exports.json"
    if not record.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _make(forms, column, folder)
    known = json.loads(record.read_text(encoding="utf-8"))
    return tuple(
        Export(
            form.name,
            column,
            folder / f"{form.name}.onnx" if not known[form.name]["fault"] else None,
            **known[form.name],
        )
        for form in forms
    )


def _make(forms: Sequence[Form], column: Column, folder: Path) -> None:
    """Export forms into their folder; the record is written last, so a broken run leaves none."""
    from tests.matrix import torch_export  # torch loads only when an export is missing

    truth = {form.name: torch_export.count(form, column.dtype) for form in forms}
    faults = dict.fromkeys(truth, "")
    if _export(forms, column, folder):
        for form in forms:
            faults[form.name] = _export([form], column, folder)
    found = {form: {"truth": truth[form], "fault": faults[form]} for form in truth}
    partial = folder / f".{os.getpid()}.json"
    partial.write_text(json.dumps(found, indent=1), encoding="utf-8")
    os.replace(partial, folder / "exports.json")


def _export(forms: Sequence[Form], column: Column, folder: Path) -> str:
    """Export forms as one model and cut it apart; the first line of what the exporter raised, else nothing."""
    from tests.matrix import torch_export

    whole = folder / f".{os.getpid()}.onnx"
    try:
        torch_export.export(forms, column.exporter, column.opset, column.dtype, whole, dynamic=column.opset % 2 == 0)
    except Exception as error:  # noqa: BLE001  an exporter raises what it likes; the table shows it
        lines = [line for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
    model = onnx.load(whole)
    whole.unlink()
    for place, form in enumerate(forms):
        onnx.save(cut(model, place), folder / f"{form.name}.onnx")
    return ""


def cut(model: onnx.ModelProto, place: int) -> onnx.ModelProto:
    """The form at this place of a family's model: what its outputs are made of, and nothing else."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    graph = part.graph
    outputs = [value for value in graph.output if value.name.startswith(f"y{place}_")]
    inputs = [value for value in graph.input if value.name.startswith(f"x{place}_")]
    needed = {value.name for value in outputs}
    kept = []
    for node in reversed(graph.node):  # makers stand before users
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(name for name in _reads(node) if name)
    nodes = list(reversed(kept))
    initializers = [item for item in graph.initializer if item.name in needed]
    values = [item for item in graph.value_info if item.name in needed]
    for field, items in (
        (graph.node, nodes),
        (graph.initializer, initializers),
        (graph.value_info, values),
        (graph.input, inputs),
        (graph.output, outputs),
    ):
        copies = [type(item).FromString(item.SerializeToString()) for item in items]
        del field[:]
        field.extend(copies)
    return part


def _reads(node: onnx.NodeProto) -> list[str]:
    """Tensors that a node reads, also those that its bodies take from outside."""
    found = list(node.input)
    for attribute in node.attribute:
        bodies = [attribute.g, *attribute.graphs] if attribute.type in (5, 10) else []
        for body in bodies:
            found += [name for inner in body.node for name in _reads(inner)]
            found += [value.name for value in body.output]
    return found
