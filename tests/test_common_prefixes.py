"""Rounding of nodes that both sides share counts once, and excuses no later decision."""

from typing import Any

import numpy as np
import onnx
import pytest

from surgeon.proof.judge.common_prefix import common_prefix
from surgeon.proof.proof_case import RegionModels
from tests.mutation.planting import PLANTED, outcome, plant_text

PORTS = "(float[n] x) => (float[n] y) "
FRONTS: dict[str, tuple[str, float, float]] = {
    "0.125 and 100": ("a = Mul(x, c) t = Mul(a, d)", 0.125, 100),
    "5 and 0.1": ("a = Mul(x, c) t = Mul(a, d)", 5, 0.1),
    "100": ("t = Mul(x, d)", 0, 100),
    "0.7": ("t = Mul(x, d)", 0, 0.7),
    "a quotient": ("t = Div(x, d)", 0, 0.3),
    "a sum": ("a = Mul(x, d) t = Add(a, c)", 1, 0.02),
    "a root": ("a = Abs(x) t = Sqrt(a)", 0, 0),
}
DECISIONS = {
    "half up": ("y = Round(t)", "h = Add(t, half) y = Floor(h)"),
    "at the bound": (
        "g = Greater(t, half) y = Where(g, x, zero)",
        "g = GreaterOrEqual(t, half) y = Where(g, x, zero)",
    ),
}


def judged(title: str, right: str, wrong: str, front: tuple[str, float, float]) -> tuple[str, str]:
    nodes, c, d = front
    numbers: dict[str, Any] = {"half": 0.5, "zero": 0, "c": c, "d": d}
    weights: dict[str, Any] = {name: np.array(number, np.float32) for name, number in numbers.items()}
    plant_text("fronts", title, PORTS, f"{{ {nodes} {right} }}", f"{{ {nodes} {wrong} }}", 18, **weights)
    return outcome(PLANTED.pop(title))


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("front", FRONTS)
def test_another_decision_behind_the_same_product_fails(front: str, decision: str) -> None:
    found, reason = judged(front, *DECISIONS[decision], FRONTS[front])
    assert found == "failed", reason


RIGHT = {
    "the same rounding": ("y = Round(t)", "u = Identity(t) y = Round(u)"),
    "a rounding of what is the same but for its own": (
        "u = Mul(t, half) y = Round(u)",
        "u = Mul(half, t) y = Round(u)",
    ),
    "a bound from the other side": (
        "g = Greater(t, half) y = Where(g, x, zero)",
        "g = Less(half, t) y = Where(g, x, zero)",
    ),
}


@pytest.mark.parametrize("title", RIGHT)
def test_what_is_right_behind_it_passes(title: str) -> None:
    found, reason = judged(title, *RIGHT[title], FRONTS["5 and 0.1"])
    assert found == "proved", reason


def test_a_product_in_another_form_may_be_rounded_otherwise() -> None:
    """Nothing is common to both there."""
    numbers: dict[str, Any] = {"c": np.array(0.1, np.float32), "d": np.array(10, np.float32)}
    plant_text(
        "fronts", "quotient", PORTS, "{ t = Mul(x, c) y = Round(t) }", "{ t = Div(x, d) y = Round(t) }", 18, **numbers
    )
    found, reason = outcome(PLANTED.pop("quotient"))
    assert found == "proved", reason


def test_nodes_that_one_side_has_twice() -> None:
    """Each copy is in the prefix, whatever its name."""
    head = f'<ir_version: 8, opset_import: ["": 18]> g {PORTS}<float d = {{0.5}}>'
    before = onnx.parser.parse_model(f"{head} {{ t = Mul(x, d) y = Round(t) }}")
    after = onnx.parser.parse_model(f"{head} {{ u = Mul(x, d) t = Mul(x, d) w = Max(u, t) y = Round(w) }}")
    prefix = common_prefix(RegionModels(before, after, {}))
    assert prefix is not None
    assert [(node.op_type, *node.input) for node in prefix.rest.after.graph.node] == [("Max", "t", "t"), ("Round", "w")]
