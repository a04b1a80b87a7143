"""Sizes that expose faults: one dim changes at a time."""

from contextlib import suppress

import numpy as np
import onnx

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.size_strategies import SizeStrategies
from surgeon.proof.node_cost import CostTerm
from surgeon.proof.proof_case import CaseInput, ProofCase, ProofOptions, RegionModels
from surgeon.shapes.algebra.size_expressions import symbol

EMPTY = RegionModels(onnx.ModelProto(), onnx.ModelProto(), {})


def further(*names: str, chosen=None, **known):
    """The sizes by name of all settings beside batch 3, and so on for each name; a width of 4 besides."""
    inputs = (CaseInput("x", (*map(symbol, names), 4)),)
    sizes = SizeStrategies(ProofCase(EMPTY, inputs, ("y",), ProofOptions(), **known), chosen or {})
    first = DimAssignment({**{name: at + 3 for at, name in enumerate(names)}, **(chosen or {})}, {})
    return [setting.by_symbol for setting in sizes.variations(first)]


def test_each_dim_is_alone_at_a_length_and_at_0_and_at_1_beside_larger_ones():
    found = further("b", "s")
    assert {"b": 1, "s": 7} in found
    assert {"b": 6, "s": 1} in found
    for at in (1025, 0):
        assert {"b": at, "s": 4} in found
        assert {"b": 3, "s": at} in found
    assert found[-2:] == [{"b": 0, "s": 4}, {"b": 3, "s": 0}], "last, for some kernels crash"


def test_all_dims_are_odd_and_even_and_round_and_one_is_twice_another():
    assert {"b": 4, "s": 5} in further("b", "s")
    assert [{"b": b, "s": s} in further("b", "s") for b, s in ((8, 8), (8, 16), (16, 8))] == [True, True, True]
    assert [{"b": size} in further("b") for size in (8, 16)] == [True, True]


def test_numbers_that_the_region_speaks_of_have_neighbours():
    found = further("b", literals=frozenset({16, 1000}))
    assert [{"b": size} in found for size in (15, 16, 17, 999)] == [True, True, True, False]


def test_sizes_that_are_refused_together_are_tried_one_by_one():
    """As of a table whose rows bound one dim alone."""
    inputs = (CaseInput("x", (*map(symbol, "bs"), 4)),)
    sizes = SizeStrategies(ProofCase(EMPTY, inputs, ("y",), ProofOptions()), {})
    first = DimAssignment({"b": 3, "s": 5}, {})
    assert [one.by_symbol for one in sizes.one_at_a_time(DimAssignment({"b": 8, "s": 8}, {}), first)] == [
        {"b": 8, "s": 5},
        {"b": 3, "s": 8},
    ]
    settings = {"b": 8, "s": 8, "?/Slice[0]": 8}
    assert len([*sizes.one_at_a_time(DimAssignment(settings, {}), first)]) == 2, (
        "a size that the first has not is none of its own"
    )
    assert not [*sizes.one_at_a_time(DimAssignment({"b": 8, "s": 5}, {}), first)]
    assert not [*sizes.one_at_a_time(DimAssignment({"b": 0, "s": 0}, {}), first)], (
        "kernels answer anything beside what is empty"
    )


def test_a_small_dim_stays_where_a_number_is_some_of_it():
    """Two heads of 12 beside a width of 24: of 7 they would be no longer as wide as is said."""
    inputs = (CaseInput("x", (symbol("n"), 9, 12)),)
    for number, small in ((24, [9]), (25, [9, 12])):
        sizes = SizeStrategies(ProofCase(EMPTY, inputs, ("y",), ProofOptions(), literals=frozenset({number})), {})
        assert sizes._small == small, "dims that may be made smaller"


def test_what_the_user_chose_stays():
    assert all(sizes["b"] == 5 for sizes in further("b", "s", chosen={"b": 5}))


def test_totals_follow_and_one_is_longer():
    found = further("past_length", "sequence", "total_length")
    longer = [sizes["total_length"] - sizes["past_length"] - sizes["sequence"] for sizes in found]
    assert longer.count(0) == len(longer) - 1
    assert max(longer) > 0


