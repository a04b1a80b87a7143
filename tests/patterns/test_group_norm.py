"""Group normalisation: what is fused, what does not match and why."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from surgeon.patterns.norms.group_norm import group_norm

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 6, h, w] x) => (float[n, 6, h, w] y)"
CONSTANTS = {
    "one": "float[3] one = {1, 1, 1}",
    "zero": "float[3] zero = {0, 0, 0}",
    "split": "int64[3] split = {0, 3, -1}",
    "scale": "float[6, 1, 1] scale = {1.5, -0.5, 2, 1, 3, 0.25}",
    "bias": "float[6, 1, 1] bias = {1, 2, 3, 4, 5, 6}",
}
NORM = "g = Reshape(x, split) i = InstanceNormalization<epsilon = 1e-5>(g, one, zero) f = Shape(x) r = Reshape(i, f)"
SCALED = f"{NORM} m = Mul(r, scale) y = Add(m, bias)"
BY_HAND = """b0 = Shape<start = 0, end = 1>(x) s0 = Concat<axis = 0>(b0, rest) g = Reshape(x, s0)
    a = ReduceMean(g, last) c = Sub(g, a) q = Mul(c, c) v = ReduceMean(q, last) e = Add(v, eps) s = Sqrt(e)
    d = Div(c, s) f = Shape(x) r = Reshape(d, f) m = Mul(r, scale) y = Add(m, bias)"""
HAND = {"rest": "int64[2] rest = {3, -1}", "last": "int64[1] last = {-1}", "eps": "float eps = {1e-5}"}

VECTORS = {name: CONSTANTS[name].replace("[6, 1, 1]", "[6]") for name in ("scale", "bias")}
OF_ORT = """l = Transpose<perm = [0, 2, 3, 1]>(x)
    n = com.microsoft.GroupNorm<activation = 0, groups = 3, epsilon = 1e-5>(l, scale, bias)
    y = Transpose<perm = [0, 3, 1, 2]>(n)"""


def graph(body, head=HEAD, opset=21, **changed):
    text = ", ".join({**CONSTANTS, **changed}.values())
    return parse(
        f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> agraph {head} <{text}> {{ {body} }}'
    )


# fmt: off
FIRES = [
    Case(group_norm, "torch: Reshape, InstanceNormalization, Reshape, Mul, Add", graph(SCALED), target="onnx"),
    Case(group_norm, "no scale and bias", graph(NORM.replace("r = ", "y = ")), target="onnx"),
    Case(group_norm, "a scale of shape [1, 1, 1]", target="onnx",
         model=graph(SCALED, scale="float[1, 1, 1] scale = {1.5}", bias="float bias = {0.5}")),
    Case(group_norm, "a scale of shape [1, 6, 1, 1]", target="onnx",
         model=graph(SCALED, scale="float[1, 6, 1, 1] scale = {1.5, -0.5, 2, 1, 3, 0.25}")),
    Case(group_norm, "fixed sizes in the second Reshape", target="onnx",
         model=graph(SCALED.replace("f = Shape(x)", ""), HEAD.replace("n, 6, h, w", "2, 6, 5, 3"),
                     f="int64[4] f = {2, 6, 5, 3}")),
    Case(group_norm, "two axes behind the channels of a group", target="onnx",
         model=graph(SCALED, HEAD.replace("n, 6, h, w", "n, 6, 5, 3"), split="int64[5] split = {0, 3, 2, 5, 3}")),
    Case(group_norm, "three axes", target="onnx",
         model=graph(SCALED, HEAD.replace("n, 6, h, w", "n, 6, w"), scale="float[6, 1] scale = {1, 2, 3, 4, 5, 6}",
                     bias="float[6, 1] bias = {1, 2, 3, 4, 5, 6}")),
    Case(group_norm, "by hand, the shape computed", graph(BY_HAND, **HAND), target="onnx"),
    Case(group_norm, "a scale that is computed stays behind", target="onnx",
         model=graph(SCALED.replace("Mul(r, scale)", "Mul(r, film)"),
                     HEAD.replace("w] x)", "w] x, float[n, 6, 1, 1] film)"))),
    Case(group_norm, "for a GPU: channels last, between two Transposes", graph(SCALED), ep="cuda", check=False),
    Case(group_norm, "for a GPU below opset 21", graph(SCALED, opset=14), ep="cuda", check=False),
    Case(group_norm, "for a GPU, three axes", ep="cuda", check=False,
         model=graph(SCALED, HEAD.replace("n, 6, h, w", "n, 6, w"), scale="float[6, 1] scale = {1, 2, 3, 4, 5, 6}",
                     bias="float[6, 1] bias = {1, 2, 3, 4, 5, 6}")),
    Case(group_norm, "for a GPU, by hand", graph(BY_HAND, **HAND), ep="cuda", check=False),
    Case(group_norm, "the node of a GPU back to the standard's", graph(OF_ORT, **VECTORS), target="onnx", check=False),
    Case(group_norm, "the node of a GPU back to primitives", target="decomposed", check=False,
         model=graph(OF_ORT, HEAD.replace("h, w", "2, 3"), **VECTORS)),
    Case(group_norm, "the standard's node to that of a GPU", target="contrib", ep="cuda", check=False,
         model=graph("y = GroupNormalization<num_groups = 3>(x, scale, bias)", **VECTORS)),
    Case(group_norm, "back to primitives", target="decomposed",
         model=graph("y = GroupNormalization<num_groups = 3, epsilon = 1e-5>(x, scale, bias)",
                     HEAD.replace("h, w", "2, 3"), scale="float[6] scale = {1.5, -0.5, 2, 1, 3, 0.25}",
                     bias="float[6] bias = {1, 2, 3, 4, 5, 6}")),
]
NEGATIVES = [
    Case(group_norm, "opset 20 has one scale for a group", why="needs opset 21", target="onnx",
         model=graph(SCALED, opset=20)),
    Case(group_norm, "the groups have scales of their own", why="scale one and bias zero", target="onnx",
         model=graph(SCALED, one="float[3] one = {1, 2, 1}")),
    Case(group_norm, "the groups have biases of their own", why="scale one and bias zero", target="onnx",
         model=graph(SCALED, zero="float[3] zero = {0, 0.5, 0}")),
    Case(group_norm, "the first axis is not the batch", why="must be the batch", target="onnx",
         model=graph(SCALED, HEAD.replace("n, 6, h, w", "2, 6, h, w"), split="int64[3] split = {1, 3, -1}")),
    Case(group_norm, "another shape behind", why="the shape of the input", target="onnx",
         model=graph(NORM.replace("f = Shape(x)", "").replace("r = ", "y = "),
                     "(float[n, 6, 4, 2] x) => (float[n, 6, 2, 4] y)", f="int64[4] f = {0, 6, 2, 4}")),
    Case(group_norm, "mean over a part of a group", why="all axes after the channels", target="onnx",
         model=graph(BY_HAND, HEAD.replace("h, w", "5, 3"), **{**HAND, "rest": "int64[3] rest = {3, 2, -1}"})),
    Case(group_norm, "the number of channels is not fixed", why="channels is not fixed", target="onnx",
         model=graph(NORM.replace("r = ", "y = "), HEAD.replace("n, 6", "n, c"))),
    Case(group_norm, "a CPU has a kernel for neither node", graph(SCALED),
         why="no kernel for com.microsoft::GroupNorm"),
    Case(group_norm, "an odd number of channels in a group", why="an even number of channels", ep="cuda",
         model=graph(NORM.replace("r = ", "y = "), one="float[2] one = {1, 1}", zero="float[2] zero = {0, 0}",
                     split="int64[3] split = {0, 2, -1}")),
    Case(group_norm, "more channels in a group than the kernel takes", why="at most 512", ep="cuda",
         model=graph(NORM.replace("r = ", "y = "), HEAD.replace("n, 6", "n, 514"), one="float[1] one = {1}",
                     zero="float[1] zero = {0}", split="int64[3] split = {0, 1, -1}")),
    Case(group_norm, "the node of a GPU has a SiLU in it", why="activation", target="onnx",
         model=graph(OF_ORT.replace("activation = 0", "activation = 1"), **VECTORS)),
    Case(group_norm, "two axes for a GPU", why="needs four axes", ep="cuda",
         model=graph(NORM.replace("r = ", "y = "), HEAD.replace("n, 6, h, w", "n, 6"))),
    Case(group_norm, "GroupNormalization stays for ONNX Runtime", why="", ep="cuda",
         model=graph("y = GroupNormalization<num_groups = 3>(x, scale, bias)", **VECTORS)),
    Case(group_norm, "before opset 21 a node has one scale for a group", why="vectors over the channels",
         target="contrib", ep="cuda",
         model=graph("y = GroupNormalization<num_groups = 3>(x, one, zero)", opset=18)),
    Case(group_norm, "a variance that is not one", why="", target="onnx",
         model=graph(BY_HAND.replace("Mul(c, c)", "Abs(c)"), **HAND)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The rule fires, nothing else changes, and what it means is the same."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """No byte changes, and the report says why."""
    check_spares(case)


def test_scale_and_bias_are_by_channel():
    """The weights go into the node as vectors."""
    made, _ = surgeon.rewrite(graph(SCALED), group_norm, target="onnx")
    (node,) = made.graph.node
    values = {item.name: numpy_helper.to_array(item) for item in made.graph.initializer}
    assert np.array_equal(values[node.input[1]], np.array([1.5, -0.5, 2, 1, 3, 0.25], np.float32))
    assert np.array_equal(values[node.input[2]], np.array([1, 2, 3, 4, 5, 6], np.float32))


@pytest.mark.parametrize("opset", [14, 21])
def test_the_node_for_gpus_is_proved_by_formula(opset):
    """A CPU runs none, so the site proof takes surgeon's formula, which is independent of the rule."""
    made, report = surgeon.rewrite(graph(SCALED, opset=opset), group_norm, ep="cuda", check="sites")
    assert [node.op_type for node in made.graph.node] == ["Transpose", "GroupNorm", "Transpose"]
    (site,) = report.sites
    assert (site.proof.outcome.value, site.proof.independent) == ("proved", True)
    assert "formula of GroupNorm" in site.proof.oracle


