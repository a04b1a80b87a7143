"""Renders blocks on a terminal: details, then the summary, so that the answer is next to the prompt."""

import io
import re
from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, TextIO

from surgeon.display.blocks import (
    Block,
    Code,
    Document,
    Facts,
    Figure,
    Items,
    Note,
    Number,
    Section,
    Span,
    Table,
    Text,
    first_entries,
    first_items,
    plain_text,
    rest_text,
    spans,
)
from surgeon.display.registry import document_of
from surgeon.display.terminal.console import make_console
from surgeon.display.terminal.sanitise import sanitise

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text as RichText

LABEL = 9  # columns of a label, at least
SIGNS = {"→": "->", "×": "x", "·": "|"}
STYLES = {
    "strong": "bold",
    "help": "green",
    "warning": "bold yellow",
    "good": "bold green",
    "bad": "bold red",
    "faint": "dim",
    "outcome proved": "bold green",
    "outcome unproved": "bold black on yellow",
    "outcome unchanged": "bold yellow",
    "outcome unchecked": "bold yellow",
}
OTHER_OUTCOME = "bold white on red"
DIFF = {"+": "green", "-": "red", "@": "cyan"}


def show(result: object, stream: TextIO, *, verbose: bool = False) -> None:
    """Print a result, or a document.  verbose: all entries, and folded sections too."""
    TerminalRenderer(make_console(stream), verbose).document(document_of(result))


def text_of(result: object, *, verbose: bool = False, advice: bool = True) -> str:
    """What `show` prints to a file.  advice: whether to include advice on the command line."""
    stream = io.StringIO()
    TerminalRenderer(make_console(stream, plain=True), verbose, advice).document(document_of(result))
    return stream.getvalue()


def show_diff(lines: Sequence[str], stream: TextIO) -> None:
    """Print lines that start with a minus or a plus."""
    TerminalRenderer(make_console(stream)).blocks([Code(lines, "before and after", "diff")])


