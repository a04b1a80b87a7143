"""In which order a model lists what it takes and gives."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

from surgeon.editing.draft import ModelDraft, unknown
from surgeon.editing.edit import Edit, names
from surgeon.errors import UsageError


@dataclass(frozen=True, slots=True)
class OrderInputs(Edit):
    """List these inputs first, in this order; the others stay behind them as they are.

    Attributes:
        names: of inputs.

    Raises:
        UsageError: there is no such input.

    Examples:
        >>> import surgeon
        >>> order = surgeon.edits.OrderInputs(("attention_mask", "input_ids"))
        >>> _, report = surgeon.edit("models/tiny_distilbert.onnx", order, output="ordered.onnx")
        >>> report.edits[0].said
        ('inputs are attention_mask, input_ids',)
    """

    names: tuple[str, ...]
    flag = "order-inputs"
    metavar = "A,B"
    side: ClassVar[str] = "input"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read names with commas."""
        return cls(names(text, "A,B"))

    @property
    def spelling(self) -> str:
        """Names with commas."""
        return ",".join(self.names)

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Order them."""
        rows = getattr(draft.graph, self.side)
        before = [value.name for value in rows]
        for name in self.names:
            if name not in before:
                raise UsageError(unknown(self.side, name, before))
        held = {value.name: value for value in rows}
        order = [*self.names, *(name for name in before if name not in self.names)]
        if order == before:
            return ()
        values = [held[name].SerializeToString() for name in order]
        for row, data in zip(rows, values, strict=True):
            row.ParseFromString(data)
        return (f"{self.side}s are {', '.join(order)}",)


@dataclass(frozen=True, slots=True)
class OrderOutputs(OrderInputs):
    """List these outputs first, in this order; the others stay behind them as they are.

    Attributes:
        names: of outputs.

    Raises:
        UsageError: there is no such output.

    Examples:
        >>> import surgeon
        >>> edits = [surgeon.edits.AddOutput("gelu"), surgeon.edits.OrderOutputs(("gelu",))]
        >>> _, report = surgeon.edit("models/tiny_distilbert.onnx", edits, output="ordered.onnx")
        >>> report.edits[1].said
        ('outputs are gelu, logits',)
    """

    flag = "order-outputs"
    side: ClassVar[str] = "output"
