"""A recipe over folders of this machine, one model after another: rows, limits, resuming, refusals, exit codes."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.automation.fleet.job import FleetSettings
from surgeon.automation.fleet.model_sources import find_models
from surgeon.automation.fleet.run_database import RunDatabase
from surgeon.automation.fleet.table_files import read_table
from tests.command_line import files_in, one_sentence, result_in, run
from tests.fleet import zoo

GELU = surgeon.Recipe([surgeon.Rules("gelu")])
TROUBLE = surgeon.Recipe([surgeon.Rules(zoo.RULES)])


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A run over the small zoo: its root, and what came of it."""
    root = tmp_path_factory.mktemp("fleet")
    zoo.small_zoo(root / "zoo")
    return root, surgeon.run_many(TROUBLE, str(root / "zoo/**/*.onnx"), to=root / "out", rows=root / "rows.jsonl")


def everything(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and ".surgeon" not in path.parts}


def test_each_model_has_its_row_whatever_the_others_do(fleet):
    """Crashes, files that are no models and lost data are told where they are; all else is done."""
    root, found = fleet
    assert {row.model: row.outcome for row in found} == zoo.EXPECTED
    assert found["a/g3.onnx"].counts == {"gelu": 3}
    assert found["a/g3.onnx"].nodes == (18, 6)
    assert "SIGSEGV" in found["bad/crash.onnx"].why
    assert "ZeroDivisionError" in found["bad/defect.onnx"].why
    assert "lost.weights" in found["bad/lost.onnx"].why
    assert not found.ok


def test_only_what_is_done_lies_in_the_target(fleet):
    """With its data, and nothing that is on its way; the sources are as they were."""
    root, found = fleet
    done = {"a/g1.onnx", "a/g2.onnx", "a/g3.onnx", "b/relu.onnx", "b/large.onnx", "b/large.weights"}
    assert everything(root / "out") == done
    assert files_in(root / "out" / ".surgeon") == {"lock", "run.json", "rows.jsonl", "proofs"}
    assert (root / "out/b/large.weights").stat().st_size == 1 << 26
    assert (root / "out/b/relu.onnx").read_bytes() == (root / "zoo/b/relu.onnx").read_bytes()
    assert [node.op_type for node in onnx.load(root / "out/a/g1.onnx").graph.node] == ["MatMul", "Gelu"]
    assert everything(root / "zoo/bad") == {"text.onnx", "lost.onnx", "crash.onnx", "defect.onnx"}


