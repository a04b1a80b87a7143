"""`surgeon rewrite --upgrade`: the opset raised and the rules run in one go, with one file and one report."""

import os
from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest

import surgeon
from surgeon import CheckFailed, CheckOptions, UsageError
from surgeon.display.content.comparison import error_and_tolerance
from surgeon.text import format_beside_limit
from tests.command_line import EXACT, files_in, one_sentence, ops, result_in, run, save
from tests.test_advice import hard_swishes, text_of

OLD_MEAN = "r = ReduceMean <axes = [1]> (x)"  # an attribute that becomes an input at opset 18
FLAT = "s = Softmax <axis = 0> (x)"  # over all axes from there on before opset 13, over one since
PIXELS = """u = Unsqueeze <axes = [0, 1]> (x)
    e = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
    s = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn", nearest_mode = "ceil"> (u, e, e)"""
CEILED = """k = Constant <value_ints = [1]> () u = Unsqueeze(x, k)
    c = AveragePool <kernel_shape = [3], strides = [2], ceil_mode = 1> (u)"""  # one window less from opset 19 on
SWISH = ["HardSwish"] * 3


def opset_of(path: Path) -> int:
    """The version of ai.onnx that a file imports."""
    return next(item.version for item in onnx.load(path).opset_import if not item.domain)


def rewritten(path: Path, rules: str = "hard_swish", upgrade: object = "auto", **settings: object):
    """The report of a rewrite beside the model, as out.onnx, and that file."""
    out = path.with_name("out.onnx")
    return surgeon.rewrite(path, rules, output=out, upgrade=upgrade, **settings)[1], out


def test_auto_does_both_and_leaves_one_file(tmp_path: Path) -> None:
    """The least opset that HardSwish takes; the upgrade is proved on the whole model, each place on its own."""
    path = hard_swishes(tmp_path)
    before = path.read_bytes()
    report, out = rewritten(path)
    assert (opset_of(out), ops(out)) == (14, SWISH)
    assert report.outcome == "proved"
    assert (report.upgrade.opset, report.upgrade.outcome, report.not_upgraded) == ((13, 14), "proved", "")
    assert report.source == str(path)
    assert files_in(tmp_path) == {"in.onnx", "out.onnx"}
    assert path.read_bytes() == before
    assert surgeon.compare(path, out)
    text = text_of(report)
    assert "\n  opset 13 → 14\n  hard_swish 3\n" in text
    assert "\nPROVED   the upgrade proved on " in text
    assert "; 3 of 3 sites; largest error " in text
    assert "more with opset" not in text


def test_the_command_and_its_report(tmp_path: Path) -> None:
    """The upgrade is part of the JSON."""
    path, out, reported = hard_swishes(tmp_path), tmp_path / "out.onnx", tmp_path / "report.json"
    result = run("rewrite", path, out, "-r", "hard_swish", "--upgrade", "auto", "--report", reported)
    assert result.exit_code == 0, result.output
    assert opset_of(out) == 14
    content = result_in(reported.read_text())
    assert (content["upgrade"]["opset"], content["upgrade"]["outcome"]) == ([13, 14], "proved")
    assert (content["not_upgraded"], content["counts"]) == ("", {"hard_swish": 3})


def test_without_it_nothing_is_raised(tmp_path: Path) -> None:
    """Nobody asked."""
    path, out = hard_swishes(tmp_path), tmp_path / "out.onnx"
    assert run("rewrite", path, out, "-r", "hard_swish").exit_code == 0
    assert out.read_bytes() == path.read_bytes()


def test_auto_takes_the_opset_with_which_all_fire_that_wait(tmp_path: Path) -> None:
    """HardSwish waits for 14, Gelu for 20; with 14 alone what the second would bring is still told."""
    gelu = EXACT.format(i="g", x="x", y="z")
    report, out = rewritten(hard_swishes(tmp_path, more=gelu), "hard_swish,gelu:gelu", target="onnx")
    assert opset_of(out) == 20
    assert report.counts == {"hard_swish": 3, "gelu": 1}
    assert "more with opset" not in text_of(report)
    report, out = rewritten(hard_swishes(tmp_path, more=gelu), "hard_swish,gelu:gelu", 14, target="onnx")
    assert opset_of(out) == 14
    assert report.counts == {"hard_swish": 3, "gelu": 0}
    assert "1 gelu more with opset 20: add --upgrade 20," in text_of(report)


