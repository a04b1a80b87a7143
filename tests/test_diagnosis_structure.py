"""Faults of the graph itself: all of them found in one go, each with what mends it."""

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest

import surgeon
from surgeon.precision.convert import PAIRS
from surgeon.runtime.sessions.ort_session import OrtSession
from surgeon.targets.lint.dtype_conflicts import CONVERTIBLE
from surgeon.testing import parse


def helper(op, name):
    """A helper as people register it on gs.Graph."""

    def add(self, *inputs, **attributes):
        attrs = {f"trans{key[-1].upper()}": int(value) for key, value in attributes.items()}
        return self.layer(op=op, inputs=list(inputs), outputs=[f"{name}_out"], attrs=attrs)[0]

    add.__name__ = f"network_{name}"
    return add


for op, name in (("Gemm", "gemm"), ("Add", "add"), ("Relu", "relu"), ("Mul", "mul")):
    gs.Graph.register()(helper(op, name))


def network(dtype=np.float64, shape=None, **flips):
    """Four ops by registered helpers, with constants A to D; np.ones makes float64 unless it is told otherwise."""
    graph = gs.Graph(opset=17)
    x = gs.Variable("X", dtype=np.float32, shape=(64, 64))
    graph.inputs = [x]
    a = gs.Constant("A", np.ones((64, 128), dtype))
    b, c, d = (gs.Constant(name, np.full((1, 128), 0.5, dtype)) for name in "BCD")
    hidden = graph.network_relu(graph.network_add(graph.network_gemm(x, a, **flips), b))
    result = graph.network_add(graph.network_mul(hidden, c), d)
    result.dtype, result.shape = np.float32, shape
    graph.outputs = [result]
    return graph


def exported(graph, ir_version):
    model = gs.export_onnx(graph, do_type_check=False)
    model.ir_version = ir_version
    return model


def test_a_network_of_registered_helpers_has_four_faults_each_with_a_mend():
    found = surgeon.check(exported(network(trans_b=True), 99))
    reported = {one.op: one for one in found if one.kind == "dtype"}
    assert {op: one.count for op, one in reported.items()} == {"ai.onnx::Gemm": 1, "ai.onnx::Add": 2, "ai.onnx::Mul": 1}
    for one in reported.values():
        assert one.reason.startswith("it mixes float32 with a constant of dtype float64")
        assert one.helps[-1] == "convert the constant to float32: values.astype(np.float32)"
    assert "'A' float64" in reported["ai.onnx::Gemm"].nodes[0]
    (shape,) = [one for one in found if one.kind == "shape"]
    assert "[64, 64] and B [64, 128] transposed cannot be multiplied with transB=1" in shape.reason
    assert shape.helps == ["set transB=0, or transpose the weight"]
    version, output = sorted((one for one in found if one.kind == "model"), key=lambda one: one.reason, reverse=True)
    assert "IR version 99, but the installed ONNX Runtime supports" in output.reason + version.reason
    ends = next(one for one in (version, output) if "has no shape" in one.reason)
    assert ends.helps[0].endswith("surgeon edit IN OUT --state 'add_out_8=float32[64,128]'")
    assert len(found) == 6


def test_the_mended_network_passes_and_runs():
    model = exported(network(np.float32, (64, 128)), 10)
    assert surgeon.check(model) == surgeon.check(model, "onnx") == []
    onnx.checker.check_model(model, full_check=True)
    with OrtSession(model) as session:
        (result,) = session.run({"X": np.ones((64, 64), np.float32)}).values()
    assert np.allclose(result, (64 + 0.5) * 0.5 + 0.5)


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [({"dtype": np.float64, "shape": (64, 128)}, {"dtype"}), ({"dtype": np.float32}, {"model"}),
     ({"dtype": np.float32, "shape": (64, 128), "trans_b": True}, {"shape"})],
)  # fmt: skip
def test_each_fault_by_itself(settings, kinds):
    assert {one.kind for one in surgeon.check(exported(network(**settings), 10), "onnx")} == kinds


