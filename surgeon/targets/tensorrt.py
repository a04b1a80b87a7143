"""TensorRT: its plugins, then ONNX; by its own parser where that is installed, else as its documentation has it."""

from typing import TYPE_CHECKING

from surgeon.target import ANY
from surgeon.targets.ort import TENSORRT
from surgeon.targets.target import Target
from surgeon.targets.tensorrt_ops import tensorrt_opsets, tensorrt_version
from surgeon.targets.tensorrt_plugins import Plugins

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onnx import NodeProto

    from surgeon.diagnosis.limits import Limit
    from surgeon.indexing.index import Index
    from surgeon.targets.examination import Examination


def _limits() -> "Mapping[str, Limit]":
    from surgeon.targets.tensorrt_limits import LIMITS

    return LIMITS


def _examine(asked: "Examination") -> None:
    from surgeon.targets.tensorrt_word import examine

    examine(asked)


def _next_steps(index: "Index") -> "Iterator[str]":
    from surgeon.targets.tensorrt_branches import next_steps

    return next_steps(index)


def _reads(node: "NodeProto") -> bool:
    from surgeon.targets.tensorrt_checks import is_read

    return is_read(node)


TARGET = Target(
    name="tensorrt",
    title="TensorRT",
    writes=("tensorrt", "onnx", ANY),
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
)
