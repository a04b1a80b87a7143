"""Two models that part where made inputs hardly come: at numbers that one decides at, and in rows of tables."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon import CheckFailed, Graph, Tensor
from surgeon.analysis.decisions.thresholds import edges_of, find_thresholds
from surgeon.edits import Edit, ModelDraft
from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.proof.check_result import Outcome
from surgeon.proof.model import model_region
from surgeon.proof.model.distinguishing_inputs import DistinguishingInputs
from surgeon.proof.model.model_check import ModelCheck
from surgeon.testing import parse


def model(head: str, weights: str, body: str) -> onnx.ModelProto:
    """A model from ONNX text."""
    return parse(f'<ir_version: 9, opset_import: ["": 18, "ai.onnx.ml": 3]> g {head} <{weights}> {{ {body} }}')


def table(rows: int = 5000, other: int | None = None, ids: str = "int64[b, s] ids") -> onnx.ModelProto:
    """An embedding, of which one row is another."""
    made = model(f"({ids}) => (float[b, s, 8] y)", "float one = {1}", "e = Gather(t, ids) y = Mul(e, one)")
    weights = np.random.default_rng(0).normal(size=(rows, 8)).astype(np.float32)
    if other is not None:
        weights[other] += 1
    made.graph.initializer.append(numpy_helper.from_array(weights, "t"))
    return made


@dataclass(frozen=True)
class Become(Edit):
    """Compute what another model does."""

    other: bytes

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        draft.skeleton.graph.CopyFrom(onnx.load_from_string(self.other).graph)
        return ("another model",)


def over(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """x > y."""
    return g.greater(x, y)


@surgeon.rule(patterns=[over], target="any")
def loose(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Let equal ones pass too."""
    return g.greater_or_equal(x, y)


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
    "an edge behind arithmetic": (FLOATS, "float f = {{4}}, float t = {{3}}, float o = {{1}}, float z = {{0}}",
                                  "a = Div(x, f) b = Sub(a, t) c = {}(b, o) y = Where(c, o, z)",
                                  "Greater", "GreaterOrEqual"),
    "an edge behind arithmetic that rounds": (
        FLOATS, "float f = {{0.1}}, float t = {{0.3}}, float o = {{1}}, float z = {{0}}",
        "a = Mul(x, f) c = {}(a, t) y = Where(c, o, z)", "Less", "LessOrEqual"),
    "an edge behind a constant that something is taken from": (
        FLOATS, "float f = {{2}}, float t = {{0.25}}, float o = {{1}}, float z = {{0}}",
        "a = Sub(f, x) c = {}(a, t) y = Where(c, o, z)", "Less", "LessOrEqual"),
    "an edge behind a constant for each column": (
        FLOATS, "float[8] f = {{1, 2, 4, 8, 0.5, 0.25, 16, 32}}, float t = {{3}}, float o = {{1}}, float z = {{0}}",
        "a = Mul(x, f) c = {}(a, t) y = Where(c, o, z)", "Greater", "GreaterOrEqual"),
    "an edge of pictures": (
        "(uint8[n, 3, 8, 8] x) => (bool[n, 3, 8, 8] y)", "float f = {{255}}, float t = {{0.2}}",
        "i = Cast<to = 1>(x) a = Div(i, f) y = {}(a, t)", "Greater", "GreaterOrEqual"),
    "an edge in half precision": (
        "(float16[n, 8] x) => (bool[n, 8] y)", "float u = {{4}}, float v = {{3}}, float w = {{1}}",
        "f = Cast<to = 10>(u) t = Cast<to = 10>(v) o = Cast<to = 10>(w) a = Div(x, f) b = Sub(a, t) y = {}(b, o)",
        "Greater", "GreaterOrEqual"),
    "an edge of one column": (
        "(float[n, 8] x) => (bool[n, 1] y)", "float f = {{5}}, float t = {{15}}, int64[1] i = {{4}}",
        "q = Gather<axis = 1>(x, i) a = Mul(q, f) y = {}(a, t)", "Greater", "GreaterOrEqual"),
    "both edges of what has no sign": (
        "(float[n, 8] x) => (bool[n, 8] y)", "float f = {{3}}, float t = {{2}}",
        "d = Sub(x, f) a = Abs(d) e = {}(a, t) l = Less(x, f) y = And(e, l)", "Greater", "GreaterOrEqual"),
    "edges of a tree": (
        "(float[n, 2] x) => (float[n, 1] y)", "float z = {{0}}",
        "y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, nodes_falsenodeids = [2, 0, 4, 0, 0], "
        "nodes_featureids = [0, 0, 1, 0, 0], nodes_missing_value_tracks_true = [0, 0, 0, 0, 0], "
        'nodes_modes = ["BRANCH_LEQ", "LEAF", "{}", "LEAF", "LEAF"], nodes_nodeids = [0, 1, 2, 3, 4], '
        "nodes_treeids = [0, 0, 0, 0, 0], nodes_truenodeids = [1, 0, 3, 0, 0], "
        "nodes_values = [-2.5, 0.0, 0.25, 0.0, 0.0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], "
        "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 3.0]>(x)", "BRANCH_LEQ", "BRANCH_LT"),
    "an edge that a node tells": (FLOATS, "float z = {{0}}", "y = Shrink<lambd = {}>(x)", "1.5", "1.50001"),
    "one edge behind many": (
        "(float[n, 8] x) => (bool[n, 8, 20] w, bool[n, 8] y)",
        "float[20] s = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}}, int64[1] l = {{-1}}, "
        "float f = {{4}}, float o = {{101}}",
        "u = Unsqueeze(x, l) w = Greater(u, s) a = Mul(x, f) y = {}(a, o)", "Greater", "GreaterOrEqual"),
    "halves that are rounded": (FLOATS, "float h = {{0.5}}", "{}", "y = Round(x)", "a = Add(x, h) y = Floor(a)"),
    "halves behind a product": (FLOATS, "float h = {{0.5}}, float k = {{4}}", "b = Mul(x, k) {}", "y = Round(b)",
                                "a = Add(b, h) y = Floor(a)"),
    "whole numbers": (FLOATS, "float h = {{0.3}}, float o = {{1}}", "b = Add(x, h) {}", "y = Ceil(b)",
                      "f = Floor(b) y = Add(f, o)"),
    "whole numbers that are cast": (
        "(float[n, 8] x) => (int64[n, 8] y)", "float h = {{0.5}}, float o = {{1}}", "r = Abs(x) a = Add(r, h) {}",
        "y = Cast<to = 7>(a)", "c = Ceil(a) d = Sub(c, o) y = Cast<to = 7>(d)"),
    "quantized halves": (
        "(float[n, 8] x) => (int8[n, 8] y)",
        "float s = {{0.1}}, int8 z = {{0}}, float h = {{0.5}}, float l = {{-128}}, float u = {{127}}",
        "{}", "y = QuantizeLinear(x, s, z)",
        "a = Div(x, s) b = Add(a, h) c = Floor(b) d = Clip(c, l, u) y = Cast<to = 3>(d)"),
    "the first and the last of equal floats": (
        "(float[n, 8] x) => (int64[n] y)", "float k = {{0.3}}",
        "r = Mul(x, k) y = ArgMax<axis = 1, keepdims = 0, select_last_index = {}>(r)", "0", "1"),
    "the largest ones": ("(float[n, 8] x) => (float[n, 8] y)", "int64[1] a = {{1}}", "{}", "y = Hardmax(x)",
                         "m = ReduceMax(x, a) c = Equal(x, m) y = Cast<to = 1>(c)"),
    "equal floats of two inputs": (
        "(float[n, 8] x, float[n, 8] u) => (bool[n, 8] y)", "float z = {{0}}", "y = {}(x, u)", "Less", "LessOrEqual"),
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
    assert "numbers that decide" in same.kinds


