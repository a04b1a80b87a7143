"""All edits by command-line flag: built in, and from installed packages."""

import surgeon.edits
from surgeon import entry_points
from surgeon.errors import UsageError
from surgeon.pipeline.editing.edit import Edit


def _is_edit(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, Edit) and item is not Edit


OWN: tuple[type[Edit], ...] = tuple(item for item in vars(surgeon.edits).values() if _is_edit(item))


def all_edits() -> dict[str, type[Edit]]:
    """The classes of edits by flag.

    Raises UsageError for an entry point that is not an edit, or has the flag of another edit.
    """
    found: dict[str, type[Edit]] = {item.flag: item for item in OWN}
    for point in entry_points.entry_points(entry_points.EDITS):
        item = point.load()
        if not _is_edit(item):
            raise UsageError(f"Entry point {point.name!r} refers to {point.value}, not an edit. Fix that package.")
        if found.setdefault(item.flag, item) is not item:
            raise UsageError(f"The edit {point.value} has the flag --{item.flag}, which another edit has. Rename it.")
    return found
