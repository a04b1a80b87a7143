"""Models with nodes in no topological order, which ONNX Runtime accepts: surgeon sorts what it reads, not the file.
"""

import random

import numpy as np
import onnx
import onnxruntime
import pytest

import surgeon
from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.ir.verifier import verify
from surgeon.ops.traversal import graphs_and_functions
from surgeon.testing import parse
from tests.models import graph, ops

GELU = "{0}d = Div({1}, r) {0}e = Erf({0}d) {0}a = Add({0}e, o) {0}m = Mul({1}, {0}a) {2} = Mul({0}m, h)"
CONSTANTS = "float r = {1.4142135}, float o = {1}, float h = {0.5}"
SIZES = "s = Shape(x) g = Gather(s, zero) u = Unsqueeze(g, ax) c = Concat<axis = 0>(u, rest) y = Reshape(z, c)"
SIZE_CONSTANTS = "int64 zero = {0}, int64[1] ax = {0}, int64[1] rest = {-1}"
BODIES = f"""
    k = Identity(c)
    i = If(k) <
      then_branch = t () => (float[n, 4] t2) {{
        p = Neg(w) {GELU.format("t_", "p", "t1")}
        t2 = If(c) <then_branch = tt () => (float[n, 4] q2) {{ q1 = Relu(t1) q2 = Relu(q1) }},
                    else_branch = te () => (float[n, 4] q3) {{ q4 = Relu(p) q3 = Identity(q4) }}> }},
      else_branch = e () => (float[n, 4] e1) {{ e2 = Sin(w) e1 = Identity(e2) }}>
    w = Cos(x)
    y = Relu(i)"""
ATTENTION = """
    q = MatMul(x, wq) k = MatMul(x, wq) kt = Transpose<perm = [0, 2, 1]>(k) s = MatMul(q, kt) p = Softmax<axis = -1>(s)
    v = MatMul(x, wq) y = MatMul(p, v)"""
MODELS = {
    "gelu": graph(GELU.format("", "x", "y"), constants=CONSTANTS),
    "sizes": graph(f"z = Abs(x) {SIZES}", "(float[5, 4] x) => (float[5, 4] y)", SIZE_CONSTANTS),
    "constants": graph("a = Constant<value_float = 2.0>() b = Mul(a, a) d = Sqrt(b) y = Mul(x, d)"),
    "duplicates": graph("a = Relu(x) b = Relu(x) d = Sin(a) e = Sin(b) y = Add(d, e)"),
    "bodies": graph(BODIES, "(float[n, 4] x, bool c) => (float[n, 4] y)", CONSTANTS),
    "function": parse(
        f"""<ir_version: 10, opset_import: ["" : 18, "mine" : 1]>
        g (float[n, 4] x) => (float[n, 4] y) {{ a = mine.Act(x) y = mine.Act(a) }}
        <domain: "mine", opset_import: ["" : 18]> Act (x) => (y) {{
            r = Constant<value_float = 1.4142135>() o = Constant<value_float = 1.0>() h = Constant<value_float = 0.5>()
            {GELU.format("", "x", "y")} }}"""
    ),
    "attention": parse(
        f"(float[b, n, 4] x) => (float[b, n, 4] y) <float[4, 4] wq = {{{', '.join(['0.25'] * 16)}}}> {{ {ATTENTION} }}"
    ),
}


def shuffled(model, seed):
    """The same model with the nodes of each graph in another order, which is not topological."""
    rng = random.Random(seed)
    while True:
        made = onnx.ModelProto.FromString(model.SerializeToString())
        for holder in list(graphs_and_functions(made)):
            nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in holder.node]
            rng.shuffle(nodes)
            del holder.node[:]
            holder.node.extend(nodes)
        if not Model.open(made).is_sorted:
            return made


def outcome(model, rules="ort", **settings):
    """The rewritten model, how often each rule was applied, and the outcome."""
    made, report = surgeon.rewrite(model, rules, **settings)
    return made, {name: report.count(name) for rules in report.selection.values() for name in rules}, report.outcome


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MODELS)
def test_rules_fire_whatever_the_order_is(name, seed):
    """The same rules as often, the same nodes remain, and the result computes the same."""
    model = MODELS[name]
    other = shuffled(model, seed)
    (made, counts, proved), (result, found, ended) = outcome(model), outcome(other)
    assert sum(counts.values()) > 0
    assert (found, ended) == (counts, proved)
    assert sorted_ops(result) == sorted_ops(made)
    if name != "function":  # ONNX Runtime sorts no functions
        feeds = feeds_of(model, seed)
        before, after = (
            onnxruntime.InferenceSession(item.SerializeToString()).run(None, feeds) for item in (other, result)
        )
        np.testing.assert_allclose(after[0], before[0], rtol=1e-5, atol=1e-6)


