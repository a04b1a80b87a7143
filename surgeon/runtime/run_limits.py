"""Options of commands that run whole models: time limits, the runtime, and inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surgeon.errors import UsageError

Inputs: TypeAlias = str | Path | Mapping[str, Any]
"""A set of inputs: arrays by name, or a path that leads to some."""

DEFAULT_TIMEOUT = 120.0
LONGEST = 365 * 24 * 3600.0  # seconds that anybody may ask for: what systems count in takes no more than some decades
"""Seconds of processor time that one run of a whole model may take where nothing else is said, and to load it."""

TENSORRT = "tensorrt"
Runtime: TypeAlias = Literal["onnxruntime", "tensorrt"]
RUNTIMES = ("onnxruntime", TENSORRT)
"""What runs whole models, the usual one first."""


def require_run_time(seconds: float) -> None:
    """Raise UsageError for a time in which nothing can run."""
    if not 0 < seconds <= LONGEST:
        raise UsageError(f"A run cannot take {seconds:g} s; give it some seconds, as in --run-time 600.")


def as_list(given: Inputs | Sequence[Inputs]) -> Sequence[Any]:
    """The value as a list, also if it is one path or one set of arrays."""
    return (given,) if isinstance(given, (str, Path, Mapping)) else given
