"""Placeholders with all arguments as inputs: which get them by name, which cannot, and real exports of both kinds."""

import io
import warnings

import numpy as np
import onnx
import pytest
from surgeon.patterns.placeholders.named_arguments import named_arguments

import surgeon
from surgeon.ops import torch_schema
from surgeon.ops.torch_fallbacks import lost, operator_of
from surgeon.proof.check_result import Outcome
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.command_line import process

HEAD = "(float[2, 4] x) => (float[2, 4] y)"
HEADER = '<ir_version: 8, opset_import: ["" : 17, "org.pytorch.aten" : 1, "prim" : 1, "mine" : 1, "aten" : 1]> agraph '
MINE = (
    'mine::scaled(Tensor x, Tensor? bias, float alpha, int[] sizes, *, str mode="up", ScalarType? dtype=None) -> Tensor'
)
BY_PLACE = "a = Constant<value = double {2.5}>() s = Constant<value = int64[2] {3, 4}>() " + (
    'm = Constant<value_string = "up">() d = Constant<value = int64 {6}>() '
)


def model(body, constants="", head=HEAD):
    """One input x and one output y."""
    return parse(f"{HEADER}{head} <{constants}> {{ {body} }}")


def fallback(operator, inputs="x", overload="", more=""):
    """A node of ONNX_ATEN_FALLBACK."""
    return f'y = org.pytorch.aten.ATen<operator = "{operator}", overload_name = "{overload}"{more}>({inputs})'


@pytest.fixture(autouse=True)
def schemas(monkeypatch):
    """The schema of an operator of a user's own."""
    monkeypatch.setattr(torch_schema, "_declared", {})
    for text in (MINE, "mine::twice(Tensor x, float y) -> Tensor", "yours::twice(Tensor x, float y) -> Tensor"):
        surgeon.torch_schema(text)


