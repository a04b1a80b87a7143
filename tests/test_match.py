"""Matching meaning, not spelling: attributes, constants, transparent and duplicated nodes, outputs and blockers."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from surgeon import Constant, Graph, Tensor
from surgeon.rules.matching.anchors import anchors
from surgeon.rules.matching.compiler import compile_pattern
from surgeon.rules.tracing.tracer import trace
from surgeon.shapes.index_shapes import shapes_of
from tests.models import HEAD, graph, index_of, make, matches, opset, reasons, run

TWO = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)"


def softmax_last(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.softmax(x, axis=-1))


def mean_last(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.reduce_mean(x, axes=[-1]))


def relu_tanh(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.tanh(x))


def half(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.mul(x, 0.5))


@pytest.mark.parametrize(("axis", "count"), [("", 1), ("<axis = -1>", 1), ("<axis = 1>", 1), ("<axis = 0>", 0)])
def test_an_axis_counts_from_either_end_and_may_be_the_default(axis, count):
    assert len(matches(graph(f"s = Softmax{axis}(x) y = Relu(s)"), softmax_last)) == count


def test_an_axis_of_unknown_rank_is_not_guessed():
    model = graph("u = my.unknown(x) s = Softmax<axis = 1>(u) y = Relu(s)", header=opset(17))
    assert not matches(model, softmax_last)


def test_a_default_is_that_of_the_opset():
    """Softmax had axis=1 as its default before opset 13."""
    head = "(float[n, 3, 4] x) => (float[n, 3, 4] y)"
    assert len(matches(graph("s = Softmax(x) y = Relu(s)", head, header=opset(13)), softmax_last)) == 1
    assert len(matches(graph("s = Softmax(x) y = Relu(s)", head, header=opset(11)), softmax_last)) == 0


REDUCED = "(float[n, 4] x) => (float[n, m] y)"


@pytest.mark.parametrize(
    ("version", "body", "count"),
    [
        (17, "s = ReduceMean<axes = [-1]>(x)", 1),
        (17, "s = ReduceMean<axes = [1]>(x)", 1),
        (17, "s = ReduceMean<axes = [0]>(x)", 0),
        (17, "s = ReduceMean(x)", 0),
        (18, "s = ReduceMean(x, last)", 1),
        (18, "s = ReduceMean(x, one)", 1),
        (18, "s = ReduceMean(x, zero)", 0),
        (18, "s = ReduceMean<keepdims = 0>(x, last)", 0),
    ],
)
def test_axes_as_attribute_or_input(version, body, count):
    constants = "int64[1] last = {-1}, int64[1] one = {1}, int64[1] zero = {0}"
    assert len(matches(graph(f"{body} y = Relu(s)", REDUCED, constants, opset(version)), mean_last)) == count


@pytest.mark.parametrize(("axes", "count"), [(-1, 1), (2, 1), (1, 0)])
def test_axes_of_unsqueeze_count_in_the_result(axes, count):
    model = graph(
        "u = Unsqueeze(x, axes) y = Relu(u)", "(float[n, 4] x) => (float[n, 4, 1] y)", f"int64[1] axes = {{{axes}}}"
    )
    assert len(matches(model, lambda g, x: g.relu(g.unsqueeze(x, [-1])))) == count


def test_an_axis_behind_the_last_is_not_the_first():
    model = graph("f = Flatten<axis = 2>(x) y = Relu(f)", "(float[3, 4] x) => (float[12, 1] y)")
    assert not matches(model, lambda g, x: g.relu(g.flatten(x, axis=0)))


def test_axes_may_stand_in_any_order():
    model = graph("s = ReduceMean<axes = [1, -2]>(x) y = Relu(s)", "(float[n, 4] x) => (float[1, 1] y)")
    assert len(matches(model, lambda g, x: g.relu(g.reduce_mean(x, axes=[-1, -2])))) == 1


@pytest.mark.parametrize("order", ["Cast(x) Cast(x)", "one Cast"])
def test_nodes_that_compute_the_same_count_as_one(order):
    def pattern(g: Graph, x: Tensor) -> Tensor:
        h = g.cast(x, to=TensorProto.FLOAT)
        return g.div(h, g.exp(h))

    head = "(float16[n] x) => (float[n] y)"
    second = "h2 = Cast<to = 1>(x)" if "Cast(x)" in order else "h2 = Identity(h1)"
    assert len(matches(graph(f"h1 = Cast<to = 1>(x) {second} e = Exp(h2) y = Div(h1, e)", head), pattern)) == 1
    assert not matches(
        graph(
            "h1 = Cast<to = 1>(x) h2 = Cast<to = 1>(w) e = Exp(h2) y = Div(h1, e)",
            "(float16[n] x, float16[n] w) => (float[n] y)",
        ),
        pattern,
    )


@pytest.mark.parametrize("op", ["RandomNormalLike", "Bernoulli", "my.noise", "com.microsoft.BiasDropout"])
def test_random_and_unknown_nodes_never_count_as_one(op):
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.div(x, g.exp(x))

    inputs = "x, x" if "Bias" in op else "x"
    model = graph(f"a = {op}({inputs}) b = {op}({inputs}) e = Exp(b) y = Div(a, e)", header=opset(17))
    assert not matches(model, pattern)


def test_a_call_of_a_local_function_is_not_known_to_repeat():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.div(x, g.exp(x))

    model = graph("a = my.noise(x) b = my.noise(x) e = Exp(b) y = Div(a, e)", header=opset(17))
    body = [helper.make_node("RandomNormalLike", ["v"], ["w"])]
    model.functions.append(helper.make_function("my", "noise", ["v"], ["w"], body, model.opset_import))
    assert not matches(model, pattern)


@pytest.mark.parametrize(
    "between",
    [
        "i = Identity(t)",
        "i = Dropout(t)",
        "i = Dropout(t, r, no)",
        "i = Cast<to = 1>(t)",
        "i, m = Dropout(t)",
        "a = Identity(t) b = Dropout(a) c = Cast<to = 1>(b) d = Identity(c) "
        "e = Identity(d) f = Identity(e) g = Identity(f) h = Identity(g) i = Identity(h)",
    ],
)
def test_nodes_that_change_nothing_are_looked_through(between):
    constants = "float r = {0.5}, bool no = {0}"
    assert len(matches(graph(f"t = Tanh(x) {between} y = Relu(i)", constants=constants), relu_tanh)) == 1
    chained = graph(f"t = Mul(x, half) {between} y = Relu(i)", constants=constants + ", float half = {0.5}")
    assert len(matches(chained, half)) == 1


@pytest.mark.parametrize(
    "between", ["i = Dropout(t, r, yes)", "j = Cast<to = 10>(t) i = Cast<to = 1>(j)", "i = Dropout(t, r, flag)"]
)
def test_training_dropout_and_real_casts_are_not(between):
    model = graph(
        f"t = Tanh(x) {between} y = Relu(i)",
        "(float[n, 4] x, bool flag) => (float[n, 4] y)",
        "float r = {0.5}, bool yes = {1}",
    )
    assert not matches(model, relu_tanh)


def test_the_mask_of_a_dropout_that_is_used_blocks():
    model = graph("t = Tanh(x) i, m = Dropout(t) y = Relu(i)", "(float[n, 4] x) => (float[n, 4] y, bool[n, 4] m)")
    assert "'m' (output of" in reasons(model, relu_tanh)


CONSTANTS = {
    "0-d": "float c = {0.5}",
    "[1]": "float[1] c = {0.5}",
    "[1, 1]": "float[1, 1] c = {0.5}",
}


@pytest.mark.parametrize("shape", CONSTANTS)
def test_a_scalar_constant_may_have_any_rank_that_the_tensor_has(shape):
    assert len(matches(graph("m = Mul(x, c) y = Relu(m)", constants=CONSTANTS[shape]), half)) == 1


def test_a_constant_that_raises_the_rank_blocks():
    model = graph("m = Mul(x, c) y = Relu(m)", "(float[n] x) => (float[1, n] y)", CONSTANTS["[1, 1]"])
    assert "raise the rank" in reasons(model, half)

    def power(g: Graph, x: Tensor) -> Tensor:
        return g.pow(x, 0.5)

    model = graph("y = Pow(x, c)", "(float x) => (float[1] y)", CONSTANTS["[1]"])
    assert "raise the rank" in reasons(model, power)


def test_a_constant_that_folds():
    body = "four = Mul(two, two) r = Reciprocal(four) c = Mul(r, two) u = Unsqueeze(c, axes) m = Mul(u, x) y = Relu(m)"
    assert len(matches(graph(body, constants="float two = {2}, int64[1] axes = {0}"), half)) == 1


@pytest.mark.parametrize("body", ["c = Pow(a, b)", "c = Reshape(v, three)", "c = Unsqueeze(a, three)", "c = Add(v, w)"])
def test_constants_that_no_op_can_compute_do_not_crash(body):
    constants = "int64 a = {2}, int64 b = {-1}, int64[2] v = {1, 2}, int64[3] w = {1, 2, 3}, int64[1] three = {3}"
    model = graph(f"{body} f = Cast<to = 1>(c) m = Mul(x, f) y = Relu(m)", constants=constants)
    assert not matches(model, half)


def scalar_model(array, body):
    """x * c, where c is a constant of any dtype, cast to float."""
    proto = numpy_helper.from_array(array, "c")
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    nodes = [helper.make_node(op, inputs, outputs, **attributes) for op, inputs, outputs, attributes in body]
    return helper.make_model(
        helper.make_graph(nodes, "g", [value], [result], [proto]),
        ir_version=11,
        opset_imports=[helper.make_opsetid("", 23)],
    )


NARROW = [
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.int4,
    ml_dtypes.uint4,
    ml_dtypes.float4_e2m1fn,
    ml_dtypes.float8_e8m0fnu,
    np.float16,
    np.float64,
    np.complex64,
    np.bool_,
]


@pytest.mark.parametrize("dtype", NARROW, ids=lambda item: item.__name__)
def test_constants_of_narrow_dtypes_do_not_crash(dtype):
    body = [("Cast", ["c"], ["f"], {"to": 1}), ("Mul", ["x", "f"], ["m"], {}), ("Relu", ["m"], ["y"], {})]
    model = scalar_model(np.asarray(0.5 if dtype not in (ml_dtypes.int4, ml_dtypes.uint4) else 1).astype(dtype), body)
    exact = dtype not in (ml_dtypes.int4, ml_dtypes.uint4, np.complex64, np.bool_)
    assert len(matches(model, half)) == exact
    body = [("Mul", ["x", "c"], ["m"], {}), ("Relu", ["m"], ["y"], {})]
    matches(scalar_model(np.asarray(1).astype(dtype), body), half)


def test_a_string_constant_does_not_crash():
    model = graph(
        "e = Equal(s, c) n = Not(e) f = Cast<to = 1>(n) y = Relu(f)",
        "(string[k] s) => (float[k] y)",
        'string c = {"a"}',
        opset(19),
    )

    def pattern(g: Graph, s: Tensor) -> Tensor:
        return g.not_(g.equal(s, "a"))

    assert len(matches(model, pattern)) == 1


def test_an_external_scalar_matches(tmp_path):
    model = graph("m = Mul(x, c) y = Relu(m)")
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "c"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, convert_attribute=True)
    from surgeon import find

    rule = make(half, lambda g, x: g.op("my::half", x), name="half")
    assert onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer[0].external_data
    assert len(list(find(tmp_path / "m.onnx", rule))) == 1


def test_a_sparse_initializer_is_a_constant():
    model = graph("m = MatMul(x, w) y = Relu(m)", "(float[n, 4] x) => (float[n, 4] y)")
    values = numpy_helper.from_array(np.array([1.0, 2.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([0, 5], np.int64), "wi")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4, 4]))

    def pattern(g: Graph, x: Tensor, w: Constant) -> Tensor:
        return g.relu(g.matmul(x, w))

    [match] = matches(model, pattern)
    assert match["w"].shape == (4, 4)
    assert match["w"].values[0, 0] == 1.0
    assert match["w"].values[1, 1] == 2.0


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (13, "a, b = Split<axis = 1>(x)"),
        (11, "a, b = Split<axis = -1>(x)"),
        (18, "a, b = Split<axis = 1, num_outputs = 2>(x)"),
    ],
)
def test_split_has_one_spelling_for_all_opsets(version, body):
    def pattern(g: Graph, x: Tensor) -> Tensor:
        a, b = g.split(x, axis=-1, outputs=2)
        return g.mul(a, g.sigmoid(b))

    model = graph(f"{body} s = Sigmoid(b) y = Mul(a, s)", "(float[n, 4] x) => (float[n, 2] y)", "", opset(version))
    assert len(matches(model, pattern)) == 1


def test_several_outputs_of_one_node():
    def pattern(g: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = g.top_k(x, [2])
        return g.relu(values), indices

    model = graph(
        "v, i = TopK(x, k) y = Relu(v)", "(float[n, 4] x) => (float[n, 2] y, int64[n, 2] i)", "int64[1] k = {2}"
    )
    [match] = matches(model, pattern)
    assert match.outputs == ("y", "i")
    assert not matches(model, lambda g, x: g.relu(g.top_k(x, [2])[0]))


def test_siblings_of_one_tensor_are_one_match():
    def pattern(g: Graph, x: Tensor, q: Constant, k: Constant, v: Constant) -> tuple[Tensor, Tensor, Tensor]:
        return g.matmul(x, q), g.matmul(x, k), g.matmul(x, v)

    constants = ", ".join(f"float[4, 4] {name} = {{{', '.join(map(str, range(16)))}}}" for name in "abc")
    head = "(float[n, 4] x) => (float[n, 4] i, float[n, 4] j, float[n, 4] k)"
    model = graph("i = MatMul(x, a) j = MatMul(x, b) k = MatMul(x, c)", head, constants)
    first = matches(model, pattern)[0]
    assert first.outputs == ("i", "j", "k")
    two = graph("i = MatMul(x, a) j = MatMul(x, b)", "(float[n, 4] x) => (float[n, 4] i, float[n, 4] j)", constants)
    assert not matches(two, pattern)


def test_a_tensor_that_the_match_makes_is_no_input_of_it():
    def pattern(g: Graph, x: Tensor, z: Tensor) -> Tensor:
        return g.div(x, g.relu(z))

    model = graph("r = Relu(x) y = Div(r, r)")
    assert not matches(model, pattern)
    assert "pattern's input 'x' is computed inside the match" in reasons(model, pattern)


def test_input_that_a_caller_may_override():
    head = "(float[n, 4] x, float c) => (float[n, 4] y)"
    for ir_version, count in ((3, 1), (4, 0), (8, 0)):
        model = graph("m = Mul(x, c) y = Relu(m)", head, "float c = {0.5}", ir_version=ir_version)
        assert len(matches(model, half)) == count, ir_version


def test_dtypes_of_residual_towers_are_found_without_explosion():
    """A type variable ties both inputs of each Add; forty Adds of a tensor with itself have 2^40 ways down."""
    body = "a0 = my.unknown(x) " + " ".join(f"a{k + 1} = Add(a{k}, a{k})" for k in range(40))
    model = graph(f"{body} c = Cast<to = 1>(a40) y = Relu(c)", HEAD, "", opset(17))
    index = index_of(model)
    assert shapes_of(index).dtype(index.main, "a40") is None
    assert not shapes_of(index).is_float(index.main, "a40")
    run(model, make(relu_tanh, lambda g, x: g.neg(x), name="none"), check="none")


def test_a_glob_is_looked_for_among_the_nodes_that_fit_it():
    """An op of any domain costs what there are of it, not what there are of nodes."""
    body = "a = my.scale(x) b = Relu(a) c = other.scale(b) d = Neg(c) y = scaled(d)"
    model = graph(body, HEAD, "", opset(17, my=1, other=1))
    index = index_of(model)
    (pattern,) = trace(lambda g, x: g.op("*::scale", x))
    found = anchors(compile_pattern(pattern), index.main)
    assert [node.op for node in found] == ["my::scale", "other::scale"]
    assert len(matches(model, lambda g, x: g.op("*::scale", x))) == 2
    assert len(matches(model, lambda g, x: g.relu(g.op("*::scale", x)))) == 1


def test_a_pattern_of_190_operations_matches_on_a_stack_of_the_usual_size():
    """A match is one chain of calls, of some thousand frames here."""

    def wide(g, x):
        def tree(depth):
            return x if depth == 0 else g.sub(g.tanh(tree(depth - 1)), g.sin(tree(depth - 1)))

        return tree(6)

    def written(depth, nodes):
        if depth == 0:
            return "x"
        one, other, place = written(depth - 1, nodes), written(depth - 1, nodes), len(nodes)
        nodes.append(f"a{place} = Tanh({one}) b{place} = Sin({other}) c{place} = Sub(a{place}, b{place})")
        return f"c{place}"

    nodes = []
    end = written(6, nodes)
    after, _ = run(graph(f"{' '.join(nodes)} y = Neg({end})"), make(wide, lambda g, x: g.relu(x)), check="none")
    assert [node.op_type for node in after.graph.node] == ["Relu", "Neg"]


def test_a_sum_of_two_is_an_add():
    """In the model and in the pattern; the node keeps its op in the file, and a Sum of three is none."""

    def added(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.add(x, 1.0))

    def summed(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.sum(x, 1.0))

    one = "float one = {1}"
    for pattern in (added, summed):
        for body in ("s = Sum(x, one) y = Relu(s)", "s = Sum(one, x) y = Relu(s)", "s = Add(x, one) y = Relu(s)"):
            assert len(matches(graph(body, constants=one), pattern)) == 1
        assert not matches(graph("s = Sum(x, one, x) y = Relu(s)", constants=one), pattern)
        assert not matches(graph("s = my.Sum(x, one) y = Relu(s)", constants=one, header=opset(17)), pattern)
    (match,) = matches(graph("s = Sum(x, one) y = Relu(s)", constants=one), added)
    assert [node.proto.op_type for node in match.nodes] == ["Sum", "Relu"]
