"""Sums and products in any order and association, with constants split at will; long ones answer at once."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from surgeon import Graph, Tensor
from tests import sampling
from tests.counting import searched
from tests.models import graph, make, matches, reasons, run

MAX_STEPS = 80_000  # steps, readers and tensors that a search may look at before it gives up
quick = settings(max_examples=sampling.examples(150), deadline=None)
UNARY = ["Erf", "Tanh", "Sigmoid", "Abs", "Ceil"]


class Writer:
    """Writes nodes one by one; the nodes of a random tree are its choices."""

    def __init__(self, draw, inputs, dtype=np.float32):
        self.draw, self.inputs, self.dtype = draw, inputs, dtype
        self.nodes, self.constants = [], []

    def node(self, op, *inputs):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name]))
        return name

    def constant(self, value):
        name = f"c{len(self.constants)}"
        shape = self.draw(st.sampled_from([(), (1,)]))
        self.constants.append(numpy_helper.from_array(np.full(shape, value, self.dtype), name))
        return name

    def tree(self, op, operands):
        """Join the operands by binary nodes in any order and association."""
        operands = self.draw(st.permutations(operands))
        while len(operands) > 1:
            place = self.draw(st.integers(0, len(operands) - 2))
            pair = self.draw(st.permutations(operands[place : place + 2]))
            if self.draw(st.integers(0, 9)) == 0:
                pair[0] = self.node("Identity", pair[0])
            operands[place : place + 2] = [self.node(op, *pair)]
        return operands[0]

    def scaled(self, operands, number):
        """A product of the operands and a number that stands split into up to three factors or divisors."""
        parts = self.draw(st.lists(st.sampled_from([2.0, 4.0, 0.25, 3.0]), max_size=2))
        rest = number / np.prod(parts) if parts else number
        factors = [self.constant(value) for value in [*parts, rest]]
        product = self.tree("Mul", [*operands, *factors])
        if self.draw(st.booleans()):
            by = self.draw(st.sampled_from([2.0, 5.0]))
            product = self.node("Div", self.node("Mul", product, self.constant(by)), self.constant(by))
        return self.node("Neg", self.node("Neg", product)) if self.draw(st.integers(0, 4)) == 0 else product

    def model(self, result):
        rank = helper.make_tensor_value_info
        values = [rank(name, TensorProto.FLOAT, ["n", 4]) for name in self.inputs]
        body = helper.make_graph(self.nodes, "g", values, [rank(result, TensorProto.FLOAT, ["n", 4])], self.constants)
        return helper.make_model(body, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def formula(g: Graph, x: Tensor, z: Tensor) -> Tensor:
    """2.5 · x · tanh(z) · σ(x + z + |x| - 0.75) / erf(x)."""
    total = g.sub(g.add(x, z, g.abs(x)), 0.75)
    return g.div(g.mul(2.5, x, g.tanh(z), g.sigmoid(total)), g.erf(x))


@quick
@given(st.data())
def test_any_order_and_association_matches(data):
    w = Writer(data.draw, ["x", "z"])
    split = data.draw(st.sampled_from([[-0.75], [0.25, -1.0], [1.0, -1.5, -0.25]]))
    total = w.tree("Add", ["x", "z", w.node("Abs", "x"), *(w.constant(value) for value in split)])
    factors = ["x", w.node("Tanh", "z"), w.node("Sigmoid", total)]
    erf = w.node("Erf", "x")
    if data.draw(st.booleans()):
        result = w.scaled([*factors, w.node("Reciprocal", erf)], 2.5)
    else:
        result = w.node("Div", w.scaled(factors, 2.5), erf)
    model = w.model(result)
    found = matches(model, formula)
    assert [match.outputs for match in found] == [(result,)], reasons(model, formula)
    assert {key: str(value) for key, value in found[0].bound.items()} == {"x": "x", "z": "z"}


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_what_matches_computes_the_same(data):
    """The constant that a pattern captures is the product of those that go with the match."""
    w = Writer(data.draw, ["x", "z"])
    result = w.scaled(["x", w.node("Tanh", "z")], 1.5)

    def pattern(g: Graph, x: Tensor, z: Tensor, scale: float) -> Tensor:
        return g.mul(x, g.tanh(z), scale)

    def again(g: Graph, x: Tensor, z: Tensor, scale: float) -> Tensor:
        return g.gemm(g.einsum(x, g.tanh(z), equation="ij,ij->ij"), np.eye(4), alpha=scale)

    after, report = run(w.model(result), make(pattern, again))
    assert report.proved
    assert "Einsum" in [node.op_type for node in after.graph.node]


@quick
@given(st.data())
def test_a_random_graph_without_the_pattern_never_matches(data):
    """The graph holds every op of the pattern but one."""
    left_out = data.draw(st.sampled_from(["Tanh", "Sigmoid", "Abs", "Erf"]))
    w = Writer(data.draw, ["x", "z"])
    tensors = ["x", "z", w.constant(2.5), w.constant(-0.75)]
    for _ in range(data.draw(st.integers(5, 25))):
        op = data.draw(st.sampled_from(["Add", "Mul", "Sub", "Div", *UNARY]))
        op = "Neg" if op == left_out else op
        count = 2 if op in ("Add", "Mul", "Sub", "Div") else 1
        tensors.append(w.node(op, *(data.draw(st.sampled_from(tensors[-6:])) for _ in range(count))))
    assert not matches(w.model(tensors[-1]), formula)


@quick
@given(st.data())
def test_one_wrong_leaf_spoils_the_match(data):
    w = Writer(data.draw, ["x", "z"])
    wrong = data.draw(st.sampled_from(["constant", "operand", "missing"]))
    total = w.tree("Add", ["x", "z", w.node("Abs", "z" if wrong == "operand" else "x"), w.constant(-0.75)])
    factors = ["x", w.node("Tanh", "z"), w.node("Sigmoid", total)][wrong == "missing" :]
    result = w.node("Div", w.scaled(factors, 2.6 if wrong == "constant" else 2.5), w.node("Erf", "x"))
    assert not matches(w.model(result), formula)


def sum_of(count, order="tanh first"):
    """A pattern of `count` operands: tanh(x0) and variables, x0 among them or not."""
    names = ", ".join(f"x{number}" for number in range(1, count))
    body = f"g.tanh(x0), {names}" if order == "tanh first" else f"{names}, x0, g.tanh(x0)"
    space: dict = {}
    exec(f"def pattern(g, x0, {names}):\n    return g.add({body})\n", space)
    return space["pattern"]


def chain_model(count, head="Tanh", balanced=False):
    w = Writer(None, [f"x{number}" for number in range(count)])
    operands = [w.node(head, "x0"), *w.inputs[1:]]
    while len(operands) > 1:
        step = [w.node("Add", *operands[:2])]
        operands = [*operands[2:], *step] if balanced else [*step, *operands[2:]]
    return w.model(operands[0])


@pytest.mark.parametrize("count", [15, 30])
@pytest.mark.parametrize("balanced", [True, False])
def test_a_long_chain_answers_after_few_steps(count, balanced):
    """A few for each operand where it is there; as many as a search may take where it is not."""
    pattern = sum_of(count)
    near = sum_of(count + 1)
    cases = [
        (chain_model(count, balanced=balanced), pattern, 1, 5 * count),
        (chain_model(count, "Erf", balanced), pattern, 0, 0),
        (chain_model(count, balanced=balanced), near, 0, MAX_STEPS),
    ]
    for model, function, wanted, most in cases:
        found, work = searched(model, function)
        assert len(found) == wanted
        assert work.total <= most


@pytest.mark.parametrize("count", [15, 30])
def test_a_variable_bound_elsewhere_is_placed_first(count):
    """Else every order of the free variables would be tried before the bound one gets its operand."""
    w = Writer(None, [f"x{number}" for number in range(count)])
    total = w.node("Add", "x0", w.node("Tanh", "x0"))
    for name in w.inputs[1:]:
        total = w.node("Add", total, name)
    found, work = searched(w.model(total), sum_of(count, "x0 last"))
    assert len(found) == 1
    assert work.total <= 5 * count


@pytest.mark.parametrize("count", sampling.chosen(lambda: [15], lambda: [15, 30]))
def test_a_long_chain_of_equal_operands_answers_after_few_steps(count):
    """Every operand fits every variable; only the constant at the end does not."""

    def pattern(g, x, z):
        return g.add(*[g.abs(x) for _ in range(count - 1)], g.abs(z), 1.0)

    w = Writer(None, ["x", "z"])
    total = w.node("Abs", "x")
    for _ in range(count - 1):
        total = w.node("Add", total, w.node("Abs", "x"))
    w.draw = lambda strategy: ()
    for constant, wanted, most in ((1.0, 1, 10 * count**2), (2.0, 0, MAX_STEPS)):
        last = w.node("Add", total, w.constant(constant))
        found, work = searched(w.model(last), pattern)
        assert len(found) == wanted
        assert work.total <= most


def scaled(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.mul(x, 0.5))


def shifted(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.add(x, -2.0))


@pytest.mark.parametrize(
    ("body", "constants", "pattern", "count"),
    [
        ("m = Div(x, c)", "float c = {2}", scaled, 1),
        ("m = Div(x, c)", "float c = {0.5}", scaled, 0),
        ("r = Reciprocal(c) m = Mul(r, x)", "float c = {2}", scaled, 1),
        ("m = Neg(a) a = Mul(x, c)", "float c = {-0.5}", scaled, 1),
        ("m = Sub(x, c)", "float c = {2}", shifted, 1),
        ("m = Sub(c, x)", "float c = {2}", shifted, 0),
        ("a = Neg(x) b = Add(a, c) m = Neg(b)", "float c = {2}", shifted, 1),
        ("a = Sub(c, x) m = Neg(a)", "float c = {2}", shifted, 1),
        ("m = Add(x, c)", "float c = {-2.0000005}", shifted, 1),
        ("m = Add(x, c)", "float c = {-2.00001}", shifted, 0),
        ("m = Add(x, c)", "float c = {-2.0001}", shifted, 0),
    ],
)
def test_spellings_of_a_constant(body, constants, pattern, count):
    assert len(matches(graph(f"{body} y = Relu(m)", constants=constants), pattern)) == count


def test_one_over_a_root_is_a_reciprocal_root():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.reciprocal(g.sqrt(x))

    assert len(matches(graph("s = Sqrt(x) y = Reciprocal(s)"), pattern)) == 1
    assert len(matches(graph("s = Sqrt(x) y = Div(one, s)", constants="float one = {1}"), pattern)) == 1
    assert len(matches(graph("s = Sqrt(x) y = Div(two, s)", constants="float two = {2}"), pattern)) == 0


INTEGERS = "(int64[n] x) => (int64[n] y)"


def test_integers_divide_differently():
    model = graph("y = Div(x, c)", INTEGERS, "int64 c = {2}")
    assert not matches(model, lambda g, x: g.mul(x, 0.5))
    assert "integers divide differently" in reasons(model, lambda g, x: g.mul(x, 0.5))
    twice = graph("d = Div(x, c) y = Mul(d, c)", INTEGERS, "int64 c = {2}")
    assert not matches(twice, lambda g, x: g.mul(x, 1.0))
    assert not matches(
        graph("d = Mul(x, c) y = Div(d, two)", INTEGERS, "int64 c = {6}, int64 two = {2}"), lambda g, x: g.mul(x, 3.0)
    )


def test_integers_divided_as_the_pattern_says_match():
    assert len(matches(graph("y = Div(x, c)", INTEGERS, "int64 c = {2}"), lambda g, x: g.div(x, 2))) == 1
    assert not matches(graph("y = Div(x, c)", INTEGERS, "int64 c = {3}"), lambda g, x: g.div(x, 2))
    two = "(int64[n] x, int64[n] z) => (int64[n] y)"
    assert len(matches(graph("y = Div(x, z)", two), lambda g, x, z: g.div(x, z))) == 1
    assert len(matches(graph("y = Mul(c, x)", INTEGERS, "int64 c = {2}"), lambda g, x: g.mul(x, 2))) == 1


def test_integers_are_captured_as_integers():
    def pattern(g: Graph, x: Tensor, number: int) -> Tensor:
        return g.add(x, number)

    [match] = matches(graph("y = Add(c, x)", INTEGERS, "int64 c = {3}"), pattern)
    assert (match["number"], type(match["number"])) == (3, int)


def test_small_constants_are_no_identity_and_do_not_cancel():
    def plain(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.add(g.tanh(x), x))

    def zero(g: Graph, x: Tensor) -> Tensor:
        return g.add(x, 0.0)

    small = "t = Tanh(x) a = Add(t, c) b = Add(a, x) y = Relu(b)"
    assert not matches(graph(small, constants="float c = {1e-12}"), plain)
    cancel = "t = Tanh(x) a = Add(t, c) b = Add(a, x) d = Sub(b, c) y = Relu(d)"
    assert not matches(graph(cancel, constants="float c = {1e8}"), plain)
    assert not matches(graph("y = Add(x, c)", constants="float c = {1e-12}"), zero)
    assert len(matches(graph("y = Add(x, c)", constants="float c = {0}"), zero)) == 1
    assert len(matches(graph("y = Sub(x, c)", constants="float c = {0}"), zero)) == 1


def test_legacy_broadcasting_is_not_taken_for_numpy_s():
    """Before opset 7 an Add with `axis` broadcasts along that axis (ONNX spec, Add-6)."""
    head = "(float[4, 4] x, float[4] w) => (float[4, 4] y)"
    model = graph(
        "m = Mul<broadcast = 1, axis = 0>(x, w) y = Relu(m)",
        head,
        header='<ir_version: 3, opset_import: ["" : 6]> agraph ',
    )
    assert not matches(model, lambda g, x, w: g.relu(g.mul(x, w)))


def test_half_precision_constants_have_half_precision_tolerance():
    def third(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.mul(x, 1 / 3))

    def model(array):
        value = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT16, shape=["n"])
        nodes = [helper.make_node("Mul", ["x", "c"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
        body = helper.make_graph(nodes, "g", [value("x")], [value("y")], [numpy_helper.from_array(array, "c")])
        return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)])

    exact = np.float16(1 / 3)
    assert len(matches(model(np.asarray(exact)), third)) == 1
    assert not matches(model(np.asarray(np.nextafter(np.nextafter(exact, np.float16(1)), np.float16(1)))), third)


@pytest.mark.parametrize("dtype", ["float", "int64"])
def test_two_negations_are_none(dtype):
    """Both only turn the sign, which is exact: so in a pattern, and so in a model."""
    twice = graph("a = Neg(x) y = Neg(a)", f"({dtype}[n] x) => ({dtype}[n] y)")
    assert len(matches(twice, lambda g, x: g.neg(g.neg(x)))) == 1
    once = graph("y = Neg(x)", f"({dtype}[n] x) => ({dtype}[n] y)")
    assert not matches(once, lambda g, x: g.neg(g.neg(x)))


def identity(g, x):
    """A pattern that is a product by one."""
    return g.mul(g.exp(x), 1.0)


def test_what_nearly_changes_nothing_is_not_nothing():
    """Two constants whose product is one are not one each; those of size one turn the sign alone."""
    head = "(float[n] x) => (float[n] y)"
    text = "a = Exp(x) b = Mul(a, c) y = Mul(b, d)"
    assert not matches(graph(text, head, "float c = {2}, float d = {0.5}"), identity)
    assert len(matches(graph(text, head, "float c = {-1}, float d = {-1}"), identity)) == 1
    assert not matches(graph(text, head, "float c = {-1}, float d = {1}"), identity)
