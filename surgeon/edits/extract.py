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
    """Keep what lies between two cuts: the smallest graph that makes some tensors of some others.

    What is kept is as it was: weights, bodies of If, Loop and Scan, local functions, notes on tensors, metadata.  The
    tensors of the first cut become the inputs, in the order given, with the dtypes and sizes that are known of them.

    Raises:
        UsageError: there is no such tensor, or something else is needed than `froms`, which the message names.

    Examples:
        >>> import surgeon
        >>> part = surgeon.edits.Extract(("embeddings",), ("gelu",))
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", part, output="part.onnx", check="model")
        >>> report.outcome, report.nodes[0] > report.nodes[1]
        ('proved', True)
    """

    froms: tuple[str, ...] = ()
    """Tensors to begin with, or none for the inputs that are needed."""
    tos: tuple[str, ...] = ()
    """Tensors to end with, or none for the outputs that depend on `froms`."""
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
        """Take the rest away."""
        if not self.froms and not self.tos:
            raise UsageError("An extraction begins or ends at a tensor; name one in froms or tos.")
        twice = next((name for name in self.froms if self.froms.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"{twice!r} is named twice in froms; name it once.")
        return extract(draft, self.froms, self.tos)
