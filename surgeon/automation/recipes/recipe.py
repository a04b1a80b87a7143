"""A recipe as a value: what is to be done to a model, step by step, and how it is written down."""

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

    Attributes:
        rules: names as at the command line: "gelu", "ort,-softmax", "./my_rules.py".
        inline: local functions whose calls are written out first.
        only: shell patterns of node names; nothing else is rewritten.
        skip: shell patterns of node names that are left alone.
        approximate: whether rules that change numbers beyond rounding run where they are not named themselves.
        upgrade: an opset to raise the model to first, "auto" or "none".
        expect: how often rules must fire, by name.

    Examples:
        >>> import surgeon
        >>> surgeon.Rules("gelu", expect={"gelu": 4}).rules
        'gelu'
    """

    rules: str
    inline: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    approximate: bool = False
    upgrade: int | Literal["auto", "none"] = "none"
    expect: Mapping[str, int] = field(default_factory=dict)


Step: TypeAlias = Edit | Rules


@dataclass(frozen=True, slots=True)
class Recipe:
    """Edits and rules in order, with the target that the rules write for.

    Attributes:
        steps: values of `surgeon.edits`, and `surgeon.Rules`.
        target: where the model is to run; see `surgeon.rewrite`.
        ep: the execution provider, likewise.
        path: of its file, None for a recipe made in Python.
        lines: at which line of the file each step stands.

    Examples:
        >>> import surgeon
        >>> recipe = surgeon.Recipe([surgeon.edits.Rename("input_ids", "tokens"), surgeon.Rules("gelu")])
        >>> _, report = surgeon.run(recipe, "notebooks/models/tiny_distilbert.onnx", "out.onnx")
        >>> report.outcome, report.counts
        ('proved', {'gelu': 4})
    """

    steps: Sequence[Step]
    target: str = "ort"
    ep: str | None = None
    path: Path | None = field(default=None, compare=False)
    lines: Sequence[int] = field(default=(), compare=False, repr=False)

    def at(self, step: int) -> str:
        """What a sentence on a step begins with: where that stands in the file, "" for a recipe made in Python."""
        return "" if self.path is None else f"{self.path}, line {self.lines[step]}: "

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        for step in self.steps:
            if not isinstance(step, (Edit, Rules)):
                raise UsageError(f"{step!r} is no step of a recipe; give values of surgeon.edits, and surgeon.Rules.")
        if not self.steps:
            raise UsageError("The recipe has no step; name an edit or rules.")

    def text(self) -> str:
        """The recipe as its file has it."""
        head = [f"target = {_toml(self.target)}"] if self.target != "ort" else []
        head += [f"ep = {_toml(self.ep)}"] if self.ep is not None else []
        return "".join([*(f"{line}\n" for line in head), *map(step_text, self.steps)]).lstrip("\n")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recipe to a file.

        Args:
            path: where.

        Raises:
            ModelFileError: it cannot be written.
        """
        write_recipe(path, self.text())


def write_recipe(path: str | os.PathLike[str], text: str) -> None:
    """Write what `Recipe.text` and `step_text` give to a file, whole or not at all.  Raises ModelFileError."""
    try:
        write_text(path, text)
    except OSError as error:
        raise ModelFileError(f"The recipe {path} cannot be written: {error.strerror}.") from None


def step_text(step: Step) -> str:
    """One step as its file has it, an empty line before."""
    if isinstance(step, Edit):
        value = _toml(step.spelling) if step.metavar else "true"
        return f"\n[[step]]\n{step.flag} = {value}\n"
    lines = [f"rules = {_toml(step.rules)}"]
    default = Rules(step.rules)
    for one in fields(Rules)[1:]:
        value = getattr(step, one.name)
        if value != getattr(default, one.name):
            lines.append(f"{one.name} = {_toml(value)}")
    return "\n[[step]]\n" + "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A value as TOML: its basic strings are those of JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
