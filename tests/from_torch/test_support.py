"""What exporters of torch can write: single operators, and the operators of a module, by both exporters."""

import io
import re
import warnings

import pytest
import torch
from torch import nn

import surgeon.torch
from surgeon.errors import UsageError
from surgeon.torch.exporters.builtin_mappings import DYNAMO, OPSETS, TORCHSCRIPT, mapped_opsets
from tests.from_torch.operators import registered
from tests.versions import NEWEST_OF_DYNAMO

EXPORTERS = (DYNAMO, TORCHSCRIPT)
LOWEST = OPSETS[DYNAMO][0]


@pytest.fixture(scope="module")
def custom():
    """An operator of a user's own, for as long as this module's tests run."""
    with torch.library._scoped_library("surgeon_support", "DEF") as library:
        library.define("scaled(Tensor x, float alpha) -> Tensor")
        library.impl("scaled", lambda x, alpha: x * alpha, "CompositeExplicitAutograd")
        library.impl("scaled", lambda x, alpha: torch.empty_like(x), "Meta")
        yield "surgeon_support::scaled"


@pytest.mark.parametrize(
    ("op", "exporter", "since"),
    [
        ("aten::gelu", DYNAMO, LOWEST),
        ("aten::gelu", TORCHSCRIPT, 7),
        ("aten::add.Tensor", DYNAMO, LOWEST),
        ("aten::add", TORCHSCRIPT, 7),
        ("aten::asinh", DYNAMO, LOWEST),
        ("aten::scaled_dot_product_attention", TORCHSCRIPT, 14),
        ("aten::stft", TORCHSCRIPT, 17),
        (torch.ops.aten.layer_norm, DYNAMO, LOWEST),
        (torch.ops.aten.silu.default, TORCHSCRIPT, 7),
    ],
)
def test_an_operator_with_a_mapping(op, exporter, since):
    """Names with and without overload, overloads and packets; the opset says from when on."""
    found = surgeon.torch.is_supported(op, exporter=exporter)
    assert found
    assert (found.since, found.exporter, found.becomes) == (since, exporter, ())
    assert found.reason == f"The {exporter} exporter has a mapping for {found.op}."


@pytest.mark.parametrize(
    ("op", "exporter", "words"),
    [
        ("aten::i0", DYNAMO, "no mapping for prims::bessel_i0, into which torch decomposes aten::i0"),
        ("aten::i0", TORCHSCRIPT, "no mapping for aten::i0, and no ONNX op has its name"),
        ("aten::kthvalue", DYNAMO, "Export with placeholders=['aten::kthvalue']"),
        ("aten::asinh", TORCHSCRIPT, "although ONNX's Asinh (from opset 9 on) exists"),
        ("aten::rms_norm", TORCHSCRIPT, "ONNX's RMSNormalization (from opset 23 on)"),
    ],
)
def test_an_operator_without_one_says_which_link_is_missing(op, exporter, words):
    found = surgeon.torch.is_supported(op, exporter=exporter)
    assert not found
    assert found.since is None
    assert words in found.reason


def test_what_is_taken_apart_is_supported_if_all_its_pieces_are():
    """The pieces are found with made-up arguments: the answer is that of an export."""
    found = surgeon.torch.is_supported("aten::binary_cross_entropy_with_logits")
    assert found
    assert "aten::log_sigmoid" in found.becomes
    assert all(surgeon.torch.is_supported(piece) for piece in found.becomes)


def test_the_opset_decides():
    """A mapping that came with an opset is missing below it, and the sentence names that opset."""
    early = surgeon.torch.is_supported("aten::scaled_dot_product_attention", exporter=TORCHSCRIPT, opset=13)
    assert not early
    assert early.since == 14
    assert "Export at opset 14 or later" in early.reason
    assert surgeon.torch.is_supported("aten::rms_norm", opset=23).becomes == ()
    assert surgeon.torch.is_supported("aten::rms_norm", opset=22).becomes  # taken apart below 23


def test_an_operator_of_ones_own(custom):
    for exporter in EXPORTERS:
        found = surgeon.torch.is_supported(custom, exporter=exporter)
        assert not found
        assert f"placeholders=['{custom}']" in found.reason


