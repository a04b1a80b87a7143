"""Which edits there are: surgeon's own, and those that installed packages bring."""

from surgeon import packs
from surgeon.editing.edit import Edit
from surgeon.edits.extract import Extract
from surgeon.edits.notes import Metadata, StripDoc
from surgeon.edits.order import OrderInputs, OrderOutputs
from surgeon.edits.outputs import AddOutput, DropOutput
from surgeon.edits.rename import Rename
from surgeon.edits.retype import Retype
from surgeon.errors import UsageError

OWN: tuple[type[Edit], ...] = (
    AddOutput,
    DropOutput,
    Extract,
    Metadata,
    OrderInputs,
    OrderOutputs,
    Rename,
    Retype,
    StripDoc,
)


def all_edits() -> dict[str, type[Edit]]:
    """The classes of edits by their flags.

    Raises UsageError for an entry point that is no edit, or whose flag another edit has.
    """
    found: dict[str, type[Edit]] = {item.flag: item for item in OWN}
    for point in packs.points(packs.EDITS):
        item = point.load()
        if not _is_edit(item):
            raise UsageError(f"The entry point {point.name!r} leads to {point.value}, no edit; mend that package.")
        if found.setdefault(item.flag, item) is not item:
            raise UsageError(f"The edit {point.value} has the flag --{item.flag}, which is taken; rename it.")
    return found


def _is_edit(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, Edit)
