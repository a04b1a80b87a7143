"""Operators of tensors on both sides of a rule, and what is said of a tensor where a number is meant."""

import re

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import Graph, RuleError, Tensor
from surgeon.testing import parse

MODEL = "(float[n, 4] x, float[n, 4] z) => (float[n, 4] y) <float b = {{1.5}}> {{ {} }}"
# A tensor by operators, and the nodes that they stand for.
SPELLED = {
    "sum": (lambda g, x, z: g.relu(x) + z, "r = Relu(x) y = Add(r, z)"),
    "product": (lambda g, x, z: g.relu(x) * z, "r = Relu(x) y = Mul(r, z)"),
    "product with a number": (lambda g, x, z: g.relu(x * z) * 1.5, "p = Mul(x, z) r = Relu(p) y = Mul(r, b)"),
    "a number first": (lambda g, x, z: 1.5 - x / z, "q = Div(x, z) y = Sub(b, q)"),
    "an array first": (lambda g, x, z: np.float32(1.5) * g.relu(x - z), "d = Sub(x, z) r = Relu(d) y = Mul(b, r)"),
    "a power": (lambda g, x, z: g.relu(x + z) ** 1.5, "s = Add(x, z) r = Relu(s) y = Pow(r, b)"),
    "signs": (lambda g, x, z: -abs(x * z), "p = Mul(x, z) a = Abs(p) y = Neg(a)"),
    "a product of matrices": (lambda g, x, z: x @ g.transpose(z, perm=[1, 0]), ""),
}


def nodes_of(model):
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("name", [name for name, (_, body) in SPELLED.items() if body])
def test_operators_say_in_a_pattern_what_the_helpers_say(name):
    """The one node that is written has both tensors."""
    pattern, body = SPELLED[name]
    rule = surgeon.rule(patterns=[pattern], target="any", name="spelled")(lambda g, x, z: g.op("acme::It", x, z))
    made, report = surgeon.rewrite(parse(MODEL.format(body)), rule, check="none")
    assert report.count("spelled") == 1
    assert nodes_of(made) == ["It"]


@pytest.mark.parametrize("name", SPELLED)
def test_operators_write_nodes_in_a_replacement(name):
    """In the place of a node of a user's: those that the table names, a number in the dtype of its neighbour."""
    replacement, body = SPELLED[name]
    rule = surgeon.rule(patterns=[lambda g, x, z: g.op("acme::It", x, z)], target="any", name="spelled")(replacement)
    before = parse(
        '<ir_version: 10, opset_import: ["": 18, "acme": 1]> '
        "g (float16[n, 4] x, float16[n, 4] z) => (float16[n, m] y) { y = acme.It(x, z) }"
    )
    made, _ = surgeon.rewrite(before, rule, check="none")
    wanted = nodes_of(parse(MODEL.format(body))) if body else ["Transpose", "MatMul"]
    assert [op for op in nodes_of(made) if op != "Constant"] == wanted
    kinds = {tensor.data_type for tensor in made.graph.initializer}
    assert kinds <= {onnx.TensorProto.FLOAT16} or "Pow" in wanted  # whose exponent has a type of its own


def test_operators_work_in_the_body_of_a_local_function():
    @surgeon.function("acme::Twice")
    def twice(g: Graph, x: Tensor) -> Tensor:
        return x * 2.0 + x

    rule = surgeon.rule(patterns=[lambda g, x: g.relu(x)], target="any", name="calls")(lambda g, x: twice(g, x))
    made, _ = surgeon.rewrite(parse("(float[n] x) => (float[n] y) { y = Relu(x) }"), rule, check="none")
    assert {"Mul", "Add"} <= {node.op_type for node in made.functions[0].node}


