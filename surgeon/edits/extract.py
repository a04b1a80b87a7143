"""Extracts the subgraph between two sets of tensors as a model."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from surgeon.errors import UsageError
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit, parse_names
from surgeon.pipeline.editing.subgraph import extract


@dataclass(frozen=True, slots=True)
class Extract(Edit):
    """Keep only the smallest subgraph that computes some tensors from some others.

    Weights, bodies of If, Loop and Scan, local functions, declared types and metadata stay as they are.  The tensors of
    the first cut become the inputs, in the given order, with their known dtypes and sizes.

    Raises:
        UsageError: a tensor does not exist, or the part also needs a tensor that is not in `froms`.

    Examples:
        >>> import surgeon
        >>> part = surgeon.edits.Extract(("embeddings",), ("gelu",))
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", part, output="part.onnx", check="model")
        >>> report.outcome, report.nodes[0] > report.nodes[1]
        ('proved', True)
    """

    froms: tuple[str, ...] = ()
    """Tensors to start from; by default the inputs that the part needs."""
    tos: tuple[str, ...] = ()
    """Tensors to end at; by default the outputs that depend on `froms`."""
    flag = "extract"
    metavar = "FROM,...=TO,..."
    feeds = "inner"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read FROM,...=TO,...; either side may be empty."""
        left, sign, right = text.rpartition("=")
        if not sign or not (left.strip() or right.strip()):
            raise UsageError(f"{text!r} is not of the form {cls.metavar}.")
        return cls(*(parse_names(side, cls.metavar) if side.strip() else () for side in (left, right)))

    @property
    def spelling(self) -> str:
        """FROM,...=TO,...."""
        return f"{','.join(self.froms)}={','.join(self.tos)}"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Remove the rest."""
        if not self.froms and not self.tos:
            raise UsageError(
                "An extraction needs tensors to start from or to end at. Give froms (--from) or tos (--to)."
            )
        twice = next((name for name in self.froms if self.froms.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"{twice!r} is in froms twice. Give it once.")
        return extract(draft, self.froms, self.tos)
