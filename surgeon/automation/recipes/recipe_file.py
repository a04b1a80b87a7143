"""Reads recipes from TOML files.

TOML has tables instead of indentation, typed values instead of guesses, and a reader in Python's standard library;
plugin declarations are TOML too.
"""

import dataclasses
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surgeon.automation.recipes.recipe import Recipe, Rules, Step
from surgeon.edits.installed_edits import all_edits
from surgeon.errors import ModelFileError, SurgeonError, UsageError
from surgeon.pipeline.acceptance.kernel_support import resolve_provider
from surgeon.pipeline.editing.edit import Edit
from surgeon.printed_commands import command
from surgeon.text import close_matches, did_you_mean

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


_TOP_LEVEL_KEYS = {"target": str, "ep": str, "variables": dict, "step": list}
_LISTS = ("inline", "only", "skip")
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
Variables = Mapping[str, str | int | float]


def load_recipe(path: str | os.PathLike[str], variables: Variables | None = None) -> Recipe:
    """Read a recipe from its file.

    Args:
        path: the path of a TOML file.
        variables: values for `${name}` in it, instead of those in its table `variables`.

    Returns:
        The recipe.

    Raises:
        ModelFileError: the file cannot be read.
        UsageError: the file is not a recipe; the message has the line.

    Examples:
        >>> import surgeon
        >>> surgeon.Recipe([surgeon.Rules("gelu")]).save("deploy.toml")
        >>> surgeon.load_recipe("deploy.toml").steps[0].rules
        'gelu'
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"A recipe must be a surgeon.Recipe or the path of a file, not {path!r}.")
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors of Windows add a byte order mark
    except UnicodeDecodeError:
        how = f"Give a TOML file first, then the models: {command('run', 'RECIPE', 'IN', 'OUT')}"
        raise ModelFileError(f"The recipe {path} is not UTF-8 text. {how}") from None
    except OSError as error:
        raise ModelFileError(f"The recipe {path} cannot be read: {error.strerror}.") from None
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The recipe {path} is not valid TOML: {error}.") from None
    return _RecipeFile(TomlSource(path, text), variables or {}).recipe(found)


class _RecipeFile:
    """Parses one file."""

    def __init__(self, source: TomlSource, variables: Variables) -> None:
        self._at = source
        self._given = variables

    def recipe(self, found: dict[str, Any]) -> Recipe:
        for key, value in found.items():
            if key not in _TOP_LEVEL_KEYS:
                raise self._at.error_at(f"a recipe has no {key!r}; {did_you_mean(key, _TOP_LEVEL_KEYS)}", key=key)
            if not isinstance(value, _TOP_LEVEL_KEYS[key]):
                begin = ". Start each step with [[step]]" if key == "step" else ""
                raise self._at.error_at(f"{key!r} must be {_TYPE_NAMES[_TOP_LEVEL_KEYS[key]]}{begin}.", key=key)
        own = found.get("variables", {})
        unknown = next((name for name in self._given if name not in own), None)
        if unknown is not None:
            declare = "declare it under [variables] in the recipe first."
            how = did_you_mean(unknown, own) if close_matches(unknown, own) else declare
            raise UsageError(f"The recipe {self._at.path} has no variable {unknown!r}; {how}")
        self._variables: dict[str, Any] = {**own, **self._given}
        steps: list[Step] = []
        lines: list[int] = []
        for number, table in enumerate(found.get("step", [])):
            if not isinstance(table, dict) or not table:
                raise self._at.error_at("a step needs an edit or rules, for example rename = 'a=b'.", number)
            for key, step in self._steps(number, self._substituted(table, number)):
                steps.append(step)
                lines.append(self._at.line(number, key))
        if not steps:
            raise UsageError(f"The recipe {self._at.path} has no step. Start one with [[step]].")
        head = {key: self._substituted(found[key], None) for key in ("target", "ep") if key in found}
        for key in head:
            try:
                resolve_provider(head.get("target", "ort"), head["ep"] if key == "ep" else None)
            except SurgeonError as error:
                raise self._at.error_at(str(error), key=key) from None
        return Recipe(steps, **head, path=self._at.path, lines=lines)

    def _steps(self, number: int, table: dict[str, Any]) -> Iterator[tuple[str, Step]]:
        """The steps of a table, each with its key."""
        if "rules" in table:
            yield "rules", self._rules(number, table)
            return
        known = all_edits()
        for key, value in table.items():
            if key not in known:
                raise self._at.error_at(
                    f"unknown edit {key!r}; {did_you_mean(key, [*known, 'rules'])}", number, key
                )
            for one in value if isinstance(value, list) else [value]:
                yield key, self._edit(number, known[key], one)

    def _edit(self, number: int, kind: type[Edit], value: Any) -> Edit:
        try:
            if isinstance(value, dict):
                names = [item.name for item in dataclasses.fields(kind)]  # type: ignore[arg-type]  # each is a dataclass
                unknown = next((name for name in value if name not in names), None)
                if unknown is not None:
                    raise UsageError(f"{kind.flag} has no setting {unknown!r}; {did_you_mean(unknown, names)}")
                fields = {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
                return kind(**fields)
            if not kind.metavar:
                if value is not True:
                    raise UsageError(f"{kind.flag} takes no value. Write {kind.flag} = true")
                return kind.parse("")
            return kind.parse(str(value))
        except TypeError as error:  # a setting is missing or has the wrong type
            problem = str(error).partition(") ")[2] or str(error)
            raise self._at.error_at(f"{kind.flag} {problem}.", number, kind.flag) from None
        except SurgeonError as error:
            raise self._at.error_at(str(error), number, kind.flag) from None

    def _rules(self, number: int, table: dict[str, Any]) -> Rules:
        known = {item.name: item for item in dataclasses.fields(Rules)}
        for key, value in table.items():
            if key not in known:
                raise self._at.error_at(f"a step of rules has no {key!r}; {did_you_mean(key, known)}", number, key)
            wanted = _ALLOWED_TYPES[key]
            if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
                expected = " or ".join(_TYPE_NAMES[one] for one in wanted)
                raise self._at.error_at(f"{key!r} must be {expected}.", number, key)
        given: dict[str, Any] = {key: _as_tuple(value) if key in _LISTS else value for key, value in table.items()}
        if isinstance(given["rules"], list):
            given["rules"] = ",".join(map(str, given["rules"]))
        given["rules"] = ",".join(self._resolved_path(part.strip()) for part in given["rules"].split(","))
        return Rules(**given)

    def _resolved_path(self, name: str) -> str:
        """The path of a rule file, which a recipe gives relative to its own folder."""
        less, name = ("-", name[1:]) if name.startswith("-") else ("", name)
        return less + (str(self._at.path.parent / name) if name.startswith(("./", "../")) else name)

    def _substituted(self, value: Any, number: int | None) -> Any:
        """A value with its variables replaced; a text that is one variable becomes its value."""
        if isinstance(value, dict):
            return {key: self._substituted(item, number) for key, item in value.items()}
        if isinstance(value, list):
            return [self._substituted(item, number) for item in value]
        if not isinstance(value, str):
            return value
        whole = _VARIABLE.fullmatch(value)
        if whole is not None:
            return self._variable(whole[1], number)
        return _VARIABLE.sub(lambda match: str(self._variable(match[1], number)), value)

    def _variable(self, name: str, number: int | None) -> Any:
        if name not in self._variables:
            raise self._at.error_at(f"unknown variable {name!r}; {did_you_mean(name, self._variables)}", number)
        return self._variables[name]


_TYPE_NAMES = {str: "a string", dict: "a table", list: "a list", bool: "true or false", int: "a number"}
_ALLOWED_TYPES: dict[str, tuple[type, ...]] = {
    "rules": (str, list),
    "inline": (str, list),
    "only": (str, list),
    "skip": (str, list),
    "approximate": (bool,),
    "upgrade": (int, str),
    "expect": (dict,),
    "fold_limit": (int,),
}


def _as_tuple(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
