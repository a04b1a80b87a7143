"""What edits leave behind: caches, names, value_info and positions after several rules or rounds."""

from typing import Optional

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from surgeon.patterns.activations.gelu import gelu

from surgeon import Constant, Graph, Tensor
from surgeon.rules.matching.captured_tensor import CapturedTensor
from surgeon.rules.tracing.tracer import trace
from tests.models import graph, index_of, make, matches, ops, opset, run

GELU = "d{i} = Div({x}, sqrt2) e{i} = Erf(d{i}) a{i} = Add(e{i}, one) m{i} = Mul({x}, a{i}) {y} = Mul(m{i}, half)"
NUMBERS = "float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}"
MY = opset(17)


def value(name, *dims):
    """A float tensor's ValueInfoProto."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def test_two_variables_on_one_tensor_make_no_template():
    """The quick road would bind only one of the two at the next place."""
    pair = make(lambda g, x, y: g.add(g.erf(x), g.tanh(y)), lambda g, x, y: g.op("my::pair", x, y), name="pair")
    body = "a = Erf(x) b = Tanh(x) c = Add(a, b) d = Erf(c) e = Tanh(c) p = Add(d, e) q = Erf(p) r = Tanh(c) "
    after, _ = run(graph(body + "y = Add(q, r)", header=MY), pair, check="none")
    assert [list(node.input) for node in after.graph.node] == [["x", "x"], ["c", "c"], ["p", "c"]]


def test_a_replacement_that_reads_a_name_is_built_for_each_match():
    named = make(lambda g, x: g.erf(x), lambda g, x: g.op("my::erf", x, source=x.name), name="named")
    after, _ = run(graph("a = Erf(x) y = Erf(a)", header=MY), named, check="none")
    assert [node.attribute[0].s for node in after.graph.node] == [b"x", b"a"]


def test_a_replacement_that_reads_no_name_is_built_once():
    """Typing the new node's tensors is no look of the rule's."""
    built = []
    once = make(lambda g, x: g.erf(x), lambda g, x: built.append(type(x)) or g.add(g.tanh(x), 1.0), name="once")
    after, _ = run(graph("a = Erf(x) b = Erf(a) y = Erf(b)"), once, check="none")
    assert ops(after.graph) == ["Tanh", "Add"] * 3
    assert built.count(CapturedTensor) == 1


def test_forms_that_bind_other_names_share_no_replacement():
    def either(g: Graph, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return g.relu(g.any_of(g.pow(x, a), g.mod(x, b)))

    def written(g: Graph, x: Tensor, a: Tensor = None, b: Tensor = None) -> Tensor:
        return g.op("my::power", x, a) if b is None else g.op("my::rest", x, b)

    model = graph("p = Pow(x, x) q = Relu(p) r = Mod(q, x) y = Relu(r)", header=MY)
    after, _ = run(model, make(either, written), check="none")
    assert ops(after.graph) == ["power", "rest"]


def test_optional_annotations_keep_their_kind():
    def dense(g: Graph, x: Tensor, w: Optional[Constant], c: Optional[Tensor] = None) -> Tensor:  # noqa: UP045
        return g.gemm(x, w, c)

    [pattern] = trace(dense)
    assert [(item.name, item.kind) for item in pattern.outputs[0].operation.inputs] == [
        ("x", "tensor"),
        ("w", "constant"),
        ("c", "tensor"),
    ]


def test_an_input_left_out_does_not_stay_left_out_in_another_try():
    """Of two operands that could be the Clip, the second binds what the first left out."""

    def clipped(g: Graph, x: Tensor, low: Optional[Tensor] = None) -> Tensor:  # noqa: UP045
        return g.add(g.clip(x, low), g.relu(g.clip(x, low)))

    model = graph("p = Clip(x) q = Clip(x, zero) r = Relu(q) y = Add(r, q)", constants="float zero = {0.0}")
    [match] = matches(model, clipped)
    assert match.bound == {"x": "x", "low": "zero"}


def test_a_model_that_imports_only_its_own_domain_gets_the_import_it_needs():
    relu = make(lambda g, x: g.op("my::relu", x), lambda g, x: g.relu(x), name="relu")
    header = '<ir_version: 8, opset_import: ["my" : 1]> agraph '
    after, _ = run(graph("y = my.relu(x)", header=header), relu, check="none")
    assert sorted((item.domain, item.version) for item in after.opset_import) == [("", 11), ("my", 1)]
    onnx.checker.check_model(after)


@pytest.mark.parametrize("rewritten", [lambda g, x: x, lambda g, x: g.abs(g.neg(x)), lambda g, x: g.literal(2.0)])
def test_a_tensor_made_constant_is_seen_in_the_next_round(rewritten):
    """A second run finds nothing that the first did not."""
    same = make(lambda g, x: g.op("my::same", x), rewritten, name="same")
    numbers = "float two = {2.0}, float one = {1.0}, float half = {0.5}"
    body = "t = my.same(two) sqrt2 = Sqrt(t) " + GELU.format(i=0, x="x", y="y")
    after, report = run(graph(body, constants=numbers, header=MY), [gelu, same], check="none")
    assert report.counts == {"gelu": 1, "same": 1}
    assert ops(after.graph) == ["Gelu"]


def test_the_name_of_a_tensor_that_went_is_not_given_to_another():
    """Its value_info has another shape."""
    nodes = [
        helper.make_node("Mul", ["x", "one"], ["/l/Mul_output_0"], name="/l/Mul_0"),
        helper.make_node("Relu", ["/l/Mul_output_0"], ["q"]),
        helper.make_node("square", ["q"], ["y"], name="/l/square", domain="my"),
    ]
    one = helper.make_tensor("one", TensorProto.FLOAT, [1, 1, 1], [1.0])
    middle = value("/l/Mul_output_0", 1, 2, 4)
    drawn = helper.make_graph(nodes, "g", [value("x", 1, 2, 4)], [value("y", 1, 2, 4)], [one], value_info=[middle])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    model = helper.make_model(drawn, opset_imports=imports, ir_version=8)
    by_one = make(lambda g, x: g.mul(x, 1.0), lambda g, x: x, name="by_one")
    square = make(lambda g, x: g.op("my::square", x), lambda g, x: g.neg(g.mul(x, x)), name="square")
    after, report = run(model, [by_one, square], check="none")
    assert report.counts == {"by_one": 1, "square": 1}
    assert not after.graph.value_info


def test_an_initializer_that_only_a_body_used_takes_its_value_info_along():
    body = (
        "y = If(c) <then_branch = t () => (float[n, 4] o) { " + GELU.format(i=0, x="x", y="o") + " }, "
        "else_branch = f () => (float[n, 4] p) { p = Relu(x) }>"
    )
    model = graph(body, "(float[n, 4] x, bool c) => (float[n, 4] y)", NUMBERS)
    model.graph.value_info.append(value("sqrt2"))
    after, report = run(model, gelu)
    assert report.counts == {"gelu": 1}
    assert not after.graph.initializer
    assert not after.graph.value_info


def test_a_step_that_sweeps_what_another_made_belongs_to_its_region():
    """The net change of the two is one site."""
    first = make(lambda g, x: g.op("my::a", x), lambda g, x: g.tanh(x), name="first")
    second = make(lambda g, x, y: g.op("my::b", x, y), lambda g, x, y: g.relu(x), name="second")
    after, report = run(graph("a = my.a(x) y = my.b(x, a)", header=MY), [first, second], check="none")
    assert ops(after.graph) == ["Relu"]
    [site] = report.sites
    assert site.rules == ("first", "second")
    assert [node.op for node in site.replaced] == ["my::a", "my::b"]


def test_integer_division_of_constants_is_exact():
    model = graph("y = Relu(x)", constants="int64 most = {9223372036854775807}, int64 less = {-7}, int64 two = {2}")
    for out, names in (("p", ["most", "two"]), ("q", ["less", "two"])):
        model.graph.node.append(helper.make_node("Div", names, [out]))
    index = index_of(model)
    assert index.constants.array(index.main, "p") == np.int64(2**62 - 1 + 2**62) // 2
    assert index.constants.array(index.main, "q") == -3


def test_a_reader_that_moves_within_its_slot_stays_before_its_own_readers():
    """The first rule writes Neg, Abs, Max and Div in one place; Neg must go behind the node that the second writes."""
    many = make(
        lambda g, x, t: g.op("my::many", x, t), lambda g, x, t: g.div(g.neg(t), g.max(x, g.abs(x))), name="many"
    )
    both = make(
        lambda g, x, k: (g.tanh(x), g.max(x, k)), lambda g, x, k: g.op("my::both", x, k, outputs=2), name="both"
    )
    after, _ = run(graph("t = Tanh(x) y = my.many(x, t)", header=MY), [many, both], check="none")
    assert ops(after.graph) == ["Abs", "both", "Neg", "Div"]
