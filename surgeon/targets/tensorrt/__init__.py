"""TensorRT: its plugins, then ONNX; checked by its parser if that is installed, else by its documentation."""

from typing import TYPE_CHECKING

from surgeon.ops.plugins.builtin_plugins import Plugins
from surgeon.target_registry import ANY_KIND
from surgeon.targets.ort import TENSORRT
from surgeon.targets.target import Target
from surgeon.targets.tensorrt.support_matrix import tensorrt_opsets, tensorrt_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from onnx import NodeProto

    from surgeon.ir.index import Index
    from surgeon.target_registry import TargetRuntime
    from surgeon.targets.check_context import CheckContext
    from surgeon.targets.op_limits import Limit


def _limits() -> "Mapping[str, Limit]":
    from surgeon.targets.tensorrt.parser_limits import LIMITS

    return LIMITS


def _examine(asked: "CheckContext") -> None:
    from surgeon.targets.tensorrt.parser_findings import check_model

    check_model(asked)


def _proof_runtime(ep: str | None, libraries: "Sequence[Path | str]", run_time: float) -> "TargetRuntime":
    from surgeon.runtime.tensorrt.isolated_engine import find_runtime

    return find_runtime(run_time)


def _next_steps(index: "Index") -> "Iterator[str]":
    from surgeon.targets.tensorrt.size_advice import next_steps

    return next_steps(index)


def _reads(node: "NodeProto") -> bool:
    from surgeon.targets.tensorrt.documented_support import is_supported

    return is_supported(node)


TARGET = Target(
    name="tensorrt",
    title="TensorRT",
    writes=("tensorrt", "onnx", ANY_KIND),
    runs=("tensorrt", "onnx"),
    like="onnx",
    providers=(TENSORRT,),
    ops=Plugins(),
    own_word="a plugin",
    limits=_limits,
    version=tensorrt_version(),
    opsets=tensorrt_opsets(),
    examine=_examine,
    reads=_reads,
    loads_plugins=True,
    next_steps=_next_steps,
    proof_runtime=_proof_runtime,
)
