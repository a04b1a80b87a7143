"""What an edit may run to decide between several results: the model before it, and drafts of the one after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from surgeon.file.editable_model import Editable
from surgeon.file.save import Written
from surgeon.file.temporary_model import written_beside
from surgeon.proof.check_options import CheckOptions


@dataclass(frozen=True, slots=True)
class TrialRuns:
    """How an edit runs models.

    Attributes:
        original: the model that the edit changes.
        output: the path of the final result; None where that stays in memory.
        options: seeds, sizes, tolerances and limits of the runs.
    """

    original: Written
    output: Path | None
    options: CheckOptions

    @contextmanager
    def written(self, draft: Editable) -> Iterator[Written]:
        """A draft as a model that runs; a file of it is removed when the context ends."""
        if draft.path is None:
            yield draft.patch().to_proto()
            return
        with written_beside(draft.source, draft.patch(self.output, whole=True), self.output) as path:
            yield path
