"""The name of a target as an argument: what is installed is looked for only where it is none of surgeon's own."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.target_registry import OWN, names, target_of

if TYPE_CHECKING:
    Names = click.Choice[str]
else:
    Names = click.Choice  # before click 8.2 it says of nothing what it holds


class TargetName(Names):
    """One of the targets that are installed.  among: names them, where not all will do."""

    def __init__(self, among: Callable[[], Sequence[str]] = names) -> None:
        self._among = among
        self.case_sensitive = True

    @property
    def choices(self) -> Sequence[str]:  # type: ignore[override]  # click's is a plain attribute
        """The names, for those who ask."""
        return tuple(self._among())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name that was given; click's own complaint where there is no such target.

        Raises UsageError for one that cannot be loaded.
        """
        if self._among is names and value in OWN:
            return str(value)
        if value not in OWN and value in names():
            target_of(value)
        return str(super().convert(value, param, ctx))
