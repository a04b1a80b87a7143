"""onnx's evaluator as surgeon runs it: quiet, and with a sentence for what it refuses."""

import gc
import subprocess
import sys
import weakref

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

from surgeon.runtime.sessions import oracle
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from tests.oracle_models import X, answer, model
from tests.single_ops import by_formula, by_onnx


def test_the_evaluator_is_quiet(recwarn, capfd):
    mini = model("(float[n] x) => (float[n] y, float[n] z) { y = Log(x); z = Div(x, x) }")
    with EvaluatorSession(mini) as evaluator:
        answers = evaluator.run({"x": np.array([-1, 0, np.inf], dtype=np.float32)})
    assert np.isnan(answers["z"]).tolist() == [False, True, True]
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


def test_what_the_evaluator_refuses():
    """One line each, without the wrappings of onnx's."""
    mini = model("(float[n] x, float[n] z) => (float[n] y) { y = Add(x, z) }")
    with EvaluatorSession(mini) as evaluator:
        with pytest.raises(SessionError, match="No value was given for input 'z'"):
            evaluator.run({"x": X})
        with pytest.raises(SessionError, match="could not be broadcast together"):
            evaluator.run({"x": X, "z": X[:3]})
    with pytest.raises(SessionError, match="does not have this operator") as refused:
        EvaluatorSession(model("(float[n] x) => (float[n] y) { y = trt.plugins.MyGelu(x) }"))
    assert refused.value.is_unsupported


def test_functions_in_any_order_with_defaults_and_omitted_inputs():
    """onnx's own evaluator knows neither."""
    mini = model(
        """(float[n] x) => (float[n] y) { y = my.outer(x) }
        <domain: "my", opset_import: ["" : 17, "my" : 1]> outer <beta: float = 3.0> (a) => (c)
        { c = my.inner<alpha: float = @beta>(a) }
        <domain: "my", opset_import: ["" : 17]> inner <alpha: float = 2.0> (a, most) => (c)
        { k = Constant<value_float: float = @alpha>(); b = Mul(a, k); c = Clip(b, "", most) }"""
    )
    with EvaluatorSession(mini) as evaluator:
        np.testing.assert_array_equal(evaluator.run({"x": X})["y"], 3 * X)


def test_onnxs_domain_by_its_full_name():
    text = '<ir_version: 8, opset_import: ["ai.onnx" : 17]> g (bfloat16[n] x) => (bfloat16[n] y) { y = ai.onnx.Neg(x) }'
    _, _, answers = answer(onnx.parser.parse_model(text), {"x": X.astype(ml_dtypes.bfloat16)})
    np.testing.assert_array_equal(answers["y"], -X.astype(ml_dtypes.bfloat16))


def test_an_attribute_that_onnx_takes_for_an_error_of_its_own():
    """A cast to no type: what onnx raises is none of its own errors."""
    mini = model("(float16[n] x) => (float[n] y) { y = Cast<to = 0>(x) }")
    with pytest.raises(SessionError, match="Invalid tensor data type 0"):
        oracle._require_types(mini)


def test_an_evaluator_that_is_left_is_gone():
    """Its nodes and it hold each other: weights would stay until the garbage collector comes."""
    mini = model("(float[n] x) => (float[n] y) { a = Relu(x) y = Exp(a) }")
    gc.collect()
    gc.disable()
    try:
        with EvaluatorSession(mini) as evaluator:
            evaluator.run({"x": X})
            engine = weakref.ref(evaluator._engine)
        assert engine() is None
    finally:
        gc.enable()


def test_a_function_that_hands_on_its_input_or_one_output_twice():
    """onnx's inliner forgets these."""
    calls = [onnx.helper.make_node("F", ["x"], ["a", "b", "c"], domain="my")]
    imports = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my", 1)]
    body = [onnx.helper.make_node("Neg", ["v"], ["w"])]
    function = onnx.helper.make_function("my", "F", ["v"], ["v", "w", "w"], body, imports)
    mini = model("(float[n] x) => (float[n] a, float[n] b, float[n] c) { a = Neg(x) }")
    del mini.graph.node[:], mini.opset_import[:]
    mini.graph.node.extend(calls)
    mini.opset_import.extend(imports)
    mini.functions.append(function)
    with EvaluatorSession(mini) as evaluator:
        found = evaluator.run({"x": X})
    assert all(np.array_equal(found[name], sign * X) for name, sign in (("a", 1), ("b", -1), ("c", -1)))


FLOATS = np.array([[-7.5, -0.0, 0.0, 3.25], [np.inf, -np.inf, np.nan, 1e-310]])
WHOLE = np.array([[-7, 7, -8, 9], [2**62, -(2**63), 1, 0]])
PAIRS = {
    "doubles": (FLOATS, FLOATS[:, ::-1].copy()),
    "a row": (FLOATS, FLOATS[:1]),
    "one number": (FLOATS, np.array(2.5)),
    "integers": (WHOLE, np.array([2, -3, -3, 2])),
    "integers without a sign": (WHOLE.astype(np.uint8), np.array([2, 3, 5, 7], np.uint8)),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_arithmetic_is_onnx_s_own(op, pair):
    feeds = dict(zip("ab", PAIRS[pair], strict=True))
    for ours, theirs in zip(by_formula(op, feeds), by_onnx(op, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
        assert np.array_equal(np.signbit(ours.astype(float)), np.signbit(theirs.astype(float)))


@pytest.mark.parametrize("op", ["Exp", "Neg", "Sqrt", "Tanh"])
def test_functions_of_one_number_are_onnx_s_own(op):
    (ours,), (theirs,) = by_formula(op, {"a": FLOATS}), by_onnx(op, {"a": FLOATS})
    np.testing.assert_array_equal(ours, theirs)


def test_a_region_of_arithmetic_loads_no_other_operators():
    """They are 258 modules; what tells is a process of its own, as another test may have loaded them."""
    code = """
import sys
import numpy as np
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from tests.oracle_models import model
mini = model("(float[n] x) => (float[n] y) { e = Erf(x)  a = Add(e, x)  m = Mul(a, x)  y = Div(m, a) }")
with EvaluatorSession(mini) as evaluator:
    evaluator.run({"x": np.ones(3, np.float32)})
assert "onnx.reference" in sys.modules
sys.exit("onnx.reference.ops" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_dtypes_that_do_not_fit_are_refused():
    mini = model("(float[n] x, double[n] z) => (float[n] y) { y = Add(x, z) }")
    with EvaluatorSession(mini) as evaluator, pytest.raises(SessionError, match="inputs have different dtypes"):
        evaluator.run({"x": X, "z": X.astype(float)})
