"""The folder of a decoder: its configuration, its files, what is refused, and that the real client runs it."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import surgeon
from surgeon.edits.decoders.cache_names import template_of
from surgeon.errors import CheckFailed, ModelFileError, SurgeonError, UsageError
from tests.command_line import files_in, one_sentence, result_in, run
from tests.decoders.client import generated
from tests.decoders.models import decoder, grouped, with_cast_pasts, with_encoder_caches

FACTS = {"context": 64, "eos": 31}
PROMPTS = ([5], [7, 11, 3], [4, 9, 8, 1, 2, 6, 30, 12])


def config_of(folder):
    return json.loads((folder / "genai_config.json").read_text())


def expected(model, prompt, count):
    """The best tokens, with the whole text in each run and no past."""
    session, tokens = onnxruntime.InferenceSession(model.SerializeToString()), list(prompt)
    for _ in range(count):
        texts = iter(([tokens], [[1] * len(tokens)], [[*range(len(tokens))]]))
        feeds = {
            one.name: np.zeros((1, one.shape[1], 0, one.shape[3]), np.float32) if len(one.shape) == 4 else next(texts)
            for one in session.get_inputs()
        }
        scores = session.run(None, {name: np.array(value) for name, value in feeds.items()})[0]
        tokens.append(int(scores[0, -1].argmax()))
    return tokens[len(prompt) :]


NAMES = {
    "usual": {},
    "odd": {"ids": "a", "mask": "b", "positions": "c", "logits": "d"},
    "no template": {"key": "k_%d_of%d", "value": "val%d", "new_key": "p0%d", "new_value": "new%d"},
}


@pytest.mark.parametrize(("names", "keep_graph"), [("usual", False), ("odd", True), ("no template", True)])
def test_the_client_generates_the_same_tokens(names, keep_graph, tmp_path):
    """Each text by itself, with caches in another order than that of the layers."""
    pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    model, folder = decoder(order=(1, 0), **NAMES[names]), tmp_path / "out"
    texts = [expected(model, prompt, 50) for prompt in PROMPTS]
    assert len({token for text in texts for token in text}) >= 10
    eos = next(token for token in range(32) if token not in {one for text in texts for one in text})
    report = surgeon.decoder(model, folder, context=64, eos=eos, keep_graph=keep_graph)
    assert (report.proved, report.config) == (True, config_of(folder))
    assert [generated(folder, [prompt], 50) for prompt in PROMPTS] == [[text] for text in texts]


def test_a_shared_buffer(tmp_path):
    """GroupQueryAttention writes into the buffer of the past, so the client has one for both."""
    pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    text = expected(grouped(), [5, 3], 40)
    eos = min({*range(13)}.difference(text))
    report = surgeon.decoder(grouped(), tmp_path / "out", context=64, eos=eos, keep_graph=True)
    assert report.config["search"]["past_present_share_buffer"]
    assert generated(tmp_path / "out", [[5, 3]], 40) == [text]


def test_the_configuration(tmp_path):
    """Sizes and names come from the graph, tokens and the context from the caller."""
    report = surgeon.decoder(decoder(), tmp_path / "out", context=48, eos=(30, 31), bos=1, keep_graph=True)
    assert report.config["model"] == {
        "type": "decoder",
        "vocab_size": 32,
        "context_length": 48,
        "bos_token_id": 1,
        "eos_token_id": [30, 31],
        "pad_token_id": 30,
        "decoder": {
            "session_options": {"provider_options": []},
            "filename": "model.onnx",
            "hidden_size": 16,
            "head_size": 8,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "num_hidden_layers": 2,
            "inputs": {
                "input_ids": "input_ids",
                "attention_mask": "attention_mask",
                "position_ids": "position_ids",
                "past_key_names": "past_key_values.%d.key",
                "past_value_names": "past_key_values.%d.value",
            },
            "outputs": {
                "logits": "logits",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
            },
        },
    }
    assert report.config["search"] == {"max_length": 48, "past_present_share_buffer": False}
    assert (report.outcome, report.written) == ("unchanged", True)
    assert report.decoder.caches[1].past_key == "past_key_values.1.key"
    assert repr(report) == "<DecoderReport nodes 62 -> 62, separate buffers; unchanged>"


def test_a_table_of_positions_is_a_context(tmp_path):
    assert surgeon.decoder(decoder(), tmp_path / "out", eos=3, keep_graph=True).config["model"]["context_length"] == 64


def test_only_names_without_template_change(tmp_path):
    """The values have numbers of layers; the keys do not."""
    report = surgeon.decoder(decoder(key="k_%d_of%d"), tmp_path / "out", **FACTS, keep_graph=True)
    assert [done.said for done in report.edits] == [("caches are renamed to past_key_values.%d.key",)]
    assert report.outcome == "proved"
    names = [value.name for value in onnx.load(tmp_path / "out" / "model.onnx").graph.input]
    assert names[3:5] == ["past_key_values.0.key", "past_key_values.0.value"]


@pytest.mark.parametrize(
    ("names", "template"),
    [
        (["past.0.key", "past.1.key"], "past.%d.key"),
        (["h0_k0", "h0_k1"], "h0_k%d"),
        (["k0"], "k%d"),
        (["k"], None),
        (["k1", "k2"], None),
        (["k1", "k0"], None),
        (["k00", "k01"], None),
        (["%0", "%1"], None),
        ([f"k.{n}" for n in range(12)], "k.%d"),
    ],
)
def test_templates(names, template):
    assert template_of(names) == template


def test_the_folder_of_a_tokenizer(tmp_path):
    """Settings for generation come before those of the model, and options before both."""
    files = {
        "tokenizer.json": {"added_tokens": [{"id": 29, "content": "<pad>"}]},
        "tokenizer_config.json": {"pad_token": {"content": "<pad>"}, "model_max_length": int(1e30)},
        "config.json": {"eos_token_id": 2, "bos_token_id": 1, "text_config": {"max_position_embeddings": 40}},
        "generation_config.json": {"eos_token_id": [5, 6]},
        "model.safetensors": {},
    }
    source, folder = tmp_path / "tokenizer", tmp_path / "out"
    source.mkdir()
    for name, held in files.items():
        (source / name).write_text(json.dumps(held))
    model = surgeon.decoder(decoder(), folder, bos=9, tokenizer=source, keep_graph=True).config["model"]
    found = [model[f"{name}_token_id"] for name in ("eos", "bos", "pad")]
    assert (found, model["context_length"]) == ([[5, 6], 9, 29], 40)
    names = ["genai_config.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(path.name for path in folder.iterdir()) == names


def _with_another_size(model):
    for value in model.graph.input, model.graph.output:
        for one in value:
            if ".1." in one.name:
                one.type.tensor_type.shape.dim[1].dim_value = 4
    shape = next(node for node in model.graph.node if node.output[0] == "heads")
    other = onnx.helper.make_node("Constant", [], ["heads1"], value_ints=[0, 0, 4, 4])
    model.graph.node.insert(list(model.graph.node).index(shape), other)
    for value in (one for ends in (model.graph.input, model.graph.output) for one in ends if ".1." in one.name):
        value.type.tensor_type.shape.dim[3].dim_value = 4
    for node in model.graph.node:
        if node.output[0] in ("qh1", "kh1", "vh1"):
            node.input[1] = "heads1"


def _with_wide_mask(model):
    model.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.BOOL


def _with_taken_name(model):
    for node in model.graph.node:
        for held in (node.input, node.output):
            held[:] = ["past_key_values.0.key" if name == "words" else name for name in held]


UNFIT = {
    "sizes": (_with_another_size, {}, "all caches must have one layout"),
    "mask": (_with_wide_mask, {}, "input 'attention_mask' must have two axes and the dtype int32 or int64"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_decoders_that_the_client_cannot_run(what, tmp_path):
    change, names, why = UNFIT[what]
    model = decoder(**names)
    change(model)
    with pytest.raises(UsageError, match=why):
        surgeon.decoder(model, tmp_path / "out", **FACTS)
    assert not list(tmp_path.iterdir())


def test_a_taken_name(tmp_path):
    model = decoder(key="k_%d_of%d")
    _with_taken_name(model)
    with pytest.raises(UsageError, match=r"already named 'past_key_values\.0\.key'"):
        surgeon.decoder(model, tmp_path / "out", **FACTS, keep_graph=True)
    assert not list(tmp_path.iterdir())


REFUSED = {
    "no eos": ({"context": 9}, "The graph does not say the token that ends a text. Give --eos N, or --tokenizer DIR."),
    "no such token": ({"eos": 32}, "eos 32 is not a token: the graph has 32 tokens, from 0 on."),
    "no such pad": ({"eos": 3, "pad": -1}, "pad -1 is not a token: the graph has 32 tokens, from 0 on."),
    "too long": ({"eos": 3, "context": 65}, "The context is 65, but the table of positions has 64 rows."),
    "no context": ({"eos": 3, "context": 0}, "context must be at least 1, not 0."),
    "no integer": ({"eos": "3"}, "eos must be an integer, not '3'."),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_facts(what, tmp_path):
    """One sentence on the problem, and nothing is written."""
    given, message = REFUSED[what]
    with pytest.raises(UsageError) as caught:
        surgeon.decoder(decoder(), tmp_path / "out", **given)
    assert str(caught.value) == message
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_empty(tmp_path):
    """It stays as it is; --force adds the files to it."""
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ModelFileError, match="is not empty"):
        surgeon.decoder(decoder(), tmp_path, **FACTS, keep_graph=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    surgeon.decoder(decoder(), tmp_path, **FACTS, keep_graph=True, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["genai_config.json", "mine", "model.onnx"]


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_a_tokenizer_that_cannot_be_read(name, tmp_path):
    source = tmp_path / "tokenizer"
    source.mkdir()
    (source / "tokenizer.json").write_text("{}")
    (source / name).write_text("{")
    with pytest.raises(ModelFileError, match="is not JSON"):
        surgeon.decoder(decoder(), tmp_path / "out", **FACTS, tokenizer=source)
    with pytest.raises(ModelFileError, match="is not the folder of a tokenizer"):
        surgeon.decoder(decoder(), tmp_path / "out", **FACTS, tokenizer=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer"]


def test_nothing_is_left_of_a_write_that_fails(tmp_path, monkeypatch):
    """The model is already in the temporary folder when the configuration fails."""

    def fail(*_, **__):
        raise ModelFileError("The disk is full.")

    monkeypatch.setattr("surgeon.edits.decoders.decoder_folder.genai_config", fail)
    with pytest.raises(SurgeonError, match="disk is full"):
        surgeon.decoder(decoder(), tmp_path / "out", **FACTS, keep_graph=True)
    assert not list(tmp_path.iterdir())


def test_a_wrong_rule_is_rolled_back(tmp_path, monkeypatch):
    """The folder has the model without it, and the error has the report."""

    @surgeon.rule(patterns=[lambda g, x: g.softmax(x)], target="any")
    def wrong(g, x):
        """Write a softmax as a sigmoid."""
        return g.sigmoid(x)

    monkeypatch.setattr("surgeon.edits.decoders.decoder_folder.RULES", [wrong])
    with pytest.raises(CheckFailed) as caught:
        surgeon.decoder(decoder(), tmp_path / "out", **FACTS)
    assert len(caught.value.report.rolled_back) == 2
    assert onnx.load(tmp_path / "out" / "model.onnx").graph.node == decoder().graph.node


def _text(batch=1, past=3, rows=2):
    """Inputs of `grouped`."""
    caches = {name: np.zeros((batch, 1, past, 16), np.float32) for name in ("pk", "pv")}
    return {"ids": np.ones((batch, rows), np.int64), "mask": np.ones((batch, past + rows), np.int64), **caches}


REFUSED_MODELS = {
    "no decoder": (lambda: onnx.load("notebooks/models/tiny_distilbert.onnx"), "no output is an input with new rows"),
    "cross-attention": (with_encoder_caches, "cross-attention reads input 'past_key_values.0.encoder.key'"),
    "dtypes": (with_cast_pasts, "'past_key_values.1.key' is float16, but 'present.1.key' with its new rows is float32"),
}


@pytest.mark.parametrize("what", REFUSED_MODELS)
def test_the_command_refuses_models(what, tmp_path):
    """One sentence on the problem, and nothing is written."""
    made, why = REFUSED_MODELS[what]
    onnx.save(made(), tmp_path / "in.onnx")
    ran = run("decoder", tmp_path / "in.onnx", tmp_path / "out", "--context", 64, "--eos", 3)
    assert why in one_sentence(ran, 2)
    assert files_in(tmp_path) == {"in.onnx"}


EMPTY = "Give at least one sequence with one token."
REFUSED_INPUTS = {
    "no sequence": (_text(batch=0, rows=1), f"Input 'ids' in {{}} has 0 sequences of 1 token. {EMPTY}"),
    "no token": (_text(rows=0), f"Input 'ids' in {{}} has 1 sequence of 0 tokens. {EMPTY}"),
    "padding": (
        _text() | {"mask": np.array([[1, 0, 1, 1, 1]])},
        "Input 'mask' in {} violates the assumption 'mask: no padding', because mask[0, 1] is 0. "
        "Give other inputs, or remove the assumption.",
    ),
}


@pytest.mark.parametrize("use", [("--check", "both"), ("--weights", "int4")], ids=lambda use: use[0])
@pytest.mark.parametrize("what", REFUSED_INPUTS)
def test_the_command_refuses_inputs(what, use, tmp_path):
    """GroupQueryAttention ends the process for a batch of 0, so nothing runs."""
    arrays, message = REFUSED_INPUTS[what]
    source, given = tmp_path / "in.onnx", tmp_path / "given.npz"
    onnx.save(grouped(), source)
    np.savez(given, **arrays)
    ran = run("decoder", source, tmp_path / "out", "--context", 64, "--eos", 3, "--inputs", given, *use)
    assert one_sentence(ran, 2) == f"Error: {message.format(given)}"
    assert files_in(tmp_path) == {"in.onnx", "given.npz"}


def _with_small_heads(model):
    """Four heads of four numbers."""
    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 4:
            dims[1].dim_value, dims[3].dim_value = 4, 4
    (heads,) = (node for node in model.graph.node if node.output[0] == "heads")
    heads.attribute[0].ints[2:] = [4, 4]


def _with_a_key_for_none(model):
    """Token 5 is hidden from all tokens."""
    (at,) = (n for n, node in enumerate(model.graph.node) if node.output[0] == "hidden")
    model.graph.node[at].input[0] = "never"
    made = onnx.helper.make_node
    model.graph.node.insert(at, made("Or", ["later", "fifth"], ["never"]))
    model.graph.node.insert(at, made("Equal", ["keys", "five"], ["fifth"]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(5), "five"))


UNFUSED = {
    "head size": (_with_small_heads, "GroupQueryAttention needs a head size that is a multiple of 8, but it is 4"),
    "mask": (_with_a_key_for_none, "the mask hides more than later keys and those before a window"),
}


@pytest.mark.parametrize("what", UNFUSED)
def test_buffers_are_separate_for_a_reason(what, tmp_path):
    """The folder is written, and the screen has the reason."""
    change, why = UNFUSED[what]
    model, source, folder = decoder(), tmp_path / "in.onnx", tmp_path / "out"
    change(model)
    onnx.save(model, source)
    ran = run("decoder", source, folder, "--context", 64, "--eos", 3, "--check", "none")
    assert ran.exit_code == 0, ran.output
    screen = " ".join(ran.output.split())
    assert f"note attention is not fused with its cache: {why}" in screen
    assert "pasts and presents have separate buffers" in screen
    assert not config_of(folder)["search"]["past_present_share_buffer"]


def test_the_command(tmp_path):
    """Data files come along; the report has the configuration."""
    source, folder = tmp_path / "in.onnx", tmp_path / "out"
    onnx.save(decoder(), source, save_as_external_data=True, location="weights.data", size_threshold=0)
    ran = run("decoder", source, folder, "--context", 64, "--eos", 31, "--eos", 30, "--keep-graph", "--json")
    assert ran.exit_code == 0, ran.stderr
    found = result_in(ran.stdout)
    assert found["config"] == config_of(folder)
    assert found["config"]["model"]["eos_token_id"] == [31, 30]
    assert sorted(path.name for path in folder.iterdir()) == ["genai_config.json", "model.onnx", "weights.data"]
    again = run("decoder", source, folder, "--context", 64, "--eos", 31)
    assert "is not empty" in one_sentence(again, 2)


@pytest.mark.parametrize(("words", "shares"), [("right-padded", True), ("no padding", True), ("left-padded", False)])
def test_an_assumption_on_the_mask_stays_the_users(words, shares, tmp_path):
    """Padding on the left needs the mask, so attention keeps it, and pasts have buffers of their own."""
    options = surgeon.CheckOptions(assume={"attention_mask": words})
    report = surgeon.decoder(decoder(), tmp_path / "out", **FACTS, options=options, check=None if shares else "none")
    assert (report.outcome, report.shares_buffers) == ("proved" if shares else "unchecked", shares)
    held = {item.key: item.value for item in onnx.load(tmp_path / "out" / "model.onnx").metadata_props}
    assert held["surgeon.assume.attention_mask"] == words
