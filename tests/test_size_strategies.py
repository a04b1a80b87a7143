"""Sizes that reveal faults: what each strategy proposes, and what a case may cost."""

from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.dims import COSTLY_WORK, REDUCE_ABOVE_ELEMENTS, CaseDims
from surgeon.proof.node_cost import CostTerm
from surgeon.proof.proof_case import CaseInput, ProofCase, ProofOptions, RegionModels
from surgeon.proof.strategies.site_strategies import SIZE_STRATEGIES
from surgeon.proof.strategies.size_facts import SizeFacts
from surgeon.proof.strategies.sizes import LITERAL_ELEMENTS, LONG_ELEMENTS
from surgeon.proof.strategies.strategy import InputCase, cases
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.testing import parse

EMPTY = RegionModels(onnx.ModelProto(), onnx.ModelProto(), {})
STRATEGIES = {item.name: item for item in SIZE_STRATEGIES}


def case_of(*shape, models=EMPTY, chosen=None, **known) -> ProofCase:
    """A case of one input; letters are dynamic dims."""
    sizes = tuple(symbol(size) if isinstance(size, str) else size for size in shape)
    return ProofCase(models, (CaseInput("x", sizes),), ("y",), ProofOptions(dims=chosen or {}), **known)


def usual(at):
    """One case at each sizes, with usual inputs."""
    return (yield InputCase(at, {}, ""))


def facts_of(*shape, chosen=None, **known) -> SizeFacts:
    """The facts of a region with one input whose dynamic dims are 3, 4, and so on."""
    case = case_of(*shape, chosen=chosen, **known)
    dims = CaseDims(case, case.options.dims)
    base = {**{name: at + 3 for at, name in enumerate(dims.symbols)}, **case.options.dims}
    first = dims.beside(DimAssignment(base, {}), {})
    assert first is not None
    return SizeFacts(case, dims, first, usual)


def proposed(name: str, *shape, **known):
    """What one strategy proposes, in order, as sizes by name."""
    return [
        dict(found.dims.by_symbol)
        for found in STRATEGIES[name].propose(SimpleNamespace(sizes=facts_of(*shape, **known)))
    ]


def further(*shape, chosen=None, **known):
    """All further sizes, in order."""
    region = SimpleNamespace(sizes=facts_of(*shape, chosen=chosen, **known))
    return [dict(found.dims.by_symbol) for found in cases(region, SIZE_STRATEGIES)]


def test_related_sizes_are_odd_blocks_multiples_and_as_a_fixed_dim():
    assert proposed("related sizes", "b", "s", 24) == [
        {"b": 4, "s": 5},
        {"b": 8, "s": 8},
        {"b": 4, "s": 8},
        {"b": 8, "s": 4},
        {"b": 24, "s": 24},
    ]
    assert {"b": 128, "s": 128} in proposed("related sizes", "b", "s"), "whole blocks where they are affordable"


@pytest.mark.parametrize("literal", [16, 40000])
def test_literals_have_neighbours(literal):
    found = proposed("sizes near literals", "b", literals=frozenset({literal, 3, 1 << 20}))
    assert found == [{"b": literal}, {"b": literal + 1}, {"b": literal - 1}], (
        "axes and bounds of numbers are no lengths"
    )


def test_a_literal_that_is_a_width_comes_after_the_others():
    found = proposed("sizes near literals", "b", 6, 8, literals=frozenset({48, 100}))
    assert [sizes["b"] for sizes in found] == [100, 101, 99, 48, 49, 47]


@pytest.mark.parametrize(
    ("made", "turning"),
    [
        ("k = Constant<value_ints = [100]>() c = Greater(s, k)", {"m": {99, 100, 101}}),
        ("k = Constant<value_ints = [3]>() t = Mul(s, k) c = Equal(r, t)", {"n": {11, 12, 13}, "m": {1, 2}}),
        ("k = Constant<value_ints = [1]>() t = Add(s, k) c = Equal(r, t)", {"n": {4, 5, 6}, "m": {1, 2, 3}}),
        ("t = Mul(r, r) c = Equal(s, t)", {"n": {1, 2, 3}, "m": {8, 9, 10}}),
    ],
)
def test_comparisons_of_sizes_are_solved_on_either_side(made, turning):
    """For one dim, with the other at 3 (n) or 4 (m); below, at and above the size at which the sign turns."""
    sizes = "r = Shape<start = 0, end = 1>(x) s = Shape<start = 1>(x)"
    plain = parse("(float[d0, d1] x) => (float[d0, d1] y) { y = Neg(x) }")
    comparing = parse(f"(float[d0, d1] x) => (float[d0, d1] y, bool[1] c) {{ y = Neg(x) {sizes} {made} }}")
    wanted = {(name, size) for name, some in turning.items() for size in some}
    for sides in ((plain, comparing), (comparing, plain)):
        facts = facts_of("n", "m", models=RegionModels(*sides, {"d0": symbol("n"), "d1": symbol("m")}))
        assert wanted == {pair for sizes in facts.turning for pair in sizes.items()}


