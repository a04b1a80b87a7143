"""Rules that are right only under an assumption: proved with it, and failed without it."""


import numpy as np
import pytest

import surgeon
from surgeon import CheckOptions, Graph, Tensor, require, rule
from surgeon.analysis.assumptions.assumed_facts import AssumedFacts, cast_fact, follows
from surgeon.analysis.assumptions.assumption import Assumption
from surgeon.analysis.assumptions.model_assumptions import declare
from surgeon.authoring.rule_proof.prover import prove_rule
from surgeon.ir.index import Index
from surgeon.proof.site import worker_proofs
from surgeon.testing import Case, check_fires, check_spares, parse


def itself(g: Graph, x: Tensor) -> Tensor:
    return x


def as_boolean(g: Graph, x: Tensor) -> Tensor:
    return g.cast(x, to=np.bool_)


def clipped(g: Graph, x: Tensor) -> Tensor:
    return g.clip(x, 0.0, 1.0)


def limited(g: Graph, x: Tensor) -> Tensor:
    return g.clip(x, 0, 31999)


def without_nan(g: Graph, x: Tensor) -> Tensor:
    return g.where(g.isnan(x), 0.0, x)


def without_zero(g: Graph, x: Tensor) -> Tensor:
    return g.where(g.equal(x, 0.0), 1.0, x)


def largest(g: Graph, x: Tensor) -> Tensor:
    return g.reduce_max(x, keepdims=0, axes=[-1])


def first(g: Graph, x: Tensor) -> Tensor:
    return g.gather(x, 0, axis=1)


def last(g: Graph, x: Tensor) -> Tensor:
    return g.gather(x, -1, axis=1)


def hidden(g: Graph, x: Tensor) -> Tensor:
    return g.equal(x, 0)


def nothing_hidden(g: Graph, x: Tensor) -> Tensor:
    return g.not_(g.equal(x, x))


RIGHT_UNDER = {
    "0..1": (clipped, itself, "float[n, 4] x", "float[n, 4] y", "y = Clip(x, zero, one)"),
    "0..31999": (limited, itself, "int64[n, s] x", "int64[n, s] y", "y = Clip(x, none, most)"),
    "finite": (without_nan, itself, "float[n, 4] x", "float[n, 4] y", "a = IsNaN(x)  y = Where(a, zero, x)"),
    "nonzero": (without_zero, itself, "float[n, 4] x", "float[n, 4] y", "a = Equal(x, zero)  y = Where(a, one, x)"),
    "sorted": (largest, last, "float[n, s] x", "float[n] y", "y = ReduceMax<axes=[-1], keepdims=0>(x)"),
    "left-padded": (largest, last, "int64[n, s] x", "int64[n] y", "y = ReduceMax<axes=[-1], keepdims=0>(x)"),
    "right-padded": (largest, first, "int64[n, s] x", "int64[n] y", "y = ReduceMax<axes=[-1], keepdims=0>(x)"),
    "no padding": (hidden, nothing_hidden, "int64[n, s] x", "bool[n, s] y", "y = Equal(x, none)"),
}
CONSTANTS = "float zero = {0}, float one = {1}, int64 none = {0}, int64 most = {31999}"


def rewritten(words, pattern, replacement, model, *, conditions=(), **options):
    """The model and the report of a rewrite by a rule of this pattern and replacement."""

    def made(g: Graph, x: Tensor) -> Tensor:
        """A rule of this test."""
        return replacement(g, x)

    one = rule(patterns=[pattern], conditions=list(conditions), target="any", name="one")(made)
    given = CheckOptions(assume={"x": words} if words else {}, **options)
    return surgeon.rewrite(model, one, keep_going=True, options=given)


def model_of(words):
    pattern, replacement, given, made, nodes = RIGHT_UNDER[words]
    return pattern, replacement, parse(f"({given}) => ({made}) <{CONSTANTS}> {{ {nodes} }}")


