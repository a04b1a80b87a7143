"""torch's own operators as implementations of their placeholders: what a node may look like, and proofs by them."""

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch

import surgeon.torch
from surgeon import rule
from surgeon.errors import CheckFailed, UsageError
from surgeon.proof.check_result import Outcome
from surgeon.runtime.implementations.implementation import available
from surgeon.testing import parse

pytestmark = pytest.mark.usefixtures("forget_implementations")
X = np.array([[1.0, -2.0, 3.0]], np.float32)


@pytest.fixture
def custom():
    """An operator of a notebook: it is in no file, and in no other process."""
    with torch.library._scoped_library("surgeon_implement", "DEF") as library:
        library.define("scaled(Tensor x, float alpha, *, str mode='a', ScalarType? dtype=None) -> Tensor")

        def scaled(x, alpha, *, mode="a", dtype=None):
            return (x * alpha + (mode == "b")).to(dtype or x.dtype)

        library.impl("scaled", scaled, "CompositeExplicitAutograd")
        yield "surgeon_implement::scaled"


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "wanted"),
    [
        ("aten::asinh", [X], {}, np.arcsinh(X)),
        ("aten::add", [X, X], {"alpha": 2}, 3 * X),
        ("aten::add", [X], {"other": 1, "alpha": 2}, X + 2),
        ("aten::add", [X, np.array(1)], {"alpha": 2}, X + 2),
        (
            "aten::sum",
            [X],
            {"dim": [1], "keepdim": 1, "dtype": onnx.TensorProto.DOUBLE},
            X.astype(np.float64).sum(1, keepdims=True),
        ),
        ("aten::cat", [X, X, X], {"dim": 1}, np.concatenate([X, X, X], 1)),
        ("aten::clamp", [X], {"max": 1.0}, np.minimum(X, 1)),
        ("aten::clamp", [X, None, X * 0], {}, np.minimum(X, 0)),
        ("aten::asinh", [X.astype(ml_dtypes.bfloat16)], {}, np.arcsinh(X.astype(ml_dtypes.bfloat16))),
        (torch.ops.aten.add.Scalar, [X], {"other": 1, "alpha": 1}, X + 1),
    ],
)
def test_a_node_is_computed_by_torch(op, inputs, attributes, wanted):
    """Inputs are tensors in order, None for one that is left out; overloads are told apart by what a node has."""
    found = surgeon.torch.implement(op)(*inputs, **attributes)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(
        found.astype(np.float64), wanted.astype(np.float64), rtol=1e-2 if wanted.dtype.itemsize < 4 else 1e-6
    )


def test_several_outputs():
    values, places = surgeon.torch.implement("aten::kthvalue")(X, k=1, dim=1, keepdim=0)
    assert (values, places) == (-2.0, 1)
    assert places.dtype == np.int64


def test_all_arguments_as_inputs():
    """As the exporter writes an operator that it does not know: numbers and strings are constants."""
    text = np.array("tanh", dtype=object)
    plain = surgeon.torch.implement("aten::gelu")(X, approximate="tanh")
    known = available()
    assert np.array_equal(known["org.pytorch.aten", "gelu"].function(X, text), plain)
    assert np.array_equal(known["org.pytorch.aten", "ATen"].function(X, text, operator="gelu", overload_name=""), plain)
    stacked = surgeon.torch.implement("aten::block_diag")([X, X])
    assert stacked.shape == (2, 6)


def test_an_operator_of_ones_own(custom):
    """Under the name that its placeholder was given; strings and dtypes arrive as torch has them."""
    surgeon.torch.implement(custom, "test.customop::CustomOpOne")
    function = available()["test.customop", "CustomOpOne"].function
    found = function(X, alpha=2.0, mode="b", dtype=onnx.TensorProto.FLOAT16)
    assert found.dtype == np.float16
    assert np.array_equal(found, 2 * X + 1)


class Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, factor, b, c=None):
        return a * factor + b


def test_an_autograd_function():
    """Numbers are attributes by name, tensors inputs in order; by both exporters, held against the module."""

    class Net(torch.nn.Module):
        def forward(self, x):
            return Weighted.apply(x, 2.5, x.abs())

    args = (torch.from_numpy(X),)
    assert np.array_equal(surgeon.torch.implement(Weighted, "mine::Weighted")(X, X, factor=2.0), 3 * X)
    for exporter in ("dynamo", "torchscript"):
        exported = surgeon.torch.export(Net(), args, placeholders={Weighted: "mine::Weighted"}, exporter=exporter)
        assert surgeon.torch.compare(Net(), exported, args).engine.endswith("mine::Weighted")


