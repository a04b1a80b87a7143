"""Names in reports that strangers may read: files without the folders of this machine."""

import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

_ABSOLUTE = re.compile(r"(?<![\w./\\:-])(?:[A-Za-z]:)?[/\\][^\s:;,'\"()<>|]+")


def without_folders(text: str) -> str:
    """A text whose absolute paths are file names.  A path has a folder that exists here; node names may look alike."""
    return _ABSOLUTE.sub(lambda found: _file_name(found[0]), text)


def _file_name(text: str) -> str:
    path = Path(text)
    is_file = path.parent != path.parent.parent and (
        path.parent.is_dir() or path.is_relative_to(tempfile.gettempdir())
    )
    return path.name if is_file else text


def short_names(names: Iterable[str]) -> dict[str, str]:
    """The shortest ends of paths that are different: base names, unless two are equal."""
    left, found, depth = list(dict.fromkeys(names)), dict[str, str](), 1
    every = tuple(left)
    while left:
        ends = {name: "/".join(name.split("/")[-depth:]) for name in every}
        counts = Counter(ends.values())
        found |= {name: ends[name] for name in left if counts[ends[name]] == 1 or ends[name] == name}
        left, depth = [name for name in left if name not in found], depth + 1
    return found
