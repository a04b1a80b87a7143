"""Runs the original and drafts of its edited version, so that an edit can choose between results."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from surgeon.file.editable_model import EditableModel
from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_model
from surgeon.pipeline.snapshot import Snapshot
from surgeon.proof.check_options import CheckOptions


@dataclass(frozen=True, slots=True)
class TrialRuns:
    """How an edit runs models."""

    before: Snapshot
    """Model that the edit changes."""
    output: Path | None
    """Path of the final result; None if it stays in memory."""
    options: CheckOptions
    """Seeds, sizes, tolerances and limits of the runs."""

    @property
    def original(self) -> OutputModel:
        """The same as a model that can run."""
        return self.before.runnable()

    @contextmanager
    def written(self, draft: EditableModel) -> Iterator[OutputModel]:
        """A draft as a model that can run; its temporary file is removed when the context ends."""
        if draft.path is None:
            yield draft.made_from(draft.patch().apply())
            return
        with temporary_model(draft.source, draft.patch, self.output) as path:
            yield path
