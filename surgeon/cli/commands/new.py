"""The command `surgeon new`: writes working files to start from."""

import keyword
import re
from importlib.util import find_spec
from pathlib import Path

import click

from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit
from surgeon.display.registry import CommandResult
from surgeon.errors import UsageError

RULE = '''"""{title}: say here what the operation is, and where its formula stands (paper, specification)."""

from surgeon import Graph, Tensor, rule


def written_out(g: Graph, x: Tensor) -> Tensor:
    """x · x."""
    return g.mul(x, x)


@rule(patterns=[written_out], target="any")
def {name}(g: Graph, x: Tensor) -> Tensor:
    """Write x · x as one node.

    What: say the formula here, and the forms in which it is found.
    Numerics: rounding only.
    """
    return g.pow(x, 2.0)
'''

TESTS = '''"""The rule {name}: what fires and what does not."""

import pytest
from {home} import {name}

from surgeon.testing import Case, check_fires, check_spares, parse

FIRES = [
    Case({name}, "as it is written out", parse("(float[n, 4] x) => (float[n, 4] y) {{ y = Mul(x, x) }}")),
]

NEGATIVES = [
    Case(
        {name},
        "a product of two tensors is no square",
        parse("(float[n, 4] x, float[n, 4] w) => (float[n, 4] y) {{ y = Mul(x, w) }}"),
        why="wanted 'x'",
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """What the rule is for."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """What looks like it and is something else."""
    check_spares(case)
'''


@click.group(short_help="Write files to begin with.")
def new() -> None:
    """Write files to begin with, which work as they are and are to be changed."""


@derived_command(positional={"name": "NAME"}, family=Spelling(metavar="FOLDER"))
def rule(name: str, family: str | None = None) -> None:
    """Write a rule called NAME, and its tests: what fires and what does not.

    In a checkout of surgeon they are patterns/FOLDER/NAME.py and tests/patterns/test_NAME.py, else NAME.py and
    test_NAME.py in the working directory.  Example: surgeon new rule squared_relu

    Args:
        family: in a checkout, the folder of patterns/ that the rule belongs into.
    """
    from surgeon.rules.catalogue import all_rules

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is no name for a rule; write small letters, digits and _, as in squared_relu.")
    namesake = next((known for _, _, known in all_rules() if known.name == name), None)
    if namesake is not None:
        raise UsageError(f"A rule is called {name!r} already ({namesake.where}); choose another name.")
    is_checkout = Path("patterns").is_dir() and Path("tests", "patterns").is_dir()
    folder = _folder(family, is_checkout)
    if not is_checkout and find_spec(name) is not None and not Path(f"{name}.py").exists():
        raise UsageError(f"{name!r} is a module of Python's here, which {name}.py would hide; choose another name.")
    path = folder / f"{name}.py"
    tests = Path("tests/patterns" if is_checkout else "", f"test_{name}.py")
    home = f"surgeon.patterns.{folder.name}.{name}" if is_checkout else name
    title = name.replace("_", " ").capitalize()
    _write({path: RULE.format(name=name, title=title), tests: TESTS.format(name=name, home=home)})
    run = f"python -m pytest {tests}"
    group = ["Put the rule into its group in surgeon/patterns/__init__.py."] if is_checkout else []
    lines = [str(path), str(tests), f"They pass as they are: {run}", *group]
    emit([CommandResult("new", {"files": [str(path), str(tests)], "test": run}, lines)])


new.add_command(rule)


def _folder(family: str | None, is_checkout: bool) -> Path:
    """The folder of a new rule: that of its family in a checkout, else the working directory."""
    if not is_checkout:
        if family is not None:
            raise UsageError("Only a checkout of surgeon has families of rules; leave out --family.")
        return Path()
    families = sorted(path.parent.name for path in Path("patterns").glob("[a-z]*/__init__.py"))
    if family not in families:
        what = "A rule lies in the folder of its family" if family is None else f"patterns/ has no folder {family!r}"
        raise UsageError(f"{what}; give one with --family: {', '.join(families)}.")
    return Path("patterns", family)


def _write(texts: dict[Path, str]) -> None:
    """Write all files, or none if one of them exists."""
    existing = [str(path) for path in texts if path.exists()]
    if existing:
        raise UsageError(f"{' and '.join(existing)} would be overwritten; choose another name, or move what is there.")
    written: list[Path] = []
    try:
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from error
