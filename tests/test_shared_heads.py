"""Attention whose heads share keys and values: surgeon's evaluator beside ONNX Runtime, whatever onnx is installed."""

import numpy as np
import pytest

from tests.single_ops import by_formula, by_runtime, require_same

RANDOM = np.random.default_rng(0)


def parts(*shape):
    return RANDOM.normal(0, 1, shape).astype(np.float32)


MASKED = {"m": parts(2, 1, 3, 5)}
PAST = {"m": None, "past_key": parts(2, 2, 4, 8), "past_value": parts(2, 2, 4, 6)}
FOUR = {"q": parts(2, 6, 3, 8), "k": parts(2, 2, 5, 8), "v": parts(2, 2, 5, 6)}
THREE = {"q": parts(2, 3, 48), "k": parts(2, 5, 16), "v": parts(2, 5, 12)}
HEADS = {"q_num_heads": 6, "kv_num_heads": 2}


@pytest.mark.parametrize(
    ("feeds", "attributes"),
    [
        (FOUR, {}),
        (FOUR | MASKED, {"scale": 0.5}),
        (FOUR | PAST, {"outputs": 3}),
        (THREE, HEADS),
        (THREE | MASKED, HEADS),
        (THREE | PAST, HEADS | {"outputs": 3}),
    ],
    ids=["four axes", "a mask", "a past", "three axes", "three and a mask", "three and a past"],
)
def test_a_group_of_heads_reads_one_head_of_keys(feeds, attributes):
    """Six heads over two: the first three read the first one."""
    found, wanted = (by("Attention", feeds, opset=23, **attributes) for by in (by_formula, by_runtime))
    require_same(found, wanted, 1e-4, 1e-5)
