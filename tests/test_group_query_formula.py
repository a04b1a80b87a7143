"""The formula of GroupQueryAttention against ONNX Runtime's kernel: all forms of the operator, all kinds of lengths.

A batch of 0 ends the process of ONNX Runtime 1.32: no test runs the kernel with it.
"""

import numpy as np
import pytest

from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from tests.test_attention_formulas import drawn, in_double, node_of
from tests.versions import version_of

pytestmark = pytest.mark.skipif(
    version_of("onnxruntime") < (1, 32), reason="query_seqlens and checks of lengths are new in ONNX Runtime 1.32"
)

N, K, H = 4, 2, 16
NAMES = ("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache",
         "sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight",
         "k_norm_weight", "query_seqlens")  # fmt: skip


def grouped(totals, rows=1, past=None, most=None, heads=N, size=H, **given):
    """A node and its arrays.  totals: the keys of each sequence.  past: rows.  given: arrays by input, attributes."""
    batch, most = len(totals), most or max(totals)
    arrays = {"query": drawn(batch, rows, heads * size, seed=1), "key": drawn(batch, rows, K * size, seed=2),
              "value": drawn(batch, rows, K * size, seed=3), "seqlens_k": np.array(totals, np.int32) - 1,
              "total_sequence_length": np.array(most, np.int32)}  # fmt: skip
    if past is not None:
        arrays |= {name: drawn(batch, K, past, size, seed=4 + len(name)) for name in ("past_key", "past_value")}
    settings = {name: one for name, one in given.items() if name not in NAMES}
    arrays |= {name: one for name, one in given.items() if name in NAMES}
    last = max(NAMES.index(name) for name in arrays)
    inputs = {name: arrays.get(name) for name in NAMES[: last + 1]}
    return node_of("GroupQueryAttention", inputs, 3, num_heads=heads, kv_num_heads=K, **settings)


