"""Folders that are written only if the new model decodes as the original."""

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.errors import CheckFailed, UsageError
from tests.command_line import result_in, run
from tests.decoders.models import decoder
from tests.decoders.test_decoding_check import change, with_padding_shown

FACTS = {"context": 64, "eos": 31, "check": "decode"}


@pytest.mark.parametrize("settings", [{}, {"keep_graph": True, "last_logits": True}], ids=len)
def test_equal(settings, tmp_path):
    """The comparison is that of the whole run, and the steps keep their own."""
    report = surgeon.decoder(decoder(key="k_%d_of%d"), tmp_path / "out", **FACTS, **settings)
    assert (report.proved, report.own_outcome, report.check.runs) == (True, "proved", 35)
    assert report.check.seconds > 0
    assert surgeon.compare(decoder(), tmp_path / "out" / "model.onnx", decode=True).proved


def test_an_unchanged_graph_is_proved_too(tmp_path):
    onnx.save(decoder(), tmp_path / "in.onnx")
    words = ("--context", 64, "--eos", 31, "--check", "decode", "--keep-graph")
    ran = run("decoder", tmp_path / "in.onnx", tmp_path / "out", *words)
    words = "PROVED   decoding equal to the original for each sequence by itself (largest error "
    assert (ran.exit_code, words in ran.stdout) == (0, True), ran.stdout


def test_other_scores_write_nothing(tmp_path):
    """This export counts padding, so it is wrong for padded batches."""
    model = decoder()
    with_padding_shown(model)
    with pytest.raises(CheckFailed, match="The new model decodes differently from the original: Output") as caught:
        surgeon.decoder(model, tmp_path / "out", **FACTS)
    report = caught.value.report
    assert (report.outcome, report.written, report.check.outcome.value) == ("failed", False, "failed")
    assert not list(tmp_path.iterdir())
    onnx.save(model, tmp_path / "in.onnx")
    words = ("--context", 64, "--eos", 31, "--check", "decode", "--json")
    ran = run("decoder", tmp_path / "in.onnx", tmp_path / "out", *words)
    assert (ran.exit_code, result_in(ran.stdout)["check"]["outcome"]) == (1, "failed")
    assert not (tmp_path / "out").exists()


def test_scores_that_show_nothing(tmp_path):
    """A required proof is missing if all tokens have the same scores."""
    model = decoder()
    change(model, "head", np.zeros_like)
    assert surgeon.decoder(model, tmp_path / "out", **FACTS).outcome == "unproved"
    with pytest.raises(CheckFailed, match="is not proved to decode as the original: The scores are the same"):
        surgeon.decoder(model, tmp_path / "other", **FACTS, require_proof=True, keep_graph=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_inputs_are_those_of_decoding(tmp_path):
    options = surgeon.CheckOptions(inputs=[{}])
    with pytest.raises(UsageError, match="Inputs and layers need the check of the whole model"):
        surgeon.decoder(decoder(), tmp_path / "out", **FACTS, options=options)
