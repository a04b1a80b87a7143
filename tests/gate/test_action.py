"""The action of GitHub that runs the gate: what it declares, and its steps as the runner runs them."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.command_line import ROOT, files_in, run, surroundings
from tests.gate.test_gate_files import MODEL
from tests.pages import blocks

HOME = ROOT / ".github" / "actions" / "surgeon"
ACTION = yaml.safe_load((HOME / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
bash = pytest.mark.skipif(shutil.which("bash") is None or sys.platform == "win32", reason="bash runs the steps")


def test_no_expression_is_part_of_a_script():
    """An input, such as the name of a model, would be run as code."""
    assert [step["shell"] for step in STEPS if "run" in step] == ["bash", "bash"]
    assert not [step for step in STEPS if "${{" in step.get("run", "")]
    used = {name for step in STEPS for name in re.findall(r"inputs\.([\w-]+)", str(step))}
    assert used == set(ACTION["inputs"])


def test_each_variable_of_a_script_is_given():
    """By the step, or by the runner."""
    for step in STEPS:
        script = step.get("run", "")
        made = set(re.findall(r"^\s*(?:while IFS= read -r )?(\w+)=", script, re.MULTILINE)) | {"line"}
        named = set(re.findall(r"\$\{?(\w+)", script)) - made
        assert {name for name in named if not name.startswith(("RUNNER_", "GITHUB_"))} == set(step.get("env", {}))


def test_it_neither_updates_the_baseline_nor_comments():
    text = (HOME / "action.yml").read_text(encoding="utf-8")
    scripts = "".join(step.get("run", "") for step in STEPS)
    assert "--update" not in scripts
    assert "github.token" not in text
    assert "secrets" not in text
    assert re.findall(r"uses: *(\S+)", text) == [step["uses"] for step in STEPS if "uses" in step]


def test_each_dependency_has_an_exact_version():
    lines = (HOME / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.lower().replace("_", "-").split("==") for line in lines if not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for item in project["dependencies"]:
        name, least = item.lower().replace("_", "-").split(">=")
        assert tuple(map(int, pins[name].split("."))) >= tuple(map(int, least.split(".")))
    assert all(re.fullmatch(r"[\d.]+", version) for version in pins.values())


def step_of_gate(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the last step as the runner does, in a folder, with a surgeon that is installed; values of inputs by name."""
    program = folder / "temp" / "surgeon" / "bin" / "surgeon"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m surgeon "$@"\n')
    program.chmod(0o755)
    step = STEPS[-1]
    names = {key: re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)[1] for key, value in step["env"].items()}
    values = {name: str(given.get("default", "")) for name, given in ACTION["inputs"].items()} | inputs
    given = {key: values[name] for key, name in names.items()}
    script = folder / "temp" / "step.sh"
    script.write_text(step["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder,
        env=surroundings(
            RUNNER_TEMP=str(folder / "temp"),
            GITHUB_ACTION_PATH=str(HOME),
            GITHUB_STEP_SUMMARY=str(folder / "summary.md"),
            CI="true",
            **given,
        ),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Two models and their baseline."""
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "models").mkdir()
    (folder / "models" / "a model.onnx").write_bytes(MODEL.read_bytes())
    (folder / "models" / "b.onnx").write_bytes(MODEL.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run("gate", "models/*.onnx", "--rules", "gelu", "--update").exit_code == 0
    return folder


@pytest.fixture
def folder(fresh, tmp_path, monkeypatch):
    """A copy of them, which is the working directory."""
    monkeypatch.chdir(shutil.copytree(fresh, tmp_path / "copy"))
    return Path.cwd()


@bash
def test_the_step_passes_and_writes_its_reports(folder):
    """One model a line, with spaces; other lines are empty."""
    done = step_of_gate(folder, models="models/a model.onnx\n\nmodels/b.onnx\n", rules="gelu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert files_in(folder / "surgeon-gate") == {"gate.sarif", "gate.xml", "gate.md"}
    assert "0 regressions in 2 models" in (folder / "summary.md").read_text(encoding="utf-8")


@bash
def test_a_regression_fails_the_step_after_its_reports(folder):
    """The summary of an earlier step stays."""
    (folder / "models" / "b.onnx").unlink()
    (folder / "summary.md").write_text("earlier\n")
    done = step_of_gate(folder, models="models/*.onnx", rules="gelu", reports="my reports")
    assert done.returncode == 1
    assert "SG008" in (folder / "my reports" / "gate.sarif").read_text(encoding="utf-8")
    assert re.match(r"earlier\n<!--.*SG008", (folder / "summary.md").read_text(encoding="utf-8"), re.DOTALL)


@bash
def test_inputs_are_data(folder):
    """No input is run, and none becomes another option: above all not --update."""
    before = (folder / "surgeon-baseline.json").read_bytes()
    for name, value in {
        "models": "models/*.onnx\n--update",
        "rules": "gelu --update",
        "baseline": "$(touch hacked)",
        "target": '"; touch hacked; "',
        "ep": "`touch hacked`",
        "fail-on": "error; touch hacked",
    }.items():
        done = step_of_gate(folder, **{"models": "models/*.onnx", "rules": "gelu", name: value})
        assert done.returncode == 2, done.stdout + done.stderr
    assert not (folder / "hacked").exists()
    assert (folder / "surgeon-baseline.json").read_bytes() == before


@bash
def test_an_empty_gate_does_not_pass(folder):
    (folder / "surgeon-baseline.json").unlink()
    done = step_of_gate(folder, models="models/*.onnx", rules="gelu")
    assert done.returncode == 2
    assert "no baseline" in (folder / "summary.md").read_text(encoding="utf-8")
    assert not (folder / "surgeon-baseline.json").exists()


@bash
def test_the_runner_reads_no_command_in_the_output(folder):
    done = step_of_gate(folder, models="models/*.onnx", rules="gelu")
    first, *_, last = done.stdout.splitlines()
    token = re.fullmatch(r"::stop-commands::([0-9a-f]{32})", first)[1]
    assert last == f"::{token}::"


# The workflows of the page

FAKE_GH = """#!/bin/sh
echo "$@" >> calls
case "$1 $2" in
  "run download") mkdir gate; echo "$NUMBER" > gate/number; echo table > gate/gate.md ;;
  "pr view") echo "$HEAD" ;;
  "api --paginate") echo "$COMMENT" ;;