def angles(rows=16, half=H // 2):
    turned = drawn(rows, half, seed=5)
    return {"do_rotary": 1, "cos_cache": np.cos(turned), "sin_cache": np.sin(turned)}


LENGTHS = {
    "prompts of one length": {"totals": [5, 5], "rows": 5},
    "prompts of their own lengths": {"totals": [2, 5, 1], "rows": 5},
    "prompts that all have padding": {"totals": [3, 1], "rows": 4, "most": 4},
    "prompts with a buffer": {"totals": [4, 2], "rows": 4, "past": 9},
    "one row after a past": {"totals": [7, 7], "past": 6},
    "one row after pasts of their own lengths": {"totals": [7, 1, 4], "past": 6},
    "one row in a buffer": {"totals": [3, 8, 5], "past": 12},
    "rows after a past": {"totals": [9], "rows": 3, "past": 6},
    "rows in a buffer": {"totals": [7], "rows": 3, "past": 12},
    "rows of several sequences after pasts": {
        "totals": [9, 4, 3], "rows": 3, "past": 6, "query_seqlens": np.full(3, 3, np.int32)},
    "rows of several sequences in a buffer": {
        "totals": [5, 8], "rows": 3, "past": 12, "most": 12, "query_seqlens": np.full(2, 3, np.int32)},
}  # fmt: skip


def forms(totals, rows, most):
    """The inputs and attributes of each form, for a batch of such lengths."""
    batch = len(totals)
    places = {"position_ids": np.random.default_rng(0).integers(0, 16 - rows, (batch, rows))}
    packed = {"query": drawn(batch, rows, (N + 2 * K) * H, seed=6), "key": None, "value": None}
    bias = drawn(batch, N, rows, most, seed=7)
    wide = {"size": 2 * H}
    return {
        "plain": {},
        "not causal": {"causal": 0},
        "rotary": angles(),
        "rotary, interleaved": {"rotary_interleaved": 1, **angles()},
        "rotary, a part of each head": {**wide, **angles()},
        "rotary, a part of each head, interleaved": {**wide, "rotary_interleaved": 1, **angles()},
        "rotary at positions": {**places, **angles()},
        "rotary, packed": {**packed, **angles()},
        "packed": packed,
        "a window": {"local_window_size": 3},
        "a window of one key": {"local_window_size": 1},
        "a window, rotary and a bias": {"local_window_size": 2, "attention_bias": bias, **angles()},
        "a window, capped, with sinks": {"local_window_size": 3, "softcap": 2.0, "head_sink": drawn(N)},
        "capped": {"softcap": 2.0},
        "a smooth softmax": {"smooth_softmax": 1},
        "sinks": {"head_sink": drawn(N)},
        "sinks, capped": {"head_sink": drawn(N), "softcap": 2.0, "smooth_softmax": 1},
        "scaled": {"scale": 0.7},
        "a bias": {"attention_bias": bias},
        "a bias for all": {"attention_bias": bias[:1, :1], "softcap": 3.0},
        "heads without groups": {"heads": K},
        "all": {"local_window_size": 4, "softcap": 3.0, "head_sink": drawn(N), "scale": 0.3, "attention_bias": bias,
                "rotary_interleaved": 1, **packed, **angles()},
    }  # fmt: skip


def cases():
    for lengths, kept in LENGTHS.items():
        totals, rows = kept["totals"], kept.get("rows", 1)
        for form, given in forms(totals, rows, kept.get("most", max(totals))).items():
            if form != "not causal" or "query_seqlens" not in kept:
                yield f"{lengths}; {form}", grouped(**kept, **given)


def has_unspecified_rows(model, feeds):
    """Whether a padding row has a window that ends after the keys of its sequence."""
    window = next((one.i for one in model.graph.node[0].attribute if one.name == "local_window_size"), 0)
    rows, last = feeds["query"].shape[1], feeds["seqlens_k"].min()
    return window and rows == feeds["total_sequence_length"] and rows > max(last + 1, window)


CASES = dict(cases())
SPECIFIED = {title: case for title, case in CASES.items() if not has_unspecified_rows(*case)}
# ONNX Runtime refuses these too.
REFUSED = {
    "several rows of sequences after pasts": grouped([9, 9], rows=3, past=6),
    "no key": grouped([7, 0], past=6),
    "more keys than the longest": grouped([3, 14], past=12, most=13),
    "a past that is too short": grouped([9], past=6),
    "a longest sequence that is neither all rows nor in the buffer": grouped([4], past=6, most=9),
    "fewer keys than rows": grouped([2], rows=3, past=6),
    "a prompt whose past is shorter": grouped([5], rows=5, past=2),
    "heads of 12": grouped([5], rows=5, size=12),
    "rotated heads of 24": grouped([5], rows=5, size=24, **angles(half=8)),
    "four pairs of angles": grouped([5], rows=5, **angles(half=4)),
    "more angles than pairs": grouped([5], rows=5, **angles(half=16)),
    "fewer angles than keys": grouped([9], past=8, **angles(rows=8)),
    "a position without angles": grouped([9], past=8, position_ids=np.array([[16]]), **angles()),
    "a position below zero": grouped([9], past=8, position_ids=np.array([[-1]]), **angles()),
    "a prompt from a position on without angles": grouped(
        [5], rows=5, position_ids=np.arange(12, 17)[None], **angles()),
    "a bias of fewer keys": grouped([7], past=6, attention_bias=drawn(1, N, 1, 6)),
    "a bias of other heads": grouped([7], past=6, attention_bias=drawn(1, 3, 1, 7)),
    "a window that is not causal": grouped([7], past=6, causal=0, local_window_size=3),
    "new rows that are not causal": grouped([7], past=6, causal=0, query_seqlens=np.ones(1, np.int32)),
    "new rows without a past": grouped([5], rows=5, query_seqlens=np.full(1, 5, np.int32)),
    "weights of norms": grouped([7], past=6, q_norm_weight=drawn(H), k_norm_weight=drawn(H)),
    "no row": grouped([6], rows=0, past=6),
}  # fmt: skip
# ONNX Runtime computes something, which it does not specify or which has no formula.
UNKNOWN = {
    "a window without keys": grouped([5], rows=5, local_window_size=0),
    "padding behind new rows": grouped([9, 8], rows=3, past=6, query_seqlens=np.array([3, 2], np.int32)),
    "a buffer of a window": grouped([7], past=6, most=7, local_window_size=4, sliding_window_cache=1),
    **{title: case for title, case in CASES.items() if title not in SPECIFIED},
}


def computed(model, feeds):
    with OrtSession(model) as session:
        return session.run(feeds)


def evaluated(model, feeds):
    doubles = {name: one.astype(np.float64) if one.dtype == np.float32 else one for name, one in feeds.items()}
    with EvaluatorSession(in_double(model)) as evaluator:
        return evaluator.run(doubles)


@pytest.mark.parametrize("title", SPECIFIED)
def test_each_form_is_what_the_kernel_computes(title):
    wanted, found = computed(*SPECIFIED[title]), evaluated(*SPECIFIED[title])
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == np.float64
        np.testing.assert_allclose(found[name], array, atol=1e-5 * np.abs(array).max(), rtol=0)


@pytest.mark.parametrize("title", REFUSED)
def test_what_the_kernel_refuses_has_no_value(title):
    for run in (computed, evaluated):
        with pytest.raises(SessionError):
            run(*REFUSED[title])


@pytest.mark.parametrize("title", UNKNOWN)
def test_what_is_not_specified_has_no_value(title):
    with pytest.raises(SessionError, match="no formula for GroupQueryAttention with"):
        evaluated(*UNKNOWN[title])


def test_a_batch_of_no_sequence_has_no_value():
    with pytest.raises(SessionError, match="GroupQueryAttention does not take 0 sequences of 1 rows"):
        evaluated(*grouped([], past=6, most=7))
