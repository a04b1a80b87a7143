"""Masks of Attention with one row for all queries: what is spread, what does not match and why."""

import numpy as np
import onnxruntime as ort
import pytest
from surgeon.patterns.attention.broadcast_mask import broadcast_mask

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.versions import version_of

HEADS = "float[b, 2, s, 8] q, float[b, 2, t, 8] k, float[b, 2, t, 8] v"
JOINED = "float[b, s, 16] q, float[b, t, 16] k, float[b, t, 16] v"
BODY = "y = Attention(q, k, v, m)"


def graph(body=BODY, inputs=f"{HEADS}, bool[b, 1, 1, t] m", output="float[b, 2, s, 8] y"):
    return parse(f'<ir_version: 10, opset_import: ["" : 23]> g ({inputs}) => ({output}) {{ {body} }}')


# fmt: off
FIRES = [
    Case(broadcast_mask, "a padding of truths", graph()),
    Case(broadcast_mask, "one that is added", graph(inputs=f"{HEADS}, float[b, 1, 1, t] m")),
    Case(broadcast_mask, "one for all batches", graph(inputs=f"{HEADS}, float[1, t] m")),
    Case(broadcast_mask, "heads that are joined", graph(
        "y = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v, m)", f"{JOINED}, bool[b, 1, 1, t] m",
        "float[b, s, 16] y")),
]
NEGATIVES = [
    Case(broadcast_mask, "a row for each query", graph(inputs=f"{HEADS}, bool[b, 1, s, t] m"), why="must have one row"),
    Case(broadcast_mask, "one query", why="there is only one query", model=graph(
        inputs=f"{HEADS.replace('2, s', '2, 1')}, bool[b, 1, 1, t] m", output="float[b, 2, 1, 8] y")),
    Case(broadcast_mask, "no mask", graph("y = Attention(q, k, v)"), why="expected"),
    Case(broadcast_mask, "standard ops for others", graph(), target="onnx", why="target"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.skipif(version_of("onnxruntime") < (1, 31), reason="ONNX Runtime has no kernel of Attention before")
def test_what_onnx_runtime_does_not_run_runs_then():
    x, seen = np.ones((2, 2, 5, 8), np.float32), np.ones((2, 1, 1, 5), bool)
    made, report = surgeon.rewrite(graph(), "ort")
    assert report.outcome == "proved"
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"q": x, "k": x, "v": x, "m": seen})
    np.testing.assert_allclose(found, x, rtol=1e-6)
