"""Sets or removes metadata entries, and strips doc strings."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from surgeon.errors import UsageError
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.prune import filter_repeated
from surgeon.pipeline.editing.tensor_renaming import strip_docs


@dataclass(frozen=True, slots=True)
class Metadata(Edit):
    """Set an entry of the model's metadata_props. An empty value removes it.

    Raises:
        UsageError: the entry to remove does not exist.

    Examples:
        >>> import surgeon
        >>> note = surgeon.edits.Metadata("author", "me")
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", note, output="noted.onnx")
        >>> report.edits[0].said
        ("metadata 'author' is 'me'",)
    """

    key: str
    """The key of the entry."""
    value: str
    """Its new value."""
    flag = "metadata"
    metavar = "KEY=VALUE"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read KEY=VALUE; the value may be empty, and may contain `=`."""
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"{text!r} is not of the form KEY=VALUE (an empty value removes the entry).")
        return cls(key.strip(), value)

    @property
    def spelling(self) -> str:
        """KEY=VALUE."""
        return f"{self.key}={self.value}"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Write it."""
        entries = draft.skeleton.metadata_props
        found = next((entry for entry in entries if entry.key == self.key), None)
        if not self.value:
            if found is None:
                raise UsageError(f"The model has no metadata {self.key!r} to remove. To add it, give a value.")
            filter_repeated(entries, lambda _, entry: entry.key != self.key)
            return (f"metadata {self.key!r} is removed",)
        if found is not None and found.value == self.value:
            return ()
        entry = found if found is not None else entries.add(key=self.key)
        entry.value = self.value
        return (f"metadata {self.key!r} is {self.value!r}",)


@dataclass(frozen=True, slots=True)
class StripDoc(Edit):
    """Remove the doc strings of the model and all its parts. Exporters write stack traces into them.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> _, report = surgeon.edit(model, surgeon.edits.StripDoc(), output="bare.onnx")
        >>> report.outcome
        'unchanged'
    """

    flag = "strip-doc"
    metavar = ""

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Remove them."""
        model = draft.skeleton
        count = bool(model.doc_string) + strip_docs(model.graph) + sum(map(strip_docs, model.functions))
        model.ClearField("doc_string")
        return (f"{count:,} doc strings are removed",) if count else ()
