"""Sizes for the free dimensions of a cut: several small ones, 1 included, so that dims that follow from others fit."""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TypeAlias

import numpy as np

from surgeon.proof.cases.dim_assignment import DimAssignment, grows_with, size_or_zero
from surgeon.proof.cases.reduced_dims import reduced_dims, restore_in_turn
from surgeon.proof.cases.size_rotation import ROUND, one_dim_at_one, related_sizes, round_totals
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.region.literals import MAX_UNREDUCED_DIM, divides_literal, matches_literal
from surgeon.shapes.algebra.size_expressions import Size, SizeError, symbols
from surgeon.shapes.constraints.constraint_solver import SizeSolver
from surgeon.shapes.constraints.input_dims import SIZES, dim_kind, is_total

OTHERS = (3, 4, 6, 7, 9, 11)  # of dims about which nothing is known: no two alike, so that a mix-up shows
SMALL_OTHERS = (2, 3, 2, 3, 2, 3)
REDUCE_ABOVE_ELEMENTS = 1 << 15  # elements of all inputs: from here on fixed dims are made smaller too
MAX_ELEMENTS = 1 << 25
TOO_MANY_BARE = 1 << 28  # of inputs of which the shape alone is read: nothing is written into them
ALIKE = (4, 3)
FEW = 4  # the same where there is much to compute
# Multiplications, as `Load` counts them.
REDUCE_ABOVE_WORK = 1 << 25  # from here on fixed dims are made smaller too, small ones as well
COSTLY_WORK = 1 << 27  # from here on fewer kinds of inputs are tried, and no sizes beside constants
SMALL_PICTURE = 8  # points on a side, below which a picture is not made smaller
MOST_LONG = 1 << 27  # up to which one dim is long, or several are larger at once
MOST_FURTHER = 1 << 29  # up to which any other setting beside the first is run
MOST_FULL = 1 << 30  # up to which one with all dims as they are is
MOST_AT_ONCE = 1 << 16  # elements up to which several free dims are made larger at once
MAX_FULL_ELEMENTS = 1 << 19  # elements up to which a region is looked at with all dims as they are
# Of one free dim alone, up to how many elements: float16 holds no place beyond 2,048, bytes and bfloat16 none beyond
# 256, windows leave 129 of 144.  Where that is longer, one between them too.
LONG = ((2051, 1 << 14), (1025, 1 << 15), (300, 1 << 20), (144, 1 << 20))
BETWEEN = 384
LONG_LINE, BESIDE_LONG = (1025, 1 << 17), 2  # of one beside which all others are small, but not alone in a mean
# Constants of the region beyond that, of which one is tried as long, and longer by some, as such a line; and those that
# are shorter, up to how many elements.
MOST_LONGER, LONGER, MOST_WINDOW = 2, 9, 1 << 20
BESIDE_ONE = 3  # added to the others where one free dim is 1: one row of many, as the first are of few
BESIDE = (4, 64)  # constants of the region that free dims are tried beside of: larger and smaller ones are no lengths
_HALVES = ((ROUND, 2 * ROUND), (2 * ROUND, ROUND))  # of dims in turn: one is half of the next, each of either size
MOST_BESIDE = 3  # such constants
MOST_UNNAMED = 3  # dims without a name that are made large
MOST_ROWS = 1 << 21  # elements up to which all fixed dims are as they are beside rows of a dim that nodes take
LEAST_LONG = 64  # rows from which on the nodes are asked how many they take, where they do not take them
MOST_RAISED = 1 << 16  # of a free dim of which windows and slices leave nothing where it is small
_Given: TypeAlias = Mapping[str, int]
Halving: TypeAlias = Generator[DimAssignment, bool | None, None]