@pytest.mark.parametrize("words", RIGHT_UNDER)
def test_a_rule_is_proved_only_under_its_assumption(words):
    pattern, replacement, model = model_of(words)
    after, report = rewritten(words, pattern, replacement, model)
    assert report.outcome == "proved", report.doubts
    assert report.assumptions == (f"x: {words}",)
    assert report.to_dict()["assumptions"] == [f"x: {words}"]
    assert [(item.key, item.value) for item in after.metadata_props] == [("surgeon.assume.x", words)]
    _, report = rewritten("", pattern, replacement, model)
    assert report.outcome == "failed"
    assert "assumptions" not in report.to_dict()


@pytest.mark.parametrize("words", RIGHT_UNDER)
def test_conditions_ask_for_assumptions(words):
    pattern, replacement, model = model_of(words)

    def is_assumed(x: Tensor) -> None:
        require(x.holds(words), f"x may not be {words}")

    _, report = rewritten(words, pattern, replacement, model, conditions=[is_assumed])
    assert (report.count("one"), report.outcome) == (1, "proved")
    _, report = rewritten("", pattern, replacement, model, conditions=[is_assumed])
    assert report.count("one") == 0
    assert report.misses[0].reason.startswith(f"x may not be {words}")
    assert report.misses[0].change == f"if your inputs obey it, add --assume 'x: {words}'"


def at_most(g: Graph, x: Tensor) -> Tensor:
    return g.min(x, 0.99)


def at_least(g: Graph, x: Tensor) -> Tensor:
    return g.max(x, 101.0)


def remainder(g: Graph, x: Tensor) -> Tensor:
    return g.mod(x, 32000)


def over_itself(g: Graph, x: Tensor) -> Tensor:
    return g.div(x, x)


def ones_alike(g: Graph, x: Tensor) -> Tensor:
    return g.add(g.mul(g.cast(g.isnan(x), to=np.float32), 0.0), 1.0)


def place_of_largest(g: Graph, x: Tensor) -> Tensor:
    return g.arg_max(x, axis=-1, keepdims=0)


def last_place_of_largest(g: Graph, x: Tensor) -> Tensor:
    return g.arg_max(x, axis=-1, keepdims=0, select_last_index=1)


NUMBERS, WHOLE = "(float[n, 4] x) => (float[n, 4] y)", "(int64[n, s] x) => (int64[n, s] y)"
STILL_WRONG = [
    ("0..1", "0..0.98", at_most, itself, f"{NUMBERS} <float c = {{0.99}}> {{ y = Min(x, c) }}"),
    ("100..1000", "101..1000", at_least, itself, f"{NUMBERS} <float c = {{101}}> {{ y = Max(x, c) }}"),
    ("0..32000", "0..31999", remainder, itself, f"{WHOLE} <int64 c = {{32000}}> {{ y = Mod(x, c) }}"),
    ("nonzero", "nonzero, finite", over_itself, ones_alike, f"{NUMBERS} {{ y = Div(x, x) }}"),
]


@pytest.mark.parametrize(
    ("words", "enough", "pattern", "replacement", "text"), STILL_WRONG, ids=[row[0] for row in STILL_WRONG]
)
def test_inputs_that_obey_still_find_mistakes(words, enough, pattern, replacement, text):
    """At an end of the range, at one number in the middle of it, and at special numbers that the words allow."""
    assert rewritten(words, pattern, replacement, parse(text))[1].outcome == "failed"
    assert rewritten(enough, pattern, replacement, parse(text))[1].outcome == "proved"


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("right-padded", (hidden, nothing_hidden)),
        ("left-padded", (largest, first)),
        ("right-padded", (largest, last)),
        ("sorted", (place_of_largest, last_place_of_largest)),  # equal elements
    ],
)
def test_words_about_rows_find_mistakes(words, wrong):
    made = {hidden: "bool[n, s] y", largest: "int64[n] y", place_of_largest: "int64[n] y"}[wrong[0]]
    node = {
        hidden: "Equal(x, none)",
        largest: "ReduceMax<axes = [-1], keepdims = 0>(x)",
        place_of_largest: "ArgMax<axis = -1, keepdims = 0>(x)",
    }[wrong[0]]
    model = parse(f"(int64[n, s] x) => ({made}) <{CONSTANTS}> {{ y = {node} }}")
    assert rewritten(words, *wrong, model)[1].outcome == "failed"


