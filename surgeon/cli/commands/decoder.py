"""The command `surgeon decoder`: writes the folder of a decoder for onnxruntime-genai."""

from collections.abc import Sequence
from typing import Any

from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import run_and_report


@derived_command(
    "decoder",
    {"source": "IN", "output": "OUTDIR"},
    without="progress layers",
    shared="report_path verbose quiet diff",
    tokenizer=Spelling(metavar="DIR"),
    jobs=Spelling(section="Checks"),
)
def decoder(source: str, output: str, eos: Sequence[int] = (), **settings: Any) -> None:
    """Write the folder OUTDIR, from which onnxruntime-genai generates text with the decoder IN.

    IN has its cache of keys and values as inputs and outputs.  surgeon finds them in the nodes, runs the rules for
    ONNX Runtime, proves each replacement, and writes genai_config.json next to the model.
    Example: surgeon decoder in.onnx folder --context 2048 --eos 2
    Exit codes: 1 a site was rolled back or a check failed
    """
    from surgeon.edits.decoders.decoder_folder import decoder as run

    def work(note: Any, **given: Any) -> Any:
        return output, run(source, output, eos=eos, progress=note, **given)

    run_and_report(work, (source, output), **settings)
