"""`surgeon new`: files that pass without a change, or none."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

from surgeon.cli.commands import new
from tests.command_line import ROOT, one_sentence, process, run


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Without modules that files of other tests in this process have left, which would be in the way of new ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if "pytest-of-" not in folder])
    for name in ("squared", "my_rules"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_files_pass_as_they_are(tmp_path):
    """Outside of a checkout: a rule and its tests in the working directory."""
    result = run("new", "rule", "squared")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["squared.py", "test_squared.py"]
    assert "python -m pytest test_squared.py" in result.output  # pytest alone may be that of another environment
    done = process("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_squared.py", cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_files_are_clean(tmp_path):
    """What is written is what this repository would take."""
    run("new", "rule", "squared")
    config = Path(__file__).resolve().parent.parent / "pyproject.toml"
    where = ("--no-cache", "--extend-ignore", "I001", "--config", config)  # whose import is whose differs from there
    done = process("-m", "ruff", "check", *where, "squared.py", "test_squared.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def checkout():
    """A working directory that looks like a checkout with two families of rules."""
    for family in ("_common", "activations", "norms"):
        Path("patterns", family).mkdir(parents=True)
        Path("patterns", family, "__init__.py").touch()
    Path("tests", "patterns").mkdir(parents=True)


@pytest.mark.usefixtures("checkout")
def test_in_a_checkout_each_file_lies_with_its_kind():
    """And the tests import the rule by the name of the installed package."""
    result = run("new", "rule", "squared", "--family", "activations")
    assert Path("patterns", "activations", "squared.py").exists()
    tests = Path("tests", "patterns", "test_squared.py").read_text()
    assert "from surgeon.patterns.activations.squared import squared" in tests
    assert "surgeon/patterns/__init__.py" in result.output


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("given", "what"),
    [
        ((), "A rule lies in the folder of its family"),
        (("--family", "norm"), "patterns/ has no folder 'norm'"),
        (("--family", "_common"), "patterns/ has no folder '_common'"),
    ],
)
def test_in_a_checkout_a_rule_has_a_family(given, what):
    """The sentence lists the families, and nothing is written."""
    said = one_sentence(run("new", "rule", "squared", *given), 2)
    assert what in said
    assert said.endswith("--family: activations, norms.")
    assert not [*Path().rglob("*squared.py")]


def test_elsewhere_there_are_no_families(tmp_path):
    """The option would have no effect there."""
    assert "leave out --family" in one_sentence(run("new", "rule", "squared", "--family", "norms"), 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Squared", "cannot name a rule"),
        ("a-b", "cannot name a rule"),
        ("class", "cannot name a rule"),
        ("gelu", "already (gelu.py:"),
        ("json", "is a module"),
    ],
)
def test_bad_names_are_refused(name, reason, tmp_path):
    """One sentence, and nothing written."""
    assert reason in one_sentence(run("new", "rule", name), 2)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path):
    """Not even half: the rule's file is not written where its tests are there."""
    (tmp_path / "test_squared.py").write_text("mine")
    assert "would be overwritten" in one_sentence(run("new", "rule", "squared"), 2)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_pack_installs_and_passes_its_tests(tmp_path):
    """Its group and its rule have names once it is installed, and ruff finds nothing in it."""
    result = run("new", "pack", "my-rules")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "my-rules"
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")} == {
        "README.md",
        "pyproject.toml",
        "src/my_rules/__init__.py",
        "src/my_rules/square.py",
        "tests/test_my_rules.py",
    }
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    (packaged,) = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    info = folder / "src" / "my_rules-0.1.0.dist-info"  # as an editable installation has it
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['project']['name']}\nVersion: 0.1.0\n")
    points = project["project"]["entry-points"]["surgeon.rules"]
    (info / "entry_points.txt").write_text("[surgeon.rules]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    there = {"cwd": folder, "PYTHONPATH": os.pathsep.join(map(str, ((folder / packaged).parent, ROOT)))}
    done = process("-m", "pytest", "-q", "-p", "no:cacheprovider", **there)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    listed = process("-m", "surgeon", "rules", "my-rules", **there)
    assert "my_rules_square" in listed.stdout, listed.stdout + listed.stderr
    where = ("--isolated", "--no-cache", "--line-length", "120", "--extend-ignore", "I001")
    clean = process("-m", "ruff", "check", *where, ".", cwd=folder)
    assert clean.returncode == 0, clean.stdout


@pytest.mark.parametrize(
    ("name", "reason"),
    [("My-rules", "cannot name a package"), ("class", "cannot name a package"), ("json", "is already named 'json'")],
)
def test_bad_names_of_packs_are_refused(name, reason, tmp_path):
    assert reason in one_sentence(run("new", "pack", name), 2)
    assert list(tmp_path.iterdir()) == []


def test_a_pack_overwrites_nothing(tmp_path):
    (tmp_path / "mine").mkdir()
    assert "already exists" in one_sentence(run("new", "pack", "mine"), 2)
    assert [*(tmp_path / "mine").iterdir()] == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="everything can be written")
def test_a_pack_that_cannot_be_written_leaves_nothing(tmp_path):
    tmp_path.chmod(0o500)
    assert "cannot be written" in one_sentence(run("new", "pack", "mine"), 2)
    tmp_path.chmod(0o700)
    assert [*tmp_path.iterdir()] == []


def test_what_a_pack_wrote_goes_if_the_rest_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setitem(new.PACK, "README.md/{module}", "README.md")
    assert "cannot be written" in one_sentence(run("new", "pack", "half_written"), 2)
    assert [*tmp_path.iterdir()] == []
