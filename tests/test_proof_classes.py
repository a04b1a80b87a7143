"""Regions that differ only in widths and weights: one full proof, and few inputs for the others."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon import Constant, Graph, Tensor, rule
from surgeon.proof.site import site_prover
from surgeon.testing import parse


def convolutions(*widths: int, weights=None) -> onnx.ModelProto:
    """Convolutions of these numbers of channels, each with a batch normalisation, beside one another."""
    random = np.random.default_rng(0)
    graph = onnx.GraphProto(name="nets")
    for place, width in enumerate(widths):
        x, y = (helper.make_tensor_value_info(f"{n}{place}", 1, ["n", width, "h", "w"]) for n in "xy")
        graph.input.append(x)
        graph.output.append(y)
        made = random.standard_normal((width, width, 3, 3)) if weights is None else weights[place]
        data = {"w": made, **{name: random.uniform(0.5, 2.0, width) for name in ("s", "b", "m", "v")}}
        names = {name: f"{name}{place}" for name in data}
        graph.initializer.extend(numpy_helper.from_array(data[n].astype(np.float32), names[n]) for n in data)
        norms = [names[name] for name in ("s", "b", "m", "v")]
        graph.node.extend(
            [
                helper.make_node("Conv", [x.name, names["w"]], [f"c{place}"], pads=[1, 1, 1, 1]),
                helper.make_node("BatchNormalization", [f"c{place}", *norms], [y.name]),
            ]
        )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def runs(monkeypatch):
    """What was proved, in order: whether on few inputs, and the channels of the first input."""
    found = []
    original = site_prover.SiteProver._outcomes

    def outcomes(self, experiments):
        items = list(experiments)
        found.extend((item.is_brief, item.inputs[0].shape[1]) for item in items)
        return original(self, items)

    monkeypatch.setattr(site_prover.SiteProver, "_outcomes", outcomes)
    return found


def test_one_of_each_width_is_proved_in_full_and_the_others_on_few_inputs(runs):
    """The weights are those of the model at once, for the replacement was computed from them: nothing runs twice."""
    _, report = surgeon.rewrite(convolutions(24, 32, 40), "conv_batch_norm")
    assert [site.outcome for site in report.sites] == ["proved"] * 3
    assert runs == [(False, 24), (True, 32), (True, 40)]
    full, *brief = report.proofs
    assert full.runs > 2 * max(proof.runs for proof in brief)
    assert {"usual", "special rows"} == set(brief[0].kinds) < set(full.kinds)


def test_a_fault_at_one_width_alone_is_found_on_few_inputs(runs):
    """Its own weights and its own width are run, whatever was proved of another."""

    @rule(patterns=[lambda g, x, w: g.matmul(x, w)])
    def doubled_where_wide(g: Graph, x: Tensor, w: Constant) -> Tensor:
        return g.gemm(x, g.literal(w.values * (2 if w.shape[0] == 80 else 1)))

    random = np.random.default_rng(0)
    text = "(float[n, 72] a, float[n, 80] b) => (float[n, 72] c, float[n, 80] d) { c = MatMul(a, u) d = MatMul(b, v) }"
    model = parse(text)
    sizes = {"u": 72, "v": 80}
    data = {name: random.standard_normal((size, size)).astype(np.float32) for name, size in sizes.items()}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in data.items())
    _, report = surgeon.rewrite(model, doubled_where_wide, keep_going=True)
    assert [site.outcome for site in report.sites] == ["proved"]
    assert len(report.rolled_back) == 1
    assert runs[:2] == [(False, 72), (True, 80)]


def test_where_the_first_is_not_proved_the_others_are_proved_in_full(runs):
    """What few inputs show is enough only beside what many showed."""

    @rule(patterns=[lambda g, x, y: g.relu(g.mul(x, y))])
    def wrong_for_infinities(g: Graph, x: Tensor, y: Tensor) -> Tensor:
        return g.relu(g.clip(g.mul(x, y), -1e30, 1e30))

    text = """(float[n, 24] a, float[n, 24] b, float[n, 32] c, float[n, 32] d) => (float[n, 24] y, float[n, 32] z)
        { p = Mul(a, b) y = Relu(p) q = Mul(c, d) z = Relu(q) }"""
    _, report = surgeon.rewrite(parse(text), wrong_for_infinities, keep_going=True)
    assert len(report.rolled_back) == 2
    assert not report.sites


def test_what_is_computed_from_one_weight_proves_nothing_of_another():
    """Both replacements hold the same zeros, of which only the first are right."""

    @rule(patterns=[lambda g, x, w: g.matmul(x, w)])
    def zeros(g: Graph, x: Tensor, w: Constant) -> Tensor:
        return g.gemm(x, g.literal(np.zeros_like(w.values)))

    text = "(float[n, 72] a, float[n, 72] b) => (float[n, 72] c, float[n, 72] d) { c = MatMul(a, u) d = MatMul(b, v) }"
    model = parse(text)
    data = {"u": np.zeros((72, 72)), "v": np.random.default_rng(0).standard_normal((72, 72))}
    model.graph.initializer.extend(numpy_helper.from_array(x.astype(np.float32), name) for name, x in data.items())
    _, report = surgeon.rewrite(model, zeros, keep_going=True)
    assert {site.replaced[0].outputs[0]: site.outcome for site in report.sites} == {"c": "proved"}
    assert [site.replaced[0].outputs[0] for site in report.rolled_back] == ["d"]


def test_small_numbers_and_small_dims_are_no_widths(runs):
    """Heads, kernels and scalars tell what is computed: each is proved in full."""
    text = """(float[n, 24] a, float[n, 32] b, float[n, 8] c) => (float[n, 24] x, float[n, 32] y, float[n, 8] z)
        <float p = {0.1}, float q = {0.2}, float r = {0.1}>
        { d = Mul(a, p) x = Identity(d) e = Mul(b, q) y = Identity(e) f = Mul(c, r) z = Identity(f) }"""

    @rule(patterns=[lambda g, x, c: g.identity(g.mul(x, c))])
    def turned(g: Graph, x: Tensor, c: Tensor) -> Tensor:
        return g.mul(c, x)

    surgeon.rewrite(parse(text), turned)
    assert [brief for brief, _ in runs] == [False] * 3


def scaled(*scales: float) -> onnx.ModelProto:
    """Products with a weight, each multiplied by a number."""
    random = np.random.default_rng(0)
    places = range(len(scales))
    nodes = " ".join(f"p{place} = MatMul(x{place}, w{place}) y{place} = Mul(p{place}, s{place})" for place in places)
    ports = [", ".join(f"float[n, 24] {name}{place}" for place in places) for name in "xy"]
    model = parse(f"({ports[0]}) => ({ports[1]}) {{ {nodes} }}")
    for place, scale in enumerate(scales):
        data = {"w": random.standard_normal((24, 24)), "s": scale}
        held = [numpy_helper.from_array(np.float32(value), f"{name}{place}") for name, value in data.items()]
        model.graph.initializer.extend(held)
    return model


@rule(patterns=[lambda g, x, w, s: g.mul(g.matmul(x, w), s)])
def folded(g: Graph, x: Tensor, w: Constant, s: Constant) -> Tensor:
    """Right unless the scale is between 2 and 3."""
    scale = s.values
    return g.matmul(x, g.literal(w.values * np.where((scale > 2) & (scale < 3), np.float32(2), scale)))


def test_a_learned_scale_is_a_weight(runs):
    """As PP-OCRv5 has one, and a shift, behind each of its convolutions."""
    _, report = surgeon.rewrite(scaled(0.91734225, 1.2041363, 0.30712345), folded)
    assert [site.outcome for site in report.sites] == ["proved"] * 3
    assert [brief for brief, _ in runs] == [False, True, True]


def test_what_is_wrong_for_one_learned_scale_fails(runs):
    """Few inputs are enough for it: they run with the site's own number."""
    _, report = surgeon.rewrite(scaled(0.91734225, 2.0173422), folded, keep_going=True)
    assert [site.outcome for site in report.sites] == ["proved"]
    assert [site.replaced[-1].outputs[0] for site in report.rolled_back] == ["y1"]
    assert [brief for brief, _ in runs][:2] == [False, True]


