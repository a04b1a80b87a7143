"""The name of the distribution: `surgeon` on the package index is an unrelated project, which nobody may be sent to."""

import ast
import re
import tomllib
from importlib import metadata

import pytest

import surgeon
from surgeon import versions
from tests.command_line import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCANNED = [
    *(ROOT / "surgeon").rglob("*.py"),
    *(ROOT / "patterns").rglob("*.py"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "notebooks").glob("*.ipynb"),
    *(ROOT / "notebooks").glob("*.md"),
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "mkdocs.yml", "noxfile.py", ".ci/run")),
]
INSTALLERS = r"\b(?:pip3?|pipx|uv|uvx|poetry|conda|mamba)\b(?: \w+)* (?:install|add|run|inject)\b"
OLD = re.compile(
    r"(?<![\w./-])surgeon\\?\["  # an extra of the old name, but not of a folder
    rf"|{INSTALLERS}[^\n`&|;]*?[ \"']surgeon(?=[\"' `,;)\]=<>~!\\]|\.?$)"
    r"|\b(?:version|distribution|requires|metadata)\([\"']surgeon[\"']\)",
    re.MULTILINE,
)


@pytest.mark.parametrize(
    "text",
    [
        'pip install "surgeon[torch]"',
        "pip install 'surgeon[fleet]', or leave it out.",
        "pip install surgeon[tensorrt]",
        "pip install surgeon",
        "pip install -U surgeon==0.1",
        "uv pip install surgeon, then",
        "uv add surgeon",
        "poetry add 'surgeon'",
        "With `surgeon[fleet]`, models",
        '\\"surgeon[notebook]\\"',
        'metadata.version("surgeon")',
    ],
)
def test_the_scan_finds_the_old_name(text):
    assert OLD.search(text)


@pytest.mark.parametrize(
    "text",
    [
        'pip install "onnx-surgeon[torch]"',
        'pip install "../surgeon[torch]"',
        "pip install ../surgeon",
        "pip install onnx-surgeon onnx-graphsurgeon",
        "pip install . && surgeon rewrite in.onnx out.onnx",
        "installs surgeon from a checkout",
        "the package `surgeon` on PyPI is an unrelated project",
    ],
)
def test_the_scan_skips_the_new_name_and_folders(text):
    assert not OLD.search(text)


@pytest.mark.parametrize("path", SCANNED, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_names_the_old_distribution(path):
    """No message and no page installs, or asks for the version of, somebody else's package."""
    assert [found[0] for found in OLD.finditer(path.read_text(encoding="utf-8"))] == []


def test_messages_name_extras_that_there_are():
    """Each message that names an extra takes the command from one function, and pyproject.toml has that extra."""
    texts = [path.read_text(encoding="utf-8") for path in SCANNED if path.suffix == ".py"]
    trees = [ast.parse(text) for text in texts if "install_command" in text]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "install_command"]
    extras = {ast.literal_eval(name) for name in named}
    assert {"fleet", "mcp", "notebook", "pictures", "tensorrt", "torch"} == extras
    assert extras <= PROJECT["optional-dependencies"].keys()
    assert versions.install_command("torch") == f'pip install "{PROJECT["name"]}[torch]"'


def test_the_version_of_a_checkout():
    assert surgeon.__version__ == versions.versions()["surgeon"] == PROJECT["version"]
    assert "__version__" in dir(surgeon)
    assert "__version__" not in surgeon.__all__


@pytest.mark.parametrize(
    ("installed", "name", "version"),
    [
        ({"onnx-surgeon": "7.1"}, "onnx-surgeon", "7.1"),  # as installed, whatever a folder beside it says
        ({"onnx-surgeon": "7.1", "surgeon": "0.1"}, "onnx-surgeon", "7.1"),
        ({"surgeon": "0.1"}, "onnx-surgeon", "3.2"),  # somebody else's package, and a checkout
        ({}, "onnx-surgeon", "3.2"),
        ({"surgeon": "0.1"}, "another-project", "none"),
        ({}, None, "none"),
    ],
)
def test_whose_version_it_is(monkeypatch, tmp_path, installed, name, version):
    """The distribution's, or that of the checkout; never that of another project that is called surgeon."""

    def found(wanted):
        if wanted not in installed:
            raise metadata.PackageNotFoundError(wanted)
        return installed[wanted]

    monkeypatch.setattr(metadata, "version", found)
    monkeypatch.setattr(versions, "__file__", str(tmp_path / "surgeon" / "versions.py"))
    if name is not None:
        (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "3.2"\n', encoding="utf-8")
    assert versions.own_version() == version
