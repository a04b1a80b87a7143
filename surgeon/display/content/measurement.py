"""The measured choice of a rewrite as lines: the latency of the result, the chosen forms, and how to repeat it."""

from collections.abc import Iterator, Mapping

from surgeon.display.blocks import Number, Section, Span, Table, Text, outcome
from surgeon.display.content.bench import others_text, ratios_plot, threads_text
from surgeon.display.content.report import dotted
from surgeon.pipeline.reports.measurement import BUSY, KEPT, SAME_GRAPH, Measurement
from surgeon.runtime.timing.latency import Bench, LatencyRatio
from surgeon.runtime.timing.samples import FASTER, Interval, outcome_of
from surgeon.text import format_count

MIB = 1 << 20


def measured_rows(found: Measurement) -> Iterator[tuple[Text, Text]]:
    """The rows of a measurement."""
    yield _headline(found)
    if found.gains and found.outcome != KEPT:
        yield "chosen", dotted(map(_gain_text, found.gains))
    if found.equal:
        equal = "ONNX Runtime makes the same graph of all forms when it loads the model"
        yield "equal", f"{', '.join(found.equal)}: {equal}"
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

    table = Table("Ratios of latencies", ("", "ratio", "95 % interval", ""), rows, most=len(rows))
    return Section("measured", [table, ratios_plot(names, ratios)] if ratios else [])


def gain_name(ratio: LatencyRatio) -> str:
    """The result at a shape, or a form by another."""
    other = ratio.reference.partition(": ")[2]
    return f"{ratio.model} by {other}" if other else _sizes(ratio) or ratio.model


def _sizes(ratio: LatencyRatio) -> str:
    return ", ".join(f"{name} {size}" for name, size in ratio.sizes.items())


def _headline(found: Measurement) -> tuple[Text, Text]:
    bench, models = found.bench, format_count(found.models, "model")
    if found.outcome == BUSY:
        advice = "The forms are the default ones, not measured. Try again, or with --threads 1."
        return outcome(BUSY), f"{others_text(found.busy)}. {advice}"
    if found.outcome == SAME_GRAPH or bench is None:
        return outcome("equal"), "ONNX Runtime makes the same graph of the model and of the result when it loads them"
    text = f"{_by_shape(bench)}; {bench.ep}, {threads_text(bench.threads)}; {models} measured"
    if found.outcome == KEPT:
        return outcome(KEPT), f"no result is bounded by {1 + found.margin:.2f} of the model's time; the best: {text}"
    is_faster = all(ratio.verdict == FASTER for ratio in bench.ratios)
    return outcome(FASTER if is_faster else "not slower"), f"{text}{_memory(found.memory)}"


def _by_shape(bench: Bench) -> str:
    """The ratio at each shape: "0.842 (0.837 to 0.851) of the model's time at batch 1, sequence 128"."""
    texts: list[str] = []
    for ratio in bench.ratios:
        slow = "".join(f", {_interval(one)} while the machine is slow" for one in ratio.states[1:])
        of = " of the model's time" if not texts else ""
        texts.append(f"{_interval(ratio.states[0])}{of}{f' at {_sizes(ratio)}' if ratio.sizes else ''}{slow}")
    return "; ".join(texts)


def _interval(one: Interval) -> str:
    return f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})"


def _memory(memory: Mapping[str, int]) -> str:
    """The working memory before and after, if it is known."""
    if len(memory) < 2:
        return ""
    before, after = (f"{memory[name] / MIB:,.0f}" for name in ("original", "result"))
    return f"; {after} MiB of memory for a run instead of {before}"


def _gain_text(gain: LatencyRatio) -> str:
    """A chosen form by another: "residual: summed first 0.902 of inside the norm"."""
    equal = "" if outcome_of(gain.states) == FASTER else ", no difference within noise"
    return f"{gain.model} {gain.ratio:.3f} of {gain.reference.partition(': ')[2]}{equal}"
