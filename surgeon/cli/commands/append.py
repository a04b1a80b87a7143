"""The command `surgeon append`: adds post-processing to the outputs of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from surgeon.cli.commands.edit import IN_OUT, SETTINGS, run_edits, single_input_or_output
from surgeon.cli.commands.merge import run_merge
from surgeon.cli.options import OF_SITES, Spelling, derived_command
from surgeon.cli.param_types import ParsedType
from surgeon.errors import UsageError
from surgeon.printed_commands import command

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit, KeyedEdit
    from surgeon.proof.check_options import CheckOptions

DETECTORS = ("nms", "efficient-nms", "best-boxes", "boxes")
KINDS = ("argmax", "softmax", "sigmoid", "topk", *DETECTORS)


def _kind(text: str) -> str:
    """The kind of post-processing, or the path of another model."""
    if text not in KINDS and not text.endswith(".onnx"):
        raise ValueError(f"unknown post-processing {text!r}; choose {', '.join(KINDS)} or FILE.onnx")
    return text


@derived_command(
    "edit surgeon.edits.append:AppendTopK surgeon.edits.detection.nms:AppendNms "
    "surgeon.edits.detection.nms_free:AppendBestBoxes surgeon.edits.detection.postprocessing_edits:detector_tail",
    IN_OUT | {"kind": f"{'|'.join(KINDS)}|FILE.onnx"},
    without=f"edits tail settings layers {OF_SITES}",
    shared="report_path diff verbose quiet",
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
    """Add post-processing to an output of IN, so that OUT returns the best class, probabilities, top-k or detections.

    surgeon finds the head of a detector by its structure.  FILE.onnx appends another model, whose only input reads the
    output; to connect more inputs, use surgeon merge.
    Example: surgeon append yolov8n.onnx detector.onnx nms --iou 0.5
    Exit codes: 1 OUT computes different results from IN followed by the post-processing

    Args:
        name: output to append to; for a detector, the tensor of boxes.  Default: the only output, or the head.
        activation: function that turns the scores of a detector into probabilities, if the model has none.
    """
    ctx = click.get_current_context()
    given = {name: value for name, value in settings.items() if name in SETTINGS} | {"options": options}
    if kind in KINDS:
        run_edits(requested_edits(ctx), source, output, **given)
        return
    _given_settings(kind, (), ctx)
    given["check"] = "none" if given["check"] == "none" else "model"
    connections = {name or single_input_or_output(source, "output"): [single_input_or_output(kind, "input", "merge")]}
    run_merge(source, kind, output, connect=connections, **given)


def requested_edits(ctx: click.Context) -> "list[Edit]":
    """The edits of the command line.  Raises UsageError for a setting that the kind does not have."""
    from surgeon.edits import AppendArgMax, AppendSigmoid, AppendSoftmax, AppendTopK
    from surgeon.edits.detection.postprocessing_edits import POSTPROCESSING, detector_tail

    kind, name = ctx.params["kind"], ctx.params["name"]
    if kind not in KINDS:
        how = command("merge", "IN", kind, "OUT", "--connect", "OUTPUT=INPUT")
        raise UsageError(f"A recipe cannot append the model {kind}. Merge it instead: {how}")
    if kind in DETECTORS:
        given = _given_settings(kind, ("activation", *POSTPROCESSING[kind].settings()), ctx)
        return detector_tail(ctx.params["source"], kind, output=name or "", **given)
    edits: tuple[type[KeyedEdit], ...] = (AppendArgMax, AppendSoftmax, AppendSigmoid, AppendTopK)
    edit = edits[KINDS.index(kind)]
    given = _given_settings(kind, tuple(edit.settings()), ctx)
    tensor = name or single_input_or_output(ctx.params["source"], "output")
    return [edit(tensor, **given)]  # type: ignore[call-arg]  # the first field of each kind is its tensor


def _given_settings(kind: str, known: Sequence[str], ctx: click.Context) -> dict[str, Any]:
    """The settings of the command line.  Raises UsageError for a setting that the kind does not have."""
    options = [str(item.name) for item in ctx.command.params if getattr(item, "section", "") == "Options"]
    typed = [name for name in options if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]
    given = {name: ctx.params[name] for name in typed if name != "name"}
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{kind} has no setting {unknown!r}. Its settings: {', '.join(known) or 'none'}.")
    return given
