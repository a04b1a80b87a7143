"""Folders with weights of 4 and 8 bits, or in half precision: the losses, and that the client runs them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import surgeon
from surgeon.errors import CheckFailed, UsageError
from tests.command_line import result_in, run
from tests.decoders.client import generated
from tests.decoders.models import decoder
from tests.decoders.test_decoder_folder import PROMPTS, expected
from tests.decoders.test_decoding_check import change

FACTS = {"context": 64, "eos": 31, "keep_graph": True}


def tied():
    """The scores are products with the table of embeddings."""
    model = decoder()
    head = next(tensor for tensor in model.graph.initializer if tensor.name == "head")
    model.graph.initializer.remove(head)
    last = model.graph.node.pop()
    product = helper.make_node("FusedMatMul", [last.input[0], "wte"], last.output, domain="com.microsoft", transB=1)
    model.graph.node.append(product)
    model.opset_import.add(domain="com.microsoft", version=1)
    return model


def calm():
    """The decoder with small scores of attention, which half precision rounds less."""
    model = decoder()
    for name in ("wq0", "wq1"):
        change(model, name, lambda array: array / 100)
    return model


def stored(path):
    """The dtypes of the stored matrices by the name that they had as floats."""
    return {tensor.name: tensor.data_type for tensor in onnx.load(path).graph.initializer if len(tensor.dims) > 1}


@pytest.mark.parametrize("bits", [4, 8])
def test_tied_embeddings(bits, tmp_path):
    """They are stored once, the client generates what the graph gives, and the loss is reported as by `convert`."""
    pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    folder, facts = tmp_path / "out", FACTS | {"pad": 0, "check": "decode", "last_logits": True}
    report = surgeon.decoder(tied(), folder, **facts, weights=f"int{bits}", block=16)
    loss = report.steps[-1]
    assert (report.outcome, loss.outcome, report.check.outcome.value) == ("proved", "proved", "proved")
    assert loss.error > 0.001 > loss.kernel_error  # decoding is compared before weights are rounded
    assert (loss.runs, loss.best[1], len(loss.layers)) == (2, 16, 9)
    uses = [layer.weight for layer in loss.layers]
    assert (uses.count("wte"), report.decoder.width) == (2, 16)
    integers = [name for name, dtype in stored(folder / "model.onnx").items() if dtype == TensorProto.UINT8]
    assert (len(integers), len(set(uses))) == (8, 8)
    model = onnx.load(folder / "model.onnx")
    assert report.nodes[1] == len(model.graph.node)
    texts = [expected(model, prompt, 40) for prompt in PROMPTS]
    assert len({token for text in texts for token in text}) >= 10
    eos = min({*range(32)}.difference(*texts))
    surgeon.decoder(tied(), folder, **(facts | {"eos": eos}), weights=f"int{bits}", block=16, force=True)
    assert [generated(folder, [prompt], 40) for prompt in PROMPTS] == [[text] for text in texts]


def test_half_precision(tmp_path):
    """Caches and scores have it too, so that no Cast copies a cache."""
    pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    report = surgeon.decoder(calm(), tmp_path / "out", **FACTS, weights="float16")
    assert (report.outcome, report.decoder.caches[0].dtype) == ("proved", TensorProto.FLOAT16)
    kept = surgeon.decoder(calm(), tmp_path / "kept", **FACTS)
    assert report.config == kept.config
    texts = [generated(tmp_path / name, [PROMPTS[1]], 8)[0][:8] for name in ("out", "kept")]
    assert texts[0] == texts[1]


def test_a_largest_error(tmp_path):
    """Weights stay floats until no output moves further; if none can be rounded, nothing is written."""
    loss = surgeon.decoder(decoder(), tmp_path / "out", **FACTS, weights="int8", block=16, max_error=0.01).steps[-1]
    assert loss.error <= 0.01
    assert loss.kept
    with pytest.raises(CheckFailed, match="no weight can be rounded within it"):
        surgeon.decoder(decoder(), tmp_path / "other", **FACTS, weights="int4", block=16, max_error=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


REFUSED = {
    "Unknown weights 'int3'. Choose int4, int8, float16, keep.": {"weights": "int3"},
    "A block, a largest error or an accuracy level needs weights that change. Choose int4, int8 or float16.": {
        "block": 16
    },
    "ONNX Runtime has no blocks of 7. Choose 16, 32, 64, 128, 256.": {"weights": "int4", "block": 7},
    "--block does not fit: only int4 and int8 have blocks, not float16. Omit it.": {"weights": "float16", "block": 16},
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message, tmp_path):
    with pytest.raises(UsageError) as caught:
        surgeon.decoder(decoder(), tmp_path / "out", **FACTS, **REFUSED[message])
    assert str(caught.value) == message
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path):
    """Weights in a data file become integers in another, and the floats are not copied."""
    source, folder = tmp_path / "in.onnx", tmp_path / "out"
    onnx.save(decoder(), source, save_as_external_data=True, location="weights.data", size_threshold=0)
    words = ("--context", 64, "--eos", 31, "--keep-graph", "--weights", "int4", "--block", 16)
    ran = run("decoder", source, folder, *words)
    assert ran.exit_code == 0, ran.stderr
    assert "weights  float32 → int4 in blocks of 16" in ran.stdout
    size = sum(path.stat().st_size for path in folder.iterdir() if path.suffix == ".data")
    assert size < (tmp_path / "weights.data").stat().st_size / 2
    ran = run("decoder", source, folder, *words, "--force", "--json")
    assert len(result_in(ran.stdout)["parts"][-1]["layers"]) == 9


def test_losses_on_given_texts(tmp_path):
    """One run with two texts of four tokens after three."""
    texts = {"input_ids": np.full((2, 4), 5), "attention_mask": np.ones((2, 7), np.int64)}
    texts["position_ids"] = np.tile(np.arange(3, 7), (2, 1))
    pasts = [f"past_key_values.{n}.{kind}" for n in range(2) for kind in ("key", "value")]
    texts |= {name: np.ones((2, 2, 3, 8), np.float32) for name in pasts}
    options = surgeon.CheckOptions(inputs=[texts])
    report = surgeon.decoder(decoder(), tmp_path / "out", **FACTS, weights="int8", block=16, options=options)
    assert (report.steps[-1].runs, report.steps[-1].best[1]) == (1, 8)
    with pytest.raises(UsageError, match="Inputs and layers need the check of the whole model"):
        surgeon.decoder(decoder(), tmp_path / "other", **FACTS, options=options)