MODEL = """<ir_version: 9, opset_import: ["": 18, "surgeon_implement": 1]> main (float[n,3] x) => (float[n,3] y)
    { a = Relu(x) b = surgeon_implement.scaled<alpha = 2.5, mode = "a">(a) y = Neg(b) }"""


def placeholder(g, x, alpha):
    """The placeholder."""
    return g.op("surgeon_implement::scaled", x, alpha=alpha, mode="a")


@rule(patterns=[placeholder], target="any")
def right(g, x, alpha):
    """Multiply.

    Numerics: rounding only.
    """
    return g.mul(x, np.float32(alpha))


@rule(patterns=[placeholder], target="any")
def wrong(g, x, alpha):
    """Multiply, but by something else.

    Numerics: wrong.
    """
    return g.mul(x, np.float32(alpha * 1.001))


def test_rules_are_proved_against_torch_itself(custom):
    """The oracle is torch's operator, which the rule had no hand in; without it nothing could be told."""
    _, before = surgeon.rewrite(parse(MODEL), right)
    assert before.sites[0].proof.outcome is Outcome.UNPROVED
    surgeon.torch.implement(custom)
    made, report = surgeon.rewrite(parse(MODEL), right, require_proof=True)
    (site,) = report.sites
    assert site.proof.outcome is Outcome.PROVED
    assert site.proof.independent
    assert f"Python implementation of {custom}" in site.proof.oracle
    assert [node.op_type for node in made.graph.node] == ["Relu", "Mul", "Neg"]


def test_a_file_may_name_operators_of_torch(tmp_path):
    """`--custom-ops ops.py`: no function of one's own is written, and the file counts for its run alone."""
    path = tmp_path / "ops.py"
    path.write_text("import surgeon.torch\n\nsurgeon.torch.implement('aten::i0', 'mine::I0')\n")
    model = parse(
        """<ir_version: 9, opset_import: ["": 18, "mine": 1]> main (float[n] x) => (float[n] y)
        { a = mine.I0(x) b = mine.I0(x) y = Add(a, b) }"""
    )

    @rule(patterns=[lambda g, x: g.add(g.op("mine::I0", x), g.op("mine::I0", x))], target="any")
    def doubled(g, x):
        """Double.

        Numerics: none.
        """
        return g.mul(g.op("mine::I0", x), np.float32(2))

    options = surgeon.CheckOptions(custom_ops=[path])
    _, report = surgeon.rewrite(model, doubled, options=options, require_proof=True)
    assert "Python implementation of mine::I0" in report.sites[0].proof.oracle
    assert ("mine", "I0") not in available()


def test_a_wrong_rule_is_found_and_rolled_back(custom):
    surgeon.torch.implement(custom)
    with pytest.raises(CheckFailed) as failed:
        surgeon.rewrite(parse(MODEL), wrong)
    assert [node.op_type for node in failed.value.result.graph.node] == ["Relu", "scaled", "Neg"]


def test_the_exported_placeholder_and_the_rewritten_model_both_run(custom):
    """From the module to its placeholder to the rewritten model, each held against torch, for both exporters."""
    surgeon.torch.implement(custom)

    class Net(torch.nn.Module):
        def forward(self, x):
            return -torch.ops.surgeon_implement.scaled(torch.relu(x), 2.5)

    torch.library.register_fake(custom, lambda x, alpha, *, mode="a", dtype=None: torch.empty_like(x))
    args = (torch.from_numpy(X),)
    for exporter in ("dynamo", "torchscript"):
        exported = surgeon.torch.export(Net(), args, placeholders=[custom], exporter=exporter)
        assert surgeon.torch.compare(Net(), exported, args).engine.endswith(custom)
        made, _ = surgeon.rewrite(exported.model, right, require_proof=True)
        assert surgeon.torch.compare(Net(), made, args).engine == "ONNX Runtime"


def test_a_node_that_fits_no_overload(custom):
    surgeon.torch.implement(custom)
    function = available()[tuple(custom.split("::"))].function
    with pytest.raises(
        UsageError, match=r"takes 1 tensors and the attributes beta \(overloads: surgeon_implement::scaled\)"
    ):
        function(X, beta=1.0)
    with pytest.raises(UsageError, match="no dtype for 8"):
        function(X, alpha=1.0, dtype=onnx.TensorProto.STRING)


@pytest.mark.parametrize(
    ("op", "name", "words"),
    [
        ("aten::gleu", None, "Did you mean"),
        ("aten::gelu", "gelu", "with '::' between"),
        ("aten::gelu", "ai.onnx::Gelu", "ONNX's own domain"),
        (torch.nn.GELU, None, r"is a module class.*@surgeon\.implements\('torch::GELU'\)"),
    ],
)
def test_bad_names(op, name, words):
    with pytest.raises(UsageError, match=words):
        surgeon.torch.implement(op, name)