def test_rows_are_written_as_lines(fleet):
    root, found = fleet
    rows = [json.loads(line) for line in (root / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["model"]: row["outcome"] for row in rows} == zoo.EXPECTED
    assert all(row["versions"]["surgeon"] for row in rows)


def test_the_same_again_touches_nothing(fleet):
    """What could not be done is known as well."""
    root, found = fleet
    before = {path: path.stat().st_mtime_ns for path in (root / "out").rglob("*.onnx")}
    again = surgeon.run_many(TROUBLE, str(root / "zoo/**/*.onnx"), to=root / "out", resume=True)
    assert again.kept == len(again) == len(zoo.EXPECTED)
    assert [row.outcome for row in again] == [row.outcome for row in found]
    assert {path: path.stat().st_mtime_ns for path in (root / "out").rglob("*.onnx")} == before
    assert again.seconds < 1


@pytest.mark.parametrize("change", ["model", "recipe", "result", "settings", "lost result"])
def test_what_has_changed_is_done_again(models, change):
    """And that alone."""
    surgeon.run_many(GELU, str(models / "zoo/*.onnx"), to=models / "out")
    recipe, settings = GELU, {}
    if change == "model":
        zoo.gelus(models / "zoo/b.onnx", 2)
    elif change == "result":
        (models / "out/b.onnx").write_bytes(b"something else")
    elif change == "lost result":
        (models / "out/b.onnx").unlink()
    elif change == "recipe":
        recipe = surgeon.Recipe([surgeon.Rules("gelu,layer_norm")])
    else:
        settings = {"require_proof": True}
    again = surgeon.run_many(recipe, str(models / "zoo/*.onnx"), to=models / "out", resume=True, **settings)
    every = change in ("recipe", "settings")
    assert {row.model for row in again if not row.kept} == ({"a.onnx", "b.onnx", "c.onnx"} if every else {"b.onnx"})
    assert onnx.load(models / "out/b.onnx").graph.node[-1].op_type == "Gelu"
    assert again.ok


RULE = """
import importlib
from surgeon import Graph, Tensor, rule
import near
from pack.inner import SCALE
from elsewhere import KIND

late = importlib.import_module("late")

def pattern(g: Graph, x: Tensor) -> Tensor:
    return g.op("Exp", g.op("Neg", x))

@rule(patterns=[pattern], target="any")
def fused(g: Graph, x: Tensor) -> Tensor:
    \"\"\"One over the exponential.\"\"\"
    return g.op("Reciprocal", g.op("Exp", x)) if near.K + late.K == 2 else g.op("Div", 1.0, g.op("Exp", x))
"""


@pytest.fixture
def ruled(tmp_path, monkeypatch):
    """A model, and a rule file that imports modules in its folder, in a package there, and on Python's path."""
    files = {
        "rules/rule.py": RULE, "rules/near.py": "from far import K\n", "rules/far.py": "K = 1\n",
        "rules/late.py": "K = 1\n", "rules/pack/__init__.py": "", "rules/pack/inner.py": "from .same import SCALE\n",
        "rules/pack/same.py": "SCALE = 1\n", "rules/other.py": "K = 1\n", "path/elsewhere.py": "KIND = 1\n",
        "site-packages/far_off.py": "K = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"), prepend=os.pathsep)
    (tmp_path / "zoo").mkdir()
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[n, 4] x) => (float[n, 4] y) { a = Neg (x)  y = Exp (a) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "zoo/e.onnx")
    return tmp_path


@pytest.mark.parametrize("name", ["near", "far", "late", "pack/__init__", "pack/same", "../path/elsewhere", "other"])
def test_modules_that_rule_files_import_count_as_these_do(ruled, name):
    """All that they import, and nothing that only lies beside them."""
    recipe = surgeon.Recipe([surgeon.Rules(f"{ruled}/rules/rule.py")])
    asked = {"sources": str(ruled / "zoo/*.onnx"), "to": ruled / "out", "check": "none"}
    row = surgeon.run_many(recipe, **asked)["e.onnx"]
    assert (row.counts, row.why) == ({"fused": 1}, "")
    assert surgeon.run_many(recipe, **asked, resume=True).kept == 1
    module = ruled / "rules" / f"{name}.py"
    module.write_text(f"{module.read_text(encoding='utf-8')}K = 7\n", encoding="utf-8")
    again = surgeon.run_many(recipe, **asked, resume=True)
    assert again.kept == (name == "other")
    if name in ("near", "far", "late"):
        assert onnx.load(ruled / "out/e.onnx").graph.node[-1].op_type == "Div"


def test_a_rule_file_is_known_by_its_name_alone(ruled, monkeypatch):
    """From the folder that it lies in, and below a folder whose name looks like that of one."""
    (ruled / "rules").rename(ruled / "rules.python")
    monkeypatch.chdir(ruled / "rules.python")
    for named in ("rule.py", f"{ruled}/rules.python/rule.py:fused"):
        settings = FleetSettings(surgeon.Recipe([surgeon.Rules(named)]), str(ruled / "out"))
        assert settings.files() == [ruled / "rules.python/rule.py"]
        before = settings.with_cache_key().cache_key
        with open("far.py", "a", encoding="utf-8") as file:
            file.write("# changed\n")
        assert settings.with_cache_key().cache_key != before


