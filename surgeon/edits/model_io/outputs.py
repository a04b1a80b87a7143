"""Adds an inner tensor to the outputs, or removes an output."""

from collections.abc import Iterable
from dataclasses import dataclass

from surgeon.errors import UsageError
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.prune import filter_repeated, prune


@dataclass(frozen=True, slots=True)
class AddOutput(Edit):
    """Give a tensor of the main graph as an output too, behind those that there are.

    Raises:
        UsageError: there is no such tensor, it is an output or an input, or its dtype cannot be told.

    Examples:
        >>> import surgeon
        >>> add = surgeon.edits.AddOutput("gelu")
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", add, output="more.onnx")
        >>> report.edits[0].said
        ("'gelu' is an output",)
    """

    tensor: str
    """The name of the tensor."""
    flag = "add-output"
    metavar = "TENSOR"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Add it."""
        draft.require_tensor(self.tensor)
        kind = draft.kind(self.tensor)
        if kind == "output":
            return ()
        if kind == "input":
            raise UsageError(f"{self.tensor!r} is an input of the model, which cannot be an output too; name another.")
        draft.graph.output.append(draft.facts(self.tensor))
        filter_repeated(draft.graph.value_info, lambda _, value: value.name != self.tensor)
        return (f"'{self.tensor}' is an output",)


@dataclass(frozen=True, slots=True)
class DropOutput(Edit):
    """Take an output away, and the nodes and weights that nothing else needs.  Inputs stay.

    Raises:
        UsageError: there is no such output, or it is the last one.

    Examples:
        >>> import surgeon
        >>> edits = [surgeon.edits.AddOutput("gelu"), surgeon.edits.DropOutput("logits")]
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edits, output="less.onnx")
        >>> report.nodes[0] > report.nodes[1], report.outcome
        (True, 'proved')
    """

    name: str
    """The name of the output."""
    flag = "drop-output"
    metavar = "NAME"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Drop it."""
        draft.output(self.name)
        if {value.name for value in draft.graph.output} == {self.name}:
            raise UsageError(f"{self.name!r} is the only output of the model, which needs one; add another first.")
        filter_repeated(draft.graph.output, lambda _, value: value.name != self.name)
        gone = prune(draft)
        return (f"output '{self.name}' is gone{f', and {gone:,} nodes that it alone needed' if gone else ''}",)