@pytest.mark.parametrize(
    ("weights", "one", "other"),
    [
        ("float k = {0.1}, float h = {0.3}, float t = {3}", "d = Mul(x, k) y = Greater(d, h)", "y = Greater(x, t)"),
        ("float k = {10}, float h = {0.3}, float t = {3}", "d = Div(x, k) y = Greater(d, h)", "y = Greater(x, t)"),
        (  # 0.3, of which float16 makes 0.30004883
            "float h = {0.3}, float16 t = {13517}",
            "y = Greater(x, h)",
            "a = Cast<to = 10>(x) y = Greater(a, t)",
        ),
        ("float k = {4.2}, float h = {8.65}, float t = {12.85}", "d = Sub(x, k) y = Less(d, h)", "y = Less(x, t)"),
        (
            "float m = {0.485}, float s = {0.229}, float k = {4.3668122}, float l = {2.1179039}, float h = {0.7}",
            "a = Sub(x, m) b = Div(a, s) y = LessOrEqual(b, h)",
            "a = Mul(x, k) b = Sub(a, l) y = LessOrEqual(b, h)",
        ),
        ("float k = {0.3}, float t = {3.3333333}", "a = Div(x, k) y = Round(a)", "a = Mul(x, t) y = Round(a)"),
        ("float k = {0.3}, float t = {3.3333333}", "a = Div(x, k) y = Floor(a)", "a = Mul(x, t) y = Floor(a)"),
        (
            "float k = {0.37}, float h = {0.6}, float t = {0.222}",
            "a = Mul(x, k) b = Mul(a, h) y = ArgMax<axis = 1>(b)",
            "a = Mul(x, t) y = ArgMax<axis = 1>(a)",
        ),
        (
            "float[8] b = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, float k = {3}, "
            "float[8] t = {0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4}",
            "a = Add(x, b) c = Mul(a, k) y = ArgMax<axis = 1>(c)",
            "a = Mul(x, k) c = Add(a, t) y = ArgMax<axis = 1>(c)",
        ),
        (  # what one column decides at lies beside that at which others do
            "float[3] s = {2, 7.6, 1}, float[3] m = {4.2, 2, 0.2}, float[3] t = {2.1, 0.2631579, 0.2}",
            "a = Sub(x, m) b = Div(a, s) y = Round(b)",
            "a = Div(x, s) b = Sub(a, t) y = Round(b)",
        ),
        (
            "int64[1] a = {1}, float k = {8}",
            "m = ReduceMean(x, a) y = ArgMax<axis = 0>(m)",
            "s = ReduceSum(x, a) m = Div(s, k) y = ArgMax<axis = 0>(m)",
        ),
    ],
)
def test_what_rounding_decides_is_not_met(weights: str, one: str, other: str) -> None:
    """0.1 * x > 0.3 is x > 3 for all that anybody means by it."""
    kind = "int64" if "ArgMax" in one else "float" if "Round" in one or "Floor" in one else "bool"
    columns = 3 if "[3]" in weights else 8
    models = [model(f"(float[n, {columns}] x) => ({kind}[n, k] y)", weights, body) for body in (one, other)]
    assert surgeon.compare(*models).outcome is Outcome.PROVED
    assert surgeon.compare(*models[::-1]).outcome is Outcome.PROVED


