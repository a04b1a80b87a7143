"""The command `surgeon new`: writes working files to start from."""

import keyword
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from surgeon.cli.help_page import HelpPage
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit
from surgeon.display.registry import CommandResult
from surgeon.errors import UsageError

PACK = {name: name.rpartition("/")[2] for name in ("pyproject.toml", "README.md", "src/{module}/__init__.py")}
"""The files of a package of rules without its rule and the tests, and their templates."""


class NewGroup(HelpPage, click.Group):
    """A group of commands."""


@click.group(cls=NewGroup)
def new() -> None:
    """Create a rule file and its tests, or a package of rules.  The files work without a change.
    Example: surgeon new rule squared_relu
    """


@derived_command(positional={"name": "NAME"}, family=Spelling(metavar="FOLDER"))
def rule(name: str, family: str | None = None) -> None:
    """Create the rule file NAME.py and its tests test_NAME.py in the working directory.

    In a checkout of surgeon, the files are patterns/FOLDER/NAME.py and tests/patterns/test_NAME.py.
    Example: surgeon new rule squared_relu

    Args:
        family: folder of patterns/ for the rule, in a checkout of surgeon.
    """
    from surgeon.rules.catalogue import all_rules

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} cannot name a rule. Use lower case, digits and _, for example squared_relu.")
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
    _write(
        {
            path: _template("rule.py").format(name=name, title=title),
            tests: _template("tests.py").format(name=name, home=home),
        }
    )
    run = f"python -m pytest {tests}"
    group = ["Put the rule into its group in surgeon/patterns/__init__.py."] if is_checkout else []
    lines = [str(path), str(tests), f"They pass as they are: {run}", *group]
    emit([CommandResult("new", {"files": [str(path), str(tests)], "test": run}, lines)])


@derived_command(positional={"name": "NAME"})
def pack(name: str) -> None:
    """Create the folder NAME, a package that pip installs, with a rule, a group and tests.
    Example: surgeon new pack my-rules
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} cannot name a package. Use lower case, digits and dashes, for example my-rules.")
    module = name.replace("-", "_")
    if Path(name).exists():
        raise UsageError(f"{name} already exists. Choose another name, or move it first.")
    if find_spec(module) is not None:
        raise UsageError(f"A Python module is already named {module!r}. Choose another name.")
    rule, title = f"{module}_square", "A square"
    texts = {path.format(module=module): _template(source) for path, source in PACK.items()}
    texts[f"src/{module}/square.py"] = _template("rule.py")
    texts[f"tests/test_{module}.py"] = _template("tests.py")
    names = {"name": rule, "pack": name, "module": module, "title": title, "home": f"{module}.square"}
    paths = {Path(name, path): text.format(**names) for path, text in texts.items()}
    _write(paths)
    run = f'cd {name} && python -m pip install -e ".[test]" && python -m pytest'
    lines = [*map(str, paths), f"Install it and run its tests: {run}", f"Then its rules have names: --rules {name}"]
    emit([CommandResult("new", {"files": [*map(str, paths)], "test": run}, lines)])


rule.short_help, pack.short_help = "Create a rule file and its tests.", "Create a package of rules."
new.add_command(rule)
new.add_command(pack)


def _template(name: str) -> str:
    """The text of a new file, with names in braces."""
    return (files("surgeon.cli") / "templates" / f"{name}.txt").read_text(encoding="utf-8")


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
    """Write all files with their folders, or none if one of them exists."""
    existing = [str(path) for path in texts if path.exists()]
    if existing:
        raise UsageError(f"{' and '.join(existing)} would be overwritten; choose another name, or move what is there.")
    made: list[Path] = []
    try:
        for path, text in texts.items():
            for folder in reversed([folder for folder in path.parents if not folder.exists()]):
                folder.mkdir()
                made.append(folder)
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except OSError as error:
        for done in reversed(made):
            done.rmdir() if done.is_dir() else done.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from error
