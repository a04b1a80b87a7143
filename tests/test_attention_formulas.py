"""The formulas of ONNX Runtime's attention and embedding operators against its kernels."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession

B, S, P, N, K, H = 2, 5, 3, 4, 2, 16
KINDS = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64}


def drawn(*sizes, seed=0):
    return np.random.default_rng([seed, *sizes]).standard_normal(sizes).astype(np.float32)


def node_of(op, inputs, outputs=1, **attributes):
    """A model of one node, whose inputs are arrays by name or None, and the arrays that there are."""
    given = {name: array for name, array in inputs.items() if array is not None}
    names = [name if array is not None else "" for name, array in inputs.items()]
    made = [f"y{place}" for place in range(outputs)]
    values = [helper.make_tensor_value_info(name, KINDS[str(one.dtype)], one.shape) for name, one in given.items()]
    node = helper.make_node(op, names, made, domain="com.microsoft", **attributes)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made]
    if op == "EmbedLayerNormalization" and outputs > 1:
        ends[1] = helper.make_tensor_value_info(made[1], TensorProto.INT32, None)
    graph = helper.make_graph([node], "g", values, ends)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), given


def in_double(model):
    """The same in float64."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value in (*made.graph.input, *made.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return made


def rows(heads=N, number=S, seed=1):
    return drawn(B, number, heads * H, seed=seed)


MASK = np.where(np.random.default_rng(0).random((B, 1, S, S)) < 0.3, -10000.0, 0.5).astype(np.float32)
KEPT = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 1, 1]], np.int32)
SEEN = {"attention_bias": MASK}
PAST = {"past_key": drawn(B, N, P, H, seed=7), "past_value": drawn(B, N, P, H, seed=8)}
MHA = ("query", "key", "value", "bias", "key_padding_mask", "attention_bias", "past_key", "past_value")
GQA = ("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache")
GQA = (*GQA, "sin_cache", "position_ids", "attention_bias", "head_sink", "more")


def mha(outputs=1, attributes=None, **given):
    inputs = {"query": rows(), "key": rows(seed=2), "value": rows(seed=3), **given}
    last = max(MHA.index(name) for name in inputs)
    return node_of("MultiHeadAttention", {name: inputs.get(name) for name in MHA[: last + 1]}, outputs,
                   **{"num_heads": N, **(attributes or {})})


def gqa(attributes=None, count=S, most=None, **given):
    """count: the keys of each sequence, or of all."""
    inputs = {"query": rows(), "key": rows(K, seed=2), "value": rows(K, seed=3), **given}
    inputs["seqlens_k"] = np.full(inputs["query"].shape[0], 0, np.int32) + np.array(count, np.int32) - 1
    inputs["total_sequence_length"] = np.array(most or np.max(count), np.int32)
    last = max(GQA.index(name) for name in inputs)
    return node_of("GroupQueryAttention", {name: inputs.get(name) for name in GQA[: last + 1]}, 3,
                   **{"num_heads": N, "kv_num_heads": K, **(attributes or {})})


STEP = {"query": rows()[:1], "key": rows(K, seed=2)[:1], "value": rows(K, seed=3)[:1],
        "past_key": drawn(1, K, P, H, seed=7), "past_value": drawn(1, K, P, H, seed=8)}