def sorted_ops(model):
    """The ops of each graph."""
    return [sorted(ops(holder)) for holder in graphs_and_functions(model)]


def feeds_of(model, seed):
    """Random inputs."""
    rng, feeds = np.random.default_rng(seed), {}
    for value in model.graph.input:
        dims = [item.dim_value or {"n": 5, "b": 2}[item.dim_param] for item in value.type.tensor_type.shape.dim]
        feeds[value.name] = np.array(True) if value.name == "c" else rng.standard_normal(dims).astype(np.float32)
    return feeds


@pytest.mark.parametrize("name", MODELS)
def test_a_skeleton_is_sorted(name):
    """In each graph, with regard to the tensors that bodies read too."""
    for seed in range(5):
        model = Model.open(shuffled(MODELS[name], seed))
        assert not verify(model.skeleton)
        Index(model).check()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_without_changes_keeps_its_bytes(name):
    """Also below a body that was moved."""
    other = shuffled(MODELS[name], 0)
    made, report = surgeon.rewrite(other, "no_op_cast")
    assert report.nodes_after == report.nodes_before
    assert made.SerializeToString() == other.SerializeToString()


def test_nodes_that_no_rule_touches_keep_their_order():
    text = f"b = Cos(l) {GELU.format('', 'b', 'c')} f = Neg(k) l = Sin(x) k = Exp(c) y = Abs(f)"
    made, report = surgeon.rewrite(graph(text, constants=CONSTANTS), "gelu")
    assert report.count("gelu") == 1
    assert ops(made.graph) == ["Cos", "Gelu", "Neg", "Sin", "Exp", "Abs"]


@pytest.mark.parametrize("seed", range(4))
def test_records_and_addresses_are_those_of_the_skeleton(seed):
    """Weights in bodies too, which are cut out of the skeleton."""
    weights = ", ".join(["1.5"] * 300)
    text = f"""i = If(c) <
        then_branch = t () => (float[300] t1) <float[300] k = {{{weights}}}> {{ t2 = Neg(k) t1 = Abs(t2) }},
        else_branch = e () => (float[300] e1) {{ v = Relu(w) e1 = Abs(v) }}> w = Neg(x) y = Relu(i)"""
    whole = shuffled(parse(f"(float[300] x, bool c) => (float[300] y) {{ {text} }}"), seed)
    for _ in range(2):
        with Model.open(whole, threshold=64) as model:
            assert model.payload_bytes == 1200
            index = Index(model)
            for scope in index.scopes:
                assert model.count(scope.address, scope.node_field) == len(scope.nodes)
                for node in scope.nodes:
                    record = onnx.NodeProto.FromString(model.record(scope.address, scope.node_field, node.slot))
                    assert record == onnx.NodeProto.FromString(model.serialize(node.proto))
        model.close()


@pytest.mark.parametrize("edit", [surgeon.edits.Rename("x", "data"), surgeon.edits.Extract(tos=("i",))])
def test_edits_of_unsorted_models(edit):
    """They begin from the nodes in order, too."""
    model = MODELS["bodies"]
    made, report = surgeon.edit(shuffled(model, 1), edit)
    expected, _ = surgeon.edit(model, edit)
    assert sorted(ops(made.graph)) == sorted(ops(expected.graph))


def test_sizes_of_unsorted_models_can_become_dynamic():
    model = parse("(float[1, 4] x) => (float[1, 4] y) { y = Relu(a) a = Neg(x) }")
    made, _ = surgeon.edit(model, surgeon.edits.Free(0, "batch"))
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert ops(made.graph) == ["Relu", "Neg"]


def test_a_cycle_is_still_refused():
    text = "b = Relu(a) a = Neg(b) d = Relu(e) e = Neg(x) y = Add(a, d)"
    with pytest.raises(surgeon.GraphError, match="The graph has a cycle through node 'a'|'b'"):
        surgeon.rewrite(parse(f"(float[2] x) => (float[2] y) {{ {text} }}"), "gelu")


def test_a_result_must_not_become_unsorted():
    from surgeon.proof.model.final_check import structural_fault

    model = MODELS["gelu"]
    assert structural_fault(Model.open(model), model) is None
    assert "topological order" in structural_fault(Model.open(model), shuffled(model, 0))
    assert structural_fault(Model.open(shuffled(model, 0)), shuffled(model, 1)) is None
