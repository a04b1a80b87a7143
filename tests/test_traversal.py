"""Traversal of plain ONNX messages: nested nodes, and the outer names that a node reads."""

import onnx
from onnx import parser

from surgeon.ops.traits.trait_lookup import is_random
from surgeon.ops.traversal import all_nodes, names_read, nodes_of, subgraphs

NESTED = """
<ir_version: 8, opset_import: ["": 17, "local": 1]>
g (float[n] x, bool c) => (float[n] y) {
    a = Neg(x)
    y = If(c) <
        then_branch = inner () => (float[n] t) <float k = {2.0}> {
            b = Mul(a, k)
            t = If(c) <
                then_branch = deep () => (float[n] u) { u = Add(b, x) },
                else_branch = other () => (float[n] v) { v = Identity(b) }
            >
        },
        else_branch = through () => (float[n] w) { w = local.f(a) }
    >
}
<opset_import: ["": 17], domain: "local">
f (p) => (q) { q = Exp(p) }
"""


def test_nodes_at_any_depth_each_before_those_inside_it():
    """Of the graph, its bodies, and its local functions."""
    model = parser.parse_model(NESTED)
    inside = [*("Neg", "If", "Mul", "If"), *("Add", "Identity"), "f"]
    assert sorted(node.op_type for node in all_nodes(model.graph.node)) == sorted(inside)
    assert sorted(node.op_type for node in nodes_of(model)) == sorted([*inside, "Exp"])
    walked = [node.op_type for node in all_nodes(model.graph.node)]
    assert walked.index("Mul") < walked.index("Add")
    assert len(list(subgraphs(model.graph.node[1]))) == 2


def test_free_names_are_what_bodies_take_from_outside():
    """Neither what a body makes nor its initializers, however deep the use; each name once."""
    outer = parser.parse_model(NESTED).graph.node[1]
    assert sorted(names_read(outer)) == ["a", "c", "x"]


def test_a_body_that_gives_an_outer_tensor_takes_it():
    """Its output is then a name of the graph around it; a sparse initializer is the body's own."""
    body = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["s"], ["n"])], "body", [], [])
    body.output.add().name = "outer"
    body.sparse_initializer.add().values.name = "s"
    node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    assert names_read(node) == ["c", "outer"]


def test_a_dropout_is_random_only_in_training():
    """Its third input tells; the others always draw."""
    dropout = onnx.helper.make_node("Dropout", ["x", "ratio"], ["y"])
    assert not is_random(dropout)
    dropout.input.append("training")
    assert is_random(dropout)
    assert is_random(onnx.helper.make_node("Multinomial", ["x"], ["y"]))
