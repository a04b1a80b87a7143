"""Batch normalisation at inference: what is fused, what does not match and why."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from surgeon.patterns.norms.batch_norm import batch_norm

from surgeon import rewrite
from surgeon.runtime.sessions.ort_session import OrtSession
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 3, h, w] x) => (float[n, 3, h, w] y)"
CONSTANTS = {
    "mean": "float[3, 1, 1] mean = {0.5, -1, 2}",
    "variance": "float[3, 1, 1] variance = {0.25, 1, 4}",
    "eps": "float eps = {1e-5}",
    "scale": "float[3, 1, 1] scale = {1.5, -0.5, 2}",
    "bias": "float[3, 1, 1] bias = {1, 2, 3}",
}
VECTORS = {name: text.replace("[3, 1, 1]", "[3]") for name, text in CONSTANTS.items()}
BY_HAND = "c = Sub(x, mean) e = Add(variance, eps) s = Sqrt(e) d = Div(c, s) m = Mul(d, scale) y = Add(m, bias)"
FOLDED = "c = Sub(x, mean) d = Div(c, variance) m = Mul(d, scale) y = Add(m, bias)"
HALF = " ".join(f"{name[0]} = Cast<to = 10>({name})" for name in ("scale", "bias", "mean", "variance"))
HALF += " y = BatchNormalization(x, s, b, m, v)"
OF_HALF = HEAD.replace("float", "float16")


def graph(body, head=HEAD, **changed):
    return parse(f"{head} <{', '.join({**CONSTANTS, **changed}.values())}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(batch_norm, "by hand", graph(BY_HAND)),
    Case(batch_norm, "the root folded, as torch's exporters do", graph(FOLDED)),
    Case(batch_norm, "vectors for two axes", graph(BY_HAND, HEAD.replace("n, 3, h, w", "n, 3"), **VECTORS)),
    Case(batch_norm, "constants of shape [1, 3, 1, 1]",
         graph(FOLDED, mean="float[1, 3, 1, 1] mean = {0.5, -1, 2}")),
    Case(batch_norm, "one mean for all channels", graph(BY_HAND, mean="float mean = {0.5}")),
    Case(batch_norm, "back to primitives", target="decomposed",
         model=graph("y = BatchNormalization(x, scale, bias, mean, variance)", **VECTORS)),
    Case(batch_norm, "half precision, back to primitives", target="decomposed", model=graph(HALF, OF_HALF, **VECTORS)),
]
NEGATIVES = [
    Case(batch_norm, "in training, as the statistics are outputs", why="in training mode", target="decomposed",
         model=parse('<ir_version: 7, opset_import: ["" : 13]> agraph (float[n, 3, h, w] x) => (float[n, 3, h, w] y) '
                     "<float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}> "
                     "{ y, m, v, sm, sv = BatchNormalization(x, s, b, b, s) }")),
    Case(batch_norm, "x / s * a + b has no mean", why="expected",
         model=graph("d = Div(x, variance) m = Mul(d, scale) y = Add(m, bias)")),
    Case(batch_norm, "constants along the last axis", why="along only the channels",
         model=graph(BY_HAND, HEAD.replace("h, w", "h, 3"), mean="float[3] mean = {0.5, -1, 2}")),
    Case(batch_norm, "a deviation that is not positive", why="must be positive",
         model=graph(FOLDED, variance="float[3, 1, 1] variance = {0.25, -1, 4}")),
    Case(batch_norm, "a deviation whose square is too large", why="outside the range of its dtype",
         model=graph(FOLDED, variance="float[3, 1, 1] variance = {0.25, 1, 1e30}")),
    Case(batch_norm, "a double", why="too coarse for float64",
         model=parse(f"{HEAD} <{', '.join(CONSTANTS.values())}> {{ {FOLDED} }}".replace("float", "double"))),
    Case(batch_norm, "the mean is computed", why="",
         model=graph(BY_HAND.replace("Sub(x, mean)", "Sub(x, a)").replace("c = ", "a = GlobalAveragePool(x) c = "))),
    Case(batch_norm, "the number of channels is not fixed", why="channels is not fixed",
         model=graph(BY_HAND, HEAD.replace("n, 3", "n, c"))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The rule fires, nothing else changes, and ONNX Runtime agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """No byte changes, and the report says why."""
    check_spares(case)


def test_half_precision_is_computed_in_float32():
    """As the kernel does: the mean is taken off, and divided by a small deviation, before the scale makes it small."""
    vectors = {"mean": [-5e4, 6e4, 0], "variance": [4e4, 1, 1e-6], "scale": [1, 0.5, 1e-3], "bias": [1, 2, 3]}
    constants = {name: f"float[3] {name} = {{{', '.join(map(str, values))}}}" for name, values in vectors.items()}
    before = graph(HALF, OF_HALF, **constants)
    after, _ = rewrite(before, batch_norm, target="decomposed", check="none")
    x = np.array([6e4, -6e4, 5e3], np.float16).reshape(1, 3, 1, 1)
    with OrtSession(before) as session, np.errstate(over="ignore", invalid="ignore"):
        wanted = session.run({"x": x})["y"]
        made = ReferenceEvaluator(after).run(["y"], {"x": x})[0]  # ONNX Runtime would keep float32 between its nodes
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(made, wanted, rtol=2e-3)
