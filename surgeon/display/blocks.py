"""Blocks: the content of a result, independent of its presentation.

A block holds raw text.  It knows no width, no colour and no medium; a renderer escapes, shortens and colours.  Where
there is little room (on a terminal, in a notebook cell) a renderer shows the first `most` entries of a block.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from surgeon.text import and_more

if TYPE_CHECKING:
    from surgeon.display.pictures.svg import Picture

OUTCOMES = {"unchecked": "NOT CHECKED", "memory": "OUT OF MEMORY", "unwritten": "NOT WRITTEN"}
"""The words of the outcomes that are not simply their names in capitals."""
MAX_ENTRIES = 20  # entries of a block where there is little room


class Span(NamedTuple):
    """Text with a role."""

    text: str
    """The raw text."""
    role: str
    """code, strong, help, warning, good, bad, faint, sign (a symbol with an ASCII form), shell (advice on the command
    line, for a screen that shows no details), or as `outcome` makes it."""


Text: TypeAlias = "str | Span | Sequence[Text]"
"""Raw text, text with a role, or a sequence of both."""
ARROW, TIMES, DOT = Span("→", "sign"), Span("×", "sign"), Span("·", "sign")


class Number(NamedTuple):
    """A table cell that is sorted by its number."""

    text: Text
    """The text of the cell."""
    value: float
    """The number for sorting."""


Cell: TypeAlias = "Text | Number | int"


class Item(NamedTuple):
    """An entry of a list, with lines that belong to it."""

    text: Text
    """The entry in one line."""
    lines: Sequence[Text] = ()
    """Further lines."""


class Facts(NamedTuple):
    """Labels with texts; an empty label continues the one above, and a row without text is left out."""

    rows: Sequence[tuple[Text, Text]]
    """Labels and texts."""
    most: int = MAX_ENTRIES
    """Rows that are shown if there is little room."""
    more: str = ""
    """The name of the others, and the option that shows all of them: "changes (--json has all)"."""


class Table(NamedTuple):
    """A table; nothing without rows."""

    caption: str
    """A description for screen readers."""
    heads: Sequence[str]
    """The titles of the columns."""
    rows: Sequence[Sequence[Cell]]
    """The cells of each row."""
    most: int = MAX_ENTRIES
    """Rows that are shown if there is little room."""
    more: str = ""
    """The name of the others."""


class Items(NamedTuple):
    """A list; nothing without items."""

    items: Sequence["Text | Item"]
    """The entries."""
    most: int = MAX_ENTRIES
    """Lines that are shown if there is little room."""
    more: str = ""
    """The name of the others."""


class Note(NamedTuple):
    """A paragraph; nothing without text."""

    text: Text
    """The text."""
    tone: str = ""
    """The role of all of it: help, warning, bad, faint, strong, or empty."""


class Code(NamedTuple):
    """Lines in a fixed font; nothing without lines."""

    lines: Sequence[str]
    """The lines."""
    label: str
    """A description for screen readers."""
    language: str = ""
    """`diff` for lines that start with a minus or a plus, or empty."""
    marked: int = 0
    """The number of the line that is marked, from 1; 0 for none."""


class Figure(NamedTuple):
    """A picture, which is drawn only if it is shown."""

    draw: Callable[[], "Picture"]
    """Draws it; raises UsageError with the reason why it cannot."""
    about: str
    """A description for screen readers."""
    otherwise: Sequence["Block"] = ()
    """Blocks that are shown in its place, and folded below it."""


class Section(NamedTuple):
    """A heading with blocks; nothing where none of its blocks has content."""

    title: Text
    """The heading.  One that is a single string has words of surgeon only; a page writes its first letter large."""
    blocks: Sequence["Block"]
    """The content; for a heading by itself, no block."""
    folded: bool = True
    """Whether a page shows only the title until a click, and a terminal shows nothing unless all is asked for."""


Block: TypeAlias = Facts | Table | Items | Note | Code | Figure | Section


class Document(NamedTuple):
    """A result as blocks."""

    title: str
    """The title of a page."""
    details: Sequence[Block]
    """Above the summary on a terminal, below it on a page."""
    summary: Sequence[tuple[Text, Text]] = ()
    """The answer: labels and texts."""
    subject: Sequence[tuple[str, Text]] = ()
    """The files of the question; a terminal, on which they were typed, leaves them out."""
    headline: Text = ""
    """The first line of the summary: the model and its change.  Below one, a page folds the details, and a
    terminal shows them only if all is asked for."""
    done: Sequence[Text] = ()
    """The effects, in lines below the headline."""


T = TypeVar("T")


def outcome(name: str) -> Span:
    """An outcome."""
    return Span(OUTCOMES.get(name, name.upper()), f"outcome {name}")


def lines_of(label: str, texts: Iterable[Text]) -> list[tuple[str, Text]]:
    """Rows of facts with one label."""
    return [("" if place else label, text) for place, text in enumerate(texts)]


def toned(row: Iterable[Cell], role: str) -> list[Cell]:
    """The cells of a row in one role."""
    return [_toned(cell, role) for cell in row] if role else [*row]


def _toned(cell: Cell, role: str) -> Cell:
    if isinstance(cell, (int, Number)):
        words, value = (f"{cell:,}", cell) if isinstance(cell, int) else cell
        return Number(Span(plain_text(words), role), value)
    return Span(plain_text(cell), role)


def plain_text(text: Text) -> str:
    """The raw characters of a text, without advice on the command line."""
    return "".join(piece for piece, role in spans(text) if role != "shell")


def summary_blocks(document: Document) -> list[Block]:
    """The summary of a document as blocks, for a place inside another document."""
    lines = [Note(line) for line in (document.headline, *document.done) if line]
    return [*lines, Facts(document.summary, most=len(document.summary))]


def first_entries(entries: Iterable[T], most: float, lines: Callable[[T], int] = lambda _: 1) -> tuple[list[T], int]:
    """The entries that fit, with a line for those that do not, and the number of those.  lines: how many one takes."""
    every = list(entries)
    used = 0
    for place, entry in enumerate(every):
        used += lines(entry)
        if used + (place + 1 < len(every)) > most:
            return every[:place], len(every) - place
    return every, 0


def first_items(block: Items, most: float) -> tuple[list[Item], int]:
    """The items of a list that fit, each with its lines, and the number of the others."""
    entries = (item if isinstance(item, Item) else Item(item) for item in block.items)
    return first_entries(entries, most, lambda item: 1 + len(item.lines))


def rest_text(left: int, block: Facts | Table | Items) -> str:
    """The line for the entries of a block that are not shown."""
    return and_more(left, block.more).lstrip()


def spans(text: Text) -> Iterable[tuple[str, str]]:
    """The pieces of a text, each with its role."""
    if isinstance(text, str):
        yield text, ""
    elif isinstance(text, Span):
        yield text
    else:
        for part in text:
            yield from spans(part)
