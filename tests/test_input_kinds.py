"""Which inputs a region is run on: magnitudes that tell, what may be infinite alone, and what kernels may err by."""

from dataclasses import replace

import numpy as np
import pytest

from surgeon.proof.cases.case_inputs import CaseInputs, inputs_beside_softmax
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.value_strategies import ALONE, ENDS, absolute_error, adapted_kind
from surgeon.proof.proof_case import ProofCase, ProofOptions, RegionModels
from surgeon.runtime.inputs.input_generator import ValueKind
from surgeon.runtime.numerics.rounding_perturbation import AMPLITUDE_INPUT, SEED_INPUT, perturb_rounding
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.testing import parse

ATTENTION = parse(
    "(float[2,3,4] q, float[2,3,4] k, float[2,3,4] v) => (float[2,3,4] y)"
    "{ t = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v) }"
)


@pytest.mark.parametrize(
    ("ops", "picks", "squares", "kind"),
    [
        (("Add", "Erf"), False, False, ValueKind.MAGNITUDES),
        (("MatMul", "Add"), False, False, ValueKind.SAFE_MAGNITUDES),
        (("ReduceMean",), False, False, ValueKind.ROW_MAGNITUDES),
        (("ReduceMax", "Mul"), False, False, ValueKind.ROW_MAGNITUDES),
        (("ReduceMean", "Pow"), False, True, ValueKind.SAFE_ROW_MAGNITUDES),
        (("MatMul", "Softmax"), True, False, ValueKind.SAFE_ROW_MAGNITUDES),
        (("GridSample",), False, False, None),
    ],
)
def test_magnitudes_are_such_as_tell(ops: tuple[str, ...], picks: bool, squares: bool, kind: ValueKind | None) -> None:
    """A sum shows the largest number alone, a square overflows."""
    assert adapted_kind(ValueKind.MAGNITUDES, 0, ops, 1, picks=picks, squares=squares) is kind


@pytest.mark.parametrize(
    ("ops", "picks", "squares", "is_tried"),
    [
        (("Add", "Split"), False, False, True),
        (("MatMul", "Add"), False, False, False),
        (("ReduceMean",), False, False, False),
        (("ReduceSum",), False, False, False),
        (("Mul",), False, True, False),
        (("MatMul", "Softmax"), True, False, True),
        (("GridSample",), False, False, False),
    ],
)
def test_loud_numbers_are_no_terms(ops: tuple[str, ...], picks: bool, squares: bool, is_tried: bool) -> None:
    """Of large products and sums the order decides which overflow; values of attention are averaged alone."""
    assert (
        adapted_kind(ValueKind.UNIFORM_LARGE, 0, ops, 1, picks=picks, squares=squares) is ValueKind.UNIFORM_LARGE
    ) is is_tried


@pytest.mark.parametrize(
    ("ops", "inputs", "kinds"),
    [
        (("Neg",), 1, (None, None)),
        (("Cos", "Mul"), 2, (ValueKind.SAFE_ROW_MAGNITUDES, ValueKind.SAFE_ROW_MAGNITUDES)),
        (("ReduceMax",), 1, (ValueKind.SAFE_ROW_MAGNITUDES, None)),
        (("MatMul", "ReduceMax"), 2, (None, None)),
        (("GridSample",), 2, (None, None)),
    ],
)
def test_magnitudes_of_some_inputs_alone(
    ops: tuple[str, ...], inputs: int, kinds: tuple[ValueKind | None, ...]
) -> None:
    """The cosine of a large number turns with its last bit; a maximum of all magnitudes is the largest there is."""
    later = (
        adapted_kind(ValueKind.MAGNITUDES, ALONE + turn, ops, inputs, picks=False, squares=False) for turn in range(2)
    )
    assert tuple(later) == kinds


def test_infinity_has_three_turns() -> None:
    """Some in all rows but one, rows of one value, and lone ones, of which a sum is infinite and not NaN."""
    model = parse("(float[2,4] x) => (float[2,4] y) { y = Neg(x) }")
    feeder = CaseInputs(ProofCase(RegionModels(model, model, {}), (), ("y",), ProofOptions()))
    assert all(feeder.is_informative(ValueKind.NON_FINITE, turn) for turn in range(ENDS))
    made = feeder.make(DimAssignment({}, {}), ValueKind.NON_FINITE, ENDS - 1)["x"]
    assert [np.isfinite(row).sum() for row in made] == [3, 4]
    assert made.max() == np.inf


@pytest.mark.parametrize("apart", ["zeros", "small", "extreme"])
def test_faint_numbers_go_with_small_and_extreme_ones(apart: str) -> None:
    """A rule that differs there on purpose differs for those too."""
    model = parse("(float[2,4] x) => (float[2,4] y) { y = Neg(x) }")
    plain = ProofCase(RegionModels(model, model, {}), (), ("y",), ProofOptions())
    assert CaseInputs(plain).is_informative(ValueKind.TINY, 0)
    assert not CaseInputs(replace(plain, intended_differences=frozenset([apart]))).is_informative(ValueKind.TINY, 0)


