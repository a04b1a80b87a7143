"""Formulas for operators that onnx's evaluator computes wrongly or not at all, against ONNX Runtime."""

import numpy as np
import onnx
import pytest

from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from tests.half_models import converted, model
from tests.single_ops import one_node

RANDOM = np.random.default_rng(0)


def drawn(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def places(end, *shape, start=0):
    return RANDOM.integers(start, end, size=shape)


PADS, ALL_AXES = np.array([0, -2, 3, 1, 2, -1]), np.array([2, 3, -1, 2])
CASES = {
    "GatherElements, many rows": ("GatherElements", [drawn(3, 100, 7), places(100, 3, 40, 7)], {"axis": 1}),
    "GatherElements, many columns": ("GatherElements", [drawn(80, 90), places(90, 80, 30)], {"axis": 1}),
    "GatherElements, from the end": ("GatherElements", [drawn(80, 9), places(80, 90, 9, start=-80)], {"axis": 0}),
    "GatherElements, fewer than there are": ("GatherElements", [drawn(80, 9), places(9, 20, 3)], {"axis": -1}),
    "GatherElements, none": ("GatherElements", [drawn(80, 9), places(9, 80, 0)], {"axis": 1}),
    "Scatter": ("Scatter", [drawn(80, 9), places(80, 1, 9), drawn(1, 9)], {"axis": 0, "opset": 10}),
    "Pad, cut": ("Pad", [drawn(5, 6, 7), PADS], {}),
    "Pad, cut, edge": ("Pad", [drawn(5, 6, 7), PADS], {"mode": "edge"}),
    "Pad, cut, reflect": ("Pad", [drawn(5, 6, 7), PADS], {"mode": "reflect"}),
    "Pad, wrap": ("Pad", [drawn(5, 6, 7), np.abs(PADS)], {"mode": "wrap"}),
    "Pad of some axes": ("Pad", [drawn(5, 6, 7), ALL_AXES, np.array(2, np.float32), np.array([-1, 0])], {}),
    "Pad by attributes": ("Pad", [drawn(5, 6)], {"pads": [1, -2, 0, 3], "value": 2.0, "opset": 10}),
    "LpNormalization of sizes": ("LpNormalization", [drawn(7, 80)], {"axis": 0, "p": 1}),
    "LpNormalization": ("LpNormalization", [drawn(7, 80)], {"axis": -1}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_formula_is_what_the_kernel_computes(case):
    op, inputs, attributes = CASES[case]
    feeds = {f"x{place}": array for place, array in enumerate(inputs)}
    made = one_node(op, feeds, **{"opset": 20, **attributes})
    with OrtSession(made) as session, EvaluatorSession(made) as evaluator:
        wanted, found = session.run(feeds)["y0"], evaluator.run(feeds)["y0"]
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


REFUSED = {
    "indices beyond the axis": ("y = GatherElements<axis = 1>(x, i)", "GatherElements 'y'"),
    "shapes that do not fit": ("s = Concat<axis = 0>(x, x) y = Add(s, x)", "Add 'y'"),
    "in a body": ("y = If(c) <then_branch = t () => (float[2, 3] p) { p = GatherElements<axis = 1>(x, i) }, "
                  "else_branch = e () => (float[2, 3] n) { n = Identity(x) }>", "GatherElements 'p'"),
    "no place in a shape": ("n = Constant<value_ints = [4, 4]>() y = Reshape(x, n)", "Reshape 'y'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_of_the_evaluator_names_the_node_and_the_evaluator(case):
    body, node = REFUSED[case]
    made = model(body, "(float[2, 3] x, int64[2, 3] i, bool c) => (float[N, M] y)", opset=18)
    feeds = {"x": drawn(2, 3), "i": np.full((2, 3), 7), "c": np.array(True)}
    with EvaluatorSession(made) as evaluator, pytest.raises(SessionError) as refused:
        evaluator.run(feeds)
    assert refused.value.message.startswith(f"onnx's ReferenceEvaluator cannot compute {node}: ")


def test_a_segment_with_a_convolution_and_a_gather_of_many_rows_is_proved():
    """ONNX Runtime has no convolution of doubles, so that onnx's evaluator runs all of the stretch."""
    body = "c = Conv(x, w) r = Reshape(c, s) b = GatherElements<axis = 2>(r, i) y = Exp(b)"
    made = model(body, "(float[1, 3, 10, 10] x, int64[1, 4, 9] i) => (float[1, 4, 9] y)",
                 weights="<int64[3] s = {1, 4, -1}>")
    made.graph.initializer.append(onnx.numpy_helper.from_array(drawn(4, 3, 3, 3) / 9, "w"))
    _, report = converted(made)
    assert report.outcome == "proved"
