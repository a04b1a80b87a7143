"""Constants by value: where they may stand, what folds, and what is none."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
import surgeon.testing
from surgeon.ir.folding_kernels import castable_types
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.shapes.index_shapes import shapes_of
from tests.models import graph, index_of, opset


def value(model, name, scope=0):
    index = index_of(model)
    found = index.constants.get(index.scopes[scope], name)
    return None if found is None else found.array


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("c = Constant<value_float = 0.5>()", np.float32(0.5)),
        ("c = Constant<value_floats = [0.5, 1.0]>()", np.array([0.5, 1], np.float32)),
        ("c = Constant<value_int = 3>()", np.int64(3)),
        ("c = Constant<value_ints = [3, 4]>()", np.array([3, 4])),
        ("c = Constant<value = double {0.25}>()", np.float64(0.25)),
        ('c = Constant<value_string = "a">()', b"a"),
        ("c = Identity(two)", np.float32(2)),
        ("c = Sqrt(two)", np.sqrt(np.float32(2))),
        ("d = Cast<to = 11>(two) c = Sqrt(d)", np.sqrt(np.float64(2))),
        ("c = Div(seven, minus)", np.int64(-3)),
        ("c = Div(two, seven_f)", np.float32(2) / np.float32(7)),
        ("c = Pow(two, seven)", np.float32(128)),
        ("n = Neg(two) c = Abs(n)", np.float32(2)),
        ("e = Exp(two) c = Log(e)", np.log(np.exp(np.float32(2)))),
        ("c = Unsqueeze(two, axes)", np.array([2], np.float32)),
        ("u = Unsqueeze(two, axes) c = Squeeze(u)", np.float32(2)),
        ("u = Unsqueeze(two, axes) c = Shape(u)", np.array([1])),
        ("c = Reshape(two, one)", np.array([2], np.float32)),
        ("c = Cast<to = 16>(two)", ml_dtypes.bfloat16(2)),
        ("c = Concat<axis = 0>(one, axes, one)", np.array([1, 0, 1])),
        ("s = Concat<axis = 0>(pair, pair) r = Reshape(s, square) c = Transpose(r)", np.array([[1, 1], [2, 2]])),
        ("r = Reshape(pair, row) c = Transpose<perm = [1, 0]>(r)", np.array([[1], [2]])),
        ("c = Slice(pair, minus_one, least, axes, minus_one)", np.array([2, 1])),
        ("c = Slice(pair, one, most)", np.array([2])),
        ("c = ConstantOfShape<value = int64[1] {7}>(pair)", np.array([[7, 7]])),
        ("c = ConstantOfShape(one)", np.zeros(1, np.float32)),
    ],
)
def test_what_folds(body, wanted):
    constants = (
        "float two = {2}, float seven_f = {7}, int64 seven = {7}, int64 minus = {-2}, int64[1] axes = {0}, "
        "int64[1] one = {1}, int64[2] pair = {1, 2}, int64[2] square = {2, 2}, int64[2] row = {1, 2}, "
        "int64[1] minus_one = {-1}, int64[1] least = {-9223372036854775807}, int64[1] most = {9223372036854775807}"
    )
    found = value(graph(f"{body} y = Neg(x)", constants=constants), "c")
    assert found.dtype == np.asarray(wanted).dtype or found.dtype == object
    assert found.shape == np.shape(wanted)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    "body",
    [
        "c = Neg(x)",
        "c = Mul(two, x)",
        "c = RandomNormal<shape = [1]>()",
        "c = Div(seven, zero)",
        "c = Add(x, two)",
        "c = Reshape(two, zeros)",
        "c = Shape<start = 0>(two)",
        "c = my.Sqrt(two)",
        "c = Concat<axis = 0>(zeros, x)",
        "c = ConstantOfShape(many)",
        "c = Slice(zeros, zeros, ends)",
    ],
)
def test_what_does_not_fold(body):
    constants = "float two = {2}, int64 seven = {7}, int64 zero = {0}, int64[1] zeros = {0}, int64[1] many = {2000}, "
    constants += "int64[2] ends = {1, 2}"
    assert value(graph(f"{body} y = Neg(x)", constants=constants, header=opset(17)), "c") is None


def test_large_results_are_weights():
    model = graph("c = Neg(w) y = Neg(x)")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1025, np.float32), "w"))
    index = index_of(model)
    assert value(model, "w") is None
    assert value(model, "c") is None
    assert index.constants.is_constant(index.main, "w")
    assert not index.constants.is_constant(index.main, "c")
    assert index.constants.array(index.main, "w").shape == (1025,)
    assert index.constants.shape(index.main, "w") == (1025,)


def test_long_towers_end():
    body = "a0 = Neg(two) " + " ".join(f"a{k + 1} = Add(a{k}, a{k})" for k in range(60))
    assert value(graph(f"{body} y = Neg(x)", constants="float two = {2}"), "a60") is None


def test_what_lies_too_deep_below_one_question_is_not_forgotten():
    body = "a0 = Neg(one) " + " ".join(f"a{k + 1} = Add(a{k}, one)" for k in range(30))
    index = index_of(graph(f"{body} y = Neg(x)", constants="float one = {1}"))
    assert index.constants.scalar(index.main, "a30") is None
    assert index.constants.scalar(index.main, "a15")[0] == 14.0


@pytest.mark.parametrize(("ir_version", "is_constant"), [(3, True), (4, False), (10, False)])
def test_initializers_that_are_inputs(ir_version, is_constant):
    model = graph("y = Neg(x)", "(float[n] x, float c) => (float[n] y)", "float c = {1}", ir_version=ir_version)
    assert (value(model, "c") is not None) == is_constant


def test_constants_of_an_outer_scope_and_those_that_hide_them():
    text = (
        "y = If (flag) <then_branch = t () => (float[n] tr) { tr = Mul(x, c) }, else_branch = e () => "
        "(float[n] er) { er = Mul(x, c) }>"
    )
    model = graph(text, "(float[n] x, bool flag) => (float[n] y)", "float c = {1}")
    other = next(item.g for item in model.graph.node[0].attribute if item.name == "else_branch")
    other.initializer.append(numpy_helper.from_array(np.array(5, np.float32), "c"))
    labels = [scope.label for scope in index_of(model).scopes]
    assert {label: float(value(model, "c", place)) for place, label in enumerate(labels)} == {
        "": 1,
        "then_branch of y": 1,
        "else_branch of y": 5,
    }


def test_eps_is_that_of_the_coarsest_type_on_the_way():
    model = graph("h = Cast<to = 10>(two) c = Cast<to = 1>(h) y = Neg(x)", constants="float two = {2}, int64 i = {2}")
    index = index_of(model)
    assert index.constants.get(index.main, "c").eps == np.finfo(np.float16).eps
    assert index.constants.get(index.main, "two").eps == np.finfo(np.float32).eps
    assert index.constants.get(index.main, "i").eps == 0


@pytest.mark.parametrize("number", sorted(set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}))
def test_every_dtype_may_stand_anywhere(number):
    """Reading, folding and asking for a scalar never crash, whatever the dtype."""
    dtype = helper.tensor_dtype_to_np_dtype(number)
    array = np.array(["a"], object) if number == TensorProto.STRING else np.ones(1).astype(dtype)
    model = graph("y = Neg(x)")
    model.graph.initializer.append(
        numpy_helper.from_array(array, "w")
        if number != TensorProto.STRING
        else helper.make_tensor("w", number, [1], [b"a"])
    )
    assert model.graph.initializer[0].data_type == number
    for op, name in (("Identity", "w"), ("Sqrt", "w"), ("Neg", "w"), ("Exp", "w"), ("Reciprocal", "w"), ("Shape", "w")):
        model.graph.node.append(helper.make_node(op, [name], [f"{op}_out"]))
    for op in ("Add", "Mul", "Div", "Pow", "Sub"):
        model.graph.node.append(helper.make_node(op, ["w", "w"], [f"{op}_out"]))
    for target in castable_types():
        model.graph.node.append(helper.make_node("Cast", ["w"], [f"cast{target}"], to=target))
    index = index_of(model)
    assert index.constants.get(index.main, "w").array.dtype == array.dtype
    for node in model.graph.node:
        index.constants.scalar(index.main, node.output[0])
    assert index.constants.get(index.main, "Shape_out").array.tolist() == [1]


def test_the_shape_of_an_input_needs_no_inference(monkeypatch):
    """Shapes are evaluated only for a tensor that a node makes."""
    shapes = shapes_of(index := index_of(graph("t = Tanh(x) y = Relu(t)")))
    monkeypatch.setattr(shapes, "_find_facts", lambda scope, name: pytest.fail("inferred"))
    assert shapes.shape(index.main, "x") == (symbol("n"), 4)


def test_a_tensor_beside_one_in_a_body_reports_no_dtype_of_another_of_its_name():
    """In the body `w` is an int32 of its own; outside it is a float initializer."""
    text = (
        "w2 = Add(w, w) y = If (flag) <then_branch = t () => (int32[4] tr) <int32[4] w = {1, 2, 3, 4}> "
        "{ tr = Add(i, w) }, else_branch = e () => (int32[4] er) { er = Identity(i) }>"
    )
    head = "(int32[4] i, bool flag) => (int32[4] y, float[4] w2)"
    index = index_of(graph(text, head, "float[4] w = {1, 2, 3, 4}"))
    assert shapes_of(index).dtype(index.main, "i") == onnx.TensorProto.INT32


def test_a_subnormal_number_is_as_coarse_as_the_steps_there():
    """1e-5 in half precision is 1.00136e-05, and meant as 1e-5."""

    @surgeon.rule(patterns=[lambda g, x: g.sqrt(g.add(x, 1e-5))])
    def marked(g, x):
        return g.sqrt(g.relu(x))

    model = surgeon.testing.parse("(float16[n] x) => (float16[n] y) { a = Add(x, eps) y = Sqrt(a) }")
    for value, fires in ((np.float16(1e-5), 1), (np.float16(2e-5), 0)):
        del model.graph.initializer[:]
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), "eps"))
        assert len(surgeon.rewrite(model, marked, check="none")[1].sites) == fires
