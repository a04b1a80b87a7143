"""RNN, GRU and LSTM in float64: against ONNX Runtime and onnx's evaluator, with all their settings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from tests import sampling
from tests.onnx_cases import array_of, cases_of
from tests.single_ops import by_formula, by_onnx, by_reference, by_runtime, one_node, require_same
from tests.versions import ONNX_COMPUTES_WELL

RANDOM = np.random.default_rng(0)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
OPS = tuple(GATES)
PLAIN = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")
WITH_NUMBERS = ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu")


def normal(*shape):
    """Small numbers: unbounded activations grow with each step, in float32 until nothing can be compared."""
    return RANDOM.normal(scale=0.3, size=shape).astype(np.float32)


def feeds_of(op, *, directions=1, steps=5, batch=3, inputs=4, hidden=2, absent=()):
    """All inputs of an operator by position, without those named."""
    rows = GATES[op] * hidden
    feeds = {
        "x": 3 * normal(steps, batch, inputs),
        "w": normal(directions, rows, inputs),
        "r": normal(directions, rows, hidden),
        "b": normal(directions, 2 * rows),
        "n": RANDOM.integers(1, steps + 1, size=batch).astype(np.int32),
        "h": normal(directions, batch, hidden),
    }
    if op == "LSTM":
        feeds |= {"c": normal(directions, batch, hidden), "p": normal(directions, 3 * hidden)}
    return {name: None if name in absent else array for name, array in feeds.items()}


def outputs_of(op):
    return 3 if op == "LSTM" else 2


@settings(max_examples=sampling.examples(200), deadline=None)
@given(st.sampled_from(OPS), st.sampled_from(["forward", "reverse", "bidirectional"]), st.data())
def test_any_recurrence(op, direction, data):
    directions = 2 if direction == "bidirectional" else 1
    absent = data.draw(st.sets(st.sampled_from("bnhcp")))
    attributes = {"direction": direction, "hidden_size": 2, "outputs": outputs_of(op)}
    if data.draw(st.booleans()):
        attributes["clip"] = data.draw(st.sampled_from([0.1, 0.7, 3.0]))
    if op == "GRU":
        attributes["linear_before_reset"] = data.draw(st.integers(0, 1))
    if data.draw(st.booleans()):
        count = FUNCTIONS[op] * directions
        names = data.draw(st.lists(st.sampled_from(PLAIN), min_size=count, max_size=count))
        attributes["activations"] = names
    feeds = feeds_of(op, directions=directions, steps=data.draw(st.integers(1, 4)), absent=absent)
    found = by_formula(op, feeds, **attributes)
    require_same(found, by_runtime(op, feeds, **attributes), 1e-4, 1e-4)


@pytest.mark.skipif(not ONNX_COMPUTES_WELL, reason="onnx's evaluator is too old")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_against_onnxs_evaluator(op, direction):
    """That one leaves out lengths, clip, activations other than the usual ones, and input_forget."""
    feeds = feeds_of(op, directions=2 if direction == "bidirectional" else 1, absent=("n",))
    attributes = {"direction": direction, "hidden_size": 2, "outputs": outputs_of(op)}
    require_same(by_formula(op, feeds, **attributes), by_onnx(op, feeds, **attributes), 1e-11, 1e-11)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", WITH_NUMBERS)
@pytest.mark.parametrize("numbers", ["none", "alpha", "both"])
def test_activations_with_numbers(op, name, numbers):
    """Alphas and betas go in order to the activations that take one; absent ones have defaults, unless in dispute."""
    count = FUNCTIONS[op]
    names = [name, "Tanh", name][:count]
    takers = names.count(name)
    attributes = {"activations": names, "hidden_size": 2, "outputs": outputs_of(op)}
    if numbers != "none":
        attributes["activation_alpha"] = [0.3, 0.6][:takers]
    if numbers == "both" and name in ("Affine", "ScaledTanh", "HardSigmoid"):
        attributes["activation_beta"] = [0.2, 0.4][:takers]
    feeds = feeds_of(op)
    if (name == "ScaledTanh" and numbers != "both") or (name in ("Affine", "ThresholdedRelu") and numbers == "none"):
        with pytest.raises(SessionError, match="has no alpha or beta"):
            by_formula(op, feeds, **attributes)
        return
    require_same(by_formula(op, feeds, **attributes), by_runtime(op, feeds, **attributes), 1e-4, 1e-4)


def test_coupled_gates():
    feeds = feeds_of("LSTM")
    attributes = {"input_forget": 1, "hidden_size": 2, "outputs": 3}
    require_same(by_formula("LSTM", feeds, **attributes), by_runtime("LSTM", feeds, **attributes), 1e-4, 1e-4)


@pytest.mark.parametrize("op", OPS)
def test_a_sequence_of_no_steps(op):
    feeds = feeds_of(op)
    feeds["n"] = np.array([0, 5, 2], dtype=np.int32)
    attributes = {"hidden_size": 2, "outputs": outputs_of(op)}
    require_same(by_formula(op, feeds, **attributes), by_runtime(op, feeds, **attributes), 1e-4, 1e-4)


@pytest.mark.parametrize("op", OPS)
def test_batches_first(op):
    """ONNX Runtime knows no layout 1: it is the other layout with axes moved."""
    feeds = feeds_of(op, directions=2)
    attributes = {"direction": "bidirectional", "hidden_size": 2, "outputs": outputs_of(op)}
    wanted = by_formula(op, feeds, **attributes)
    for name in "xhc":
        if name in feeds:
            feeds[name] = feeds[name].swapaxes(0, 1)
    first, *states = by_formula(op, feeds, layout=1, **attributes)
    require_same([first.transpose(1, 2, 0, 3), *(one.swapaxes(0, 1) for one in states)], wanted, 0, 0)


@pytest.mark.parametrize("op", OPS)
def test_a_nan_behind_the_end_of_a_sequence_is_not_seen(op):
    feeds = feeds_of(op)
    feeds["n"] = np.array([2, 5, 3], dtype=np.int32)
    feeds["x"][3:, 0] = np.nan
    for array in by_formula(op, feeds, hidden_size=2, outputs=outputs_of(op)):
        assert np.isfinite(array).all()


def test_what_is_refused():
    feeds = feeds_of("LSTM")
    for attributes, reason in (
        ({"direction": "bidirectional"}, "1 sets of weights do not match direction 'bidirectional'"),
        ({"activations": ["Tanh", "Nothing", "Tanh"]}, "unknown activation 'Nothing'"),
    ):
        model = one_node("LSTM", feeds, **attributes)
        with EvaluatorSession(model) as one, pytest.raises(SessionError, match=reason):
            one.run(feeds)
    feeds["n"][:] = 9
    with pytest.raises(SessionError, match="do not fit 3 sequences of at most 5 steps"):
        by_formula("LSTM", feeds, hidden_size=2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", OPS)
def test_onnxs_cases(op):
    cases = cases_of(op)
    assert cases
    for case in cases:
        given_, wanted = ([array_of(item) for item in side] for side in case.data_sets[0])
        feeds = {port.name: array for port, array in zip(case.model.graph.input, given_, strict=True)}
        with EvaluatorSession(case.model) as one:
            require_same(list(one.run(feeds).values()), wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("op", OPS)
def test_none_of_onnxs_own_is_used(op, monkeypatch):
    from onnx.reference.ops import op_gru, op_lstm, op_rnn

    for kind in (op_rnn.CommonRNN, op_gru.CommonGRU, op_lstm.CommonLSTM):
        monkeypatch.setattr(kind, "_run", None)
    feeds = feeds_of(op)
    name, answers = by_reference(op, feeds, hidden_size=2, outputs=outputs_of(op))
    assert name == "float64 under onnx's ReferenceEvaluator"
    require_same(answers, by_runtime(op, feeds, hidden_size=2, outputs=outputs_of(op)), 1e-4, 1e-4)
