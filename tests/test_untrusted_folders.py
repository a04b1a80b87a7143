"""surgeon in a folder with other files: modules named like surgeon's folders and its dependencies."""

import os
import shutil
import subprocess
import sys
import tomllib

import onnx
import pytest

from tests import sampling
from tests.command_line import ROOT, gelus, ops

MINE = """
from surgeon import rule
from surgeon.patterns.activations.gelu import exact

@rule(patterns=[exact])
def mine(g, x):
    return g.ms_gelu(x)
"""
CONSOLE = "import sys; from surgeon.cli.app import main; sys.exit(main())"  # what pip writes into bin/surgeon
# Python puts the script's own folder first, not the working directory.
WAYS = {"module": ["-m", "surgeon"], "script": ["SCRIPT"]}
PLACES = {"checkout": False, "wheel": True}
CASES = [(place, way) for place in PLACES for way in WAYS]
SAMPLE = list(zip(PLACES, WAYS, strict=True))
SCRIPTS = [(place, words) for place in PLACES for words in (["script.py"], ["-c", "import script"])]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What a wheel puts into site-packages, as pyproject.toml says it."""
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    built = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    for name in built["packages"]:
        target = site / built["sources"].get(name, name)
        shutil.copytree(ROOT / name, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    points = project["project"]["entry-points"]["surgeon.rules"]
    name, version = project["project"]["name"], project["project"]["version"]
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(
        "[surgeon.rules]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
    )
    return site


@pytest.fixture
def folder(tmp_path):
    """A working directory in which nothing is what it is called."""
    here = tmp_path / "where I work"
    for name in ("patterns", "tests", "click", "numpy"):  # packages
        (here / name).mkdir(parents=True)
        (here / name / "__init__.py").write_text(f"raise SystemExit('the foreign {name} was imported')")
    (here / "patterns" / "gelu.py").write_text("raise SystemExit('the foreign gelu was imported')")
    for name in ("onnx", "onnxruntime", "onnx_graphsurgeon", "json", "inspect", "queue", "random"):
        (here / f"{name}.py").write_text(f"raise SystemExit('the foreign {name}.py was imported')")
    (here / "surgeon").mkdir()
    (here / "surgeon" / "notes.txt").write_text("data")
    (here / "mine.py").write_text(MINE)
    gelus(here, 1)
    return here


def started(folder, site, *arguments):
    """Run Python in the folder, with surgeon at `site`."""
    script = folder.parent / "bin" / "surgeon"
    script.parent.mkdir(exist_ok=True)
    script.write_text(CONSOLE)
    command = [str(script) if item == "SCRIPT" else str(item) for item in arguments]
    variables = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run([sys.executable, *command], cwd=folder, env=variables, capture_output=True, text=True)


@pytest.mark.parametrize(("place", "way"), sampling.chosen(lambda: SAMPLE, lambda: CASES))
def test_commands_run_among_foreign_names(folder, wheel, way, place):
    """Rewriting with rules that ship and with one's own, proved in other processes."""
    site = wheel if PLACES[place] else ROOT
    words = ["rewrite", "in.onnx", "out.onnx", "-r", "./mine.py,ort", "--check", "both", "--require-proof"]
    done = started(folder, site, *WAYS[way], *words)
    assert done.returncode == 0, done.stderr
    assert ops(folder / "out.onnx") == ["com.microsoft::Gelu"]
    done = started(folder, site, *WAYS[way], "rules", "gelu")
    assert done.returncode == 0, done.stderr
    assert "Fuse the exact GELU" in done.stdout


@pytest.mark.parametrize(("place", "words"), sampling.chosen(lambda: SCRIPTS[::3], lambda: SCRIPTS), ids=str)
def test_scripts_and_notebooks_run_beside_foreign_folders(folder, wheel, place, words):
    """There the folder itself comes first on Python's path: what is called as a library is the user's to rename."""
    for name in ("onnx", "onnxruntime", "onnx_graphsurgeon", "json", "inspect", "queue", "random"):
        (folder / f"{name}.py").unlink()
    for name in ("click", "numpy"):
        shutil.rmtree(folder / name)
    (folder / "script.py").write_text(
        "import surgeon\n"
        "path, report = surgeon.rewrite('in.onnx', ['gelu', './mine.py'], output='out.onnx', check='both')\n"
        "print(report)\n"
    )
    done = started(folder, wheel if PLACES[place] else ROOT, *words)
    assert done.returncode == 0, done.stderr
    assert "proved" in done.stdout
    assert [node.op_type for node in onnx.load(folder / "out.onnx").graph.node] == ["Gelu"]


def test_nothing_of_ours_is_called_patterns(wheel):
    """In site-packages; and a checkout's folder is no package, so that whoever's package is called so comes first."""
    assert sorted(path.name for path in wheel.iterdir()) == ["onnx_surgeon-0.1.0.dist-info", "surgeon"]
    assert (wheel / "surgeon" / "patterns" / "activations" / "gelu.py").is_file()
    assert not (ROOT / "patterns" / "__init__.py").exists()


def test_a_working_directory_that_is_gone(tmp_path):
    """Python puts nothing on its path for it then, and nothing may be taken off instead."""
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, '-m', 'surgeon', 'rules'])"
    (tmp_path / "here").mkdir()
    done = started(tmp_path / "here", ROOT, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "gelu" in done.stdout


def test_rules_in_a_wheel_are_named_by_their_lines_too(tmp_path, wheel):
    """There they lie in surgeon's own folder, whose lines no message names."""
    code = (
        "from surgeon.rules.tracing.tracer import trace\n"
        "from surgeon.patterns.activations.gelu import exact\n"
        "print(trace(exact)[0].outputs[0].operation.where)"
    )
    output = {started(tmp_path, site, "-c", code).stdout.strip() for site in (ROOT, wheel)}
    assert len(output) == 1
    assert output.pop().startswith("gelu.py:")
