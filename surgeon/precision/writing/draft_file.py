"""A draft as a runtime reads it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_model
from surgeon.pipeline.editing.draft import ModelDraft


@contextmanager
def draft_as_file(draft: ModelDraft, output: Path | None) -> Iterator[OutputModel]:
    """The changed model: a file next to the source if that is a file, which is removed at the end.

    output: the path at which the result will be written; None for a model in memory.
    """
    if draft.before.path is None:
        yield draft.made_from(draft.patch(output).apply())
        return
    with temporary_model(draft.source, draft.patch, output) as path:
        yield path
