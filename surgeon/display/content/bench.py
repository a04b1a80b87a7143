"""A measurement of latencies as blocks: a table, and a plot of the ratios with their intervals."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from surgeon.display.blocks import Block, Cell, Document, Figure, Number, Span, Table, Text
from surgeon.display.registry import reports
from surgeon.runtime.timing.latency import FASTER, SLOWER, Bench, milliseconds_text, short_names
from surgeon.text import format_count, seconds_text

if TYPE_CHECKING:
    from surgeon.display.pictures.svg import Picture

PERCENTILES = {50: "median", 5: "p5", 25: "p25", 75: "p75", 95: "p95"}
"""The titles of the reported percentiles."""
ROLES = {FASTER: "good", SLOWER: "bad"}
HEADS = ("ms", *PERCENTILES.values(), "ratio", "95 % interval", "")


@reports(Bench, "bench")
def document(found: Bench) -> Document:
    """The latencies of several models."""
    names = short_names([latency.name for latency in found.models])
    rows: list[Sequence[Cell]] = []
    for name, latency, ratio in zip(names, found.models, [None, *found.ratios], strict=True):
        numbers = (latency.percentile(share) for share in PERCENTILES)
        beside: tuple[Cell, ...] = Number("", 1.0), Number("", 1.0), ""
        if ratio is not None:
            interval = Number(f"{ratio.low:.3f} to {ratio.high:.3f}", ratio.low)
            word = ratio.verdict
            beside = Number(f"{ratio.ratio:.3f}", ratio.ratio), interval, Span(word, ROLES.get(word, ""))
        rows.append((Span(name, "code"), *(Number(milliseconds_text(number), number) for number in numbers), *beside))

    def draw() -> "Picture":
        from surgeon.display.pictures.interval_plot import interval_plot

        return interval_plot(names[1:], found.ratios)

    plot = Figure(draw, "ratios with their 95 % intervals; 1 is equal")
    details: list[Block] = [Table("Milliseconds of one run", HEADS, rows, most=len(rows)), plot]
    return Document(" and ".join(names), details, list(bench_lines(found)))


def bench_lines(found: Bench) -> Iterator[tuple[str, Text]]:
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
