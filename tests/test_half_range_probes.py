"""Range probes of inner tensors, whole or slice by slice."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from surgeon.precision.measuring import range_instrumentation
from surgeon.precision.measuring.range_instrumentation import MAIN_GRAPH
from tests.half_models import model

SIZES = (2, 3, 4, 5)


def told(made, feeds, low=-1e4):
    """What the gauges of y tell, and how many of them go slice by slice."""
    with range_instrumentation.instrumented(made, [(MAIN_GRAPH, "y")], low) as (shown, gauged):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
        answer = dict(zip(gauged.names, session.run(gauged.names, feeds), strict=True))
        found = {}
        gauged.read(answer, found)
        return found[MAIN_GRAPH, "y"], sum(node.op_type == "Scan" for node in shown.graph.node)


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
@pytest.mark.parametrize("dtype", ["float", "float16"])
@pytest.mark.parametrize("at_once", [1, 5, 16, 60])
def test_slices_tell_what_the_whole_does(monkeypatch, opset, dtype, at_once):
    made = model("y = Neg(x)", f"({dtype}[2, 3, 4, 5] x) => ({dtype}[2, 3, 4, 5] y)", opset)
    x = np.random.default_rng(0).normal(size=SIZES)
    x[0, 0, 0, 0], x[1, 0, 0, 0], x[0, 1, 1, 1] = np.inf, np.nan, 3e4
    x[1, 2, 1] = 0
    feeds = {"x": x.astype(helper.tensor_dtype_to_np_dtype(made.graph.input[0].type.tensor_type.elem_type))}
    whole, scans = told(made, feeds)
    assert (scans, whole.shape) == (0, SIZES)
    assert (whole.max_abs, whole.max_abs_unmasked < 10) == (np.float32(feeds["x"][0, 1, 1, 1]), True)
    monkeypatch.setattr(range_instrumentation, "_AT_ONCE", at_once)
    sliced, scans = told(made, feeds)
    assert (scans, sliced.shape) == (1, SIZES)
    assert (sliced.max_abs, sliced.max_abs_unmasked, sliced.min_abs) == (
        whole.max_abs,
        whole.max_abs_unmasked,
        whole.min_abs,
    )
    assert (sliced.mean_abs, sliced.mean_square) == pytest.approx((whole.mean_abs, whole.mean_square), rel=1e-5)


def test_a_tensor_of_free_sizes_is_reported_whole(monkeypatch):
    monkeypatch.setattr(range_instrumentation, "_AT_ONCE", 1)
    made = model("y = Neg(x)", "(float[N, 3] x) => (float[N, 3] y)")
    found, scans = told(made, {"x": np.full((2, 3), 2, np.float32)})
    assert (found.max_abs, found.mean_abs, found.mean_square, scans) == (2, 2, 4, 0)


def test_sizes_that_the_file_misstates_are_taken_as_they_are(monkeypatch):
    """Flatten goes by what there is: of five rows where six are stated."""
    monkeypatch.setattr(range_instrumentation, "_AT_ONCE", 3)
    made = model("y = Neg(x)", "(float[N, 3] x) => (float[N, 3] z)")
    made.graph.node.append(helper.make_node("Abs", ["y"], ["z"]))
    made.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 3]))
    found, scans = told(made, {"x": np.arange(15, dtype=np.float32).reshape(5, 3)})
    assert (found.max_abs, found.shape, found.mean_abs) == (14, (5, 3), 7)
    assert scans <= 1