FIRES = [
    Case(named_arguments, "ATen by its attribute", model(fallback("i0")), check=False),
    Case(named_arguments, "ATen by its name", model("y = org.pytorch.aten.i0(x)"), check=False),
    Case(
        named_arguments,
        "a string",
        model('m = Constant<value_string = "tanh">() ' + fallback("gelu", "x, m")),
        check=False,
    ),
    Case(
        named_arguments,
        "an overload that is named",
        model(fallback("add", "x, k, k", "Scalar"), "int64 k = {3}"),
        check=False,
    ),
    Case(
        named_arguments,
        "attributes of its own, as older exporters wrote them",
        model(fallback("hardshrink", more=", lambd = 0.25")),
        check=False,
    ),
    Case(
        named_arguments,
        "another namespace, whose schema was told",
        model(f"{BY_PLACE} y = mine.scaled(x, , a, s, m, d)"),
        check=False,
    ),
    Case(
        named_arguments,
        "another namespace that the exporter left out",
        model(f"{BY_PLACE} {fallback('scaled', 'x, x, a, s, m, d')}"),
        check=False,
    ),
    Case(
        named_arguments,
        "a list of tensors",
        model(
            "l = SequenceConstruct(x, x) z = org.pytorch.aten.block_diag(l) y = Slice(z, k, e)",
            "int64[2] k = {0, 0}, int64[2] e = {2, 4}",
        ),
        check=False,
    ),
    Case(
        named_arguments,
        "for any target",
        model(fallback("i0")),
        target="onnx",
        check=False,
    ),
    Case(
        named_arguments,
        "in a branch",
        model(
            "c = Constant<value = bool {1}>() y = If(c) <then_branch = t () => (float[2, 4] p) { "
            "p = org.pytorch.aten.i0(x) }, else_branch = e () => (float[2, 4] q) { q = Neg(x) }>"
        ),
        check=False,
    ),
]
NEGATIVES = [
    Case(
        named_arguments,
        "named already",
        model('y = aten.gelu<approximate = "tanh">(x)'),
        why="no node of org",
        check=False,
    ),
    Case(named_arguments, "one without numbers", model("y = aten.asinh(x)"), why="no node of org", check=False),
    Case(named_arguments, "nobody's node of tensors", model("y = mine.Plugin(x)"), why="no node of org", check=False),
    Case(
        named_arguments,
        "an operator that ATen does not have",
        model(fallback("gleu")),
        why="did you mean aten::glu or aten::gelu",
        check=False,
    ),
    Case(
        named_arguments,
        "an operator of nobody, with a Python number",
        model("a = Constant<value = double {2.5}>() y = mine.other(x, a)"),
        why="Unknown schema of mine::other; give its schema to surgeon.torch_schema",
        check=False,
    ),
    Case(
        named_arguments,
        "a number that the graph computes",
        model("k = ReduceMax<keepdims = 0>(x) " + fallback("hardshrink", "x, k")),
        why="Argument 'lambd' of aten::hardshrink is computed by the graph ('k')",
        check=False,
    ),
    Case(
        named_arguments,
        "a list that is no SequenceConstruct",
        model(
            "l = SplitToSequence(x) z = org.pytorch.aten.block_diag(l) y = Slice(z, k, e)",
            "int64[2] k = {0, 0}, int64[2] e = {2, 4}",
        ),
        why="does not come from a SequenceConstruct",
        check=False,
    ),
    Case(
        named_arguments,
        "too many arguments",
        model(fallback("i0", "x, x, x")),
        why="No overload of aten::i0 accepts 3 arguments",
        check=False,
    ),
    Case(
        named_arguments,
        "a name that several namespaces have",
        model(f"{BY_PLACE} {fallback('twice', 'x, a')}"),
        why="Several namespaces have an operator twice (mine, yours)",
        check=False,
    ),
    Case(
        named_arguments,
        "what cannot be recovered",
        model('y = prim.PythonOp<inplace = 0, module = "__main__">(x)'),
        why="prim::PythonOp represents an autograd.Function, but the exporter did not write its name and arguments",
        check=False,
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def named(proto):
    """The rewritten node of a domain that is none of ONNX's: name, inputs, attributes."""
    made, _ = surgeon.rewrite(proto, named_arguments, check="none")
    (node,) = [node for node in made.graph.node if node.domain]
    values = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    return f"{node.domain}::{node.op_type}", list(node.input), values


def test_arguments_by_name():
    """Defaults are written out, None is left out, a dtype is ONNX's, and an absent tensor is an empty input."""
    assert named(model(f"{BY_PLACE} y = mine.scaled(x, , a, s, m, d)")) == (
        "mine::scaled",
        ["x"],
        {"alpha": 2.5, "sizes": [3, 4], "mode": b"up", "dtype": onnx.TensorProto.FLOAT},
    )
    assert named(model(f"{BY_PLACE} {fallback('scaled', 'x, x, a, s')}"))[1:] == (
        ["x", "x"],
        {"alpha": 2.5, "sizes": [3, 4], "mode": b"up"},
    )
    name, inputs, attributes = named(
        model(fallback("layer_norm", "x, s, , w"), "int64[1] s = {4}, float[4] w = {1,1,1,1}")
    )
    assert (name, inputs) == ("aten::layer_norm", ["x", "", "w"])
    assert attributes["normalized_shape"] == [4]
    assert attributes["eps"] == pytest.approx(1e-5)


def test_a_number_that_may_be_a_tensor_stays_one():
    """add(x, 3) is the same operation as add(x, y): `other` is an input of both, `alpha` an attribute."""
    name, inputs, attributes = named(model("y = org.pytorch.aten.add(x, k, a)", "int64 k = {3}, int64 a = {2}"))
    assert (name, inputs, attributes) == ("aten::add", ["x", "k"], {"alpha": 2})


def test_a_list_becomes_inputs():
    assert named(FIRES[7].model)[1] == ["x", "x"]


def test_what_is_left_out_behind_a_list_stays_an_empty_input():
    """A reader would take the list's last tensor for it, as the rule's own proof did."""
    surgeon.torch_schema("mine::weighted(Tensor[] xs, Tensor? w=None, float by=1.0) -> Tensor")
    for more in ("", ", ", ", , b"):
        made = model(f"l = SequenceConstruct(x, x) y = mine.weighted(l{more})", "double b = {2}")
        assert named(made)[1] == ["x", "x", ""]


def test_what_a_node_stands_for():
    nodes = {case.title: case.model.graph.node[-1] for case in (*FIRES, *NEGATIVES)}
    assert operator_of(nodes["ATen by its attribute"]) == ("aten", "i0", None)
    assert operator_of(nodes["an overload that is named"]) == ("aten", "add", "Scalar")
    assert operator_of(nodes["another namespace, whose schema was told"]) == ("mine", "scaled", None)
    assert operator_of(onnx.helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")) is None
    assert lost(nodes["ATen by its name"]) is None
    assert "placeholders=[...]" in str(lost(nodes["what cannot be recovered"]))


DEFINED = 'rescaled(Tensor x, float alpha, int[] sizes, str mode="a", ScalarType? dtype=None) -> Tensor'


@pytest.fixture(scope="module")
def wild():
    """Real exports with operators that the exporter does not know, by operator_export_type; the module, its inputs."""
    import torch

    class Net(torch.nn.Module):
        def forward(self, x, y):
            z = torch.special.i0(x)
            z = torch.ops.named_arguments_test.rescaled(z, 1.5, [1, 2], "b", torch.float32)
            values, places = torch.kthvalue(torch.asinh(z), 1, dim=0)
            return values, places, torch.polygamma(2, y), torch.histc(x, bins=4, max=3), torch.block_diag(x, y)

    with torch.library._scoped_library("named_arguments_test", "DEF") as library:
        library.define(DEFINED)
        library.impl("rescaled", lambda x, alpha, sizes, mode="a", dtype=None: x * alpha, "CompositeExplicitAutograd")
        library.impl("rescaled", lambda x, alpha, sizes, mode="a", dtype=None: torch.empty_like(x), "Meta")
        found = {}
        args = (torch.rand(2, 3), torch.rand(2, 3) + 0.5)
        for kind in ("ONNX_FALLTHROUGH", "ONNX_ATEN_FALLBACK"):
            stream = io.BytesIO()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    Net(),
                    args,
                    stream,
                    dynamo=False,
                    opset_version=17,
                    operator_export_type=getattr(torch.onnx.OperatorExportTypes, kind),
                    input_names=["x", "y"],
                )
            found[kind] = onnx.load_from_string(stream.getvalue())
        yield Net(), args, found


OPERATORS = {
    "aten::i0": {},
    "named_arguments_test::rescaled": {"alpha": 1.5, "sizes": [1, 2], "mode": b"b", "dtype": 1},
    "aten::asinh": {},
    "aten::kthvalue": {"k": 1, "dim": 0, "keepdim": 0},
    "aten::polygamma": {"n": 2},
    "aten::histc": {"bins": 4, "min": 0, "max": 3},
    "aten::block_diag": {},
}


@pytest.mark.parametrize("kind", ["ONNX_FALLTHROUGH", "ONNX_ATEN_FALLBACK"])
def test_real_exports_are_named_proved_and_run(wild, kind, forget_implementations):
    """Sites are held against torch's own operators, and the whole model against the module.

    The exporter writes no dtypes between nodes, so that a node behind one that nobody knows cannot be proved alone.
    """
    import surgeon.torch

    module, args, found = wild
    for operator in OPERATORS:
        surgeon.torch.implement(operator)
    made, report = surgeon.rewrite(found[kind], named_arguments)
    nodes = {f"{node.domain}::{node.op_type}": node for node in made.graph.node if node.domain}
    assert {
        name: {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        for name, node in nodes.items()
    } == OPERATORS
    reasons = [site.proof.reason for site in report.sites if site.proof.outcome is not Outcome.PROVED]
    assert len(report.sites) - len(reasons) >= 4
    assert all("dtype of" in reason and "is unknown" in reason for reason in reasons)
    assert surgeon.torch.compare(module, made, args)


def test_other_rules_follow_in_the_same_run(wild, tmp_path):
    """`--rules named_arguments,./mine.py`, where the file tells the schema too; nothing here loads torch."""
    _, args, found = wild
    rules, path, output = tmp_path / "mine.py", tmp_path / "in.onnx", tmp_path / "out.onnx"
    rules.write_text(
        f"import surgeon\nfrom surgeon import rule\n\nsurgeon.torch_schema('named_arguments_test::{DEFINED}')\n\n\n"
        "def placeholder(g, x, alpha, **attributes):\n"
        "    return g.op('named_arguments_test::rescaled', x, alpha=alpha, **attributes)\n\n\n"
        "@rule(patterns=[placeholder], target='any')\n"
        "def scaled(g, x, alpha):\n    'Multiply.\\n\\n    Numerics: none.'\n    return g.mul(x, np.float32(alpha))\n"
    )
    rules.write_text("import numpy as np\n" + rules.read_text())
    onnx.save(found["ONNX_FALLTHROUGH"], path)
    ran = process("-m", "surgeon", "rewrite", path, output, "--rules", f"named_arguments,{rules}", "--check", "none")
    assert ran.returncode == 0, ran.stderr
    made = onnx.load(output)
    assert "rescaled" not in {node.op_type for node in made.graph.node}
    (factor,) = [
        onnx.numpy_helper.to_array(one) for one in made.graph.initializer if one.dims == [] and one.data_type == 1
    ]
    assert factor == np.float32(1.5)


def test_a_python_op_is_named_in_the_report(wild):
    """A real one: exported with ONNX_FALLTHROUGH and autograd_inlining=False."""
    import torch

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

    class Net(torch.nn.Module):
        def forward(self, x):
            return Function.apply(x, 3.0)

    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Net(),
            (torch.rand(2),),
            stream,
            dynamo=False,
            opset_version=17,
            operator_export_type=torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH,
            autograd_inlining=False,
        )
    proto = onnx.load_from_string(stream.getvalue())
    (reason,) = [miss.reason for miss in surgeon.explain(proto, named_arguments)]
    assert "the exporter did not write its name" in reason
    assert lost(proto.graph.node[0]) == f"{reason}."
