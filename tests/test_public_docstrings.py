"""What public functions and classes say of themselves: each parameter and field on its own line, examples that run."""

import dataclasses
import doctest
import inspect
import re

import pytest

import surgeon
import surgeon.torch
from surgeon.declarations import field_docs
from surgeon.ops import torch_schema
from tests.command_line import ROOT

GIVEN = {"Constant", "Tensor"}  # tensors are gs's own
MADE = {"CheckOptions", "Graph", "OwnOps", "Provider", "Target"}  # by users
PUBLIC = {name: getattr(surgeon, name) for name in surgeon.__all__ if name not in GIVEN}
PUBLIC |= {f"torch.{name}": getattr(surgeon.torch, name) for name in surgeon.torch.__all__}
FUNCTIONS = [name for name, item in PUBLIC.items() if inspect.isfunction(item)]
CLASSES = [name for name, item in PUBLIC.items() if inspect.isclass(item)]
WITHOUT_EXAMPLE = {name for name in CLASSES if issubclass(PUBLIC[name], Exception)}  # functions show what raises them


def section(text, title):
    """The lines of a section of a docstring."""
    found = re.search(rf"^{title}:\n((?:    .*\n|\n)+)", text + "\n", re.MULTILINE)
    return found[1] if found else ""


def documented(name, title):
    """The names that have a line in a section, in order."""
    return re.findall(r"^    (\w+): \S", section(inspect.getdoc(PUBLIC[name]), title), re.MULTILINE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_has_its_line(name):
    """In the order of the signature, each with words of its own."""
    assert documented(name, "Args") == list(inspect.signature(PUBLIC[name]).parameters)


@pytest.mark.parametrize("name", CLASSES)
def test_every_field_has_its_line(name):
    """A record documents each field below it or in its own docstring; a class that users make, its parameters."""
    home = PUBLIC[name]
    if dataclasses.is_dataclass(home):
        fields = [field.name for field in dataclasses.fields(home) if not field.name.startswith("_")]
        assert fields in (list(field_docs(home)), documented(name, "Attributes"))
    elif "__init__" in vars(home):
        parameters = list(inspect.signature(home.__init__).parameters)[1:]
        assert documented(name, "Args") in (parameters, parameters if name in MADE else [])


@pytest.mark.usefixtures("forget_implementations")
@pytest.mark.parametrize("name", [name for name in PUBLIC if name in {*FUNCTIONS, *CLASSES} - WITHOUT_EXAMPLE])
def test_examples_run(name, tmp_path, monkeypatch):
    """In a folder that has the models where a checkout has them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch_schema, "_declared", {})  # what an example declares is for it alone
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/models").symlink_to(ROOT / "notebooks/models")
    tests = [test for test in doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name, globs={}) if test.examples]
    assert tests, f"{name} has no example"
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0
