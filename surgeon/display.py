"""What makes a result show itself where HTML is shown, as in a notebook; what prints text prints it as before."""

from importlib import import_module

_ROOM = "surgeon.pages.showing"  # far above all results: it is looked up when a notebook asks, and by nobody else
FIRST = '<!doctype html>\n<html lang="en" data-made-by="surgeon">'
"""What a page begins with."""
SUFFIXES = (".html", ".htm")
"""What the names of pages end in."""


class Displayed:
    """A result that shows itself in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What a notebook shows: HTML that needs no script, on a light ground or a dark one."""
        return str(import_module(_ROOM).fragment(self))
