"""Culprits are found by halving: alone, several, joint, and none."""

import math
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto

from surgeon.proof.check_result import Outcome
from surgeon.proof.model.bisect import find_culprits, minimal_part
from surgeon.proof.model.model_check import ModelCheck
from tests import sampling
from tests.test_model_check import body


class Counted:
    """A test that fails when it is given all items of any of these groups; counts its calls."""

    def __init__(self, groups: Sequence[frozenset[int]]) -> None:
        self.groups = groups
        self.calls: list[tuple[int, ...]] = []

    def __call__(self, items: Sequence[int]) -> bool:
        self.calls.append(tuple(items))
        return any(group <= set(items) for group in self.groups)


def bound(count: int, found: int) -> int:
    """What `find_culprits` promises."""
    return 1 + found * (1 + math.ceil(math.log2(max(count, 1))))


@settings(max_examples=sampling.examples(300), deadline=None)
@given(data=st.data(), count=st.integers(1, 300))
def test_a_part_of_which_each_item_is_needed(data: st.DataObject, count: int) -> None:
    """All items of one group are left and no other; a single one takes at most two calls for each halving."""
    group = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=6))
    fails = Counted([frozenset(group)])
    assert minimal_part(range(count), fails) == sorted(group)
    assert len(group) > 1 or len(fails.calls) <= 2 * math.ceil(math.log2(count))


def test_a_search_that_is_stopped_gives_what_fails_by_then() -> None:
    fails = Counted([frozenset({3})])
    assert minimal_part(range(16), fails, lambda: len(fails.calls) < 2) == [*range(8)]


@settings(max_examples=sampling.examples(300), deadline=None)
@given(data=st.data(), count=st.integers(1, 300))
def test_all_that_fail_alone_are_found_and_no_other(data: st.DataObject, count: int) -> None:
    """In their order, with about log2 n calls for each."""
    culprits = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=6))
    fails = Counted([frozenset({item}) for item in culprits])
    assert find_culprits(range(count), fails) == sorted(culprits)
    assert len(fails.calls) <= bound(count, len(culprits))


@settings(max_examples=sampling.examples(300), deadline=None)
@given(data=st.data(), count=st.integers(2, 100))
def test_of_joint_culprits_enough_are_found_and_none_too_many(data: st.DataObject, count: int) -> None:
    """Without those found nothing fails; with any one of them back it does."""
    group = st.frozensets(st.integers(0, count - 1), min_size=1, max_size=4)
    fails = Counted(data.draw(st.lists(group, min_size=1, max_size=5)))
    found = find_culprits(list(range(count)), fails)
    assert len(fails.calls) <= bound(count, len(found))
    rest = [item for item in range(count) if item not in found]
    assert not fails(rest)
    for item in found:
        assert fails([*rest, item])


@settings(max_examples=sampling.examples(200), deadline=None)
@given(count=st.integers(1, 40), seed=st.integers(0, 1 << 30))
def test_where_nothing_is_monotone_the_rest_still_passes(count: int, seed: int) -> None:
    """Any answers at all: the last word is a call that passed, or nothing is left."""
    known: dict[tuple[int, ...], bool] = {(): False, tuple(range(count)): True}

    def fails(items: Sequence[int]) -> bool:
        return known.setdefault(tuple(items), hash((seed, tuple(items))) % 2 == 0)

    found = find_culprits(list(range(count)), fails)
    assert found
    assert not known[tuple(item for item in range(count) if item not in found)]


def test_one_of_a_pair_is_named() -> None:
    """Two that fail only together: the later one, and no more."""
    assert find_culprits("abcdef", lambda items: {"b", "e"} <= set(items)) == ["e"]


def test_a_fault_of_nobody_is_pinned_on_nobody() -> None:
    """What fails without any item is not theirs."""
    fails: Callable[[Sequence[int]], bool] = lambda items: True  # noqa: E731  # the shortest test there is
    assert find_culprits([1, 2, 3], fails) == []
    assert find_culprits([], fails) == []


def test_items_need_no_hash_and_may_be_equal() -> None:
    """Items are told apart by their place."""
    items = [{"bad": False}, {"bad": True}, {"bad": False}, {"bad": True}]
    found = find_culprits(items, lambda part: any(item["bad"] for item in part))
    assert found == [{"bad": True}, {"bad": True}]


def test_one_culprit_in_twenty_thousand_costs_seventeen_calls() -> None:
    """1 for nobody, 15 to halve, 1 to see that the rest passes."""
    fails = Counted([frozenset({12_345})])
    assert find_culprits(range(20_000), fails) == [12_345]
    assert len(fails.calls) <= 17


def test_two_wrong_rewrites_of_a_model_are_named() -> None:
    """Sixteen sites, two of them wrong: each call holds a model with some of the rewrites against the original."""

    def rewritten(chosen: Sequence[int]) -> ModelProto:
        spelt = {site: "Neg(c{0})" if site in (3, 12) else "Sub(z, s{0})" for site in chosen}
        steps = (
            f"s{{0}} = Sin(t{{0}}) c{{0}} = Cos(t{{0}}) t{{1}} = {spelt.get(site, 'Neg(s{0})')}" for site in range(16)
        )
        nodes = " ".join(step.format(site, site + 1) for site, step in enumerate(steps))
        return body(f"z = Constant<value_float = 0.0>() t0 = Identity(x) {nodes} y = Identity(t16)")

    original = rewritten(())
    against = ModelCheck(original, original)
    calls: list[Sequence[int]] = []

    def fails(chosen: Sequence[int]) -> bool:
        calls.append(chosen)
        return against.check(rewritten(chosen)).outcome is Outcome.FAILED

    assert fails(range(16))
    assert find_culprits(range(16), fails) == [3, 12]
    assert len(calls) <= 1 + bound(16, 2)
