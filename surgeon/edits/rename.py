"""Renames a tensor of the main graph."""

from collections.abc import Iterable
from dataclasses import dataclass

from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.tensor_renaming import rename


@dataclass(frozen=True, slots=True)
class Rename(Edit):
    """Rename a tensor of the main graph: an input, an output, or one between two nodes.

    Nodes, bodies of If, Loop and Scan, value_info and quantization annotations use the new name.

    Raises:
        UsageError: the tensor does not exist, or the new name is taken.

    Examples:
        >>> import surgeon
        >>> rename = surgeon.edits.Rename("input_ids", "tokens")
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", rename, output="renamed.onnx")
        >>> report.edits[0].said
        ("input 'input_ids' is renamed to 'tokens'",)
    """

    old: str
    """Its present name."""
    new: str
    """Its new name, which no other tensor may have."""
    flag = "rename"
    metavar = "OLD=NEW"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Rename it."""
        draft.require_tensor(self.old)
        if self.old == self.new:
            return ()
        draft.require_free(self.new)
        kind = draft.kind(self.old)
        rename(draft, {self.old: self.new})
        return (f"{kind} {self.old!r} is renamed to {self.new!r}",)
