"""The texts of a latency measurement."""

from collections.abc import Iterator

from surgeon.runtime.timing.latency import Bench
from surgeon.text import format_count, seconds_text, short_names

PERCENTILES, MEDIAN = (50, 5, 25, 75, 95), 50
"""The reported percentiles, and the median among them."""


def percentile_title(share: int) -> str:
    """The title of a percentile."""
    return "median" if share == MEDIAN else f"p{share}"


def bench_lines(found: Bench) -> Iterator[tuple[str, str]]:
    """The conditions of the measurement: titles and texts."""
    threads = format_count(found.threads, 'thread') if found.threads else "a thread on each core"
    sizes = "".join(f", {name} = {size}" for name, size in found.sizes.items())
    time = "processor time" if found.cpu_time else "time"
    first = short_names([latency.name for latency in found.models])[0]
    yield "ratio", f"of the {time} to that of {first} in the same round: median, interval by the sign test"
    loads = len(found.models[0].loads)
    what = f"ONNX Runtime ({found.ep}), {threads}" if found.ep else f"{found.runtime}, on the GPU"
    yield "rounds", f"{found.rounds} in {loads} loads under {what}{sizes}"
    yield "time", seconds_text(found.seconds)