def test_auto_takes_an_older_opset_where_the_newest_would_change_a_node(tmp_path: Path) -> None:
    """What that node is, is told."""
    gelu = EXACT.format(i="g", x="x", y="z")
    report, out = rewritten(hard_swishes(tmp_path, more=f"{gelu} {CEILED}"), "hard_swish,gelu:gelu", target="onnx")
    assert (opset_of(out), report.counts) == (14, {"hard_swish": 3, "gelu": 0})
    assert report.not_upgraded.startswith("to opset 20: Opset 20 would change the meaning of one node: ")
    assert "not upgraded: to opset 20: " in text_of(report)


def test_an_opset_alone_is_written_too(tmp_path: Path) -> None:
    """No rule fires, and the file is another all the same; a graph in memory likewise."""
    report, out = rewritten(hard_swishes(tmp_path), "gelu:gelu", 18)
    assert (opset_of(out), report.outcome, report.sites) == (18, "proved", [])
    assert "identical to the input" not in text_of(report)
    made, _ = surgeon.rewrite(gs.import_onnx(onnx.load(tmp_path / "in.onnx")), "gelu:gelu", upgrade=18)
    assert made.opset == 18


def test_nodes_that_have_to_change_for_it_are_edited(tmp_path: Path) -> None:
    """In the same file, and told in the same report."""
    report, out = rewritten(hard_swishes(tmp_path, more=OLD_MEAN), upgrade=18)
    model = onnx.load(out)
    assert opset_of(out) == 18
    assert report.upgrade.edited == {"ReduceMean: attribute axes became an input": 1}
    assert "ReduceMean: attribute axes became an input (x1)" in text_of(report, verbose=True)
    assert not [item for node in model.graph.node if node.op_type == "ReduceMean" for item in node.attribute]
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize("upgrade", ["auto", 14])
def test_a_node_that_would_mean_something_else_leaves_the_rewrite_without_it(tmp_path: Path, upgrade: object) -> None:
    """The rest is written at the opset of the source, and one line says why."""
    gelu = EXACT.format(i="g", x="x", y="z")
    path, out = hard_swishes(tmp_path, opset=12, more=f"{PIXELS} {gelu}"), tmp_path / "out.onnx"
    result = run("rewrite", path, out, "-r", "hard_swish,gelu:gelu", "--upgrade", upgrade)
    assert result.exit_code == 0, result.output
    assert opset_of(out) == 12
    assert "com.microsoft::Gelu" in ops(out)
    lines = [line for line in result.stdout.splitlines() if "not upgraded: " in line]
    assert len(lines) == 1
    assert lines[0].startswith(
        "warning  not upgraded: Opset 14 would change the meaning of one node: Resize at /s/Resize ("
    )
    assert "add --upgrade" not in result.stdout
    quiet = run("rewrite", path, out, "-r", "hard_swish,gelu:gelu", "--upgrade", upgrade, "-q")
    assert quiet.stderr.startswith("warning: not upgraded: Opset 14 would change")
    assert quiet.stdout == ""


