"""Whole models with operators that users implement in Python: compared and checked, and what is said without."""


import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon import CheckOptions, Graph, Tensor, rule
from surgeon.runtime.implementations.implementation import implements, load
from surgeon.runtime.sessions import node_by_node
from surgeon.runtime.sessions.model_session import open_model
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.testing import parse
from tests.command_line import result_in, run
from tests.oracle_models import CUSTOM, X, model, write

pytestmark = pytest.mark.usefixtures("forget_implementations")

BOTH = "ONNX Runtime and the Python implementation of test.customop::CustomOpOne"
PLAIN = "(float[n] x) => (float[n] y) { a = Neg(x); h = Mul(x, c); y = Exp(h) }"
HALF = onnx.numpy_helper.from_array(np.array([0.5], np.float32), "c")
ADDED = "(float[n] x, float[n] z) => (float[n] y) { a = Abs(x) b = Add(a, z) y = Relu(b) }"


def plain():
    """What CUSTOM computes where CustomOpOne is x + alpha * y, in ONNX's own operators; a has the same name in both."""
    made = model(PLAIN)
    made.graph.initializer.append(HALF)
    return made


@rule(patterns=[lambda g, x, z: g.add(x, z)])
def to_plugin(g: Graph, x: Tensor, z: Tensor) -> Tensor:
    """Write the plugin."""
    return g.op("test.customop::CustomOpOne", x, z)


@pytest.mark.parametrize(("body", "wanted"), [("return x + alpha * y", "proved"), ("return (x + y) * 7", "failed")])
def test_compared_with_a_model_that_has_such_an_operator(body, wanted, tmp_path):
    result = surgeon.compare(model(CUSTOM), plain(), custom_ops=[write(tmp_path, body)])
    assert result.outcome.value == wanted
    assert result.oracle == f"ONNX Runtime, the original under {BOTH}"
    assert result.runs > 1


def test_compared_by_what_is_registered():
    """As in a notebook; both models hold the operator."""
    implements("test.customop::CustomOpOne")(lambda x, y, alpha: x + alpha * y)
    result = surgeon.compare(model(CUSTOM), model(CUSTOM))
    assert (result.outcome.value, result.oracle) == ("proved", BOTH)
    assert result.to_dict()["oracle"] == BOTH


def test_layers_beside_such_an_operator(tmp_path):
    path = write(tmp_path, "return x + alpha * y")
    result = surgeon.compare(model(CUSTOM), plain(), custom_ops=[path], layers=True)
    assert (result.layers.compared, result.layers.first_different) == (2, "")
    wrong = plain()
    wrong.graph.node[0].op_type = "Abs"
    result = surgeon.compare(model(CUSTOM), wrong, custom_ops=[path], layers=True)
    assert result.layers.first_different == "a"


def test_compared_at_the_command_line(tmp_path):
    onnx.save(model(CUSTOM), tmp_path / "a.onnx")
    onnx.save(plain(), tmp_path / "b.onnx")
    args = ("compare", tmp_path / "a.onnx", tmp_path / "b.onnx", "--custom-ops")
    good = run(*args, write(tmp_path, "return x + alpha * y"))
    assert good.exit_code == 0, good.stdout
    assert f"of inputs under ONNX Runtime, the original under {BOTH}" in good.stdout
    bad = run(*args, write(tmp_path, "return x * 7", name="wrong"))
    assert bad.exit_code == 1
    assert "FAILED" in bad.stdout
    assert run(*args, tmp_path / "none.py").exit_code == 2


@pytest.mark.parametrize("check", ["model", "both"])
def test_a_rewrite_checked_as_a_whole(check, tmp_path):
    """What the rule writes is run by the implementation, and a wrong one is found by it."""
    right = write(tmp_path, "return x + alpha * y")
    _, report = surgeon.rewrite(parse(ADDED), to_plugin, check=check, options=CheckOptions(custom_ops=[right]))
    assert report.outcome == "proved", report.doubts
    assert report.check.oracle == f"{BOTH}, the original under ONNX Runtime"
    wrong = write(tmp_path, "return (x + y) * 7", name="wrong")
    with pytest.raises(surgeon.CheckFailed) as failed:
        surgeon.rewrite(parse(ADDED), to_plugin, check=check, options=CheckOptions(custom_ops=[wrong]))
    (gone,) = failed.value.report.rolled_back
    assert gone.rule == "to_plugin"


