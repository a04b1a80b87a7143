"""Decoders of transformers that read an encoder are refused, with the reason."""

import pytest

from tests.command_line import files_in, one_sentence, run
from tests.sampling import chosen

REASONS = {
    "states": "input 'encoder_hidden_states' holds numbers such as the states of an encoder for cross-attention",
    "caches": "cross-attention reads input 'past_key_values.0.encoder.key', to which no node appends new rows",
}


def every() -> list[tuple[str, str, str]]:
    pytest.importorskip("transformers.exporters", reason="transformers before 5 has no exporter")
    from tests.decoders.encoders import FORMS, MODELS

    return [(name, form, exporter) for name in MODELS for form in FORMS for exporter in ("dynamo", "torchscript")]


@pytest.mark.parametrize(("name", "form", "exporter"), chosen(lambda: [("whisper", "caches", "torchscript")], every))
def test_cross_attention_is_refused(name, form, exporter, tmp_path):
    """Nothing is written."""
    pytest.importorskip("torch", "2.9", reason="torch 2.9 or newer is not installed")
    pytest.importorskip("transformers.exporters", reason="transformers before 5 has no exporter")
    from tests.decoders.encoders import export

    source = tmp_path / "in.onnx"
    export(name, form, exporter, source)
    names = files_in(tmp_path)
    assert REASONS[form] in one_sentence(run("decoder", source, tmp_path / "out", "--context", 32, "--eos", 2), 2)
    assert files_in(tmp_path) == names
