"""Writes the nodes of a model in topological order."""

from collections.abc import Iterable
from dataclasses import dataclass

from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit


@dataclass(frozen=True, slots=True)
class SortNodes(Edit):
    """Sort the nodes topologically, also in subgraphs and functions.

    ONNX requires that order.  ONNX Runtime and TensorRT sort the nodes themselves, but onnx.checker does not.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> _, report = surgeon.edit(model, surgeon.edits.SortNodes(), output="sorted.onnx")
        >>> report.outcome
        'unchanged'
    """

    flag = "sort-nodes"
    metavar = ""

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Sort them."""
        count = len(draft.source.unsorted)
        if not count or draft.sorts:
            return ()
        draft.sorts = True
        return (f"the nodes of {'the graph' if count == 1 else f'{count:,} graphs'} are in topological order",)