def test_the_report_names_what_ran_the_whole_models(tmp_path):
    onnx.save(parse(ADDED), tmp_path / "in.onnx")
    (tmp_path / "rules.py").write_text(
        "import surgeon\n@surgeon.rule(patterns=[lambda g, x, z: g.add(x, z)])\ndef to_plugin(g, x, z):\n"
        "    return g.op('test.customop::CustomOpOne', x, z)\n"
    )
    options = ("--check", "model", "--custom-ops", write(tmp_path, "return x + y"), "--report", tmp_path / "r.json")
    result = run("rewrite", tmp_path / "in.onnx", tmp_path / "out.onnx", "-r", tmp_path / "rules.py", *options)
    assert result.exit_code == 0, result.stdout
    assert f"of inputs under {BOTH}, the original under ONNX Runtime" in result.stdout
    assert result_in((tmp_path / "r.json").read_text())["check"]["oracle"].startswith(BOTH)


def test_a_model_with_its_weights_beside_the_file(tmp_path):
    """External data are read where the model lies."""
    made = plain()
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full(2048, 0.5, np.float32), "c"))
    made.graph.node[1].input[0] = "s"
    made.graph.node.insert(0, onnx.helper.make_node("CustomOpOne", ["x", "x"], ["s"], domain="test.customop"))
    for port in (made.graph.input[0], made.graph.output[0]):
        port.type.tensor_type.shape.dim[0].dim_value = 2048
    onnx.save(made, tmp_path / "a.onnx", save_as_external_data=True, location="a.data", size_threshold=0)
    assert (tmp_path / "a.data").stat().st_size >= 4 * 2048
    other = parse("(float[2048] x) => (float[2048] y) { y = Exp(x) }")
    result = surgeon.compare(tmp_path / "a.onnx", other, custom_ops=[write(tmp_path, "return x + y")])
    assert result.outcome.value == "proved", result.reason


def test_a_model_that_is_too_large_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("surgeon.runtime.sessions.model_session.MAX_BYTES", 10)
    # In this process, where so little is enough.
    monkeypatch.setattr("surgeon.runtime.sessions.isolated_session._is_computed_here", lambda *_: True)
    result = surgeon.compare(model(CUSTOM), plain(), custom_ops=[write(tmp_path, "return x + y")])
    assert result.outcome.value == "unproved"
    assert "With Python implementations, whole models run only up to 0 MB" in result.reason
    assert result.reason.endswith("Prove its sites instead.")


def test_an_implementation_that_raises_is_reported(tmp_path):
    path = write(tmp_path, "raise ValueError('no')")
    assert "raised ValueError at line 7 (no)" in surgeon.compare(model(CUSTOM), plain(), custom_ops=[path]).reason
    result = surgeon.compare(plain(), model(CUSTOM), custom_ops=[path])
    assert (result.outcome.value, result.runs > 0) == ("failed", True)
    assert "The original runs, but the other model does not: The implementation of test.customop" in result.reason


# Stretches of a graph


def opened(monkeypatch):
    """The operators of every session that is opened for a stretch."""
    found = []

    class Watched(OrtSession):
        def __init__(self, made, *args, **settings):
            super().__init__(made, *args, **settings)
            found.append([node.op_type for node in made.graph.node])

    monkeypatch.setattr(node_by_node, "OrtSession", Watched)
    return found


LONG = """(float[n] x, float[n] w) => (float[n] y, float[n] v) {
    a = Abs(x); b = Sqrt(a); u = Neg(b); c = test.customop.CustomOpOne(b, w); d = Exp(c); e = Add(d, a);
    f = test.customop.CustomOpOne(e, b); g = Neg(f); y = Abs(g); v = Identity(b) }"""


def test_nodes_between_implementations_run_together(tmp_path, monkeypatch):
    """So they do as under a runtime that has the operators, and no session is opened twice; what nobody reads stays."""
    found = opened(monkeypatch)
    feeds = {"x": X, "w": X - 1}
    with open_model(model(LONG), [write(tmp_path, "return x + y")]) as engine:
        assert (engine.inputs, engine.outputs) == (("x", "w"), ("y", "v"))
        for _ in range(2):
            answers = engine.run(feeds)
        engine.outputs = ("v",)
        assert list(engine.run(feeds)) == ["v"]
    assert found == [["Abs", "Sqrt", "Neg"], ["Exp", "Add"], ["Neg", "Abs", "Identity"]]
    b = np.sqrt(np.abs(X))
    np.testing.assert_array_equal(answers["v"], b)
    np.testing.assert_allclose(answers["y"], np.exp(b + X - 1) + np.abs(X) + b, rtol=1e-6)


def test_a_segment_with_a_node_that_has_no_kernel_runs_node_by_node(tmp_path, monkeypatch):
    found = opened(monkeypatch)
    text = """(bfloat16[n] x) => (float[n] y) { a = test.customop.CustomOpOne(x, x); b = Neg(a); c = Cast<to = 1>(b);
        y = Exp(c) }"""
    with pytest.raises(SessionError):
        OrtSession(model("(bfloat16[n] x) => (bfloat16[n] y) { y = Neg(x) }"))
    with open_model(model(text), [write(tmp_path, "return x")]) as engine:
        x = X.astype(ml_dtypes.bfloat16)
        for _ in range(2):
            answers = engine.run({"x": x})
    assert found == [["Cast"], ["Exp"]]
    np.testing.assert_allclose(answers["y"], np.exp(-x.astype(np.float32)), rtol=1e-6)


