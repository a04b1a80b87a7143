"""What a run of a whole model computes is counted, and decides how often it is run: the clock does not."""

import numpy as np
import pytest

from surgeon.proof.model import trial_generator
from surgeon.proof.model.model_cost import ModelCost
from surgeon.proof.model.original_runs import OriginalRuns
from surgeon.proof.node_cost import ELEMENT, INTERPRETED
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.ort_session import OrtSession
from surgeon.testing import parse

SQUARE = "(float[b, 8] x, float[8, 16] w) => (float[b, 16] y) { y = MatMul(x, w) }"
COUNTS = {
    "a product": (SQUARE, {"x": (5, 8), "w": (8, 16)}, 5 * 16 * (8 + ELEMENT)),
    "an element each": ("(float[b, 4] x) => (float[b, 4] y) { y = Relu(x) }", {"x": (3, 4)}, 12 * ELEMENT),
    "a window of all channels": (
        "(float[b, 3, h, h] x, float[6, 3, 3, 3] w) => (float y) <int64[2] s = {0, 0}> { y = Conv(x, w) }",
        {"x": (2, 3, 10, 10), "w": (6, 3, 3, 3)},
        2 * 6 * 8 * 8 * (27 + ELEMENT),
    ),
    "what Python computes": (
        '<ir_version: 8, opset_import: ["" : 18, "mine" : 1]> g (float[4] x) => (float[4] z) { z = mine.own(x) }',
        {"x": (4,)},
        4 * INTERPRETED,
    ),
}


@pytest.mark.parametrize(("text", "shapes", "expected"), COUNTS.values(), ids=COUNTS)
def test_the_count_follows_the_shapes(text, shapes, expected):
    feeds = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    assert ModelCost(parse(text)).of(feeds) == expected


def test_calls_of_functions_count_as_what_their_nodes_do():
    called = parse(
        """<ir_version: 8, opset_import: ["" : 18, "f" : 1]>
        g (float[b, 4] x) => (float[b, 4] y) { y = f.twice(x) }
        <domain: "f", opset_import: ["" : 18]> twice (a) => (c) { d = Relu(a) c = Neg(d) }"""
    )
    assert ModelCost(called).of({"x": np.zeros((3, 4), np.float32)}) == 2 * 12 * ELEMENT < INTERPRETED * 12


def runs(monkeypatch, **limits) -> int:
    """How often a model is run, where so much is much."""
    for name, limit in limits.items():
        monkeypatch.setattr(trial_generator, name, limit)
    count = 0
    original = OrtSession.run

    def run(self, feeds):
        nonlocal count
        count += 1
        return original(self, feeds)

    monkeypatch.setattr(OrtSession, "run", run)
    # In this process, where runs are counted.
    monkeypatch.setattr("surgeon.runtime.sessions.isolated_session._is_computed_here", lambda *_: True)
    model = parse(SQUARE)
    OriginalRuns(model, model, seed=0, dims={}, away=IsolatedRuntime()).run()
    return count


def test_what_computes_much_is_run_less_often(monkeypatch):
    with monkeypatch.context() as patch:
        usual = runs(patch)
    with monkeypatch.context() as patch:
        much = runs(patch, MUCH=1)
    with monkeypatch.context() as patch:
        very_much = runs(patch, MUCH=1, MOST=1)
    assert usual > much > very_much
    assert very_much == 1, "on the first inputs"
