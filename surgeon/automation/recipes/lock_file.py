"""The lock of a recipe: a file that records the changes of each step, so that the next run can repeat them.

It contains counts and values, no sentences: an edit is its flag, its value, and the names and numbers of each change.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surgeon.automation.recipes.recipe import Recipe
from surgeon.errors import ExpectationUnmet, ModelFileError, UsageError
from surgeon.file.io.atomic_file import write_text
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.reports.edit_report import AppliedEdit
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rule_set import confirm_counts

_LOCK = ".lock"  # suffix of a recipe's name
_VALUE = re.compile(r"(?<!\w)(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|(-?\d(?:[\d,.]*\d)?))(?!\w)")


def read_lock(recipe: Recipe, parts: Sequence[Report], report: Report) -> dict[int, dict[str, Any]]:
    """The recorded changes of each part of a recipe, by the id of its report.

    Raises UsageError without a lock, ModelFileError for another file, and ExpectationUnmet, with the report, if the
    recipe has other steps.
    """
    path = _path(recipe)
    try:
        found = [_part(part) for part in json.loads(path.read_text(encoding="utf-8"))["parts"]]
    except FileNotFoundError:
        raise UsageError(f"Lock file not found: {path}. Run the recipe once with --lock to write it.") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        how = "Run the recipe once with --lock to write it again"
        raise ModelFileError(f"{path} is not the lock file of a recipe. {how}.") from None
    if len(found) != len(parts):
        raise ExpectationUnmet(
            f"The recipe has {len(parts)} parts, but the lock file has {len(found)}. Nothing was written.", report
        )
    if sum(isinstance(step, Edit) for step in recipe.steps) != sum(len(part["edits"]) for part in found):
        raise ExpectationUnmet("The edits of the recipe differ from its lock file. Nothing was written.", report)
    return {id(part): before for part, before in zip(parts, found, strict=True)}


def require_same(report: Report, before: dict[str, Any]) -> None:
    """Raise ExpectationUnmet if the changes of a part differ from the recorded ones."""
    if isinstance(report, RewriteReport):
        try:
            confirm_counts(report, {rule: before["rules"].get(rule, 0) for rule in report.counts})
        except ExpectationUnmet as error:
            raise ExpectationUnmet(f"The rewrite differs from the lock file: {error}", error.report) from None
    for now, then in zip(map(_entry, report.edits), before["edits"], strict=False):
        if any(then.get(key, value) != value for key, value in now.items()):
            values = f"{_difference(now, then)} instead of {_difference(then, now)}"
            raise ExpectationUnmet(f"{now['edit']} differs from the lock file: {values}. Nothing was written.")


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The value of an edit if it differs from that of another, else the names and numbers that the other lacks."""
    if "value" in one and one["value"] != other.get("value", one["value"]):
        return str(one["value"])
    named, known = ([name for names in entry["changes"] for name in names] for entry in (one, other))
    return ", ".join(dict.fromkeys(name for name in named if name not in known)) or "nothing"


def write_lock(recipe: Recipe, parts: Sequence[Report]) -> None:
    """Write the changes of each part of a recipe.  Raises ModelFileError."""
    held = [
        {"rules": part.counts} if isinstance(part, RewriteReport) else {"edits": list(map(_entry, part.edits))}
        for part in parts
    ]
    path = _path(recipe)
    try:
        write_text(path, json.dumps({"parts": held}, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ModelFileError(f"The lock {path} cannot be written: {error.strerror}.") from None


def _path(recipe: Recipe) -> Path:
    """The path of a recipe's lock file.  Raises UsageError for a recipe without a file."""
    if recipe.path is None:
        raise UsageError("Only a recipe from a file has a lock file. Save the recipe and load it first.")
    return recipe.path.with_name(recipe.path.name + _LOCK)


def _entry(done: AppliedEdit) -> dict[str, Any]:
    """The changes of an edit, as a lock contains them."""
    value = done.edit.spelling if isinstance(done.edit, Edit) else ""
    return {"edit": done.edit.flag, "value": value, "changes": list(map(_values, done.said))}


def _part(held: dict[str, Any]) -> dict[str, Any]:
    """The content of a lock for a part; locks of earlier versions have the flag and the sentences of each edit."""
    edits = [
        {"edit": item[0], "changes": list(map(_values, item[1]))}
        if isinstance(item, list)
        else {key: item[key] for key in ("edit", "value", "changes")}
        for item in held.get("edits", ())
    ]
    return {"rules": dict(held.get("rules", {})), "edits": edits}


def _values(sentence: str) -> list[str]:
    """The names in quotes and the numbers of a sentence, sorted: another wording has the same."""
    return sorted(one or other or number.replace(",", "") for one, other, number in _VALUE.findall(sentence))
