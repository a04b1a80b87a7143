"""The one view of a graph: messages indexed as they are, uses with their places, and forms up to names."""

import numpy as np
from onnx import TensorProto, numpy_helper

from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.ir.scope import Scope
from surgeon.ir.structure import Form, Structure
from surgeon.testing import parse

BRANCHES = """(float[n] x, bool b) => (float[n] y) {
    s = Mul(x, x)
    y = If(b) <then_branch = t () => (float[n] u) { u = Add(s, x) }, else_branch = e () => (float[n] v) { v = Neg(s) }>
}"""


def test_a_message_is_indexed_without_a_copy():
    model = parse(BRANCHES)
    index = Index.over(model)
    product, choice = index.main.nodes
    assert product.proto == model.graph.node[0]
    model.graph.node[0].name = "renamed"
    assert product.name == "renamed"
    assert [body.attribute for body in index.bodies(choice)] == ["then_branch", "else_branch"]
    assert index.bodies(product) == ()


def test_uses_have_places_and_include_bodies():
    main = Index.over(parse(BRANCHES)).main
    assert [(node.op, slot) for node, slot in main.uses("x")] == [("Mul", 0), ("Mul", 1), ("Add", 1)]
    assert [(node.op, slot) for node, slot in main.uses("s")] == [("Add", 0), ("Neg", 0)]
    assert (main.input_names, main.output_names) == (["x", "b"], ["y"])


def test_a_weight_that_was_cut_out_is_a_constant_without_a_value():
    model = parse("(float[600] x) => (float[600] y) { z = Add(x, w) y = Mul(z, k) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(600, np.float32), "w"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(3), "k"))
    with Model.open(model) as file:
        constants, main = (index := Index.over(file.skeleton)).constants, index.main
        assert main.initializers["w"].data_location == TensorProto.EXTERNAL
        assert constants.is_constant(main, "w")
        assert constants.shape(main, "w") == (600,)
        assert constants.get(main, "w") is constants.array(main, "w") is None
        assert constants.array(main, "k") == 3


def form(structure: Structure, scope: Scope, first: int, last: int) -> Form:
    nodes = scope.nodes[first:last]
    names = [name for node in nodes for name in (*node.inputs, *node.outputs)]
    return structure.form(tuple(map(structure.stated, nodes)), names)


def test_regions_are_equal_up_to_names():
    body = "a = Neg(x) b = Add(a, x) c = Neg(b) d = Add(c, b) e = Neg(d) y = Add(d, e)"
    main = Index.over(parse(f"(float[n] x) => (float[n] y) {{ {body} }}")).main
    structure = Structure()
    one, other, swapped = (form(structure, main, at, at + 2) for at in (0, 2, 4))
    assert one.number == other.number != swapped.number
    assert (one.names, other.names) == (("x", "a", "b"), ("b", "c", "d"))


def test_what_nodes_state_and_what_they_mean():
    body = "a = Softmax(x) b = Softmax<axis = -1>(x) c = Softmax<axis = 0>(x) d = Softmax(c)"
    nodes = Index.over(parse(f"(float[n, m] x) => (float[n, m] d) {{ {body} }}")).main.nodes
    structure = Structure()
    stated, meant = ([of(node) for node in nodes] for of in (structure.stated, structure.meant))
    assert len(set(stated)) == 3
    assert stated[0] == stated[3]
    assert meant[0] == meant[1] == meant[3] != meant[2]
    assert structure.meant(Index.over(parse(BRANCHES)).main.nodes[1]) is None
