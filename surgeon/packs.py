"""The packs of rules that are installed, by their entry points: read once for a process."""

import importlib.metadata
import sys
from functools import cache
from pathlib import Path

GROUP = "surgeon.rules"


def points() -> tuple[importlib.metadata.EntryPoint, ...]:
    """The packs that are installed, in order; looked for again when a place where packages are has changed."""
    places = [Path(place or ".") for place in sys.path]
    return points_of(tuple((str(place), place.stat().st_mtime_ns) for place in places if place.exists()))


@cache
def points_of(places: tuple[tuple[str, int], ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """The same for places as they are now: to read what all packages say of themselves takes long."""
    found = importlib.metadata.entry_points(group=GROUP)
    return tuple(sorted(found, key=lambda item: (item.name, item.value)))