@pytest.mark.parametrize(
    ("written", "helper"),
    [
        (lambda g, x: x % 2.0, "Tensors do not support the operator %. Write g.mod(x, y, fmod=1)"),
        (lambda g, x: 7 // x, "Tensors do not support the operator //. Write g.floor(g.div(x, y))"),
        (lambda g, x: x if x > 0 else g.neg(x), "Tensors do not support the operator >. Write g.greater(x, y)"),
        (lambda g, x: (g.abs(x) <= x) & x, "Tensors do not support the operator <=. Write g.less_or_equal(x, y)"),
        (lambda g, x: ~x, "Tensors do not support the operator ~. Write g.not_(x)"),
        (lambda g, x: x[0], "'surgeon.Tensor' object is not subscriptable"),
        (lambda g, x: g.abs(x).T, "'surgeon.Tensor' object has no attribute 'T'"),
        (lambda g, x: np.exp(x), "operand 'surgeon.Tensor' does not support ufuncs"),
    ],
)
def test_an_operator_that_is_none_names_its_helper(written, helper):
    """And Python's own messages say Tensor."""
    rule = surgeon.rule(patterns=[lambda g, x: g.relu(x)], target="any", name="r")(written)
    with pytest.raises((RuleError, surgeon.RewriteError), match=re.escape(helper)):
        surgeon.rewrite(parse("(float[n] x) => (float[n] y) { y = Relu(x) }"), rule)


def test_an_operator_that_is_none_names_its_helper_in_a_pattern():
    def halves(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x) // 2

    with pytest.raises(RuleError, match=r"Write g\.floor\(g\.div\(x, y\)\)"):
        surgeon.rules.tracing.tracer.trace(halves)


def test_a_condition_computes_nothing():
    def small(x: Tensor) -> None:
        surgeon.require((x * 2) is None, "never")

    rule = surgeon.rule(patterns=[lambda g, x: g.relu(x)], target="any", name="r", conditions=[small])
    with pytest.raises(RuleError, match=r"only in patterns and replacements; there, this one is g\.mul\(\.\.\.\)"):
        surgeon.rewrite(parse("(float[n] x) => (float[n] y) { y = Relu(x) }"), rule(lambda g, x: g.abs(x)))


def test_numbers_of_a_pattern_are_not_computed_with():
    """Two numbers make no node, and no pattern knows them: a tensor and a number make one."""

    def both(g: Graph, x: Tensor, a: float) -> Tensor:
        return g.relu(x) * (a * 2)

    with pytest.raises(RuleError, match="the value of a is unknown"):
        surgeon.rules.tracing.tracer.trace(both)


@pytest.mark.parametrize(
    ("op", "attribute", "stored", "annotation"),
    [
        ("acme::Swish", "beta", "float b = {1.5}", "b: float"),
        ("acme::Swish", "beta", "float[1] b = {1.5}", "b: list"),
        ("acme::Shift", "places", "int64 b = {3}", "b: int"),
        ("LeakyRelu", "alpha", "float b = {0.5}", "b: float"),
        ("Softmax", "axis", "int64 b = {1}", "b: int"),
        ("Transpose", "perm", "int64[2] b = {1, 0}", "b: list"),
    ],
)
def test_a_parameter_without_its_annotation_is_named(op, attribute, stored, annotation):
    """An attribute holds the number of a constant, which an annotation asks for."""
    kind = stored.partition(" ")[0]
    body = "c = CastLike(b, x) p = Mul(x, c)" if kind != "float" else "p = Mul(x, b)"
    model = parse(f"(float[n, 4] x) => (float[n, 4] y) <{stored}> {{ {body} y = Relu(p) }}")

    def pattern(g: Graph, x: Tensor, b: Tensor) -> Tensor:
        return g.relu(g.mul(x, b if kind == "float" else g.cast_like(b, x)))

    rule = surgeon.rule(patterns=[pattern], target="any", name="r")
    written = rule(lambda g, x, b: g.op(op, x, **{attribute: b}))
    with pytest.raises(RuleError, match=rf"cannot be a tensor \('b'\)\. .*annotate the parameter .*: {annotation}$"):
        surgeon.rewrite(model, written)


def test_a_tensor_that_is_computed_is_no_attribute():
    rule = surgeon.rule(patterns=[lambda g, x: g.relu(g.exp(x))], target="any", name="r")
    with pytest.raises(RuleError, match="Give the tensor as an input, or compute the number in Python"):
        surgeon.rewrite(
            parse("(float[n] x) => (float[n] y) { e = Exp(x) y = Relu(e) }"),
            rule(lambda g, x: g.op("acme::It", x, alpha=g.abs(x))),
        )
