"""Exports of whole architectures, made in this process one at a time and kept in the cache folder.

`export(case)` returns the file and the `Truth`, which is counted on the torch side alone.  The keys of the cache hold
the versions of the libraries and the source of the factory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from tests.architectures.cases import Case
from tests.exports import cache_base

FOLDER = Path(__file__).parent
LIBRARIES = ("torch", "transformers", "diffusers", "onnx", "onnxscript")
EXPORT = (FOLDER / "models.py", FOLDER / "torch_export.py")
COUNT = (FOLDER / "models.py", FOLDER / "ground_truth.py", FOLDER.parent / "truth.py")
OWN = {"feature_classifier": (FOLDER / "decoys.py",)}
"""Sources that only one architecture is built from."""


@dataclass(frozen=True)
class Truth:
    """What torch ran in one forward pass, by name: operations, norms of a residual sum, and norms of any sum."""

    ran: dict[str, int]
    skips: dict[str, int]
    sums: dict[str, int]


def export(case: Case) -> tuple[Path, Truth]:
    """The exported file and what torch ran; made on first use, then taken from the cache."""
    own = OWN.get(case.arch, ())
    path = folder() / f"{_key((*EXPORT, *own))}-{case.name}.onnx"
    counted = folder() / f"{_key((*COUNT, *own))}-{case.arch}-{case.dtype}.json"
    folder().mkdir(parents=True, exist_ok=True)
    if not counted.exists():
        _keep(counted, lambda partial: partial.write_text(json.dumps(asdict(_count(case)))))
    if not path.exists():
        _keep(path, lambda partial: _write(case, partial))
    return path, Truth(**json.loads(counted.read_text()))


@cache
def folder() -> Path:
    """Where exports are kept: one folder for each set of library versions."""
    return cache_base() / "-".join(["architectures", *(f"{name}{metadata.version(name)}" for name in LIBRARIES)])


@cache
def _key(sources: tuple[Path, ...]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]


def _keep(path: Path, make: Callable[[Path], object]) -> None:
    """Make a file so that it is there whole or not at all."""
    partial = path.with_name(f".{os.getpid()}-{path.name}")
    make(partial)
    partial.replace(path)


def _count(case: Case) -> Truth:
    """What one forward pass runs.  torch, transformers and diffusers load only when something is missing."""
    from tests.architectures import ground_truth, models

    module, inputs, _ = models.build(case.arch, case.dtype)
    ran, skips, sums = ground_truth.count(module, tuple(inputs.values()))
    return Truth(dict(ran), dict(skips), dict(sums))


def _write(case: Case, path: Path) -> None:
    """Build the model and write it as ONNX."""
    from tests.architectures import torch_export

    torch_export.export(case.arch, case.exporter, case.opset, case.dtype, path)
