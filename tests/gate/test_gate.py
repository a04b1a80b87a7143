"""The gate finds planted regressions, one line each, and nothing where an export only has other names or versions."""

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon.automation.gate.baseline_file import Baseline, read_baseline
from surgeon.automation.gate.gate_rules import GATE_RULES
from surgeon.automation.gate.model_comparison import compare_facts
from surgeon.errors import UsageError
from surgeon.ir.structure_hash import structure_hash
from surgeon.rules.fused_families import fused_families
from tests.command_line import run

FACTS = {path.stem: read_baseline(path) for path in sorted((Path(__file__).parent / "facts").glob("*.json"))}
DYNAMO = [name for name in FACTS if "opset" in name]
SHIPPED = Path(__file__).resolve().parents[2] / "notebooks/models/tiny_distilbert.onnx"
# What gets worse from the new exporter's opset 20 to TorchScript at opset 17, all of it true.
OF_TORCHSCRIPT = {
    *((f"{name}.onnx", "model-grew") for name in ("bert", "bert_wide", "distilbert", "electra", "llama", "mpnet")),
    *((f"{name}.onnx", "model-grew") for name in ("qwen3", "roberta", "vit")),
    *((f"{name}.onnx", "model-missing") for name in ("encoder", "gated")),
    ("dinov2.onnx", "proof-lost"),
    ("norms.onnx", "fusion-lost"),
}


def regressions(then: str, now: str) -> list[tuple[str, str]]:
    """The models and rules of the regressions from one set of facts to another."""
    before, after = FACTS[then], FACTS[now]
    assert before is not None
    assert after is not None
    names = sorted({*before.models, *after.models})
    found = [one for name in names for one in compare_facts(name, before.models.get(name), after.models.get(name))]
    return [(one.model, one.rule.name) for one in found if one.rule is not None]


@pytest.mark.parametrize(("then", "now"), [pair for pair in product(DYNAMO, DYNAMO) if pair[0][-2:] <= pair[1][-2:]])
def test_releases_of_torch_and_newer_opsets_are_no_regressions(then: str, now: str) -> None:
    """Of twenty networks, exported in two environments at different paths."""
    assert FACTS[then] is not None
    assert len(FACTS[then].models) == 20
    assert regressions(then, now) == []


def test_equal_opsets_have_equal_structures() -> None:
    """Whatever release of torch wrote them, and whatever names it chose."""
    for opset in ("18", "20", "23"):
        one, other = (FACTS[f"torch-{release}-opset-{opset}"].models for release in ("2.13", "2.14"))
        assert {name: facts.export.structure for name, facts in one.items()} == {
            name: facts.export.structure for name, facts in other.items()
        }


def test_torchscript_reports_only_what_is_worse() -> None:
    assert set(regressions("torch-2.13-opset-20", "torch-2.13-torchscript")) == OF_TORCHSCRIPT


def test_an_older_opset_loses_what_it_cannot_say() -> None:
    """GroupNormalization is the function of opset 21; two decoders are larger without RMSNormalization."""
    lost = [("convolutions.onnx", "fusion-lost"), ("llama.onnx", "model-grew"), ("qwen3.onnx", "model-grew")]
    assert regressions("torch-2.13-opset-23", "torch-2.14-opset-18") == lost


def test_an_export_of_the_installed_torch_is_no_regression(tmp_path: Path) -> None:
    """Its facts are compared with those of the release that wrote the table."""
    pytest.importorskip("torch", reason="torch is not installed")
    from tests.gate.__main__ import export

    names = ("gelu", "heads")
    known = FACTS["torch-2.13-opset-20"]
    assert known is not None
    for name in names:
        export(name, tmp_path / f"{name}.onnx", 20, torchscript=False)
    kept = {f"{name}.onnx": known.models[f"{name}.onnx"] for name in names}
    Baseline(known.settings, known.versions, kept).write(tmp_path / "facts.json")
    found = surgeon.gate(f"{tmp_path}/*.onnx", baseline=tmp_path / "facts.json")
    assert list(found.models) == sorted(kept)
    assert found.regressions == []


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two models and the baseline of both."""
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "models").mkdir()
    for name in ("a.onnx", "b.onnx"):
        shutil.copy(SHIPPED, folder / "models" / name)
    gate(folder, update=True)
    return folder


@pytest.fixture
def zoo(fresh: Path, tmp_path: Path) -> Path:
    """A copy of it: models have their names below the baseline's folder."""
    return Path(shutil.copytree(fresh, tmp_path / "zoo"))


