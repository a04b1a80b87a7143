"""Removes weights from the inputs of a model."""

from collections.abc import Iterable
from dataclasses import dataclass

from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.prune import FIRST_IR_WITH_DEFAULTS, filter_repeated, initializer_names
from surgeon.text import join_first

SHOWN = 3  # names in a sentence


@dataclass(frozen=True, slots=True)
class DropWeightInputs(Edit):
    """Remove weights from the inputs, so that callers cannot override them.

    Old exporters list each weight as an input with a default value.  Rules and runtimes cannot fold such a weight.  IR
    version 3 requires those inputs, so a model of that version gets version 4.

    Examples:
        >>> import surgeon
        >>> edit = surgeon.edits.DropWeightInputs()
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edit, output="constant.onnx")
        >>> report.outcome
        'unchanged'
    """

    flag = "drop-weight-inputs"
    metavar = ""

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Remove them."""
        stored = initializer_names(draft.graph)
        names = [value.name for value in draft.graph.input if value.name in stored]
        if not names:
            return ()
        filter_repeated(draft.graph.input, lambda _, value: value.name not in stored)
        is_old = draft.skeleton.ir_version < FIRST_IR_WITH_DEFAULTS
        if is_old:
            draft.skeleton.ir_version = FIRST_IR_WITH_DEFAULTS
        draft.changed()
        version = [f"the IR version is {FIRST_IR_WITH_DEFAULTS}"] if is_old else []
        return (f"weights are no longer inputs: {join_first(names, SHOWN)}", *version)
