"""Names of edits among the names of rules: adding post-processing to a detector changes what the model computes.

Such a site cannot be proved equal, so these are not rules.  `surgeon rewrite` makes the edit first, verified as edits
are, and runs the rules over the result.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from surgeon.errors import UsageError
from surgeon.printed_commands import DEFAULT, command, placed


class EditAlias(NamedTuple):
    """The edit that a name stands for."""

    kind: str
    """Kind of post-processing, as in `surgeon append`."""
    summary: str
    """What it does, in one sentence."""
    target: str = ""
    """The only target that runs it; "" for any."""


EDIT_ALIASES: Mapping[str, EditAlias] = {
    "nms": EditAlias("nms", "Let a detector answer with detections: ONNX's NonMaxSuppression behind its head."),
    "efficient_nms": EditAlias(
        "efficient-nms",
        "Let a detector answer with detections: TensorRT's plugin EfficientNMS_TRT behind its head.",
        "tensorrt",
    ),
    "best_boxes": EditAlias(
        "best-boxes", "Let a detector answer with its best boxes, suppressing none (DETR and its kin)."
    ),
    "raw_boxes": EditAlias(
        "boxes", "Let a detector answer with boxes by their corners and scores, without suppression."
    ),
}


def split_edit_aliases(names: Any) -> tuple[list[Any], list[str]]:
    """Rules for `resolve`, and the names of edits among the given names.

    Raises UsageError for two edits; `resolve` handles anything that is neither a name nor a rule.
    """
    items = [names] if isinstance(names, (str, bytes)) or not isinstance(names, Iterable) else list(names)
    rules: list[Any] = []
    tails: list[str] = []
    for item in items:
        if not isinstance(item, str):
            rules.append(item)
            continue
        parts = [part.strip() for part in item.split(",")]
        tails += [part for part in parts if part in EDIT_ALIASES]
        left = ",".join(part for part in parts if part not in EDIT_ALIASES)
        if left or not any(part in EDIT_ALIASES for part in parts):
            rules.append(left)
    tails = list(dict.fromkeys(tails))
    if len(tails) > 1:
        raise UsageError(f"{' and '.join(tails)} are two tails of one detector; name one.")
    return rules, tails


def is_edit_message(name: str) -> str:
    """The message for the name of an edit where only rules are allowed."""
    plain = command("rewrite", "IN", "OUT", "--rules", name, *placed(EDIT_ALIASES[name].target or DEFAULT, None))
    settings = command("append", "IN", "OUT", EDIT_ALIASES[name].kind)
    return f"{name} changes what a model answers, so it is an edit: {plain}, or with settings: {settings}"
