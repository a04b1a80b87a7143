"""What a proof costs, counted: elements that are made, runs of both sides, and how often weights are made."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon import Constant, Graph, Tensor, rule
from surgeon.proof.cases.dims import REDUCE_ABOVE_ELEMENTS, REDUCE_ABOVE_WORK, CaseDims
from surgeon.proof.node_cost import CostTerm
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.region.literals import dims_encoded_by
from surgeon.proof.site import site_prover, worker_proofs
from surgeon.proof.site.both_sides import BothSides
from surgeon.proof.site.proof_run import ProofRun
from surgeon.proof.site.worker_proofs import prove_in_process
from surgeon.proof.strategies import case_feeds
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.testing import parse
from tests.test_size_strategies import case_of


@pytest.fixture
def runs(monkeypatch):
    """The inputs of each run, by name; proofs are made in this process."""
    found = []
    original = BothSides.run

    def run(self, feeds, facts, at):
        found.append({name: array.shape for name, array in feeds.items()})
        return original(self, feeds, facts, at)

    in_rows = ProofRun._run_rows

    def run_rows(self, case, feeds):
        found.append({name: array.shape for name, array in feeds.items()})
        return in_rows(self, case, feeds)

    monkeypatch.setattr(BothSides, "run", run)
    monkeypatch.setattr(ProofRun, "_run_rows", run_rows)
    monkeypatch.setattr(
        site_prover, "prove_cases", lambda experiments, jobs: [prove_in_process(item) for item in experiments]
    )
    monkeypatch.setattr(worker_proofs, "start", lambda: None)
    return found


def elements(run) -> int:
    return sum(int(np.prod(shape)) for shape in run.values())


SPLIT = """(float[1, 500, 128] x) => (float[1, 500, 128] y) <int64[4] s = {1, 500, 8, 16}, int64[3] t = {1, 500, 128}>
    { a = Reshape(x, s) b = Relu(a) y = Reshape(b, t) }"""


@rule(patterns=[lambda g, x, s, t: g.reshape(g.relu(g.reshape(x, s)), t)])
def unsplit(g: Graph, x: Tensor, s: Constant, t: Constant) -> Tensor:
    """Right: what is reshaped there and back need not be."""
    return g.relu(x)


@rule(patterns=[lambda g, x, s, t: g.reshape(g.relu(g.reshape(x, s)), t)])
def only_the_first(g: Graph, x: Tensor, s: Constant, t: Constant) -> Tensor:
    """Wrong behind the first hundred rows, which is all where it is run narrow."""
    rows, rest = (g.slice(x, [low], [high], [1]) for low, high in ((0, 100), (100, 1 << 30)))
    return g.concat(g.relu(rows), rest, axis=1)


def test_a_dim_that_reshapes_speak_of_is_small_in_all_runs_but_one(runs):
    _, report = surgeon.rewrite(parse(SPLIT), unsplit)
    assert [site.outcome for site in report.sites] == ["proved"]
    wide = [run for run in runs if elements(run) > REDUCE_ABOVE_ELEMENTS]
    assert wide == [{"x": (1, 500, 128)}] == runs[-1:]
    assert len(runs) > 10


def test_what_is_right_where_it_is_narrow_alone_is_found(runs):
    _, report = surgeon.rewrite(parse(SPLIT), only_the_first, keep_going=True)
    assert not report.sites
    assert len(report.rolled_back) == 1
    assert any(elements(run) <= REDUCE_ABOVE_ELEMENTS for run in runs), "it was run narrow first"


def test_dims_of_what_is_read_for_its_shape_alone_stay_and_nothing_is_put_into_it(runs):
    """As where the shape of an image is a constant: 100 million elements of zeros cost nothing."""

    @rule(patterns=[lambda g, x: g.shape(x)])
    def known(g: Graph, x: Tensor) -> Tensor:
        return g.literal(np.array(x.shape))

    text = "(float[2, 192, 512, 512] x) => (int64[4] y) { y = Shape(x) }"
    assert surgeon.rewrite(parse(text), known)[1].outcome == "proved"
    assert {run["x"] for run in runs} == {(2, 192, 512, 512)}


def test_a_dim_that_a_float_stands_for_stays(runs):
    """The mean over 500 divides by 500: with another number there it were another region."""
    text = SPLIT.replace("b = Relu(a)", "c = Constant<value_float = 500.0>() r = Relu(a) b = Div(r, c)")

    @rule(patterns=[lambda g, x, s, t, c: g.reshape(g.div(g.relu(g.reshape(x, s)), c), t)])
    def divided(g: Graph, x: Tensor, s: Constant, t: Constant, c: Constant) -> Tensor:
        return g.div(g.relu(x), c)

    _, report = surgeon.rewrite(parse(text), divided)
    assert [site.outcome for site in report.sites] == ["proved"]
    assert {run["x"][1] for run in runs} == {500}


TOKENS = """<ir_version: 8, opset_import: ["" : 17]> g (
    float[2, ROWS, 640] q, float[2, KEYS, 640] k, float[2, KEYS, 640] v) => (float[2, ROWS, 640] y)
    <int64[4] qs = {2, ROWS, 10, 64},
    int64[4] ks = {2, KEYS, 10, 64}, int64[3] s = {2, ROWS, 640}, float scale = {0.125}> {
    qh = Reshape(q, qs) qt = Transpose<perm = [0, 2, 1, 3]>(qh) kh = Reshape(k, ks)
    kt = Transpose<perm = [0, 2, 3, 1]>(kh) vh = Reshape(v, ks) vt = Transpose<perm = [0, 2, 1, 3]>(vh)
    a = MatMul(qt, kt) x = Mul(a, scale) p = Softmax<axis = -1>(x) z = MatMul(p, vt)
    zt = Transpose<perm = [0, 2, 1, 3]>(z) y = Reshape(zt, s) }"""


@pytest.mark.parametrize("rows", [4096, 9216])
def test_an_attention_over_a_fixed_number_of_rows_is_proved_over_few(runs, rows):
    """The rows of a picture: 4,096 are 64 times 64, and 64 is also the size of a head."""
    text = TOKENS.replace("ROWS", str(rows)).replace("KEYS", str(rows))
    _, report = surgeon.rewrite(parse(text), "transformers")
    assert report.outcome == "proved"
    assert all(run["q"][1] < 20 and run["q"][2] == 640 for run in runs)
    assert f" instead of {rows:,}), because the full size takes too long" in report.sites[0].reason


def test_what_differs_at_smaller_sizes_and_is_too_much_at_its_own_is_unproved_at_once(runs):
    """A dim may mean more than its size, so that it is not called wrong."""

    def turned(g: Graph, k: Tensor, s: Constant) -> Tensor:
        return g.transpose(g.reshape(k, s), perm=[0, 2, 3, 1])

    @rule(patterns=[lambda g, x, k, s: g.mul(g.matmul(x, turned(g, k, s)), 0.125)])
    def doubled(g: Graph, x: Tensor, k: Tensor, s: Constant) -> Tensor:
        return g.matmul(x, g.mul(turned(g, k, s), 0.25))

    text = TOKENS.replace("ROWS", "9216").replace("KEYS", "9216")
    _, report = surgeon.rewrite(parse(text), doubled)
    assert report.outcome == "unproved"
    assert " more numbers give x[" in report.sites[0].reason
    assert "; checked only at smaller sizes (" in report.sites[0].reason
    assert all(run["k"][1] < 100 for run in runs)


def test_two_fixed_lengths_are_few_and_what_reshapes_say_of_their_sum_fits(runs):
    """Rows of a picture beside those of a text, as diffusion transformers have them; run once as they are too."""

    @rule(patterns=[lambda g, a, b, s: g.relu(g.reshape(g.concat(a, b, axis=1), s))])
    def earlier(g: Graph, a: Tensor, b: Tensor, s: Constant) -> Tensor:
        return g.reshape(g.relu(g.concat(a, b, axis=1)), s)

    made = parse(
        "(float[2, 1024, 64] a, float[2, 77, 64] b) => (float[2, 1101, 8, 8] y) <int64[4] s = {2, 1101, 8, 8}> "
        "{ c = Concat<axis = 1>(a, b) r = Reshape(c, s) y = Relu(r) }"
    )
    assert surgeon.rewrite(made, earlier)[1].outcome == "proved"
    sizes = [(run["a"][1], run["b"][1]) for run in runs]
    assert sizes.count((1024, 77)) == 1
    assert sum(max(pair) < 20 for pair in sizes) > 10, "each strategy had its first case"
    assert sum(max(pair) > 20 for pair in sizes) < 4


def test_constants_that_are_as_long_lose_what_is_beyond(runs):
    """A mask of the future of 2,048 fixed rows, told by their places: of few rows, it is one of the first places."""

    @rule(patterns=[lambda g, x, i, j, low: g.where(g.less_or_equal(j, i), x, low)])
    def turned(g: Graph, x: Tensor, i: Constant, j: Constant, low: Constant) -> Tensor:
        return g.where(g.greater(j, i), low, x)

    made = parse(
        "(float[16, 2048, 2048] x) => (float[16, 2048, 2048] y) <int64[3] s = {16, 2048, 2048}, float low = {-3e38}> "
        "{ h = LessOrEqual(j, i) z = Reshape(x, s) y = Where(h, z, low) }"
    )
    places = np.arange(2048)
    for name, array in (("i", places[:, None]), ("j", places[None])):
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    _, report = surgeon.rewrite(made, turned)
    assert report.outcome == "proved"
    assert all(run["z"][1] < 20 for run in runs)
    assert report.sites[0].reason.startswith("checked only at smaller sizes (")


def test_a_dim_that_an_attribute_of_floats_stands_for_stays(runs):
    """The scale of an attention over heads of 64 is an eighth, on one side a number and on the other by the shape."""
    text = TOKENS.replace("ROWS", "4096").replace("KEYS", "4096")
    by_shape = "h = Shape<start = 3>(qt) c = Cast<to = 1>(h) r = Sqrt(c) x = Div(a, r)"
    _, report = surgeon.rewrite(parse(text.replace("x = Mul(a, scale)", by_shape)), "transformers")
    assert report.outcome == "proved"
    assert {run["q"][2] for run in runs} == {640}


def test_sizes_that_are_asked_for_bound_no_others(runs):
    """All heads are 1,536 numbers beside each other: that 4,096 rows are more tells nothing."""
    text = """(float[1, 24, 4096, 64] q, float[1, 24, 64, 4096] k, float[1, 24, 4096, 64] v)
        => (float[1, 24, 4096, 64] y) <float scale = {0.125}>
        { a = MatMul(q, k) z = Mul(a, scale) p = Softmax(z) y = MatMul(p, v) }"""
    assert surgeon.rewrite(parse(text), "attention")[1].outcome == "proved"
    assert all(run["q"][2] < 100 for run in runs)


def test_sizes_that_are_put_together_before_they_are_asked_for_bound_none_either(runs):
    """As TorchScript writes the shape of heads: the rows of the input, and behind them 12 heads of 64."""

    @rule(patterns=[lambda g, x, s, t: g.reshape(g.relu(g.reshape(x, s)), t)])
    def unsplit_at_any(g: Graph, x: Tensor, s: Tensor, t: Tensor) -> Tensor:
        return g.relu(x)

    made = parse(
        "(float[1, 1829, 768] x) => (float[1, 1829, 768] y) "
        "<int64 one = {1}, int64[1] b = {1}, int64[1] z = {0}, int64[2] h = {12, 64}, int64[1] d = {768}> "
        "{ s = Shape(x) r = Gather(s, one) u = Unsqueeze(r, z) f = Concat<axis = 0>(b, u, h) i = Reshape(x, f)"
        "  j = Relu(i) v = Unsqueeze(r, z) t = Concat<axis = 0>(b, v, d) y = Reshape(j, t) }"
    )
    assert surgeon.rewrite(made, ["constant_folding", unsplit_at_any])[1].outcome == "proved"
    assert sum(run["x"][1] > 100 for run in runs) <= 1


def test_a_float_stands_for_a_dim_only_as_near_as_it_is_precise():
    assert 64 in set(dims_encoded_by(np.float32([0.125])))
    assert 768 in set(dims_encoded_by(np.float32([1 / 768])))
    assert 768 in set(dims_encoded_by(np.float16([1 / 768])))
    assert 500 not in set(dims_encoded_by(np.float32([0.044715]))), "a constant of GELU, whose square is 1 / 500.14"


WEIGHTY = "(float[n, 80] x) => (float[n, 80] y) { t = Transpose(w) y = MatMul(x, t) }"


@rule(patterns=[lambda g, x, w: g.matmul(x, g.transpose(w, perm=[1, 0]))])
def gemm(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    return g.gemm(x, w, transB=1)


def weighty(is_node: bool):
    """A product with a weight of 6,400 elements: an initializer, or what a Constant node holds."""
    model = parse(WEIGHTY.replace("Transpose(w)", "Transpose<perm = [1, 0]>(w)"))
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((80, 80)).astype(np.float32), "w")
    if is_node:
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=weight))
    else:
        model.graph.initializer.append(weight)
    return model


@pytest.mark.parametrize("is_node", [False, True])
def test_a_large_weight_is_generated_once_for_a_region(runs, monkeypatch, is_node):
    made = []
    original = case_feeds.fill_array

    def fill_array(fill, blank):
        made.append((blank.spec.name, fill.name))
        return original(fill, blank)

    monkeypatch.setattr(case_feeds, "fill_array", fill_array)
    _, report = surgeon.rewrite(weighty(is_node), gemm)
    assert [site.outcome for site in report.sites] == ["proved"]
    assert all(run["w"] == (80, 80) for run in runs)
    weights = [fill for name, fill in made if name == "w"]
    assert sorted(weights) == ["constant rows", "non finite", "usual", "zeros and ones"]
    assert len(made) - len(weights) >= len(runs) // 2, "inputs are new in each case of a strategy"


def test_small_dims_shrink_where_there_is_much_to_compute():
    """A picture of 14 x 14 stays what it is for a few channels, and not for many."""
    kept, shrunk = (
        next(CaseDims(case_of("b", 8, 14, 14, costs=(CostTerm((symbol("b"), 8, 14, 14), (others,)),)), {}).runnable())[
            0
        ].reduced
        for others in (1, REDUCE_ABOVE_WORK)
    )
    assert kept == {}
    assert shrunk == {14: 5, 8: 7} or shrunk.keys() == {8, 14}


def test_what_refuses_much_is_not_asked_again(runs):
    """It runs for 7 rows alone: 16 times the usual sizes are tried once by each of the two that run it."""
    text = """(float[n, 64, 64] x, float[m, 64, 64] y) => (float[n, 64, 64] z) <int64[3] s = {7, 64, 64}>
        { a = Reshape(x, s) b = Add(a, y) z = Relu(b) }"""

    @rule(patterns=[lambda g, x, s, y: g.relu(g.add(g.reshape(x, s), y))])
    def swapped(g: Graph, x: Tensor, s: Constant, y: Tensor) -> Tensor:
        return g.max(g.add(y, g.reshape(x, s)), 0.0)

    surgeon.rewrite(parse(text), swapped, keep_going=True)
    large = [(run["x"], run["y"]) for run in runs if elements(run) > REDUCE_ABOVE_ELEMENTS and run["x"][0] != 7]
    assert large
    assert all(large.count(shapes) <= 2 for shapes in set(large))


PROJECTED = """(float[1, 4, 512] x) => (float[1, 4, 512] z) <int64[4] s = {1, 4, 8, 64}, int64[3] t = {1, 4, 512}>
    { a = Reshape(x, s) b = Relu(a) y = Reshape(b, t) v = Transpose<perm = [1, 0]>(w) z = MatMul(y, v) }"""


def projected(g, x, s, t, w):
    """As attention ends: heads joined, and a square weight behind them."""
    return g.matmul(g.reshape(g.relu(g.reshape(x, s)), t), g.transpose(w, perm=[1, 0]))


def with_square_weight(text: str):
    model = parse(text)
    weight = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


def test_a_square_weight_that_is_not_turned_is_found(runs):
    @rule(patterns=[projected])
    def unturned(g: Graph, x: Tensor, s: Constant, t: Constant, w: Tensor) -> Tensor:
        return g.matmul(g.relu(x), w)

    _, report = surgeon.rewrite(with_square_weight(PROJECTED), unturned, keep_going=True)
    assert not report.sites
    assert len(report.rolled_back) == 1


def test_the_smallest_of_a_form_is_proved_in_full(runs):
    """Whichever comes first in the graph: the others take few runs."""
    model = parse(
        "(float[n, 160] x, float[m, 80] z) => (float[n, 160] y, float[m, 80] q) "
        "{ s = Transpose<perm = [1, 0]>(v) y = MatMul(x, s) t = Transpose<perm = [1, 0]>(w) q = MatMul(z, t) }"
    )
    for name, size in (("v", 160), ("w", 80)):
        weight = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    _, report = surgeon.rewrite(model, gemm)
    assert [site.outcome for site in report.sites] == ["proved"] * 2
    small = [run for run in runs if "w" in run]
    large = [run for run in runs if "v" in run]
    assert len(small) > 5 * len(large) > 0


def test_each_side_carries_the_large_constants_that_it_reads(runs, monkeypatch):
    """A folded weight is none of the original's, and what it was folded from none of the replacement's."""
    sent: list[ProofCase] = []

    def proofs(experiments, jobs):
        asked = list(experiments)
        sent.extend(asked)
        return [prove_in_process(item) for item in asked]

    monkeypatch.setattr(site_prover, "prove_cases", proofs)

    @rule(patterns=[lambda g, x, w, c: g.mul(g.matmul(x, w), c)])
    def folded(g: Graph, x: Tensor, w: Constant, c: Constant) -> Tensor:
        return g.matmul(x, w.values * c.values)

    model = parse("(float[n, 80] x) => (float[n, 80] y) <float c = {2}> { p = MatMul(x, w) y = Mul(p, c) }")
    weight = np.random.default_rng(0).standard_normal((80, 80)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    _, report = surgeon.rewrite(model, folded)
    assert [site.outcome for site in report.sites] == ["proved"]
    ((before, after),) = [
        [[list(tensor.dims) for tensor in side.graph.initializer] for side in (item.models.before, item.models.after)]
        for item in sent
    ]
    assert sorted(before) == [[], [80, 80]]
    assert sorted(after) == [[], [80, 80]]


def test_a_strategy_that_failed_comes_first_at_the_next_sizes(monkeypatch, runs):
    """What fails with dims made smaller is run at others: a fault is seen there at once."""
    tried: list[tuple[int, str]] = []
    original = BothSides.run

    def run(self, feeds, facts, at):
        tried.append((feeds["x"].shape[1], facts.description))
        return original(self, feeds, facts, at)

    monkeypatch.setattr(BothSides, "run", run)

    @rule(patterns=[lambda g, x, low, high: g.clip(x, low, high)])
    def unclipped(g: Graph, x: Tensor, low: Constant, high: Constant) -> Tensor:
        return g.identity(x)

    text = "(float[n, 40000] x) => (float[n, 40000] y) <float l = {-5e13}, float h = {5e13}> { y = Clip(x, l, h) }"
    surgeon.rewrite(parse(text), unclipped, keep_going=True)
    narrow = [kind for size, kind in tried if size < 40000]
    wide = [kind for size, kind in tried if size == 40000]
    assert narrow[0] == wide[0] == "usual"
    assert narrow[-1] != "usual"
    assert next(kind for kind in wide if kind != "usual") == narrow[-1]


def test_tables_are_few_rows_where_the_replacement_loads_only_with_sizes_that_are_stated(runs):
    """ONNX Runtime infers the shapes of EmbedLayerNormalization from the dims of its tables."""
    model = parse(
        """(int32[b, s] ids, int32[b, s] places) => (float[b, s, 32] y)
        <float[32] one = {ONES}, float[32] zero = {ONES}> {
        word = Gather(words, ids) place = Gather(positions, places) x = Add(word, place)
        y = LayerNormalization <axis = -1> (x, one, zero) }""".replace("ONES", ", ".join(["1"] * 32))
    )
    for name, rows in (("words", 50_000), ("positions", 300)):
        model.graph.initializer.append(numpy_helper.from_array(np.ones((rows, 32), np.float32), name))
    _, report = surgeon.rewrite(model, ["embed_layer_norm"], ep="cuda")
    assert [site.outcome for site in report.sites] == ["proved"]
    assert {run["words"][0] for run in runs} == {7}
    assert {run["positions"][0] for run in runs} == {5, 300}  # all rows are affordable
