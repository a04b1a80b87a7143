"""The installed versions that results depend on, read without importing them."""

import platform
from importlib import metadata
from pathlib import Path

# The name on the package index. `surgeon` there is an unrelated project, so messages must not name it to pip.
DISTRIBUTION = "onnx-surgeon"

# The distributions that contain the module onnxruntime.
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
    """The installed distributions of ONNX Runtime; if there are several, the last one has overwritten the others."""
    return [name for name in RUNTIMES if version(name) != NONE]


def version(*distributions: str) -> str:
    """The version of the first installed distribution, or NONE."""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return NONE


def versions() -> dict[str, str]:
    """The versions of surgeon, of Python, and of the packages that its results depend on."""
    found = {"surgeon": own_version(), **{name: version(name) for name in ("onnx", "numpy")}}
    return {"python": platform.python_version(), **found, "onnxruntime": version(*RUNTIMES)}


def own_version() -> str:
    """The version of surgeon as installed, or from the pyproject.toml of a checkout; NONE without both."""
    found = version(DISTRIBUTION)
    return found if found != NONE else _checkout_version(Path(__file__).resolve().parents[1] / "pyproject.toml")


def _checkout_version(path: Path) -> str:
    """The version in surgeon's pyproject.toml; NONE if the file is missing or of another project."""
    import tomllib  # not at the top: only a checkout that is not installed needs it

    if not path.is_file():
        return NONE
    project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    return str(project["version"]) if project.get("name") == DISTRIBUTION else NONE


def install_command(extra: str) -> str:
    """The command that installs an extra of surgeon, for messages."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'