def test_what_is_registered_is_supported(custom):
    """From the opset on for which it was registered."""
    surgeon.torch.register(custom, lambda g, x, alpha: g.mul(x, alpha), opset=18)
    try:
        for exporter in EXPORTERS:
            assert surgeon.torch.is_supported(custom, exporter=exporter, opset=18).since == 18
            assert not surgeon.torch.is_supported(custom, exporter=exporter, opset=17)
    finally:
        surgeon.torch.unregister(custom)
    assert not surgeon.torch.is_supported(custom, opset=18)


def test_torchs_own_registration_counts(custom):
    """What was registered with torch.onnx is found as well."""
    with registered(custom, lambda g, x, alpha: g.op("Mul", x, alpha), 15):
        assert surgeon.torch.is_supported(custom, exporter=TORCHSCRIPT).since == 15


@pytest.mark.parametrize(
    ("op", "words"),
    [("aten::gleu", "Did you mean .*aten::gelu"), ("nobodys::op", "torch has no operator nobodys::op")],
)
def test_what_torch_does_not_have_is_not_supported(op, words):
    """The answer is no, and the reason says so."""
    support = surgeon.torch.is_supported(op)
    assert (bool(support), support.op, support.since) == (False, op, None)
    assert re.search(words, support.reason)


@pytest.mark.parametrize(
    ("op", "options", "words"),
    [
        ("gelu", {}, "with '::' between"),
        ("aten::add.Tensr", {}, "It has Tensor, Scalar"),
        ("aten::gelu", {"opset": 5}, f"opsets .* to {NEWEST_OF_DYNAMO}, not 5"),
        ("aten::gelu", {"exporter": "onnx"}, "Choose dynamo or torchscript"),
        (nn.GELU, {}, "Use surgeon.torch.unsupported"),
    ],
)
def test_bad_questions(op, options, words):
    with pytest.raises(UsageError, match=words):
        surgeon.torch.is_supported(op, **options)


def test_the_answers_are_those_of_the_exporters_themselves():
    """Beside torch's own registries, for a sample of operators that both know or not."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    ours = ONNXRegistry.from_torchlib(20)
    for name in ("gelu", "i0", "add", "kthvalue", "asinh", "rms_norm", "conv2d"):
        op = getattr(torch.ops.aten, name)
        op = getattr(op, op.overloads()[0])
        assert (20 in mapped_opsets(op, DYNAMO)) == ours.is_registered(op), name
    assert 7 in OPSETS[TORCHSCRIPT]


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return torch.special.i1(a) * 2 + b


class WithSymbolic(Function):
    @staticmethod
    def symbolic(g, a, b):
        return g.op("mylib::MyAdd", a, b)


class Inner(nn.Module):
    def forward(self, x):
        return torch.i0(x) + torch.special.i0(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.layers = nn.ModuleList([nn.Linear(3, 3), Inner()])

    def forward(self, x, y):
        z = self.inner(x) + self.layers[1](x)
        z = nn.functional.gelu(self.layers[0](z))
        values, _ = torch.kthvalue(z, 1, dim=0)
        return values, x.add(1).asinh_() + Function.apply(x, y) + WithSymbolic.apply(x, y)


@pytest.fixture(scope="module")
def findings():
    """The findings of both exporters, by the operator's name."""
    x = torch.rand(2, 3)
    return {
        exporter: {one.op: one for one in surgeon.torch.unsupported(Net(), (x, x), exporter=exporter)}
        for exporter in EXPORTERS
    }


def test_a_modules_operators_by_the_users_names(findings):
    """What torch.export takes apart is named by the call in the user's own module, where it stands."""
    dynamo = findings[DYNAMO]
    assert set(dynamo) == {"aten::i0", "aten::special_i0", "aten::kthvalue", "aten::special_i1"}
    i0 = dynamo["aten::i0"]
    assert (i0.name, i0.missing, i0.placeholder, i0.since, i0.count) == (
        "torch.i0",
        ("prims::bessel_i0",),
        "aten::i0",
        None,
        2,
    )
    assert dynamo["aten::special_i0"].name == "torch.special.i0"
    assert [module for module, _ in i0.where] == ["inner", "layers.1"]
    assert all(line.rpartition(":")[0].endswith("test_support.py") for _, line in i0.where)
    assert str(i0).startswith("torch.i0, 2 times (")
    assert dynamo["aten::special_i1"].count == 2  # both functions: this exporter does not heed `symbolic`


