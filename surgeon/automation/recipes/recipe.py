"""Recipes as values: the steps for a model, and the text of a recipe's file."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surgeon.errors import ModelFileError, UsageError
from surgeon.file.io.atomic_file import write_text
from surgeon.pipeline.editing.edit import Edit


@dataclass(frozen=True, slots=True)
class Rules:
    """A step that runs rules, as `surgeon.rewrite` does.

    Examples:
        >>> import surgeon
        >>> surgeon.Rules("gelu", expect={"gelu": 4}).rules
        'gelu'
    """

    rules: str
    """Names as on the command line: "gelu", "ort,-softmax", "./my_rules.py"."""
    inline: tuple[str, ...] = ()
    """Local functions to inline first."""
    only: tuple[str, ...] = ()
    """Shell patterns of node names; only matching nodes are rewritten."""
    skip: tuple[str, ...] = ()
    """Shell patterns of node names that are not rewritten."""
    approximate: bool = False
    """Whether rules run whose results differ by more than rounding."""
    upgrade: int | Literal["auto", "none"] = "none"
    """The opset to upgrade the model to first, "auto" or "none"."""
    expect: Mapping[str, int] = field(default_factory=dict)
    """Number of sites that each rule must rewrite, by rule name."""
    fold_limit: int | None = None
    """Bytes of the largest result that constant folding stores; None for 1 MiB."""


Step: TypeAlias = Edit | Rules


@dataclass(frozen=True, slots=True)
class Recipe:
    """Edits and rules in order, with the target that the rules write for.

    Examples:
        >>> import surgeon
        >>> recipe = surgeon.Recipe([surgeon.edits.Rename("input_ids", "tokens"), surgeon.Rules("gelu")])
        >>> _, report = surgeon.run(recipe, "notebooks/models/tiny_distilbert.onnx", "out.onnx")
        >>> report.outcome, report.counts
        ('proved', {'gelu': 4})
    """

    steps: Sequence[Step]
    """Values of `surgeon.edits`, and `surgeon.Rules`."""
    target: str = "ort"
    """The runtime of the model; see `surgeon.rewrite`."""
    ep: str | None = None
    """The execution provider; see `surgeon.rewrite`."""
    path: Path | None = field(default=None, compare=False)
    """The path of its file; None for a recipe created in Python."""
    lines: Sequence[int] = field(default=(), compare=False, repr=False)
    """The line of each step in the file."""

    def at(self, step: int) -> str:
        """The position of a step as a prefix of messages; empty for a recipe created in Python."""
        return "" if self.path is None else f"{self.path}, line {self.lines[step]}: "

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        for step in self.steps:
            if not isinstance(step, (Edit, Rules)):
                raise UsageError(f"{step!r} is not a step of a recipe. Use values of surgeon.edits, and surgeon.Rules.")
        if not self.steps:
            raise UsageError("The recipe has no step. Add an edit or rules.")

    def text(self) -> str:
        """The text of the recipe's file."""
        head = [f"target = {_toml(self.target)}"] if self.target != "ort" else []
        head += [f"ep = {_toml(self.ep)}"] if self.ep is not None else []
        return "".join([*(f"{line}\n" for line in head), *map(step_text, self.steps)]).lstrip("\n")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recipe to a file.

        Args:
            path: the path of the file.

        Raises:
            ModelFileError: the file cannot be written.
        """
        write_recipe(path, self.text())


def write_recipe(path: str | os.PathLike[str], text: str) -> None:
    """Write the text of a recipe to a file atomically.  Raises ModelFileError."""
    try:
        write_text(path, text)
    except OSError as error:
        raise ModelFileError(f"The recipe {path} cannot be written: {error.strerror}.") from None


def step_text(step: Step) -> str:
    """The text of one step, after an empty line."""
    if isinstance(step, Edit):
        value = _toml(step.spelling) if step.metavar else "true"
        return f"\n[[step]]\n{step.flag} = {value}\n"
    lines = [f"rules = {_toml(step.rules)}"]
    default = Rules(step.rules)
    for item in fields(Rules)[1:]:
        value = getattr(step, item.name)
        if value != getattr(default, item.name):
            lines.append(f"{item.name} = {_toml(value)}")
    return "\n[[step]]\n" + "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A value as TOML: its basic strings are JSON strings."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