def test_an_upgrade_that_answers_otherwise_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole model is run before and after: what the tables of lossless steps do not know is found there."""
    from surgeon.shapes.op_rules import opset_adapters

    monkeypatch.setitem(opset_adapters.ADAPTERS, ("Softmax", 13), lambda _: "")  # as if nothing had changed
    path = hard_swishes(tmp_path, opset=12, more=f"{FLAT} o = Abs(s)", outputs="float[n, m] y, float o")
    report, out = rewritten(path)
    assert report.upgrade is None
    assert report.not_upgraded.startswith("The upgraded model differs from the original: Output 'o' differs by ")
    assert opset_of(out) == 12
    assert report.outcome == "unchanged"
    unchecked, out = rewritten(path, check="none")
    assert (unchecked.upgrade.outcome, opset_of(out)) == ("unchecked", 14)


def test_where_no_rule_waits_for_an_opset_nothing_is_raised(tmp_path: Path) -> None:
    """One line says so."""
    path, out = hard_swishes(tmp_path, opset=14), tmp_path / "out.onnx"
    output = run("rewrite", path, out, "-r", "hard_swish", "--upgrade", "auto").stdout
    assert "not upgraded: no rule would fire more often with a newer opset" in output
    assert (opset_of(out), ops(out)) == (14, SWISH)


def test_an_opset_that_lets_nothing_fire_after_all_is_not_taken(tmp_path: Path) -> None:
    """The rule says that it needs opset 14, and then refuses the place for another reason."""
    from surgeon import Graph, Tensor, require, rule

    @rule(patterns=[lambda g, x: g.neg(g.abs(x))], target="onnx", opset=14)
    def moody(g: Graph, x: Tensor) -> Tensor:
        require(x.rank == 7, "the tensor has not seven axes")
        return g.hard_swish(x)

    report, out = rewritten(save(tmp_path, "a = Abs(x) y = Neg(a)", opset=13), moody)
    assert report.not_upgraded == "no rule fires more often with opset 14"
    assert opset_of(out) == 13


@pytest.mark.parametrize(
    ("upgrade", "words"),
    [(12, "does not lower opsets"), (99, "Opset 99 does not exist"), ("newest", "expected auto, none or an opset")],
)
def test_an_opset_without_sense_is_refused(tmp_path: Path, upgrade: object, words: str) -> None:
    """Nothing is written."""
    path, out = hard_swishes(tmp_path), tmp_path / "out.onnx"
    result = run("rewrite", path, out, "-r", "hard_swish", "--upgrade", upgrade)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not out.exists()
    with pytest.raises(UsageError, match="Invalid upgrade="):
        surgeon.rewrite(path, "hard_swish", output=out, upgrade=1.5)


def test_onto_itself(tmp_path: Path) -> None:
    """The output may be the file that was read; nothing else is left."""
    path = hard_swishes(tmp_path)
    report = surgeon.rewrite(path, "hard_swish", output=path, upgrade="auto")[1]
    assert report.outcome == "proved"
    assert (opset_of(path), ops(path), files_in(tmp_path)) == (14, SWISH, {"in.onnx"})


def test_a_dry_run_writes_nothing_and_says_the_same(tmp_path: Path) -> None:
    """Not even for the time of the run is anything left."""
    path = hard_swishes(tmp_path)
    _, report = surgeon.rewrite(path, "hard_swish", dry_run=True, upgrade="auto")
    assert (report.counts, report.upgrade.opset, report.written) == ({"hard_swish": 3}, (13, 14), False)
    assert files_in(tmp_path) == {"in.onnx"}


@pytest.mark.parametrize("kind", ["proto", "gs"])
def test_models_in_memory(tmp_path: Path, kind: str) -> None:
    """They come back in the kind they were given."""
    proto = onnx.load(hard_swishes(tmp_path))
    source = proto if kind == "proto" else gs.import_onnx(proto)
    made, report = surgeon.rewrite(source, "hard_swish", upgrade="auto")
    assert report.upgrade.outcome == report.outcome == "proved"
    if kind == "gs":
        assert (made.opset, [node.op for node in made.nodes]) == (14, SWISH)
    else:
        assert (made.opset_import[0].version, [node.op_type for node in made.graph.node]) == (14, SWISH)
        assert proto.opset_import[0].version == 13


def with_weights(folder: Path) -> Path:
    """A weight in a data file beside the model."""
    folder.mkdir()
    path = hard_swishes(folder, more="w = Add(y, weight)", outputs="float[n, m] y, float[n, 4] w")
    model = onnx.load(path)
    weight = onnx.TensorProto(name="weight", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.data")
    model.graph.initializer.append(weight)
    path.write_bytes(model.SerializeToString())
    (folder / "w.data").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return path


@pytest.mark.parametrize("is_writable", [True, False])
def test_data_files_go_where_they_would_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_writable: bool
) -> None:
    """Beside the source nothing is left, and where nothing may be written there, it is done elsewhere."""
    path = with_weights(tmp_path / "source")
    out = tmp_path / "result" / "out.onnx"
    out.parent.mkdir()
    if not is_writable:
        real = os.access
        monkeypatch.setattr(os, "access", lambda where, mode: Path(where) != path.parent and real(where, mode))
    report = surgeon.rewrite(path, "hard_swish", output=out, upgrade="auto")[1]
    assert report.outcome == "proved"
    assert (files_in(path.parent), files_in(out.parent)) == ({"in.onnx", "w.data"}, {"out.onnx", "w.data"})
    assert (out.parent / "w.data").read_bytes() == (path.parent / "w.data").read_bytes()
    assert surgeon.compare(path, out)


def test_what_fails_in_the_rewrite_leaves_nothing_behind(tmp_path: Path) -> None:
    """A rule that is wrong is rolled back from the upgraded model, which is gone afterwards."""
    from surgeon import Graph, Tensor, rule

    @rule(patterns=[lambda g, x: g.hard_swish(x), lambda g, x: g.abs(x)], target="onnx")
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.neg(x)

    path, out = hard_swishes(tmp_path, more="o = Abs(x)", outputs="float[n, m] y, float[n, 4] o"), tmp_path / "out.onnx"
    with pytest.raises(CheckFailed) as caught:
        surgeon.rewrite(path, ["hard_swish", wrong], output=out, upgrade=14)
    assert caught.value.report.upgrade.opset == (13, 14)
    assert files_in(tmp_path) == {"in.onnx", "out.onnx"}
    assert opset_of(out) == 14


def test_an_upgrade_that_cannot_be_proved_is_said_and_left_out_where_proof_is_required(tmp_path: Path) -> None:
    """The whole model does not run here: an op of nobody's."""
    path = hard_swishes(
        tmp_path, more="o = my.domain.Thing(x)", outputs="float[n, m] y, float[n, 4] o", imports=', "my.domain" : 1'
    )
    report, out = rewritten(path)
    assert (report.outcome, report.upgrade.outcome, opset_of(out)) == ("unproved", "unproved", 14)
    assert report.doubts == [report.upgrade.check.reason]
    assert "\nUNPROVED the upgrade unproved: " in text_of(report)
    report, out = rewritten(path, require_proof=True)
    assert report.not_upgraded.startswith("The upgraded model is not proved: ")
    assert opset_of(out) == 13


