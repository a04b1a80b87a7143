"""Scores of the last token only: which row it is, where it is chosen, and what is refused."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon.edits import LastLogits
from surgeon.errors import UsageError
from tests.command_line import one_sentence, run
from tests.decoders.models import decoder, grouped


def behind_the_product(*nodes, **stored):
    """The decoder with more nodes between its product and its output; the first reads `product`, the last is `logits`.
    """
    model = decoder()
    model.graph.node[-1].output[0] = "product"
    model.graph.node.extend(nodes)
    for name, values in stored.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(values, np.float32), name))
    return model


def softcapped():
    """In half precision in between, with a bias and a factor."""
    return behind_the_product(
        helper.make_node("Add", ["bias", "product"], ["a"]),
        helper.make_node("Div", ["a", "cap"], ["b"]),
        helper.make_node("Tanh", ["b"], ["c"]),
        helper.make_node("Cast", ["c"], ["d"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("Cast", ["d"], ["e"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["e", "cap"], ["logits"]),
        bias=np.arange(32).reshape(1, 1, 32) / 32,
        cap=30.0,
    )


def with_mask_of(dtype):
    model = decoder()
    model.graph.input[1].type.tensor_type.elem_type = dtype
    return model


def without_mask():
    """The mask has only ones, as many as there are tokens."""
    model = decoder()
    del model.graph.input[1]
    ones = helper.make_tensor("", onnx.TensorProto.INT64, [1], [1])
    model.graph.node.insert(0, helper.make_node("ConstantOfShape", ["sizes"], ["attention_mask"], value=ones))
    model.graph.node.insert(0, helper.make_node("Concat", ["batch_size", "total_size"], ["sizes"], axis=0))
    model.graph.node.insert(0, helper.make_node("Add", ["past_size", "new_size"], ["total_size"]))
    cuts = {"batch_size": ("input_ids", 0), "new_size": ("input_ids", 1), "past_size": ("past_key_values.0.key", 2)}
    for name, (source, axis) in cuts.items():
        model.graph.node.insert(0, helper.make_node("Shape", [source], [name], start=axis, end=axis + 1))
    return model


MODELS = {
    "plain": decoder,
    "softcap": softcapped,
    "bool mask": lambda: with_mask_of(onnx.TensorProto.BOOL),
    "GroupQueryAttention": grouped,
    "no mask": without_mask,
}


@pytest.mark.parametrize("what", MODELS)
def test_decoding_is_equal(what):
    """The proof of the edit runs all outputs; decoding compares padded batches, and steps."""
    model = MODELS[what]()
    made, report = surgeon.edit(model, LastLogits())
    assert report.outcome == "proved"
    assert made.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 1
    onnx.checker.check_model(made, full_check=True)
    if what != "no mask":
        assert surgeon.compare(model, made, decode=True).proved
    assert surgeon.edit(made, LastLogits())[1].outcome == "unchanged"


def test_the_row():
    """The last one that the mask counts; in a step of a padded batch, it is the only one."""
    made = surgeon.edit(decoder(), LastLogits(), check="none")[0].SerializeToString()
    sessions = [onnxruntime.InferenceSession(model) for model in (decoder().SerializeToString(), made)]

    def scores(mask, rows, past):
        rng = np.random.default_rng(0)
        batch = len(mask)
        feeds = {"input_ids": rng.integers(0, 32, (batch, rows)), "attention_mask": np.array(mask, np.int64)}
        feeds["position_ids"] = np.tile(np.arange(past, past + rows), (batch, 1))
        names = [one.name for one in sessions[0].get_inputs()[3:]]
        feeds |= {name: rng.normal(size=(batch, 2, past, 8)).astype(np.float32) for name in names}
        return (session.run(["logits"], feeds)[0] for session in sessions)

    every, last = scores([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 1, 1]], 5, 0)
    assert last.shape == (3, 1, 32)
    np.testing.assert_allclose(last[:, 0], every[range(3), [1, 4, 4]], rtol=1e-5)
    every, last = scores([[1, 1, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1]], 1, 5)
    np.testing.assert_allclose(last, every, rtol=1e-5)
    every, last = scores([[1, 0, 1, 1, 0], [1, 1, 1, 0, 0]], 3, 2)
    np.testing.assert_allclose(last[:, 0], every[range(2), [1, 0]], rtol=1e-5)


REFUSED = {
    "tokens are combined": [helper.make_node("Softmax", ["product"], ["logits"], axis=1)],
    "another shape": [helper.make_node("Reshape", ["product", "shape"], ["logits"])],
    "read twice": [helper.make_node("Sin", ["product"], ["a"]), helper.make_node("Mul", ["a", "product"], ["logits"])],
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    model = behind_the_product(*REFUSED[what])
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, -1, 32]), "shape"))
    with pytest.raises(UsageError, match="The rows of 'logits' cannot be chosen before their product: ") as caught:
        surgeon.edit(model, LastLogits())
    assert "\n" not in str(caught.value)


def test_no_decoder(tmp_path):
    ran = run("edit", "notebooks/models/tiny_distilbert.onnx", tmp_path / "out.onnx", "--last-logits")
    assert "The model is not a decoder with a cache" in one_sentence(ran, 2)
    assert not list(tmp_path.iterdir())
