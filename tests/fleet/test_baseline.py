"""What has changed since a baseline, and since the last run to the same target."""

import shutil

import onnx

import surgeon
from tests.command_line import run
from tests.fleet import zoo

GELU = surgeon.Recipe([surgeon.Rules("gelu")])


def test_a_baseline_reports_what_is_worse(models):
    """A rule that fires less, more nodes, a model that is broken now; what is better or new is told."""
    over, to = str(models / "zoo/*.onnx"), models / "out"
    zoo.gelus(models / "zoo/b.onnx", 3)
    zoo.broken(models / "zoo/known.onnx", "text")
    surgeon.run_many(GELU, over, to=to, rows=models / "then.jsonl")
    same = surgeon.run_many(GELU, over, to=to, baseline=models / "then.jsonl")
    assert same.changes == []
    assert same.ok  # what was broken then is no news
    command = ["run", models / "r.toml", "--over", over, "--to", to, "--baseline", models / "then.jsonl"]
    assert "nothing differs from the baseline, so the exit code is 0" in run(*command).stdout
    model = onnx.load(models / "zoo/b.onnx")
    model.graph.node[-2].op_type = "Sub"  # one of three GELUs is none any more
    onnx.save(model, models / "zoo/b.onnx")
    shutil.copy(models / "zoo/a.onnx", models / "zoo/new.onnx")
    (models / "zoo/c.onnx").unlink()
    zoo.broken(models / "zoo/a.onnx", "cut")
    now = surgeon.run_many(GELU, over, to=to, baseline=models / "then.jsonl")
    worse = {(change.model, change.what.partition(":")[0]) for change in now.regressions}
    assert worse == {
        ("a.onnx", "it is refused, but was proved"),
        ("b.onnx", "gelu 3 → 2"),
        ("c.onnx", "it is not among the models"),
    }
    assert {change.model for change in now.changes if not change.is_regression} == {"new.onnx"}
    assert not now.ok
    ran = run(*command)
    assert ran.exit_code == 1
    assert "worse    b.onnx: gelu 3 → 2 (rules: gelu 3 → 2; the graph of the export is another)" in ran.stdout


def test_what_is_new_since_the_last_run_is_reported_without_a_baseline(models):
    """From the rows that lie at the target; the first run has no news, and one where all is kept has none either."""
    over, to = str(models / "zoo/*.onnx"), models / "out"
    assert list(surgeon.run_many(GELU, over, to=to).since) == []
    assert list(surgeon.run_many(GELU, over, to=to, resume=True).since) == []
    zoo.gelus(models / "zoo/b.onnx", 3)
    zoo.broken(models / "zoo/a.onnx", "text")
    zoo.plain(models / "zoo/new.onnx")
    now = surgeon.run_many(GELU, over, to=to, resume=True)
    reported = [(change.model, change.what.partition(":")[0], change.is_regression) for change in now.since]
    assert reported == [
        ("a.onnx", "it is refused, but was proved", True),
        ("b.onnx", "gelu 1 → 3", False),
        ("b.onnx", "it has 6 nodes, 2 before", False),
        ("b.onnx", "it has 192 bytes of weights, 64 before", False),
        ("new.onnx", "it is new, and unchanged", False),
    ]
    assert [change["model"] for change in now.to_dict()["since"]] == [model for model, _, _ in reported]
    assert "Changes since the last run to this target" in now._repr_html_()
    again = surgeon.run_many(GELU, over, to=to)
    assert (list(again.since), again.has_baseline) == ([], False)
    zoo.gelus(models / "zoo/a.onnx")
    ran = run("run", models / "r.toml", "--over", over, "--to", to)
    assert "since    1 other since the last run" in ran.stdout