def test_a_gs_graph_is_taken_as_it_is():
    assert "dtype" in {one.kind for one in surgeon.check(network())}


BROKEN = """<ir_version: 9, opset_import: ["" : 17]> g (float[2, 4] x) => (float[2, 4] y, float nobody) {
    a = Relu(b)
    b = Add(a, missing)
    late = Neg(early)
    early = Abs(x)
    twice = Relu(x)
    twice = Sigmoid(x)
    y = ReduceMean<axes = [1]>(twice)
}"""


def test_all_faults_of_a_broken_graph_are_found_in_one_run():
    model = parse(BROKEN)
    del model.opset_import[:]
    model.ir_version = 0
    message = "\n".join(f"{one.op} {one.reason}; {'; '.join(one.helps)}" for one in surgeon.check(model))
    for words in (
        "the model has no IR version; set ir_version to 10",
        "uses ops of ai.onnx, but imports no version of it; import version 17, which fits its nodes",
        "'twice' is defined twice, by twice and by twice",
        "ai.onnx::Add 'missing' is read, but no node produces it",
        "no node produces 'nobody', an output of the graph",
        "form a cycle: a, b",
    ):
        assert words in message


def test_nodes_out_of_order_stop_only_who_refuses_them():
    text = "(float[2] x) => (float[2] y) { y = Relu(a) a = Neg(x) }"
    (found,) = surgeon.check(parse(text))
    assert not found.stops
    assert "not in topological order" in found.reason


def test_faults_inside_of_bodies_and_functions():
    text = """<ir_version: 9, opset_import: ["" : 17, "mine" : 1]> g (bool c, float[2] x) => (float[2] y) {
        z = If(c) <then_branch = t () => (float[2] t1) { t1 = Add(x, lost) },
                   else_branch = e () => (float[2] e1) { e1 = mine.Thing(x) }>
        y = mine.Unset(z) }
        <domain: "mine", opset_import: ["" : 17]> Unset (p) => (q) { q = Add(p, gone) }"""
    reasons = {one.reason for one in surgeon.check(parse(text))}
    assert "'lost' is read in a body of z, but no node produces it" in reasons
    assert "'gone' is read in function mine::Unset, but no node produces it" in reasons
    assert any("no custom-op library for domain 'mine'" in reason for reason in reasons)


def test_a_domain_that_is_not_imported():
    model = parse("(float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }")
    del model.opset_import[1:]
    (found,) = [one for one in surgeon.check(model) if "imports no version" in one.reason]
    assert found.helps == ['import version 1: opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))']


def test_inputs_and_outputs_without_a_dtype():
    model = parse("(float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.input[0].ClearField("type")
    model.graph.output[0].type.tensor_type.elem_type = 0
    reasons = [one.reason for one in surgeon.check(model) if one.stops]
    assert reasons == ["the input 'x' of the graph has no dtype", "the output 'y' of the graph has no dtype"]


def test_a_stated_dtype_that_no_node_makes():
    text = "(float[2] x) => (double[2] y) { y = Relu(x) }"
    (found,) = surgeon.check(parse(text))
    assert found.reason == "the graph declares float64, but the node produces float32"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(float[2, 4] x) => (float[2, 5] y) { y = Exp(x) }", "[2, 5], but the node produces [2, 4]"),
        ("(float[n, 4] x) => (float[2, n, 4] y) { y = Exp(x) }", "[2, n, 4], but the node produces [n, 4]"),
        ("(float[2, 4] x) => (float[2, 4] y) <float[2, 5] e> { e = Exp(x)  y = Neg(e) }",
         "[2, 5], but the node produces [2, 4]"),
        ("(float[2, 4] x) => (float[2, 3] y) { s = Shape(x)  r = Reshape(x, s)  y = Neg(r) }",
         "[2, 3], but the node produces [2, 4]"),
        ("(float[3] x, int64[2] s) => (float[a] y) { r = Expand(x, s)  y = Neg(r) }",
         "[a], but the node produces [?, 3]"),
        ("(float[n, 4] x) => (float[3, 4] y) { y = Exp(x) }", None),
        ("(float[2, 4] x) => (float[m, n] y) <float[2, k] e> { e = Exp(x)  y = Neg(e) }", None),
        ("(float[2, 4] x) => (float y) { y = Exp(x) }", None),
    ],
)
def test_a_stated_shape_that_no_node_makes(text, message):
    """ONNX Runtime runs it, onnx.checker refuses it: told once, for the node that makes it, and stops nothing."""
    found = surgeon.check(parse(text))
    assert [(one.kind, one.stops) for one in found] == ([("shape", False)] if message else [])
    for one in found:
        assert one.reason == f"the graph declares the shape {message}, which onnx.checker may reject"
        with pytest.raises(onnx.shape_inference.InferenceError):
            onnx.shape_inference.infer_shapes(parse(text), strict_mode=True, data_prop=True)


