"""What a graph says about itself as a decoder: found in its nodes, whatever the names are."""

import numpy as np
import onnx
import pytest

from surgeon.analysis.decoder_graph import Decoder, KVCache, decoder_of
from surgeon.errors import Unavailable
from surgeon.ir.index import Index
from tests.decoders.models import decoder, grouped, with_cast_pasts, with_encoder_caches

ODD = {
    "ids": "a",
    "mask": "b",
    "positions": "c",
    "logits": "d",
    "key": "second%d",
    "value": "first%d",
    "new_key": "out%d_1",
    "new_value": "out%d_0",
}
KEY = "past_key_values.0.key"


def found(model):
    return decoder_of(Index.over(model))


def test_caches_are_found_by_their_nodes():
    """Names say nothing here, and the inputs are not in the order of the layers."""
    made = found(decoder(order=(1, 0), **ODD))
    caches = [
        KVCache(f"second{n}", f"first{n}", f"out{n}_1", f"out{n}_0", 2, 8, onnx.TensorProto.FLOAT, "Concat")
        for n in range(2)
    ]
    assert made == Decoder("a", "b", "c", "d", tuple(caches), 32, 16, query_heads=2, position_rows=64)


def test_an_attention_that_appends():
    """GroupQueryAttention reads a past and makes a present; the mask is only counted there."""
    made = found(grouped())
    cache = KVCache("pk", "pv", "nk", "nv", 1, 16, onnx.TensorProto.FLOAT, "com.microsoft::GroupQueryAttention")
    assert made == Decoder("ids", "mask", None, "scores", (cache,), 13, 64, query_heads=4, position_rows=None)


def test_sizes_that_are_written_as_names():
    """An exporter writes ["batch", "2", "past", "8"]."""
    model = decoder()
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                dim.dim_param = str(dim.dim_value)
    assert found(model) == found(decoder())


@pytest.mark.parametrize(
    ("dims", "use"),
    [(["more", "others"], "positions"), (["batch", "rows"], "positions"), (["batch", "columns"], "mask")],
)
def test_an_input_that_nothing_reads(dims, use):
    """It is what the others are not: ALiBi needs no positions, for example."""
    model, gone = decoder(), {"positions": "position_ids", "mask": "attention_mask"}[use]
    for node in model.graph.node:
        node.input[:] = ["fixed" if name == gone else name for name in node.input]
    (port,) = (value for value in model.graph.input if value.name == gone)
    model.graph.input.remove(port)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1, 1), np.int64), "fixed"))
    model.graph.input.append(onnx.helper.make_tensor_value_info("spare", onnx.TensorProto.INT64, dims))
    made = found(model)
    assert (getattr(made, use), made.ids) == ("spare", "input_ids")
    assert {made.mask, made.positions} - {"spare"} == {"position_ids", "attention_mask"} - {gone}


@pytest.mark.parametrize("inputs", [[KEY], ["none", KEY]], ids=len)
def test_a_concat_with_nothing_before_the_past(inputs):
    """TorchScript writes a Concat of one tensor, since a cache of transformers begins as an empty tensor."""
    model = decoder()
    for place, node in enumerate(model.graph.node):
        if node.output[0] == "present.0.key":
            node.input[0] = "begun"
            model.graph.node.insert(place, onnx.helper.make_node("Concat", inputs, ["begun"], axis=2))
            break
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1, 2, 0, 8), np.float32), "none"))
    assert found(model) == found(decoder())


def test_sizes_of_what_a_gate_scales():
    """A mixture of experts scales by the result of a softmax; the next queries get sizes from there, and no numbers."""
    model = decoder()
    made = onnx.helper.make_node
    nodes = [
        made("Softmax", ["x1"], ["gate"]),
        made("Mul", ["x1", "gate"], ["gated"]),
        made("Shape", ["gated"], ["ends"], end=2),
        made("Concat", ["ends", "split"], ["heads1"], axis=0),
    ]
    (at,) = (n for n, node in enumerate(model.graph.node) if node.output[0] == "qh1")
    model.graph.node[at].input[1] = "heads1"
    for node in reversed(nodes):
        model.graph.node.insert(at, node)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 8]), "split"))
    assert found(model) == found(decoder())


