"""The kernels that the installed ONNX Runtime lists.

Listing them loads the library of each provider that ONNX Runtime was built with, which may end the process
(quirks.MISSING_PROVIDER_LIBRARY).  A worker does it if there are such providers.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surgeon.runtime.processes.worker_main import ReportProgress

# Providers without a library to load.
_BUILT_IN = frozenset({"CPUExecutionProvider", "AzureExecutionProvider", "CoreMLExecutionProvider"})
_SECONDS = 60.0
_TELL = f"{__name__}:tell"


@dataclass(frozen=True, slots=True)
class InstalledKernels:
    """The kernels of one provider."""

    version: str
    """Version of ONNX Runtime."""
    rows: list[tuple[str, str, int, int, dict[str, list[str]]]]
    """Domain, op, first and last version, and type strings by type variable, one row for each kernel."""


def listed(name: str) -> InstalledKernels | None:
    """The kernels of a provider by its short name; None if ONNX Runtime has none, or cannot list them."""
    try:
        from onnxruntime import get_available_providers
    except ImportError:
        return None
    if _BUILT_IN.issuperset(get_available_providers()):
        content: dict[str, Any] = tell(name)[0]
    else:
        from surgeon.runtime.processes.worker import (  # not at the top: few users have other providers
            Task,
            TaskResult,
            acquire_worker,
            release_worker,
        )

        child = acquire_worker()
        try:
            answer = child.run(Task(_TELL, name, _SECONDS))
        finally:
            release_worker(child)
        if not isinstance(answer, TaskResult):
            return None
        content = answer.value
    return InstalledKernels(content["version"], content["rows"]) if content["rows"] else None


def tell(name: str, _: "ReportProgress | None" = None) -> tuple[dict[str, Any], list[Any]]:
    """The version and the rows of `InstalledKernels`; runs as a task of a worker."""
    from onnxruntime import __version__

    try:
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def
    except ImportError:  # it is not public API
        return {"version": __version__, "rows": []}, []
    rows = [
        (one.domain, one.op_name, *one.version_range, {key: list(kinds) for key, kinds in one.type_constraints.items()})
        for one in get_all_opkernel_def()
        if one.provider.lower() == f"{name}executionprovider"
    ]
    return {"version": __version__, "rows": rows}, []
