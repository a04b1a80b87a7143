"""The versions of what results depend on, as they are installed; nothing is imported for it."""

import platform
from importlib import metadata

# The distributions that bring the module onnxruntime.
RUNTIMES = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
    "onnxruntime-migraphx",
    "onnxruntime-rocm",
    "onnxruntime-training",
)
NONE = "none"


def runtimes() -> list[str]:
    """The distributions of ONNX Runtime that are installed; of several the last one has overwritten the others."""
    return [name for name in RUNTIMES if version(name) != NONE]


def version(*distributions: str) -> str:
    """The version of the first of these distributions that is installed, or NONE."""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return NONE


def versions() -> dict[str, str]:
    """The versions of surgeon and of what its results depend on, Python among them."""
    found = {name: version(name) for name in ("surgeon", "onnx", "numpy")}
    return {"python": platform.python_version(), **found, "onnxruntime": version(*RUNTIMES)}
