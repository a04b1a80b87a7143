"""Any model of onnx_ir becomes any other in place, and what both have stays the same object."""

import pytest
from hypothesis import given, settings

from tests import sampling
from tests.edits.samples import random_models

ir = pytest.importorskip("onnx_ir", reason="onnx_ir is not installed")

from surgeon.integrations.ir_difference import apply_difference  # noqa: E402 - it imports onnx_ir

many = settings(max_examples=sampling.examples(600), deadline=None)


def written(model):
    return ir.to_proto(model)


def consistent(graph):
    """Every use that a value knows is an input of a node of the model, and the other way round."""
    nodes = set(graph.all_nodes())
    for node in nodes:
        for place, value in enumerate(node.inputs):
            assert value is None or (node, place) in {(use.node, use.idx) for use in value.uses()}
        for value in node.outputs:
            assert value.producer() is node
            assert {use.node for use in value.uses()} <= nodes
    for value in (*graph.inputs, *graph.initializers.values()):
        assert {use.node for use in value.uses()} <= nodes


@many
@given(random_models(), random_models())
def test_any_model_becomes_any_other(first, second):
    model, wanted = ir.from_proto(first), written(ir.from_proto(second))
    before = written(model)
    nodes = {proto.SerializeToString(): node for proto, node in zip(before.graph.node, model.graph, strict=True)}
    stored = {name: value.const_value for name, value in model.graph.initializers.items()}
    tensors = {tensor.name: tensor for tensor in before.graph.initializer}
    apply_difference(model, before, wanted, lambda tensor: tensor)
    assert written(model) == wanted
    consistent(model.graph)
    for proto, node in zip(wanted.graph.node, model.graph, strict=True):
        known = nodes.get(proto.SerializeToString())
        assert known is None or known is node
    for tensor in wanted.graph.initializer:
        same = tensors.get(tensor.name) == tensor
        assert (model.graph.initializers[tensor.name].const_value is stored.get(tensor.name)) == same


@many
@given(random_models())
def test_back_and_forth(model):
    """A model that lost its last nodes gets them again."""
    whole = ir.from_proto(model)
    wanted = written(whole)
    less = type(wanted)()
    less.CopyFrom(wanted)
    del less.graph.node[len(less.graph.node) // 2 :]
    made = {name for node in less.graph.node for name in node.output} | {value.name for value in less.graph.input}
    kept = [value for value in less.graph.output if value.name in made]
    del less.graph.output[:]
    less.graph.output.extend(kept)
    for one, other in ((wanted, less), (less, wanted)):
        apply_difference(whole, one, other, lambda tensor: tensor)
        consistent(whole.graph)
        assert list(written(whole).graph.node) == list(other.graph.node)
        assert list(written(whole).graph.output) == list(other.graph.output)