def test_scales_of_two_signs_are_of_two_forms(runs):
    surgeon.rewrite(scaled(0.91734225, -0.91734225, -1.2041363), folded)
    assert [brief for brief, _ in runs] == [False, False, True]


def test_a_number_that_is_no_width_is_no_other(runs):
    """Where a cut ends, and what is asked for as a size beside it."""
    text = """(float[n, 64] a, float[n, 64] b, float[n, 64] c) => (float[n, k] x, float[n, l] y, float[n, m] z)
        <int64[1] o = {0}, int64[1] i = {1}, int64[1] e = {24}, int64[1] f = {32}>
        { d = Slice(a, o, e, i) x = Relu(d) h = Slice(b, o, f, i) y = Relu(h) j = Slice(c, o, e, i) z = Relu(j) }"""

    @rule(patterns=[lambda g, x, s, e, a: g.relu(g.slice(x, s, e, a))])
    def late(g: Graph, x: Tensor, s: Tensor, e: Tensor, a: Tensor) -> Tensor:
        return g.slice(g.relu(x), s, e, a)

    surgeon.rewrite(parse(text), late)
    assert [brief for brief, _ in runs] == [False, False]


@pytest.mark.parametrize("other", [0.5, 1e-5, 0.044715, 1.7020001e-9, 123456.78])
def test_a_number_that_a_person_wrote_or_that_is_extreme_is_no_weight(other, runs):
    """It says what is computed: an epsilon, a coefficient, a fill."""
    surgeon.rewrite(scaled(0.91734225, other), folded)
    assert [brief for brief, _ in runs] == [False, False]


