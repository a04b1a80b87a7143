"""The repository around the working directory: paths below its root, and lines of its files."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surgeon.automation.gate.model_comparison import Frame


@dataclass(frozen=True, slots=True)
class Repository:
    """A folder whose files have relative paths in reports."""

    root: Path
    """Its absolute path."""

    @classmethod
    def around(cls, folder: Path) -> "Repository":
        """The nearest folder above with `.git`; without one, the folder itself."""
        home = Path(os.path.realpath(folder))
        return cls(next((path for path in (home, *home.parents) if (path / ".git").exists()), home))

    def relative(self, path: str) -> str | None:
        """The relative path of a file; None for one outside, or in a store."""
        real = Path(os.path.realpath(path))
        is_inside = "://" not in path and real.is_relative_to(self.root)
        return real.relative_to(self.root).as_posix() if is_inside else None

    def own_frame(self, frames: Sequence[Frame]) -> Frame | None:
        """The innermost frame in a file of the repository, with its relative path; None if there is none.

        frames: innermost first, with the paths of the machine that exported the model.
        """
        found = ((self._longest_suffix(file), line) for file, line in frames)
        return next(((path, line) for path, line in found if path is not None and self._has_line(path, line)), None)

    def _longest_suffix(self, path: str) -> str | None:
        """The longest end of a path that is a file of the repository."""
        parts = [part for part in re.split(r"[/\\]", path) if part and not part.endswith(":")]
        ends = ("/".join(parts[start:]) for start in range(len(parts)))
        return next((end for end in ends if ".." not in parts and (self.root / end).is_file()), None)

    def _has_line(self, path: str, line: int) -> bool:
        """Whether a file has a line of this number: if not, it is another file, or another version."""
        return 0 < line <= len((self.root / path).read_bytes().splitlines())
