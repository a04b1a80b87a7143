"""The measured choice of a rewrite as lines: the latency of the result, the chosen forms, and how to repeat it."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from surgeon.display.blocks import DOT, Figure, Number, Section, Span, Table, Text, outcome
from surgeon.pipeline.reports.measurement import BUSY, KEPT, SAME_GRAPH, Measurement
from surgeon.runtime.timing.latency import Bench, LatencyRatio
from surgeon.runtime.timing.samples import FASTER, Interval, outcome_of
from surgeon.text import format_count

if TYPE_CHECKING:
    from surgeon.display.pictures.svg import Picture

MIB = 1 << 20


def measured_rows(found: Measurement) -> Iterator[tuple[Text, Text]]:
    """The rows of a measurement."""
    yield _headline(found)
    if found.gains and found.outcome != KEPT:
        yield "chosen", [part for gain in found.gains for part in (" ", DOT, " ", _gain_text(gain))][3:]
    if found.equal:
        names = ", ".join(found.equal)
        yield "equal", f"{names}: ONNX Runtime makes the same graph of all forms when it loads the model"
    if found.outcome not in (KEPT, BUSY):
        yield "repeat", f"without measurements: --rules {','.join(found.rules)}"


def measured_section(found: Measurement) -> Section:
    """The ratios of the result by shape, and of chosen forms by others: a table, and a plot with their intervals."""
    ratios = [*(found.bench.ratios if found.bench is not None else ()), *found.gains]
    names = [gain_name(ratio) for ratio in ratios]
    rows = [
        (Span(name, "code"), Number(f"{one.ratio:.3f}", one.ratio), f"{one.low:.3f} to {one.high:.3f}", ratio.verdict)
        for name, ratio in zip(names, ratios, strict=True)
        for one in ratio.states
    ]

    def draw() -> "Picture":
        from surgeon.display.pictures.interval_plot import interval_plot

        return interval_plot(names, ratios)

    heads = ("", "ratio", "95 % interval", "")
    plot = Figure(draw, "ratios with their 95 % intervals; 1 is equal")
    return Section("measured", [Table("Ratios of latencies", heads, rows, most=len(rows)), plot] if ratios else [])


def gain_name(ratio: LatencyRatio) -> str:
    """The result at a shape, or a form by another."""
    sizes = ", ".join(f"{name} {size}" for name, size in ratio.sizes.items())
    return f"{ratio.model} by {ratio.reference.partition(': ')[2]}" if ": " in ratio.model else sizes or ratio.model


def _headline(found: Measurement) -> tuple[Text, Text]:
    bench, models = found.bench, format_count(found.models, "model")
    if found.outcome == BUSY:
        used = f"other processes use {100 * found.busy:.0f} % of the processors"
        return outcome(BUSY), f"{used}. The forms are the default ones, not measured. Try again, or with --threads 1."
    if found.outcome == SAME_GRAPH or bench is None:
        return outcome("equal"), "ONNX Runtime makes the same graph of the model and of the result when it loads them"
    text = f"{_by_shape(bench)}; {_conditions(bench)}; {models} measured"
    if found.outcome == KEPT:
        return outcome(KEPT), f"no result is bounded by {1 + found.margin:.2f} of the model's time; the best: {text}"
    is_faster = all(ratio.verdict == FASTER for ratio in bench.ratios)
    return outcome(FASTER if is_faster else "not slower"), f"{text}{_memory(found.memory)}"


def _by_shape(bench: Bench) -> str:
    """The ratio at each shape: "0.842 (0.837 to 0.851) of the model's time at batch 1, sequence 128"."""
    texts: list[str] = []
    for ratio in bench.ratios:
        sizes = ", ".join(f"{name} {size}" for name, size in ratio.sizes.items())
        slow = "".join(f", {_interval(one)} while the machine is slow" for one in ratio.states[1:])
        of = " of the model's time" if not texts else ""
        texts.append(f"{_interval(ratio.states[0])}{of}{f' at {sizes}' if sizes else ''}{slow}")
    return "; ".join(texts)


def _interval(one: Interval) -> str:
    return f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})"


def _conditions(bench: Bench) -> str:
    threads = format_count(bench.threads, "thread") if bench.threads else "a thread on each core"
    return f"{bench.ep}, {threads}"


def _memory(memory: Mapping[str, int]) -> str:
    """The working memory before and after, if it is known."""
    if len(memory) < 2:
        return ""
    before, after = (memory[name] / MIB for name in ("original", "result"))
    return f"; {after:,.0f} MiB of memory for a run instead of {before:,.0f}"


def _gain_text(gain: LatencyRatio) -> str:
    """A chosen form by another: "residual: Sum 0.902 of SkipLayerNormalization"."""
    other = gain.reference.partition(": ")[2]
    equal = "" if outcome_of(gain.states) == FASTER else ", no difference within noise"
    return f"{gain.model} {gain.ratio:.3f} of {other}{equal}"
