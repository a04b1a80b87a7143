"""Floats that become indices, counts or booleans get fractions, halves and NaN in proofs."""

from typing import Any

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.proof.check_result import Outcome
from tests.mutation.planting import PLANTED, Planted, outcome, plant_text

LOOK = "(float[16, 4] t, float[n] i) => (float[n, 4] y) "
TRUNCATED = "{ c = Cast<to = 7>(i) y = Gather(t, c) }"
CHOICE = "(float[n] m, float[n] a, float[n] b) => (float[n] y) "
WRONG: dict[str, tuple[str, str, str]] = {
    "a truncated index is rounded": (LOOK, TRUNCATED, "{ r = Round(i) c = Cast<to = 7>(r) y = Gather(t, c) }"),
    "a rounded index is truncated": (LOOK, "{ r = Round(i) c = Cast<to = 7>(r) y = Gather(t, c) }", TRUNCATED),
    "an index is rounded half up": (
        LOOK,
        "{ r = Round(i) c = Cast<to = 7>(r) y = Gather(t, c) }",
        "{ h = Add(i, half) f = Floor(h) c = Cast<to = 7>(f) y = Gather(t, c) }",
    ),
    "an index that is NaN is the last": (
        LOOK,
        "{ n = IsNaN(i) w = Where(n, zero, i) l = Max(w, zero) h = Min(l, top) c = Cast<to = 7>(h) y = Gather(t, c) }",
        "{ n = IsNaN(i) w = Where(n, top, i) l = Max(w, zero) h = Min(l, top) c = Cast<to = 7>(h) y = Gather(t, c) }",
    ),
    "a truncated index of elements is rounded up": (
        "(float[16, 4] t, float[n, 4] i) => (float[n, 4] y) ",
        "{ c = Cast<to = 7>(i) y = GatherElements(t, c) }",
        "{ r = Ceil(i) c = Cast<to = 7>(r) y = GatherElements(t, c) }",
    ),
    "a class below zero is rounded down": (
        "(float[n] i) => (float[n, 8] y) ",
        "{ c = Cast<to = 7>(i) y = OneHot(c, depth, values) }",
        "{ f = Floor(i) c = Cast<to = 7>(f) y = OneHot(c, depth, values) }",
    ),
    "a number of the largest is rounded": (
        "(float[n, 9] x, float[1] k) => (float[n, m] y) ",
        "{ c = Cast<to = 7>(k) y, i = TopK(x, c) }",
        "{ r = Round(k) c = Cast<to = 7>(r) y, i = TopK(x, c) }",
    ),
    "what is NaN is not true": (
        CHOICE,
        "{ c = Cast<to = 9>(m) y = Where(c, a, b) }",
        "{ q = Abs(m) c = Greater(q, zero) y = Where(c, a, b) }",
    ),
    "a fraction is not true": (
        CHOICE,
        "{ c = Cast<to = 9>(m) y = Where(c, a, b) }",
        "{ i = Cast<to = 7>(m) c = Cast<to = 9>(i) y = Where(c, a, b) }",
    ),
}
NUMBERS: dict[str, Any] = {
    **{name: np.array(number, np.float32) for name, number in {"half": 0.5, "zero": 0, "top": 15}.items()},
    "depth": np.array(8),
    "values": np.array([0, 1], np.float32),
}


def planted(title: str) -> Planted:
    plant_text("fractions", title, *WRONG[title], **NUMBERS)
    return PLANTED.pop(title)


@pytest.mark.parametrize("title", WRONG)
def test_a_site(title: str) -> None:
    found, reason = outcome(planted(title))
    assert found == "failed", reason


MODELS = [title for title in WRONG if "NaN" not in title]


@pytest.mark.parametrize("title", MODELS)
def test_a_whole_model(title: str) -> None:
    one, other = models(title)
    assert surgeon.compare(one, one).outcome is Outcome.PROVED
    assert surgeon.compare(one, other).outcome is Outcome.FAILED


def test_models_that_differ_on_an_index_of_nan_are_reported_apart() -> None:
    assert "inputs that hold NaN or infinity" in surgeon.compare(*models("an index that is NaN is the last")).differs_on


def models(title: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Both sides of a wrong rule as whole models."""
    right = planted(title).model
    wrong = onnx.ModelProto()
    wrong.CopyFrom(right)
    ports, _, nodes = WRONG[title]
    del wrong.graph.node[:]
    wrong.graph.node.extend(onnx.parser.parse_graph(f"g {ports} {nodes}").node)
    wrong.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name)
        for name, value in NUMBERS.items()
        if name not in {tensor.name for tensor in right.graph.initializer}
    )
    return right, wrong
