"""Regions that look alike, of which one proof may or may not serve another, and what a proof must not miss."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.testing import parse
from tests.test_region_cuts import proofs_of, relu_once


@rule(patterns=[lambda g, x: g.relu(g.floor(x))])
def without_floor(g: Graph, x: Tensor) -> Tensor:
    """Right for whole numbers."""
    return g.relu(x)


@rule(patterns=[lambda g, a, b: g.neg(g.abs(g.add(a, b)))])
def without_abs(g: Graph, a: Tensor, b: Tensor) -> Tensor:
    """Right for what is not negative."""
    return g.neg(g.add(a, b))


@rule(patterns=[lambda g, m: g.neg(g.max(g.cast(m, to=1), 0.0))])
def without_max(g: Graph, m: Tensor) -> Tensor:
    """Right for what is not negative."""
    return g.neg(g.cast(m, to=1))


@rule(patterns=[lambda g, x, c: g.relu(g.mul(x, c))])
def scaled_after(g: Graph, x: Tensor, c: Tensor) -> Tensor:
    """Right for a positive scale."""
    return g.mul(g.relu(x), c)


def outcomes(model, rules, **settings):
    """The outcome of each site by the tensor that it makes."""
    _, report = surgeon.rewrite(model, rules, keep_going=True, **settings)
    return {site.replaced[-1].outputs[0]: site.outcome for site in (*report.sites, *report.rolled_back)}


def test_a_proof_for_casts_of_integers_is_none_for_floats():
    text = """(int64[n, 4] i, float[n, 4] z) => (float[n, 4] y, float[n, 4] w)
        { x = Cast<to = 1>(i) f = Floor(x) y = Relu(f) s = Sin(z) h = Floor(s) w = Relu(h) }"""
    assert outcomes(parse(text), without_floor) == {"y": "proved", "w": "failed"}


def test_a_proof_for_what_equal_nodes_make_is_none_for_others():
    text = """(float[n, 4] u, float[n, 4] v) => (float[n, 4] y, float[n, 4] w)
        { a = Relu(u) b = Relu(u) s = Add(a, b) t = Abs(s) y = Neg(t)
          c = Sin(v) d = Sin(v) e = Add(c, d) f = Abs(e) w = Neg(f) }"""
    assert outcomes(parse(text), without_abs) == {"y": "proved", "w": "failed"}


def test_nodes_of_one_op_on_different_tensors_are_no_equals():
    """Neither region begins behind the Relu, though what it makes is never negative: that is no part of the pattern."""
    text = """(float[n, 4] u, float[n, 4] v) => (float[n, 4] y)
        { a = Relu(u) b = Relu(v) s = Add(a, b) t = Abs(s) y = Neg(t) }"""
    assert outcomes(parse(text), without_abs) == {"y": "failed"}


def test_floats_that_follow_from_integers_are_computed_as_the_model_does():
    """The root of a length, say: with any number in its place the fused form would be wrong."""

    @rule(patterns=[lambda g, q, k, s: g.softmax(g.div(g.matmul(q, k), s), axis=-1)])
    def default_scale(g: Graph, q: Tensor, k: Tensor, s: Tensor) -> Tensor:
        return g.softmax(g.mul(g.matmul(q, k), 0.5), axis=-1)

    text = """(float[n, t, 4] q, float[n, 4, t] k) => (float[n, t, t] y)
        <int64[1] b = {2}, int64[1] e = {3}, int64[1] a = {0}>
        { h = Shape(q) l = Slice(h, b, e, a) f = Cast<to = 1>(l) r = Sqrt(f) m = MatMul(q, k) d = Div(m, r)
          y = Softmax<axis = -1>(d) }"""
    assert outcomes(parse(text), default_scale) == {"y": "proved"}
    assert outcomes(parse(text.replace("4] q", "9] q").replace("n, 4, t] k", "n, 9, t] k")), default_scale) == {
        "y": "failed"
    }


def test_what_holds_for_the_data_of_one_model_alone_is_not_proved():
    """The rows of a LayerNorm are never small; a rule with another epsilon is wrong all the same."""

    @rule(patterns=[lambda g, x, s, b: g.neg(g.layer_normalization(x, s, b, axis=-1, epsilon=1e-12))])
    def other_epsilon(g: Graph, x: Tensor, s: Tensor, b: Tensor) -> Tensor:
        return g.neg(g.layer_normalization(x, s, b, axis=-1, epsilon=1e-5))

    text = """(float[n, 8] x, float[8] s, float[8] b) => (float[n, 8] y) <float[8] o = {1, 1, 1, 1, 1, 1, 1, 1}>
        { h = LayerNormalization<axis = -1>(x, o) l = LayerNormalization<axis = -1, epsilon = 1e-12>(h, s, b)
          y = Neg(l) }"""
    assert outcomes(parse(text), other_epsilon) == {"y": "failed"}


def test_integers_of_one_name_in_two_branches_are_two():
    text = """(int64[n, 4] i, bool c) => (float[n, 4] y) <float zero = {0.0}, int64 none = {0}>
        { y = If (c) <then_branch = yes () => (float[n, 4] t)
                { m = Max(i, none) k = Cast<to = 1>(m) q = Max(k, zero) t = Neg(q) },
              else_branch = no () => (float[n, 4] e)
                { m = Neg(i) k = Cast<to = 1>(m) q = Max(k, zero) e = Neg(q) }> }"""
    assert outcomes(parse(text), without_max) == {"t": "proved", "e": "failed"}


def test_a_proof_for_a_large_weight_is_none_for_data():
    """Weights take usual values alone, and are read where the proof fails for those."""
    text = "(float[n, 8192] x, float[n, 8192] z, float[8192] d) => (float[n, 8192] y, float[n, 8192] w)"
    model = parse(text + "{ a = Mul(x, c) y = Relu(a) b = Mul(z, d) w = Relu(b) }")
    model.graph.initializer.append(numpy_helper.from_array(np.full(8192, 0.5, np.float32), "c"))
    assert outcomes(model, scaled_after) == {"y": "proved", "w": "failed"}


def test_dims_that_nothing_reports_do_not_keep_regions_apart(monkeypatch):
    text = """(float[n] x) => (float[p, q] y, float[r, s] w)
        { a = NonZero(x) b = Cast<to = 1>(a) c = Sin(b) d = Relu(c) y = Relu(d)
          i = Neg(x) j = NonZero(i) k = Cast<to = 1>(j) l = Sin(k) m = Relu(l) w = Relu(m) }"""
    report, cuts = proofs_of(parse(text), relu_once, monkeypatch)
    assert report.outcome == "proved"
    assert len(cuts) == 1


def test_each_site_that_fails_is_reported_by_its_own_tensor(monkeypatch):
    @rule(patterns=[lambda g, x: g.relu(g.relu(x))])
    def doubled(g: Graph, x: Tensor) -> Tensor:
        return g.mul(g.relu(x), 2.0)

    text = "(float[n] x) => (float[n] y, float[n] w) { a = Relu(x) y = Relu(a) s = Sin(x) b = Relu(s) w = Relu(b) }"
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(parse(text), doubled)
    sites = caught.value.report.rolled_back
    assert [site.proof.reason.split()[0] for site in sites] == ["x", "s"]
    assert [site.proof.worst.name for site in sites] == ["y", "w"]


def test_a_right_site_among_many_wrong_ones_is_proved():
    """They look alike but for weights that are read only where the proof fails without."""
    count, names = 20, ("x", "c", "a", "y")
    nodes, weights = [], []
    for place in range(count):
        x, c, a, y = (f"{name}{place}" for name in names)
        nodes += [helper.make_node("Mul", [x, c], [a]), helper.make_node("Relu", [a], [y])]
        sign = 0.5 if place == count - 1 else -0.5
        weights.append(numpy_helper.from_array(np.full(8192, sign, np.float32), c))
    ports = [[helper.make_tensor_value_info(f"{end}{k}", 1, ["n", 8192]) for k in range(count)] for end in "xy"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", *ports, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    found = outcomes(model, scaled_after)
    assert found.pop(f"y{count - 1}") == "proved"
    assert set(found.values()) == {"failed"}


@pytest.mark.parametrize("others", [("float[8] c", ""), ("float[8] v", "c = Sin(v)")])
@pytest.mark.parametrize("is_first", [True, False])
def test_what_is_computed_from_constants_proves_nothing_of_data(others, is_first):
    """A scale of 0, 1, 2, ... is not negative; one that is given may be, in whatever order the sites stand."""
    given, made = others
    sites = ["r = Range(zero, eight, one) a = Mul(x, r) y = Relu(a)", f"{made} b = Mul(z, c) w = Relu(b)"]
    text = f"""(float[n, 8] x, float[n, 8] z, {given}) => (float[n, 8] y, float[n, 8] w)
        <float zero = {{0.0}}, float eight = {{8.0}}, float one = {{1.0}}>
        {{ {" ".join(sites if is_first else reversed(sites))} }}"""

    @rule(patterns=[lambda g, x, c: g.relu(g.mul(x, c))])
    def absolute(g: Graph, x: Tensor, c: Tensor) -> Tensor:
        return g.max(g.mul(g.abs(c), x), 0.0)

    found = outcomes(parse(text), absolute)
    assert found["w"] == "failed"
    assert found["y"] == "proved"


# Fixed dims that are made smaller


def test_a_slice_of_a_large_dim_is_none_of_all_of_it():
    @rule(patterns=[lambda g, x, s, e, a: g.relu(g.slice(x, s, e, a))])
    def whole(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    text = """(float[1, 512, 768] x) => (float[1, 512, 100] y) <int64[1] s = {0}, int64[1] e = {100}, int64[1] a = {2}>
        { p = Slice(x, s, e, a) y = Relu(p) }"""
    assert outcomes(parse(text), whole) == {"y": "failed"}


@pytest.mark.parametrize(("divisor", "outcome"), [("768.0", "proved"), ("767.0", "failed"), ("7.0", "failed")])
def test_a_number_may_speak_of_a_dim(divisor, outcome):
    @rule(patterns=[lambda g, x: g.div(g.reduce_sum(x, [-1], keepdims=1), float(divisor))])
    def mean(g: Graph, x: Tensor) -> Tensor:
        return g.reduce_mean(x, axes=[-1], keepdims=1)

    text = f"""(float[1, 512, 768] x) => (float[1, 512, 1] y) <int64[1] a = {{-1}}, float c = {{{divisor}}}>
        {{ p = ReduceSum<keepdims = 1>(x, a) y = Div(p, c) }}"""
    assert outcomes(parse(text), mean) == {"y": outcome}


def test_halves_of_a_large_dim():
    """The replacement speaks of a half of a dim: with another size in its place it would not run."""

    @rule(patterns=[lambda g, x, b, e, a: g.neg(g.slice(x, b, e, a))])
    def split(g: Graph, x: Tensor) -> Tensor:
        return g.neg(g.op("Split", x, np.array([64, 64]), outputs=2, axis=3)[1])

    text = """(float[1, 32, 2048, 128] x) => (float[1, 32, 2048, 64] y)
        <int64[1] b = {64}, int64[1] e = {9223372036854775807}, int64[1] a = {3}>
        { s = Slice(x, b, e, a) y = Neg(s) }"""
    assert outcomes(parse(text), split) == {"y": "proved"}


def test_all_kinds_of_inputs_are_shown_to_a_region_that_refuses_the_first_sizes():
    """Both inputs are as long as each other, though their dims have other names."""

    @rule(patterns=[lambda g, a, b: g.relu(g.add(a, b))])
    def wrong_for_huge_sums(g: Graph, a: Tensor, b: Tensor) -> Tensor:
        total = g.add(a, b)
        return g.relu(g.where(g.less(g.abs(total), 1e38), g.clip(total, -1e6, 1e6), total))

    text = "(float[one, 4] a, float[other, 4] b) => (float[n, 4] y) { s = Add(a, b) y = Relu(s) }"
    assert outcomes(parse(text), wrong_for_huge_sums) == {"y": "failed"}


@rule(patterns=[lambda g, x: g.cast(g.arg_max(x, axis=1), to=1)])
def places_in_bytes(g: Graph, x: Tensor) -> Tensor:
    """Right for up to 256 columns."""
    return g.cast(g.cast(g.arg_max(x, axis=1), to=2), to=1)


@pytest.mark.parametrize(("rows", "columns"), [(4096, (300, 200)), (1024, (200, 300)), (4096, (200, 300))])
def test_each_large_dim_is_run_as_it_is_where_all_of_them_are_too_much(rows, columns):
    """Also of those sites that are run on few inputs."""
    given = ", ".join(f"float[{rows}, {size}] x{size}" for size in columns)
    made = ", ".join(f"float[{rows}, 1] y{size}" for size in columns)
    body = " ".join(f"a{size} = ArgMax<axis = 1>(x{size}) y{size} = Cast<to = 1>(a{size})" for size in columns)
    found = outcomes(parse(f"({given}) => ({made}) {{ {body} }}"), places_in_bytes)
    assert found == {"y200": "proved", "y300": "failed"}


# How local functions are called


def test_a_function_called_in_many_ways():
    def text(last: int) -> str:
        sizes = [*range(2, 31), last]
        ports = ", ".join(f"float[{size}] x{place}" for place, size in enumerate(sizes))
        made = ", ".join(f"float[{size}] y{place}" for place, size in enumerate(sizes))
        calls = " ".join(f"y{place} = local.twice(x{place})" for place in range(len(sizes)))
        return f"""<ir_version: 8, opset_import: ["" : 17, "local" : 1]> agraph ({ports}) => ({made}) {{ {calls} }}
            <domain: "local", opset_import: ["" : 17]> twice (a) => (c) {{ b = Relu(a) c = Relu(b) }}"""

    @rule(patterns=[lambda g, x: g.relu(g.relu(x))])
    def wrong_for_one(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.squeeze(x))

    assert outcomes(parse(text(31)), wrong_for_one) == {"c": "proved"}
    assert outcomes(parse(text(1)), wrong_for_one) == {"c": "failed"}


def test_an_attribute_that_a_call_gives_under_another_name():
    """Above the region a node of a function takes its axis from the call."""

    @rule(patterns=[lambda g, x, k: g.relu(g.relu(g.add(x, k)))])
    def once(g: Graph, x: Tensor, k: Tensor) -> Tensor:
        return g.relu(g.add(k, x))

    text = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]> agraph (int64[n, 4] i, float[n, 4] x)
        => (float[n, 4] y) { y = local.f<along = 1>(i, x) }
        <domain: "local", opset_import: ["" : 17]> f <along>(i, x) => (c)
        { m = ArgMax<axis: int = @along>(i) k = Cast<to = 1>(m) b = Add(x, k) e = Relu(b) c = Relu(e) }"""
    assert outcomes(parse(text), once) == {"c": "proved"}


