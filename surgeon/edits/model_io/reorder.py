"""Reorders the inputs or outputs of a model."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

from surgeon.errors import UsageError
from surgeon.pipeline.editing.draft import ModelDraft, no_such_message
from surgeon.pipeline.editing.edit import Edit, parse_names


@dataclass(frozen=True, slots=True)
class OrderInputs(Edit):
    """List these inputs first, in this order. The others follow in their old order.

    Raises:
        UsageError: an input does not exist, or is given twice.

    Examples:
        >>> import surgeon
        >>> order = surgeon.edits.OrderInputs(("attention_mask", "input_ids"))
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", order, output="ordered.onnx")
        >>> report.edits[0].said
        ('inputs are attention_mask, input_ids',)
    """

    names: tuple[str, ...]
    """Their names, first to last."""
    flag = "order-inputs"
    metavar = "A,B"
    side: ClassVar[str] = "input"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read names with commas."""
        return cls(parse_names(text, "A,B"))

    @property
    def spelling(self) -> str:
        """Names with commas."""
        return ",".join(self.names)

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Order them."""
        rows = getattr(draft.graph, self.side)
        before = [value.name for value in rows]
        left = list(enumerate(before))
        first = []
        for name in self.names:
            entry = next((entry for entry in left if entry[1] == name), None)
            if entry is None and name in before:
                raise UsageError(f"The {self.side} {name!r} is given more often than the model lists it.")
            if entry is None:
                raise UsageError(no_such_message(self.side, name, before))
            first.append(entry)
            left.remove(entry)
        order = [*first, *left]  # if an output is listed more than once, its other entries are in `left`
        if order == sorted(order):
            return ()
        values = [rows[place].SerializeToString() for place, _ in order]
        for row, data in zip(rows, values, strict=True):
            row.ParseFromString(data)
        return (f"{self.side}s are {', '.join(name for _, name in order)}",)


@dataclass(frozen=True, slots=True)
class OrderOutputs(OrderInputs):
    """List these outputs first, in this order. The others follow in their old order.

    If the model lists an output more than once, each mention of it moves one entry, starting with the first.

    Raises:
        UsageError: an output does not exist, or is given more often than the model lists it.

    Examples:
        >>> import surgeon
        >>> edits = [surgeon.edits.AddOutput("gelu"), surgeon.edits.OrderOutputs(("gelu",))]
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edits, output="ordered.onnx")
        >>> report.edits[1].said
        ('outputs are gelu, logits',)
    """

    flag = "order-outputs"
    side: ClassVar[str] = "output"
