"""Long sums: another order of addition passes, a formula that cancels does not."""

import numpy as np
import pytest
from onnx import numpy_helper

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.tensor_judge import judge_tensor
from surgeon.testing import parse


def norm_of_a_sum(width):
    """LayerNorm(x + z) over a last axis of this width."""
    made = parse(
        f"""<ir_version: 9, opset_import: ["" : 17]> agraph (float[n, s, {width}] x, float[n, s, {width}] z)
        => (float[n, s, {width}] y) {{ t = Add(x, z) y = LayerNormalization<epsilon = 1e-5>(t, w, w) }}"""
    )
    weights = np.random.default_rng(0).uniform(0.5, 1.5, width).astype(np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return made


@pytest.mark.parametrize("width", [256, 768, 1024, 4096])
def test_a_sum_in_another_order_passes(width):
    """ONNX Runtime's SkipLayerNormalization adds a row up one element after the other, also far from zero."""
    _, report = surgeon.rewrite(norm_of_a_sum(width), "skip_layer_norm")
    assert report.count("skip_layer_norm") == 1
    assert report.outcome == "proved"


@pytest.mark.parametrize("width", [64, 768, 4096])
def test_a_variance_that_cancels_fails(width):
    """The mean of squares less the square of the mean loses all digits far from zero, however long the sum is."""

    overflow = {"extreme": "squares overflow"}

    @rule(patterns=[lambda g, x, w: g.layer_normalization(x, w, w, axis=-1, epsilon=1e-5)], differs=overflow)
    def in_one_pass(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        mean = g.reduce_mean(x, axes=[-1])
        variance = g.sub(g.reduce_mean(g.mul(x, x), axes=[-1]), g.mul(mean, mean))
        normal = g.div(g.sub(x, mean), g.sqrt(g.add(g.relu(variance), 1e-5)))
        return g.add(g.mul(normal, w), w)

    with pytest.raises(surgeon.CheckFailed, match="statistics of rows"):
        surgeon.rewrite(norm_of_a_sum(width), in_one_pass)


@pytest.mark.parametrize(("dtype", "error", "terms", "ok"), [
    (np.float32, 10.0, 1, False),
    (np.float32, 10.0, 64, False),
    (np.float32, 10.0, 144, True),
    (np.float64, 10.0, 144, True),
    (np.float16, 10.0, 144, False),
])  # fmt: skip
def test_what_a_sum_may_err_by(dtype, error, terms, ok):
    """The square root of the number of terms, in what one unit in the last place of each moves; not in half."""
    right = np.array([1.0, 2.0])
    moved = 0.25 if dtype is np.float16 else 1e-3
    original, rewritten = right.astype(dtype), (right + error * moved).astype(dtype)
    assert judge_tensor("y", original, rewritten, right, moved, JudgeSettings(original.dtype, terms=terms)).ok == ok
