"""Wrong rules are caught at each site, right ones pass where rounding makes it hard."""

import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.testing import parse


def half_erf(g: Graph, x: Tensor) -> Tensor:
    return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2**0.5)), 1.0))


GELU = """(float[batch, 8] x) => (float[batch, 8] y) <float two = {1.4142135}, float one = {1.0}, float half = {0.5}>
    { d = Div(x, two) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }"""


def failing(model, wrong, **settings):
    """The one site that a wrong rule is rolled back at; the model comes back as it was."""
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(model, wrong, **settings)
    report = caught.value.report
    (site,) = report.rolled_back
    assert site.outcome == "failed"
    assert not report.sites
    assert caught.value.result.SerializeToString() == model.SerializeToString()
    return site


def test_wrong_constant():
    @rule(patterns=[half_erf])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.mul(g.ms_gelu(x), 1.0001)

    site = failing(parse(GELU), wrong)
    text = r"x\[0, 7\] = .* gives y\[0, 7\] = .* instead of .* off by .*, limit .*\)$"
    assert re.match(text, site.proof.reason)
    assert site.proof.worst.rewritten.max_abs > 10 * site.proof.worst.original.max_abs


def test_swapped_inputs():
    @rule(patterns=[lambda g, a, b: g.relu(g.sub(a, b))])
    def wrong(g: Graph, a: Tensor, b: Tensor) -> Tensor:
        return g.max(g.sub(b, a), 0.0)

    site = failing(parse("(float[n] a, float[n] b) => (float[n] y) { d = Sub(a, b) y = Relu(d) }"), wrong)
    assert site.proof.worst.rewritten.max_abs > 0.1


def test_lost_cast():
    """The squares of large halves do not fit a half: what was computed in single precision must stay so."""

    @rule(patterns=[lambda g, x: g.cast(g.sqrt(g.reduce_mean(g.pow(g.cast(x, to=1), 2), axes=[-1])), to=10)])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.sqrt(g.reduce_mean(g.mul(x, x), axes=[-1]))

    text = """(float16[n, 64] x) => (float16[n, 1] y) <float two = {2.0}>
        { c = Cast<to = 1>(x) p = Pow(c, two) m = ReduceMean<axes = [-1]>(p) r = Sqrt(m) y = Cast<to = 10>(r) }"""
    site = failing(parse(text), wrong)
    assert re.match(r"x\[0, \d+\] = \S+e-05 gives 0.0 instead of \S+e-06 ", site.proof.reason), "as large ones are"


def test_lost_cast_that_changes_the_dtype():
    @rule(patterns=[lambda g, x: g.cast(g.relu(x), to=10)])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.cast(g.relu(x), to="float32")

    site = failing(parse("(float[n] x) => (float16[n] y) { r = Relu(x) y = Cast<to = 10>(r) }"), wrong)
    assert "float32, but float16 in the original" in site.proof.reason


def test_wrong_axis():
    @rule(patterns=[lambda g, x: g.neg(g.softmax(x, axis=1))])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.neg(g.softmax(x, axis=2))

    failing(parse("(float[b, s, s] x) => (float[b, s, s] y) { m = Softmax<axis = 1>(x) y = Neg(m) }"), wrong)


def test_broadcast_that_changes_the_shape():
    @rule(patterns=[lambda g, a, b: g.relu(g.add(g.reduce_max(a, b, keepdims=0), 0.0))])
    def keeps_the_axis(g: Graph, a: Tensor, b: Tensor) -> Tensor:
        return g.relu(g.reduce_max(a, b, keepdims=1))

    text = """<ir_version: 9, opset_import: ["" : 18]> agraph (float[n, 4] a) => (float[n] y)
        <int64[1] axes = {1}, float zero = {0.0}>
        { m = ReduceMax<keepdims = 0>(a, axes) z = Add(m, zero) y = Relu(z) }"""
    site = failing(parse(text), keeps_the_axis)
    assert "has shape" in site.proof.reason


