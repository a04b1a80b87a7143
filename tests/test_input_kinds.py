"""Which inputs a region is run on: magnitudes that show something, where infinity is, and what kernels may err by."""

from contextlib import suppress

import numpy as np
import pytest
from onnx import ModelProto

from surgeon.proof.cases.case_inputs import CaseInputs, inputs_beside_softmax
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.dims import CaseDims
from surgeon.proof.judge.kernel_errors import absolute_error
from surgeon.proof.proof_case import CaseInput, ProofCase, ProofOptions, RegionModels
from surgeon.proof.strategies.case_feeds import CaseFeeds
from surgeon.proof.strategies.region_facts import CaseRegion
from surgeon.proof.strategies.site_strategies import SITE_STRATEGIES
from surgeon.proof.strategies.strategy import Rows, Strategy, cases
from surgeon.runtime.inputs.role_fills import USUAL
from surgeon.runtime.numerics.rounding_perturbation import AMPLITUDE_INPUT, SEED_INPUT, perturb_rounding
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.testing import parse

ATTENTION = parse(
    "(float[2,3,4] q, float[2,3,4] k, float[2,3,4] v) => (float[2,3,4] y)"
    "{ t = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v) }"
)
AT = DimAssignment({}, {})
STRATEGIES = {item.name: item for item in SITE_STRATEGIES}


def case_of(model: ModelProto | str, **settings) -> ProofCase:
    """A case in which both sides are one model; text: what makes y of x[4, 4] and z[4, 4]."""
    if isinstance(model, str):
        model = parse(f"(float[4, 4] x, float[4, 4] z) => (float[a, b] y) {{ {model} }}")
    return ProofCase(RegionModels(model, model, {}), (), ("y",), ProofOptions(), **settings)


def region_of(case: ProofCase, inputs: CaseInputs) -> CaseRegion:
    """A region whose rows mix."""
    return CaseRegion(case, inputs, CaseDims(case, {}), AT, rows=Rows(1, frozenset(), AT))


def proposed(name: str, case: ProofCase):
    """What a strategy proposes, as names of fills by input."""
    region = region_of(case, CaseInputs(case))
    return [{name: fill.name for name, fill in found.fills.items()} for found in STRATEGIES[name].propose(region)]


def arrays(name: str, case: ProofCase):
    """The arrays of the cases that a strategy proposes."""
    inputs = CaseInputs(case)
    region, feeds = region_of(case, inputs), CaseFeeds(inputs, 0)
    return [feeds.make(found) for found in STRATEGIES[name].propose(region)]


@pytest.mark.parametrize(
    ("body", "fills"),
    [
        ("y = Add(x, z)", {"magnitudes"}),
        ("y = MatMul(x, z)", {"magnitudes"}),
        ("m = Mul(x, z) y = ReduceMean(m)", {"row magnitudes"}),
        ("m = Mul(x, z) y = ReduceMax(m)", {"row magnitudes"}),
        ("m = Mul(x, x) a = Add(m, z) y = ReduceMean(a)", {"row magnitudes"}),
    ],
)
def test_magnitudes_show_more_than_the_largest(body: str, fills: set[str]) -> None:
    """A sum shows only the largest number, so that each row has its own magnitude."""
    found = proposed("every power of two", case_of(body))
    assert {name for each in found for name in each.values()} == fills


@pytest.mark.parametrize(
    ("body", "largest"),
    [("y = Add(x, z)", 127), ("y = MatMul(x, z)", 128 / 3), ("m = Mul(x, x) a = Add(m, z) y = ReduceMean(a)", 128 / 3)],
)
def test_magnitudes_leave_products_finite(body: str, largest: float) -> None:
    """Where products are added, the order of terms would decide which of them overflow."""
    found = [array for feeds in arrays("every power of two", case_of(body)) for array in feeds.values()]
    highest = max(np.log2(np.abs(array[array != 0])).max() for array in found)
    assert largest - 12 < highest < largest + 3  # a number of normal(0, 1) beside it


@pytest.mark.parametrize(
    ("body", "is_tried"),
    [
        ("y = Add(x, z)", True),
        ("y = MatMul(x, z)", False),
        ("y = ReduceMean(x)", False),
        ("y = ReduceSum(x)", False),
        ("y = Mul(x, x)", False),
    ],
)
def test_uniformly_large_numbers_are_no_terms(body: str, is_tried: bool) -> None:
    """Of large products and sums the order decides which overflow."""
    found = proposed("special rows", case_of(body))
    assert any("uniform large" in each.values() for each in found) is is_tried


def test_positions_are_neither_huge_nor_tiny() -> None:
    """Kernels differ for positions far outside of a picture."""
    model = parse("(float[1, 1, 4, 4] x, float[1, 4, 4, 2] z) => (float[1, 1, 4, 4] y) { y = GridSample(x, z) }")
    assert proposed("every power of two", case_of(model)) == []
    assert {"wide", "large"}.isdisjoint(
        name for each in proposed("special rows", case_of(model)) for name in each.values()
    )


def test_one_input_has_magnitudes_while_the_others_are_usual() -> None:
    """The cosine of a large number changes with its last bit, which hides what the other input does."""
    found = proposed("each alone", case_of("c = Cos(x) y = Mul(c, z)"))
    assert {"x": "row magnitudes"} in found
    assert {"z": "row magnitudes"} in found
    assert proposed("each alone", case_of(parse("(float[4] x) => (float[4] y) { y = Neg(x) }"))) == []


