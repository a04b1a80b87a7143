"""The rich console for all output to people."""

import codecs
import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from surgeon.display.terminal.sanitise import sanitise

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 120  # columns if the output is not a terminal
OUTCOME_STYLES = {
    "proved": ("PROVED", "bold green"),
    "failed": ("FAILED", "bold white on red"),
    "unproved": ("UNPROVED", "bold black on yellow"),
    "unchanged": ("UNCHANGED", "bold yellow"),
    "unchecked": ("NOT CHECKED", "bold yellow"),
}


def make_console(stream: TextIO) -> "Console":
    """A rich console on a stream: plain and wide if it is not a terminal, so that no name is cut."""
    from rich.console import Console

    class Screen(Console):
        """Sanitises names, and raises BrokenPipeError if the reader closes the pipe."""

        def print(self, *objects: Any, **settings: Any) -> None:
            super().print(*map(_cleaned, objects), **settings)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = Screen(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def labelled_line_printer(console: "Console", width: int = 9) -> Callable[..., None]:
    """A function that prints a line of a summary: a title, empty to continue, and texts, some with a style."""
    from rich.text import Text

    def line(name: str, *parts: str | tuple[str, str]) -> None:
        console.print(Text.assemble((f"{name:<{width}}", "bold"), *parts), soft_wrap=True)

    return line


def print_json(value: Any) -> None:
    """Print JSON on standard output, as ASCII if its encoding lacks Unicode: other escapes are not valid JSON."""
    import json

    is_whole = codecs.lookup(sys.stdout.encoding or "ascii").name.startswith("utf")
    print(json.dumps(value, indent=1, ensure_ascii=not is_whole))


def make_printable(*streams: TextIO) -> None:
    """Make streams escape characters outside their encoding instead of raising an error, as with an ASCII locale."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _cleaned(item: Any) -> Any:
    """A sanitised text with the same styles; another object unchanged."""
    from rich.text import Text

    if isinstance(item, str):
        return sanitise(item)
    if not isinstance(item, Text) or sanitise(item.plain) == item.plain:
        return item
    pieces = item.divide({place for span in item.spans for place in (span.start, span.end)})
    shown = [(sanitise(piece.plain), piece.spans[0].style if piece.spans else "") for piece in pieces]
    return Text.assemble(*shown, style=item.style)
