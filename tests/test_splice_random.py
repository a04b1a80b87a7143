"""Random graphs under rules that move, redirect and join: the result is sorted, valid and computes the same."""

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from surgeon import Graph, Tensor, rule
from surgeon.ir.verify_rewrite import new_violations
from tests import sampling
from tests.models import make, run


@rule(patterns=[lambda g, x, z: (g.sin(x), g.cos(z))])
def one_sine(g: Graph, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """cos z is sin(z + π/2), so one sine does for both."""
    return g.split(g.sin(g.concat(x, g.add(z, np.pi / 2), axis=0)), axis=0, outputs=2)


def random_model(data):
    """Up to 14 nodes on [4, 4] tensors, each reading tensors made shortly before; one or two outputs."""
    names, nodes = ["x"], []
    for number in range(data.draw(st.integers(3, 14))):
        op = data.draw(st.sampled_from(["Sin", "Cos", "Sin", "Cos", "Add", "Tanh", "Transpose"]))
        inputs = [data.draw(st.sampled_from(names[-4:])) for _ in range(2 if op == "Add" else 1)]
        nodes.append(helper.make_node(op, inputs, [f"t{number}"]))
        names.append(f"t{number}")
    value = helper.make_tensor_value_info
    chosen = dict.fromkeys([names[-1], data.draw(st.sampled_from(names[1:]))])
    outputs = [value(name, TensorProto.FLOAT, [4, 4]) for name in chosen]
    body = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [4, 4])], outputs)
    return helper.make_model(body, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@settings(max_examples=sampling.examples(250), deadline=None)
@given(st.data())
def test_random_graphs_stay_sorted_and_compute_the_same(data):
    """Rules with one and two outputs on random graphs: order, names and values hold."""
    model = random_model(data)
    flat = make(lambda g, x: g.transpose(g.transpose(x)), lambda g, x: x, name="flat")
    after, report = run(model, data.draw(st.permutations([one_sine, flat])), check="none")
    assert not new_violations(model, after)
    onnx.checker.check_model(after, full_check=True)
    kept = [node.output[0] for node in after.graph.node if not node.metadata_props]
    if not report.sites:
        assert after.SerializeToString() == model.SerializeToString()
    assert set(kept) <= {node.output[0] for node in model.graph.node}
    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    results = [ReferenceEvaluator(proto).run(None, {"x": x}) for proto in (model, after)]
    for one, two in zip(*results, strict=True):
        assert np.allclose(one, two, rtol=1e-3, atol=1e-3)