class SizeStrategies:
    """What each dim of an experiment's inputs is in one run: by size as the source states it."""

    def __init__(self, experiment: ProofCase, chosen: Mapping[str, int]) -> None:
        self._most = experiment.max_dims
        self._wishes, self._takes_empty = experiment.size_constraints, experiment.allows_empty
        self._dims = list(dict.fromkeys(size for item in experiment.inputs for size in item.shape))
        bare = experiment.shape_only_inputs
        self._shapes = [item.shape for item in experiment.inputs if item.name not in bare]
        self._bare = [item.shape for item in experiment.inputs if item.name in bare]
        self._by_value = [item.value for item in experiment.inputs if item.value is not None]
        values = [item for value in self._by_value for item in value.reshape(-1)]
        self._symbols = list(dict.fromkeys(name for size in (*self._dims, *values) for name in sorted(symbols(size))))
        self._chosen = {name: size for name, size in chosen.items() if name in self._symbols}
        self._fitting: SizeSolver | None = None
        self._halved = set[str]()  # dims of which the longest size was looked for
        self._pinned, self._values = experiment.literals, experiment.value_literals
        self._places = self._values if experiment.position_literals is None else experiment.position_literals
        self._loads = experiment.costs
        fixed = sorted({size for size in self._dims if isinstance(size, int) and size > FEW})
        may_shrink = [size for size in fixed if size not in self._pinned and not matches_literal(size, self._pinned)]
        self._shrinkable = [size for size in may_shrink if size > MAX_UNREDUCED_DIM]
        self._taken = self._pinned.union(size for size in self._dims if isinstance(size, int))
        self._small = [
            size for size in may_shrink if size <= MAX_UNREDUCED_DIM and not divides_literal(size, self._pinned)
        ]

    def groups(self) -> Iterator[list[DimAssignment]]:
        """Groups of settings; a later group is for a region that runs at none of the former.

        Those with fixed dims made smaller come first: what fails there may be right at its true sizes.  Free dims that
        differ come before those that fit one another as the nodes want it, and free dims that are alike, as they may
        have to be.  Dims of size 0 or less that nobody asked for, and inputs too large to make, are left out.
        """
        seen: list[dict[Size, int]] = []
        usual, small = self._lighter(self._by_kind(0, OTHERS)), self._lighter(self._by_kind(1, SMALL_OTHERS))
        larger = {name: size * 16 for name, size in usual.items()}
        ones, *alike = (dict.fromkeys(self._symbols, size) for size in (1, *ALIKE))
        for shrunk in (self._shrunk, self._shrunk_further, *self._with_one_kept(), lambda _: {}):
            for sets in self._sets(usual, small, ones, alike=alike, larger=larger):
                group: list[DimAssignment] = []
                for by_symbol in (self._totalled({**sizes, **self._chosen}) for sizes in sets):
                    setting = self._settled(by_symbol, shrunk)
                    if setting is not None and setting.dims not in seen:
                        seen.append(setting.dims)
                        group.append(setting)
                if group:
                    yield group

    def _sets(
        self, usual: _Given, small: _Given, ones: _Given, alike: Sequence[_Given], larger: _Given
    ) -> Iterator[Sequence[_Given]]:
        """Sizes by symbol for each group; those that are made to fit are looked for only where the first do not run."""
        yield usual, small, ones
        if len(self._symbols) > 1:
            yield tuple(self._fitted(sizes) for sizes in (usual, small))
        yield *alike, ones
        yield tuple(self._raised(sizes) for sizes in (usual, small))
        yield (larger,)
        if len(self._symbols) > 1:
            yield (self._fitted(larger),)

    def _fitted(self, sizes: _Given) -> _Given:
        """The same with those that follow from others; as they are where one cannot be computed."""
        if self._fitting is None:
            self._fitting = SizeSolver(self._wishes)
        try:
            return self._fitting.sizes(sizes, self._chosen)
        except SizeError:
            return sizes

    def _raised(self, sizes: _Given) -> _Given:
        """The same with those doubled of which nothing is left, as of 5 samples behind a window of 256.

        The first of each dim that grows; as they are where no size up to `MOST_RAISED` leaves something.
        """
        raised = {**sizes, **self._chosen}
        while (lacking := self._lacking(raised)) is not None:
            names = [name for name in sorted(symbols(lacking)) if name not in self._chosen]
            growing = (name for name in names if raised[name] < MOST_RAISED and grows_with(lacking, name, MOST_RAISED))
            found = next(growing, None)
            if found is None:
                return sizes
            raised[found] = max(1, raised[found] * 2)
        return raised

    def _lacking(self, sizes: dict[str, int]) -> Size | None:
        """A dim of which nothing is left, or that is divided by nothing, if there is one."""
        given = self._totalled(sizes)
        return next((size for size in self._dims if size_or_zero(size, given) <= 0), None)

    def default(self) -> DimAssignment | None:
        """The first setting that is tried; None where there is none."""
        group = next(self.groups(), None)
        return group[0] if group else None

    def full(self, most: int) -> Iterator[DimAssignment]:
        """The usual sizes with all fixed dims as they are, where that makes no more than `most` elements.

        Else each of them in turn, beside as many others as make no more than `MOST_AT_ONCE`, the rest smaller.
        """
        setting = self.as_it_is()
        if setting and setting.elements <= most and setting.work <= MOST_FULL:
            yield setting
            return
        sizes = {**self._by_kind(0, OTHERS), **self._chosen}

        def made(shrunk: Mapping[int, int]) -> DimAssignment | None:
            return self._settled(sizes, lambda _: shrunk)

        def fits(shrunk: Mapping[int, int], is_one: bool) -> bool:
            most, found = MAX_FULL_ELEMENTS if is_one else MOST_AT_ONCE, made(shrunk)
            return found is not None and found.elements <= most and found.work <= MOST_LONG

        yield from filter(None, map(made, restore_in_turn(self._shrunk(sizes), fits)))

    def as_it_is(self) -> DimAssignment | None:
        """The same however much that makes; None where its inputs are too large to make."""
        return self._settled({**self._by_kind(0, OTHERS), **self._chosen}, lambda _: {})

    def variations(self, first: DimAssignment) -> Iterator[DimAssignment]:
        """Settings that differ from one at which a region ran in what often goes wrong, one at a time.

        All free dims that have a name one larger, where what was even is odd; all at round sizes, and so that a sum
        of several is one; in turn at others, few times one another; all at, and one beside, constants that the region
        speaks of, where that costs little; each at 1, the others a little larger, or many; each alone at a length that
        no small buffer holds, then at 0.  What other sizes follow from is changed for all; a total of past and new is
        longer too, as a mask may be.  Each alone is also as long as longer constants.  Dims without a name may follow
        from others: each of a few is one larger, and long, alone, which the nodes refuse then.
        """
        base = dict(first.by_symbol)
        named = [name for name in self._symbols if not name.startswith("?") and name not in self._chosen]
        alone = [name for name in named if not is_total(name)]
        sets: list[dict[str, int]] = [{name: base[name] + 1 for name in named}]
        sets += [dict.fromkeys(named, ROUND)]
        sets += [{name: pair[place % 2] for place, name in enumerate(named)} for pair in _HALVES]
        made = (size for load in self._loads for size in load.each)
        sets += round_totals((*self._dims, *made), base, frozenset(alone))
        sets += self._in_turn(named, first)
        spoken = sorted({number for number in self._pinned if BESIDE[0] <= number <= BESIDE[1]})[:MOST_BESIDE]
        if first.work <= COSTLY_WORK:
            sets += [dict.fromkeys(named, number + by) for number in spoken for by in (0, -1, 1)]
        sets = [part for sizes in sets for part in self._in_parts(sizes, first)]
        beside = {name: base[name] + BESIDE_ONE for name in alone if first.work <= COSTLY_WORK}
        sets += [{**beside, name: 1} for name in alone]
        sets += [sizes for sizes in one_dim_at_one(alone) if self._is_little(sizes, first)]
        sets += [sizes for name in alone for sizes in self._long(name, first)]
        unnamed = [name for name in self._symbols if name.startswith("?") and name not in self._chosen]
        for name in unnamed[:MOST_UNNAMED] if first.work <= COSTLY_WORK else ():
            sets += [{name: base[name] + 1}, *self._long(name, first)]
        if self._takes_empty:
            sets += [{name: 0} for name in alone]
        longer = [{name: base[name] + BESIDE_ONE} for name in named if is_total(name)]
        seen = [base]
        for sizes in filter(None, [*sets, *longer]):
            bounded = {name: min(size, self._most.get(name, size)) for name, size in sizes.items()}
            by_symbol = self._totalled({**base, **bounded, **self._chosen}) | (bounded if sizes in longer else {})
            if 0 in bounded.values():  # kernels take what does not fit beside what is empty, and answer anything
                by_symbol = dict(self._fitted(by_symbol))
                if 0 not in by_symbol.values():
                    continue
            setting = self._settled(by_symbol, lambda _: first.reduced, empty=True)
            if setting is not None and by_symbol not in seen and setting.work <= max(MOST_FURTHER, first.work):
                seen.append(by_symbol)
                yield setting

    def one_at_a_time(self, together: DimAssignment, first: DimAssignment) -> Iterator[DimAssignment]:
        """Settings that each differ from the first in one of its free dims in which another, without 0, does."""
        base, changed = first.by_symbol, together.by_symbol
        names = [name for name in base if changed.get(name, base[name]) != base[name] and not is_total(name)]
        for name in names if len(names) > 1 and 0 not in changed.values() else ():
            setting = self._beside(first, {name: changed[name]})
            if setting is not None:
                yield setting

    def longest_accepted(self, refused: DimAssignment, first: DimAssignment) -> Halving:
        """Settings on the way to the longest size of a dim that the nodes take, where they refuse one.

        It is told of each whether they took it.  Each dim is asked for once, and long ones alone.
        """
        name, high = max(refused.by_symbol.items(), key=lambda item: item[1], default=("", 0))
        if high < LEAST_LONG or name in self._halved:
            return
        self._halved.add(name)
        low = first.by_symbol.get(name, 1)
        while high - low > 1:
            middle = (low + high) // 2
            setting = self._shorter(refused, name, middle)
            is_taken = setting is not None and (yield setting)
            low, high = (middle, high) if is_taken else (low, middle)

    def _shorter(self, setting: DimAssignment, name: str, size: int) -> DimAssignment | None:
        """The same with another size of one dim, the others small; with all fixed dims as they are, if that is little.

        A table that was made smaller has fewer rows than the dim may be long.
        """
        others = {other: min(own, BESIDE_LONG) for other, own in setting.by_symbol.items() if not is_total(other)}
        by_symbol = self._totalled({**setting.by_symbol, **others, **self._chosen, name: size})
        whole = self._settled(by_symbol, lambda _: {})
        if whole is not None and whole.elements <= MOST_ROWS and whole.work <= MOST_LONG:
            return whole
        return self._settled(by_symbol, lambda _: setting.reduced)

    def _long(self, name: str, first: DimAssignment) -> Iterator[dict[str, int]]:
        """The longest sizes of one dim that are not too much, and where that is not the longest, beside small ones."""

        def fits(sizes: Mapping[str, int], most: int) -> bool:
            setting = self._beside(first, sizes)
            return setting is not None and setting.elements <= most and setting.work <= max(MOST_LONG, first.work)

        def beside(other: str) -> int:  # where several batches stand behind a past, counts of its rows do not fit all
            return 1 if dim_kind(name) == "past" and dim_kind(other) == "batch" else BESIDE_LONG

        for size, most in LONG:
            rows = min(size, self._most.get(name, size))
            if fits({name: rows}, most):
                yield {name: rows}
                if rows > BETWEEN and fits({name: BETWEEN}, most):
                    yield {name: BETWEEN}
                break
        size, most = LONG_LINE
        longer = sorted(number for number in self._pinned if size <= number < MOST_RAISED)[:MOST_LONGER]
        is_long = any(long >= size and fits({name: long}, few) for long, few in LONG)
        lines = [] if is_long else [(size, most)]
        lines += [(number + by, most) for number in longer for by in (0, LONGER)]
        lines += [(number + by, MOST_WINDOW) for number in self._lengths() for by in (0, LONGER)]
        for size, most in lines:
            line = {**{other: beside(other) for other in self._symbols if not is_total(other)}, name: size}
            if size <= self._most.get(name, size) and fits(line, most):
                yield line

    def _in_turn(self, names: Sequence[str], first: DimAssignment) -> Iterator[dict[str, int]]:
        """Sizes that all take in turn, or that all have that is a fixed dim, or each alone, where that is little."""
        fixed = sorted(size for size in self._dims if isinstance(size, int) and BESIDE_LONG < size <= BESIDE[1])
        for sizes in (*related_sizes(names), *(dict.fromkeys(names, size) for size in fixed[-1:])):
            yield from (part for part in self._in_parts(sizes, first) if self._is_little(part, first))

    def _is_little(self, sizes: Mapping[str, int], first: DimAssignment, work: int = REDUCE_ABOVE_WORK) -> bool:
        setting = self._beside(first, sizes, empty=True)
        return setting is not None and setting.elements <= MOST_AT_ONCE and setting.work <= work

    def _lengths(self) -> list[int]:
        """Constants of the region between the short and the long sizes that are no fixed dims, nor products of two."""
        fixed = {size for size in self._dims if isinstance(size, int)}
        fixed |= {one * other for one in fixed for other in fixed}
        return sorted(number for number in self._values - fixed if BESIDE[1] < number < LONG_LINE[0])[:MOST_LONGER]

    def _in_parts(self, sizes: Mapping[str, int], first: DimAssignment) -> Iterator[dict[str, int]]:
        """Sizes to change together; where that makes much to compute, one by one."""
        is_little = self._is_little(sizes, first, MOST_LONG)
        yield from [dict(sizes)] if is_little else ({name: size} for name, size in sizes.items())

    def _beside(self, first: DimAssignment, sizes: Mapping[str, int], *, empty: bool = False) -> DimAssignment | None:
        """A setting that differs from another in these sizes."""
        return self._settled(self._totalled({**first.by_symbol, **sizes}), lambda _: first.reduced, empty=empty)

    def _totalled(self, sizes: dict[str, int]) -> dict[str, int]:
        """The same with totals of past and new as the sums that they are, by their names or as the nodes want it."""
        total = [name for name in self._symbols if is_total(name) and name not in self._chosen]
        if not total:
            return sizes
        past = next((name for name in self._symbols if dim_kind(name) == "past" and not is_total(name)), None)
        new = next((name for name in self._symbols if dim_kind(name) == "sequence" and not is_total(name)), None)
        if past is not None and new is not None:
            return {**sizes, **dict.fromkeys(total, sizes[past] + sizes[new])}
        fitted = self._fitted(sizes)
        return {**sizes, **{name: fitted[name] for name in total}}

    def _settled(
        self, by_symbol: dict[str, int], shrunk: Callable[[dict[str, int]], Mapping[int, int]], *, empty: bool = False
    ) -> DimAssignment | None:
        """A setting with the dims that it gives; None where some dim is none, or all of them are too much.

        empty: dims may be 0 that nobody asked for.
        """
        try:
            setting = DimAssignment(by_symbol, shrunk(by_symbol))
            setting.dims = {size: setting.size(size) for size in self._dims}
            for leaf in self._by_value:
                setting.value(leaf, np.dtype(object))
        except SizeError:
            return None
        setting.elements, setting.work = self._elements(setting), self._work(setting)
        setting.is_empty = 0 in setting.dims.values()
        free = by_symbol.keys() - self._chosen.keys()
        setting.is_informative = not free or any(by_symbol[name] != 1 for name in free)
        asked = {size for size in self._dims if size == 0 or symbols(size) & self._chosen.keys()}
        good = all(number > 0 or (number == 0 and (empty or size in asked)) for size, number in setting.dims.items())
        bare = sum(math.prod(map(setting.size, shape)) for shape in self._bare) if good else 0
        return setting if good and self._given(setting) <= MAX_ELEMENTS and bare <= TOO_MANY_BARE else None

    def _by_kind(self, place: int, others: tuple[int, ...]) -> dict[str, int]:
        """A size for each symbol: that of its kind, or one of the others in turn."""
        turn = cycle(others)
        kinds = {name: dim_kind(name) for name in self._symbols}
        return {name: next(turn) if kind == "other" else SIZES[kind][place] for name, kind in kinds.items()}

    def _lighter(self, sizes: dict[str, int]) -> dict[str, int]:
        """The same with smaller pictures, as long as there is much to compute: an attention is between all points."""
        names = [name for name in sizes.keys() - self._chosen if dim_kind(name) == "image"]
        while names and sizes[names[0]] > SMALL_PICTURE:
            setting = self._settled({**sizes, **self._chosen}, self._shrunk)
            if setting is None or setting.work <= COSTLY_WORK:
                return sizes
            sizes |= {name: sizes[name] // 2 for name in names}
        return sizes

    def _elements(self, setting: DimAssignment) -> int:
        """How many elements all inputs have, or the largest tensor that the nodes make of them where that is larger."""
        return max(self._given(setting), *(load.elements(setting.size) for load in self._loads), 0)

    def _given(self, setting: DimAssignment) -> int:
        return sum(math.prod(map(setting.size, shape)) for shape in self._shapes)

    def _work(self, setting: DimAssignment) -> int:
        return sum(load.at(setting.size) for load in self._loads)

    def _shrunk(self, symbol_sizes: dict[str, int]) -> dict[int, int]:
        """Smaller stand-ins for large fixed dims that no constant and no attribute speaks of.

        A stand-in stays above every smaller number that is spoken of: a Slice of the first 100 must not become all.
        """
        true = DimAssignment(symbol_sizes, {})
        is_much = self._work(true) > REDUCE_ABOVE_WORK
        if self._elements(true) <= REDUCE_ABOVE_ELEMENTS and not is_much:
            return {}
        sizes = [*self._small, *self._shrinkable] if is_much else self._shrinkable
        return reduced_dims(sizes, self._taken, self._places)

    def _shrunk_further(self, symbol_sizes: dict[str, int]) -> dict[int, int]:
        """The same where that is still too much: only numbers that are no dims themselves are stayed above."""
        if self._given(DimAssignment(symbol_sizes, self._shrunk(symbol_sizes))) <= MAX_ELEMENTS:
            return self._shrunk(symbol_sizes)
        places = self._places.difference(size for size in self._dims if isinstance(size, int))
        return reduced_dims(self._shrinkable, self._taken, places)

    def _with_one_kept(self) -> Iterator[Callable[[dict[str, int]], Mapping[int, int]]]:
        """The same but for one dim, for each: what fails with it made smaller may hang on its true size."""

        def shrunk(kept: int, sizes: dict[str, int]) -> Mapping[int, int]:
            return {size: now for size, now in self._shrunk(sizes).items() if size != kept}

        yield from (partial(shrunk, kept) for kept in self._shrinkable)
