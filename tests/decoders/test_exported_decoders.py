"""Decoders of transformers: the client generates the tokens of `transformers.generate` from the folder."""

import pytest

import surgeon
from tests.decoders.client import generated
from tests.sampling import chosen

COUNT = 64


def every() -> list[tuple[str, str, int]]:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers.exporters", reason="transformers before 5 has no exporter")
    from tests.decoders.architectures import CONFIGS
    from tests.decoders.exported import EXPORTS, FAILING

    return [case for name in CONFIGS for export in EXPORTS if (case := (name, *export)) not in FAILING]


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
    from tests.decoders import architectures
    from tests.decoders.exported import export

    made = architectures.model(name)
    texts = [architectures.tokens(made, prompt, COUNT) for prompt in architectures.PROMPTS]
    assert len({token for text in texts for token in text}) >= 10
    eos = min({*range(architectures.VOCABULARY)}.difference(*texts))
    export(made, exporter, opset, tmp_path / "in.onnx")
    for keep_graph in (True, False):
        folder = tmp_path / f"out{keep_graph}"
        report = surgeon.decoder(
            tmp_path / "in.onnx", folder, context=512, eos=eos, pad=0, keep_graph=keep_graph, check="none"
        )
        assert (report.nodes[0] == report.nodes[1]) is keep_graph
        model = report.config["model"]["decoder"]
        assert (model["num_hidden_layers"], model["num_attention_heads"]) == (2, 4)
        for prompt, text in zip(architectures.PROMPTS, texts, strict=True):
            assert generated(folder, [prompt], COUNT) == [text], (keep_graph, len(prompt))
