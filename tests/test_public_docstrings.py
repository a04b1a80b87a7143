"""What public functions say of themselves: every parameter on a line of its own, and examples that run."""

import doctest
import inspect
import re

import pytest

import surgeon
from tests.command_line import ROOT

FUNCTIONS = [name for name in surgeon.__all__ if inspect.isfunction(getattr(surgeon, name))]


def section(text, title):
    """The lines of a section of a docstring."""
    found = re.search(rf"^{title}:\n((?:    .*\n|\n)+)", text + "\n", re.MULTILINE)
    return found[1] if found else ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_has_its_line(name):
    """In the order of the signature, each with words of its own."""
    function = getattr(surgeon, name)
    told = re.findall(r"^    (\w+): \S", section(inspect.getdoc(function), "Args"), re.MULTILINE)
    assert told == list(inspect.signature(function).parameters)


@pytest.mark.usefixtures("forget_implementations")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_run(name, tmp_path, monkeypatch):
    """In a folder with the models that ship here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "notebooks" / "models")
    function = getattr(surgeon, name)
    tests = [test for test in doctest.DocTestFinder(recurse=False).find(function, name, globs={}) if test.examples]
    assert tests, f"{name} has no example"
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0
