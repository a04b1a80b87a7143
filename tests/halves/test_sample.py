"""A few exports of the corpus, converted and judged as the table does it."""

import json
import subprocess
import sys

import onnx
import pytest

import surgeon
from tests.architectures import cases
from tests.architectures.exporting import export
from tests.attention import cases as attention
from tests.attention.exporting import export as attending
from tests.command_line import ROOT
from tests.halves.corpus import Sample, _with_large
from tests.halves.judging import judged
from tests.halves.table import Asked, fewest, run

SAMPLE = ("llama-ts14-fp32", "t5-ts17-fp32", "unet-ts17-fp32", "wav2vec2-ts17-fp32")
DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"


@pytest.mark.parametrize("name", SAMPLE)
def test_an_export_is_right(name, tmp_path):
    case = next(case for case in cases.sample() if case.name == name)
    source, _ = export(case)
    _, report = surgeon.convert(source, output=tmp_path / "half.onnx")
    assert report.outcome == "proved"
    assert judged(source, tmp_path / "half.onnx")[0] == "right"


@pytest.mark.parametrize("name", ["mistral-eager-past-ts14-fp32-fixed", "gemma2-eager-past-dynamo23-fp32-fixed"])
def test_rows_that_a_window_and_a_mask_hide_whole_say_nothing(name, tmp_path):
    """What they answer, rounding decides: it is right by what the others do, and no stretch is lost to it."""
    case = next(case for case in attention.table() if case.name == name)
    source = attending(case).path
    _, report = surgeon.convert(source, output=tmp_path / "half.onnx")
    assert report.outcome == "proved"
    assert {item.outcome for item in report.stretches} == {"proved"}
    assert judged(source, tmp_path / "half.onnx")[0] == "right"


def test_a_planted_activation_is_all_that_is_kept(tmp_path):
    """And fewer nodes would not do."""
    model, name = _with_large(DISTILBERT)
    onnx.save(model, tmp_path / "planted.onnx")
    _, report = surgeon.convert(model)
    assert len(report.kept) == 2
    assert all(item.node.endswith("/planted") for item in report.kept)
    sample = Sample("d", "planted", tmp_path / "planted.onnx", name)
    assert fewest(sample, [], tmp_path / "tried.onnx") == 2


def test_what_is_wrong_is_judged_so(tmp_path):
    """A model of other answers, and none at all."""
    other, _ = surgeon.convert(DISTILBERT, output=tmp_path / "other.onnx", to="bfloat16", check="none")
    assert judged(DISTILBERT, other)[0] != "right"
    (tmp_path / "none.onnx").write_bytes(b"")
    assert judged(DISTILBERT, tmp_path / "none.onnx")[0].startswith("refused by ONNX Runtime")


def test_a_tool_answers_line_by_line(tmp_path):
    asked = Asked(log=tmp_path / "log")
    found = run(["surgeon"], [Sample("d", "g", DISTILBERT)], tmp_path, asked)
    (cell,) = found[1]["surgeon"]
    assert (cell.what, cell.casts, cell.kept) == ("right", 1, 0)
    assert run(["surgeon"], [Sample("d", "g", tmp_path / "gone.onnx")], tmp_path, asked)[1] == found[1]  # by its log
    command = [sys.executable, str(ROOT / "tests" / "halves" / "tools.py"), "onnxconverter_common"]
    job = json.dumps({"source": "nothing.onnx", "target": "x.onnx"})
    done = subprocess.run(command, input=job, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["why"]