@pytest.mark.parametrize("name", ["an edge behind arithmetic", "halves that are rounded"])
def test_rewrites_and_edits_meet_them_too(name: str) -> None:
    one, other = pair(name)
    assert ModelCheck(one, one).check(other).outcome is Outcome.FAILED
    with pytest.raises(CheckFailed, match="The edited model differs from the original: Output 'y' differs"):
        surgeon.edit(one, Become(other.SerializeToString()))
    assert surgeon.edit(one, Become(one.SerializeToString()))[1].outcome == "proved"


def test_rules_that_are_wrong_at_an_edge_are_rolled_back() -> None:
    one, _ = pair("an edge behind arithmetic")
    with pytest.raises(CheckFailed, match="1 of 1 site was rolled back"):
        surgeon.rewrite(one, loose, check="model")


def test_rewrites_and_edits_look_up_all_rows_that_differ() -> None:
    assert ModelCheck(table(), table()).check(table(other=4321)).outcome is Outcome.FAILED


def test_what_parts_by_rounding_alone_at_such_numbers_is_exempt() -> None:
    """Sin(300 x) hangs on the last bit of x there too, which no decision does beside its edge."""
    body = "a = Mul(x, {}) b = Mul(a, {}) c = Greater(x, h) y = Where(c, b, x) s = Sin(b)"
    head = "(float[n, 8] x) => (float[n, 8] y, float[n, 8] s)"
    weights = "float h = {300}, float k = {3.7}, float l = {81.3}, float m = {300.81}, float o = {1}"
    made = [model(head, weights, body.format(*names)) for names in ("kl", "mo")]
    assert surgeon.compare(*made).outcome is Outcome.PROVED
    other = model(head, weights, body.format(*"mo").replace("Greater", "GreaterOrEqual"))
    assert surgeon.compare(made[0], other).outcome is Outcome.FAILED


