"""Arguments of the Python functions that are of another kind than wanted: one sentence, and no traceback of ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import surgeon
from surgeon.testing import parse

MODEL = Path(__file__).resolve().parents[1] / "notebooks" / "models" / "tiny_distilbert.onnx"
SMALL = parse("(float[n] x) => (float[n] y) { y = Relu(x) }")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: surgeon.rewrite(MODEL, "gelu", output=5), "Invalid output=5"),
        (lambda: surgeon.convert(MODEL, output=5), "Invalid output=5"),
        (lambda: surgeon.edit(MODEL, surgeon.edits.StripDoc(), output=5), "Invalid output=5"),
        (lambda: surgeon.rewrite(SMALL, "gelu", options={"seed": 1}), "Example: options=surgeon.CheckOptions(seed=1)"),
        (lambda: surgeon.convert(SMALL, options=3), "Example: options=surgeon.CheckOptions(seed=1)"),
        (lambda: surgeon.explain(SMALL, "gelu", node=5), "Invalid node=5"),
        (lambda: surgeon.compare(SMALL, SMALL, inputs=5), "Invalid inputs=5"),
        (lambda: surgeon.rule(patterns=5)(lambda g, x: x), "patterns must be a list of functions"),
        (lambda: surgeon.rule(patterns=[5])(lambda g, x: x), "patterns=[...]; got [5]"),
        (lambda: surgeon.rule(patterns=lambda g, x: x)(lambda g, x: x), "patterns must be a list of functions"),
    ],
)  # fmt: skip
def test_what_is_of_another_kind(call: Callable[[], Any], message: str) -> None:
    """It says what is wrong, and what to write."""
    with pytest.raises(surgeon.SurgeonError) as raised:
        call()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
