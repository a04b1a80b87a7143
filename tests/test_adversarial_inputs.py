"""Adversarial inputs of proofs: masks, indices, integers and magnitudes."""

import numpy as np
import onnx
import pytest

from surgeon.runtime.inputs import float_fills as floats
from surgeon.runtime.inputs import role_fills as roles
from surgeon.runtime.inputs.input_generator import InputGenerator

SIZES = {"b": 4, "s": 6, "t": 6}
MASKED = """g (float[b, s, t] x, bool[b, s, t] keep, float[b, s, t] bias) => (float[b, s, t] y) <float low = {-1e9}> {
    w = Where(keep, x, low) z = Add(w, bias) y = Softmax<axis = -1>(z) }"""
LOWEST = float(np.finfo(np.float32).min)


def plan(body: str) -> InputGenerator:
    return InputGenerator(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {body}'), names=False)


def masked(seed: int, fill):
    return plan(MASKED).generate(seed, SIZES, dict.fromkeys(("keep", "bias"), fill))


@pytest.mark.parametrize("seed", range(4))
def test_holes_show_something_of_each_row(seed: int):
    keep = masked(seed, roles.mask("holes"))["keep"]
    assert keep.any(axis=-1).all()
    assert not keep.all()
    assert masked(seed, roles.mask("none"))["keep"].all()


@pytest.mark.parametrize("seed", range(8))
def test_gaps_show_the_first_of_each_row_and_one_of_two_neighbours(seed: int):
    keep = masked(seed, roles.mask("gaps"))["keep"]
    assert keep[..., 0].all()
    assert (keep[..., 1:] | keep[..., :-1]).all()
    assert not keep.all()


@pytest.mark.parametrize("seed", range(3))
def test_of_some_rows_all_is_hidden_whichever_value_hides(seed: int):
    zeros, ones = (masked(seed, roles.mask(form))["keep"] for form in ("a row", "some"))
    assert (~zeros).all(axis=-1).any()
    assert ones.all(axis=-1).any()


def test_all_may_be_hidden():
    made = masked(0, roles.mask("all"))
    assert not made["keep"].any()
    assert (made["bias"] == np.float32(LOWEST)).all()


@pytest.mark.parametrize(("by", "low"), zip(roles.HIDING, (LOWEST, -np.inf, -1e4), strict=True))
@pytest.mark.parametrize("beside", [False, True])
def test_floats_that_are_added_to_scores_hide_too(by, low: float, beside: bool):
    bias = masked(0, roles.mask("a row", by=by, beside=beside))["bias"]
    hidden = bias == np.float32(low)
    assert hidden.all(axis=-1).any()
    assert (~hidden).any()
    assert bool((bias[~hidden] == 0).all()) != beside


def test_other_floats_do_not():
    made = plan("g (float[b, s] x) => (float[b, s] y) { y = Neg(x) }")
    assert not any(want.is_mask for want in made.wants)


def test_indices_reach_both_ends_and_count_from_the_end():
    made = plan("g (int64[b, s] ids, float[9, 2] table) => (float[b, s, 2] y) { y = Gather(table, ids) }")
    usual, backwards = (made.generate(0, SIZES, {"ids": fill})["ids"] for fill in (roles.USUAL, roles.BACKWARDS))
    assert (usual.min(), usual.max()) == (0, 8)
    assert backwards.min() == -9
    assert backwards.max() < 9


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_integers_come_near_their_limits(dtype: str):
    made = plan(f"g ({dtype}[b, s] a, {dtype}[b, s] c) => ({dtype}[b, s] y) {{ y = Add(a, c) }}")
    found = made.generate(0, SIZES, {"a": roles.integers_of_every_length(can_sum=False)})["a"]
    limits = np.iinfo(dtype)
    assert int(found.max()) == limits.max
    if limits.min:
        assert int(found.min()) == limits.min


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
def test_magnitudes_are_all_there(dtype: str):
    negated = plan(f"g ({dtype}[b, s] x) => ({dtype}[b, s] y) {{ y = Neg(x) }}")
    made = negated.generate(0, {"b": 3, "s": 4}, {"x": floats.magnitudes(1.0, 0)})
    powers = np.log2(np.abs(made["x"].astype(np.float64))).ravel()
    assert np.isfinite(powers).all()
    steps = np.diff(np.sort(powers))
    assert steps.max() < 2.2 * (powers.max() - powers.min()) / (powers.size - 1)


def test_patterns_are_zeros_and_ones_with_a_row_of_zeros():
    negated = plan("g (float[b, s] x) => (float[b, s] y) { y = Neg(x) }")
    made = negated.generate(0, SIZES, {"x": floats.ZEROS_AND_ONES})["x"]
    assert set(made.ravel()) == {0.0, 1.0}
    assert not made[0].any()
