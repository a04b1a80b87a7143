"""Entry points of installed packages: rules, targets, edits, renderers and kinds of models, cached per process."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from surgeon.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OWN_RULES = "surgeon.patterns"
GROUPS = "surgeon.rules", "surgeon.targets", "surgeon.edits", "surgeon.renderers", "surgeon.kinds"  # of entry points
RULES, TARGETS, EDITS, RENDERERS, KINDS = GROUPS


def entry_points(group: str = RULES) -> "tuple[EntryPoint, ...]":
    """The entry points of a group, in order; read again if a folder of packages has changed."""
    return points_of(tuple(_dated(sys.path)))[group]


def loaded(point: "EntryPoint", what: str) -> Any:
    """The object of an entry point.  Raises UsageError if it cannot be loaded.  what: the noun in the message."""
    try:
        return point.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"The {what} {point.name!r} ({point.value}) cannot be loaded ({reason}). Fix or remove its package."
        ) from error


def _dated(places: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The existing folders, with their times of modification (ns)."""
    for place in places:
        with contextlib.suppress(OSError, ValueError):
            yield place, os.stat(place or ".").st_mtime_ns


@cache
def points_of(places: tuple[tuple[str, int], ...]) -> "dict[str, tuple[EntryPoint, ...]]":
    """The entry points of all groups, cached by folders and times: reading the metadata of all packages is slow."""
    from importlib import metadata  # not at the top: slow, and not needed for rules from files

    found: dict[str, metadata.EntryPoints] = {}
    for package in metadata.distributions():
        if "[surgeon." in (package.read_text("entry_points.txt") or ""):  # parsing is slow, and few packages match
            found.setdefault(package.name, package.entry_points)  # the first on Python's path is imported
    chosen = {group: [one for each in found.values() for one in each.select(group=group)] for group in GROUPS}
    if not any(point.module == OWN_RULES for point in chosen[RULES]):  # imported from a checkout that is not installed
        chosen[RULES].append(metadata.EntryPoint("builtin", OWN_RULES, RULES))
    return {group: tuple(_distinct(points)) for group, points in chosen.items()}


def _distinct(found: "list[EntryPoint]") -> "list[EntryPoint]":
    """Entry points in order, without duplicates, such as those of a package installed under a former name too."""
    by_place = {(point.name, point.value): point for point in reversed(found)}
    return [by_place[place] for place in sorted(by_place)]
