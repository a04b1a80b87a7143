"""A module under torch beside a model under ONNX Runtime: what agrees, and how each difference is told."""

import io

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import parser
from torch import nn

import surgeon.torch
from surgeon.errors import CheckFailed, ModelFileError, UsageError
from surgeon.runtime.implementations.implementation import unregister
from surgeon.torch.module_comparison import TOLERANCES

X, Y = torch.tensor([[1.0, -2.0, 3.0]]), torch.tensor([[0.5, 4.0, -1.0]])


class Net(nn.Module):
    def forward(self, x, y):
        return {"sum": x + y, "rest": [torch.tanh(x), x > y, None]}


def model(body, inputs="float[a,3] x, float[a,3] y", outputs="float[a,3] s, float[a,3] t, bool[a,3] g", domain=""):
    head = f'<ir_version: 9, opset_import: ["": 18{domain}]>'
    return parser.parse_model(f"{head} main ({inputs}) => ({outputs}) {{ {body} }}")


GOOD = "s = Add(x, y) t = Tanh(x) g = Greater(x, y)"


def test_every_output_in_order():
    """Lists and dicts are taken apart, None is none; the result shows the worst error of each."""
    found = surgeon.torch.compare(Net(), model(GOOD), (X, Y))
    assert found
    assert [(one.name, one.dtype, one.ok) for one in found.outputs] == [
        ("s", "float32", True),
        ("t", "float32", True),
        ("g", "bool", True),
    ]
    assert found.engine == "ONNX Runtime"
    assert "3 outputs agree" in repr(found)
    assert "g: bool[1, 3], equal" in repr(found)


def test_arguments_go_by_name_and_else_in_order():
    """Inputs in another order than forward has, and inputs that forward calls otherwise."""
    swapped = model(GOOD, "float[a,3] y, float[a,3] x")
    assert surgeon.torch.compare(Net(), swapped, (X, Y))
    assert surgeon.torch.compare(Net(), swapped, (X,), kwargs={"y": Y})
    renamed = model("s = Add(p, q) t = Tanh(p) g = Greater(p, q)", "float[a,3] p, float[a,3] q")
    assert surgeon.torch.compare(Net(), renamed, (X, Y))


def test_an_input_that_the_exporter_dropped():
    """A model may have fewer inputs, if their names say which."""

    class First(nn.Module):
        def forward(self, x, unused):
            return x + 1

    one = model("s = Add(x, c)", "float[a,3] x", "float[a,3] s")
    one.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1), "c"))
    assert surgeon.torch.compare(First(), one, (X, Y))


@pytest.mark.parametrize(
    ("body", "outputs", "words"),
    [
        (
            "s = Add(x, y) t = Tan(x) g = Greater(x, y)",
            None,
            r"Output 't' differs from torch in 3 of 3 elements, by at most ",
        ),
        ("s = Add(x, y) t = Tanh(x) g = Less(x, y)", None, r"Output 'g' differs from torch in 3 of 3 elements"),
        (
            "s = Add(x, y) t = Tanh(x)",
            "float[a,3] s, float[a,3] t",
            r"torch returns 3 outputs, but the model returns 2 \(s, t\)",
        ),
        (
            "s = Add(x, y) t = Tanh(x) h = Greater(x, y) g = Cast<to = 7>(h)",
            "float[a,3] s, float[a,3] t, int64[a,3] g",
            "Output 'g' is int64, but bool in torch",
        ),
        (
            "s = Add(x, y) t = Flatten<axis = 0>(u) u = Tanh(x) g = Greater(x, y)".replace(
                "t = Flatten<axis = 0>(u) u = Tanh(x)", "u = Tanh(x) t = Transpose(u)"
            ),
            "float[a,3] s, float[b,c] t, bool[a,3] g",
            r"Output 't' has shape \[3, 1\], but \[1, 3\] in torch",
        ),
    ],
)
def test_a_difference_is_one_sentence_on_the_worst_output(body, outputs, words):
    with pytest.raises(CheckFailed, match=words) as failed:
        surgeon.torch.compare(Net(), model(body, **({"outputs": outputs} if outputs else {})), (X, Y))
    assert str(failed.value).count(".") <= str(failed.value).count("e-") + 8
    if failed.value.report is not None:
        assert not failed.value.report
        assert "WRONG" in repr(failed.value.report)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return 2 * a + b

    @staticmethod
    def symbolic(g, a, b):
        two = g.op("Constant", value_t=torch.tensor([2]))
        return g.op("Add", g.op("Mul", a, two), b)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.tensor(1.0), r"has shape \[1\], but \[\] .a scalar. in torch"),
        (torch.tensor([1], dtype=torch.int32), "is int64, but int32 in torch"),
    ],
)
def test_the_trap_of_a_symbolic_with_a_constant_of_its_own(value, words):
    """Exported by torch itself: int32 becomes int64, and a number becomes a vector of one."""

    class Net(nn.Module):
        def forward(self, a, b):
            return Doubled.apply(a, b)

    stream = io.BytesIO()
    torch.onnx.export(Net(), (value, value), stream, dynamo=False, opset_version=17, input_names=["a", "b"])
    with pytest.raises(CheckFailed, match=words):
        surgeon.torch.compare(Net(), onnx.load_from_string(stream.getvalue()), (value, value))