def test_the_ladder_has_a_size_in_each_binade_for_each_dim():
    found = proposed("size ladder", "b", "s")
    for name in "bs":
        steps = sorted({sizes[name] for sizes in found} - {3, 4})
        assert {size.bit_length() for size in steps} >= set(range(3, 14))
        assert [size % 2 for size in steps[-6:]] in ([0, 1] * 3, [1, 0] * 3), "even and odd in turn"
    assert all(sizes["b"] != sizes["s"] for sizes in found)
    assert len(found) < 16, "one ladder for all"


def test_each_dim_is_longer_than_a_dtype_inside_can_count():
    """Of either side, as of the replacement alone."""
    text = "(float[d0, 4] x) => (float[d0, 4] y) "
    plain, half = (
        parse(f"{text}{{ y = Neg(x) }}"),
        parse(f"{text}{{ h = Cast<to = 10>(x) n = Neg(h) y = Cast<to = 1>(n) }}"),
    )
    for sides, sizes in (((plain, plain), []), ((plain, half), [{"b": 2051}]), ((half, plain), [{"b": 2051}])):
        assert proposed("beyond exact integers", "b", 4, models=RegionModels(*sides, {"d0": symbol("b")})) == sizes


def test_dims_take_few_passes_where_a_body_runs():
    text = """(float[d0, 4] x) => (float[d0, 4] y) <float[4] zero = {0, 0, 0, 0}> {
        last, y = Scan<num_scan_inputs = 1, body = b (float[4] s, float[4] r) => (float[4] t, float[4] u) {
            t = Add(s, r) u = Identity(t) }>(zero, x) }"""
    sides = RegionModels(parse(text), parse(text), {"d0": symbol("n")})
    assert proposed("trips", "n", 4, models=sides) == [{"n": 2}]
    assert proposed("trips", "n", 4) == []


def test_each_dim_is_at_1_beside_many_and_few_and_at_0_last():
    assert proposed("one", "b", "s") == [{"b": 1, "s": 96}, {"b": 96, "s": 1}, {"b": 1, "s": 4}, {"b": 3, "s": 1}]
    assert proposed("zero", "b", "s") == [{"b": 0, "s": 4}, {"b": 3, "s": 0}]
    assert all(sizes["b"] for sizes in further("b", allows_empty=False))


def test_strategies_take_turns_and_repeat_no_sizes():
    found = further("b", "s", literals=frozenset({16}))
    assert found[:4] == [{"b": 4, "s": 5}, {"b": 16, "s": 16}, {"b": 1, "s": 96}, {"b": 3, "s": 6144}]
    assert len({tuple(sizes.items()) for sizes in found}) == len(found)


def test_sizes_that_are_refused_together_are_tried_one_by_one():
    """As of a table whose rows bound one dim alone; and with a length that is refused alone, shorter ones."""
    facts = facts_of("b", "s", 4)
    asked = facts.at([{"b": 8, "s": 9}, {"b": 8, "s": 4}, {"b": 90, "s": 4}])
    seen, answer = [], None
    with suppress(StopIteration):
        while True:
            sizes = asked.send(answer).dims.by_symbol
            seen.append((sizes["b"], sizes["s"]))
            answer = sizes["b"] < 8
    assert seen[:3] == [(8, 9), (8, 4), (3, 9)]
    assert seen[3] == (90, 4), "no sizes twice"
    assert max(b for b, _ in seen[4:] if b < 8) == 7


def test_a_small_dim_stays_where_a_number_is_some_of_it():
    """Two heads of 12 beside a width of 24: of 7 they would be no longer as wide as is said."""
    for number, small in ((24, [9]), (25, [9, 12])):
        sizes = CaseDims(case_of("n", 9, 12, literals=frozenset({number})), {})
        assert sizes._small == small, "dims that may be made smaller"


def test_what_the_user_chose_stays():
    assert all(sizes["b"] == 5 for sizes in further("b", "s", chosen={"b": 5}))


def test_totals_follow_and_one_is_longer():
    found = further("past_length", "sequence", "total_length")
    longer = [sizes["total_length"] - sizes["past_length"] - sizes["sequence"] for sizes in found]
    assert longer.count(0) == len(longer) - 1
    assert max(longer) == 3


def test_no_text_is_longer_than_the_table_of_its_places():
    found = further("b", "s", max_dims={"s": 6})
    assert max(sizes["s"] for sizes in found) == 6
    assert max(sizes["b"] for sizes in found) == 6144


def test_dims_without_a_name_grow_alone():
    """They may follow from others, and the nodes refuse what does not fit."""
    assert further("?1[]", "?2[]") == [
        {"?1[]": one, "?2[]": other} for one, other in ((4, 4), (3, 5), (96, 4), (3, 96), (1536, 4), (3, 1536))
    ]


