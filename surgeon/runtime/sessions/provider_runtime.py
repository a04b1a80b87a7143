"""Models under an execution provider of ONNX Runtime other than the CPU's, in workers; it may be of a plugin."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.runtime.processes.worker import ALL_MEMORY, Task, TaskFailure, acquire_worker, release_worker
from surgeon.runtime.processes.worker_main import ReportProgress
from surgeon.runtime.provider_support import CPU, ProviderSupport
from surgeon.runtime.sessions.ep_library import PluginProvider, full_name, library_of, short_name
from surgeon.runtime.sessions.isolated_session import IsolatedSession, session_error_of
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError, installed_providers
from surgeon.runtime.sessions.session_tasks import hold_as
from surgeon.target_registry import RuntimeMissing
from surgeon.target_registry import provider as registered_provider
from surgeon.versions import RUNTIMES, version


@dataclass(frozen=True, slots=True)
class ProviderRuntime:
    """How models run under one execution provider."""

    provider: str | PluginProvider
    """ONNX Runtime's name of it, or one of a plugin."""
    label: str
    """Its name in sentences."""
    custom_ops: Sequence[Path | str]
    """Shared libraries of custom operators."""
    run_time: float
    """Limit of processor time, in seconds, to load a model and for each run."""
    precision: str = ""
    """Empty, because products of float32 have full precision (see `OrtSession`)."""

    @property
    def title(self) -> str:
        """Its name in sentences, with the version of ONNX Runtime."""
        return f"{self.label} of ONNX Runtime {version(*RUNTIMES)}"

    def open(self, model: Path | ModelProto) -> IsolatedSession:
        """Return a session of a model.  Raises SessionError."""
        return IsolatedSession((model, self), self.run_time, f"{__name__}:hold", library_of(self.provider))


def hold(asked: tuple[Path | ModelProto, ProviderRuntime], _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Open a model instead of the previous one; the tasks of `session_tasks` then use it."""
    model, runtime = asked

    def opened() -> OrtSession:
        session = OrtSession(model, runtime.custom_ops, provider=runtime.provider)
        session.name = runtime.title
        return session

    return hold_as(opened)


def elsewhere(asked: tuple[Path | ModelProto, ProviderRuntime], _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """The task of `nodes_elsewhere`."""
    model, runtime = asked
    try:
        with OrtSession(model, runtime.custom_ops, provider=runtime.provider) as session:
            return {"nodes": session.nodes_elsewhere()}, []
    except SessionError as refused:
        return {"refused": refused.message}, []


def nodes_elsewhere(model: Path | ModelProto, runtime: ProviderRuntime) -> list[tuple[str, str]]:
    """The op and the name of each node that a plugin leaves to another provider.  Raises SessionError."""
    child = acquire_worker(library_of(runtime.provider))
    try:
        answer = child.run(Task(f"{__name__}:elsewhere", (model, runtime), runtime.run_time, ALL_MEMORY))
    finally:
        release_worker(child)
    if isinstance(answer, TaskFailure):
        raise session_error_of(answer, runtime.run_time)
    if "refused" in answer.value:
        raise SessionError(answer.value["refused"])
    return [(op, name) for op, name in answer.value["nodes"]]


def plugin_runtime(
    provider: str | PluginProvider, custom_ops: Sequence[Path | str], run_time: float
) -> ProviderRuntime:
    """The runtime of a provider."""
    known = registered_provider(short_name(provider))
    title = full_name(provider).removesuffix("ExecutionProvider") if known is None else known.title
    return ProviderRuntime(provider, f"the {title} provider", tuple(custom_ops), run_time)


def runtime_of(
    provider: str | PluginProvider, custom_ops: Sequence[Path | str], run_time: float
) -> ProviderRuntime | None:
    """The runtime of a provider; None for the CPU provider."""
    return None if short_name(provider) == CPU else plugin_runtime(provider, custom_ops, run_time)


def find_provider(ep: str | None, custom_ops: Sequence[Path | str], run_time: float) -> ProviderRuntime | None:
    """The runtime of an execution provider by its short name; None for the CPU provider, and for "any" or None.

    Raises RuntimeMissing if the installed ONNX Runtime does not have it.
    """
    if ep in (None, "any", CPU):
        return None
    try:
        support = ProviderSupport.of(str(ep))
    except UsageError as error:
        raise RuntimeMissing(str(error)) from error
    names = {short_name(name): name for name in installed_providers()}
    if support.name not in names:
        raise RuntimeMissing(f"the installed ONNX Runtime has no {support.title} provider")
    return runtime_of(names[support.name], custom_ops, run_time)