def test_infinity_is_among_numbers_throughout_and_by_itself() -> None:
    """Some in all rows but one, and one in each row, of which a sum is infinite and not NaN."""
    case = case_of(parse("(float[2,4] x) => (float[2,4] y) { y = Neg(x) }"))
    made = [feeds["x"] for feeds in arrays("special rows", case)]
    assert any(np.isposinf(array).all() for array in made)
    assert any([np.isposinf(row).sum() for row in array] == [1, 1] for array in made)
    assert any(np.isnan(array).any() and not np.isnan(array).all() for array in made)


@pytest.mark.parametrize("intended", ["zeros", "small", "denormals"])
def test_tiny_numbers_go_with_small_ones(intended: str) -> None:
    """A rule that differs there on purpose differs for those too."""
    assert {"x": "tiny", "z": "tiny"} in proposed("special rows", case_of("y = Add(x, z)"))
    found = proposed("special rows", case_of("y = Add(x, z)", intended_differences=frozenset([intended])))
    assert {"x": "tiny", "z": "tiny"} not in found


def test_a_maximum_sees_infinity_or_nan_throughout() -> None:
    """Whether ONNX Runtime's kernel sees one NaN in a row depends on its place."""
    for body, is_mixed in (("y = ReduceMax(x)", False), ("y = ReduceMean(x)", True)):
        found = [array for feeds in arrays("special rows", case_of(body)) for array in feeds.values()]
        assert any(np.isinf(array).any() for array in found)
        assert any(np.isnan(array).all() for array in found)
        assert any(np.isnan(array).any() and not np.isnan(array).all() for array in found) is is_mixed


@pytest.mark.parametrize(
    ("text", "squares"),
    [
        ("(float[4] x, float[4] z) => (float[4] y) { y = Mul(x, z) }", False),
        ("(float[4] x, float[4] z) => (float[4] y) { y = Mul(x, x) }", True),
        ("(float[4] x, float[4] z) => (float[1] y) { y = ReduceL2(x) }", True),
    ],
)
def test_a_case_squares(text: str, squares: bool) -> None:
    """By one operator, or by a product of a tensor with itself."""
    assert case_of(parse(text)).squares is squares


def test_counts_are_as_long_as_an_axis_only_if_it_is_longer_than_all_before() -> None:
    """A shorter axis cannot show a bound of a count that a longer one hides."""
    model = parse("(float[d0, 4] x, int64[1] k) => (float[a, 4] y) { y, i = TopK<axis = 0>(x, k) }")
    shapes = (CaseInput("x", (symbol("n"), 4)), CaseInput("k", (1,)))
    case = ProofCase(RegionModels(model, model, {"d0": symbol("n")}), shapes, ("y",), ProofOptions())
    dims = CaseDims(case, {})
    first = next(dims.runnable())[0]
    region = CaseRegion(case, CaseInputs(case), dims, first, rows=Rows(1, frozenset(), first))
    found = {}
    for size in (first.by_symbol["n"], 50, 40, 60):
        at = dims.beside(first, {"n": size})
        found[size] = [each for each in region.at_size(at) if each.fills.get("k", USUAL).name == "counts"]
    assert [len(cases) for cases in found.values()] == [0, 2, 0, 2], "the whole axis, and half of it from its end"


def test_values_are_beside_the_softmax() -> None:
    """Queries and keys decide what it picks; without a softmax nothing does."""
    assert inputs_beside_softmax(ATTENTION) == {"v"}
    fused = "(float[2,3,4] q, float[2,3,4] k, float[2,3,4] v) => (float[2,3,4] y)"
    text = f"{fused} {{ y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v) }}"
    assert inputs_beside_softmax(parse(text)) == {"v"}
    assert inputs_beside_softmax(parse("(float[4] x) => (float[4] y) { y = Neg(x) }")) == frozenset()


MASKED = parse(
    "(float[2, 3] x, int64[2, 3] attention_mask, int64[2] at, bool c) => (float[a, d] y)"
    "{ m = Cast<to = 9>(attention_mask) z = Where(m, x, x) w = Where(c, z, x) y = Tile(w, at) }"
)


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("model", [ATTENTION, MASKED, parse("(int8[4] x, string[4] s) => (int8[4] y) { y = Abs(x) }")])
@pytest.mark.parametrize("strategy", SITE_STRATEGIES, ids=lambda item: item.name)
def test_each_strategy_takes_answers(strategy: Strategy, model: ModelProto, answer: bool) -> None:
    """Whether the original ran on the last case is sent to each strategy, however it makes its cases."""
    case = case_of(model)
    found = cases(region_of(case, CaseInputs(case)), [strategy])
    with suppress(StopIteration):
        next(found)
        while True:
            assert found.send(answer).strategy == strategy.name


def test_infinity_is_among_the_values_of_an_attention() -> None:
    """Beside infinite scores every result is NaN, and nothing is seen of what is added up."""
    found = proposed("each alone", case_of(ATTENTION, picks_by_products=True))
    assert [set(each) for each in found if "non finite" in each.values()] == [{"v"}]


def test_values_of_an_attention_are_large_where_a_rule_differs_for_extreme_scores() -> None:
    """Scores stay usual."""
    case = case_of(ATTENTION, picks_by_products=True, intended_differences=frozenset(["extreme"]))
    (made,) = arrays("every power of two", case)
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
