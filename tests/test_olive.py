"""surgeon in Olive: the pass and the surgery in workflows that Olive runs, with the package configuration of ours."""

import json
from pathlib import Path

import onnx
import pytest

from tests.command_line import ROOT, process

pytest.importorskip("olive.passes", reason="Olive is not installed: pip install olive-ai, which needs many packages")

from olive.hardware.accelerator import AcceleratorSpec
from olive.package_config import OlivePackageConfig

from surgeon.errors import RuleError
from surgeon.integrations.olive import GraphSurgeries, SurgeonRewrite, package_config

MODEL = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
RULES = '''
import surgeon

def pattern(g, x):
    """Softmax over the last axis."""
    return g.op("Softmax", x, axis=-1)

@surgeon.rule(patterns=[pattern], target="any")
def mine(g, x):
    """Write it otherwise."""
    return {}
'''
AS_LOGARITHM = RULES.format('g.exp(g.op("LogSoftmax", x, axis=-1))')
AS_NEGATED = RULES.format('g.neg(g.neg(g.exp(g.op("LogSoftmax", x, axis=-1))))')
WRONG = RULES.format("g.sigmoid(x)")
CPU, CUDA = AcceleratorSpec("cpu", "CPUExecutionProvider"), AcceleratorSpec("gpu", "CUDAExecutionProvider")


def olive_run(folder: Path, model: Path = MODEL, **settings: object) -> tuple[Path, str]:
    """Run a workflow of one pass as people do; the folder of the result, and the log."""
    (folder / "olive.json").write_text(json.dumps(package_config()))
    source = {"type": "OnnxModel", "model_path": str(model)}
    workflow = {"input_model": source, "passes": {"rules": settings}, "output_dir": "out", "cache_dir": "cache"}
    (folder / "run.json").write_text(json.dumps(workflow))
    command = ("-m", "olive", "run", "--run-config", "run.json", "--package-config", "olive.json")
    done = process(*command, cwd=folder, CI="true")  # so that Olive reports nothing over the network
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out", done.stdout + done.stderr


def ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_the_pass_rewrites_and_logs_one_line(tmp_path):
    out, log = olive_run(tmp_path, type="SurgeonRewrite", rules="gelu,attention")
    assert ops(out / "model.onnx").count("Gelu") == 4
    (line,) = [line for line in log.splitlines() if "<Report" in line]
    assert "[INFO]" in line
    assert line.endswith("proved>")
    assert "gelu 4" in line


@pytest.mark.parametrize(
    "settings",
    [
        {"type": "SurgeonRewrite", "rules": "./mine.py"},
        {"type": "GraphSurgeries", "surgeries": [{"surgeon": "RunRules", "rules": "./mine.py"}]},
    ],
    ids=["pass", "surgery"],
)
def test_a_changed_rule_file_changes_the_result(tmp_path, settings):
    """And an unchanged one takes the result from Olive's cache."""
    (tmp_path / "mine.py").write_text(AS_LOGARITHM)
    out, log = olive_run(tmp_path, **settings)
    assert ops(out / "model.onnx").count("LogSoftmax") == 3
    assert "<Report" in log
    assert "<Report" not in olive_run(tmp_path, **settings)[1]
    (tmp_path / "mine.py").write_text(AS_NEGATED)
    out, log = olive_run(tmp_path, **settings)
    assert "<Report" in log
    assert ops(out / "model.onnx").count("Neg") == 6


def test_a_wrong_site_is_rolled_back_and_the_workflow_goes_on(tmp_path):
    (tmp_path / "mine.py").write_text(WRONG)
    out, log = olive_run(tmp_path, type="SurgeonRewrite", rules="./mine.py")
    assert ops(out / "model.onnx") == ops(MODEL)
    (line,) = [line for line in log.splitlines() if "<Report" in line]
    assert "[WARNING]" in line
    assert "3 rolled back" in line


def test_a_model_with_a_data_file_comes_back_as_a_folder(tmp_path):
    source = tmp_path / "source" / "big.onnx"
    source.parent.mkdir()
    options = {"save_as_external_data": True, "location": "big.data", "size_threshold": 100}
    onnx.save(onnx.load(MODEL), source, **options)
    out, _ = olive_run(tmp_path, source, type="SurgeonRewrite", rules="gelu")
    config = json.loads((out / "model_config.json").read_text())["config"]
    assert Path(config["model_path"]).is_dir()
    path = Path(config["model_path"], config["onnx_file_name"])
    assert ops(path).count("Gelu") == 4
    assert all(tensor.HasField("raw_data") for tensor in onnx.load(path).graph.initializer)  # the data are there, too
    named = [one for one in onnx.load(path, load_external_data=False).graph.initializer if one.external_data]
    assert len(named) > 20


def a_pass(kind, accelerator, **options):
    return kind(accelerator, kind.generate_config(accelerator, options, disable_search=True))


def key(kind, accelerator, **options):
    return a_pass(kind, accelerator, **options).config.to_json()["rules_key"]


def test_the_provider_is_that_of_the_accelerator():
    ep = {
        (str(one), name): a_pass(SurgeonRewrite, one, **options).run_rules.options["ep"]
        for one in (CPU, CUDA, AcceleratorSpec("gpu"), AcceleratorSpec("cpu"))
        for name, options in {"": {}, "any": {"ep": "any"}, "onnx": {"target": "onnx"}}.items()
    }
    assert {name: value for (name, kind), value in ep.items() if not kind} == {
        "cpu-cpu": "CPUExecutionProvider",
        "gpu-cuda": "CUDAExecutionProvider",
        "gpu": "cuda",
        "cpu": None,
    }
    assert {value for (_, kind), value in ep.items() if kind == "any"} == {"any"}
    assert {value for (_, kind), value in ep.items() if kind == "onnx"} == {None}


def test_the_key_changes_with_all_that_a_result_depends_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = {
        key(SurgeonRewrite, CPU),
        key(SurgeonRewrite, CUDA),
        key(SurgeonRewrite, CPU, rules="gelu"),
        key(SurgeonRewrite, CPU, rules="gelu", target="contrib"),
        key(GraphSurgeries, CPU, surgeries=[{"surgeon": "RunRules", "rules": "layer_norm"}]),
    }
    assert len(keys) == 5
    assert all(keys)
    assert key(SurgeonRewrite, CPU) == key(SurgeonRewrite, CPU, rules="ort")
    assert key(GraphSurgeries, CPU, surgeries=[{"surgeon": "RenameInputs", "old_names": [], "new_names": []}]) == ""


def test_an_unknown_rule_is_reported_before_anything_runs():
    with pytest.raises(RuleError, match="gleu"):
        a_pass(SurgeonRewrite, CPU, rules="gleu")


def test_the_configuration_has_everything_of_olive():
    """It replaces Olive's, so nothing of it may be missing."""
    theirs = json.loads(Path(OlivePackageConfig.get_default_config_path()).read_text())
    ours = json.loads(process("-m", "surgeon.integrations.olive").stdout)
    assert ours["extra_dependencies"] == theirs["extra_dependencies"]
    changed = {name for name, one in ours["passes"].items() if theirs["passes"].get(name) != one}
    assert changed == {"SurgeonRewrite", "GraphSurgeries"}
    assert theirs["passes"].keys() < ours["passes"].keys()
    assert OlivePackageConfig.model_validate(ours).import_pass_module("SurgeonRewrite") is SurgeonRewrite
