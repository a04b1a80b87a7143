"""An export of transformers goes in and comes out, component by component; an exporter runs rules itself."""

import json

import pytest

import surgeon

torch = pytest.importorskip("torch", "2.9", reason="torch 2.9 or newer is not installed")
transformers = pytest.importorskip("transformers", "5.24", reason="transformers 5.24 or newer is not installed")
pytest.importorskip("onnx_ir", reason="onnx_ir is not installed")

from transformers.exporters.base import ExportedModel  # noqa: E402
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter  # noqa: E402

from surgeon.integrations.transformers import RulesConfig, RulesExporter  # noqa: E402

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "vocab_size": 99}
TOKENS = torch.arange(12).reshape(2, 6)


@pytest.fixture(scope="module")
def bert():
    torch.manual_seed(0)
    return transformers.BertModel(transformers.BertConfig(**SMALL, num_hidden_layers=1)).eval()


@pytest.fixture(scope="module")
def exported(bert):
    return OnnxExporter().export(bert, inputs(), OnnxConfig(dynamic=True))


def inputs():
    return {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}


def answer(export):
    return export(**inputs()).last_hidden_state


def count(export, name="model"):
    return len(export.components[name].program.graph)


def test_an_export_goes_in_and_comes_out(exported, bert, tmp_path):
    made, report = surgeon.rewrite(exported, "transformers")
    assert type(made) is ExportedModel
    assert report.outcome == report["model"].outcome == "proved"
    assert count(made) <= 44 < 85 <= count(exported)
    assert made.components["model"].metadata is exported.components["model"].metadata
    wanted = bert(**inputs()).last_hidden_state
    torch.testing.assert_close(answer(made), wanted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(answer(exported), wanted, atol=1e-4, rtol=1e-4)
    made.save_pretrained(tmp_path)
    loaded = ExportedModel.from_pretrained(tmp_path)
    torch.testing.assert_close(answer(loaded), answer(made), atol=0, rtol=0)
    assert surgeon.compare(exported, loaded).outcome.value == "proved"


def test_nothing_changed_is_the_same_export(exported):
    assert surgeon.rewrite(exported, "quick_gelu")[0] is exported
    assert surgeon.rewrite(exported, "transformers", dry_run=True)[0] is exported


def test_a_loaded_export_keeps_its_path_until_it_is_changed(exported, tmp_path):
    exported.save_pretrained(tmp_path / "first")
    loaded = ExportedModel.from_pretrained(tmp_path / "first")
    same, _ = surgeon.rewrite(loaded, "quick_gelu")
    assert same is loaded
    with pytest.warns(UserWarning, match="Save the result before you call it"):
        made, report = surgeon.rewrite(loaded, "transformers")
    assert report.outcome == "proved"
    assert "path" in loaded.program.meta
    assert "path" not in made.program.meta
    made.save_pretrained(tmp_path / "second")
    again = ExportedModel.from_pretrained(tmp_path / "second")
    torch.testing.assert_close(answer(again), answer(loaded), atol=1e-4, rtol=1e-4)


@pytest.fixture(scope="module")
def generating():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SMALL, num_hidden_layers=2, num_key_value_heads=1)
    model = transformers.LlamaForCausalLM(config).eval()
    return model, OnnxExporter().export_for_generation(model, {"input_ids": TOKENS}, OnnxConfig(dynamic=True))


def test_each_component_has_its_report(generating):
    _, exported = generating
    assert len(exported.components) > 1
    made, report = surgeon.rewrite(exported, "transformers")
    assert list(report.components) == list(exported.components)
    assert report.outcome == "proved"
    assert report.nodes[0] > report.nodes[1]
    assert set(report.to_dict()["components"]) == set(exported.components)
    assert report._repr_html_()
    for name in exported.components:
        assert count(made, name) < count(exported, name)
    compared = surgeon.compare(exported, made)
    assert set(compared) == set(exported.components)
    assert {found.outcome.value for found in compared.values()} == {"proved"}
    assert set(surgeon.inspect(exported)) == set(surgeon.check(exported)) == set(exported.components)
    with pytest.raises(surgeon.UsageError, match="different components"):
        surgeon.compare(exported, exported.components[name].program)
    with pytest.raises(surgeon.UsageError, match=r"has \d models .* Give one of them"):
        surgeon.draw(exported)


def test_components_are_changed_although_one_fails(generating, monkeypatch):
    _, exported = generating

    def product(g, x):
        return g.mul(x, g.sigmoid(x))

    @surgeon.rule(patterns=[product], target="any")
    def wrong_silu(g, x):
        """Write a wrong op."""
        return g.op("Elu", x)

    with pytest.raises(surgeon.CheckFailed) as raised:
        surgeon.rewrite(exported, [wrong_silu])
    assert str(raised.value).startswith(f"{next(iter(exported.components))}: ")
    assert set(raised.value.report.components) == set(exported.components)
    assert raised.value.result is exported
    kept, report = surgeon.rewrite(exported, [wrong_silu], keep_going=True)
    assert kept is exported
    assert report.rolled_back


def test_the_exporter_runs_rules(bert, exported, tmp_path):
    exporter = RulesExporter()
    made = exporter.export(bert, inputs(), RulesConfig(dynamic=True, rules="transformers"))
    (report,) = exporter.reports
    assert report.outcome == "proved"
    assert report.sites
    assert count(made) <= 44 < 85 <= count(exported)
    torch.testing.assert_close(answer(made), bert(**inputs()).last_hidden_state, atol=1e-4, rtol=1e-4)
    made.save_pretrained(tmp_path)
    manifest = json.loads((tmp_path / "export.json").read_text())
    assert manifest["export_format"] == "onnx"  # so it loads without surgeon
    assert '"rules": "transformers"' in json.dumps(manifest)
    torch.testing.assert_close(answer(ExportedModel.from_pretrained(tmp_path)), answer(made), atol=0, rtol=0)
    plain = RulesExporter().export(bert, inputs(), RulesConfig(dynamic=True))
    assert count(plain) == count(exported)
