"""Edits that are proved stage by stage: what is given for the first, and found at one, goes on to the others."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import surgeon
from surgeon import CheckFailed, CheckOptions
from surgeon.edits import AppendArgMax, Dim, Edit, Insert, Rename
from surgeon.testing import parse

MODEL = parse(
    '<ir_version: 9, opset_import: ["": 18]> g (float[n, 8] x) => (float[n, 8] y) <float z = {0}, float s = {6}> '
    "{ c = IsNaN(x) b = Where(c, z, x) a = Clip(b, z, s) y = Neg(a) }"
)
ARRAYS = {"x": np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)}
STAGES: tuple[Sequence[Edit], ...] = (
    (Rename("x", "input"), AppendArgMax("y")),
    (Rename("x", "input"), AppendArgMax("y"), Rename("input", "other"), Dim("n", 3)),
    (AppendArgMax("y"), Rename("x", "input")),
)


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("edits", STAGES, ids=str)
def test_inputs_that_are_given_are_those_of_the_first_stage(
    edits: Sequence[Edit], as_file: bool, tmp_path: Path
) -> None:
    """An input that a stage renamed is fed under its new name to the stages behind it."""
    given: list[object] = [ARRAYS]
    if as_file:
        given = [tmp_path / "x.npz"]
        np.savez(tmp_path / "x.npz", **ARRAYS)
    _, report = surgeon.edit(MODEL, edits, check="model", options=CheckOptions(inputs=given))
    assert report.outcome == "proved", report.check
    assert report.check is not None
    assert report.check.runs == 1


def test_inputs_that_are_given_find_what_is_wrong_in_a_later_stage() -> None:
    """They are run there, and not merely let through."""
    edits = [Rename("x", "input"), AppendArgMax("y"), Insert(("input",), ("a",), "Relu")]
    large = {"x": ARRAYS["x"] + 100}
    with pytest.raises(CheckFailed, match="differs"):
        surgeon.edit(MODEL, edits, check="model", options=CheckOptions(inputs=[large]))


def test_what_is_reported_apart_at_one_stage_is_reported_at_the_end() -> None:
    """A later stage that differs nowhere does not hide it."""
    edits = [Insert(("x",), ("b",), "Identity"), AppendArgMax("y"), Rename("x", "input")]
    _, report = surgeon.edit(MODEL, edits, check="model")
    assert report.outcome == "proved", report.check
    assert report.check is not None
    assert report.check.differs_on == ("inputs that hold NaN or infinity",)
    assert "The models differ on inputs that hold NaN or infinity: output 'y' " in report.check.reason
