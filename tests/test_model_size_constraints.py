"""Input sizes of whole models that must agree, for models that do not run at default sizes."""

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.proof.model.inner_tensors import run_inner_tensors
from surgeon.runtime.inputs.consistent_sizes import ConsistentSizes, candidate_sizes
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.testing import parse
from tests import sampling
from tests.attention.cases import table
from tests.attention.exporting import export

DECODERS = ["gpt2-eager-past-dynamo20-fp32", "llama-sdpa-past-dynamo20-fp32"]

HEADER = '<ir_version: 10, opset_import: ["" : 18]>'

# As torch exports a decoder with a past: each cache has a free size of its own, and so has the mask, which is read by
# index up to the end of what past and rows make; places in a text have a table of `rows`.
DECODER = """g (int64[b, t] ids, int64[c, u] mask, float[b, 2, p, 4] k, float[b, 2, q, 4] v) => (float[b, 2, t, 4] y)
<int64 zero = {{0}}, int64 one = {{1}}, int64[1] axis = {{1}}, int64[1] front = {{0}}, float low = {{-1e9}},
 int64[4] heads = {{0, 0, 2, 4}}, float[9, 8] words, float[{rows}, 8] places> {{
    is = Shape(ids) ks = Shape<start = 2, end = 3>(k) rows = Gather(is, one) past = Squeeze(ks) all = Add(rows, past)
    new = Range(zero, rows, one) at = Add(new, past) w = Gather(words, ids) p = Gather(places, at) x = Add(w, p)
    s = Reshape(x, heads) h = Transpose<perm = [0, 2, 1, 3]>(s)
    keys = Concat<axis = 2>(k, h) values = Concat<axis = 2>(v, h)
    turned = Transpose<perm = [0, 1, 3, 2]>(keys) scores = MatMul(h, turned)
    every = Range(zero, all, one) truth = Cast<to = 9>(mask) seen = Gather<axis = 1>(truth, every)
    m = Unsqueeze(seen, axis) n = Unsqueeze(m, axis) kept = Where(n, scores, low)
    weights = Softmax(kept) y = MatMul(weights, values) }}"""

# Given places, which a cache is added to.
PLACED = """g (int64[b, t] position_ids, float[b, 2, p, 4] cache) => (float[b, t, 3] y)
<int64 two = {2}, float[16, 3] places> {
    s = Shape(cache) past = Gather(s, two) at = Add(position_ids, past) y = Gather(places, at) }"""

IN_BODY = """g (bool c, float[4, n] x, float[m, 4] z) => (float[4, n] y) { t = Transpose(z)
    y = If(c)<then_branch = a () => (float[4, n] p) { p = Add(x, t) }, else_branch = b () => (float[4, n] q) {
        q = Sub(x, t) }> }"""

IN_FUNCTION = (
    '<ir_version: 10, opset_import: ["" : 18, "own" : 1]>'
    "g (float[4, n] x, float[m, 4] z) => (float[4, n] y) { t = Transpose(z) y = own.plus(x, t) }"
    '<domain: "own", opset_import: ["" : 18]> plus (a, b) => (c) { c = Add(a, b) }'
)


def filled(text: str) -> onnx.ModelProto:
    """A model, the stored tensors without values being given some."""
    model = parse(text if text.startswith("<") else HEADER + text)
    random = np.random.default_rng(0)
    for value in model.graph.value_info:  # what the text states and nothing makes
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        array = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    del model.graph.value_info[:]
    return model

ELEMENTS = """g (float[n, b, 8] x) => (float[7, c, 2] y)
<int64[1] four = {4}, int64[1] seven = {7}, int64[1] two = {2}> {
    s = Shape<start = 1, end = 2>(x) t = Mul(s, four) u = Concat<axis = 0>(seven, t, two) y = Reshape(x, u) }"""
"""n · b · 8 elements as 7 · 4b · 2, whatever b is."""


def runs(model: onnx.ModelProto, sizes: dict[str, int]) -> bool:
    with OrtSession(model) as session:
        try:
            session.run(InputGenerator(model).generate(0, sizes))
        except SessionError:
            return False
    return True


@pytest.mark.parametrize(
    "text",
    [DECODER.format(rows=64), DECODER.format(rows=9), PLACED, IN_BODY, IN_FUNCTION, ELEMENTS],
    ids=["decoder", "few places", "places given", "in a body", "in a function", "as many elements"],
)
def test_a_model_runs_at_sizes_that_fit(text: str) -> None:
    """And not at the usual ones."""
    model = filled(text)
    usual = InputGenerator(model).size_sets({})
    assert not runs(model, usual[0])
    fitted = ConsistentSizes(model, {}).of(usual)
    assert fitted
    assert all(runs(model, sizes) for sizes in fitted)


def test_sizes_of_a_decoder() -> None:
    """Caches alike, the mask as long as past and rows, and both within the table of places."""
    model = filled(DECODER.format(rows=9))
    usual = InputGenerator(model).size_sets({})
    for before, sizes in zip(usual, ConsistentSizes(model, {}).of(usual), strict=False):
        assert sizes["b"] == sizes["c"] == before["b"]
        assert sizes["p"] == sizes["q"]
        assert sizes["u"] == sizes["p"] + sizes["t"] <= 9


