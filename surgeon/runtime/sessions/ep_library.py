"""Execution providers of plugin libraries, which ONNX Runtime registers in each process anew (from version 1.23 on).

A session takes the devices of such a provider instead of its name.  Only workers register libraries, each one library,
because libraries of one name exclude each other.
"""

import importlib
import os
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, Self

from surgeon.errors import UsageError
from surgeon.runtime.processes.worker import Task, TaskResult, acquire_worker, release_worker
from surgeon.runtime.processes.worker_main import ReportProgress

_SUFFIX = "executionprovider"
_SECONDS = 60.0  # of processor time to register a library
_OLD = "the installed ONNX Runtime takes no plugins: they need version 1.23 or newer"


@dataclass(frozen=True, slots=True)
class EpLibrary:
    """A library of execution providers."""

    name: str
    """The name by which ONNX Runtime registers it."""
    path: str
    """Its file."""
    first: str = ""
    """ONNX Runtime's name of the provider that its module names first; "" if unknown."""

    @classmethod
    def of(cls, text: str) -> Self:
        """The library of "MODULE", a Python module with `get_library_path`, or of "NAME=PATH".

        Raises UsageError if the module or the file does not exist.
        """
        name, sign, path = text.partition("=")
        if not sign:
            if os.sep in text or os.path.isfile(text):
                raise UsageError(f"{text!r} is a path. Give it a name: NAME={text}")
            module = _imported(text)
            return cls(text, _path_in(text, module), str(getattr(module, "get_ep_name", str)()))
        if not name or not os.path.isfile(path):
            raise UsageError(f"No library of execution providers at {path!r}. Give NAME=PATH, or a Python module.")
        return cls(name, os.path.abspath(path))


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"Module {name!r} of an execution provider was not found. Install it first.") from None
    except (TypeError, ValueError):  # "" and names that begin with a dot
        raise UsageError(f"{name!r} is not the name of a Python module.") from None


def _path_in(name: str, module: ModuleType) -> str:
    """The library in a module."""
    find = getattr(module, "get_library_path", None)
    if find is None:
        raise UsageError(f"Module {name!r} has no get_library_path. Give the library itself: NAME=PATH")
    try:
        return str(find())
    except OSError as error:
        raise UsageError(f"Module {name!r} has no library: {str(error).rstrip('.')}. Install it again.") from error


class PluginProvider(NamedTuple):
    """One execution provider of a library."""

    name: str
    """ONNX Runtime's name of it."""
    library: EpLibrary
    """Its library."""

    def add_to(self, options: Any, settings: dict[str, str]) -> None:
        """Let a session with these options use the first device of the provider.  Raises as ONNX Runtime does."""
        found = [device for device in _devices(self.library) if device.ep_name == self.name]
        options.add_provider_for_devices(found[:1], settings)
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")


@cache
def _devices(library: EpLibrary) -> list[Any]:
    """The devices of a library, which this process registers."""
    import onnxruntime

    before = {device.ep_name for device in onnxruntime.get_ep_devices()}
    onnxruntime.register_execution_provider_library(library.name, library.path)
    return [
        device
        for device in onnxruntime.get_ep_devices()
        if device.ep_metadata.get("library_path", "") == library.path or device.ep_name not in before
    ]


def probe(library: EpLibrary, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """The providers of a library, and all devices that there are; or why the library cannot be registered."""
    import onnxruntime

    if not hasattr(onnxruntime, "register_execution_provider_library"):
        return {"refused": _OLD}, []
    try:
        names = list(dict.fromkeys(device.ep_name for device in _devices(library)))
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's own exceptions have no common base
        return {"refused": str(error).rpartition(" : ")[2].strip()}, []
    devices = [
        f"{device.ep_name} on {device.device.type.name} ({device.device.vendor})"
        for device in onnxruntime.get_ep_devices()
    ]
    return {"providers": names, "devices": devices}, []


def find_plugin(text: str, ep: str | None) -> PluginProvider:
    """A provider of a library.  text: as for `EpLibrary.of`.  ep: its name, None for that of the module, or the first.

    Raises UsageError if the library cannot be registered, offers no device, or has no such provider.
    """
    library = EpLibrary.of(text)
    child = acquire_worker(library)
    try:
        answer = child.run(Task(f"{__name__}:probe", library, _SECONDS))
    finally:
        release_worker(child)
    if not isinstance(answer, TaskResult):
        raise UsageError(f"The library {library.path} ended the process that registered it ({answer.detail}).")
    if "refused" in answer.value:
        raise UsageError(f"The library {library.path} cannot be registered: {answer.value['refused'].rstrip('.')}.")
    names, devices = answer.value["providers"], ", ".join(answer.value["devices"])
    if not names:
        raise UsageError(f"The library {library.path} offers no device on this machine. Devices here: {devices}.")
    wanted = short_name(ep or (library.first if library.first in names else names[0]))
    for name in names:
        if short_name(name) == wanted:
            return PluginProvider(name, library)
    raise UsageError(f"The library {library.path} has no provider {ep!r}. Choose one of {', '.join(names)}.")


def full_name(provider: str | PluginProvider) -> str:
    """ONNX Runtime's name of a provider."""
    return provider.name if isinstance(provider, PluginProvider) else provider


def library_of(provider: str | PluginProvider) -> EpLibrary | None:
    """The affinity of workers for sessions of a provider."""
    return provider.library if isinstance(provider, PluginProvider) else None


def short_name(provider: str | PluginProvider) -> str:
    """The name of a provider as in `--ep`: "cpu" for "CPUExecutionProvider"."""
    return full_name(provider).lower().removesuffix(_SUFFIX)