def test_the_check_of_whole_models_holds_the_result_against_the_upgraded_one(tmp_path: Path) -> None:
    """Which is held against the source: both are told."""
    report, _ = rewritten(hard_swishes(tmp_path), check="both", options=CheckOptions(seed=3))
    assert report.upgrade.check.proved
    assert report.check.proved
    assert "whole model proved on " in text_of(report)


def test_a_changed_source_stops_the_save(tmp_path: Path) -> None:
    """As without the upgrade."""
    path = hard_swishes(tmp_path)

    def change(phase: str, _: int) -> None:
        if phase == "prove":
            path.write_bytes(path.read_bytes() + b"")
            os.utime(path, ns=(1, 1))

    with pytest.raises(surgeon.ModelFileError, match="changed on disk"):
        rewritten(path, progress=change)
    assert files_in(tmp_path) == {"in.onnx"}


def test_one_sentence_for_a_model_without_an_opset(tmp_path: Path) -> None:
    """There is none to raise."""
    path = save(tmp_path, "y = my.domain.Thing(x)", imports=', "my.domain" : 1', constants="")
    model = onnx.load(path)
    del model.opset_import[0]
    path.write_bytes(model.SerializeToString())
    result = run("rewrite", path, tmp_path / "out.onnx", "-r", "hard_swish", "--upgrade", "18")
    assert "does not import ai.onnx" in one_sentence(result, 2)


@pytest.mark.parametrize(
    ("gap", "allowed", "scale", "found", "text"),
    [
        (1.0, 9.28, 464000.0, "1", "9.3 (2e-05 of 4.64e+05)"),
        (1e-5, 2e-5, 0.0, "1e-05", "2e-05"),
        (0.0, 0.0, 5.0, "0", "0"),
        (3.0, float("inf"), 2.0, "3", "inf"),
        (0.000643, 0.0006434, 0.032, "0.000643", "0.000643 (0.02 of 0.032)"),
    ],
)
def test_a_tolerance_is_a_part_of_the_numbers_that_it_is_for(
    gap: float, allowed: float, scale: float, found: str, text: str
) -> None:
    """9.28 tells nothing."""
    assert error_and_tolerance(gap, allowed, scale) == (found, text)


@pytest.mark.parametrize(
    ("found", "allowed", "digits", "texts"),
    [
        (4.26e-8, 6.14e-6, (3, 2), ("4.26e-08", "6.1e-06")),
        (0.000643, 0.0006434, (3, 2), ("0.000643", "0.000643")),
        (0.000644, 0.0006434, (3, 2), ("0.000644", "0.00064")),
        (0.0006434, 0.0006432, (3, 3), ("0.0006434", "0.0006432")),
        (0.0112004, 0.0112, (3, 3), ("0.0112004", "0.0112")),
        (0.01, 0.01, (3, 6), ("0.01", "0.01")),
        (float("inf"), 0.01, (3, 6), ("inf", "0.01")),
        (float("nan"), 0.01, (3, 3), ("nan", "0.01")),
        (1 + 2**-52, 1.0, (2, 2), ("1.0000000000000002", "1")),
        (1.0, 1 + 2**-52, (2, 2), ("1", "1")),
    ],
)
def test_what_is_shown_reports_truly_whether_it_is_allowed(found, allowed, digits, texts) -> None:
    """Never 0.000643 where 0.00064 is allowed, of what is proved."""
    shown = format_beside_limit(found, allowed, digits)
    assert shown == texts
    assert (float(shown[0]) <= float(shown[1])) == (found <= allowed)
