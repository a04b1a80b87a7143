"""Names of edits among the names of rules: adding post-processing to a detector changes what the model computes.

Such a site cannot be proved equal, so these are not rules.  `surgeon rewrite` makes the edit first, verified as edits
are, and runs the rules over the result.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from surgeon.errors import UsageError
from surgeon.printed_commands import DEFAULT, command, placed


class EditAlias(NamedTuple):
    """An edit, by its name among rules."""

    kind: str
    """Kind of post-processing, as in `surgeon append`."""
    summary: str
    """Its effect, in one sentence."""
    target: str = ""
    """The only target that runs it; "" for any."""


EDIT_ALIASES: Mapping[str, EditAlias] = {
    "nms": EditAlias("nms", "Append non-maximum suppression to a detector (NonMaxSuppression of ONNX)."),
    "efficient_nms": EditAlias(
        "efficient-nms",
        "Append non-maximum suppression to a detector (plugin EfficientNMS_TRT of TensorRT).",
        "tensorrt",
    ),
    "best_boxes": EditAlias(
        "best-boxes", "Append the selection of the best boxes, without suppression (DETR and similar detectors)."
    ),
    "raw_boxes": EditAlias(
        "boxes", "Append the conversion of the outputs to corner boxes and scores, without suppression."
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
        raise UsageError(f"{' and '.join(tails)} cannot be combined. Choose one kind of post-processing.")
    return rules, tails


def is_edit_message(name: str) -> str:
    """The message for the name of an edit where only rules are allowed."""
    plain = command("rewrite", "IN", "OUT", "--rules", name, *placed(EDIT_ALIASES[name].target or DEFAULT, None))
    settings = command("append", "IN", "OUT", EDIT_ALIASES[name].kind)
    return f"{name} is an edit, because it changes the outputs: {plain}, or with settings: {settings}"