def test_an_implementation_in_a_branch_and_lists(tmp_path):
    path = write(tmp_path, "return x + y")
    branch = """(float[n] x, bool c) => (float[n] y) { a = Neg(x); y = If(c) <
        then_branch = t () => (float[n] q) { q = test.customop.CustomOpOne(a, x) },
        else_branch = e () => (float[n] r) { r = Mul(a, x) }> }"""
    with open_model(model(branch), [path]) as engine:
        np.testing.assert_array_equal(engine.run({"x": X, "c": np.array(True)})["y"], 0 * X)
        np.testing.assert_array_equal(engine.run({"x": X, "c": np.array(False)})["y"], -X * X)
    lists = """(float[n] x) => (float[m] y, float[n] a) { a = test.customop.CustomOpOne(x, x);
        s = SequenceConstruct(a, x); y = ConcatFromSequence<axis = 0>(s) }"""
    with open_model(model(lists), [path]) as engine:
        assert sorted(engine.run({"x": X})) == ["a", "y"]
        engine.outputs = ("a",)
        np.testing.assert_array_equal(engine.run({"x": X})["a"], 2 * X)


# What is said where nothing runs an operator

PLACEHOLDER = "(float[n] x, float[n] z) => (float[n] y) { y = mylibrary.addandround_op(x, z) }"


def placeholder(text=PLACEHOLDER):
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17, "mylibrary" : 1]> agraph {text}')
    onnx.checker.check_model(made)
    return made


@rule(patterns=[lambda g, x, z: g.op("mylibrary::addandround_op", x, z)])
def from_placeholder(g: Graph, x: Tensor, z: Tensor) -> Tensor:
    """Replace the exporter's placeholder."""
    return g.round(g.add(x, z))


IMPLEMENTED = '@surgeon.implements("mylibrary::addandround_op")'
CURE = (
    f"Register an implementation with {IMPLEMENTED}, and pass the file with --custom-ops. If torch has the op, write "
    'surgeon.torch.implement("mylibrary::addandround_op") in '
)


@pytest.mark.parametrize("check", ["sites", "model"])
def test_a_placeholder_that_nothing_runs_is_unproved_with_the_cure(check):
    _, report = surgeon.rewrite(placeholder(), from_placeholder, check=check)
    (doubt,) = report.doubts
    where = "the rule file" if check == "sites" else "that file"
    assert f"is not a registered function/op. {CURE}{where} instead" in doubt
    assert "\n" not in doubt


def test_the_cure_cures(tmp_path):
    """What the reason says to write is what makes the difference."""
    path = tmp_path / "ops.py"
    path.write_text(f"import numpy as np\nimport surgeon\n{IMPLEMENTED}\ndef op(x, z):\n    return np.round(x + z)\n")
    for check in ("sites", "model"):
        options = CheckOptions(custom_ops=[path])
        _, report = surgeon.rewrite(placeholder(), from_placeholder, check=check, options=options)
        assert report.outcome == "proved", report.doubts


def test_a_comparison_that_nothing_runs_has_the_cure():
    result = surgeon.compare(placeholder(), placeholder())
    assert result.outcome.value == "unproved"
    assert result.reason.endswith(f"{CURE}that file instead.")


def test_the_cure_for_a_plugin_is_an_implementation_alone():
    made = model("(float[n] x) => (float[n] y) { y = trt.plugins.VoxelGeneratorPlugin(x) }")
    reason = surgeon.compare(made, made).reason
    assert '@surgeon.implements("trt.plugins::VoxelGeneratorPlugin"), and pass the file with --custom-ops.' in reason
    assert "torch" not in reason


def test_several_operators_that_nothing_runs():
    """Those that an implementation computes are not among them, nor what ONNX Runtime would have to know."""
    text = "(float[n] x, float[n] z) => (float[n] y) { a = mylibrary.one(x) b = mylibrary.two(a, z) "
    text += "c = mylibrary.three(b) y = mylibrary.two(a, c) }"
    implements("mylibrary::one")(lambda x: x)
    reason = surgeon.compare(placeholder(text), placeholder(text)).reason
    assert "mylibrary::two has no implementation. Register an implementation" in reason
    assert reason.endswith('in that file instead (likewise for "mylibrary::three").')


def test_a_file_of_implementations_is_run_once(tmp_path):
    path = write(tmp_path, "return x + alpha * y")
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('x')\n{path.read_text()}")
    load(path)
    assert surgeon.compare(model(CUSTOM), plain(), custom_ops=[path])
    assert (tmp_path / "ran").read_text() == "x"
