"""The rich console for all output to people."""

import codecs
import io
import sys
from typing import TYPE_CHECKING, Any, TextIO

from surgeon.display.terminal.sanitise import sanitise
from surgeon.result_base import json_text

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 120  # columns if the output is not a terminal


def make_console(stream: TextIO, *, plain: bool = False) -> "Console":
    """A rich console on a stream: plain and wide if it is not a terminal, so that no name is cut.

    plain: without colours, even if the environment asks for them.
    """
    from rich.console import Console

    class Screen(Console):
        """Sanitises names, and raises BrokenPipeError if the reader closes the pipe."""

        def print(self, *objects: Any, **settings: Any) -> None:
            super().print(*map(_cleaned, objects), **settings)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    terminal = False if plain else None
    console = Screen(file=stream, highlight=False, markup=False, emoji=False, force_terminal=terminal)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def print_json(value: Any) -> None:
    """Print JSON on standard output, as ASCII if its encoding lacks Unicode: other escapes are not valid JSON."""
    is_whole = codecs.lookup(sys.stdout.encoding or "ascii").name.startswith("utf")
    print(json_text(value, ascii_only=not is_whole), flush=True)


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