CASES = [
    ("y = MatMul(x, w34)", "[n, 5] and [3, 4] cannot be multiplied: 5 is not 3"),
    ("y = MatMul(x, w45)", "transpose the second"),
    ("y = MatMul(x, w5)", ""),
    ("y = Add(x, w34)", "[n, 5] and [3, 4] do not broadcast"),
    ("y = Add(x, w5)", ""),
    ("y = Where(c, x, w34)", "do not broadcast"),
    ("y = Concat<axis = 0>(x, w34)", "[n, 5] and [3, 4] differ in more than axis 0"),
    ("y = Concat<axis = -2>(x, w45)", ""),
    ("y = Concat<axis = 0>(x, w5)", "different numbers of axes"),
    ("y = Gemm(x, w5)", "its input B has shape [5], but must have two axes"),
    ("y = Gemm<transB = 1>(x, w45, w5)", "its input C has shape [5], which does not broadcast"),
    ("y = Gemm<transB = 1>(x, w45)", ""),
    ("y = Conv(image, kernel)", "has 3 channels, but weight [8, 2, 1, 1] expects 2"),
    ("a = MatMul(x, w34) b = Add(a, w5) y = Concat<axis = 0>(x, w34)", "differ in more than axis 0"),
]


@pytest.mark.parametrize(("body", "words"), CASES)
def test_shapes_that_do_not_go_together(body, words):
    """Open sizes never count against a node; what comes after a wrong one is passed over, the rest is not."""
    constants = f"float[3, 4] w34 = {{{', '.join('0' * 12)}}}, float[4, 5] w45 = {{{', '.join('0' * 20)}}}"
    head = "(float[n, 5] x, bool[n, 5] c, float[1, 3, 4, 4] image, float[8, 2, 1, 1] kernel) => (float y)"
    text = f"{head} <{constants}, float[5] w5 = {{1, 2, 3, 4, 5}}> {{ {body} }}"
    found = [one for one in surgeon.check(parse(text), "onnx") if one.kind == "shape"]
    message = " ".join(f"{one.reason}; {'; '.join(one.helps)}" for one in found)
    assert words in message if words else not found


def test_dtypes_that_clash_without_a_constant():
    text = "(float[2] x, double[2] z) => (float[2] y) { y = Add(x, z) }"
    (found,) = surgeon.check(parse(text))
    assert found.reason.startswith("it mixes float32 with float64, but its inputs of type T")
    assert found.helps == ["cast the float64 input to float32"]


def test_one_clash_does_not_make_others():
    text = "(float[2] x) => (float[2] y) <double[2] w = {1, 2}> { a = Mul(w, x) b = Relu(a) y = Add(b, x) }"
    (found,) = surgeon.check(parse(text))
    assert (found.op, found.count) == ("ai.onnx::Mul", 1)


def test_a_command_is_printed_for_dtypes_that_it_takes():
    assert all(set(others) <= set(PAIRS[wanted]) for wanted, others in CONVERTIBLE.items())
