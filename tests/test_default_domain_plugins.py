"""Plugins of TensorRT in the default domain, as NVIDIA's converters write them: declared, written, checked, proved."""

import onnx
import pytest

import surgeon
from surgeon.errors import RuleError, UsageError
from surgeon.ops.plugins.builtin_plugins import names_plugin
from surgeon.proof.model.load_check import refusal
from surgeon.testing import parse
from tests.command_line import one_sentence, run
from tests.models import ops

pytestmark = pytest.mark.usefixtures("forget_implementations")

DECLARED = """
[Squash]
inputs = { x = "float32 float16" }
outputs = { y = "x" }
fields = { alpha = "float" }
shapes = { x = "n c", y = "n c" }
"""
RULE = """
from surgeon import Graph, Tensor, rule

def exact(g: Graph, x: Tensor) -> Tensor:
    return g.tanh(g.relu(x))

@rule(patterns=[exact], target="tensorrt")
def squash(g: Graph, x: Tensor) -> Tensor:
    "Write the plugin."
    return g.op("Squash", x, alpha=ALPHA)
"""
IMPLEMENTED = """
import numpy as np
import surgeon

@surgeon.implements("ai.onnx::Squash", random=False)
def squash(x, *, alpha):
    return np.tanh(np.maximum(x, 0) * x.dtype.type(alpha))
"""
MODEL = '<ir_version: 9, opset_import: ["" : 17]> g (float[2, 8] x) => (float[2, 8] y) { %s }'


@pytest.fixture
def files(tmp_path):
    for name, text in (("declared.toml", DECLARED), ("named.toml", "[Squash]\n"), ("implemented.py", IMPLEMENTED)):
        (tmp_path / name).write_text(text)
    (tmp_path / "rules.py").write_text(RULE.replace("ALPHA", "1.0"))
    (tmp_path / "wrong.py").write_text(RULE.replace("ALPHA", "2.0"))
    onnx.save(parse(MODEL % "a = Relu(x) b = Tanh(a) y = Neg(b)"), tmp_path / "in.onnx")
    return tmp_path


def rewrite(files, *custom, rules="rules.py"):
    options = [f"--custom-ops={files / name}" for name in custom]
    return run(
        "rewrite", files / "in.onnx", files / "out.onnx", "--rules", files / rules, "--target", "tensorrt", *options
    )


def written(files):
    return [(node.domain, node.op_type) for node in onnx.load(files / "out.onnx").graph.node]


@pytest.mark.parametrize(
    ("declaration", "says"),
    [
        ("declared.toml", "of the plugin Squash are compared with its declaration, and onnx.checker skips it"),
        ("named.toml", "of the plugin Squash are not checked, because its declaration lists none"),
    ],
)
def test_a_rule_writes_a_declared_plugin(declaration, says, files):
    """The report says what was checked; the model passes the check for TensorRT and can be edited."""
    done = rewrite(files, declaration)
    assert done.exit_code == 0, done.output
    assert written(files) == [("", "Squash"), ("", "Neg")]
    text = " ".join(done.output.split())
    assert "UNPROVED" in text
    assert says in text
    assert '@surgeon.implements("ai.onnx::Squash")' in text
    if declaration == "declared.toml":
        custom = ("--custom-ops", files / declaration)
        assert run("check", files / "out.onnx", "--target", "tensorrt", *custom).exit_code == 0
    assert run("edit", files / "out.onnx", files / "edited.onnx", "--rename", "x=z").exit_code == 0


def test_an_implementation_proves_it(files):
    """And refutes a wrong attribute."""
    custom = ("declared.toml", "implemented.py")
    assert "PROVED   1 of 1 site" in rewrite(files, *custom).output
    done = rewrite(files, *custom, rules="wrong.py")
    assert done.exit_code == 1
    assert "FAILED" in done.output
    assert written(files) == [("", "Relu"), ("", "Tanh"), ("", "Neg")]


def test_insert_writes_one(files):
    """In place of nodes, and between nodes; what does not fit the declaration is reported."""
    def insert(*options):
        arguments = ("--op", "Squash", "--custom-ops", files / "declared.toml", *options)
        return run("insert", files / "in.onnx", files / "out.onnx", *arguments)

    done = insert("--between", "x", "--and", "b", "--attr", "alpha=1.0", "--custom-ops", files / "implemented.py")
    assert "PROVED" in done.output
    assert "UNPROVED" not in done.output
    assert written(files) == [("", "Squash"), ("", "Neg")]
    done = insert("--between", "b", "--and", "b", "--attr", "beta=1.0")
    assert done.exit_code == 0, done.output
    assert ops(onnx.load(files / "out.onnx").graph) == ["Relu", "Tanh", "Squash", "Neg"]
    assert "Squash has no attribute 'beta'" in done.output


def test_plugins_of_tensorrt_need_no_declaration():
    """The table of TensorRT's plugins has them."""
    assert names_plugin("", "CustomSkipLayerNormPluginDynamic")
    made, report = surgeon.edit(
        parse(MODEL.replace("[2, 8]", "[1, 2, 8]") % "y = Add(x, x)"),
        surgeon.edits.Insert(
            ("x", "x"), ("y",), "CustomSkipLayerNormPluginDynamic",
            {"plugin_version": "5", "type_id": 0, "ld": 8, "beta": [0.0] * 8, "gamma": [1.0] * 8},
        ),
    )  # fmt: skip
    assert report.outcome == "unproved"
    assert [(node.domain, node.op_type) for node in made.graph.node] == [("", "CustomSkipLayerNormPluginDynamic")]


def test_what_nobody_declares_is_refused(files):
    """A misspelt op looks the same; the message says how to declare a plugin."""
    remedy = "if it is a plugin of TensorRT, declare it: --custom-ops plugins.toml"
    (files / "unknown.py").write_text((files / "rules.py").read_text().replace('"Squash"', '"MyPlugin"'))
    with pytest.raises(RuleError, match=remedy):
        surgeon.rewrite(onnx.load(files / "in.onnx"), str(files / "unknown.py"), target="tensorrt")
    with pytest.raises(UsageError, match="the nearest are Relu"):
        surgeon.insert(onnx.load(files / "in.onnx"), "x", "b", "Reluu")
    done = run("insert", files / "in.onnx", files / "o.onnx", "--between", "x", "--and", "b", "--op", "MyPlugin")
    assert remedy in one_sentence(done, 2)
    onnx.save(parse(MODEL % "y = MyPlugin(x)"), files / "there.onnx")
    checked = run("check", files / "there.onnx", "--target", "tensorrt")
    assert checked.exit_code == 1
    assert "TensorRT has no built-in plugin of this name" in checked.output
    assert "declare the plugin in plugins.toml" in " ".join(checked.output.split())


def test_a_worker_process_knows_what_is_declared(files):
    """ONNX Runtime's refusal counts as a missing op only for a declared plugin."""
    model = parse(MODEL % "y = Squash<alpha = 1.0>(x)")
    for declare in (False, True):
        if declare:
            surgeon.CheckOptions(custom_ops=[files / "declared.toml"])
        refused = refusal(model, surgeon.CheckOptions())
        assert refused.lacks == ("op" if declare else "")


def test_ops_of_onnx_need_no_implementation():
    for name in ("ai.onnx::Relu", "::Add"):
        with pytest.raises(UsageError, match="is in ONNX's own domain"):
            surgeon.implements(name)(lambda x: x)
