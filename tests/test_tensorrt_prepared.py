"""What ONNX's own cases come to before TensorRT: none is lost, and what is refused after the rules is explained."""

import pytest

from surgeon.runtime.tensorrt.library import installed
from tests.sampling import chosen
from tests.tensorrt_prepared.explained import explanation
from tests.tensorrt_prepared.models import Sample, cases, held
from tests.tensorrt_prepared.rows import Journal, Row, Taken, row_of
from tests.tensorrt_prepared.table import show

pytestmark = pytest.mark.skipif(installed() is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")
TITLE = "TensorRT-RTX"


def samples():
    """Cases as they are, and with their settings held: one in 150 of each, or all."""
    makers = [*cases(), *held()]
    return [make() for make in chosen(lambda: makers[::150], lambda: makers)]


def test_what_is_left_is_explained_and_none_is_lost():
    rows = [row_of(sample, ["surgeon"], build=False, compare=False) for sample in samples()]
    left = [row for row in rows if not row.after["surgeon"].is_taken]
    assert len(left) < len(rows) / 2
    assert not [row.name for row in rows if row.is_broken("surgeon")]
    assert not [row.name for row in left if not explanation(row.after["surgeon"].found)]


def test_a_run_that_broke_off_goes_on(tmp_path):
    path = tmp_path / "journal.jsonl"
    row = Row("one", before=Taken(True, True), after={"surgeon": Taken(True, True, sizes={"n": 2}, equal="proved")})
    Journal(path).add(row)
    assert Journal(path).get("one") == row
    assert Journal(path).get("two") is None
    assert Journal(None).get("one") is None


@pytest.mark.parametrize(
    ("before", "after", "code", "words"),
    [
        (Taken(True), Taken(True), 0, "None is refused after the rules."),
        (Taken(True), Taken(False, found=[["ai.onnx::Bernoulli", "no"]]), 1, "BROKEN one"),
        (Taken(False), Taken(False, found=[["ai.onnx::Bernoulli", "no"]]), 0, "1 random numbers  (one)"),
        (Taken(False), Taken(False, found=[["ai.onnx::Relu", "no"]]), 1, "UNEXPLAINED one: ai.onnx::Relu: no"),
        (Taken(True), Taken(failed="TimeoutError: late"), 1, "UNEXPLAINED one: TimeoutError: late"),
        (Taken(True, True), Taken(True, False, [["", "no engine"]]), 1, "BROKEN one"),
    ],
)
def test_what_the_table_says(before, after, code, words, capsys):
    rows = [Row("one", before=before, after={"surgeon": after})]
    build = before.built is not None
    assert show(rows, ["surgeon"], TITLE, build=build, compare=False, each=False) == code
    assert words in capsys.readouterr().out


def test_a_model_that_is_none_is_reported():
    row = row_of(Sample("none", "no/such/file.onnx"), ["surgeon"], build=False, compare=False)
    assert "File not found: " in row.fault
    assert row.fault.endswith("no/such/file.onnx")
