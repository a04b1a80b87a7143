"""Renderers of other packages: each writes reports to files of one suffix."""

import os
from collections.abc import Sequence
from typing import Protocol

from surgeon.display.blocks import Document
from surgeon.entry_points import RENDERERS, entry_points
from surgeon.errors import UsageError


class Renderer(Protocol):
    """Shows documents in another format.

    A package names one as an entry point in the group `surgeon.renderers`, by its suffix: `md = "my_package:RENDERER"`.
    """

    first: str
    """The beginning of each file; by it, `--report` knows a report that it may replace."""

    def render(self, documents: Sequence[Document]) -> str:
        """The text of a file.  It escapes all texts of the blocks: names in a model are data."""
        ...


def suffixes() -> list[str]:
    """The suffixes of all installed renderers, with their dots."""
    return sorted({f".{point.name}" for point in entry_points(RENDERERS)})


def renderer_for(path: str) -> Renderer | None:
    """The renderer for a file, by its suffix; None if no renderer has the suffix.

    Raises UsageError for a renderer that cannot be imported.
    """
    suffix = os.path.splitext(path)[1].lower()
    for point in entry_points(RENDERERS):
        if f".{point.name}" == suffix:
            try:
                return point.load()  # type: ignore[no-any-return]  # what the package gives
            except Exception as error:  # whatever the package raises
                raise UsageError(f"The renderer {point.value} for {suffix} cannot be imported: {error}.") from error
    return None
