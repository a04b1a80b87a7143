"""Sums and products of quantised tensors: what fires, on every pair that there is, and what does not match."""

import numpy as np
import onnxruntime as ort
import pytest
from surgeon.patterns.quantization.qlinear_arithmetic import qlinear_add, qlinear_mul

from surgeon import rewrite
from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

HEAD = "({d}[n, 4] x, {d}[4] w) => ({d}[n, 4] y)"
CONSTANTS = "float s = {{{s}}}, float t = {{{t}}}, float u = {{{u}}}, {d} k = {{{k}}}, {d} l = {{{l}}}, {d} m = {{{m}}}"


def model(op, dtype="int8", scales=(0.02, 0.013, 0.031), zeros=(0, 0, 0), head=HEAD):
    named = dict(zip("stu", scales, strict=True)) | dict(zip("klm", zeros, strict=True)) | {"d": dtype}
    return graph(f"y = com.microsoft.{op}(x, s, k, w, t, l, u, m)", head.format(**named), CONSTANTS.format(**named))


ASYMMETRIC = {"zeros": (3, -7, 11)}
BYTES = {"dtype": "uint8", "zeros": (120, 7, 200)}
# fmt: off
FIRES = [
    Case(qlinear_add, "around 0 in int8", model("QLinearAdd"), target="tensorrt"),
    Case(qlinear_add, "with zero points", model("QLinearAdd", **ASYMMETRIC), target="tensorrt"),
    Case(qlinear_add, "in uint8", model("QLinearAdd", **BYTES), target="tensorrt"),
    Case(qlinear_mul, "around 0 in int8", model("QLinearMul"), target="tensorrt"),
    Case(qlinear_mul, "with zero points", model("QLinearMul", **ASYMMETRIC), target="tensorrt"),
    Case(qlinear_mul, "in uint8", model("QLinearMul", **BYTES), target="tensorrt"),
]
NEGATIVES = [
    Case(qlinear_add, "ONNX Runtime has it", model("QLinearAdd"), why="runs it as it is"),
    Case(qlinear_mul, "ONNX Runtime has it", model("QLinearMul"), why="runs it as it is"),
    Case(qlinear_add, "a scale that is computed", target="tensorrt", why="a scale must be a constant with one number",
         model=graph("y = com.microsoft.QLinearAdd(x, s, , w, t, , s, )",
                     "(int8[n, 4] x, int8[4] w, float t) => (int8[n, 4] y)", "float s = {0.5}")),
    Case(qlinear_add, "sums near the middle of two steps", target="tensorrt", why="too close to the middle",
         model=model("QLinearAdd", scales=(0.05, 0.1, 0.3), zeros=(-77, 100, 35))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def every_pair(dtype):
    kind = np.iinfo(dtype)
    numbers = np.arange(kind.min, kind.max + 1).astype(dtype)
    return {"x": np.repeat(numbers, 256).reshape(-1, 4), "w": np.tile(numbers, 256).reshape(-1, 4)}


def answer(model, feeds):
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_pair_gives_the_same_integer(op, dtype):
    """Under ONNX Runtime, for scales at random and those that people write; the nodes are others."""
    rng = np.random.default_rng(7)
    kind, feeds, forms = np.iinfo(dtype), every_pair(dtype), set()
    head = "({d}[n, 4] x, {d}[n, 4] w) => ({d}[n, 4] y)"
    for number in range(8):
        scales = rng.choice([0.5, 0.25, 0.125], 3) if number % 2 else rng.uniform(0.001, 0.1, 3).round(6)
        zeros = (0, 0, 0) if number % 4 == 1 else rng.integers(kind.min, kind.max + 1, 3)
        before = model(op, dtype, scales, zeros, head)
        after, report = rewrite(before, ["qlinear_add", "qlinear_mul"], target="tensorrt", check="none")
        assert len(report.sites) == 1
        forms.add(tuple(node.op_type for node in after.graph.node))
        np.testing.assert_array_equal(answer(after, feeds), answer(before, feeds))
    quantised = ("DequantizeLinear", "DequantizeLinear", op.removeprefix("QLinear"), "QuantizeLinear")
    assert (quantised in forms) == (dtype == "int8")
    assert len(forms) > (dtype == "int8")
