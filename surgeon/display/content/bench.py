"""A measurement of latencies as blocks: a table, and a plot of the ratios with their intervals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from surgeon.display.blocks import Block, Cell, Document, Figure, Number, Span, Table, Text, outcome
from surgeon.display.registry import reports
from surgeon.runtime.timing.latency import Bench, LatencyRatio, milliseconds_text, short_names
from surgeon.runtime.timing.samples import FASTER, SLOWER, UNDECIDED
from surgeon.text import format_count, seconds_text

if TYPE_CHECKING:
    from surgeon.display.pictures.svg import Picture

HEADS = ("", "", "original, ms", "ms", "ratio", "95 % interval", "")
ROLES = {FASTER: "good", SLOWER: "bad"}


@reports(Bench, "bench")
def document(found: Bench) -> Document:
    """The latencies of several models: a row for each ratio, by shape and state of the machine."""
    names = short_names(list(found.names))
    labels = [(name, _sizes_text(_varying(found, sizes))) for sizes in found.shapes for name in names[1:]]
    rows = [row for label, ratio in zip(labels, found.ratios, strict=True) for row in _rows(label, ratio)]

    plot = ratios_plot([", ".join(filter(None, label)) for label in labels], found.ratios)
    details: list[Block] = [Table("Milliseconds of one run", HEADS, rows, most=len(rows)), plot]
    return Document(" and ".join(names), details, list(bench_lines(found)))


def ratios_plot(names: Sequence[str], ratios: Sequence[LatencyRatio]) -> Figure:
    """A plot of ratios with their intervals."""

    def draw() -> "Picture":
        from surgeon.display.pictures.interval_plot import interval_plot

        return interval_plot(names, ratios)

    return Figure(draw, "ratios with their 95 % intervals; 1 is equal")


def threads_text(threads: int) -> str:
    """The threads of one operator."""
    return format_count(threads, "thread") if threads else "a thread on each core"


def others_text(share: float) -> str:
    """How busy other processes keep the machine."""
    return f"other processes use {100 * share:.0f} % of the processors"


def _rows(label: Sequence[str], ratio: LatencyRatio) -> Iterator[Sequence[Cell]]:
    """The rows of one ratio; without ratios on a busy machine, because they mean nothing."""
    states = ratio.states[: 1 if ratio.is_busy else None]
    for name, state in zip(("fast", "slow"), states, strict=False):
        word = UNDECIDED if ratio.is_busy else state.outcome
        milliseconds = state.reference_milliseconds, state.milliseconds
        beside = Number("", 1.0), Number("", 1.0)
        if not ratio.is_busy:
            interval = Number(f"{state.low:.3f} to {state.high:.3f}", state.low)
            beside = Number(f"{state.ratio:.3f}", state.ratio), interval
        numbers = (*(Number(milliseconds_text(number), number) for number in milliseconds), *beside)
        which = f" ({name} state, {state.loads} loads)" if states[1:] else ""
        yield *(Span(text, "code") for text in label), *numbers, Span(f"{word}{which}", ROLES.get(word, ""))


def bench_lines(found: Bench) -> Iterator[tuple[Text, Text]]:
    """The conditions of the measurement: titles and texts."""
    first = short_names(list(found.names))[0]
    fixed = {key: size for key, size in found.sizes.items() if key not in _varying(found, found.sizes)}
    what = f"ONNX Runtime ({found.ep}), {threads_text(found.threads)}" if found.ep else f"{found.runtime}, on the GPU"
    time = "processor time" if found.cpu_time else "time"
    sizes = f", {_sizes_text(fixed)}" if fixed else ""
    loads = f"{format_count(len(found.samples), 'load')} ({found.rounds} rounds) under {what}{sizes}"
    if found.busy:
        why = f"{others_text(found.busy)}, and threads wait for each other"
        yield outcome(UNDECIDED), f"{why}. Try again, or measure with --threads 1."
    yield "ratio", f"of the {time} to that of {first} in the same load: median, interval by the sign test"
    yield "loads", f"{loads}; {seconds_text(found.seconds)}"


def _sizes_text(sizes: Mapping[str, int]) -> str:
    """Sizes as a person types them."""
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def _varying(found: Bench, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that are not the same at each shape."""
    return {name: size for name, size in sizes.items() if any(one[name] != size for one in found.shapes)}