class TerminalRenderer:
    """Prints documents on one console."""

    def __init__(self, console: "Console", verbose: bool = False, advice: bool = True) -> None:
        self._console = console
        self._verbose = verbose
        self._advice = advice and not verbose  # it leads to the details
        self._label = LABEL
        self._last: Block | None = None  # the last block that was printed

    def document(self, document: Document) -> None:
        """Print a document."""
        if document.headline:
            self._folded(document)
            return
        blocks = (*document.details, Facts(document.summary, most=len(document.summary)))
        self._label = _label_width(blocks)
        self.blocks(document.details)
        if self._last is not None and not isinstance(self._last, Facts) and document.summary:
            self._console.print()
        self.blocks(blocks[-1:])

    def _folded(self, document: Document) -> None:
        """Print a document with a headline: the details if all is asked for, then the summary."""
        if self._verbose:
            self.blocks(document.details)
            if self._last is not None:
                self._console.print()
        self._hanging(self._pieces(document.headline), 0)
        for line in document.done:
            self._hanging([("  ", ""), *self._pieces(line)], 2)
        for label, words in document.summary:
            shown = list(self._pieces(words))
            is_outcome = isinstance(label, Span) and label.role.startswith("outcome ")
            if is_outcome or any(piece for piece, _ in shown):  # an outcome may have no reason
                named = [(piece, style or "bold") for piece, style in self._pieces(label)]
                width = sum(len(piece) for piece, _ in named)
                space = " " * (LABEL - width) if width < LABEL else "  "
                self._hanging([*named, (space, ""), *shown], LABEL)

    def _hanging(self, pieces: Sequence[tuple[str, str]], indent: int) -> None:
        """Print a line; on a terminal it is wrapped, and its further lines are indented."""
        text = self._assembled(pieces)
        parts = _line_parts(text.plain, self._console.width, indent) if self._console.is_terminal else [(0, len(text))]
        for start, end in parts:
            space = self._assembled([(" " * indent if start else "", "")])
            self._console.print(space + text[start:end], soft_wrap=True)

    def blocks(self, blocks: Sequence[Block], indent: int = 0) -> None:
        """Print several blocks in order."""
        for block in blocks:
            if self._shows(block):
                self._block(block, indent)
                self._last = block

    def _block(self, block: Block, indent: int) -> None:
        match block:
            case Section():
                self._section(block, indent)
            case Facts():
                self._facts(block, indent)
            case Table():
                if isinstance(self._last, Table):
                    self._console.print()
                self._table(block)
            case Items():
                self._items(block, indent)
            case Note():
                self._line(block.text, indent, block.tone)
            case Code():
                for place, line in enumerate(block.lines, 1):
                    style = DIFF.get(line[:1], "") if block.language == "diff" else "bold" * (place == block.marked)
                    self._line(line, indent if line else 0, style)
            case Figure():
                self.blocks(block.otherwise, indent)

    def _section(self, block: Section, indent: int) -> None:
        if self._last is not None and not indent:
            self._console.print()
        self._line(block.title, indent, "bold")
        self.blocks(block.blocks, indent + 2)

    def _shows(self, block: Block) -> bool:
        """Whether a block prints anything."""
        match block:
            case Section():
                is_open = self._verbose or not block.folded
                return is_open and (not block.blocks or any(map(self._shows, block.blocks)))
            case Figure():
                return any(map(self._shows, block.otherwise))
            case Facts():
                return any(words for _, words in block.rows)
            case Note():
                return bool(block.text)
            case Items():
                return bool(block.items)
            case Code():
                return bool(block.lines)
            case Table():
                return bool(block.rows)

    def _facts(self, block: Facts, indent: int) -> None:
        rows, left = first_entries([row for row in block.rows if row[1]], self._room(block.most))
        width = max(self._label, _label_width([block]))
        for label, words in rows:
            self._print(" " * indent, (f"{plain_text(label):<{width}}", "bold"), *self._pieces(words))
        if left:
            self._print(" " * (indent + width), rest_text(left, block))

    def _table(self, block: Table) -> None:
        from rich.table import Table as RichTable

        rows, left = first_entries(block.rows, self._room(block.most))
        table = RichTable(box=None, pad_edge=False, header_style="bold")
        for head, cell in zip(block.heads, rows[0], strict=True):
            is_number = isinstance(cell, (Number, int))
            table.add_column(head, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
        for row in rows:
            table.add_row(*(self._rich(f"{cell:,}" if isinstance(cell, int) else cell) for cell in row))
        self._console.print(table)
        if left:
            self._line(rest_text(left, block), 0)

    def _items(self, block: Items, indent: int) -> None:
        items, left = first_items(block, self._room(block.most))
        for item in items:
            self._line(item.text, indent)
            for line in item.lines:
                self._line(line, indent + 2)
        if left:
            self._line(rest_text(left, block), indent)

    def _room(self, most: int) -> float:
        return inf if self._verbose else most

    def _line(self, words: Text, indent: int, role: str = "") -> None:
        self._print(" " * indent, *self._pieces(words, STYLES.get(role, role)))

    def _print(self, *pieces: str | tuple[str, str]) -> None:
        from rich.text import Text as RichText

        self._console.print(RichText.assemble(*pieces), soft_wrap=True)

    def _rich(self, words: "Text | Number") -> "RichText":
        return self._assembled(self._pieces(words.text if isinstance(words, Number) else words))

    def _assembled(self, pieces: Iterable[tuple[str, str]]) -> "RichText":
        from rich.text import Text as RichText

        return RichText.assemble(*((sanitise(piece), style) for piece, style in pieces))

    def _pieces(self, words: Text, style: str = "") -> list[tuple[str, str]]:
        """The pieces of a text with their styles."""
        return [
            (self._sign(piece) if role == "sign" else piece, style or _style(role))
            for piece, role in spans(words)
            if role != "shell" or self._advice
        ]

    def _sign(self, sign: str) -> str:
        """A symbol, in ASCII if the encoding of the stream lacks it."""
        try:
            sign.encode(self._console.encoding)
        except UnicodeEncodeError:
            return SIGNS[sign]
        return sign


def _line_parts(text: str, width: int, indent: int) -> list[tuple[int, int]]:
    """The parts of a line, broken at spaces; long words stay whole.  indent: columns before all parts but the first."""
    from rich.cells import cell_len

    parts, start, end = list[tuple[int, int]](), 0, 0
    for word in re.finditer(r"\S+", text):
        room = width - (indent if parts else 0)
        if end and cell_len(text[start : word.end()]) > room and text[start:end].strip():
            parts.append((start, end))
            start = word.start()
        end = word.end()
    return [*parts, (start, end)]


def _label_width(blocks: Iterable[Block]) -> int:
    """The columns of the labels of facts."""
    labels = (label for block in blocks if isinstance(block, Facts) for label, words in block.rows if words)
    return max([LABEL, *(len(plain_text(label)) + 2 for label in labels)])


def _style(role: str) -> str:
    return STYLES.get(role, OTHER_OUTCOME if role.startswith("outcome ") else "")
