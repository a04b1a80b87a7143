"""What installed packages bring to surgeon, by their entry points: read once for a process."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OWN_RULES = "surgeon.patterns"
RULES, TARGETS, EDITS = GROUPS = "surgeon.rules", "surgeon.targets", "surgeon.edits"  # groups of entry points


def entry_points(group: str = RULES) -> "tuple[EntryPoint, ...]":
    """The entry points of a group, in order; looked for again when a place where packages are has changed."""
    return points_of(tuple(_dated(sys.path)))[group]


def _dated(places: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Those that there are, with the time when each was changed last (ns)."""
    for place in places:
        with contextlib.suppress(OSError, ValueError):
            yield place, os.stat(place or ".").st_mtime_ns


@cache
def points_of(places: tuple[tuple[str, int], ...]) -> "dict[str, tuple[EntryPoint, ...]]":
    """The same of all groups, for places as they are now: to read what all packages say of themselves takes long."""
    from importlib import metadata  # not at the top: it takes long, and a command with rules from files needs none

    found: dict[str, metadata.EntryPoints] = {}
    for package in metadata.distributions():
        if "[surgeon." in (package.read_text("entry_points.txt") or ""):  # few are, and to understand a text takes long
            found.setdefault(package.name, package.entry_points)  # the first on Python's path is the one imported
    chosen = {group: [one for each in found.values() for one in each.select(group=group)] for group in GROUPS}
    if not any(point.module == OWN_RULES for point in chosen[RULES]):  # imported from a checkout, and not installed
        chosen[RULES].append(metadata.EntryPoint("builtin", OWN_RULES, RULES))
    return {group: tuple(_distinct(points)) for group, points in chosen.items()}


def _distinct(found: "list[EntryPoint]") -> "list[EntryPoint]":
    """Entry points in order; two distributions that name the same module, as one and its former name, bring it once."""
    by_place = {(point.name, point.value): point for point in reversed(found)}
    return [by_place[place] for place in sorted(by_place)]
