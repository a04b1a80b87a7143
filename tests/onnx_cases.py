"""onnx's own test cases of single ops: a model, inputs, and the outputs that the standard wants.

onnx collects them once per process, for one op or for all: so this is the one place that asks.  As it takes ten
seconds, most of them to pool three large volumes in Python, what was collected is kept beside the exports.
"""

import os
import pickle
import warnings
from functools import cache
from importlib import metadata
from typing import Any

from onnx import TensorProto, numpy_helper

from tests.exports import cache_base

LONG_BEFORE_ROUNDING = (
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
)
"""Cases that want corners aligned with those of an output 2.4 elements long, before that is rounded to 2.  The text of
Resize says otherwise (`length_resized`), and so does ONNX Runtime, which does not pass them."""


@cache
def onnx_cases() -> tuple[Any, ...]:
    """All cases that have data."""
    kept = cache_base() / f"onnx-cases-{'-'.join(name + metadata.version(name) for name in ('onnx', 'numpy'))}.pickle"
    if not kept.exists():
        partial = kept.with_name(f".{os.getpid()}-{kept.name}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(pickle.dumps(_collected()))
        partial.replace(kept)
    return tuple(pickle.loads(kept.read_bytes()))  # our own file, in the cache of whoever runs the tests


def _collected() -> tuple[Any, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose
        from onnx.backend.test.case.node import collect_testcases

        return tuple(case for case in collect_testcases(None) if case.data_sets)


def cases_of(op: str) -> list[Any]:
    """The cases of one op of ai.onnx by itself, not of functions that hold it."""
    return [case for case in onnx_cases() if [node.op_type for node in case.model.graph.node] == [op]]


def array_of(item: Any) -> Any:
    """An input or output as an array where the case has it as a TensorProto."""
    return numpy_helper.to_array(item) if isinstance(item, TensorProto) else item
