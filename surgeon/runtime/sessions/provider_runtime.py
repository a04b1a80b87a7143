"""Models under an execution provider of ONNX Runtime other than the CPU's, in workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.runtime.processes.worker_main import ReportProgress
from surgeon.runtime.provider_support import CPU, ProviderSupport
from surgeon.runtime.sessions.isolated_session import IsolatedSession
from surgeon.runtime.sessions.ort_session import OrtSession, installed_providers
from surgeon.runtime.sessions.session_tasks import hold_as
from surgeon.target_registry import RuntimeMissing
from surgeon.versions import RUNTIMES, version


@dataclass(frozen=True, slots=True)
class ProviderRuntime:
    """How models run under one execution provider."""

    provider: str
    """ONNX Runtime's name of it."""
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

    def open(self, model: ModelProto) -> IsolatedSession:
        """Return a session of a model.  Raises SessionError."""
        return IsolatedSession((model, self), self.run_time, f"{__name__}:hold")


def hold(asked: tuple[ModelProto, ProviderRuntime], _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Open a model instead of the previous one; the tasks of `session_tasks` then use it."""
    model, runtime = asked
    return hold_as(lambda: OrtSession(model, runtime.custom_ops, provider=runtime.provider))


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
    names = {name.lower().removesuffix("executionprovider"): name for name in installed_providers()}
    if support.name not in names:
        raise RuntimeMissing(f"the installed ONNX Runtime has no {support.title} provider")
    if support.name == CPU:
        return None
    return ProviderRuntime(names[support.name], f"the {support.title} provider", tuple(custom_ops), run_time)