def _with_fixed_rows(model):
    model.graph.input[3].type.tensor_type.shape.dim[2].dim_value = 9


def _with_rows_first(model):
    for node in model.graph.node:
        if node.op_type == "Concat":
            node.attribute[0].i = 1


def _with_encoder(model):
    states = onnx.helper.make_tensor_value_info("encoder_hidden_states", onnx.TensorProto.FLOAT, ["b", "n", 16])
    model.graph.input.append(states)


def _with_a_mask_of_numbers(model):
    """It has four axes, as keys have."""
    bias = onnx.helper.make_tensor_value_info("bias", onnx.TensorProto.FLOAT, ["batch", 1, "rows", "total"])
    model.graph.input.append(bias)
    (at,) = (n for n, node in enumerate(model.graph.node) if node.output[0] == "shown0")
    model.graph.node[at].input[2] = "biased"
    model.graph.node.insert(at, onnx.helper.make_node("Add", ["scores0", "bias"], ["biased"]))


def _with_two_scores(model):
    model.graph.node.append(onnx.helper.make_node("Neg", ["logits"], ["others"]))
    value = onnx.helper.make_tensor_value_info("others", onnx.TensorProto.FLOAT, ["batch", "rows", 32])
    model.graph.output.append(value)


def _without_scores(model):
    del model.graph.output[0]


def _without_caches(model):
    del model.graph.output[1:]


def _without_a_value(model):
    del model.graph.output[2]


def _with_types(model):
    """A third input of table rows; all tables have as many rows as there are tokens."""
    model.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.zeros((32, 16), np.float32), "wpe"))
    model.graph.input.append(onnx.helper.make_tensor_value_info("types", onnx.TensorProto.INT64, ["batch", "rows"]))
    model.graph.node.insert(0, onnx.helper.make_node("Gather", ["wte", "types"], ["typed"]))


REASONS = {
    _with_fixed_rows: "cache 'past_key_values.0.key' has a fixed number of rows, 9",
    _with_rows_first: "cache 'past_key_values.0.key' grows along axis 1, "
    "but [batch, heads, rows, size] grows along axis 2",
    _with_encoder: "input 'encoder_hidden_states' holds numbers such as the states of an encoder for cross-attention, "
    "rather than token ids, a mask, positions or a cache with new rows",
    _with_a_mask_of_numbers: "input 'bias' holds numbers such as the states of an encoder for cross-attention, "
    "rather than token ids, a mask, positions or a cache with new rows",
    _with_two_scores: "several outputs may be scores of tokens: logits, others",
    _without_scores: "no output has scores of tokens [batch, rows, vocabulary]",
    _without_caches: "no output is an input with new rows appended",
    _without_a_value: "the graph has 2 caches of keys, but 1 of values",
    _with_types: "it is not clear which input holds token ids: input_ids, position_ids, types",
}


@pytest.mark.parametrize("change", REASONS, ids=lambda change: change.__name__)
def test_reasons(change):
    """A graph that is no such decoder gets one clause."""
    model = decoder()
    change(model)
    assert found(model) == Unavailable(REASONS[change])


def test_keys_and_values_of_an_encoder():
    """They are read and returned as they are, so nothing appends the keys of new tokens."""
    reason = "cross-attention reads input 'past_key_values.0.encoder.key', to which no node appends new rows"
    assert found(with_encoder_caches()) == Unavailable(reason)


def test_pasts_in_another_dtype_than_presents():
    """The next step could not read them."""
    reason = "cache 'past_key_values.1.key' is float16, but 'present.1.key' with its new rows is float32"
    assert found(with_cast_pasts()) == Unavailable(reason)
