"""The folder of a decoder as blocks."""

import re
from collections.abc import Iterator

from surgeon.display.blocks import Document, Text, outcome, plain_text
from surgeon.display.content.report import nodes_change, steps_document, steps_json
from surgeon.display.registry import builder_of, reports
from surgeon.edits.decoders.decoder_folder import CONFIG, MODEL, DecoderReport
from surgeon.precision.convert_report import ConvertReport
from surgeon.proof.check_result import CheckResult
from surgeon.text import format_count


@reports(DecoderReport, "decoder", steps_json)
def document(report: DecoderReport) -> Document:
    """The model of the folder, and the limits of its use."""
    change: tuple[Text, ...] = (nodes_change(report.nodes),)
    if report.config:
        model = report.config["model"]["decoder"]
        layers, heads = (format_count(model[f"num_{what}"], noun) for what, noun in _COUNTS.items())
        caches = f"{model['num_key_value_heads']} of keys and values, size {model['head_size']}"
        change = (*change, f"  {layers}, {heads}, {caches}")
    made = steps_document(report, change, _notes(report), f"{MODEL}, {CONFIG}", proof=_proof(report.check))
    made = made._replace(summary=[row for row in made.summary if row[0] != "next"])  # these steps are not the user's
    return made._replace(done=_done(made), summary=_summary(report, made)) if report.proved and report.config else made


_COUNTS = {"hidden_layers": "layer", "attention_heads": "head"}


def _done(made: Document) -> list[Text]:
    """The steps that say something about the folder; the details list all of them."""
    silent = "^sequence-sizes|nothing to change$|nothing fired; "
    return [line for line in made.done if not re.search(silent, plain_text(line))]


def _summary(report: DecoderReport, made: Document) -> list[tuple[Text, Text]]:
    """The outcome, the losses of weights, and the limits of a folder that is proved."""
    count = len(report.sites)
    words = [f"{count} of {count} sites" if count else "", _proof(report.check)]
    losses = [builder_of(step).build(step).summary for step in report.steps if isinstance(step, ConvertReport)]
    reason = "; ".join(filter(None, [*words, *(plain_text(rows[0][1]) for rows in losses)]))
    first = outcome(report.outcome), reason or "every node and weight is the original's own, names apart"
    return [first, *(row for rows in losses for row in rows[1:-1]), *_notes(report), made.summary[-1]]


def _proof(check: CheckResult | None) -> str:
    """The comparison of decoding, as a clause."""
    if check is None or check.worst is None or not check.proved:
        return "" if check is None else f"decoding: {check.reason}"
    return f"decoding equal to the original for each sequence by itself (largest error {check.worst.max_abs:.2g})"


def _notes(report: DecoderReport) -> Iterator[tuple[Text, Text]]:
    """The limits that a user of the folder meets."""
    if report.unfused:
        yield "note", f"attention is not fused with its cache: {report.unfused}"
    if report.config:
        tokens = f"{report.config['model']['context_length']:,} tokens"
        shared = "share one buffer" if report.shares_buffers else "have separate buffers"
        if any(site.proof is not None and "batch of one" in site.proof.reason for site in report.sites):
            yield "note", "sites are proved for sequences without padding; a batch with a past takes one token a step"
        yield "note", f"at most {tokens}; pasts and presents {shared}; onnxruntime-genai pads batches on the right"
