"""Every activation and norm that torch ran in whole architectures is found in their exports, and nothing else is.

The cases are in `tests.architectures`, with the sample of them that runs by default; `python -m tests.architectures
--table` makes a table of all of them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

import surgeon
from tests import sampling
from tests.architectures import cases, exporting
from tests.architectures.checking import RULES, Row, check

SAMPLE = cases.sample()
CHOSEN = sampling.chosen(cases.sample, cases.cases)


@pytest.fixture(scope="module", params=CHOSEN, ids=[case.name for case in CHOSEN])
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Row:
    """One export, rewritten by all activations and norms, sites and whole model checked."""
    return check(request.param, tmp_path_factory.mktemp("rewritten") / "out.onnx")


def test_every_operation_that_ran_is_one_node(row: Row) -> None:
    """Those that the exporter wrote as one node and those that were found add up to what torch ran."""
    assert not row.missed


def test_nothing_that_only_looks_like_one_is_fused(row: Row) -> None:
    """No more nodes of an operation than torch ran: softmaxes, losses, variances and standardised inputs stay."""
    assert not row.extra


def test_every_site_is_proved(row: Row) -> None:
    """Each on its own, also in models that ONNX Runtime does not open as a whole; none is rolled back."""
    assert not row.unproved
    assert not row.report.rolled_back


def test_the_whole_model_is_equal(row: Row) -> None:
    """The check proves it, or says that ONNX Runtime cannot open what the exporter wrote."""
    assert row.report.sites
    assert row.model_check == ("proved" if row.opens else "unproved")


def test_inputs_and_outputs_are_kept(row: Row) -> None:
    """Names, types, shapes and order of the model's inputs and outputs stay."""
    before, after = onnx.load(row.source).graph, onnx.load(row.output).graph
    assert list(after.input) == list(before.input)
    assert list(after.output) == list(before.output)


def test_a_second_rewrite_changes_nothing(row: Row, tmp_path: Path) -> None:
    """Rewriting the output again finds no site and writes the same bytes."""
    again = tmp_path / "again.onnx"
    _, report = surgeon.rewrite(row.output, RULES, check="none", output=again)
    assert not report.sites
    assert again.read_bytes() == row.output.read_bytes()


def test_the_sample_covers_every_exporter_opset_and_dtype() -> None:
    """What runs by default leaves out no value of any of the three."""
    every = cases.cases()
    for part in ("exporter", "opset", "dtype"):
        assert {getattr(case, part) for case in SAMPLE} == {getattr(case, part) for case in every}
    assert {(case.exporter, case.dtype) for case in SAMPLE} == {(case.exporter, case.dtype) for case in every}


def test_the_decoys_are_there() -> None:
    """The model of decoys holds four things that look like norms beside two that are, in the file as exported."""
    path, truth = exporting.export(next(case for case in SAMPLE if case.arch == "feature_classifier"))
    ops = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert truth.ran["layer_norm"] == 2
    assert ops["Sqrt"] >= truth.ran["layer_norm"] + 4
