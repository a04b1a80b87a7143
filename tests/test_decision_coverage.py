"""A proof reports the sides of decisions that no case reached, on request."""

import json

import numpy as np
import pytest
from onnx import parser

import surgeon
from surgeon import CheckOptions, Graph, Tensor, rule
from surgeon.analysis.decisions.decision_sides import decisions_of
from surgeon.testing import parse
from tests.command_line import run

ASKED = CheckOptions(coverage=True, cache=False)
NAN = np.float32(np.nan)

# A node of x, y and i, the arrays that it reads, and the sides that these reach and do not reach.
SIDES = {
    "z = Less(x, y)": ([1.0, 2.0, NAN], [1.0, 3.0, 1.0], ["a smaller first input", "equal inputs"], 1),
    "z = Equal(x, y)": ([1.0, 2.0], [1.0, 2.0], ["equal inputs"], 1),
    "z = Max(x, y)": ([1.0, 2.0], [0.0, 1.0], ["a larger first input"], 2),
    "z = Clip(x, y)": ([1.0, 2.0], 1.0, ["a number at the lower bound", "a number above the lower bound"], 1),
    "z = Round(x)": ([1.0, -1.5, NAN], None, ["an integer", "a half"], 1),
    "z = QuantizeLinear(x, y)": ([1.0, 0.3], 0.5, ["an integer", "another fraction"], 1),
    "z = Cast<to = 7>(x)": ([1.0, -2.0, np.inf], None, ["an integer"], 1),
    "z = Cast<to = 9>(x)": ([0.0, 2.0], None, ["zero", "a nonzero number"], 1),
    "z = Cast<to = 10>(x)": ([0.5], None, [], 0),
    "z = Relu(x)": ([-1.0, 0.0], None, ["a negative number", "zero"], 1),
    "z = Gather(x, i)": (None, None, ["index 0", "a larger index"], 1),
    "z = OneHot(i, d, x)": ([0.0, 1.0], None, ["an index within the bound", "an index beyond the bound"], 1),
    "z = Where(b, x, y)": ([0.0, 1.0], [1.0, 2.0], ["a true condition"], 1),
    "z = Neg(x)": ([0.5], None, [], 0),
    "z = Trilu(x)": ([0.5], None, [], 0),
}


@pytest.mark.parametrize("node", SIDES)
def test_the_sides_that_numbers_reach(node):
    x, y, expected, missing = SIDES[node]
    graph = parser.parse_graph(
        f"g (float[n] x, float[n] y, int64[k] i, bool[n] b, int64 d) => (float[n] z) {{ {node} }}"
    )
    arrays = {"i": np.array([0, 2]), "d": np.array(2), "b": np.array([True, True])}
    arrays |= {name: np.array(values, np.float32) for name, values in (("x", x), ("y", y)) if values is not None}
    found = [one.sides(*(arrays[name] for name in one.reads)) for one in decisions_of(graph)]
    sides = {side: is_reached for one in found for side, is_reached in one.items()}
    assert [side for side, is_reached in sides.items() if is_reached] == expected
    assert len(sides) - len(expected) == missing


def test_decisions_on_constants_are_left_out():
    graph = parser.parse_graph(
        "g (float[n] x) => (float[n] y) <int64[1] i = {0}> "
        "{ c = Constant<value_int = 1>() d = Cast<to = 9>(c) y = Gather(x, i) }"
    )
    assert decisions_of(graph) == []


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def once(g: Graph, x: Tensor) -> Tensor:
    return g.relu(x)


@rule(patterns=[lambda g, x: g.where(g.greater(g.add(g.abs(x), 1.0), 0.5), x, 0.0)])
def always(g: Graph, x: Tensor) -> Tensor:
    """Right: no number and its absolute value more than a half apart are less than a half."""
    return g.where(g.greater_or_equal(g.abs(x), 0.0), x, 0.0)


ALWAYS = """(float[n] {x}) => (float[n] {y}) <float one = {{1.0}}, float half = {{0.5}}, float zero = {{0.0}}>
    {{ {a} = Abs({x}) {s} = Add({a}, one) {c} = Greater({s}, half) {y} = Where({c}, {x}, zero) }}"""
NAMES = dict(zip("xyasc", "xyasc", strict=True))
UNSEEN = ("Greater at '{c}': no case has a smaller first input or equal inputs",)


def proof_of(names, **options):
    _, report = surgeon.rewrite(parse(ALWAYS.format(**names)), always, options=CheckOptions(**options))
    (proof,) = report.proofs
    return proof


def test_a_site_says_which_side_no_case_reached():
    """NaN is greater than nothing, so that the condition has both values."""
    proof = proof_of(NAMES, coverage=True, cache=False)
    assert proof.unseen == tuple(text.format(**NAMES) for text in UNSEEN)
    assert proof.to_dict()["unseen"] == list(proof.unseen)


def test_coverage_changes_no_outcome_and_no_case():
    plain, covered = (proof_of(NAMES, coverage=coverage, cache=False) for coverage in (False, True))
    assert plain.unseen == ()
    assert "unseen" not in plain.to_dict()
    assert (plain.outcome, plain.runs, plain.kinds, plain.sizes) == (
        covered.outcome,
        covered.runs,
        covered.kinds,
        covered.sizes,
    )


def test_a_failed_site_reports_none():
    """Its proof ends at the first failure."""

    @rule(patterns=[lambda g, x: g.relu(g.relu(x))])
    def doubled(g: Graph, x: Tensor) -> Tensor:
        return g.mul(g.relu(x), 2.0)

    model = parse("(float[n] x) => (float[n] y) { a = Relu(x) y = Relu(a) }")
    _, report = surgeon.rewrite(model, doubled, keep_going=True, options=ASKED)
    assert report.rolled_back[0].proof.unseen == ()


def test_a_remembered_proof_has_its_coverage_under_other_names(tmp_path, monkeypatch):
    """And one without coverage does not count for one with it."""
    monkeypatch.setenv("SURGEON_CACHE", str(tmp_path))
    assert not proof_of(NAMES).remembered
    assert not proof_of(NAMES, coverage=True).remembered
    others = {name: f"other_{name}" for name in NAMES}
    again = proof_of(others, coverage=True)
    assert again.remembered
    assert again.unseen == tuple(text.format(**others) for text in UNSEEN)


def test_the_command_prints_what_no_case_reached(tmp_path):
    (tmp_path / "m.onnx").write_bytes(
        parse("(float[n] x) => (float[n] y) { a = Relu(x) y = Relu(a) }").SerializeToString()
    )
    (tmp_path / "once.py").write_text(
        "from surgeon import rule\n\n"
        "@rule(patterns=[lambda g, x: g.relu(g.relu(x))])\ndef once(g, x):\n    return g.relu(x)\n"
    )
    args = (
        "rewrite",
        str(tmp_path / "m.onnx"),
        str(tmp_path / "o.onnx"),
        "--rules",
        str(tmp_path / "once.py"),
        "--force",
    )
    unseen = "Relu at 'y': no case has a negative number"
    assert unseen in run(*args, "--coverage", "-v").stdout
    assert "no case has" not in run(*args, "-v").stdout
    found = json.loads(run(*args, "--coverage", "--json").stdout)
    assert found["results"][0]["result"]["proofs"][0]["unseen"] == [unseen]
