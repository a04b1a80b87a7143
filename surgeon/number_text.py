"""Durations, runs and names of models, as they are said everywhere."""

import os

from surgeon.text import format_count


def short_names(names: list[str]) -> list[str]:
    """The names of files without what is the same of all their folders."""
    folders = {os.path.dirname(name) for name in names}
    return [os.path.basename(name) for name in names] if len(folders) == 1 else names


def milliseconds_text(milliseconds: float) -> str:
    """As many digits as a latency is worth: four."""
    places = 3 if milliseconds < 10 else 2 if milliseconds < 100 else 1
    return f"{milliseconds:.{places}f}"


def seconds_text(value: float) -> str:
    """A duration in seconds, as precise as it is worth reading."""
    return f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def runs_text(runs: int, oracle: str) -> str:
    """On what models were compared: "3 sets of inputs under ONNX Runtime"."""
    return f"{format_count(runs, 'set')} of inputs under {oracle}"
