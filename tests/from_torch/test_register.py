"""Operators registered for the whole process: one registration, both exporters, and ONNX Runtime agrees with torch."""

import numpy as np
import onnxruntime
import pytest
import torch

import surgeon
import surgeon.torch
from surgeon.errors import ExportError, UsageError
from tests.from_torch.operators import MyAdd, addandround, both, export, nodes, rows, types

X = torch.arange(6.0).reshape(2, 3) / 3


@pytest.fixture
def registered():
    """Register for one test: registered(op, symbolic, **options)."""
    taken = []

    def register(op, *args, **options):
        taken.append((op, options.get("opset")))
        return surgeon.torch.register(op, *args, **options)

    yield register
    for op in dict.fromkeys(op for op, _ in taken):
        surgeon.torch.unregister(op)


def run(exported, *inputs):
    """The outputs under ONNX Runtime."""
    session = onnxruntime.InferenceSession(exported.model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {item.name: tensor.numpy() for item, tensor in zip(session.get_inputs(), inputs, strict=True)}
    return session.run(None, feeds)


@both
@pytest.mark.parametrize("opset", [17, 20])
def test_an_operator_of_onnx_that_an_exporter_does_not_map(exporter, opset, registered):
    """aten::asinh, by decorator, registered for 9 and exported at others."""

    @registered("aten::asinh", opset=9)
    def asinh(g, self):
        return g.asinh(self)

    made = export(lambda x: torch.asinh(x) + 1, "x", (X,), exporter, opset=opset)
    assert nodes(made)[0].op_type == "Asinh"
    assert made.placeholders == {}
    assert {item.domain for item in made.model.opset_import} == {""}
    np.testing.assert_allclose(run(made, X)[0], torch.asinh(X) + 1, rtol=1e-6)


@both
def test_arguments_by_position_as_in_torchs_own_symbolic_functions(exporter, registered):
    """Of names that the schema does not have; what is by keyword alone stays at its default."""

    @registered("aten::asinh")
    def asinh_symbolic(g, input, /, *, out=None):
        assert out is None
        return g.asinh(input)

    @registered("aten::rsub.Scalar")
    def rsub_symbolic(g, x, y, alpha):  # alpha by its name, the others by their places
        return g.sub(g.mul(1.0, y), g.mul(x, float(alpha)))

    made = export(lambda x: torch.rsub(torch.asinh(x), 3.0, alpha=2.0), "x", (X,), exporter, opset=18)
    np.testing.assert_allclose(run(made, X)[0], torch.rsub(torch.asinh(X), 3.0, alpha=2.0), rtol=1e-5)


def test_bodies_of_conditions_are_rewritten_too(registered):
    """torch.cond becomes an If; the TorchScript exporter cannot write it."""
    registered("aten::asinh", lambda g, self: g.asinh(self), opset=9)

    class Chooses(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: torch.asinh(x) + 1, lambda x: torch.asinh(x) * 2, (x,))

    made = surgeon.torch.export(Chooses(), X, opset=18)
    (choice,) = (node for node in nodes(made) if node.op_type == "If")
    assert all(any(node.op_type == "Asinh" for node in item.g.node) for item in choice.attribute)
    for x in (X, -X):
        np.testing.assert_allclose(run(made, x)[0], Chooses()(x), rtol=1e-6)


@both
def test_an_operator_that_is_written_out(exporter, registered):
    """torch.i0 by its series, by name and with plain numbers; torch.special.i0 is the same operator."""

    def i0(g, self):
        square = g.mul(self, self, 0.25)
        term, total = square, g.add(1.0, square)
        for place in range(2, 12):
            term = g.mul(term, square, 1.0 / place**2)
            total = g.add(total, term)
        return total

    registered("aten::i0", i0)
    made = export(lambda x: torch.i0(x) - torch.special.i0(x * 2), "x", (X,), exporter, opset=18)
    np.testing.assert_allclose(run(made, X)[0], torch.i0(X) - torch.special.i0(X * 2), rtol=1e-5)


@both
def test_arguments_come_by_their_names_in_the_schema(exporter, registered):
    """Tensors, an absent one as None, lists, strings; and several results."""
    seen = []

    @registered("exports::rows")
    def two(g, x, scales, name, mask):
        seen.append((scales, name, mask is None))
        first = g.mul(x, scales[0])
        summed = g.reduce_sum(x, [1], keepdims=0)
        return (first if mask is None else g.add(first, mask)), g.cast(g.mul(summed, scales[1]), to=7)

    def calls(x, y):
        a, b = rows(x, [2.0, 3.0], "one", y)
        return a, b, rows(a, [1.0, 2.0], "two")[1]

    made = export(calls, "x y", (X, X + 1), exporter, opset=18)
    assert sorted({(tuple(s), n, m) for s, n, m in seen}) == [
        ((1.0, 2.0), "two", True),
        ((2.0, 3.0), "one", False),
    ]
    for got, want in zip(run(made, X, X + 1), calls(X, X + 1), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@both
def test_the_highest_registration_up_to_the_opset_counts(exporter, registered):
    """One for 9, another from 20 on; unregistering one leaves the other."""
    registered("aten::asinh", lambda g, self: g.asinh(self), opset=9)
    registered("aten::asinh", lambda g, self: g.neg(self), opset=20)
    assert [node.op_type for node in nodes(export(torch.asinh, "x", (X,), exporter, opset=18))] == ["Asinh"]
    assert [node.op_type for node in nodes(export(torch.asinh, "x", (X,), exporter, opset=20))] == ["Neg"]
    surgeon.torch.unregister("aten::asinh", 20)
    assert [node.op_type for node in nodes(export(torch.asinh, "x", (X,), exporter, opset=20))] == ["Asinh"]


@both
def test_a_newer_mapping_of_torch_does_not_hide_a_registration(exporter, registered):
    """torch has mappings of its own for aten::add at 11 and 18, which hide one that is registered with torch for 9."""
    registered("aten::add", lambda g, self, other, alpha: g.sub(self, g.mul(other, -alpha)), opset=9)
    made = export(lambda x, y: torch.add(x, y, alpha=2) + 1, "x y", (X, X), exporter, opset=18)
    assert not [node for node in nodes(made) if node.op_type == "Add"]
    np.testing.assert_allclose(run(made, X, X)[0], 3 * X + 1, rtol=1e-6)


@both
def test_below_its_opset_a_registration_says_why_it_does_not_serve(exporter, registered):
    """In one sentence, and only where the module calls the operator."""
    registered("aten::asinh", lambda g, self: g.asinh(self), opset=19)
    with pytest.raises(ExportError) as raised:
        export(torch.asinh, "x", (X,), exporter, opset=18)
    assert str(raised.value) == (
        "aten::asinh is registered for opset 19 and above, but the export writes 18. Register it for opset 18 too, or "
        "export at opset 19."
    )
    assert [node.op_type for node in nodes(export(torch.relu, "x", (X,), exporter, opset=18))] == ["Relu"]


@both
def test_an_operator_can_be_registered_as_a_placeholder(exporter, registered):
    """With a name and no symbolic; an export that names the operator itself goes before."""
    registered("exports::addandround", name="test.customop::CustomOpOne")
    made = export(lambda x: addandround(x, x), "x", (X,), exporter)
    assert made.placeholders == {"test.customop::CustomOpOne": 1}
    made = export(lambda x: addandround(x, x), "x", (X,), exporter, placeholders={addandround: "other::Op"})
    assert made.placeholders == {"other::Op": 1}


@both
def test_an_autograd_function_can_be_registered(exporter, registered):
    """Its numbers are arguments by the names that forward gives them; the dtype stays, and so does a lack of axes."""
    registered(MyAdd, lambda g, a, b, times: g.add(g.mul(a, times), b))
    a, b = torch.tensor(4, dtype=torch.int32), torch.tensor(5, dtype=torch.int32)
    made = export(lambda a, b: MyAdd.apply(a, b, 3), "a b", (a, b), exporter, opset=18, output_names=["y"])
    assert [node.op_type for node in nodes(made) if node.op_type != "Constant"] == ["Mul", "Add"]
    assert types(made)["y"] == ("INT32", ())
    assert run(made, a, b)[0] == 17


@both
def test_an_argument_is_not_dropped_in_silence(exporter, registered):
    """gelu(approximate="tanh") written as the exact one would be wrong by 3e-4."""
    registered("aten::gelu", lambda g, self: g.gelu(self), opset=20)
    exact = export(torch.nn.functional.gelu, "x", (X,), exporter, opset=20)
    assert [node.op_type for node in nodes(exact)] == ["Gelu"]

    def tanh(x):
        return torch.nn.functional.gelu(x, approximate="tanh")

    with pytest.raises(surgeon.SurgeonError, match="has no parameter 'approximate', which is 'tanh' here") as raised:
        export(tanh, "x", (X,), exporter, opset=20)
    assert "\n" not in str(raised.value)


@both
def test_a_symbolic_that_returns_another_number_of_tensors(exporter, registered):
    """The exporters do not compare the counts."""
    registered("aten::asinh", lambda g, self: (g.asinh(self), self))
    with pytest.raises(surgeon.SurgeonError, match="returns 2 tensors, but the operator returns 1"):
        export(torch.asinh, "x", (X,), exporter)


@both
def test_a_wrong_helper_in_a_symbolic_names_the_line_of_the_symbolic(exporter, registered):
    def wrong(g, self):
        return g.asinhh(self)

    registered("aten::asinh", wrong)
    where = rf"\(test_register.py:{wrong.__code__.co_firstlineno}\)"
    with pytest.raises(surgeon.RuleError, match=rf"^Rule .*{where}: No helper"):
        export(torch.asinh, "x", (X,), exporter)


@both
def test_a_symbolic_that_declines(exporter, registered):
    """`require` in it: the reason is in the message."""

    def only_matrices(g, self):
        surgeon.require(self.rank == 3, "only for three axes")
        return g.asinh(self)

    registered("aten::asinh", only_matrices)
    with pytest.raises(ExportError, match="does not fit 1 of its nodes: only for three axes"):
        export(torch.asinh, "x", (X,), exporter)


@pytest.mark.parametrize(
    ("op", "symbolic", "options", "words"),
    [
        ("aten::asinh", lambda g, x, y: x, {}, "a parameter 'y', which is not an argument of"),
        ("aten::asinh", lambda g, *, out: out, {}, "a parameter 'out', which is not an argument of"),
        ("aten::add.Tensor", lambda g, x, self: x, {}, "takes 'self' as both 'x' and 'self'. Rename one of them"),
        ("aten::asinh", lambda g, *inputs: None, {}, r"a parameter '\*inputs', which is not an argument of"),
        ("aten::asinh", lambda: None, {}, "has no parameters. The first one is the graph"),
        ("aten::asinh", 3, {}, "3 cannot be registered for aten::asinh, because it is not callable"),
        ("aten::asinh", lambda g, self: self, {"opset": 0}, "an integer of at least 1, not 0"),
        ("asinh", lambda g, self: self, {}, "'asinh', but it must have two names"),
        ("aten::nothing_like_it", lambda g, self: self, {}, "torch has no operator aten::nothing_like_it"),
        ("exports::blind", lambda g, x: x, {}, "exports::blind has no fake kernel"),
        (
            MyAdd,
            lambda g, a, b, times, factor: a,
            {},
            "a parameter 'factor', which is not an argument of the operator. Its arguments are a, b, times",
        ),
    ],
    ids=lambda item: str(item)[:20],
)
def test_what_cannot_be_registered(op, symbolic, options, words):
    """Refused at once, in one sentence."""
    with pytest.raises(UsageError, match=words):
        surgeon.torch.register(op, symbolic, **options)
    with pytest.raises(surgeon.SurgeonError):
        surgeon.torch.unregister(op)


def test_what_is_not_registered_cannot_be_taken_back():
    """At all, and for one opset."""
    with pytest.raises(UsageError, match="Nothing is registered for aten::asinh"):
        surgeon.torch.unregister("aten::asinh")
    surgeon.torch.register("aten::asinh", lambda g, self: g.asinh(self), opset=9)
    with pytest.raises(UsageError, match="Nothing is registered for aten::asinh for opset 10"):
        surgeon.torch.unregister("aten::asinh", 10)
    surgeon.torch.unregister("aten::asinh")
