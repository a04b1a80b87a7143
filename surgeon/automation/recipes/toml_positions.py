"""Finds lines of a TOML file, which Python's own reader does not report."""

import re
from dataclasses import dataclass
from pathlib import Path

from surgeon.errors import UsageError

_STEP = re.compile(r"\s*\[\[\s*step\s*\]\]")
_TABLE = re.compile(r"\s*\[")


@dataclass(frozen=True, slots=True)
class TomlSource:
    """The text of a recipe's file."""

    path: Path
    """The path of the file."""
    text: str
    """The content of the file."""

    def line(self, step: int | None, key: str = "") -> int:
        """The line of a key in a step (counted from 0) or, for None, outside all steps; else the line of the step."""
        begins = number = -1
        for count, line in enumerate(self.text.splitlines(), 1):
            if _STEP.match(line):
                number += 1
                begins = count if number == step else begins
            elif _TABLE.match(line) and number == (-1 if step is None else step):
                continue
            is_there = number == (-1 if step is None else step)
            if is_there and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*(=|\.)", line):
                return count
        return max(begins, 1)

    def error_at(self, why: str, step: int | None = None, key: str = "") -> UsageError:
        """An error that points at a line.  why: a sentence."""
        return UsageError(f"{self.path}, line {self.line(step, key)}: {why}")
