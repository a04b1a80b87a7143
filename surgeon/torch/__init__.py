"""Exports torch modules to ONNX, with placeholders for unknown operators.  The only package that loads torch.

import surgeon.torch
exported = surgeon.torch.export(module, (x,), "out.onnx", placeholders=["mylibrary::addandround_op"])
"""

from importlib import import_module
from typing import Any

from surgeon.errors import UsageError
from surgeon.versions import install_command

_HOME = {
    "Exported": "exporters.module_export",
    "compare": "module_comparison",
    "export": "exporters.module_export",
    "implement": "eager_ops",
    "is_supported": "exporters.exporter_support",
    "learn": "pattern_learning.module_patterns",
    "pattern": "pattern_learning.module_patterns",
    "register": "placeholders.registration",
    "unregister": "placeholders.registration",
    "unsupported": "exporters.exporter_support",
}
_NEEDS = ("torch", "onnxscript", "onnx_ir")

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _NEEDS:
            raise
        raise UsageError(
            f"surgeon.torch needs {error.name}, which is not installed. Install it: {install_command('torch')}"
        ) from error


def __dir__() -> list[str]:
    return sorted(_HOME)
