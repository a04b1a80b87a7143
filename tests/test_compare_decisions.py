"""Two models that part where made inputs hardly come: at numbers that one decides at, and in rows of tables."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.inputs.decisions import edges_of
from surgeon.models import trials
from surgeon.models.meeting import LOOKED_UP, MET
from surgeon.testing import parse
from surgeon.verdicts.result import Outcome


def model(head: str, weights: str, body: str) -> onnx.ModelProto:
    """A model from ONNX text."""
    return parse(f'<ir_version: 9, opset_import: ["": 18]> g {head} <{weights}> {{ {body} }}')


def table(rows: int = 5000, other: int | None = None, ids: str = "int64[b, s] ids") -> onnx.ModelProto:
    """An embedding, of which one row is another."""
    made = model(f"({ids}) => (float[b, s, 8] y)", "float one = {1}", "e = Gather(t, ids) y = Mul(e, one)")
    weights = np.random.default_rng(0).normal(size=(rows, 8)).astype(np.float32)
    if other is not None:
        weights[other] += 1
    made.graph.initializer.append(numpy_helper.from_array(weights, "t"))
    return made


FLOATS = "(float[n, 8] x) => (float[n, 8] y)"
WHOLE = "(int64[n, 8] x) => (int64[n, 8] y)"
PAIRS = {
    "an edge": (FLOATS, "float h = {{0.5}}, float o = {{1}}, float z = {{0}}", "c = {}(x, h) y = Where(c, o, z)",
                "Greater", "GreaterOrEqual"),
    "nearby numbers": (FLOATS, "float h = {{{}}}, float o = {{1}}, float z = {{0}}",
                       "c = Greater(x, h) y = Where(c, o, z)", "0.5", "0.501"),
    "nearby numbers behind arithmetic": (FLOATS, "float h = {{{}}}, float o = {{4}}, float z = {{0}}",
                                         "d = Div(x, o) c = Greater(d, h) y = Where(c, o, z)", "7", "7.2"),
    "bounds beyond usual values": (FLOATS, "float l = {{-9}}, float h = {{{}}}", "y = Clip(x, l, h)", "10000", "20000"),
    "a minimum": (FLOATS, "float h = {{{}}}", "y = Min(x, h)", "20000", "30000"),
    "a remainder": (WHOLE, "int64 h = {{{}}}", "y = Mod(x, h)", "100000", "200000"),
    "integers": (WHOLE, "int64 h = {{{}}}, int64 o = {{1}}, int64 z = {{0}}", "c = Less(x, h) y = Where(c, o, z)",
                 "500000", "500001"),
    "a number that a node lists": (FLOATS, "float o = {{1}}, float z = {{0}}",
                                   "h = Constant<value_float = 0.5>() c = {}(x, h) y = Where(c, o, z)",
                                   "Less", "LessOrEqual"),
    "a number that is cast": (FLOATS, "int64 h = {{3}}, float o = {{1}}, float z = {{0}}",
                              "k = Cast<to = 1>(h) c = {}(x, k) y = Where(c, o, z)", "Greater", "GreaterOrEqual"),
    "a number that a body reads": (
        "(float[n, 8] x) => (float[n, 8] y)", "float h = {{0.5}}, bool b = {{1}}",
        "y = If(b) <then_branch = t () => (float[n, 8] u) {{ c = {}(x, h) u = Cast<to = 1>(c) }}, "
        "else_branch = e () => (float[n, 8] v) {{ v = Neg(x) }}>", "Greater", "GreaterOrEqual"),
    "a padding": ("(int64[b, s] x) => (bool[b, s] y, float[b, s, 4] e)", "int64 p = {{{}}}, float[100, 4] t",
                  "y = Equal(x, p) e = Gather(t, x)", "57", "58"),
}


def pair(name: str) -> list[onnx.ModelProto]:
    """Two models that differ in one word."""
    head, weights, body, *words = PAIRS[name]
    made = [model(head, weights.format(word), body.format(word)) for word in words]
    for one in made:
        for value in [value for value in one.graph.value_info if value.name == "t"]:
            one.graph.value_info.remove(value)
            one.graph.initializer.append(numpy_helper.from_array(np.ones((100, 4), np.float32), "t"))
    return made


@pytest.mark.parametrize("name", PAIRS)
def test_numbers_that_decide_are_met(name: str) -> None:
    one, other = pair(name)
    assert surgeon.compare(one, other).outcome is Outcome.FAILED
    same = surgeon.compare(one, one)
    assert same.outcome is not Outcome.FAILED
    assert MET in same.kinds


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("float k = {0.1}, float h = {0.3}, float o = {1}, float z = {0}", "d = Mul(x, k) c = Greater(d, h)"),
        ("float k = {10}, float h = {0.3}, float o = {1}, float z = {0}", "d = Div(x, k) c = Greater(d, h)"),
    ],
)
def test_what_rounding_decides_is_not_met(one: str, other: str) -> None:
    """0.1 * x > 0.3 is x > 3 for all that anybody means by it."""
    end = "y = Where(c, o, z)"
    plain = model(FLOATS, "float h = {3}, float o = {1}, float z = {0}", f"c = Greater(x, h) {end}")
    assert surgeon.compare(model(FLOATS, one, f"{other} {end}"), plain).outcome is Outcome.PROVED


def test_all_rows_of_a_table_that_differs_are_looked_up() -> None:
    assert surgeon.compare(table(), table(other=4321)).outcome is Outcome.FAILED
    fixed = "int64[2, 100] ids"
    assert surgeon.compare(table(ids=fixed), table(other=4321, ids=fixed)).outcome is Outcome.FAILED
    assert LOOKED_UP not in surgeon.compare(table(), table()).kinds


def test_rows_that_were_not_looked_up_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = "int64[1, 3] ids"
    told = "Tables differ, and not all of their rows were looked up: 't'; give inputs of your own (--inputs)."
    found = surgeon.compare(table(ids=fixed), table(other=4321, ids=fixed))
    assert (found.outcome, found.reason) == (Outcome.UNPROVED, told)
    monkeypatch.setattr(trials, "_MOST_HELD", 1 << 10)
    assert surgeon.compare(table(), table(other=4321)).reason == told


def test_tables_of_positions_are_looked_up_to_their_end() -> None:
    """No input points at them: sequences are as long as they have rows."""
    body = "s = Shape<start = 1, end = 2>(x) n = Squeeze(s) r = Range(z, n, o) p = Gather(t, r) y = Add(x, p)"
    made = []
    for other in (None, 480):
        one = model("(float[b, s, 8] x) => (float[b, s, 8] y)", "int64 z = {0}, int64 o = {1}", body)
        one.graph.initializer.append(table(512, other).graph.initializer[-1])
        made.append(one)
    assert surgeon.compare(*made).outcome is Outcome.FAILED
    assert surgeon.compare(made[0], made[0]).outcome is Outcome.PROVED


def test_edges_are_told_apart_that_arithmetic_leads_to() -> None:
    one, _ = pair("nearby numbers behind arithmetic")
    assert edges_of(one) == [7.0, 28.0]
    assert edges_of(one, solved=False) == [7.0]
