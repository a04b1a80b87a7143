"""The rich console that everything for people is printed on."""

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 120  # columns where the output is no terminal
LOUD = {
    "proved": ("PROVED", "bold green"),
    "failed": ("FAILED", "bold white on red"),
    "unproved": ("UNPROVED", "bold black on yellow"),
    "unchanged": ("UNCHANGED", "bold yellow"),
    "unchecked": ("NOT CHECKED", "bold yellow"),
}


def console_for(stream: TextIO) -> "Console":
    """A rich console on this stream: plain and wide where it is no terminal, so that no name is cut."""
    from rich.console import Console

    class Quiet(Console):
        """Leaves it to the program what to do when nobody reads on."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = Quiet(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def seconds_text(value: float) -> str:
    """A duration in seconds, as precise as it is worth reading."""
    return f"{value:.2f} s" if value < 100 else f"{value:.0f} s"