def test_results_of_earlier_runs_are_reported_where_a_model_has_none_now(models):
    """They stay, as long as nobody takes them away; each run says so."""
    over, to = str(models / "zoo/*.onnx"), models / "out"
    assert list(surgeon.run_many(GELU, over, to=to).stale) == []
    then = (to / "b.onnx").read_bytes()
    zoo.broken(models / "zoo/b.onnx", "text")
    for _ in range(2):  # the second time its row is known
        found = surgeon.run_many(GELU, over, to=to, resume=True)
        assert [(row.model, row.outcome) for row in found.stale] == [("b.onnx", "refused")]
        assert (to / "b.onnx").read_bytes() == then
    assert [one["stale"] for one in found.to_dict()["wrong"]] == [True]
    assert "The target still holds the result of an earlier run." in found._repr_html_()
    ran = run("run", models / "r.toml", "--over", over, "--to", to, "--resume")
    assert f"stale {to}/b.onnx: from an earlier run. Delete it, or fix the model" in " ".join(ran.stdout.split())
    (to / "b.onnx").unlink()
    assert list(surgeon.run_many(GELU, over, to=to, resume=True).stale) == []
    ran = run("run", models / "r.toml", "--over", over, "--to", to, "--resume")
    assert "stale" not in ran.stdout


def test_a_model_that_hangs_ends_by_the_clock(tmp_path):
    """And takes no more than it may of the memory; the next is done as if nothing were."""
    zoo.troubled(tmp_path / "zoo/a.onnx", zoo.HANG)
    zoo.troubled(tmp_path / "zoo/b.onnx", zoo.MEMORY)
    zoo.gelus(tmp_path / "zoo/c.onnx")
    limit = zoo.ample_time(tmp_path)
    settings = {"model_time": limit, "model_memory": 1 << 29}
    found = surgeon.run_many(TROUBLE, str(tmp_path / "zoo/*.onnx"), to=tmp_path / "out", **settings)
    assert [row.outcome for row in found] == ["late", "memory", "proved"]
    why = f"It took more than {limit:g} s while the recipe ran. Give it more time with --model-time."
    assert found["a.onnx"].why == why
    again = surgeon.run_many(TROUBLE, str(tmp_path / "zoo/*.onnx"), to=tmp_path / "out", resume=True, **settings)
    assert again.kept == 3
    assert files_in(tmp_path / "out/.surgeon") == {"lock", "run.json", "rows.jsonl", "proofs"}


def test_rows_of_parquet_are_those_of_lines(models):
    pytest.importorskip("pyarrow")
    for name in ("rows.parquet", "rows.jsonl"):
        surgeon.run_many(GELU, str(models / "zoo/*.onnx"), to=models / "out", rows=models / name, resume=True)
    names = ("rows.parquet", "rows.jsonl")
    one, other = (sorted(read_table(str(models / name)), key=lambda row: row["model"]) for name in names)
    assert [row["counts"] for row in one] == [{"gelu": 1}] * 3
    for row in (*one, *other):
        del row["kept"], row["written"]
    assert one == other