def test_half_precision_has_scale_and_bias_in_float32_on_gpus():
    """What is stored in float16 is widened without loss."""
    model = graph(SCALED)
    for item in model.graph.initializer:
        if item.data_type == onnx.TensorProto.FLOAT:
            item.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(item).astype(np.float16), item.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    made, report = surgeon.rewrite(model, group_norm, ep="cuda", check="sites")
    values = {item.name: numpy_helper.to_array(item) for item in made.graph.initializer}
    norm = next(node for node in made.graph.node if node.op_type == "GroupNorm")
    assert [values[name].dtype for name in norm.input[1:]] == [np.float32] * 2
    assert np.array_equal(values[norm.input[1]], np.array([1.5, -0.5, 2, 1, 3, 0.25], np.float32))
    assert report.outcome == "proved", report.doubts


def test_groups_of_fixed_sizes_are_proved():
    """The formula that stands for the node has the number of groups of either form that matched."""
    fixed = graph(SCALED.replace("f = Shape(x)", ""), HEAD.replace("n, 6, h, w", "2, 6, 5, 3"),
                  f="int64[4] f = {2, 6, 5, 3}")  # fmt: skip
    _, report = surgeon.rewrite(fixed, group_norm, target="onnx")
    assert (report.outcome, report.count("group_norm")) == ("proved", 1)


@pytest.mark.parametrize("shape", ["n, 6, h, w", "n, 6, w", "2, 6, 5, 3"])
def test_the_outcome_says_what_onnx_runtime_computes_otherwise(shape):
    """Of a mean of 8 with a deviation of 0.01 its own body of the node leaves few digits; the proof runs a formula."""
    ones = ", 1" * (shape.count(",") - 1)
    vectors = {name: f"float[6{ones}] {name} = {{1, 2, 3, 4, 5, 6}}" for name in ("scale", "bias")}
    model = graph(SCALED, HEAD.replace("n, 6, h, w", shape), **vectors)
    _, report = surgeon.rewrite(model, group_norm, target="onnx")
    (site,) = report.sites
    assert site.outcome == "proved"
    assert "ONNX Runtime has no kernel for GroupNormalization" in site.reason


def test_no_such_word_of_what_onnx_runtime_has_a_kernel_for():
    _, report = surgeon.rewrite(graph("y = GroupNormalization<num_groups = 3>(x, scale, bias)", **VECTORS), group_norm,
                                target="decomposed")  # fmt: skip
    [site] = report.sites
    assert "no kernel for GroupNormalization" not in site.reason
