"""A rule from a selection: what it fixes, what it leaves free, and that it runs as it stands."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

import surgeon
from tests.command_line import run

MODEL = Path(__file__).resolve().parents[1] / "notebooks" / "models" / "tiny_distilbert.onnx"


def test_a_selection_finds_its_like(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("capture", MODEL, "--from", "linear_4", "--to", "gelu", "--name", "activation")
    assert done.exit_code == 0, done.output
    assert "activation.py: matches 4 sites (compared with 3 others)" in done.output
    text = Path("activation.py").read_text(encoding="utf-8")
    assert "g.mul(x, 0.5, g.add(g.erf(g.div(x, 2**0.5)), 1.0))" in text
    assert "Captured from tiny_distilbert.onnx, linear_4 to gelu." in text
    _, report = surgeon.rewrite(MODEL, "./activation.py", output="out.onnx")
    assert report.counts == {"activation": 4}
    assert report.outcome == "unproved", "nobody knows what my.domain::Activation computes"
    again = run("capture", MODEL, "--from", "linear_4", "--to", "gelu", "--name", "activation")
    assert again.exit_code == 2
    assert "already exists" in again.output


def scaled(factors, alphas, external=None):
    """LeakyRelu(x · w + b) · factor, a block for each factor."""
    rng = np.random.default_rng(0)
    nodes, tensors, name = [], [], "x"
    for place, (factor, alpha) in enumerate(zip(factors, alphas, strict=True)):
        for key, shape in (("w", (4, 4)), ("b", (4,))):
            tensors.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), f"{key}{place}"))
        tensors.append(numpy_helper.from_array(np.float32(factor), f"f{place}"))
        nodes += [
            helper.make_node("MatMul", [name, f"w{place}"], [f"m{place}"]),
            helper.make_node("Add", [f"m{place}", f"b{place}"], [f"a{place}"]),
            helper.make_node("LeakyRelu", [f"a{place}"], [f"l{place}"], alpha=alpha),
            helper.make_node("Mul", [f"l{place}", f"f{place}"], [f"y{place}"]),
        ]
        name = f"y{place}"
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, ["n", 4]) for end in ("x", name)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    if external is not None:
        external_data_helper.convert_model_to_external_data(model, location="data", size_threshold=0)
        onnx.save(model, external)
    return model


def test_what_differs_elsewhere_is_free():
    found = surgeon.capture(scaled([2.0, 3.0, 2.0], [0.1, 0.1, 0.1]), ["x"], ["y0"], "block")
    assert (found.sites, found.compared) == (3, 2)
    assert "alpha=0.1" in found.text
    assert ", 2.0)" not in found.text
    fixed = surgeon.capture(scaled([2.0, 2.0], [0.1, 0.1]), ["x"], ["y0"], "block")
    assert "2.0" in fixed.text
    attribute = surgeon.capture(scaled([2.0, 2.0], [0.1, 0.2]), ["x"], ["y0"], "block")
    assert (attribute.sites, attribute.compared) == (2, 1)


def test_weights_in_files_are_read(tmp_path):
    path = tmp_path / "in.onnx"
    scaled([2.0, 3.0], [0.1, 0.1], external=path)
    found = surgeon.capture(path, ["x"], ["y0"], "block")
    assert (found.sites, found.compared) == (2, 1)


def test_a_selection_of_thousands_is_refused_at_once(monkeypatch):
    """Before anything of it is compared with anything else."""
    monkeypatch.setattr("surgeon.authoring.capture._example", None)
    nodes = [onnx.helper.make_node("Relu", [f"t{place}"], [f"t{place + 1}"]) for place in range(3000)]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in ("t0", "t3000")]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:]))
    with pytest.raises(surgeon.UsageError, match="^2,000 nodes are between the two cuts"):
        surgeon.capture(model, ["t0"], ["t2000"], "block")


def test_long_texts_with_commas_stay_whole():
    """A call that does not fit in a line is broken between its arguments, and not inside of one."""
    text = '(a), "b", '.replace('"', "'") * 30
    node = onnx.helper.make_node("Cell", ["x"], ["y"], domain="acme", first=text, second=1)
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy"]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", ends[:1], ends[1:]),
        opset_imports=[onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("acme", 1)],
    )
    found = surgeon.capture(model, ["x"], ["y"], "block")
    assert repr(text) in found.text or f'"{text}"' in found.text
    assert found.sites == 1


def test_the_command_says_how_the_rule_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cuts = ["--from", "linear_4", "--to", "gelu", "--name"]
    for place, text in (("a.py", "./a.py"), (tmp_path / "b.py", str(tmp_path / "b.py"))):
        done = run("capture", MODEL, *cuts, "block", "-o", str(place))
        assert done.output.endswith(f"--rules {text}\n")
        assert run("rewrite", MODEL, "out.onnx", "--rules", text, "--dry-run").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "gelo", "--name", "block"], "did you mean 'gelu'"),
        (["--name", "block"], "No cuts given"),
        (["--from", "linear_4", "--to", "gelu", "--name", "Block!"], "Invalid rule name"),
        (
            ["--from", "layer_norm", "--to", "view_4", "--name", "block"],
            "the tensors 'val_88', 'val_126', 'val_142' are also needed",
        ),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = run("capture", MODEL, *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1
    assert not list(tmp_path.iterdir())