def test_a_plugin_that_is_lowered_is_not_proved_by_its_own_pattern():
    """Nothing here runs the original: what runs the replacement is not all that was asked."""

    @rule(patterns=[lambda g, x: g.mul(x, g.sigmoid(x))])
    def silu(g: Graph, x: Tensor) -> Tensor:
        return g.op("trt.plugins::SiLU", x)

    text = """<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]> agraph (float[n, 4] x) => (float[n, 4] y)
        { y = trt.plugins.SiLU(x) }"""
    _, report = surgeon.rewrite(parse(text), silu, target="decomposed")
    (proof,) = report.proofs
    assert (proof.outcome.value, proof.independent) == ("unproved", False)
    assert "own pattern" in proof.oracle


def test_nodes_that_share_a_name():
    """As those of two scopes may; each still has its own meaning where nothing but the pattern gives it."""

    @rule(patterns=[lambda g, x: g.neg(g.relu(x))])
    def plugin(g: Graph, x: Tensor) -> Tensor:
        return g.op("trt.plugins::NegRelu", x)

    text = "(float[n] x, float[n] z) => (float[n] y, float[n] w)"
    model = parse(text + "{ a = Relu(x) y = Neg(a) b = Relu(z) w = Neg(b) }")
    for node in model.graph.node:
        node.name = "same"
    _, report = surgeon.rewrite(model, plugin)
    assert {site.proof.independent for site in report.sites} == {False}
    assert {site.proof.runs > 10 for site in report.sites} == {True}