def test_what_is_too_much_together_is_tried_one_by_one():
    """Beside the first sizes of the others, or beside small ones where that is too much too."""
    found = further("b", "s", 1 << 6, literals=frozenset({48, 300}))
    assert REDUCE_ABOVE_ELEMENTS < 48 * 48 << 6
    assert {"b": 48, "s": 48} not in found
    assert {"b": 48, "s": 4} in found
    assert {"b": 3, "s": 48} in found
    wide = further("b", "s", 1 << 10, literals=frozenset({300}))
    assert {"b": 300, "s": 2} in wide
    assert {"b": 2, "s": 300} in wide


def test_a_case_has_few_elements_and_little_work():
    """More where one dim is long, and near literals; where the first sizes make much, twice of that."""
    width = 1 << 12
    assert LITERAL_ELEMENTS > LONG_ELEMENTS > REDUCE_ABOVE_ELEMENTS
    assert REDUCE_ABOVE_ELEMENTS < width * max(sizes["b"] for sizes in further("b", width)) <= LONG_ELEMENTS
    assert {"b": 100} in further("b", width, literals=frozenset({100}))
    assert max(sizes["b"] for sizes in further("b", 1 << 16)) == 6
    for others in (1 << 4, 1 << 20):
        load = CostTerm((symbol("b"), 8), (others,))
        longest = max(sizes["b"] for sizes in further("b", 8, costs=(load,)))
        assert longest <= max(6, min(LONG_ELEMENTS // 8, COSTLY_WORK // (8 * others)))


def test_the_budget_ends_all_but_the_first_case_of_each_strategy():
    load = CostTerm((symbol("b"), symbol("s")), (1 << 27,))
    few, many = further("b", "s", costs=(load,)), further("b", "s")
    assert {"b": 4, "s": 5} in few
    assert len(few) < len(many) / 2


def test_pictures_are_small_where_all_points_meet():
    """An attention over the points of a picture; elsewhere a side has 32 of them, or 64."""
    height, width = symbol("h"), symbol("w")
    points = (CaseInput("x", (symbol("b"), height * width, 64)),)
    scores = CostTerm((symbol("b"), height * width, height * width), (128,))
    for loads, sides in (((), {32, 64, 1}), ((scores,), {16, 1})):
        sizes = CaseDims(ProofCase(EMPTY, points, ("y",), ProofOptions(), costs=loads), {})
        assert {setting.by_symbol["h"] for setting in next(sizes.runnable())} == sides
    given = CaseDims(ProofCase(EMPTY, points, ("y",), ProofOptions(), costs=(scores,)), {"h": 64})
    assert {setting.by_symbol["h"] for setting in next(given.runnable())} == {64}


def test_what_the_source_never_makes_is_reported_by_its_shape():
    """Sizes that do not fit one another are broadcast; what has no value in a run says nothing."""
    stated = {"y": (symbol("b"), 4), "z": ()}
    known = ProofCase(EMPTY, (), ("y", "z"), ProofOptions(), stated_shapes=stated)
    answers = {"y": np.zeros((2, 4)), "z": np.zeros(3)}
    assert known.is_of_source(answers, DimAssignment({"b": 2}, {}).size)
    assert not known.is_of_source(answers, DimAssignment({"b": 1}, {}).size)
    assert known.is_of_source(answers, DimAssignment({}, {}).size)


def test_what_is_divided_by_nothing_grows_alone_as_what_leaves_nothing_does():
    """As of the batch of a picture's windows, where its height is free: a batch of 48 would be much to compute."""
    batch, height = symbol("s10"), symbol("s25")
    inputs = (CaseInput("x", (8 * batch * (height // 32) // (height // 4), 56 * (height // 4), 128)),)
    usual = CaseDims(ProofCase(EMPTY, inputs, ("y",), ProofOptions()), {}).default()
    assert usual is not None
    assert usual.by_symbol == {"s10": 3, "s25": 32}


def test_the_longest_size_that_is_taken_is_looked_for():
    """Of a table of 300 rows, which is as it is although it was made smaller before."""
    inputs = (CaseInput("x", (symbol("s"), 4)), CaseInput("t", (300, 4)))
    sizes = CaseDims(ProofCase(EMPTY, inputs, ("y",), ProofOptions()), {})
    asked = sizes.longest_accepted(DimAssignment({"s": 1025}, {300: 9}), DimAssignment({"s": 3}, {300: 9}))
    seen, setting = [], next(asked)
    with suppress(StopIteration):
        while True:
            seen.append((setting.by_symbol["s"], setting.reduced))
            setting = asked.send(setting.by_symbol["s"] <= 300)
    assert max(size for size, _ in seen if size <= 300) == 300
    assert all(not shrunk for _, shrunk in seen)
    assert len(seen) <= 11
    assert not [*sizes.longest_accepted(DimAssignment({"s": 1025}, {}), DimAssignment({"s": 3}, {}))], "once"
