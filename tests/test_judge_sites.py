"""Right rewrites of ill-conditioned sites, in ONNX Runtime and in float16: judged, and not found wanting."""

import math
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, parser

from surgeon.runtime.inputs import float_fills as fills
from surgeon.runtime.inputs.fill import Fill
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.input_perturbation import perturb_by_ulp
from surgeon.runtime.numerics.sensitivity import difference
from surgeon.runtime.numerics.sensitivity_probe import SensitivityProbe
from surgeon.runtime.numerics.tensor_judge import TensorError, judge_tensor
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.ort_session import OrtSession

pytestmark = pytest.mark.filterwarnings("error")

INF, NAN = math.inf, math.nan
FLOATS = ("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, of each element."""
    return np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64))


def test_half_gelu_near_minus_three_may_be_more_accurate_than_it_was() -> None:
    """1 + erf(-3 / sqrt 2) keeps two bits in float16: the fused operator, right to half a unit, must pass."""
    x = np.linspace(-3.5, -2.8, 64).astype(np.float16)
    half = np.float16
    inner = half(1) + erf(x / half(math.sqrt(2))).astype(half)
    original = x * inner * half(0.5)
    reference = x.astype(np.float64) * (1 + erf(x.astype(np.float64) / math.sqrt(2))) / 2
    fused = reference.astype(half)
    error = judge_tensor("y", original, fused, reference, 0.0)
    assert error.ok, error.why
    assert error.original is not None
    assert error.rewritten.max_ulp <= 0.5 < 20 < error.original.max_ulp
    assert not judge_tensor("y", original, fused, None, 0.0).ok, "held against the original it would fail"
    wrong = (reference * 1.1).astype(half)
    assert not judge_tensor("y", reference.astype(half), wrong, reference, 0.0).ok


def model(nodes: str, kind: str) -> ModelProto:
    """A model of x[4, 64], scaled by w and moved by b, whose constants are of the same type."""
    head = f"""<ir_version: 8, opset_import: ["" : 18]>
        g ({kind}[4, 64] x, {kind}[64] w, {kind}[64] b) => ({kind}[4, 64] y)
        <int64[1] axes = {{-1}}, {kind} eps = {{0.00001}}, {kind} two = {{2}}> {{ """
    return parser.parse_model(head + nodes + " }")


NORM = """m = ReduceMean(x, axes) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, axes) e = Add(v, eps) s = Sqrt(e)
    n = Div(d, s) g = Mul(n, w) y = Add(g, b)"""
FUSED = "y = LayerNormalization<axis = -1, epsilon = 0.00001>(x, w, b)"


FILLS = (
    *(item for item in vars(fills).values() if isinstance(item, Fill)),
    *(fills.offset(sign, is_small=is_small) for sign in (1, -1) for is_small in (False, True)),
    *(fills.row_magnitudes(fills.THIRD), fills.magnitudes(fills.THIRD, 0), fills.ordered(0)),
)


def run_norms(fill: Fill, seed: int, fused: str = FUSED) -> TensorError:
    """Judge a fused LayerNormalization against the decomposed one, in ONNX Runtime."""
    original, rewritten = model(NORM, "float"), model(fused, "float")
    plan = InputGenerator(original)
    feeds = plan.generate(seed, {}, dict.fromkeys(plan.edged, fill))
    with (
        OrtSession(original) as one,
        OrtSession(rewritten) as two,
        Float64Reference(original) as three,
        SensitivityProbe(original, {}, (), lambda: three, one.run, plan.edged) as moves,
    ):
        right, answer = three.run(feeds)["y"], one.run(feeds)["y"]
        asked = JudgeSettings(answer.dtype, overflowing=fill.may_overflow)
        ask = partial(judge_tensor, "y", answer, two.run(feeds)["y"], right, asked=asked)
        return moves.judge(ask, "y", right, answer.dtype, feeds)


@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_right_norm_passes_on_all_values(fill: Fill, seed: int) -> None:
    """A mean of 1e4, constant rows, squares that overflow, NaN in some rows: nothing of it is the rewrite's fault."""
    error = run_norms(fill, seed)
    assert error.ok, error.why


def test_a_mean_of_ten_thousand_needs_what_the_reference_moves_by() -> None:
    """The tolerance alone would fail a right norm, and what is allowed still finds a wrong one."""
    error = run_norms(fills.offset(1, is_small=False), 0)
    assert error.rewritten.max_abs > 1e-6 + 2e-5 * error.scale
    assert error.is_informative
    wrong = run_norms(fills.offset(1, is_small=False), 0, FUSED.replace("0.00001", "0.1"))
    assert wrong.why.startswith("differs from the float64 reference by ")


@pytest.mark.parametrize("dtype", FLOATS)
def test_inputs_move_by_one_unit(dtype: str) -> None:
    """To the next number on either side, whole ones only where told; zeros, infinities, NaN and the rest stay."""
    kind = np.dtype(dtype)
    plain = np.tile(np.array([0.75, -1.25, 0.0, 1.0, INF, -INF, NAN]), 8).astype(kind)
    feeds = {
        "x": plain,
        "i": np.arange(3),
        "b": np.array([True]),
        "s": np.array(["a"], object),
        "n": np.array(0.75, kind),
    }
    before = {name: array.copy() for name, array in feeds.items()}
    moved = perturb_by_ulp(feeds)
    for name in feeds:
        assert moved[name].dtype == feeds[name].dtype
        assert moved[name].shape == feeds[name].shape
    assert all(np.array_equal(moved[name], before[name]) for name in "ibs")
    assert moved["n"] != before["n"]
    whole = perturb_by_ulp(feeds, {"x"})["x"].astype(np.float64)
    wide, x = plain.astype(np.float64), moved["x"].astype(np.float64)
    unit = 2.0 ** -int(ml_dtypes.finfo(kind).nmant)
    assert set(x[wide == 0.75] - 0.75) == {unit / 2, -unit / 2}
    assert set(np.abs(x[wide == -1.25] + 1.25)) == {unit}
    assert (x[wide == 1] == 1).all()
    assert (whole[wide == 1] != 1).all()
    for result in (x, whole):
        assert (result[wide == 0] == 0).all()
        assert np.array_equal(np.isnan(result), np.isnan(wide))
        assert np.array_equal(np.isinf(result), np.isinf(wide))


def test_the_largest_number_does_not_become_infinite() -> None:
    """It moves down, or stays."""
    for dtype in FLOATS:
        kind = np.dtype(dtype)
        largest = np.full(32, float(ml_dtypes.finfo(kind).max)).astype(kind)
        assert np.isfinite(perturb_by_ulp({"x": largest}, {"x"})["x"].astype(np.float64)).all()


def test_change() -> None:
    """Over elements finite in both, of the output's range, of one shape."""
    reference = np.array([1.0, INF, NAN, 3.0, 1e300])
    nudged = np.array([1.5, 2.0, 2.0, INF, 2e300])
    single = np.dtype(np.float32)
    assert difference(reference, nudged).max() == 1e300
    assert difference(reference, nudged, single).tolist() == [0.5, 0, 0, 0, 0]
    assert difference(nudged, reference, single).max() == 0.5
    assert difference(np.array([1.0, 3e38]), np.array([1.5, 4e38]), single).max() == 0.5
    assert not difference(reference, nudged[:2]).any()
    assert difference(np.array([1, 2]), np.array([1, 3]), np.dtype(np.int64)).tolist() == [0, 1]
    assert difference(np.zeros(0), np.zeros(0)).size == 0
    assert difference(np.array(1.0), np.array(2.0), np.dtype(ml_dtypes.bfloat16)) == 1.0
