"""Mask sentinels, and scores that are as low as a sentinel."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.attention._emit_ort import DIFFERS

import surgeon
from surgeon.testing import parse

RULES = ["cleanup", "multiplicative_mask", "masked_attention", "causal_attention", "packed_qkv_attention"]
HIDDEN = "masked = Where(mask, scaled, fill)"
SHOWN = "m = Cast<to = 1>(mask) shown = Mul(scaled, m) rest = Sub(one, m) low = Mul(rest, fill)"
ADDED = f"{SHOWN} masked = Add(low, shown)"
TAKEN = f"{SHOWN.replace('low =', 'far =')} low = Neg(far) masked = Sub(shown, low)"


def decoder(fill, hidden=HIDDEN):
    """One causal attention of two heads behind a projection, whose scores grow with the square of its input."""
    made = parse(f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[b, n, 8] x) => (float[b, n, 8] y)
        <float scale = {{0.5}}, int64[4] heads = {{0, 0, 2, 4}}, int64[3] rows = {{0, 0, 8}},
        int64[3] parts = {{8, 8, 8}}, int64 two = {{2}}, int64[1] first = {{0}}, float zero = {{0}},
        float fill = {{{fill}}}, float one = {{1}}> {{
        p = MatMul(x, w) q0, k0, v0 = Split<axis = -1>(p, parts) q1 = Reshape(q0, heads) k1 = Reshape(k0, heads)
        v1 = Reshape(v0, heads) q = Transpose<perm = [0, 2, 1, 3]>(q1) k = Transpose<perm = [0, 2, 3, 1]>(k1)
        v = Transpose<perm = [0, 2, 1, 3]>(v1) scores = MatMul(q, k) scaled = Mul(scores, scale) sizes = Shape(scaled)
        n = Gather(sizes, two) n1 = Unsqueeze(n, first) square = Concat<axis = 0>(n1, n1)
        ones = ConstantOfShape<value = float[1] {{1}}>(square) below = Trilu<upper = 0>(ones)
        mask = Cast<to = 9>(below) {hidden} weights = Softmax<axis = -1>(masked) o = MatMul(weights, v)
        t = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(t, rows) }}""")
    weights = np.random.default_rng(3).normal(0, 0.4, (8, 24)).astype(np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return made


@pytest.mark.parametrize("hidden", [HIDDEN, ADDED, TAKEN], ids=["chosen", "added", "subtracted"])
@pytest.mark.parametrize("fill", ["-1e4", "-10001", "-12345", "-65504", "-1e9"])
def test_a_row_of_scores_below_the_fill_does_not_count(fill, hidden):
    """Large inputs make scores of −1e5, beside which the original gives weight to what −1e4 hides."""
    made, report = surgeon.rewrite(decoder(fill, hidden), RULES)
    assert report.outcome == "proved"
    assert "Attention" in [node.op_type for node in made.graph.node]


@pytest.mark.parametrize(
    "hides", [HIDDEN.replace("fill", "zero"), HIDDEN.replace("fill", "scaled"), "masked = Where(mask, fill, scaled)"]
)
def test_scores_above_the_fill_count(hides):
    """A rule that hides what the original shows fails, whatever the fill is."""

    @surgeon.rule(patterns=[lambda g, c, x, f: g.softmax(g.where(c, x, f), axis=-1)], target="any", differs=DIFFERS)
    def causal(g, c, x, f):
        return g.softmax(g.add(x, g.where(c, 0.0, -1e4)), axis=-1)

    with pytest.raises(surgeon.CheckFailed):
        surgeon.rewrite(decoder("-1e4", hides), causal)


WRONG = {  # what is shown
    "all scores": lambda g, m, x: np.array(True),
    "the other scores": lambda g, m, x: g.not_(g.cast(m, to=bool)),
    "scores that are not zero": lambda g, m, x: g.not_(g.equal(x, 0.0)),
}


@pytest.mark.parametrize("shown", WRONG.values(), ids=WRONG)
def test_multiplied_scores_above_the_fill_count(shown):
    """A rule that hides others than those that are multiplied with zero fails."""

    def multiplied(g, m, x, f):
        return g.softmax(g.add(g.mul(g.sub(1.0, m), f), g.mul(x, m)), axis=-1)

    @surgeon.rule(patterns=[multiplied], target="any", differs=DIFFERS)
    def hiding(g, m, x, f):
        return g.softmax(g.where(shown(g, m, x), x, f), axis=-1)

    with pytest.raises(surgeon.CheckFailed):
        surgeon.rewrite(decoder("-1e4", ADDED), hiding)