ATTENTION = {"x": drawn(B, S, 6), "weights": drawn(6, 3 * N * H, seed=4)}
ANGLES = {"cos": np.cos(drawn(9, H // 2, seed=5)), "sin": np.sin(drawn(9, H // 2, seed=5))}
HALF = {name: array[:, : H // 4].copy() for name, array in ANGLES.items()}
IDS = np.array([[0, 8, 3, 3, 1], [7, 2, 5, 6, 4]], np.int32)
START, PLACES = np.array([2], np.int64), np.array([[4, 2, 0, 1, 3], [0, 1, 2, 3, 8]], np.int64)
TURNS = {"cos_cache": ANGLES["cos"], "sin_cache": ANGLES["sin"]}
PACKED = drawn(B, S, (N + 2 * K) * H, seed=10)
BUFFER = {"query": rows(number=1), "key": rows(K, 1, seed=2), "value": rows(K, 1, seed=3),
          "past_key": drawn(B, K, 5, H, seed=7), "past_value": drawn(B, K, 5, H, seed=8)}

# fmt: off
CASES = {
    "mha": mha(),
    "mha, scaled and masked": mha(attributes={"scale": 0.4}, **SEEN),
    "mha, a mask of each head": mha(attention_bias=np.broadcast_to(MASK, (B, N, S, S)).copy()),
    "mha, a mask of keys": mha(key_padding_mask=KEPT),
    "mha, both masks": mha(key_padding_mask=KEPT, **SEEN),
    "mha, counts of keys": mha(key_padding_mask=np.array([5, 3], np.int32)),
    "mha, causal": mha(attributes={"unidirectional": 1}),
    "mha, biased": mha(bias=drawn(3 * N * H, seed=9)),
    "mha, keys that are heads": mha(key=drawn(B, N, 6, H, seed=2), value=drawn(B, N, 6, H, seed=3)),
    "mha, other rows of keys and wider values": mha(key=rows(number=7, seed=2), value=drawn(B, 7, N * 6, seed=3)),
    "mha, behind a past": mha(3, **PAST),
    "mha, behind a past and causal": mha(3, {"unidirectional": 1}, **PAST),
    "gqa": gqa(),
    "gqa, nothing hidden": gqa({"causal": 0}),
    "gqa, masked": gqa({"causal": 0, "scale": 0.3}, attention_bias=MASK),
    "gqa, capped": gqa({"softcap": 3.0}),
    "gqa, a window": gqa({"local_window_size": 2}),
    "gqa, sinks": gqa(head_sink=drawn(N, seed=6)),
    "gqa, a smooth softmax": gqa({"smooth_softmax": 1}),
    "gqa, behind a past": gqa(count=S + P, **STEP),
    "gqa, packed": gqa(query=PACKED, key=None, value=None),
    "gqa, rotated": gqa({"do_rotary": 1}, **TURNS),
    "gqa, rotated, interleaved": gqa({"do_rotary": 1, "rotary_interleaved": 1}, **TURNS),
    "gqa, rotated, packed": gqa({"do_rotary": 1}, query=PACKED, key=None, value=None, **TURNS),
    "gqa, a part of each head rotated": gqa(
        {"do_rotary": 1}, query=rows(2 * N), key=rows(2 * K, seed=2), value=rows(2 * K, seed=3), **TURNS),
    "gqa, a prompt rotated from a position on": gqa(
        {"do_rotary": 1}, position_ids=np.tile(np.arange(3, 3 + S), (B, 1)), **TURNS),
    "gqa, a prompt rotated by positions of all kinds": gqa({"do_rotary": 1}, position_ids=PLACES, **TURNS),
    "gqa, one row rotated by positions": gqa(
        {"do_rotary": 1}, [4, 6], position_ids=np.array([[7], [2]]), **BUFFER, **TURNS),
    "gqa, rows behind a past rotated by positions": gqa(
        {"do_rotary": 1}, S + P, position_ids=PLACES[:1], **STEP, **TURNS),
    "gqa, prompts of their own lengths": gqa({"do_rotary": 1}, [3, 5], **TURNS),
    "gqa, prompts that all have padding": gqa({"do_rotary": 1, "rotary_interleaved": 1}, [2, 4], S, **TURNS),
    "gqa, rotated behind a past": gqa({"do_rotary": 1}, S + P, **STEP, **TURNS),
    "gqa, rotated, one row behind pasts of their own": gqa({"do_rotary": 1}, [4, 6], **BUFFER, **TURNS),
    "gqa, one row behind pasts of their own, a window": gqa({"local_window_size": 3}, [4, 6], **BUFFER),
    "gqa, one row behind pasts of their own, capped and masked": gqa(
        {"softcap": 2.0}, [4, 6], attention_bias=MASK[:, :, :1, :1] + drawn(B, N, 1, 6, seed=11), **BUFFER),
    "gqa, one row in a larger buffer": gqa({"do_rotary": 1}, [3, 2], **BUFFER, **TURNS),
    "gqa, a prompt with a buffer": gqa({"do_rotary": 1}, past_key=drawn(B, K, 7, H, seed=7),
                                       past_value=drawn(B, K, 7, H, seed=8), **TURNS),
    "gqa, rotated, a window and sinks": gqa(
        {"do_rotary": 1, "local_window_size": 2, "rotary_interleaved": 1}, head_sink=drawn(N, seed=6), **TURNS),
    "gqa, rotated, capped, a smooth softmax": gqa({"do_rotary": 1, "softcap": 3.0, "smooth_softmax": 1}, **TURNS),
    "attention": node_of("Attention", ATTENTION, num_heads=N),
    "attention, biased and causal": node_of(
        "Attention", {**ATTENTION, "bias": drawn(3 * N * H, seed=9)}, num_heads=N, unidirectional=1),
    "attention, masked": node_of(
        "Attention", {**ATTENTION, "bias": None, "mask": KEPT, "past": None, "more": MASK}, num_heads=N, scale=0.2),
    "attention, behind a past": node_of(
        "Attention", {**ATTENTION, "bias": drawn(3 * N * H, seed=9), "mask": None, "past": drawn(2, B, N, P, H)}, 2,
        num_heads=N),
    "attention, values of another size": node_of(
        "Attention", {"x": drawn(B, S, 6), "weights": drawn(6, 2 * N * H + 24), "bias": drawn(2 * N * H + 24)},
        num_heads=N, qkv_hidden_sizes=[N * H, N * H, 24]),
    "embeddings": node_of(
        "EmbedLayerNormalization",
        {"ids": IDS, "types": IDS % 2, "words": drawn(9, 6), "places": drawn(7, 6), "kinds": drawn(2, 6),
         "gamma": drawn(6), "beta": drawn(6, seed=1), "mask": None, "at": IDS[:, ::-1].copy() % 7}, 3,
        mask_index_type=0, epsilon=1e-5),
    "embeddings without types": node_of(
        "EmbedLayerNormalization",
        {"ids": IDS, "types": None, "words": drawn(9, 6), "places": drawn(7, 6), "kinds": None, "gamma": drawn(6),
         "beta": drawn(6, seed=1)}, mask_index_type=0),
    "rotary, from a place on": node_of("RotaryEmbedding", {"x": rows(), "at": START, **ANGLES}),
    "rotary, places of each": node_of("RotaryEmbedding", {"x": rows(), "at": PLACES, **ANGLES}),
    "rotary, interleaved": node_of("RotaryEmbedding", {"x": rows(), "at": PLACES, **ANGLES}, interleaved=1),
    "rotary, heads": node_of("RotaryEmbedding", {"x": drawn(B, N, S, H), "at": PLACES, **ANGLES}),
    "rotary, a part of each head": node_of(
        "RotaryEmbedding", {"x": rows(), "at": PLACES, **HALF}, num_heads=N, rotary_embedding_dim=H // 2),
}
REFUSED = {
    "quantised keys": gqa(more=drawn(1)),
    "padding row whose window is empty": gqa({"local_window_size": 2}, [2, 4], S),
    "a bias of heads": mha(bias=drawn(3 * N * H), key=drawn(B, N, 6, H, seed=2), value=drawn(B, N, 6, H, seed=3)),
}
# fmt: on


@pytest.mark.parametrize("name", CASES)
def test_a_formula_is_what_the_kernel_computes(name):
    model, feeds = CASES[name]
    with OrtSession(model) as session, EvaluatorSession(in_double(model)) as evaluator:
        wanted = session.run(feeds)
        doubles = {key: one.astype(np.float64) if one.dtype == np.float32 else one for key, one in feeds.items()}
        found = evaluator.run(doubles)
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        assert found[key].dtype == (np.float64 if array.dtype == np.float32 else array.dtype)
        assert found[key].shape == array.shape
        np.testing.assert_allclose(found[key], array, atol=2e-5 * np.abs(array).max())


@pytest.mark.parametrize("together", [("key", "value"), ("query", "key", "value")])
def test_parts_that_are_packed_are_those_apart(together):
    """ONNX Runtime's kernels for a CPU take none."""
    parts = {name: drawn(B, S, N, H, seed=place) for place, name in enumerate(("query", "key", "value"))}
    apart = {name: part.reshape(B, S, N * H) for name, part in parts.items()}
    packed = {**apart, **dict.fromkeys(together), together[0]: np.stack([parts[name] for name in together], axis=3)}
    answers = []
    for model, feeds in (mha(**apart), mha(**packed)):
        with EvaluatorSession(model) as evaluator:
            answers.append(evaluator.run(feeds)["y0"])
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_formula_is_not_computed(name):
    """What no rule writes."""
    model, feeds = REFUSED[name]
    with EvaluatorSession(model) as evaluator, pytest.raises(SessionError, match="no formula for"):
        evaluator.run(feeds)