def gate(folder: Path, **settings: object) -> surgeon.GateResult:
    """The result of the gate over the models of a folder."""
    given = {"baseline": folder / "surgeon-baseline.json", "rules": "gelu", **settings}
    return surgeon.gate(f"{folder}/models/*.onnx", **given)  # type: ignore[arg-type]


def lost_fusion(model: onnx.ModelProto) -> None:
    """One of four GELUs has another constant."""
    erf = next(node for node in model.graph.node if node.op_type == "Erf")
    (div,) = (node for node in model.graph.node if erf.input[0] in node.output)
    wrong = numpy_helper.to_array(_constant(model, div)) * 1.01
    model.graph.initializer.append(numpy_helper.from_array(wrong, "wrong"))
    div.input[1] = "wrong"


def _constant(model: onnx.ModelProto, node: onnx.NodeProto) -> onnx.TensorProto:
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    made = {one.output[0]: one.attribute[0].t for one in model.graph.node if one.op_type == "Constant"}
    return {**stored, **made}[node.input[1]]


def unsupported(model: onnx.ModelProto) -> None:
    """The op of another library."""
    last = next(node for node in model.graph.node if model.graph.output[0].name in node.output)
    last.output[0] = "inner"
    model.graph.node.append(helper.make_node("Mystery", ["inner"], [model.graph.output[0].name], domain="mylibrary"))
    model.opset_import.append(helper.make_opsetid("mylibrary", 1))


def fixed_batch(model: onnx.ModelProto) -> None:
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1