def test_an_assumption_is_suggested_for_the_input_that_decides():
    def is_assumed(x: Tensor) -> None:
        require(x.holds("sorted"), "x may not be sorted")

    def changes(nodes):
        model = parse(
            f"(float[n, s] a, float[n, s] b) => (float[n] y) {{ {nodes} y = ReduceMax<axes=[-1], keepdims=0>(x) }}"
        )
        made = rule(patterns=[largest], conditions=[is_assumed], target="any", name="one")(_last)
        return [miss.change for miss in surgeon.rewrite(model, made, dry_run=True)[1].misses]

    assert changes("x = Identity(b)") == ["if your inputs obey it, add --assume 'b: sorted'"]
    assert changes("x = Neg(b)") == [""]
    assert changes("x = Add(a, b)") == [""]


def _last(g: Graph, x: Tensor) -> Tensor:
    """The last of each row."""
    return last(g, x)


def clipped_rule(*conditions):
    @rule(patterns=[clipped], conditions=list(conditions), target="any")
    def unclipped(g: Graph, x: Tensor) -> Tensor:
        """What a Clip reads."""
        return x

    return unclipped


def is_unit(x: Tensor) -> None:
    require(x.holds("0..1"), "x may lie outside of 0..1")


def test_a_rule_is_proved_by_itself_under_the_assumptions_that_it_asks_for():
    proof = prove_rule(clipped_rule(is_unit), targets=["ort"], quick=True)
    assert (proof.outcome.value, proof.assumptions) == ("proved", ["x: 0..1"])
    assert proof.to_dict()["entries"][0]["assumptions"] == ["x: 0..1"]
    proof = prove_rule(clipped_rule(), targets=["ort"], quick=True)
    assert (proof.outcome.value, proof.assumptions) == ("failed", [])


def test_conditions_that_contradict_each_other_leave_a_rule_unproved():
    def is_left(x: Tensor) -> None:
        require(x.holds("0..1") or x.holds("2..3"), "x is in neither range")

    def is_right(x: Tensor) -> None:
        require(x.holds("2..3"), "x may lie outside of 2..3")

    proof = prove_rule(clipped_rule(is_unit, is_left, is_right), targets=["ort"], quick=True)
    assert (proof.outcome.value, proof.counts["spared"] > 0) == ("unproved", True)


def test_a_case_of_a_test_may_assume():
    _, _, model = model_of("0..1")
    case = Case(clipped_rule(is_unit), "unit", model, assume=["x: 0..1"])
    assert check_fires(case).outcome == "proved"
    check_spares(Case(clipped_rule(is_unit), "any", model, why="x may lie outside of 0..1"))


def test_only_inputs_that_are_assumed_are_proved_so():
    """Equal sites share a proof, but not with one of which less is known."""
    model = parse(
        f"(float[n, 4] x, float[n, 4] w) => (float[n, 4] y, float[n, 4] z) <{CONSTANTS}> {{"
        " y = Clip(x, zero, one)  v = Mul(w, w)  z = Clip(v, zero, one) }"
    )
    _, report = rewritten("0..1", clipped, itself, model)
    assert [site.root for site in report.sites] == ["y"]
    assert [site.root for site in report.rolled_back] == ["z"]