def test_a_sum_of_dims_is_round_once():
    total = symbol("p") + symbol("s")
    inputs = (CaseInput("x", (symbol("p"), 4)), CaseInput("z", (symbol("s"), 4)))
    known = ProofCase(EMPTY, inputs, ("y",), ProofOptions(), costs=(CostTerm((total, 4)), CostTerm((total * 2 + 8, 4))))
    found = [setting.by_symbol for setting in SizeStrategies(known, {}).variations(DimAssignment({"p": 3, "s": 4}, {}))]
    assert sum(sizes["p"] + sizes["s"] == 8 for sizes in found if 1 not in sizes.values()) == 1
    chosen = SizeStrategies(known, {"p": 3}).variations(DimAssignment({"p": 3, "s": 4}, {}))
    assert all(setting.by_symbol["p"] == 3 for setting in chosen)


def test_dims_are_as_long_as_one_that_is_fixed():
    inputs = (CaseInput("x", (symbol("b"), symbol("s"), 24)),)
    found = SizeStrategies(ProofCase(EMPTY, inputs, ("y",), ProofOptions()), {}).variations(
        DimAssignment({"b": 3, "s": 4}, {})
    )
    assert {"b": 24, "s": 24} in [setting.by_symbol for setting in found]


def test_a_batch_stays_where_two_others_take_sizes_in_turn():
    inputs = (CaseInput("x", (symbol("batch"), 3, symbol("height"), symbol("width"))),)
    first = DimAssignment({"batch": 2, "height": 32, "width": 32}, {})
    found = SizeStrategies(ProofCase(EMPTY, inputs, ("y",), ProofOptions()), {}).variations(first)
    assert {"batch": 2, "height": 84, "width": 28} in [setting.by_symbol for setting in found]


def test_no_text_is_longer_than_the_table_of_its_places():
    found = further("b", "s", max_dims={"s": 6})
    assert max(sizes["s"] for sizes in found) == 6
    assert max(sizes["b"] for sizes in found) == 1025


def test_dims_without_a_name_are_long_and_empty_ones_are_left_out_on_request():
    """Each alone: they may follow from others, and the nodes refuse what does not fit."""
    assert further("?1[]", "?2[]") == [
        {"?1[]": 4, "?2[]": 4},
        {"?1[]": 1025, "?2[]": 4},
        {"?1[]": 384, "?2[]": 4},
        {"?1[]": 3, "?2[]": 5},
        {"?1[]": 3, "?2[]": 1025},
        {"?1[]": 3, "?2[]": 384},
    ]
    assert all(sizes["b"] for sizes in further("b", allows_empty=False))


def test_a_length_that_is_too_much_is_left_out():
    wide = (CaseInput("x", (symbol("b"), 1 << 14)),)
    first = DimAssignment({"b": 3}, {})
    found = SizeStrategies(ProofCase(EMPTY, wide, ("y",), ProofOptions()), {}).variations(first)
    assert max(setting.by_symbol["b"] for setting in found) < 129


def test_a_length_that_is_too_much_beside_the_others_is_tried_beside_small_ones():
    wide = (CaseInput("x", (symbol("b"), symbol("s"), 1 << 5)),)
    first = DimAssignment({"b": 3, "s": 5}, {})
    found = SizeStrategies(ProofCase(EMPTY, wide, ("y",), ProofOptions()), {}).variations(first)
    assert {(1025, 2), (2, 1025), (300, 5), (3, 300)} <= {(one.by_symbol["b"], one.by_symbol["s"]) for one in found}


def test_pictures_are_small_where_all_points_meet():
    """An attention over the points of a picture; elsewhere a side has 32 of them, or 64."""
    height, width = symbol("h"), symbol("w")
    points = (CaseInput("x", (symbol("b"), height * width, 64)),)
    scores = CostTerm((symbol("b"), height * width, height * width), (128,))
    for loads, sides in (((), {32, 64, 1}), ((scores,), {16, 1})):
        sizes = SizeStrategies(ProofCase(EMPTY, points, ("y",), ProofOptions(), costs=loads), {})
        assert {setting.by_symbol["h"] for setting in next(sizes.groups())} == sides
    given = SizeStrategies(ProofCase(EMPTY, points, ("y",), ProofOptions(), costs=(scores,)), {"h": 64})
    assert {setting.by_symbol["h"] for setting in next(given.groups())} == {64}


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
    usual = SizeStrategies(ProofCase(EMPTY, inputs, ("y",), ProofOptions()), {}).default()
    assert usual is not None
    assert usual.by_symbol == {"s10": 3, "s25": 32}


def test_the_longest_size_that_is_taken_is_looked_for():
    """Of a table of 300 rows, which is as it is although it was made smaller before."""
    inputs = (CaseInput("x", (symbol("s"), 4)), CaseInput("t", (300, 4)))
    sizes = SizeStrategies(ProofCase(EMPTY, inputs, ("y",), ProofOptions()), {})
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