def test_models_come_from_tables_too(models):
    """By paths that count from the table; a column may say what a result is called."""
    (models / "list.txt").write_text("# right ones\nzoo/a.onnx\nzoo/b.onnx\n", encoding="utf-8")
    found = surgeon.run_many(GELU, models / "list.txt", to=models / "out")
    assert [row.model for row in found] == ["a.onnx", "b.onnx"]
    lines = [{"source": "zoo/a.onnx", "model": "x/one.onnx"}, {"source": "zoo/c.onnx", "model": "two.onnx"}]
    (models / "list.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = surgeon.run_many(GELU, models / "list.jsonl", to=models / "named")
    assert everything(models / "named") == {"x/one.onnx", "two.onnx"}
    assert found.ok


def refusals():
    yield "no model fits", ["--over", "{0}/nothing/*.onnx", "--to", "{0}/out"], "No model matches"
    yield "no target", ["--over", "{0}/zoo/*.onnx"], "--to"
    yield "a model beside", ["{0}/zoo/a.onnx", "{0}/x.onnx", "--over", "{0}/zoo/*.onnx"], "IN or --over, not both"
    yield "target inside", ["--over", "{0}/**/*.onnx", "--to", "{0}/out"], "would match"
    yield "would be overwritten", ["--over", "{0}/zoo/a.onnx", "--to", "{0}/zoo"], "would be overwritten"
    yield "one name", ["--over", "{0}/zoo/*.onnx", "--over", "{0}/other/a.onnx", "--to", "{0}/out"], "same name"
    yield "nothing", ["--over", "", "--to", "{0}/out"], "No models given"
    yield "a range", ["--over", "{0}/zoo/[z-a].onnx", "--to", "{0}/out"], "[z-a] in "
    yield "rows over models", ["--over", "{0}/r.jsonl", "--to", "{0}/out", "--rows", "{0}/r.jsonl"], "is the table"
    yield "a pipe", ["--over", "/dev/null", "--to", "{0}/out"], "is not a regular file"
    yield "a baseline of another kind", ["--over", "{0}/zoo/*.onnx", "--to", "{0}/out", "--baseline", "{0}/r.toml"], (
        "Give a file that --rows wrote"
    )
    yield "a folder", ["--over", "{0}/zoo", "--to", "{0}/out"], "**/*.onnx"
    yield "an engine", ["--over", "{0}/zoo/*.onnx", "--to", "{0}/out", "--engine", "slurm"], "Unknown engine 'slurm'"
    yield "no time", ["--over", "{0}/zoo/*.onnx", "--to", "{0}/out", "--model-time", "0"], "0 s is not enough"
    yield "little memory", ["--over", "{0}/zoo/*.onnx", "--to", "{0}/out", "--model-memory", "1MB"], "256 MB"
    yield "no table", ["--over", "{0}/zoo/*.onnx", "--to", "{0}/out", "--rows", "rows.csv"], ".jsonl or .parquet"
    yield "no baseline", ["--over", "{0}/zoo/*.onnx", "--to", "{0}/out", "--baseline", "gone.jsonl"], ": gone.jsonl"
    yield "a store unknown", ["--over", "nosuch://zoo/*.onnx", "--to", "{0}/out"], "nosuch"
    yield "a lock", ["--over", "{0}/zoo/*.onnx", "--to", "{0}/out", "--lock"], "--lock is only for one model"
    yield "alone", ["{0}/zoo/a.onnx", "{0}/x.onnx", "--resume"], "--resume needs --over"


@pytest.mark.parametrize(("arguments", "text"), [case[1:] for case in refusals()], ids=[case[0] for case in refusals()])
def test_what_cannot_begin_is_one_sentence_and_nothing_is_written(models, arguments, text):
    (models / "other").mkdir()
    shutil.copy(models / "zoo/b.onnx", models / "other/a.onnx")
    before = files_in(models)
    ran = run("run", models / "r.toml", *[item.format(models) for item in arguments])
    assert ran.exit_code == 2
    assert text in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert files_in(models) == before


def test_a_recipe_that_is_wrong_begins_nothing(models):
    (models / "r.toml").write_text('[[step]]\nrules = "gellu"\n', encoding="utf-8")
    ran = run("run", models / "r.toml", "--over", f"{models}/zoo/*.onnx", "--to", models / "out")
    assert (ran.exit_code, "gellu" in ran.stderr) == (2, True)
    assert not (models / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[step]]\nrules = "gelu"\nupgrade = "20"\n', "r.toml, line 2: Invalid upgrade='20'"),
        ('target = "foo"\n[[step]]\nrules = "gelu"\n', "r.toml, line 1: Unknown target 'foo'"),
        ('[[step]]\nrules = "gelu"\nexpect = { gelu = "a" }\n', "r.toml, line 2: Invalid expect={'gelu': 'a'}"),
    ],
)
def test_a_recipe_that_is_wrong_for_every_model_begins_nothing(models, text, message):
    """It is refused once, not by each model."""
    (models / "r.toml").write_text(text, encoding="utf-8")
    ran = run("run", models / "r.toml", "--over", f"{models}/zoo/*.onnx", "--to", models / "out")
    assert ran.exit_code == 2
    assert message in one_sentence(ran, 2)
    assert not (models / "out").exists()


