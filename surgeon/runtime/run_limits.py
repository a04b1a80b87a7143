"""Options of commands that run whole models: time limits, the runtime, and inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surgeon.errors import UsageError

Inputs: TypeAlias = str | Path | Mapping[str, Any]
"""A set of inputs: arrays by name, or the path of a file or folder."""

DEFAULT_TIMEOUT = 120.0
"""Default limit of processor time, in seconds, to load a whole model and for each run of it."""
LONGEST = 365 * 24 * 3600.0
"""The longest time that a user may give, in seconds: counters of operating systems overflow after some decades."""

TENSORRT = "tensorrt"
Runtime: TypeAlias = Literal["onnxruntime", "tensorrt"]
RUNTIMES = ("onnxruntime", TENSORRT)
"""Runtimes for whole models, the default first."""


def require_run_time(seconds: float) -> None:
    """Raise UsageError unless the time is positive and at most `LONGEST`."""
    if not 0 < seconds <= LONGEST:
        raise UsageError(f"Invalid run time of {seconds:g} s. Give seconds, for example --run-time 600.")


def as_list(given: Inputs | Sequence[Inputs]) -> Sequence[Any]:
    """The value as a list, even if it is one path or one set of arrays."""
    return (given,) if isinstance(given, (str, Path, Mapping)) else given