def test_all_rows_of_a_table_that_differs_are_looked_up() -> None:
    assert surgeon.compare(table(), table(other=4321)).outcome is Outcome.FAILED
    fixed = "int64[2, 100] ids"
    assert surgeon.compare(table(ids=fixed), table(other=4321, ids=fixed)).outcome is Outcome.FAILED
    assert "all rows of tables" not in surgeon.compare(table(), table()).kinds


def test_rows_that_were_not_looked_up_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = "int64[1, 3] ids"
    message = "Tables differ, but the inputs do not reach all of their rows: 't'. Give real data with --inputs."
    found = surgeon.compare(table(ids=fixed), table(other=4321, ids=fixed))
    assert (found.outcome, found.reason) == (Outcome.UNPROVED, message)
    monkeypatch.setattr(model_region, "HELD_BYTES", 1 << 10)
    assert surgeon.compare(table(), table(other=4321)).reason == message


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


def test_edges_are_reported_apart_that_arithmetic_leads_to() -> None:
    one, _ = pair("nearby numbers behind arithmetic")
    assert edges_of(Index.over(one)) == [7.0, 28.0]
    [boundary] = find_thresholds(Index.over(one))
    assert boundary.solutions().tolist() == [28.0]
    assert (boundary.is_model_input, boundary.is_plain, boundary.meets_exactly(np.array([28.0])).all()) == (
        True,
        False,
        True,
    )


def test_numbers_are_solved_and_run_forwards_again() -> None:
    """What 0.1 * x rounds to 0.3 is a number and, maybe, those beside it; of 0.7 * x = 0.21 there is none."""
    for factor, wanted in ((0.1, 0.3), (0.7, 0.21), (3.3, 12.1)):
        made = model(FLOATS, f"float k = {{{factor}}}, float h = {{{wanted}}}", "a = Mul(x, k) y = Greater(a, h)")
        [boundary] = find_thresholds(Index.over(made))
        near = np.float32(wanted / factor) * (1 + np.arange(-64, 65, dtype=np.float32) * np.float32(2.0**-24))
        expected = {float(number) for number in near if np.float32(factor) * number == np.float32(wanted)}
        assert set(boundary.solutions().tolist()) == expected


def test_elsewhere_nothing_is_met_that_roundings_lead_to() -> None:
    """Another runtime may compute more than one node at once."""
    for name, exactly, met in (
        ("an edge behind arithmetic", True, True),
        ("an edge behind arithmetic that rounds", False, True),
        ("an edge behind arithmetic that rounds", True, False),
    ):
        with Model.open(pair(name)[0]) as one, Model.open(pair(name)[1]) as other:
            assert bool(DistinguishingInputs.of(one, other, exactly=exactly).floats[0]) == met


def test_what_products_of_matrices_lead_to_is_left_alone() -> None:
    made = model(FLOATS, "float f = {4}, float o = {28}", "m = MatMul(x, x) a = Div(m, f) y = Greater(a, o)")
    [boundary] = find_thresholds(Index.over(made))
    assert not boundary.is_model_input