def test_values_of_attention_alone_are_loud() -> None:
    """Of scores so large a softmax picks one."""
    case = ProofCase(RegionModels(ATTENTION, ATTENTION, {}), (), ("y",), ProofOptions(), picks_by_products=True)
    assert CaseInputs(case).is_informative(ValueKind.UNIFORM_LARGE, 0)
    assert not CaseInputs(replace(case, intended_differences=frozenset(["extreme"]))).is_informative(
        ValueKind.UNIFORM_LARGE, 0
    )
    made = CaseInputs(case).make(DimAssignment({}, {}), ValueKind.UNIFORM_LARGE, 0)
    assert max(np.abs(made[name]).max() for name in "qk") < 10
    assert np.abs(made["v"]).min() > 1e5


def test_a_maximum_sees_infinity_or_nan_throughout() -> None:
    """Of one NaN in a row it hangs on its place whether ONNX Runtime's kernel sees it."""
    assert adapted_kind(ValueKind.NON_FINITE, 0, ("ReduceMax",), 1, picks=False, squares=False) is ValueKind.INFINITE
    assert adapted_kind(ValueKind.NON_FINITE, 0, ("ReduceMean",), 1, picks=False, squares=False) is ValueKind.NON_FINITE


@pytest.mark.parametrize(
    ("text", "squares"),
    [
        ("(float[4] x, float[4] z) => (float[4] y) { y = Mul(x, z) }", False),
        ("(float[4] x, float[4] z) => (float[4] y) { y = Mul(x, x) }", True),
        ("(float[4] x, float[4] z) => (float[1] y) { y = ReduceL2(x) }", True),
    ],
)
def test_an_experiment_squares(text: str, squares: bool) -> None:
    """By one operator, or by a product of a tensor with itself."""
    model = parse(text)
    assert ProofCase(RegionModels(model, model, {}), (), ("y",), ProofOptions()).squares is squares


def test_values_are_beside_the_softmax() -> None:
    """Queries and keys decide what it picks; without a softmax nothing does."""
    assert inputs_beside_softmax(ATTENTION) == {"v"}
    fused = "(float[2,3,4] q, float[2,3,4] k, float[2,3,4] v) => (float[2,3,4] y)"
    text = f"{fused} {{ y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v) }}"
    assert inputs_beside_softmax(parse(text)) == {"v"}
    assert inputs_beside_softmax(parse("(float[4] x) => (float[4] y) { y = Neg(x) }")) == frozenset()


def test_infinity_stands_among_the_values_alone_once() -> None:
    """Beside infinite scores every result is NaN, and nothing is seen of what is added up."""
    feeder = CaseInputs(ProofCase(RegionModels(ATTENTION, ATTENTION, {}), (), ("y",), ProofOptions()))
    made = [feeder.make(DimAssignment({}, {}), ValueKind.NON_FINITE, turn) for turn in range(2)]
    assert [all(np.isfinite(feeds[name]).all() for name in "qk") for feeds in made] == [False, True]
    assert not np.isfinite(made[1]["v"]).all()


def test_values_alone_are_large_where_a_rule_differs_for_extreme_scores() -> None:
    """Scores stay usual."""
    case = ProofCase(
        RegionModels(ATTENTION, ATTENTION, {}), (), ("y",), ProofOptions(), intended_differences=frozenset(["extreme"])
    )
    feeder = CaseInputs(case)
    assert feeder.is_informative(ValueKind.SAFE_ROW_MAGNITUDES, 0)
    assert not feeder.is_informative(ValueKind.MAGNITUDES, 0)
    made = feeder.make(DimAssignment({}, {}), ValueKind.SAFE_ROW_MAGNITUDES, 0)
    assert max(np.abs(made[name]).max() for name in "qk") < 10
    assert np.abs(made["v"]).max() > 1e10


def test_kernels_err_less_where_all_that_they_are_given_is_small() -> None:
    """GELU of 1e-7 is no further from 5e-8 than rounding says; Softmax of it may be."""
    feeds = {"x": np.array([1e-7, 0.5, 30.0], np.float32)}
    assert absolute_error(("Gelu", "Mul"), (3,), feeds) == pytest.approx([1e-7, 0.5, 1.0])
    assert absolute_error(("Softmax", "Mul"), (3,), feeds) == 1.0
    assert absolute_error(("Gelu", "Mul"), (2,), feeds) == 1.0
    assert absolute_error(("Mul",), (3,), feeds) == 0.0


def test_softplus_of_large_numbers_has_a_reference() -> None:
    """It is x there, and not the infinity that exp(x) is even in float64."""
    with Float64Reference(parse("(float[3] x) => (float[3] y) { y = Softplus(x) }"), {}) as reference:
        made = reference.run({"x": np.array([1e6, -1e6, 0.0], np.float32)})["y"]
    assert made == pytest.approx([1e6, 0.0, np.log(2.0)])


def test_each_output_of_a_node_is_perturbed() -> None:
    """A node that makes two tensors of floats rounds both."""
    body = "z, m = LayerNormalization (x, w) y = Add(z, m)"
    model = parse(f"(float[2,3] x) => (float[2,3] y) <float[3] w = {{1, 2, 3}}> {{ {body} }}")
    with Float64Reference(model, {}, change=perturb_rounding) as reference:
        x = np.array([[0.1, 0.7, 0.4], [3.0, 1.1, 2.3]], np.float32)
        still, moved = (
            reference.run({"x": x, AMPLITUDE_INPUT: np.asarray(by), SEED_INPUT: np.asarray(0)})["y"]
            for by in (0.0, 1.0)
        )
    assert 0 < np.abs(still - moved).max() < 1e-5
