"""The command `surgeon append`: adds post-processing behind a model's outputs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from surgeon.cli.commands.edit import run_edits, single_input_or_output
from surgeon.cli.commands.merge import run_merge
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.param_types import ParsedType
from surgeon.errors import UsageError
from surgeon.printed_commands import command

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit
    from surgeon.proof.check_options import CheckOptions

_HEAD = ("scores", "head", "form", "activation", "background")
_TAILS = {
    "nms": (*_HEAD, "iou", "least", "most", "agnostic", "tunable", "extra"),
    "efficient-nms": (*_HEAD, "iou", "least", "most", "agnostic"),
    "best-boxes": (*_HEAD, "most", "single"),
    "boxes": _HEAD,
}
TAKES = {
    "argmax": ("axis", "keep"),
    "softmax": ("axis", "keep"),
    "sigmoid": ("keep",),
    "topk": ("k", "axis", "keep"),
    **_TAILS,
}
"""The settings of each kind."""
SETTINGS = tuple(dict.fromkeys(name for takes in TAKES.values() for name in takes))


def _kind(text: str) -> str:
    """The kind of post-processing, or the path of another model."""
    if text not in TAKES and not text.endswith(".onnx"):
        raise ValueError(f"{text!r} cannot be appended; give one of {', '.join(TAKES)}, or FILE.onnx")
    return text


@derived_command(
    "edit surgeon.edits.append:AppendTopK surgeon.edits.detection.nms:AppendNms "
    "surgeon.edits.detection.nms_free:AppendBestBoxes surgeon.edits.detection.postprocessing_edits:detector_tail",
    {"source": "IN", "output": "OUT", "kind": f"{'|'.join(TAKES)}|FILE.onnx"},
    without="edits tail settings layers proof_time jobs",
    shared="report_path diff quiet",
    kind=Spelling(type=ParsedType("kind", _kind)),
    name=Spelling("--output", "NAME"),
    k=Spelling("-k"),
    scores=Spelling(metavar="NAME"),
)
def append(
    source: str,
    output: str,
    kind: str,
    options: "CheckOptions",
    name: str | None = None,
    activation: Literal["sigmoid", "softmax", "none"] | None = None,
    background: Literal["first", "last", "none"] | None = None,
    **settings: Any,
) -> None:
    """Let OUT answer with the best class, probabilities, the best few, or detections, instead of raw numbers.

    The head of a detector is found by structure: what its own suppression reads, or boxes beside scores.
    FILE.onnx appends another model, whose only input the answer feeds; `surgeon merge` connects several.
    Example: surgeon append yolov8n.onnx detector.onnx nms --iou 0.5 --least 0.3

    Args:
        name: the output to append to; for a detector the tensor of boxes.  By default the only output, or the head.
        activation: the function that makes probabilities of a detector's scores, where the model has none.
    """
    other_settings = {name: value for name, value in settings.items() if name not in SETTINGS}
    ctx = click.get_current_context()
    if kind in TAKES:
        run_edits(requested_edits(ctx), source, output, options=options, **other_settings)
        return
    _given_settings(kind, (), ctx)
    other_settings["check"] = "none" if other_settings["check"] == "none" else "model"
    connections = {name or single_input_or_output(source, "output"): [single_input_or_output(kind, "input", "merge")]}
    run_merge(source, kind, output, connect=connections, options=options, **other_settings)


def requested_edits(ctx: click.Context) -> "list[Edit]":
    """The edits of the command line.  Raises UsageError for a setting that the kind does not have."""
    from surgeon.edits.append import AppendArgMax, AppendSigmoid, AppendSoftmax, AppendTopK
    from surgeon.edits.detection.postprocessing_edits import detector_tail

    kind, name = ctx.params["kind"], ctx.params["name"]
    if kind not in TAKES:
        how = command("merge", "IN", kind, "OUT", "--connect", "OUTPUT=INPUT")
        raise UsageError(f"{kind} is a model, which a recipe cannot append; merge it: {how}")
    given = _given_settings(kind, TAKES[kind], ctx)
    if kind in _TAILS:
        return detector_tail(ctx.params["source"], kind, output=name or "", **given)
    kinds: dict[str, Any] = {
        "argmax": AppendArgMax,
        "softmax": AppendSoftmax,
        "sigmoid": AppendSigmoid,
        "topk": AppendTopK,
    }
    return [kinds[kind](name or single_input_or_output(ctx.params["source"], "output"), **given)]


def _given_settings(kind: str, known: Sequence[str], ctx: click.Context) -> dict[str, Any]:
    """The settings of the command line.  Raises UsageError for a setting that the kind does not have."""
    typed = [name for name in SETTINGS if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]
    given = {name: ctx.params[name] for name in typed}
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{kind} has no setting {unknown!r}; it has {', '.join(known) or 'none'}.")
    return given
