"""Adds an inner tensor to the outputs, or removes an output."""

from collections.abc import Iterable
from dataclasses import dataclass

from surgeon.errors import UsageError
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.prune import filter_repeated, prune


@dataclass(frozen=True, slots=True)
class AddOutput(Edit):
    """Add a tensor of the main graph as the last output.

    Raises:
        UsageError: the tensor does not exist, is an input, or has an unknown dtype.

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
            raise UsageError(f"{self.tensor!r} is an input of the model, so it cannot become an output.")
        draft.graph.output.append(draft.facts(self.tensor))
        filter_repeated(draft.graph.value_info, lambda _, value: value.name != self.tensor)
        return (f"'{self.tensor}' is an output",)


@dataclass(frozen=True, slots=True)
class DropOutput(Edit):
    """Remove an output, and the nodes and weights that only it needs. Inputs stay.

    Raises:
        UsageError: the output does not exist, or is the only one.

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
            raise UsageError(f"{self.name!r} is the only output, and a model needs one. Add another output first.")
        filter_repeated(draft.graph.output, lambda _, value: value.name != self.name)
        gone = prune(draft)
        return (f"output '{self.name}' is removed{f', with {gone:,} nodes that only it needed' if gone else ''}",)
