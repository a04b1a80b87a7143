"""All rule sets that onnxscript ships, on real exports: none gives a wrong result, and it is known which are proved."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import surgeon
from surgeon.proof.check_result import Outcome
from tests import sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

REASON = "onnxscript 0.7.2, torch and transformers are not installed"
pytest.importorskip("onnxscript", minversion="0.7.2", reason=REASON)
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)
onnx_ir = pytest.importorskip("onnx_ir", reason=REASON)
rewriter = pytest.importorskip("onnxscript.rewriter", reason=REASON)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")  # of torch's exporter

MAKERS = ("basic_optimization_rules", "fuse_hardswish_rules", "fused_matmul_rule_sets")
NO_MATCH = "onnxscript found no match"


class Export(NamedTuple):
    """One export of a small network with random weights."""

    network: str
    opset: int
    has_dynamic_dims: bool = True


class Count(NamedTuple):
    """What became of the matches of a rule set."""

    proved: int = 0
    rolled_back: int = 0
    refused: int = 0


SAMPLE = (Export("bert", 20), Export("llama", 20))
EVERY = (
    *(Export(network, 20) for network in ("bert", "gpt2", "llama", "vit")),
    *(Export(network, opset, False) for network in ("bert", "gpt2", "llama", "vit") for opset in (18, 20, 23)),
)
FUSION, RULES = "ort_fusions", "rules.fusion"
KNOWN: Mapping[Export, Mapping[str, Count]] = {
    Export("bert", 20): {
        f"{FUSION}.bias_gelu.bias_gelu_rules": Count(proved=2),
        f"{FUSION}.sdpa.sdpa_rules": Count(refused=2),  # steps of a longer chain
        f"{FUSION}.shape_optimization.rules": Count(proved=4, rolled_back=2),  # it takes the -1 of a Reshape as a size
        f"{FUSION}.skip_normalization.skip_layer_normalization_ruleset": Count(proved=4),
    },
    Export("llama", 20): {
        f"{RULES}._rms_normalization.rms_normalization_ruleset": Count(refused=5),  # ops of opset 23
        f"{RULES}._rotary_embedding.rotary_embedding_rules": Count(refused=4),
        f"{FUSION}.rms_normalization.rms_normalization_ruleset": Count(proved=5),
        f"{FUSION}.rotary_embedding.rotary_embedding_rules": Count(refused=4),
        f"{FUSION}.sdpa.sdpa_rules": Count(refused=2),
    },
}


@cache
def shipped() -> dict[str, Any]:
    """The rule sets of onnxscript, by module and name."""
    found: dict[str, Any] = {}
    for pack in ("rules", "ort_fusions"):
        package = importlib.import_module(f"onnxscript.rewriter.{pack}")
        for item in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not item.name.endswith("test"):
                found.update(_sets_of(importlib.import_module(item.name), found))
    return found


def _sets_of(module: Any, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    name = module.__name__.removeprefix("onnxscript.rewriter.")
    for key, value in vars(module).items():
        if isinstance(value, rewriter.RewriteRuleSet) and not any(value is other for other in known.values()):
            yield f"{name}.{key}", value
        elif key in MAKERS and getattr(value, "__module__", "") == module.__name__:
            yield f"{name}.{key}", value()


def network_of(name: str) -> tuple[Any, dict[str, Any]]:
    """A network and its inputs."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    text = {**sizes, "vocab_size": 99, "max_position_embeddings": 64}
    ids, mask = torch.randint(0, 99, (2, 8)), torch.ones(2, 8, dtype=torch.int64)
    if name == "bert":
        net = transformers.BertModel(transformers.BertConfig(**text))
        return net, {"input_ids": ids, "attention_mask": mask}
    if name == "gpt2":
        small = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64, "use_cache": False}
        return transformers.GPT2Model(transformers.GPT2Config(**small)), {"input_ids": ids}
    if name == "llama":
        config = transformers.LlamaConfig(**text, num_key_value_heads=2, use_cache=False)
        return transformers.LlamaModel(config), {"input_ids": ids}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8)
    return transformers.ViTModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Exports a case once."""
    folder = tmp_path_factory.mktemp("exports")

    @cache
    def export(case: Export) -> Path:
        net, inputs = network_of(case.network)
        net.eval().config.return_dict = False
        names = ("batch", "sequence")
        dims = {
            key: {axis: torch.export.Dim(names[axis]) for axis in range(2 if value.ndim == 2 else 1)}
            for key, value in inputs.items()
        }
        dynamic = {"dynamic_shapes": dims} if case.has_dynamic_dims else {}
        program = torch.onnx.export(
            net, (), kwargs=inputs, dynamo=True, opset_version=case.opset, verbose=False, **dynamic
        )
        path = folder / f"{case.network}{case.opset}{case.has_dynamic_dims}.onnx"
        program.save(path, external_data=False)
        return path

    return export


def refused(report: Any) -> list[str]:
    """Why matches were declined."""
    return [miss.reason for miss in report.misses if not miss.reason.startswith(NO_MATCH)]


def dry_run(path: Path, *names: str) -> int:
    """How many matches rule sets have."""
    rules = surgeon.integrations.onnxscript.rules([shipped()[name] for name in names])
    _, report = surgeon.rewrite(path, rules, dry_run=True)
    return sum(len(site.steps) for site in report.sites) + len(refused(report))


def count_of(path: Path, name: str, out: Path) -> Count:
    """Run one rule set; its result is right."""
    rules = surgeon.integrations.onnxscript.rules(shipped()[name])
    _, report = surgeon.rewrite(path, rules, output=out, force=True, keep_going=True)
    assert {site.outcome for site in report.sites} <= {"proved"}, name
    if report.sites:
        assert surgeon.compare(path, out).outcome is not Outcome.FAILED, name
    return Count(len(report.sites), len(report.rolled_back), len(refused(report)))


def test_onnxscript_ships_about_forty_sets():
    assert 40 <= len(shipped()) <= 60


@pytest.mark.parametrize("case", sampling.chosen(lambda: SAMPLE, lambda: EVERY), ids=str)
def test_no_shipped_set_gives_a_wrong_result(case, exported, tmp_path):
    """Each set has the matches that onnxscript finds."""
    path = exported(case)
    counts = {name: rule_set.apply_to_model(onnx_ir.load(path)) for name, rule_set in shipped().items()}
    matching = {name: count for name, count in counts.items() if count}
    assert {name: dry_run(path, name) for name in matching} == matching
    assert dry_run(path, *(counts.keys() - matching.keys())) == 0
    found = {name: count_of(path, name, tmp_path / "out.onnx") for name in matching}
    assert found == KNOWN.get(case, found)


def test_sets_that_write_ops_of_opset_23_are_refused_at_opset_20(exported):
    path = exported(Export("llama", 20))
    for name, op in (("_rms_normalization.rms_normalization_ruleset", "RMSNormalization"),
                     ("_rotary_embedding.rotary_embedding_rules", "RotaryEmbedding")):  # fmt: skip
        rules = surgeon.integrations.onnxscript.rules(shipped()[f"{RULES}.{name}"])
        _, report = surgeon.rewrite(path, rules, dry_run=True)
        assert set(refused(report)) == {f"ai.onnx has no {op} at opset 20; {op} needs opset 23"}
        assert {miss.opset for miss in report.misses if not miss.reason.startswith(NO_MATCH)} == {23}


CHAIN = ("shape_optimization.rules", "sdpa.sdpa_rules", "mha", "mha_bias.mha_bias_rules", "attention.attention_rules")


def chain() -> list[Any]:
    """The sets that write Attention, in the order of `fuse_xformers`."""
    return [shipped()[key] for part in CHAIN for key in shipped() if f"{key}.".startswith(f"{FUSION}.{part}.")]


def test_the_sets_that_write_attention_are_proved_as_one_site_a_layer(exported, tmp_path):
    path = exported(Export("bert", 20))
    rules = surgeon.integrations.onnxscript.rules(chain())
    _, report = surgeon.rewrite(path, rules, output=tmp_path / "out.onnx")
    assert [site.rules for site in report.sites] == [
        ("ExtractDim", "SDPA", "MHA", "FuseBiasMHA", "attention_no_slice"),
        ("ExtractDim", "SDPA", "MHA", "FuseBiasMHA", "attention_no_slice"),
    ]
    assert report.outcome == "proved"
    assert surgeon.compare(path, tmp_path / "out.onnx").outcome is Outcome.PROVED


@pytest.mark.skipif(not sampling.is_whole(), reason="one more export: pytest --whole")
def test_a_wrong_set_of_the_chain_is_left_out(exported, tmp_path):
    """MultiHeadAttention has three axes, but GPT-2 reshapes its result to two: the set ignores that."""
    path = exported(Export("gpt2", 20))
    rules = surgeon.integrations.onnxscript.rules(chain())
    _, report = surgeon.rewrite(path, rules, output=tmp_path / "out.onnx", keep_going=True)
    assert any("has shape" in site.reason and site.step_at_fault.rule == "MHA" for site in report.rolled_back)
    assert [(site.rule, site.outcome) for site in report.sites] == [("ExtractDim", "proved")] * 4