def missing_input(model: onnx.ModelProto) -> None:
    """The mask is computed from the ids."""
    mask = model.graph.input.pop()
    one = numpy_helper.from_array(np.ones(1, np.int64))
    ones = helper.make_node("ConstantOfShape", ["size"], [mask.name], value=one)
    nodes = [helper.make_node("Shape", [model.graph.input[0].name], ["size"]), ones, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


PLANTED: dict[Callable[[onnx.ModelProto], None], tuple[str, str]] = {
    lost_fusion: ("SG001", "gelu 4 → 3"),
    unsupported: ("SG002", "the target cannot run mylibrary::Mystery"),
    fixed_batch: ("SG003", "was dynamic, and is fixed: dim 0 (1) of "),
    missing_input: ("SG004", "input attention_mask is gone"),
}


def change(path: Path, edit: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load(path)
    edit(model)
    onnx.save(model, path)


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_regression_is_one_line(zoo: Path, planted: Callable[[onnx.ModelProto], None]) -> None:
    """With its rule, and nothing about the other model."""
    change(zoo / "models/a.onnx", planted)
    found = gate(zoo)
    identity, what = PLANTED[planted]
    (one,) = found.regressions
    assert one.rule is not None
    assert (one.model, one.rule.id) == ("models/a.onnx", identity)
    assert one.what.startswith(what)
    assert not found.ok
    assert one.cause


def test_a_lost_fusion_names_its_nearest_miss(zoo: Path) -> None:
    """The node, the reason, and the lines of the program that led to it."""
    change(zoo / "models/a.onnx", lost_fusion)
    (one,) = gate(zoo).regressions
    assert "nearest miss of gelu at " in one.cause
    assert one.nodes
    assert one.frames
    assert all(line > 0 for _, line in one.frames)


def test_a_missing_model_and_a_broken_one_are_reported(zoo: Path) -> None:
    (zoo / "models/a.onnx").unlink()
    (zoo / "models/b.onnx").write_bytes(b"cut")
    found = gate(zoo)
    assert [(one.model, one.rule and one.rule.name) for one in found.differences] == [
        ("models/a.onnx", "model-missing"),
        ("models/b.onnx", "model-refused"),
    ]


RULE = '''
from surgeon import rule
from surgeon.patterns.activations.gelu import exact


@rule(patterns=[exact])
def my_gelu(g, x):
    """Fuse the GELU."""
    return g.ms_gelu({0})
'''


def test_a_site_that_is_rolled_back_is_one_line(zoo: Path) -> None:
    """The fused op that is lost by it is not reported again."""
    rules = zoo / "my_rules.py"
    rules.write_text(RULE.format("x"), encoding="utf-8")
    gate(zoo, rules=str(rules), update=True)
    rules.write_text(RULE.format("g.mul(x, 1.1)"), encoding="utf-8")
    found = gate(zoo, rules=str(rules)).regressions
    assert [(one.model, one.rule and one.rule.name) for one in found] == [
        ("models/a.onnx", "proof-lost"),
        ("models/b.onnx", "proof-lost"),
    ]
    assert found[0].what == "rolled back: 4 sites of my_gelu"


def renamed(model: onnx.ModelProto) -> None:
    """Other names of all nodes, inner tensors, weights and dims, another order of the weights, and no metadata."""
    kept = {value.name for value in (*model.graph.input, *model.graph.output)}
    names = {name: f"t{number}" for number, name in enumerate(_names(model)) if name not in kept}
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        node.ClearField("doc_string")
        del node.metadata_props[:]
    for tensor in model.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    ordered = sorted(model.graph.initializer, key=lambda tensor: tensor.name, reverse=True)
    del model.graph.initializer[:], model.graph.value_info[:], model.metadata_props[:]
    model.graph.initializer.extend(ordered)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = f"d_{dim.dim_param}"
    model.producer_version = "99"


def _names(model: onnx.ModelProto) -> Iterator[str]:
    found = dict.fromkeys(tensor.name for tensor in model.graph.initializer)
    found |= dict.fromkeys(name for node in model.graph.node for name in (*node.input, *node.output) if name)
    return iter(found)


def test_names_order_and_metadata_do_not_matter(zoo: Path) -> None:
    before = structure_hash(onnx.load(zoo / "models/a.onnx"))
    change(zoo / "models/a.onnx", renamed)
    assert structure_hash(onnx.load(zoo / "models/a.onnx")) == before
    assert gate(zoo).differences == []


def test_the_structure_has_attributes_wiring_sizes_and_small_constants(zoo: Path) -> None:
    """A change of any is another structure; of a large weight it is none."""
    path = zoo / "models/a.onnx"
    model, seen = onnx.load(path), set()
    sources = [edit for edit in PLANTED if edit is not unsupported]
    for edit in (lambda _: None, *sources):
        changed = onnx.load(path)
        edit(changed)
        seen.add(structure_hash(changed))
    assert len(seen) == len(sources) + 1
    large = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    large.raw_data = bytes(len(large.raw_data))
    assert structure_hash(model) in seen


def test_growth_is_a_warning(zoo: Path) -> None:
    """It fails only with --fail-on warning, and a larger tolerance accepts it."""

    def grow(model: onnx.ModelProto) -> None:
        first = model.graph.output[0].name
        names = [f"more{number}" for number in range(30)]
        for source, made in zip([first, *names], names, strict=False):
            model.graph.node.append(helper.make_node("Sin", [source], [made]))
        last = onnx.ValueInfoProto()
        last.CopyFrom(model.graph.output[0])
        last.name = names[-1]
        model.graph.output.append(last)

    change(zoo / "models/a.onnx", grow)
    found = gate(zoo)
    assert [one.rule and one.rule.name for one in found.regressions] == ["model-grew"]
    assert found.ok
    assert not gate(zoo, fail_on="warning").ok
    assert gate(zoo, tolerance=1.0).regressions == []


def test_the_command_prints_a_line_each_and_its_exit_code(zoo: Path) -> None:
    command = ["gate", f"{zoo}/models/*.onnx", "--baseline", zoo / "surgeon-baseline.json", "--rules", "gelu"]
    same = run(*command)
    last = f"OK       no regressions since {zoo}/surgeon-baseline.json"
    assert (same.exit_code, same.stdout.splitlines()[-1]) == (0, last)
    change(zoo / "models/a.onnx", lost_fusion)
    worse = run(*command)
    assert worse.exit_code == 1
    assert "SG001 fusion-lost  models/a.onnx: gelu 4 → 3 (rules: gelu 4 → 3; " in worse.stdout
    assert json.loads(run(*command, "--json").stdout)["results"][0]["result"]["differences"][0]["id"] == "SG001"
    updated = run(*command, "--update")
    assert (updated.exit_code, "gelu 4 → 3" in updated.stdout) == (0, True)
    assert run(*command).exit_code == 0


def test_other_settings_than_the_baselines_are_refused(zoo: Path) -> None:
    command = ["gate", f"{zoo}/models/*.onnx", "--baseline", zoo / "surgeon-baseline.json"]
    ran = run(*command, "--rules", "gelu", "--target", "tensorrt")
    assert ran.exit_code == 2
    assert "was made with target ort, and this run has tensorrt. Give the same, or write" in ran.stderr
    assert run(*command, "--rules", "mish").exit_code == 2


def test_without_a_baseline_the_facts_are_printed(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In continuous integration that is an error, so that nobody relies on a gate that compares nothing."""
    monkeypatch.delenv("CI", raising=False)
    command = ["gate", f"{zoo}/models/*.onnx", "--baseline", zoo / "none.json", "--rules", "gelu"]
    ran = run(*command)
    assert ran.exit_code == 0
    assert "models/a.onnx  proved, " in ran.stdout
    assert "--update" in ran.stdout
    monkeypatch.setenv("CI", "true")
    assert run(*command).exit_code == 2
    assert not (zoo / "none.json").exists()


def test_two_models_of_one_name_are_refused(zoo: Path, tmp_path: Path) -> None:
    """Outside the folder of the baseline a model has only the name below its pattern."""
    for folder in ("one", "other"):
        shutil.copytree(zoo / "models", tmp_path / folder)
    given = [str(tmp_path / folder / "a.onnx") for folder in ("one", "other")]
    with pytest.raises(UsageError, match="would have the same name a.onnx. Put the baseline into a common folder"):
        surgeon.gate(given, baseline=zoo / "facts.json")
    assert len(surgeon.gate(given, baseline=tmp_path / "facts.json", rules="gelu").models) == 2


def test_a_file_that_is_no_baseline_is_refused(zoo: Path) -> None:
    other = zoo / "other.json"
    other.write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match="is not a baseline"):
        gate(zoo, baseline=other)
    other.write_text('{"format": 99, "models": {}}', encoding="utf-8")
    with pytest.raises(UsageError, match="format 99 of another version"):
        gate(zoo, baseline=other)


def test_the_models_stay_as_they_are(zoo: Path) -> None:
    before = {path.name: path.read_bytes() for path in (zoo / "models").iterdir()}
    gate(zoo)
    assert {path.name: path.read_bytes() for path in (zoo / "models").iterdir()} == before


def test_rules_have_stable_ids_and_a_remedy() -> None:
    ids = {rule.id: rule.name for rule in GATE_RULES}
    assert ids == {
        "SG001": "fusion-lost",
        "SG002": "op-unsupported",
        "SG003": "dim-fixed",
        "SG004": "interface-changed",
        "SG005": "proof-lost",
        "SG006": "model-grew",
        "SG007": "model-refused",
        "SG008": "model-missing",
    }
    assert all(rule.summary and rule.help for rule in GATE_RULES)


def test_families_join_the_ops_of_one_operation() -> None:
    """An op of ONNX's first version is in none, since larger fusions consist of it."""
    found = {name: family.ops for name, family in fused_families().items()}
    assert {"Gelu", "com.microsoft::BiasGelu", "com.microsoft::FastGelu"} <= found["gelu"]
    assert {"Attention", "com.microsoft::MultiHeadAttention"} <= found["attention"]
    assert {"LayerNormalization", "com.microsoft::SkipLayerNormalization"} <= found["layer_norm"]
    assert not {"Softmax", "Sigmoid", "Gemm", "BatchNormalization"} & frozenset().union(*found.values())
