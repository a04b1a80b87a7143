"""A quantisation of weights as blocks: the losses of the whole model and of each layer, and the kept nodes."""

from collections.abc import Iterator

from surgeon.display.blocks import ARROW, DOT, Cell, Document, Number, Section, Span, Table, Text, lines_of
from surgeon.display.content.conversion import kept_node_rows
from surgeon.display.content.report import counted_line, headed_document, outcome_rows
from surgeon.display.registry import reports
from surgeon.precision.weights.quantize_report import QuantizedLayer, QuantizeReport
from surgeon.text import format_count, runs_text

_SHOWN = 3  # layers with the largest errors
_HEADS = ("node", "op", "weight", "size", "weight off by", "output off by")


@reports(QuantizeReport, "quantize")
def document(report: QuantizeReport) -> Document:
    """A quantisation of weights."""
    before, after = (f"{size / 1e6:,.1f}" for size in report.bytes)
    blocks = f" in blocks of {report.block}{'' if report.symmetric else ', with zero points'}"
    change = (report.change[0], " ", ARROW, f" {report.change[1]}{blocks}, {before} ", ARROW, f" {after} MB")
    counts: list[Text] = [
        [format_count(report.converted, "node"), " read rounded weights ", DOT, f" {len(report.kept):,} kept"],
        *([counted_line(report.rules)] if report.rules else []),
    ]
    layers = Section("layers", [Table("Layers", _HEADS, list(map(_layer_row, report.layers)))])
    return headed_document(report, change, done=counts, rows=_rows(report), details=[layers])


def _rows(report: QuantizeReport) -> Iterator[tuple[Text, Text]]:
    yield from outcome_rows(report, _outcome_words(report))
    if report.divergence is not None:
        best = f"{report.best[0]:,} of {report.best[1]:,} rows have the same best score"
        yield "scores", f"{best}; the KL divergence is {report.divergence:.2g} on average"
    yield from lines_of("layer", layer_lines(report))
    yield from lines_of("kept", [f"{nodes}: {reason}" for nodes, reason in kept_node_rows(report)])
    yield from lines_of("note", report.notes)


def _outcome_words(report: QuantizeReport) -> str:
    """The reason for the outcome: the runs and their errors, or why nothing is known."""
    if report.outcome == "unchanged":
        return f"no weight of it can be {report.change[1]}"
    if report.error is None or report.kernel_error is None or report.reason:
        return report.reason
    moved = f"outputs change by at most {report.error:.2g} of their largest value"
    error = f"within {report.kernel_error:.1g}" if report.kernel_error else "exactly"
    rounded = f"they are those of the rounded weights {error}"
    return f"{moved}, on {runs_text(report.runs, report.oracle)}; {rounded}"


def layer_lines(report: QuantizeReport) -> Iterator[str]:
    """The layers with the largest errors: of the outputs, or of the weights if no outputs were compared."""
    known = [layer for layer in report.layers if layer.error is not None]
    for layer in sorted(known, key=lambda one: (one.output_error or 0.0, one.error or 0.0), reverse=True)[:_SHOWN]:
        output = "" if layer.output_error is None else f", the output by {layer.output_error:.2g}"
        yield f"{layer.op} {layer.node}: the weight is off by {layer.error:.2g}{output}"
    if known[_SHOWN:]:
        errors = [layer.error or 0.0 for layer in known]
        yield f"the weights of all {len(known):,} layers are off by {min(errors):.2g} to {max(errors):.2g}"


def _layer_row(layer: QuantizedLayer) -> tuple[Cell, ...]:
    """A layer with its errors."""
    errors = [Number("" if one is None else f"{one:.2g}", one or 0.0) for one in (layer.error, layer.output_error)]
    return Span(layer.node, "code"), layer.op, Span(layer.weight, "code"), f"{layer.rows} x {layer.columns}", *errors
