"""The name of a target as an argument; installed targets are searched only if it is not one of surgeon's own."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.target_registry import OWN, names, target_of

if TYPE_CHECKING:
    Names = click.Choice[str]
else:
    Names = click.Choice  # not generic before click 8.2


class TargetName(Names):
    """The name of an installed target.  among: returns the valid names."""

    def __init__(self, among: Callable[[], Sequence[str]] = names) -> None:
        self._among = among
        self.case_sensitive = True

    @property
    def choices(self) -> Sequence[str]:  # type: ignore[override]  # click's is a plain attribute
        """The valid names."""
        return tuple(self._among())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The given name; click's own error for an unknown target.

        Raises UsageError for a target that cannot be loaded.
        """
        if self._among is names and value in OWN:
            return str(value)
        if value not in OWN and value in names():
            target_of(value)
        return str(super().convert(value, param, ctx))