def test_tolerances_are_those_of_assert_close():
    """The table is torch's, and the judgement that of torch.testing.assert_close."""
    for dtype, tolerances in TOLERANCES.items():
        assert torch.testing._comparison.default_tolerances(getattr(torch, dtype)) == tolerances

    class Plus(nn.Module):
        def forward(self, x):
            return x * self.factor

    identity = model("s = Identity(x)", "float[a,3] x", "float[a,3] s")
    for factor in (1 + 1e-6, 1 + 4e-6, 1 + 8e-6, 1 + 2e-5):
        module = Plus()
        module.factor = factor
        try:
            torch.testing.assert_close(X, X * factor)
            is_close = True
        except AssertionError:
            is_close = False
        try:
            assert bool(surgeon.torch.compare(module, identity, (X,))) == is_close
        except CheckFailed:
            assert not is_close
        assert surgeon.torch.compare(module, identity, (X,), rtol=1e-3)


def test_nan_and_infinity_agree_where_they_stand():
    class Log(nn.Module):
        def forward(self, x):
            return torch.log(x)

    log = model("s = Log(x)", "float[a,3] x", "float[a,3] s")
    special = torch.tensor([[-1.0, 0.0, 1.0]])
    assert surgeon.torch.compare(Log(), log, (special,))
    with pytest.raises(CheckFailed, match="in 1 of 3 elements, by at most inf"):
        surgeon.torch.compare(Log(), model("t = Abs(x) s = Log(t)", "float[a,3] x", "float[a,3] s"), (special,))


def test_large_integers_are_compared_exactly():
    """2**53 + 1 is not 2**53, though a double cannot tell them apart."""

    class Plus(nn.Module):
        def forward(self, x):
            return x + 1

    identity = model("s = Identity(x)", "int64[1] x", "int64[1] s")
    with pytest.raises(CheckFailed, match="differs from torch in 1 of 1 elements"):
        surgeon.torch.compare(Plus(), identity, (torch.tensor([2**53]),))


def test_the_module_stays_as_it_is():
    """Its mode is the user's, its inputs are not written into, and nothing learns."""

    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x.mul_(self.weight)

    module, x = Writes().train(), X.clone()
    identity = model("s = Identity(x)", "float[a,3] x", "float[a,3] s")
    assert surgeon.torch.compare(module, identity, (x,))
    assert module.training
    assert torch.equal(x, X)


def test_bfloat16_goes_both_ways():
    class Twice(nn.Module):
        def forward(self, x):
            return x + x

    one = model("s = Add(x, x)", "bfloat16[a,3] x", "bfloat16[a,3] s")
    found = surgeon.torch.compare(Twice(), one, (X.to(torch.bfloat16),))
    assert found.outputs[0].dtype == np.dtype(ml_dtypes.bfloat16).name


def test_a_placeholder_runs_by_its_implementation(tmp_path):
    """ONNX Runtime has no kernel for it; a Python file, or torch itself, computes it."""
    held = model("s = surgeon_compare.scaled<alpha = 2.5>(x)", "float[1,3] x", "float[1,3] s", ', "surgeon_compare": 1')

    class Scaled(nn.Module):
        def forward(self, x):
            return x * 2.5

    with pytest.raises(CheckFailed, match="surgeon_compare.*custom_ops, or an implementation"):
        surgeon.torch.compare(Scaled(), held, (X,))
    path = tmp_path / "ops.py"
    path.write_text(
        "import surgeon\n\n\n@surgeon.implements('surgeon_compare::scaled')\ndef scaled(x, alpha):\n"
        "    return (x * alpha).astype(x.dtype)\n"
    )
    found = surgeon.torch.compare(Scaled(), held, (X,), custom_ops=[path])
    assert found.engine == "Python implementation of surgeon_compare::scaled"
    with torch.library._scoped_library("surgeon_compare", "DEF") as library:
        library.define("scaled(Tensor x, float alpha) -> Tensor")
        library.impl("scaled", lambda x, alpha: x * alpha, "CompositeExplicitAutograd")
        surgeon.torch.implement("surgeon_compare::scaled")
        try:
            assert surgeon.torch.compare(Scaled(), held, (X,)).outputs[0].max_abs == 0
        finally:
            unregister("surgeon_compare::scaled")


def test_a_model_on_disk(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model(GOOD), path)
    assert surgeon.torch.compare(Net(), path, (X, Y))
    with pytest.raises(ModelFileError, match="File not found"):
        surgeon.torch.compare(Net(), tmp_path / "none.onnx", (X, Y))


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((X,), {}, "missing a required argument: 'y'"),
        (X, {}, "missing a required argument: 'y'"),
        ((X, Y), {"rtol": -1.0}, "at least 0"),
        ((X, Y), {"custom_ops": ["none.so"]}, "Custom-op library not found"),
    ],
)
def test_bad_arguments(args, options, words):
    with pytest.raises(UsageError, match=words):
        surgeon.torch.compare(Net(), model(GOOD), args, **options)


def test_a_model_that_does_not_run():
    """What ONNX Runtime says is in the sentence."""
    broken = model("s = Add(x, n) t = Tanh(x) g = Greater(x, y)")
    with pytest.raises(CheckFailed, match="does not run .*Correct the model"):
        surgeon.torch.compare(Net(), broken, (X, Y))
