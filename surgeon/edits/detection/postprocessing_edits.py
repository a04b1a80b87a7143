"""Selects the edits that append post-processing to a detector, from its head's structure."""

from collections.abc import Mapping
from typing import Any

from surgeon.edits.append import AppendSigmoid, AppendSoftmax
from surgeon.edits.detection.find_head import NMS_OP, DetectorHead, describe_head, find_head
from surgeon.edits.detection.head_columns import SIGMOID, SOFTMAX
from surgeon.edits.detection.head_decoding import BACKGROUND_CLASSES, DetectorEdit
from surgeon.edits.detection.nms import EFFICIENT_NMS_OP, AppendEfficientNms, AppendNms
from surgeon.edits.detection.nms_free import AppendBestBoxes, AppendBoxes
from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, resolve_model
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.proof.model.exposed_outputs import required_nodes

POSTPROCESSING: Mapping[str, type[DetectorEdit]] = {
    "nms": AppendNms,
    "efficient-nms": AppendEfficientNms,
    "best-boxes": AppendBestBoxes,
    "boxes": AppendBoxes,
}
ACTIVATIONS = (SIGMOID, SOFTMAX)
SUPPRESSING: Mapping[str, str] = {"nms": NMS_OP, "efficient-nms": EFFICIENT_NMS_OP}
"""By post-processing that suppresses boxes, the op that it inserts."""


def has_postprocessing(draft: ModelDraft, tail: str) -> bool:
    """Whether a model already ends with the suppression that `postprocessing_edits` would append."""
    nodes = draft.index.main.by_op.get(SUPPRESSING.get(tail, ""), ())
    names = [value.name for value in draft.graph.output]
    made = {name for node in nodes for name in node.outputs}
    return names[: len(POSTPROCESSING[tail].output_names)] == list(POSTPROCESSING[tail].output_names) and all(
        not made.isdisjoint(required_nodes(draft.graph, [name])[1] | {name})
        for name in POSTPROCESSING[tail].output_names
    )


def detector_tail(
    source: ModelLike,
    tail: str = "nms",
    *,
    output: str = "",
    scores: str = "",
    activation: str = "",
    background: str = "",
    **settings: Any,
) -> list[Edit]:
    """The edits that append post-processing to a detector, whose head is found by structure.

    If the model has a NonMaxSuppression, its inputs are the head; its limits are reused and its outputs removed.  If
    not, the head is the outputs that are boxes [batch, count, 4] and their scores, and that depend on most nodes.  If
    there are none, it is the only output with three axes.  The nodes that compute the boxes show the box format.

    Args:
        source: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
        tail: "nms", "efficient-nms", "best-boxes" or "boxes": see `AppendNms`, `AppendEfficientNms`,
            `AppendBestBoxes` and `AppendBoxes`.
        output: the tensor of boxes, or of boxes and scores in one; empty to find it.
        scores: the tensor of scores, if there are two tensors.
        activation: the function that turns scores into probabilities, "sigmoid" or "softmax", if the model has none.
        background: the class that means "no object" after a softmax: "first", "last" or "none"; by default the first
            with a suppression (SSD) and the last with the best boxes (DETR).
        settings: further settings of the post-processing.

    Returns:
        The edits, in order: for `surgeon.edit`.

    Raises:
        UsageError: no head is found, several are equally good, or the scores may not be probabilities.
        ModelFileError: the file cannot be read.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.detector_tail("notebooks/models/tiny_distilbert.onnx", "best-boxes")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        surgeon.errors.UsageError: ...
    """
    with Model.open(resolve_model(source)) as model:
        given = {"activation": activation, "background": background, **settings}
        return postprocessing_edits(ModelDraft(model), tail, output=output, scores=scores, **given)


def postprocessing_edits(
    draft: ModelDraft,
    tail: str,
    *,
    output: str = "",
    scores: str = "",
    activation: str = "",
    background: str = "",
    **settings: Any,
) -> list[Edit]:
    """As `detector_tail`, for a draft."""
    if tail not in POSTPROCESSING:
        raise UsageError(f"Unknown post-processing {tail!r} of a detector. Choose one of {', '.join(POSTPROCESSING)}.")
    for name, given, known in (("activation", activation, ACTIVATIONS), ("background", background, BACKGROUND_CLASSES)):
        if given and given not in (*known, "none"):
            raise UsageError(f"Unknown {name} {given!r} of scores. Choose one of {', '.join(known)}, or none.")
    found = describe_head(draft, output, scores) if output and output in draft.tensors() else _found(draft, output)
    return _edits(
        draft, found, tail, is_searched=not output, activation=activation, background=background, settings=settings
    )


def _found(draft: ModelDraft, output: str) -> DetectorHead:
    if output:
        draft.output(output)  # raises, with the nearest names
    return find_head(draft)


def _edits(
    draft: ModelDraft,
    found: DetectorHead,
    tail: str,
    is_searched: bool,
    activation: str,
    background: str,
    settings: Mapping[str, Any],
) -> list[Edit]:
    """The edits for a head.  is_searched: it was not named, so its scores must be recognisable as probabilities."""
    edits: list[Edit] = []
    scores = found.scores
    if scores:
        _require_described(found, activation or ("" if is_searched else "none"), str(settings.get("form") or ""))
    if scores and activation in ACTIVATIONS:
        axis = _class_axis(draft, found)
        edits.append(AppendSoftmax(scores, axis=axis) if activation == SOFTMAX else AppendSigmoid(scores))
        scores = draft.fresh(f"{scores}_{activation}")
    is_softmax = SOFTMAX in (activation, found.score_activation)
    if not background and is_softmax and not found.is_suppressed and (is_searched or activation):
        background = "last" if tail == "best-boxes" else "first"
    known = POSTPROCESSING[tail].settings()
    given = {**{name: value for name, value in found.nms_thresholds.items() if name in known}, **settings}
    if tail == "best-boxes":
        given.setdefault("single", is_softmax)
    given["form"] = given.get("form") or found.box_format
    edits.append(POSTPROCESSING[tail](found.boxes, scores, background=background.replace("none", ""), **given))
    return edits


def _require_described(found: DetectorHead, activation: str, form: str) -> None:
    """Raise UsageError if the box format is unknown, or whether scores are probabilities."""
    if not found.score_activation and not activation and not found.is_suppressed:
        raise UsageError(
            f"The graph does not show that {found.scores!r} are probabilities. Give their activation with "
            "--activation sigmoid (RT-DETR, Deformable and Conditional DETR, RetinaNet), softmax (DETR, YOLOS, SSD), "
            "or none."
        )
    if not found.box_format and not form:
        raise UsageError(
            f"The graph does not show the box format of {found.boxes!r}. Give it with --form xyxy (corners) "
            "or --form cxcywh (centre and size)."
        )


def _class_axis(draft: ModelDraft, found: DetectorHead) -> int:
    boxes, scores = (draft.shapes.shape(draft.index.main, name) or () for name in (found.boxes, found.scores))
    return -1 if len(scores) == 3 and scores[1] == boxes[1] else 1
