"""What `explain` proposes to change in a model lets the rule fire there, and leaves a model that onnx takes."""

import ast
import re

import onnx
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon.testing import parse

ONE, TWO = "(float[3, 4] x)", "(float[3, 4] x, float[3, 4] z)"
IMAGE = "(float[1, 4, 8, 8] x, float[4, 4, 3, 3] z)"


def relu(form):
    """Whatever it is, with a Relu behind it."""
    if form.__code__.co_argcount == 3:
        return lambda g, x, y: g.relu(form(g, x, y))
    return lambda g, x: g.relu(form(g, x))


FOLLOWED = {
    "an axis": (ONE, "[3, 4]", "a = Softmax <axis = 0> (x)", relu(lambda g, x: g.softmax(x, axis=-1))),
    "a transpose of a square": (
        "(float[4, 4] x)",
        "[4, 4]",
        "a = Transpose <perm = [0, 1]> (x)",
        relu(lambda g, x: g.transpose(x, perm=[1, 0])),
    ),
    "a number": (ONE, "[3, 4]", "a = LeakyRelu <alpha = 0.2> (x)", relu(lambda g, x: g.leaky_relu(x, alpha=0.1))),
    "a default": (ONE, "[3, 4]", "a = LeakyRelu <alpha = 0.2> (x)", relu(lambda g, x: g.leaky_relu(x))),
    "a constant": (ONE, "[3, 4]", "a = Mul(x, k)", relu(lambda g, x: g.mul(x, 0.5))),
    "a row": (ONE, "[3, 4]", "a = Add(x, row)", relu(lambda g, x: g.add(x, [1.0, 2.0, 3.0, 5.0]))),
    "a bound": (ONE, "[3, 4]", "a = Clip(x, low, k)", relu(lambda g, x: g.clip(x, 0.0, 6.0))),
}
LEFT = {
    "a transpose": (ONE, "[4, 3]", "a = Transpose <perm = [1, 0]> (x)", relu(lambda g, x: g.transpose(x, perm=[0, 1]))),
    "one of another rank": (
        "(float[2, 3, 4] x)",
        "[2, 4, 3]",
        "a = Transpose <perm = [0, 2, 1]> (x)",
        relu(lambda g, x: g.transpose(x, perm=[1, 0])),
    ),
    "where sizes are free": (
        "(float[b, m, n] x)",
        "[b, n, m]",
        "a = Transpose <perm = [0, 2, 1]> (x)",
        relu(lambda g, x: g.transpose(x, perm=[1, 0, 2])),
    ),
    "where it joins": (TWO, "[6, 4]", "a = Concat <axis = 0> (x, z)", relu(lambda g, x, y: g.concat(x, y, axis=1))),
    "strides": (IMAGE, "[1, 4, 6, 6]", "a = Conv(x, z)", relu(lambda g, x, y: g.conv(x, y, strides=[2, 2]))),
    "another side": (
        "(float[3, 4] x, float[4, 5] z)",
        "[3, 5]",
        "a = Gemm(x, z)",
        relu(lambda g, x, y: g.gemm(x, y, transB=1)),
    ),
    "axes that go": (
        ONE,
        "[3, 1]",
        "a = ReduceMax <axes = [1]> (x)",
        relu(lambda g, x: g.reduce_max(x, [1], keepdims=0)),
    ),
    "another dtype": (ONE, "[3, 4]", "c = Cast <to = 10> (x)  a = Cast <to = 1> (c)", lambda g, x: g.cast(x, to=11)),
    "a new axis": (ONE, "[3, 1, 4]", "a = Unsqueeze(x, at)", relu(lambda g, x: g.unsqueeze(x, [0]))),
    "an op that is not there yet": (ONE, "[3, 4]", "a = com.microsoft.Gelu(x)", relu(lambda g, x: g.gelu(x))),
}


def drawn(case):
    inputs, shape, body, pattern = case
    stored = "<float low = {0}, float k = {0.4}, float[4] row = {1, 2, 3, 4}, int64[1] at = {1}>"
    model = parse(f"{inputs} => (float{shape} y) {stored} {{ {body}  y = Relu(a) }}")
    read = {name for node in model.graph.node for name in node.input}
    kept = [item for item in model.graph.initializer if item.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.checker.check_model(model, full_check=True)
    replacement = (lambda g, x, y: g.op("acme::r", x, y)) if pattern.__code__.co_argcount == 3 else None
    made = surgeon.rule(patterns=[pattern], target="any", name="told")
    return model, made(replacement or (lambda g, x: g.op("acme::r", x)))


def follow(model, change):
    """Do to the node or constant what a line says."""
    (node,) = (node for node in model.graph.node if "a" in node.output)
    said = re.fullmatch(r"(set|remove) (\w+) (?:of|from) a(?: to (.*))?", change)
    if said:
        kept = [item for item in node.attribute if item.name != said[2]]
        del node.attribute[:]
        node.attribute.extend(kept)
        if said[1] == "set":
            node.attribute.append(helper.make_attribute(said[2], ast.literal_eval(said[3])))
        return
    said = re.fullmatch(r"set (\w+) to (.*)", change)
    assert said, change
    (stored,) = (item for item in model.graph.initializer if item.name == said[1])
    old = numpy_helper.to_array(stored)
    value = old.copy()
    value[...] = ast.literal_eval(said[2])
    stored.CopyFrom(numpy_helper.from_array(value, said[1]))


@pytest.mark.parametrize("title", FOLLOWED)
def test_a_change_that_is_followed_lets_the_rule_fire(title):
    model, reported = drawn(FOLLOWED[title])
    follow(model, surgeon.explain(model, reported)[0].change)
    onnx.checker.check_model(model, full_check=True)
    assert len(list(surgeon.find(model, reported))) == 1


@pytest.mark.parametrize("title", LEFT)
def test_a_change_that_would_break_the_model_is_not_proposed(title):
    model, reported = drawn(LEFT[title])
    misses = surgeon.explain(model, reported)
    assert misses
    assert misses[0].node
    assert [miss.change for miss in misses] == [""] * len(misses)