esac
"""


def scripts(value: object) -> list[str]:
    """The scripts in a workflow, or in a part of one."""
    if isinstance(value, dict):
        own = [value["run"]] if isinstance(value.get("run"), str) else []
        return own + [script for part in value.values() for script in scripts(part)]
    return [script for part in value for script in scripts(part)] if isinstance(value, list) else []


def scripts_of_the_page() -> list[str]:
    parts = (block.text for block in blocks(ROOT / "docs" / "gate.md") if block.language == "yaml")
    return [script for part in parts for script in scripts(yaml.safe_load(part))]


def test_scripts_of_the_page_contain_no_expression():
    assert len(scripts_of_the_page()) == 3
    assert not [script for script in scripts_of_the_page() if "${{" in script]


def test_inputs_and_hooks_of_the_page_exist():
    text = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    table = text.partition("| input |")[2].partition("\n\n")[0]
    listed = [name for row in table.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(ACTION["inputs"])
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert set(re.findall(r"- id: ([\w-]+)$", text, re.M)) <= {hook["id"] for hook in hooks}


def comment(folder: Path, **answers: str) -> tuple[int, list[str]]:
    """Run the script that comments, with answers of a `gh`; its exit code, and the calls of it."""
    program = folder / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(FAKE_GH)
    program.chmod(0o755)
    script = next(one for one in scripts_of_the_page() if "gh run download" in one)
    given = {"GH_REPO": "me/zoo", "RUN": "5", "COMMIT": "abc", "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", script], cwd=folder, env=surroundings(**given, **answers), check=False)
    return done.returncode, (folder / "calls").read_text().splitlines()


@bash
def test_a_comment_is_written_or_replaced(tmp_path):
    (tmp_path / "new").mkdir()
    code, calls = comment(tmp_path / "new", NUMBER="7", HEAD="abc", COMMENT="")
    assert code == 0
    assert calls[-1] == "api --method POST repos/me/zoo/issues/7/comments --field body=@gate/gate.md"
    (tmp_path / "old").mkdir()
    code, calls = comment(tmp_path / "old", NUMBER="7", HEAD="abc", COMMENT="https://api/1\nhttps://api/2")
    assert code == 0
    assert calls[-1] == "api --method PATCH https://api/1 --field body=@gate/gate.md"


@bash
@pytest.mark.parametrize("number", ["7", "$(touch hacked)7; touch hacked", ""])
def test_a_number_that_is_not_of_the_run_gets_no_comment(tmp_path, number):
    """The fork writes the number."""
    code, calls = comment(tmp_path, NUMBER=number, HEAD="other", COMMENT="")
    assert code != 0
    assert not [call for call in calls if call.startswith("api")]
    assert not (tmp_path / "hacked").exists()
