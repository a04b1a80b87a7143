"""The command `surgeon append`: adds post-processing behind a model's outputs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.commands.edit import edit_options, run_edits, single_input_or_output
from surgeon.cli.commands.merge import run_merge
from surgeon.cli.options import check_and_output_options, explain_invalid_names
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


class Kind(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4 on
    """The kind of post-processing, or the path of another model."""

    name = "kind"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the kind or path."""
        if value not in TAKES and not str(value).endswith(".onnx"):
            self.fail(f"{value!r} cannot be appended; give one of {', '.join(TAKES)}, or FILE.onnx", param, ctx)
        return str(value)


@click.command(short_help="Put what is done with the answer behind a model.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.argument("kind", type=Kind(), metavar=f"{'|'.join(TAKES)}|FILE.onnx")
@click.option(
    "--output",
    "name",
    metavar="NAME",
    help="Behind which output; for a detector the tensor of boxes.  [default: the only one; of a detector, as found]",
)
@click.option("--axis", type=int, help="argmax, softmax, topk: along which axis.  [default: -1]")
@click.option("-k", "k", type=int, help="topk: how many.  [default: 5]")
@click.option("--keep", is_flag=True, default=None, help="argmax, softmax, sigmoid, topk: the scores stay too.")
@click.option("--scores", metavar="NAME", help="Detectors: the tensor of scores, where the head has two.")
@click.option(
    "--head", type=click.Choice(["yolov8", "yolov5"]), help="Detectors: how one output lies.  [default: by its shape]"
)
@click.option(
    "--form", type=click.Choice(["cxcywh", "xyxy"]), help="Detectors: how a box is written.  [default: by the graph]"
)
@click.option(
    "--activation",
    type=click.Choice(["sigmoid", "softmax", "none"]),
    help="Detectors: what makes probabilities of the scores, where the model does not.",
)
@click.option(
    "--background",
    type=click.Choice(["first", "last", "none"]),
    help="Detectors: the class that is none.  [default: behind a softmax the first with nms, the last with best-boxes]",
)
@click.option("--iou", type=float, help="nms: above which overlap the lower of two boxes goes.  [default: 0.45]")
@click.option("--least", type=float, help="nms: which score a detection has to exceed.  [default: 0.25]")
@click.option(
    "--most", type=int, help="nms: how many are kept of a class in one picture; best-boxes: in all.  [default: 100]"
)
@click.option("--agnostic", is_flag=True, default=None, help="nms: boxes of different classes drop each other too.")
@click.option("--tunable", is_flag=True, default=None, help="nms: the limits are inputs with these values.")
@click.option(
    "--extra",
    type=int,
    help="nms: how many numbers behind its scores follow a box, as coefficients of masks.  [default: 0]",
)
@click.option("--single", is_flag=True, default=None, help="best-boxes: a box counts for its best class alone.")
@edit_options
@check_and_output_options("auto", "model", "none", layers=False)
@explain_invalid_names
def append(source: str, output: str, options: "CheckOptions", **settings: Any) -> None:
    """Let OUT answer with the best class, probabilities, the best few, or detections, instead of raw numbers.

    The head of a detector is found by structure: what a suppression of its own reads, or boxes beside scores.
    FILE.onnx appends another model, whose only input the answer feeds; `surgeon merge` connects several.
    Example: surgeon append yolov8n.onnx detector.onnx nms --iou 0.5 --least 0.3
    """
    other_settings = {name: value for name, value in settings.items() if name not in (*SETTINGS, "kind", "name")}
    kind, ctx = settings["kind"], click.get_current_context()
    if kind in TAKES:
        run_edits(requested_edits(ctx), source, output, options=options, **other_settings)
        return
    _given_settings(kind, (), ctx)
    other_settings["check"] = "none" if other_settings["check"] == "none" else "model"
    connections = {
        settings["name"] or single_input_or_output(source, "output"): [single_input_or_output(kind, "input", "merge")]
    }
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
    given = {name: ctx.params[name] for name in SETTINGS if ctx.params[name] is not None}
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{kind} has no setting {unknown!r}; it has {', '.join(known) or 'none'}.")
    return given
