"""Celu of half precision: what fires and what does not."""

import numpy as np
import onnxruntime as ort
import pytest
from surgeon.patterns.placeholders.half_celu import half_celu

import surgeon
from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import faults, graph

HALF, WHOLE = (f"({dtype}[n, 4, 5] x) => ({dtype}[n, 4, 5] y)" for dtype in ("float16", "float"))

# fmt: off
FIRES = [
    Case(half_celu, "in float16", graph("y = Celu<alpha = 0.5>(x)", HALF), target="tensorrt", check=False),
    Case(half_celu, "alpha left out", graph("y = Celu(x)", HALF), target="onnx", check=False),
]
NEGATIVES = [
    Case(half_celu, "in float32", graph("y = Celu<alpha = 0.5>(x)", WHOLE), target="tensorrt", why="x is float32"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_what_nobody_ran_runs_then():
    """As TorchScript writes it no runtime takes it, so the report says that nothing is proved."""
    model = FIRES[0].model
    with pytest.raises(Exception, match="invalid"):
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert faults(model) != []
    made, report = surgeon.rewrite(model, "tensorrt", target="tensorrt")
    assert report.outcome == "unproved"
    assert not faults(made)
    x = np.linspace(-4, 4, 20, dtype=np.float16).reshape(1, 4, 5)
    (found,) = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    wide = x.astype(np.float32)
    wanted = np.maximum(0, wide) + np.minimum(0, 0.5 * (np.exp(wide / 0.5) - 1))
    np.testing.assert_array_equal(found, wanted.astype(np.float16))