def test_right_for_rank_3_and_wrong_for_rank_2():
    @rule(patterns=[lambda g, x: g.relu(g.softmax(x, axis=-1))])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.max(g.softmax(x, axis=2 if x.rank == 3 else 0), 0.0)

    three = "(float[b, s, h] x) => (float[b, s, h] y) { m = Softmax<axis = -1>(x) y = Relu(m) }"
    made, report = surgeon.rewrite(parse(three), wrong)
    assert report.outcome == "proved"
    failing(parse(three.replace("b, s, h", "s, h")), wrong)


def test_wrong_only_at_infinity():
    """min(x, 3e38) is x for all numbers but +inf."""

    @rule(patterns=[lambda g, x: g.neg(g.min(x, 3e38))])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.neg(x)

    text = "(float[n, 4] x) => (float[n, 4] y) <float top = {3e38}> { m = Min(x, top) y = Neg(m) }"
    site = failing(parse(text), wrong)
    assert "inf" in site.proof.reason


ELEVEN = "\n".join(
    f"d{n} = Div(x{n}, two) e{n} = Erf(d{n}) a{n} = Add(e{n}, one) m{n} = Mul(x{n}, a{n}) x{n + 1} = Mul(m{n}, half)"
    for n in range(12)
)


def test_right_at_eleven_sites_and_wrong_at_one():
    @rule(patterns=[half_erf])
    def wrong_once(g: Graph, x: Tensor) -> Tensor:
        return g.mul(g.ms_gelu(x), 0.9 if x.name == "x7" else 1.0)

    text = f"""(float[batch, 8] x0) => (float[batch, 8] x12)
        <float two = {{1.4142135}}, float one = {{1.0}}, float half = {{0.5}}> {{ {ELEVEN} }}"""
    model = parse(text)
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(model, wrong_once)
    report, made = caught.value.report, caught.value.result
    assert len(report.sites) == 11
    assert report.count("wrong_once") == 11
    (site,) = report.rolled_back
    assert site.replaced[-1].outputs == ("x8",)
    assert "1 of 12 sites was rolled back" in str(caught.value)
    assert "wrong_once at x8: x7[0, 7] = " in str(caught.value)
    assert [node.op_type for node in made.graph.node].count("Gelu") == 11
    onnx.checker.check_model(parse(text))
    again, kept = surgeon.rewrite(model, wrong_once, keep_going=True)
    assert again.SerializeToString() == made.SerializeToString()
    assert kept.outcome == "failed"


LAYER_NORM = """<ir_version: 9, opset_import: ["" : 17]> agraph (float[b, s, 32] x) => (float[b, s, 32] y)
    <float[1] offset = {10000.0}, float two = {2.0}, float eps = {1e-5}>
    { o = Add(x, offset) m = ReduceMean<axes = [-1]>(o) d = Sub(o, m) p = Pow(d, two) v = ReduceMean<axes = [-1]>(p)
      e = Add(v, eps) r = Sqrt(e) y = Div(d, r) }"""


@rule(patterns=[lambda g, x: _layer_norm(g, x)], target="onnx")
def layer_norm(g: Graph, x: Tensor) -> Tensor:
    """Fuse."""
    width = x.shape[-1]
    dtype = x.dtype
    return g.layer_normalization(x, np.ones(width, dtype), np.zeros(width, dtype), axis=-1, epsilon=1e-5)


def _layer_norm(g: Graph, x: Tensor) -> Tensor:
    d = g.sub(x, g.reduce_mean(x, axes=[-1]))
    return g.div(d, g.sqrt(g.add(g.reduce_mean(g.pow(d, 2), axes=[-1]), 1e-5)))


def test_layer_norm_of_large_mean_passes():
    _, report = surgeon.rewrite(parse(LAYER_NORM), layer_norm, target="onnx")
    assert report.outcome == "proved", report.sites[0].proof


def test_half_precision_gelu_passes():
    model = parse(GELU.replace("float[", "float16["))
    for tensor in model.graph.initializer:
        half = numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    _, report = surgeon.rewrite(model, "gelu")
    assert report.outcome == "proved", report.sites[0].proof
    worst = report.sites[0].proof.worst
    assert worst.dtype == "float16"
    assert 0 < worst.severity <= 1


