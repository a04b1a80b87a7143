"""The files of the project that nothing here runs: workflows, citation, notices and hooks say what is so."""

import json
import re
import tomllib

import pytest
import yaml
from click.testing import CliRunner

from surgeon.cli.app import main
from tests.command_line import ROOT
from tests.conftest import LONGEST

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
USING = [*WORKFLOWS, *sorted((ROOT / ".github" / "actions").glob("*/action.yml"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("path", USING, ids=lambda path: path.stem)
def test_each_action_is_pinned_by_its_hash(path):
    used = re.findall(r"uses: *(\S+)(.*)", path.read_text(encoding="utf-8"))
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v[\d.]+", comment), action


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_has_few_permissions_and_a_limit_of_time(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_files_that_run_first_are_there():
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []


def test_one_action_has_one_version():
    used = {line for path in USING for line in re.findall(r"uses: *(\S+)", path.read_text(encoding="utf-8"))}
    assert len(used) == len({action.partition("@")[0] for action in used})


def test_the_workflow_of_tests_takes_the_oldest_and_the_newest_python():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    pythons = workflow["jobs"]["quick"]["strategy"]["matrix"]["python"]
    listed = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert pythons == [listed[0], listed[-1]]
    assert PROJECT["requires-python"] == f">={pythons[0]}"


def test_the_citation_names_the_version_and_the_license():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert citation["repository-code"] == PROJECT["urls"]["Source"]


def test_the_notice_names_each_table_that_holds_facts_of_another_project():
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    tables = [*ROOT.glob("surgeon/ops/data/*"), *ROOT.glob("surgeon/targets/data/*.json")]
    assert [path.name for path in tables if path.is_file() and path.name not in notice] == []
    bundled = json.loads((ROOT / "surgeon/display/viewer/web/package.json").read_text(encoding="utf-8"))
    assert all(name in notice or name == "esbuild" for name in bundled["devDependencies"])  # esbuild only makes it


def test_a_hook_for_pre_commit_runs_a_command():
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")):
        program, *words = hook["entry"].split()
        assert program == "surgeon"
        assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0


def test_issue_forms_name_options_that_exist():
    forms = (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")
    commands = [words for form in forms for words in re.findall(r"`surgeon ([^`]+)`", form.read_text(encoding="utf-8"))]
    assert len(commands) >= 4
    for words in commands:
        name, *rest = words.split()
        shown = CliRunner().invoke(main, ["--help"] if name.startswith("-") else [name, "--help"]).output
        assert all(word in shown for word in [name, *rest] if word.startswith("--")), words


def test_the_jobs_for_coding_agents_run(tmp_path, monkeypatch):
    """Each job is one command, which ends well on the shipped model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "IN").write_bytes((ROOT / "notebooks" / "models" / "tiny_distilbert.onnx").read_bytes())
    lines = re.findall(r"^\| .* \| `surgeon (.*)` \|$", (ROOT / "AGENTS.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        words = line.replace("--from TENSOR", "--from linear_4").replace("--to TENSOR", "--to gelu").split()
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, f"{line}: {done.output}"
