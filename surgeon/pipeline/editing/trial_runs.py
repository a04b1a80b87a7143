"""What an edit may run to decide between several results: the model before it, and drafts of the one after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from surgeon.file.editable_model import EditableModel
from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_model
from surgeon.proof.check_options import CheckOptions


@dataclass(frozen=True, slots=True)
class TrialRuns:
    """How an edit runs models."""

    original: OutputModel
    """Model that the edit changes."""
    output: Path | None
    """Path of the final result; None if it stays in memory."""
    options: CheckOptions
    """Seeds, sizes, tolerances and limits of the runs."""

    @contextmanager
    def written(self, draft: EditableModel) -> Iterator[OutputModel]:
        """A draft as a model that runs; a file of it is removed when the context ends."""
        if draft.path is None:
            yield draft.patch().to_proto()
            return
        with temporary_model(draft.source, draft.patch(self.output, whole=True), self.output) as path:
            yield path