def test_the_same_by_tracing(findings):
    """In-place calls count as the plain operator, and what an autograd.Function with a symbolic calls does not."""
    traced = findings[TORCHSCRIPT]
    assert set(traced) == {"aten::i0", "aten::asinh", "aten::kthvalue", "aten::special_i1"}
    assert traced["aten::i0"].count == 4  # torch.special.i0 is the same to tracing
    assert traced["aten::special_i1"].count == 1
    assert traced["aten::asinh"].name == "torch.asinh"
    assert traced["aten::i0"].where[0][0] == "inner"
    assert traced["aten::kthvalue"].where[0][1].rpartition(":")[0].endswith("test_support.py")


def test_a_module_that_an_export_writes_has_none():
    for exporter in EXPORTERS:
        assert surgeon.torch.unsupported(nn.Linear(3, 2), (torch.rand(1, 3),), exporter=exporter) == []


def test_keyword_arguments_and_custom_operators(custom):
    class Scaled(nn.Module):
        def forward(self, x, *, alpha):
            return torch.ops.surgeon_support.scaled(x * alpha, 1.5)

    for exporter in EXPORTERS:
        (found,) = surgeon.torch.unsupported(
            Scaled(), (torch.rand(2),), kwargs={"alpha": torch.tensor(2.0)}, exporter=exporter
        )
        assert (found.name, found.placeholder) == (custom, custom)


def test_a_module_that_torch_cannot_capture():
    """One sentence, with what torch says."""

    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("no such thing")

    for exporter in EXPORTERS:
        with pytest.raises(UsageError, match="no such thing"):
            surgeon.torch.unsupported(Broken(), (torch.rand(2),), exporter=exporter)
    assert surgeon.torch.unsupported(nn.GELU(), torch.rand(2)) == []


def test_branches_and_checks():
    """What a branch calls counts; a check that the exporter takes out does not."""

    class Branches(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: torch.i0(x), lambda x: x + 1, (x,)), torch.unique(x)

    (found,) = surgeon.torch.unsupported(Branches(), (torch.rand(3),))
    assert (found.op, found.missing) == ("aten::i0", ("prims::bessel_i0",))


def test_a_missing_fake_kernel_is_said():
    with torch.library._scoped_library("surgeon_no_fake", "DEF") as library:
        library.define("op(Tensor x) -> Tensor")
        library.impl("op", lambda x: x * 2, "CPU")

        class Net(nn.Module):
            def forward(self, x):
                return torch.ops.surgeon_no_fake.op(x)

        with pytest.raises(UsageError, match=r"no fake kernel.*register_fake\('surgeon_no_fake::op'\)"):
            surgeon.torch.unsupported(Net(), (torch.rand(2),))


@pytest.mark.parametrize("name", ["asinh", "gelu", "polygamma", "logit", "kthvalue", "hypot", "softshrink"])
def test_what_is_said_is_what_an_export_does(name):
    """A module of one operator: the TorchScript exporter refuses it exactly where something is found."""

    calls = {"polygamma": lambda x: torch.polygamma(1, x), "kthvalue": lambda x: torch.kthvalue(x, 1)}
    calls |= {"hypot": lambda x: torch.hypot(x, x)}

    class Net(nn.Module):
        def forward(self, x):
            return (calls.get(name) or getattr(nn.functional, name, None) or getattr(torch, name))(x)

    found = surgeon.torch.unsupported(Net(), (torch.rand(2, 3),), exporter=TORCHSCRIPT, opset=17)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(Net(), (torch.rand(2, 3),), io.BytesIO(), dynamo=False, opset_version=17)
        refused = []
    except torch.onnx.errors.UnsupportedOperatorError:
        refused = [f"aten::{name}"]
    assert [one.op for one in found] == refused
