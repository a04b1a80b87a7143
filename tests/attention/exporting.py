"""Exports of the cases, made in this process one at a time, and kept in the cache folder with what torch ran.

The key of each holds the versions of the libraries and the source of what made it.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

from tests.architectures.exporting import LIBRARIES, folder
from tests.attention.cases import BY_LIBRARIES, DECOYS, FORMS, MORE, Case, Variant
from tests.attention.inputs import Input, Inputs

HERE = Path(__file__).parent
SOURCES = ("inputs.py", "torch_export.py")


@dataclass(frozen=True)
class Export:
    """What became of a case.

    path: the file, None where the exporter raised.  truth: how often torch ran each operation.  inputs: the model's,
    in their order.  loops: outputs that become inputs of the next step, by the input.  fault: the exporter's words.
    """

    case: Case
    path: Path | None
    truth: dict[str, int]
    inputs: Inputs
    loops: dict[str, str]
    fault: str

    @property
    def name(self) -> str:
        """As the case's."""
        return self.case.name


def export(case: Case) -> Export:
    """The export of a case; made on first use, then taken from the cache, also where it failed."""
    place = _folder() / f"{_key(*SOURCES, *_own(case.variant))}-{case.name}.onnx"
    record = place.with_suffix(".json")
    if not record.exists():
        _make(case, place, record)
    known = json.loads(record.read_text(encoding="utf-8"))
    inputs = {name: Input(one["role"], tuple(one["shape"])) for name, one in known["inputs"].items()}
    return Export(case, None if known["fault"] else place, truth(case.variant), inputs, known["loops"], known["fault"])


def truth(variant: Variant) -> dict[str, int]:
    """How often torch ran each operation; counted on first use."""
    path = _folder() / f"{_key('inputs.py', 'ground_truth.py', *_own(variant))}-{variant.name}.json"
    if not path.exists():
        found = json.dumps(_torch_side().count(variant))
        keep(path, lambda partial: partial.write_text(found, encoding="utf-8"))
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _own(variant: Variant) -> tuple[str, ...]:
    """The sources that a variant is built from."""
    if variant.model in DECOYS:
        return ("decoys.py", "modules.py")
    if variant.model in BY_LIBRARIES:
        return ("library_modules.py", "modules.py")
    if variant.model in MORE:
        return ("models.py", "more_models.py")
    return ("modules.py",) if variant.model in FORMS else ("models.py",)


def _torch_side() -> ModuleType:
    """torch_export, knowing all models; torch loads only when an export is missing."""
    from tests.attention import library_modules, more_models, torch_export

    more_models.register()
    library_modules.register()
    return torch_export


def _make(case: Case, place: Path, record: Path) -> None:
    """Export a case; its record is written last."""
    torch_export, subject, fault = _torch_side(), None, ""
    partial = place.with_name(f".{os.getpid()}-{place.name}")
    try:
        subject = torch_export.export(case, partial)
        partial.replace(place)
    except Exception as error:  # noqa: BLE001  an exporter raises what it likes; the table shows it
        partial.unlink(missing_ok=True)
        fault = error_text(error)
    inputs = {} if subject is None else {name: asdict(one) for name, one in subject.inputs.items()}
    found = json.dumps({"inputs": inputs, "loops": {} if subject is None else subject.loops, "fault": fault})
    keep(record, lambda partial: partial.write_text(found, encoding="utf-8"))


def error_text(error: BaseException) -> str:
    """An exporter's words, without its advice: those of the error that it wrapped, if any."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]


def keep(path: Path, make: Callable[[Path], object]) -> None:
    """Make a file so that it is there whole or not at all."""
    partial = path.with_name(f".{os.getpid()}-{path.name}")
    make(partial)
    partial.replace(path)


@cache
def _folder() -> Path:
    """Where exports are kept: beside those of the architectures."""
    versions = "-".join(f"{name}{metadata.version(name)}" for name in LIBRARIES if name != "diffusers")
    found = folder().parent / f"attention-{versions}"
    found.mkdir(parents=True, exist_ok=True)
    return found


@cache
def _key(*names: str) -> str:
    return hashlib.sha256("".join(_meaning(HERE / name) for name in names).encode()).hexdigest()[:8]


def kept_at(*sources: str, name: str) -> Path:
    """Where something made by these sources is kept."""
    return _folder() / f"{_key(*sources)}-{name}"


def _meaning(path: Path) -> str:
    """A source without its layout, comments and docstrings, so that only what it does is in the key."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _is_text(item)]
    return ast.dump(tree)


def _is_text(item: ast.AST) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)
