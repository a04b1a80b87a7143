"""Decoders of transformers: the client generates the tokens of `transformers.generate` from the folder."""

import pytest

import surgeon
from tests.decoders.client import generated
from tests.sampling import chosen

EXPORTS = [("dynamo", 20), ("dynamo", 23), ("transformers", 20)]
NAMES = ("llama", "qwen3", "gpt2", "mistral", "gemma3")
COUNT = 64


def every() -> list[tuple[str, str, int]]:
    return [(name, *export) for name in NAMES for export in EXPORTS]


@pytest.mark.parametrize(
    ("name", "exporter", "opset"), chosen(lambda: [("llama", "dynamo", 20)], every)
)
def test_greedy_tokens(name, exporter, opset, tmp_path):
    """64 of 64 for prompts of 1 to 300 tokens, with the exported graph and with the one that rules write.

    The references have at least ten different tokens, and EOS is none of them.
    """
    pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers.exporters", reason="transformers before 5 has no exporter")
    from tests.decoders import exported

    made = exported.model(name)
    texts = [exported.tokens(made, prompt, COUNT) for prompt in exported.PROMPTS]
    assert len({token for text in texts for token in text}) >= 10
    eos = min({*range(exported.VOCABULARY)}.difference(*texts))
    exported.export(made, exporter, opset, tmp_path / "in.onnx")
    for keep_graph in (True, False):
        folder = tmp_path / f"out{keep_graph}"
        report = surgeon.decoder(
            tmp_path / "in.onnx", folder, context=512, eos=eos, pad=0, keep_graph=keep_graph, check="none"
        )
        assert (report.nodes[0] == report.nodes[1]) is keep_graph
        model = report.config["model"]["decoder"]
        assert (model["num_hidden_layers"], model["num_attention_heads"]) == (2, 4)
        for prompt, text in zip(exported.PROMPTS, texts, strict=True):
            assert generated(folder, [prompt], COUNT) == [text], (keep_graph, len(prompt))
