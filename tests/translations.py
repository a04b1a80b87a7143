"""What the dynamo exporter works out anew at every export, remembered for a process: half of what a small one takes.

It reads the source of all translations and the signatures of all functions, and looks for all operators once for each
of some thirty namespaces.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

CLASSES = ("TracedOnnxFunction", "OnnxFunction")


def read_once(patch: pytest.MonkeyPatch) -> None:
    """Remember what was worked out; nothing where no torch is loaded.

    onnxscript is slow to load, and a run without torch makes few exports or none.  Where another version keeps
    something elsewhere, it is worked out each time: slower, and no less right.
    """
    if "torch" not in sys.modules:
        return
    values = _module("onnxscript._internal.values")
    for name in CLASSES:
        read = vars(getattr(values, name, object)).get("function_ir")
        if isinstance(read, property) and read.fget is not None:
            patch.setattr(getattr(values, name), "function_ir", property(_remembering(read.fget)))
    schemas = _module("torch.onnx._internal.exporter._schemas")
    if hasattr(schemas, "op_signature_from_function"):
        remembered = _remembering(schemas.op_signature_from_function)
        patch.setattr(schemas, "op_signature_from_function", remembered)
    operators = _module("torch._export.utils")
    if hasattr(operators, "_materialize_cpp_cia_ops"):
        patch.setattr(operators, "_materialize_cpp_cia_ops", _where_new(operators._materialize_cpp_cia_ops))


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _remembering(read: Callable[..., Any]) -> Callable[..., Any]:
    """As `read`, which is asked of each function once with the same further arguments."""
    found: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def remembered(function: Any, *args: Any, **named: Any) -> Any:
        key = (id(function), args, *named.items())
        if key not in found:
            found[key] = (function, read(function, *args, **named))  # who is kept keeps its id
        return found[key][1]

    return remembered


def _where_new(look: Callable[[], None]) -> Callable[[], None]:
    """As `look`, which brings all operators that C++ knows into `torch.ops`, unless it knows the same as before."""
    import torch

    known: list[list[str]] = []

    def looked() -> None:
        now = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if known != [now]:
            look()
            known[:] = [now]

    return looked