def test_the_command_says_what_came_of_it(models):
    """Exit code 1 where a model is wrong, and a report that can be written over."""
    arguments = ["run", models / "r.toml", "--over", f"{models}/zoo/*.onnx", "--to", models / "out"]
    arguments += ["--report", models / "fleet.json"]
    ran = run(*arguments)
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.startswith("3 models  3 proved\n  gelu 3\nPROVED   3 of 3 changed models\n")
    zoo.broken(models / "zoo/bad.onnx", "text")
    ran = run(*arguments, "--resume")
    assert ran.exit_code == 1
    assert "kept     3 models already up to date" in ran.stdout
    assert "refused  bad.onnx: " in ran.stdout
    report = result_in((models / "fleet.json").read_text(encoding="utf-8"))
    assert (report["outcomes"], report["kept"]) == ({"refused": 1, "proved": 3}, 3)


def test_a_dry_run_writes_nothing(models):
    found = surgeon.run_many(GELU, str(models / "zoo/*.onnx"), to=models / "out", dry_run=True)
    assert [row.counts for row in found] == [{"gelu": 1}] * 3
    assert not everything(models / "out") if (models / "out").exists() else True


def test_a_dry_run_says_that_nothing_is_written(models):
    arguments = ["run", models / "r.toml", "--over", f"{models}/zoo/*.onnx", "--to", models / "out"]
    assert "\nwrote    nothing (" in run(*arguments, "--dry-run").stdout
    assert f"\nwrote    3 models to {models}/out (" in run(*arguments).stdout
    assert "--rows FILE" not in run(*arguments, "--rows", models / "rows.jsonl").stdout


def test_models_that_a_run_was_not_over_stay_known(models):
    """To the next run with --resume, whether this one resumed or not."""
    to = models / "out"
    surgeon.run_many(GELU, str(models / "zoo/*.onnx"), to=to)
    surgeon.run_many(GELU, str(models / "zoo/a*.onnx"), to=to)
    assert surgeon.run_many(GELU, str(models / "zoo/*.onnx"), to=to, resume=True).kept == 3


def test_a_target_that_takes_no_more_is_reported_and_gone_on_with(models):
    """Its rows say so; when it takes them again, what is lacking is done."""
    zoo.gelus(models / "zoo/x/d.onnx")
    (models / "out").mkdir()
    (models / "out/x").write_text("in the way", encoding="utf-8")
    over = f"{models}/zoo/**/*.onnx"
    found = surgeon.run_many(GELU, over, to=models / "out")
    assert [row.outcome for row in found] == ["proved", "proved", "proved", "unwritten"]
    assert "x/d.onnx cannot be written" in found["x/d.onnx"].why
    assert not found.ok
    (models / "out/x").unlink()
    again = surgeon.run_many(GELU, over, to=models / "out", resume=True)
    assert (again.kept, again.ok) == (3, True)
    assert everything(models / "out") == {"a.onnx", "b.onnx", "c.onnx", "x/d.onnx"}


def test_the_extra_is_for_stores_and_for_several_at_once(models, monkeypatch):
    """One after another, over folders, needs neither fsspec nor Dask; else the sentence says what to install."""
    import sys

    for name in ("fsspec", "fsspec.core", "distributed", "dask"):
        monkeypatch.setitem(sys.modules, name, None)
    over = f"{models}/zoo/*.onnx"
    assert surgeon.run_many(GELU, over, to=models / "out").ok
    with pytest.raises(surgeon.UsageError, match=r'2 needs Dask. Install it: pip install \"onnx-surgeon\[fleet\]\"'):
        surgeon.run_many(GELU, over, to=models / "out", jobs=2)
    with pytest.raises(surgeon.UsageError, match=r'needs fsspec. Install it: pip install \"onnx-surgeon\[fleet\]\"'):
        surgeon.run_many(GELU, "s3://zoo/*.onnx", to=models / "out")


