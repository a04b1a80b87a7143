"""Models to cut and join: drawn at random, with bodies, local functions, captures and nodes of several outputs."""

import numpy as np
import onnx
import onnx.parser
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

OPSETS = {"": 18, "local": 1}
SHAPE = ["N", 4]

FUNCTIONS = """
<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
g (float[N, 4] x) => (float[N, 4] y) { y = local.half (x) }
<domain: "local", opset_import: ["" : 18, "local" : 1]>
half (x) => (y) { h = Constant <value_float = 0.5> () y = local.times (x, h) }
<domain: "local", opset_import: ["" : 18]>
times (x, k) => (y) { y = Mul (x, k) }
"""

MODEL = """
<ir_version: 9, opset_import: ["" : 18, "local" : 1], metadata_props: ["author": "me"]>
agraph (float[N, 4] x, float[N, 4] z, bool c) => (float[N, 4] y, float[N, 2] left)
<float[4] w = {1.0, 2.0, -1.0, 0.5}, float[4] v = {3.0, 0.1, 0.2, 0.3}>
{
    a = Add (x, w)
    b = local.half (a)
    p, q = Split <axis = 1, num_outputs = 2> (b)
    d = Concat <axis = 1> (q, p)
    e = If (c) <
        then_branch = yes () => (float[N, 4] e1) { t = Mul (d, z) e1 = Add (t, v) },
        else_branch = no () => (float[N, 4] e2) { e2 = Sub (d, a) }
    >
    k = Constant <value_float = 2.0> ()
    f = Mul (e, k)
    y = Relu (f)
    left = Neg (p)
}
<domain: "local", opset_import: ["" : 18, "local" : 1]>
half (x) => (y) { h = Constant <value_float = 0.5> () y = local.times (x, h) }
<domain: "local", opset_import: ["" : 18]>
times (x, k) => (y) { y = Mul (x, k) }
"""


def sample() -> onnx.ModelProto:
    """A model with an If that captures, a function that calls another, a Split, a Constant, weights and metadata."""
    return onnx.parser.parse_model(MODEL)


def floats(*names: str) -> list[onnx.ValueInfoProto]:
    """Tensors as graphs state them, all of one shape."""
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in names]


def branch(name: str, captured: str, op: str, weight: str | None) -> onnx.GraphProto:
    """A body that reads a tensor from outside of it."""
    inner = helper.make_node(op, [captured, weight] if weight else [captured], [f"{name}_out"])
    return helper.make_graph([inner], name, [], floats(f"{name}_out"))


@st.composite
def random_models(draw: st.DrawFn, prefix: str = "", inputs: int = 2, most: int = 9) -> onnx.ModelProto:
    """A model all of whose tensors are float [N, 4], but for the conditions of its Ifs."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    known = [f"{prefix}x{place}" for place in range(inputs)]
    weights, nodes = [], []

    def weight() -> str:
        name = f"{prefix}w{len(weights)}"
        weights.append(numpy_helper.from_array(rng.normal(size=4).astype(np.float32), name))
        return name

    for place in range(draw(st.integers(2, most))):
        out, pick = f"{prefix}t{place}", st.sampled_from(known)
        kind = draw(st.sampled_from(["unary", "binary", "weight", "if", "function", "split", "constant"]))
        one = draw(pick)
        if kind == "unary":
            nodes.append(helper.make_node(draw(st.sampled_from(["Relu", "Tanh", "Neg"])), [one], [out], name=out))
        elif kind == "binary":
            nodes.append(helper.make_node(draw(st.sampled_from(["Add", "Sub", "Max"])), [one, draw(pick)], [out]))
        elif kind == "weight":
            nodes.append(helper.make_node("Add", [one, weight()], [out], doc_string="a bias"))
        elif kind == "function":
            nodes.append(helper.make_node("half", [one], [out], domain="local"))
        elif kind == "constant":
            nodes.append(helper.make_node("Constant", [], [f"{out}_k"], value_float=float(rng.normal())))
            nodes.append(helper.make_node("Mul", [one, f"{out}_k"], [out]))
        elif kind == "split":
            nodes.append(helper.make_node("Split", [one], [f"{out}_p", f"{out}_q"], axis=1, num_outputs=2))
            nodes.append(helper.make_node("Concat", [f"{out}_q", f"{out}_p"], [out], axis=1))
        else:
            nodes.append(helper.make_node("ReduceMax", [one], [f"{out}_m"], keepdims=0))
            nodes.append(helper.make_node("Constant", [], [f"{out}_z"], value_float=0.5))
            nodes.append(helper.make_node("Greater", [f"{out}_m", f"{out}_z"], [f"{out}_c"]))
            bodies = {
                "then_branch": branch(f"{out}_then", draw(pick), "Add", weight()),
                "else_branch": branch(f"{out}_else", draw(pick), "Tanh", None),
            }
            nodes.append(helper.make_node("If", [f"{out}_c"], [out], **bodies))
        known.append(out)
    ends = [known[-1], *draw(st.lists(st.sampled_from(known[inputs:-1] or known[-1:]), max_size=1))]
    graph = helper.make_graph(
        nodes, "g", floats(*known[:inputs]), floats(*dict.fromkeys(ends)), weights, value_info=floats(*known[inputs:-1])
    )
    model = helper.make_model(graph, ir_version=9)
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*item) for item in OPSETS.items())
    if any(node.domain == "local" for node in nodes):
        model.functions.extend(onnx.parser.parse_model(FUNCTIONS).functions)
    return model
