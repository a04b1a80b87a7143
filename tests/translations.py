"""The dynamo exporter's translations, read once for a process: it reads the source of all of them at every export."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

CLASSES = ("TracedOnnxFunction", "OnnxFunction")


def read_once(patch: pytest.MonkeyPatch) -> None:
    """Remember what was read, which takes as long as a small export; nothing where no torch is loaded.

    onnxscript is slow to load, and a run without torch makes few exports or none.
    """
    if "torch" not in sys.modules:
        return
    try:
        values = importlib.import_module("onnxscript._internal.values")
    except ImportError:  # another version keeps them elsewhere: slower, and no less right
        return
    for name in CLASSES:
        read = vars(getattr(values, name, object)).get("function_ir")
        if isinstance(read, property) and read.fget is not None:
            patch.setattr(getattr(values, name), "function_ir", property(_remembering(read.fget)))


def _remembering(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    found: dict[int, tuple[Any, Any]] = {}

    def remembered(function: Any) -> Any:
        if id(function) not in found:
            found[id(function)] = (function, read(function))  # who is kept keeps its id
        return found[id(function)][1]

    return remembered
