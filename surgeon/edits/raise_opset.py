"""Raises the opset of a model."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from surgeon.errors import UsageError
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.upgrading.upgrade import require_opset, upgrade_skeleton


@dataclass(frozen=True, slots=True)
class RaiseOpset(Edit):
    """Raise the ai.onnx opset without changing what any node computes.

    Raises:
        UsageError: the opset is unknown, or older than the model's.
        GraphError: nodes would change their meaning; the message names them.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> _, report = surgeon.edit(model, surgeon.edits.RaiseOpset(21), output="newer.onnx")
        >>> report.edits[0].said[0], report.outcome
        ('ai.onnx is raised from opset 18 to 21', 'proved')
    """

    version: int
    """The opset."""
    flag = "opset"
    metavar = "N"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the number."""
        if not text.strip().isdecimal():
            raise UsageError(f"Invalid opset {text!r}. Give a number, for example 21.")
        return cls(int(text))

    @property
    def spelling(self) -> str:
        """The number."""
        return str(self.version)

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Raise it."""
        require_opset(self.version)
        done = upgrade_skeleton(draft, self.version, "The model")
        if done.opset[0] == done.opset[1]:
            return ()
        draft.claim.by_structure = False
        draft.changed()
        said = [f"ai.onnx is raised from opset {done.opset[0]} to {done.opset[1]}"]
        said += [done.declared] if done.declared else []
        return [*said, *(f"{count:,} times {sentence}" for sentence, count in done.edited.items())]
