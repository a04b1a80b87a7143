"""GridSample's formula, beside ONNX Runtime's kernels and onnx's reference."""

from itertools import product

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import surgeon
from surgeon.runtime.kernels.vision.grid_sample import grid_sample
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from surgeon.testing import parse
from tests import sampling

OLD = {"linear": "bilinear", "cubic": "bicubic"}
OLD_NAMES = {old: new for new, old in OLD.items()}
MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
SAMPLE = [("bilinear", "zeros"), ("nearest", "reflection"), ("bicubic", "border")]
"""Each mode and each padding once, and the pair in which kernels differ."""
SHAPES = ((2, 3, 5, 4), (1, 2, 2, 3), (2, 1, 3, 4, 2))


def model(mode, padding, aligned, rank, opset):
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding, align_corners=aligned)
    ports = [helper.make_tensor_value_info(name, 1, [None] * rank) for name in "xgy"]
    made = helper.make_model(helper.make_graph([node], "g", ports[:2], ports[2:]),
                             opset_imports=[helper.make_opsetid("", opset)])  # fmt: skip
    made.ir_version = 8
    return made


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("aligned", [0, 1])
def test_it_is_what_both_others_compute(shape, aligned):
    """Far beyond the edges too; a picture by its names of opset 16."""
    random, rank = np.random.default_rng(0), len(shape)
    x = random.normal(size=shape).astype(np.float32)
    grid = random.uniform(-3, 3, (shape[0], *[3] * (rank - 2), rank - 2)).astype(np.float32)
    for mode, padding in product(("nearest", "linear", "cubic"), ("zeros", "border", "reflection")):
        made = grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=aligned)
        assert made.dtype == np.float32
        if (mode, padding) != ("cubic", "border"):
            wanted = ReferenceEvaluator(model(mode, padding, aligned, rank, 20)).run(None, {"x": x, "g": grid})[0]
            np.testing.assert_allclose(made, wanted, atol=1e-4, err_msg=f"{mode} {padding}")
        if rank == 4:
            old = model(OLD.get(mode, mode), padding, aligned, rank, 16)
            (wanted,) = ort.InferenceSession(old.SerializeToString()).run(None, {"x": x, "g": grid})
            np.testing.assert_allclose(made, wanted, atol=1e-4, err_msg=f"{mode} {padding}")
            with EvaluatorSession(old) as evaluator:
                np.testing.assert_array_equal(evaluator.run({"x": x, "g": grid})["y"], made)


def sampled(x, grid, mode, padding, aligned=False):
    import torch

    arrays = torch.from_numpy(np.array(x)), torch.from_numpy(np.array(grid))
    return torch.nn.functional.grid_sample(*arrays, mode, padding, align_corners=aligned).numpy()


@pytest.mark.usefixtures("forget_implementations")
@pytest.mark.parametrize(("mode", "padding"), sampling.chosen(lambda: SAMPLE, lambda: [*product(MODES, PADDINGS)]))
def test_a_placeholder_of_torch_is_proved_where_kernels_agree(mode, padding):
    """Both turn NaN, infinity and far positions into some pixel or other, and multiply pixels at the edge by zero."""

    def found(g, x, grid):
        return g.op("mylib::grid_sample", x, grid)

    @surgeon.rule(patterns=[found], target="any")
    def standard(g, x, grid):
        return g.grid_sample(x, grid, mode=OLD_NAMES.get(mode, mode), padding_mode=padding, align_corners=0)

    text = """<ir_version: 9, opset_import: ["": 20, "mylib": 1]> g
    (float[n, 3, 6, 7] x, float[n, 4, 5, 2] p) => (float[n, 3, 4, 5] y) { y = mylib.grid_sample(x, p) }"""
    surgeon.implements("mylib::grid_sample")(lambda x, grid: sampled(x, grid, mode, padding))
    _, report = surgeon.rewrite(parse(text), standard, keep_going=True)
    if (mode, padding) == ("nearest", "reflection"):  # which way a position halfway between two pixels goes
        assert "by ties" in report.rolled_back[0].reason
        return
    assert report.outcome == "proved", [site.reason for site in report.rolled_back]
    surgeon.implements("mylib::grid_sample")(lambda x, grid: sampled(x, grid, mode, padding, aligned=True))
    assert surgeon.rewrite(parse(text), standard, keep_going=True)[1].outcome == "failed"
    surgeon.implements("mylib::grid_sample")(lambda x, grid: np.nan_to_num(sampled(x, grid, mode, padding)))
    (site,) = surgeon.rewrite(parse(text), standard, keep_going=True)[1].rolled_back
    assert "= nan gives y" in site.reason


def test_one_point_and_none():
    x, grid = np.ones((1, 1, 1, 1), np.float32), np.full((1, 2, 2, 2), 9, np.float32)
    assert (grid_sample(x, grid, padding_mode="reflection", align_corners=1) == 1).all()
    assert (grid_sample(x, grid) == 0).all()
    assert grid_sample(x[:0], grid[:0]).shape == (0, 1, 2, 2)


def test_a_conversion_of_it_is_proved():
    """No stretch is left unproved, as onnx's reference does not know the modes of opset 16."""
    text = """<ir_version: 8, opset_import: ["" : 16]> g
    (float[1, 2, 6, 6] x, float[1, 4, 4, 2] p) => (float[1, 2, 4, 4] y)
    <float k = {0.5}> { t = Tanh(p) s = GridSample<mode = "bilinear">(x, t) y = Mul(s, k) }"""
    _, report = surgeon.convert(parse(text))
    assert report.outcome == "proved"
    assert not [stretch for stretch in report.stretches if stretch.outcome == "unproved"]