def test_dims_of_which_windows_leave_nothing_are_made_larger():
    """A Conv of kernel 256 needs 256 samples: behind it there are none of the usual 5."""
    text = """(float[batch, 1, sequence] x) => (float[batch, 2, frames] y)
        { c = Conv <kernel_shape = [256], strides = [128]> (x, w) r = Relu(c) y = Relu(r) }"""
    model = parse(text)
    weights = np.random.default_rng(0).standard_normal((2, 1, 256)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))

    @rule(patterns=[lambda g, x: g.relu(g.relu(x))])
    def relu_once(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    _, report = surgeon.rewrite(model, relu_once)
    assert [site.outcome for site in report.sites] == ["proved"]


def test_a_copy_that_another_site_takes_out_is_not_taken_for_a_constant(monkeypatch):
    """What stands above it is data: the cut begins there, and holds none of the nodes that make it."""
    cuts = []
    prepared = site_prover.build_proof_case
    monkeypatch.setattr(site_prover, "build_proof_case", lambda cut, *rest: cuts.append(cut) or prepared(cut, *rest))

    @rule(patterns=[lambda g, x: g.relu(g.relu(x))])
    def relu_once(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    text = """(float[n, 4] x) => (float[n, 4] y)
        { a = Sin(x) b = Identity(a) c = Cos(b) d = Identity(c) e = Sin(d) f = Relu(e) y = Relu(f) }"""
    _, report = surgeon.rewrite(parse(text), [relu_once, "identity"])
    assert report.outcome == "proved"
    assert len(report.sites) == 3
    assert [node.op for cut in cuts for node in cut.prefix if node.op in ("Sin", "Cos")] == []


@rule(patterns=[lambda g, x, w: g.cast(g.greater_or_equal(x, w), to=1)])
def no_ties(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    """Wrong where a number is what it is compared with."""
    return g.cast(g.greater(x, w), to=1)


@rule(patterns=[lambda g, x, w: g.mul(g.relu(x), w)])
def small_halved(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    """Wrong for small numbers, but where the weight is zero throughout."""
    return g.mul(w, g.where(g.less(x, 1e-5), g.mul(g.max(x, 0.0), 0.5), x))


@pytest.mark.parametrize(
    ("body", "wrong", "first"),
    [
        ("a{i} = GreaterOrEqual(x{i}, w{i}) y{i} = Cast<to = 1>(a{i})", no_ties, np.nan),
        ("a{i} = Relu(x{i}) y{i} = Mul(a{i}, w{i})", small_halved, 0.0),
        ("a{i} = Relu(x{i}) y{i} = Mul(a{i}, w{i})", small_halved, 1e-42),
    ],
)
def test_a_weight_that_hides_a_fault_proves_nothing_of_another(body, wrong, first):
    """Few inputs show nothing of it, so that one of each kind of weights is proved in full."""
    ports = ("float[n, 8] x0, float[n, 8] x1", "float[n, 8] y0, float[n, 8] y1")
    model = parse(f"({ports[0]}) => ({ports[1]}) {{ {body.format(i=0)} {body.format(i=1)} }}")
    usual = np.random.default_rng(0).standard_normal(8)
    for name, values in {"w0": np.full(8, first), "w1": usual}.items():
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    _, report = surgeon.rewrite(model, wrong, keep_going=True)
    assert [site.replaced[-1].outputs[0] for site in report.rolled_back] == ["y1"]


def test_a_number_that_inputs_are_compared_with_is_no_weight(runs):
    """However many digits it has: inputs near it tell whether what is written decides there too."""

    @rule(patterns=[lambda g, x, w: g.where(g.less(x, w), g.neg(x), x)])
    def never_below_300(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        return g.where(g.greater_or_equal(x, g.max(w, 300.0)), x, g.neg(x))

    text = """(float[n, 8] a, float[n, 8] b) => (float[n, 8] y, float[n, 8] z)
        <float u = {345.67892}, float v = {123.45671}>
        { c = Less(a, u) d = Neg(a) y = Where(c, d, a) e = Less(b, v) f = Neg(b) z = Where(e, f, b) }"""
    _, report = surgeon.rewrite(parse(text), never_below_300, keep_going=True)
    assert [site.replaced[-1].outputs[0] for site in report.rolled_back] == ["z"]
    assert [brief for brief, _ in runs][:2] == [False, False]


def test_weights_with_a_few_numbers_that_are_tiny_by_chance_are_of_one_form(runs):
    """As the kernels of convolutions are; so are those with zeros of one form."""
    random = np.random.default_rng(0)
    weights = [random.standard_normal((width, width, 3, 3)) for width in (24, 32, 40, 48)]
    weights[1].flat[7] = 1e-30
    weights[2].flat[7] = weights[3].flat[9] = 0.0
    surgeon.rewrite(convolutions(24, 32, 40, 48, weights=weights), "conv_batch_norm")
    assert runs == [(False, 24), (True, 32), (False, 40), (True, 48)]