def test_a_proof_is_not_remembered_for_less_than_it_assumed(tmp_path, monkeypatch):
    monkeypatch.setenv("SURGEON_CACHE", str(tmp_path))
    cases, task = [], worker_proofs._task
    monkeypatch.setattr(worker_proofs, "_task", lambda case: cases.append(case) or task(case))
    pattern, replacement, model = model_of("0..1")
    for words, outcome, runs in (
        ("0..1", "proved", 1),
        ("0..1", "proved", 0),
        ("0..2", "failed", 2),  # and again, to make the failing case small
        ("", "failed", 2),
        ("0.25..0.75", "proved", 1),
        ("0..1", "proved", 0),
    ):
        cases.clear()
        _, report = rewritten(words, pattern, replacement, model)
        assert (report.outcome, len(cases)) == (outcome, runs), words


MOVES = {
    "Transpose(x)": "0..1",
    "Reshape(x, flat)": "0..1",
    "Unsqueeze(x, front)": "sorted, 0..1",
    "Unsqueeze(x, back)": "0..1",
    "Identity(x)": "sorted, 0..1",
    "Slice(x, front, back)": "0..1",
    "Concat<axis=0>(x, x)": "0..1",
    "Concat<axis=0>(x, w)": "",
    "Cast<to=11>(x)": "sorted, 0..1",
    "Cast<to=7>(x)": "sorted, 0..1",
    "Neg(x)": "",
}


@pytest.mark.parametrize("node", MOVES)
def test_nodes_that_move_elements_keep_what_holds_for_each(node):
    model = parse(
        "(float[n, 4] x, float[n, 4] w) => (y) <int64[1] flat = {-1}, int64[1] front = {0}, int64[1] back = {2}>"
        f" {{ y = {node} }}"
    )
    declare(model, ["x: sorted, 0..1"])
    index = Index.over(model)
    found = AssumedFacts.of(index).at(index.main, "y")
    assert found == (Assumption.parse(MOVES[node]) if MOVES[node] else Assumption())


@pytest.mark.parametrize(
    ("words", "old", "new", "left"),
    [
        ("0..300", np.int64, np.int32, "0..300"),
        ("0..300", np.int64, np.uint8, ""),
        ("nonzero", np.int32, np.float32, "nonzero"),
        ("nonzero", np.int64, np.int32, ""),
        ("nonzero", np.float32, np.float64, "nonzero"),
        ("nonzero", np.float64, np.float32, ""),
        ("0.25..3.5", np.float32, np.int64, "0..3"),
        ("0.25..3.5", np.float64, np.float16, "0.25..3.5"),
        ("0..1e6", np.float32, np.float16, ""),
        ("finite", np.float32, np.float64, "finite"),
        ("finite", np.float64, np.float32, ""),
        ("sorted", np.float32, np.int64, ""),
        ("right-padded", np.int64, np.bool_, "right-padded"),
        ("nonzero", np.int64, np.bool_, "no padding"),
        ("-5..5", np.int64, np.bool_, ""),
    ],
)
def test_casts_keep_what_the_new_dtype_keeps(words, old, new, left):
    found = cast_fact(Assumption.parse(words), np.dtype(old), np.dtype(new))
    assert found == (Assumption.parse(left) if left else Assumption())
    array = Assumption.parse(words).obey(np.random.default_rng(0).normal(0, 3, (40, 6)).astype(old))
    with np.errstate(over="ignore"):
        assert found.violation(array.astype(new)) is None


def test_ranges_of_integers_follow_from_assumptions():
    model = parse("(int64[n] x) => (y) <int64 five = {5}> { a = Mul(x, five)  y = Add(a, five) }")
    index = Index.over(model)
    assert not follows(index, index.main, "y", Assumption.parse("5..20"))
    declare(model, ["x: 0..3"])
    index = Index.over(model)
    assert follows(index, index.main, "y", Assumption.parse("5..20, nonzero"))
    assert not follows(index, index.main, "y", Assumption.parse("5..19"))
