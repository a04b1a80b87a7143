"""`surgeon check` on an export that nothing runs, and each cure, as notebooks/what_does_not_run.ipynb has them."""

import onnx
import pytest
import torch

import surgeon
import surgeon.torch
from surgeon import rule
from tests.command_line import run
from tests.from_torch.beside_notebooks import load
from tests.from_torch.operators import EXPORTERS

PLACEHOLDERS = ["aten::asinh", "denoiser::soft_threshold"]


def placeholder(g, x, strength):
    """The node that an exporter writes."""
    return g.op("denoiser::soft_threshold", x, strength=strength)


@rule(patterns=[placeholder], target="onnx")
def soft_threshold(g, x, strength):
    """x less what Clip leaves of it."""
    return g.sub(x, g.clip(x, -strength, strength))


@pytest.fixture(scope="module")
def denoiser():
    """A network that no runtime takes as it is exported."""
    return load("denoiser")


@pytest.fixture(scope="module", params=EXPORTERS)
def exported(request, denoiser, tmp_path_factory):
    """The exporter, the module, its input, and where the model is."""
    module, x = denoiser.Denoiser().eval(), torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    path = tmp_path_factory.mktemp(request.param) / "model.onnx"
    surgeon.torch.export(module, (x,), path, placeholders=PLACEHOLDERS, exporter=request.param, opset=20)
    return request.param, module, x, path


def test_every_node_is_reported_with_its_link_and_a_cure(exported):
    exporter, _, _, path = exported
    asinh, threshold, pool = surgeon.check(path)
    assert [(one.op, one.link) for one in (asinh, threshold, pool)] == [
        ("aten::asinh", "mapping"),
        ("denoiser::soft_threshold", "mapping"),
        ("ai.onnx::AveragePool", "kernel"),
    ]
    assert asinh.helps == ["rule aten_elementwise fires: surgeon rewrite IN OUT --rules aten_elementwise"]
    for words, help_ in zip(("replace it with a rule", "define it as", "load a library"), threshold.helps, strict=True):
        assert help_.startswith(words)
    assert "float64" in pool.reason
    assert any("cast its input to float32" in help_ for help_ in pool.helps)
    lines = [one.came_from for one in (asinh, threshold, pool)]
    if exporter == "dynamo":  # the other exporter writes no stack
        for line, code in zip(lines, ("torch.asinh(", "soft_threshold(x, 0.25)", "avg_pool2d("), strict=True):
            assert line.startswith("denoiser.py:")
            assert code in line


def test_the_command_ends_with_1_and_names_all_three(exported):
    result = run("check", exported[-1], "--target", "ort")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == (
        "BLOCKED  ONNX Runtime cannot run this model: 3 problems; details: -v"
    )


def test_cured_step_by_step_until_nothing_is_left(exported, denoiser, tmp_path, forget_implementations):
    exporter, module, x, path = exported
    surgeon.torch.implement("denoiser::soft_threshold")
    model, report = surgeon.rewrite(onnx.load(path), "aten_elementwise")
    assert report.outcome == "proved"
    assert [one.op for one in surgeon.check(model)] == ["denoiser::soft_threshold", "ai.onnx::AveragePool"]
    model, report = surgeon.rewrite(model, soft_threshold)
    assert report.outcome == "proved"
    assert [one.op for one in surgeon.check(model)] == ["ai.onnx::AveragePool"]
    mended = denoiser.Denoiser(sum_in=torch.float32).eval()
    mended.load_state_dict(module.state_dict())
    made = surgeon.torch.export(mended, (x,), placeholders=PLACEHOLDERS, exporter=exporter, opset=20)
    model, _ = surgeon.rewrite(made.model, ["aten_elementwise", soft_threshold])
    onnx.save(model, tmp_path / "cured.onnx")
    for target in ("ort", "tensorrt"):
        assert run("check", tmp_path / "cured.onnx", "--target", target).exit_code == 0
    result = surgeon.torch.compare(module, model, (x,))
    assert result
    assert result.engine == "ONNX Runtime"