FEW = {
    "where a lone number is the one it is compared with": (
        "int64[1] x, float[1] u, float[1] v", "<int64 k = {5}> { t = Equal(x, k) y = Where(t, u, v) }", "float[1]",
        lambda g, x, u, v: g.where(g.equal(x, np.int64(5)), u, v), lambda g, x, u, v: v),
    "where a lone float is the one it is compared with": (
        "float[1] x, float[1] u", "<float k = {0.5}> { t = Greater(x, k) y = Where(t, u, x) }", "float[1]",
        lambda g, x, u: g.where(g.greater(x, 0.5), u, x), lambda g, x, u: g.where(g.greater_or_equal(x, 0.5), u, x)),
    "at ties of a rounding, in a list": (
        "float[n] x", "<float k = {0.5}> { t = Mul(x, k) y = Round(t) }", "float[n]",
        lambda g, x: g.round(g.mul(x, 0.5)), lambda g, x: g.floor(g.add(g.mul(x, 0.5), 0.5))),
    "between two constants of the replacement": (
        "float[n] x", "{ y = Relu(x) }", "float[n]", lambda g, x: g.relu(x),
        lambda g, x: g.where(g.and_(g.greater(x, 777.0), g.less(x, 778.0)), 0.0, g.max(x, 0.0))),
    "at ties of a product": (
        "float[n] x, float[n] z", "{ t = Mul(x, z) y = Round(t) }", "float[n]",
        lambda g, x, z: g.round(g.mul(x, z)), lambda g, x, z: g.floor(g.add(g.mul(x, z), 0.5))),
    "at ties of a quotient": (
        "float[n] x, float[1] z", "{ t = Div(x, z) y = Round(t) }", "float[n]",
        lambda g, x, z: g.round(g.div(x, z)), lambda g, x, z: g.floor(g.add(g.div(x, z), 0.5))),
    "at a large number of the replacement": (
        "float[n] x", "{ y = Relu(x) }", "float[n]", lambda g, x: g.relu(x),
        lambda g, x: g.where(g.equal(x, 12345.0), 9.0, g.max(x, 0.0))),
    "where two inputs are what they are compared with": (
        "int64[n] a, int64[n] b, float[n] u, float[n] v",
        "<int64 k = {3}, int64 l = {5}> { p = Equal(a, k) q = Equal(b, l) t = And(p, q) y = Where(t, u, v) }",
        "float[n]", lambda g, a, b, u, v: g.where(g.and_(g.equal(a, np.int64(3)), g.equal(b, np.int64(5))), u, v),
        lambda g, a, b, u, v: g.where(g.and_(g.less(a, b), g.less(b, a)), u, v)),
    "where two floats are what they are compared with": (
        "float[n] a, float[n] b, float[n] u, float[n] v",
        "<float k = {3.25}, float l = {5}> { p = Equal(a, k) q = Equal(b, l) t = And(p, q) y = Where(t, u, v) }",
        "float[n]", lambda g, a, b, u, v: g.where(g.and_(g.equal(a, 3.25), g.equal(b, 5.0)), u, v),
        lambda g, a, b, u, v: g.where(g.and_(g.less(a, b), g.less(b, a)), u, v)),
    "for the string that it is compared with": (
        "string[n] x", '<string k = {"abc"}> { y = Equal(x, k) }', "bool[n]",
        lambda g, x: g.equal(x, g.literal(np.array("abc", dtype=object))), lambda g, x: g.not_(g.equal(x, x))),
}  # fmt: skip


@pytest.mark.parametrize(("inputs", "body", "output", "right", "wrong"), FEW.values(), ids=FEW)
def test_wrong_at_a_single_number_of_few_elements(inputs, body, output, right, wrong):
    """Where there is room for few of the numbers at which a region decides, they are tried one after the other."""
    text = f'<ir_version: 9, opset_import: ["" : 19]> g ({inputs}) => ({output} y) {body}'
    failing(onnx.parser.parse_model(text), rule(patterns=[right], target="any", name="wrong")(wrong), ep="any")
