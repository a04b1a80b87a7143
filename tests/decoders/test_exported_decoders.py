"""Decoders of transformers: the client generates the tokens of `transformers.generate` from the folder."""

from functools import cache

import pytest

import surgeon
from tests.decoders.client import generated
from tests.sampling import chosen

COUNT = 64
LLAMA = "llama", "dynamo", 20


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A function that gives the file of an export, the texts of transformers, and an EOS that is not in them.

    It makes each once.  The texts have at least ten different tokens.
    """
    pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers.exporters", reason="transformers before 5 has no exporter")
    from tests.decoders import architectures
    from tests.decoders.exported import export

    @cache
    def made(name, exporter, opset):
        model = architectures.model(name)
        texts = [architectures.tokens(model, prompt, COUNT) for prompt in architectures.PROMPTS]
        assert len({token for text in texts for token in text}) >= 10
        path = tmp_path_factory.mktemp(name) / "in.onnx"
        export(model, exporter, opset, path)
        return path, texts, min({*range(architectures.VOCABULARY)}.difference(*texts))

    return made


def every() -> list[tuple[str, str, int]]:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers.exporters", reason="transformers before 5 has no exporter")
    from tests.decoders.architectures import CONFIGS
    from tests.decoders.exported import EXPORTS, FAILING

    return [case for name in CONFIGS for export in EXPORTS if (case := (name, *export)) not in FAILING]


@pytest.mark.parametrize(("name", "exporter", "opset"), chosen(lambda: [LLAMA], every))
def test_greedy_tokens(name, exporter, opset, exported, tmp_path):
    """64 of 64 for prompts of 1 to 300 tokens, with the exported graph and with the one that rules write."""
    from tests.decoders.architectures import PROMPTS

    path, texts, eos = exported(name, exporter, opset)
    for keep_graph in (True, False):
        folder = tmp_path / f"out{keep_graph}"
        report = surgeon.decoder(path, folder, context=512, eos=eos, pad=0, keep_graph=keep_graph, check="none")
        assert (report.nodes[0] == report.nodes[1]) is keep_graph
        model = report.config["model"]["decoder"]
        assert (model["num_hidden_layers"], model["num_attention_heads"]) == (2, 4)
        for prompt, text in zip(PROMPTS, texts, strict=True):
            assert generated(folder, [prompt], COUNT) == [text], (keep_graph, len(prompt))


def test_the_client_reads_a_padded_batch(exported, tmp_path):
    """Prompts of 2, 7 and 40 tokens in one batch have the texts of transformers, with the scores of the last token."""
    from tests.decoders.architectures import BATCH

    path, texts, eos = exported(*LLAMA)
    facts = {"context": 512, "eos": eos, "pad": 0, "keep_graph": True, "last_logits": True}
    report = surgeon.decoder(path, tmp_path / "out", **facts)
    assert (report.outcome, [done.edit.flag for done in report.edits]) == ("proved", ["genai", "last-logits"])
    assert generated(tmp_path / "out", BATCH, COUNT) == texts[1:4]