def outside(path, values, location="weights.bin"):
    """A model whose matrix lies in a data file beside it."""
    zoo.gelus(path, weight=np.asarray(values, np.float32))
    model = onnx.load(path)
    tensor = next(item for item in model.graph.initializer if item.name == "w0")
    (path.parent / location).write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    onnx.save(model, path)


def matrix_of(path):
    model = onnx.load(path)
    return onnx.numpy_helper.to_array(next(item for item in model.graph.initializer if item.name == "w0"))


def test_data_of_one_name_never_take_each_other_s_place(tmp_path):
    """Results that go to one folder: whose data files would have one name, neither is written; apart they are."""
    for name, factor in (("one", 1), ("two", 2)):
        outside(tmp_path / name / "model.onnx", factor * np.eye(4))
    lines = [{"source": f"{name}/model.onnx", "model": f"{name}.onnx"} for name in ("one", "two")]
    (tmp_path / "flat.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    flat = surgeon.run_many(GELU, tmp_path / "flat.jsonl", to=tmp_path / "flat")
    assert [row.outcome for row in flat] == ["unwritten", "unwritten"]
    assert all("weights.bin would have the same name in the target" in row.why for row in flat)
    assert not everything(tmp_path / "flat")
    inline = surgeon.run_many(GELU, tmp_path / "flat.jsonl", to=tmp_path / "inline", external_data="inline")
    apart = surgeon.run_many(GELU, str(tmp_path / "*/model.onnx"), to=tmp_path / "out/apart")
    assert inline.ok
    assert apart.ok
    for name, factor in (("one", 1), ("two", 2)):
        for path in (tmp_path / f"inline/{name}.onnx", tmp_path / f"out/apart/{name}/model.onnx"):
            assert np.array_equal(matrix_of(path), factor * np.eye(4)), path


def test_equal_data_of_models_from_elsewhere_go_to_one_folder(tmp_path):
    """And one that is told of a neighbour's is done as soon as that is not in the run."""
    for name in ("one", "two"):
        outside(tmp_path / name / f"{name}.onnx", np.eye(4))
    over = [str(tmp_path / "one/*.onnx"), str(tmp_path / "two/*.onnx")]
    assert surgeon.run_many(GELU, over, to=tmp_path / "out").ok
    outside(tmp_path / "two/two.onnx", 2 * np.eye(4))
    assert surgeon.run_many(GELU, over, to=tmp_path / "new").outcomes == {"unwritten": 2}
    alone = surgeon.run_many(GELU, over[1], to=tmp_path / "new", resume=True)
    assert (alone.kept, alone.outcomes) == (0, {"proved": 1})


def test_a_link_to_nothing_has_its_row(models):
    """Stores of data versions leave such where a model was not fetched; when it is there, it is done."""
    (models / "zoo/d.onnx").symlink_to(models / "kept/d.onnx")
    found = surgeon.run_many(GELU, str(models / "zoo/*.onnx"), to=models / "out")
    assert (found["d.onnx"].outcome, found.ok) == ("refused", False)
    assert "is a broken link" in found["d.onnx"].why
    zoo.gelus(models / "kept/d.onnx")
    again = surgeon.run_many(GELU, str(models / "zoo/*.onnx"), to=models / "out", resume=True)
    assert (again.kept, again.ok) == (3, True)


def test_links_to_folders_are_followed_as_a_shell_does(models):
    (models / "all").mkdir()
    (models / "all/linked").symlink_to(models / "zoo")
    (models / "all/up").symlink_to(models / "all")
    found = surgeon.run_many(GELU, str(models / "all/*/*.onnx"), to=models / "out")
    assert [row.model for row in found] == ["linked/a.onnx", "linked/b.onnx", "linked/c.onnx"]
    with pytest.raises(surgeon.UsageError, match="No model matches"):
        surgeon.run_many(GELU, str(models / "all/**/*.onnx"), to=models / "out")


def test_a_folder_that_cannot_be_listed_is_no_empty_one(models, monkeypatch):
    def scandir(path, real=os.scandir):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    (models / "zoo/locked").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(surgeon.SurgeonError, match="locked cannot be listed: permission denied"):
        surgeon.run_many(GELU, str(models / "zoo/**/*.onnx"), to=models / "out")


def test_one_run_at_a_time_writes_to_a_target(models):
    """A second process is told so and takes nothing away; a lock that is left behind holds nobody up."""
    pytest.importorskip("fcntl")
    code = (
        "import sys; from surgeon.automation.fleet.storage.target_lock import locked\n"
        "from surgeon.automation.fleet.storage.storage import storage_of\n"
        "held = locked(*storage_of(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(models / "out")]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    over = str(models / "zoo/*.onnx")
    try:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(surgeon.UsageError, match="Another run writes to .*out. Wait until it ends"):
            surgeon.run_many(GELU, over, to=models / "out")
        assert surgeon.run_many(GELU, over, to=models / "out", dry_run=True).ok
    finally:
        other.kill()
        other.communicate()
    assert surgeon.run_many(GELU, over, to=models / "out").ok


def test_rows_of_any_name_are_read_again(models):
    """U+2028 ends a line for Python's splitlines, and stands as it is in JSON."""
    shutil.copy(models / "zoo/a.onnx", models / "zoo/a\u2028b.onnx")
    over, rows = str(models / "zoo/*.onnx"), models / "rows.jsonl"
    surgeon.run_many(GELU, over, to=models / "out", rows=rows)
    assert not surgeon.run_many(GELU, over, to=models / "out", baseline=rows).changes


def test_rows_that_cannot_be_written_are_reported_with_their_file(models):
    if not os.path.exists("/dev/full"):
        pytest.skip("the system has no device that is full")
    (models / "rows.jsonl").symlink_to("/dev/full")
    with pytest.raises(surgeon.ModelFileError, match=r"rows\.jsonl cannot be written: No space left on device"):
        surgeon.run_many(GELU, str(models / "zoo/*.onnx"), to=models / "out", rows=models / "rows.jsonl")


def test_files_that_no_text_names_are_reported(models):
    """One of a model is refused; another is none of ours."""
    with open(os.fsencode(models / "zoo") + b"/notes\xff.txt", "wb"):
        pass
    over = str(models / "zoo/*.onnx")
    for _ in range(2):
        assert surgeon.run_many(GELU, over, to=models / "out", resume=True).ok
    shutil.copy(models / "zoo/a.onnx", os.fsencode(models / "zoo") + b"/d\xff.onnx")
    with pytest.raises(surgeon.UsageError, match=r"d.*\.onnx is not valid UTF-8. Rename the file"):
        surgeon.run_many(GELU, over, to=models / "out")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("[ab].onnx", "a b"), ("[!a].onnx", "b c"), ("[^a].onnx", "b c"), ("[a-c].onnx", "a b c"), ("[]a].onnx", "a"),
        ("[[]a[]].onnx", "[a]"), ("[!]a.onnx", ""), ("?.onnx", "a b c"), ("zoo[!a]a.onnx", ""),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_patterns_are_those_of_a_shell(tmp_path, pattern, names):
    for name in ("a", "b", "c", "[a]"):
        (tmp_path / "zoo").mkdir(exist_ok=True)
        (tmp_path / f"zoo/{name}.onnx").touch()
    book = RunDatabase()
    if names:
        find_models(str(tmp_path / "zoo" / pattern), str(tmp_path / "out"), book)
        assert [item.name for item in book.planned()] == [f"{name}.onnx" for name in names.split()]
    else:
        with pytest.raises(surgeon.UsageError, match="No model matches"):
            find_models(str(tmp_path / "zoo" / pattern), str(tmp_path / "out"), book)


def test_a_file_that_looks_like_a_pattern_is_a_file(tmp_path):
    for name in ("a", "[a]"):
        (tmp_path / f"{name}.onnx").touch()
    book = RunDatabase()
    find_models(str(tmp_path / "[a].onnx"), str(tmp_path / "out"), book)
    assert [item.name for item in book.planned()] == ["[a].onnx"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"source": "zoo/a.onnx", "model": ".surgeon/rows.jsonl"}, "cannot have the name '.surgeon/rows.jsonl'"),
        ({"source": "zoo/a.onnx", "model": "../a.onnx"}, "cannot have the name '../a.onnx'"),
        ({"source": "zoo/a.onnx", "model": "x/"}, "cannot have the name 'x/'"),
        ({"source": "zoo/a.onnx", "model": "a\0b"}, "cannot have the name"),
        ({"source": "zoo/a.onnx", "model": "a\ud800b"}, "is not valid UTF-8"),
        ({"source": "zoo/\0.onnx"}, "File not found"),
        ({"path": "zoo/a.onnx"}, "Row 2 of .* has no 'source'"),
        ({"source": None}, "Row 2 of .* has no 'source'"),
    ],
)
def test_rows_of_a_table_that_lead_nowhere(models, row, message):
    lines = [{"source": "zoo/b.onnx"}, row]
    (models / "list.jsonl").write_text("\ufeff" + "\r\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(surgeon.UsageError, match=message):
        surgeon.run_many(GELU, models / "list.jsonl", to=models / "out")
    assert not (models / "out").exists()


def test_data_of_another_run_or_of_nobody_s_are_not_written_over(tmp_path):
    """Those of the model itself are, of last time, and those that models of one folder share."""
    for name, factor in (("one", 1), ("two", 2)):
        outside(tmp_path / name / f"{name}.onnx", factor * np.eye(4))
    to = tmp_path / "out"
    assert surgeon.run_many(GELU, str(tmp_path / "one/*.onnx"), to=to).ok
    other = surgeon.run_many(GELU, str(tmp_path / "two/*.onnx"), to=to)
    assert other.outcomes == {"unwritten": 1}
    assert "out/weights.bin exists, but is not a data file of this model" in other["two.onnx"].why
    assert np.array_equal(matrix_of(to / "one.onnx"), np.eye(4))

    outside(tmp_path / "one/one.onnx", 3 * np.eye(4))
    shutil.copy(tmp_path / "one/one.onnx", tmp_path / "one/alike.onnx")  # it comes first, and has no row yet
    assert surgeon.run_many(GELU, str(tmp_path / "one/*.onnx"), to=to).outcomes == {"proved": 2}
    for name in ("one", "alike"):
        assert np.array_equal(matrix_of(to / f"{name}.onnx"), 3 * np.eye(4))

    shutil.move(tmp_path / "one", tmp_path / "moved")
    outside(tmp_path / "moved/one.onnx", 4 * np.eye(4))
    assert surgeon.run_many(GELU, str(tmp_path / "moved/*.onnx"), to=to).outcomes == {"proved": 2}

    (tmp_path / "full").mkdir()
    (tmp_path / "full/weights.bin").write_bytes(b"somebody's")
    assert surgeon.run_many(GELU, str(tmp_path / "two/*.onnx"), to=tmp_path / "full").outcomes == {"unwritten": 1}
    assert (tmp_path / "full/weights.bin").read_bytes() == b"somebody's"
    plain = surgeon.Recipe([surgeon.Rules("quick_gelu")])
    assert surgeon.run_many(plain, str(tmp_path / "two/*.onnx"), to=tmp_path / "full").outcomes == {"unwritten": 1}
    assert surgeon.run_many(GELU, str(tmp_path / "two/*.onnx"), to=tmp_path / "full", external_data="inline").ok