def test_sizes_that_the_user_chose_stay_and_others_follow() -> None:
    model = filled(DECODER.format(rows=9))
    dims = {"q": 3, "t": 2}
    (first, *_) = ConsistentSizes(model, dims).of(InputGenerator(model).size_sets(dims))
    assert (first["p"], first["q"], first["t"], first["u"]) == (3, 3, 2, 5)
    assert runs(model, first)


@pytest.mark.parametrize(("op", "gates"), [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
def test_states_and_lengths_of_recurrent_nodes_are_of_one_batch(op: str, gates: int) -> None:
    more = ", c0" if op == "LSTM" else ""
    model = filled(f"""g (float[t, n, 3] x, int32[l] lengths, float[1, h, 4] h0, float[1, c, 4] c0)
        => (float[t, 1, n, 4] y) <float[1, {4 * gates}, 3] w, float[1, {4 * gates}, 4] r>
        {{ y = {op}<hidden_size = 4>(x, w, r, , lengths, h0{more}) }}""")
    (sizes,) = ConsistentSizes(model, {}).of([{"t": 5, "n": 2, "l": 3, "h": 4, "c": 5}])
    assert sizes["n"] == sizes["l"] == sizes["h"]
    assert (sizes["n"] == sizes["c"]) is (op == "LSTM")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }", id="fits already"),
        pytest.param("g (float[4, n] x, float[5, n] z) => (float[4, n] y) { y = Add(x, z) }", id="fits at no size"),
        pytest.param(
            "g (float[n, m] x) => (float[4] y) <int64[1] s = {4}> { y = Reshape(x, s) }",
            id="a product has many ways",
        ),
    ],
)
def test_nothing_is_fitted_where_nothing_is_reported(text: str) -> None:
    model = filled(text)
    assert ConsistentSizes(model, {}).of(InputGenerator(model).size_sets({})[:1]) == []


def test_a_broken_model_has_no_sizes_that_fit() -> None:
    """Its fault is told where it is run."""
    model = filled("g (float[n] x, float[m] z) => (float[n] y) { y = Add(x, z) }")
    model.graph.node.append(onnx.helper.make_node("Relu", ["x"], ["y"]))
    assert ConsistentSizes(model, {}).of([{"n": 2, "m": 3}]) == []


def test_all_sets_come_in_turn() -> None:
    """The usual first, then such as fit, then all others."""
    model = filled(DECODER.format(rows=64))
    plan = InputGenerator(model)
    usual, fallback = plan.size_sets({}), plan.fallback_sets({})
    fitted = ConsistentSizes(model, {}).of(usual)
    assert list(candidate_sizes(model, plan, {})) == [usual[0], *fitted, *usual[1:], *fallback]


def test_checks_conversions_benches_and_inner_values_run_it() -> None:
    """No size chosen by itself would do: the caches are to be alike, and the table has few places."""
    model = filled(DECODER.format(rows=9))
    result = surgeon.compare(model, model)
    assert (result.outcome.value, result.reason) == ("proved", "")
    assert result.runs >= 4
    _, report = surgeon.convert(model)
    assert report.outcome == "proved"
    assert report.runs >= 4
    bench = surgeon.bench(model, model, dims={"c": 2, "t": 5, "q": 4}, loads=1, seconds=0)
    assert bench.sizes == {"b": 2, "c": 2, "t": 5, "p": 4, "q": 4, "u": 9}
    found = run_inner_tensors(model, model, ["weights"])
    assert found.values["weights"].shape == (2, 2, 5, 9)


def test_places_behind_a_cache_stay_below_the_table() -> None:
    """The table has 16 rows: what the cache takes of them is told by its shape."""
    plan = InputGenerator(filled(PLACED))
    for past in (1, 9, 15):
        made = plan.generate(0, {"b": 2, "t": 20, "p": past})["position_ids"]
        assert made.max() == 15 - past


@pytest.mark.parametrize("name", sampling.chosen(lambda: DECODERS[:1], lambda: DECODERS))
def test_exports_of_decoders(name: str) -> None:
    """Torch names each size by itself; gpt2's table of places has 32 rows."""
    case = next(case for case in table() if case.name == name)
    path = export(case).path
    assert path is not None
    _, report = surgeon.convert(path, dry_run=True)
    assert (report.outcome, report.reason) == ("proved", "")
    assert report.runs >= 4
    result = surgeon.compare(path, path)
    assert result.outcome.value == "proved"
    assert result.runs >= 4


def test_sizes_without_names_fit_too() -> None:
    """They are called by their inputs."""
    model = filled(DECODER.format(rows=9))
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            dim.ClearField("dim_param")
    usual = InputGenerator(model).size_sets({})
    assert not runs(model, usual[0])
    fitted = ConsistentSizes(model, {}).of(usual)
    assert fitted[0]["mask[1]"] == fitted[0]["k[2]"] + fitted[0]["ids[1]"]
    assert all(runs(model, sizes) for sizes in fitted)
