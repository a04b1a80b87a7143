"""ONNX Runtime: its own ops are preferred; standard ones, which it runs too, stay."""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from surgeon.target_registry import ANY_KIND, Provider
from surgeon.targets.target import Target

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import ModelProto

    from surgeon.file.model import Model
    from surgeon.target_registry import TargetRuntime
    from surgeon.targets.lint.finding import Diagnostic, DiagnosticCollector
    from surgeon.targets.op_limits import Limit


def _table(name: str) -> Callable[[], dict[str, Any]]:
    def read() -> dict[str, Any]:
        text = files("surgeon.targets").joinpath(f"data/kernels_{name}.json").read_text(encoding="utf-8")
        table: dict[str, Any] = json.loads(text)
        return table

    return read


def _cuda_limits() -> "Mapping[str, Limit]":
    from surgeon.targets.ort_cuda_limits import LIMITS

    return LIMITS


CPU = Provider("cpu", "CPU", _table("cpu"), is_of_ort=True)
CUDA = Provider("cuda", "CUDA", _table("cuda"), is_of_ort=True, runs_bodies=True, limits=_cuda_limits)
DML = Provider("dml", "DirectML", _table("dml"), is_of_ort=True, runs_bodies=True)
TENSORRT = Provider("tensorrt", "TensorRT", _table("tensorrt"), is_of_ort=True)  # it takes parts of a graph as they are


def _check_header(model: "ModelProto", found: "DiagnosticCollector") -> None:
    from surgeon.targets.lint.model_versions import check_with_runtime

    check_with_runtime(model, found)


def _proof_runtime(ep: str | None, libraries: "Sequence[Path | str]", run_time: float) -> "TargetRuntime | None":
    from surgeon.runtime.sessions.provider_runtime import find_provider

    return find_provider(ep, libraries, run_time)


def _load(model: "Model", libraries: Sequence[str], run_time: float) -> "Diagnostic | None":
    from surgeon.targets.lint.ort_load import load_error

    return load_error(model, libraries, run_time)


TARGET = Target(
    name="ort",
    title="ONNX Runtime",
    writes=("ort", "onnx", ANY_KIND),
    runs=("ort", "onnx"),
    providers=(CPU, CUDA, DML, TENSORRT),
    also=("contrib",),
    takes_libraries=True,
    knows_imports=True,
    check_header=_check_header,
    load=_load,
    proof_runtime=_proof_runtime,
)
