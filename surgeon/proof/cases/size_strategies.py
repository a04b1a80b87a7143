"""Sizes for the dynamic dims of a slice: several small ones, 1 included, so that dependent dims are consistent."""

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

OTHERS = (3, 4, 6, 7, 9, 11)  # for dims of unknown kind: all different, so that a mix-up shows
SMALL_OTHERS = (2, 3, 2, 3, 2, 3)
REDUCE_ABOVE_ELEMENTS = 1 << 15  # elements of all inputs above which fixed dims are reduced
MAX_ELEMENTS = 1 << 25
TOO_MANY_BARE = 1 << 28  # elements of inputs of which only the shape is read: nothing is written into them
ALIKE = (4, 3)
FEW = 4  # fixed dims up to here are never reduced
# Multiplications, as `CostTerm` counts them.
REDUCE_ABOVE_WORK = 1 << 25  # above this, fixed dims are reduced, small ones too
COSTLY_WORK = 1 << 27  # above this, fewer kinds of inputs are tried, and no sizes beside literals
SMALL_PICTURE = 8  # points on a side, below which a picture is not reduced
MAX_LONG = 1 << 27  # up to which one dim is long, or several are larger at once
MAX_FURTHER = 1 << 29  # up to which further sizes run
MAX_TRUE = 1 << 30  # up to which true dims run
MAX_AT_ONCE = 1 << 16  # elements up to which several dynamic dims grow at once
MAX_FULL_ELEMENTS = 1 << 19  # elements up to which a region runs at its true dims
# Lengths of one dynamic dim, each up to so many elements: float16 cannot count beyond 2,048, bytes and bfloat16 beyond
# 256, and windows leave 129 of 144.  For long ones, one in between too.
LONG = ((2051, 1 << 14), (1025, 1 << 15), (300, 1 << 20), (144, 1 << 20))
BETWEEN = 384
LONG_LINE, BESIDE_LONG = (1025, 1 << 17), 2  # of one dim while all others are small, though not 1
# Longer literals: how many to try as lengths, how much longer too, and up to how many elements for shorter ones.
MAX_LONGER, LONGER, MAX_WINDOW = 2, 9, 1 << 20
BESIDE_ONE = 3  # added to the other dims where one is 1
BESIDE = (4, 64)  # range of literals that dynamic dims are tried beside: others are not lengths
_HALVES = ((ROUND, 2 * ROUND), (2 * ROUND, ROUND))  # of dims in turn: one is half of the next
MAX_BESIDE = 3  # such literals
MAX_UNNAMED = 3  # nameless dims that grow
MAX_ROW_ELEMENTS = 1 << 21  # up to which fixed dims are not reduced while the longest accepted size is searched
MIN_LONG = 64  # rejected length from which the longest accepted one is searched
MAX_RAISED = 1 << 16  # of a dynamic dim of which windows and slices leave nothing at small sizes
_Given: TypeAlias = Mapping[str, int]
SizeSearch: TypeAlias = Generator[DimAssignment, bool | None, None]


class SizeStrategies:
    """The sizes of each dim of a case's inputs, for one run after the other.

    All strategies read the same dims, literals and costs of the case, so it has more than twelve attributes.
    """

    def __init__(self, case: ProofCase, chosen: Mapping[str, int]) -> None:
        self._most = case.max_dims
        self._constraints, self._allows_empty = case.size_constraints, case.allows_empty
        self._dims = list(dict.fromkeys(size for item in case.inputs for size in item.shape))
        bare = case.shape_only_inputs
        self._shapes = [item.shape for item in case.inputs if item.name not in bare]
        self._bare = [item.shape for item in case.inputs if item.name in bare]
        self._by_value = [item.value for item in case.inputs if item.value is not None]
        values = [item for value in self._by_value for item in value.reshape(-1)]
        self._symbols = list(dict.fromkeys(name for size in (*self._dims, *values) for name in sorted(symbols(size))))
        self._chosen = {name: size for name, size in chosen.items() if name in self._symbols}
        self._solver: SizeSolver | None = None
        self._searched = set[str]()  # dims whose longest accepted size was searched
        self._literals, self._values = case.literals, case.value_literals
        self._places = self._values if case.position_literals is None else case.position_literals
        self._costs = case.costs
        fixed = sorted({size for size in self._dims if isinstance(size, int) and size > FEW})
        may_shrink = [
            size for size in fixed if size not in self._literals and not matches_literal(size, self._literals)
        ]
        self._reducible = [size for size in may_shrink if size > MAX_UNREDUCED_DIM]
        self._taken = self._literals.union(size for size in self._dims if isinstance(size, int))
        self._small = [
            size for size in may_shrink if size <= MAX_UNREDUCED_DIM and not divides_literal(size, self._literals)
        ]

    def groups(self) -> Iterator[list[DimAssignment]]:
        """Groups of sizes; a later group is for a region that runs at none of the earlier ones.

        Reduced fixed dims come first: a failure there may pass at the true dims.  Different dynamic dims come before
        consistent ones that the nodes' constraints give, and before equal ones.  Dims of size 0 or less that the user
        did not ask for, and inputs that are too large, are left out.
        """
        seen: list[dict[Size, int]] = []
        usual, small = self._lighter(self._by_kind(0, OTHERS)), self._lighter(self._by_kind(1, SMALL_OTHERS))
        larger = {name: size * 16 for name, size in usual.items()}
        ones, *alike = (dict.fromkeys(self._symbols, size) for size in (1, *ALIKE))
        for shrunk in (self._reduced_dims, self._reduced_further, *self._reduced_but_one(), lambda _: {}):
            for sets in self._sets(usual, small, ones=ones, alike=alike, larger=larger):
                group: list[DimAssignment] = []
                for by_symbol in (self._with_totals({**sizes, **self._chosen}) for sizes in sets):
                    assignment = self._assign(by_symbol, shrunk)
                    if assignment is not None and assignment.dims not in seen:
                        seen.append(assignment.dims)
                        group.append(assignment)
                if group:
                    yield group

    def _sets(
        self, usual: _Given, small: _Given, *, ones: _Given, alike: Sequence[_Given], larger: _Given
    ) -> Iterator[Sequence[_Given]]:
        """Sizes by symbol for each group; consistent ones are computed only where the first do not run."""
        yield usual, small, ones
        if len(self._symbols) > 1:
            yield tuple(self._solved(sizes) for sizes in (usual, small))
        yield *alike, ones
        yield tuple(self._raised(sizes) for sizes in (usual, small))
        yield (larger,)
        if len(self._symbols) > 1:
            yield (self._solved(larger),)

    def _solved(self, sizes: _Given) -> _Given:
        """The same sizes with dependent ones computed; unchanged where one cannot be computed."""
        if self._solver is None:
            self._solver = SizeSolver(self._constraints)
        try:
            return self._solver.sizes(sizes, self._chosen)
        except SizeError:
            return sizes

    def _raised(self, sizes: _Given) -> _Given:
        """The same sizes with those doubled of which nothing is left, as of 5 samples after a window of 256.

        The first symbol of each dim that grows with it; unchanged where no size up to `MAX_RAISED` leaves something.
        """
        raised = {**sizes, **self._chosen}
        while (lacking := self._lacking(raised)) is not None:
            names = [name for name in sorted(symbols(lacking)) if name not in self._chosen]
            growing = (name for name in names if raised[name] < MAX_RAISED and grows_with(lacking, name, MAX_RAISED))
            found = next(growing, None)
            if found is None:
                return sizes
            raised[found] = max(1, raised[found] * 2)
        return raised

    def _lacking(self, sizes: dict[str, int]) -> Size | None:
        """A dim of size 0 or less or without a value, if there is one."""
        given = self._with_totals(sizes)
        return next((size for size in self._dims if size_or_zero(size, given) <= 0), None)

    def default(self) -> DimAssignment | None:
        """The first sizes to try; None where there are none."""
        group = next(self.groups(), None)
        return group[0] if group else None

    def full(self, most: int) -> Iterator[DimAssignment]:
        """The usual sizes with true fixed dims, where that makes at most `most` elements.

        Otherwise each fixed dim in turn is true, with as many others as make at most `MAX_AT_ONCE`, and the rest
        reduced.
        """
        assignment = self.as_it_is()
        if assignment and assignment.elements <= most and assignment.work <= MAX_TRUE:
            yield assignment
            return
        sizes = {**self._by_kind(0, OTHERS), **self._chosen}

        def made(shrunk: Mapping[int, int]) -> DimAssignment | None:
            return self._assign(sizes, lambda _: shrunk)

        def fits(shrunk: Mapping[int, int], is_one: bool) -> bool:
            most, found = MAX_FULL_ELEMENTS if is_one else MAX_AT_ONCE, made(shrunk)
            return found is not None and found.elements <= most and found.work <= MAX_LONG

        yield from filter(None, map(made, restore_in_turn(self._reduced_dims(sizes), fits)))

    def as_it_is(self) -> DimAssignment | None:
        """The usual sizes with true fixed dims, whatever their work; None where the inputs are too large."""
        return self._assign({**self._by_kind(0, OTHERS), **self._chosen}, lambda _: {})

    def variations(self, first: DimAssignment) -> Iterator[DimAssignment]:
        """Sizes that differ from the first ones in what often goes wrong, one difference at a time.

        All named dynamic dims one larger, so that even becomes odd; all at round sizes, or with a round total; in turn
        at others that are few times one another; all at and beside literals, where that is cheap; each at 1 with the
        others larger, or many; each by itself at a length that exceeds small buffers, then at 0.  Dependent sizes
        change with them; a total of past and new is longer too, as a mask may be.  Each by itself is also as long as
        longer literals.  Nameless dims may depend on others: a few are one larger, and long, by themselves, where the
        nodes may reject that.
        """
        base = dict(first.by_symbol)
        named = [name for name in self._symbols if not name.startswith("?") and name not in self._chosen]
        alone = [name for name in named if not is_total(name)]
        sets: list[dict[str, int]] = [{name: base[name] + 1 for name in named}]
        sets += [dict.fromkeys(named, ROUND)]
        sets += [{name: pair[place % 2] for place, name in enumerate(named)} for pair in _HALVES]
        made = (size for cost in self._costs for size in cost.each)
        sets += round_totals((*self._dims, *made), base, frozenset(alone))
        sets += self._in_turn(named, first)
        literals = sorted({number for number in self._literals if BESIDE[0] <= number <= BESIDE[1]})[:MAX_BESIDE]
        if first.work <= COSTLY_WORK:
            sets += [dict.fromkeys(named, number + by) for number in literals for by in (0, -1, 1)]
        sets = [part for sizes in sets for part in self._in_parts(sizes, first)]
        beside = {name: base[name] + BESIDE_ONE for name in alone if first.work <= COSTLY_WORK}
        sets += [{**beside, name: 1} for name in alone]
        sets += [sizes for sizes in one_dim_at_one(alone) if self._is_little(sizes, first)]
        sets += [sizes for name in alone for sizes in self._long(name, first)]
        unnamed = [name for name in self._symbols if name.startswith("?") and name not in self._chosen]
        for name in unnamed[:MAX_UNNAMED] if first.work <= COSTLY_WORK else ():
            sets += [{name: base[name] + 1}, *self._long(name, first)]
        if self._allows_empty:
            sets += [{name: 0} for name in alone]
        longer = [{name: base[name] + BESIDE_ONE} for name in named if is_total(name)]
        seen = [base]
        for sizes in filter(None, [*sets, *longer]):
            bounded = {name: min(size, self._most.get(name, size)) for name, size in sizes.items()}
            by_symbol = self._with_totals({**base, **bounded, **self._chosen}) | (bounded if sizes in longer else {})
            if 0 in bounded.values():  # with an empty dim, kernels accept inconsistent sizes and return anything
                by_symbol = dict(self._solved(by_symbol))
                if 0 not in by_symbol.values():
                    continue
            assignment = self._assign(by_symbol, lambda _: first.reduced, empty=True)
            if assignment is not None and by_symbol not in seen and assignment.work <= max(MAX_FURTHER, first.work):
                seen.append(by_symbol)
                yield assignment

    def one_at_a_time(self, together: DimAssignment, first: DimAssignment) -> Iterator[DimAssignment]:
        """The first sizes with one dynamic dim changed as in `together`, for each, without 0."""
        base, changed = first.by_symbol, together.by_symbol
        names = [name for name in base if changed.get(name, base[name]) != base[name] and not is_total(name)]
        for name in names if len(names) > 1 and 0 not in changed.values() else ():
            assignment = self.beside(first, {name: changed[name]})
            if assignment is not None:
                yield assignment

    def longest_accepted(self, refused: DimAssignment, first: DimAssignment) -> SizeSearch:
        """Sizes on the way to the longest size of a dim that the nodes accept, where they reject one.

        The caller sends whether the nodes accepted each.  Each dim is searched once, and only long ones.
        """
        name, high = max(refused.by_symbol.items(), key=lambda item: item[1], default=("", 0))
        if high < MIN_LONG or name in self._searched:
            return
        self._searched.add(name)
        low = first.by_symbol.get(name, 1)
        while high - low > 1:
            middle = (low + high) // 2
            assignment = self._shorter(refused, name, middle)
            is_taken = assignment is not None and (yield assignment)
            low, high = (middle, high) if is_taken else (low, middle)

    def _shorter(self, assignment: DimAssignment, name: str, size: int) -> DimAssignment | None:
        """The same with another size of one dim, the others small; with true fixed dims, if that is cheap.

        A reduced table has fewer rows than the dim may be long.
        """
        others = {other: min(own, BESIDE_LONG) for other, own in assignment.by_symbol.items() if not is_total(other)}
        by_symbol = self._with_totals({**assignment.by_symbol, **others, **self._chosen, name: size})
        whole = self._assign(by_symbol, lambda _: {})
        if whole is not None and whole.elements <= MAX_ROW_ELEMENTS and whole.work <= MAX_LONG:
            return whole
        return self._assign(by_symbol, lambda _: assignment.reduced)

    def _long(self, name: str, first: DimAssignment) -> Iterator[dict[str, int]]:
        """The longest sizes of one dim that are not too much; then longer ones while the others are small."""

        def fits(sizes: Mapping[str, int], most: int) -> bool:
            assignment = self.beside(first, sizes)
            return (
                assignment is not None and assignment.elements <= most and assignment.work <= max(MAX_LONG, first.work)
            )

        def beside(other: str) -> int:  # with several batches behind a past, counts of its rows cannot be consistent
            return 1 if dim_kind(name) == "past" and dim_kind(other) == "batch" else BESIDE_LONG

        for size, most in LONG:
            rows = min(size, self._most.get(name, size))
            if fits({name: rows}, most):
                yield {name: rows}
                if rows > BETWEEN and fits({name: BETWEEN}, most):
                    yield {name: BETWEEN}
                break
        size, most = LONG_LINE
        longer = sorted(number for number in self._literals if size <= number < MAX_RAISED)[:MAX_LONGER]
        is_long = any(long >= size and fits({name: long}, few) for long, few in LONG)
        lines = [] if is_long else [(size, most)]
        lines += [(number + by, most) for number in longer for by in (0, LONGER)]
        lines += [(number + by, MAX_WINDOW) for number in self._lengths() for by in (0, LONGER)]
        for size, most in lines:
            line = {**{other: beside(other) for other in self._symbols if not is_total(other)}, name: size}
            if size <= self._most.get(name, size) and fits(line, most):
                yield line

    def _in_turn(self, names: Sequence[str], first: DimAssignment) -> Iterator[dict[str, int]]:
        """Related sizes for all dims, and all dims as one fixed dim, or each by itself, where that is cheap."""
        fixed = sorted(size for size in self._dims if isinstance(size, int) and BESIDE_LONG < size <= BESIDE[1])
        for sizes in (*related_sizes(names), *(dict.fromkeys(names, size) for size in fixed[-1:])):
            yield from (part for part in self._in_parts(sizes, first) if self._is_little(part, first))

    def _is_little(self, sizes: Mapping[str, int], first: DimAssignment, work: int = REDUCE_ABOVE_WORK) -> bool:
        assignment = self.beside(first, sizes, empty=True)
        return assignment is not None and assignment.elements <= MAX_AT_ONCE and assignment.work <= work

    def _lengths(self) -> list[int]:
        """Literals between the short and the long sizes that are neither fixed dims nor products of two."""
        fixed = {size for size in self._dims if isinstance(size, int)}
        fixed |= {one * other for one in fixed for other in fixed}
        return sorted(number for number in self._values - fixed if BESIDE[1] < number < LONG_LINE[0])[:MAX_LONGER]

    def _in_parts(self, sizes: Mapping[str, int], first: DimAssignment) -> Iterator[dict[str, int]]:
        """Sizes to change together; one by one where that is costly."""
        is_little = self._is_little(sizes, first, MAX_LONG)
        yield from [dict(sizes)] if is_little else ({name: size} for name, size in sizes.items())

    def beside(self, first: DimAssignment, sizes: Mapping[str, int], *, empty: bool = False) -> DimAssignment | None:
        """Sizes that differ from others in these symbols."""
        return self._assign(self._with_totals({**first.by_symbol, **sizes}), lambda _: first.reduced, empty=empty)

    def _with_totals(self, sizes: dict[str, int]) -> dict[str, int]:
        """The same with totals of past and new as sums, by their names or by the nodes' constraints."""
        total = [name for name in self._symbols if is_total(name) and name not in self._chosen]
        if not total:
            return sizes
        past = next((name for name in self._symbols if dim_kind(name) == "past" and not is_total(name)), None)
        new = next((name for name in self._symbols if dim_kind(name) == "sequence" and not is_total(name)), None)
        if past is not None and new is not None:
            return {**sizes, **dict.fromkeys(total, sizes[past] + sizes[new])}
        fitted = self._solved(sizes)
        return {**sizes, **{name: fitted[name] for name in total}}

    def _assign(
        self, by_symbol: dict[str, int], shrunk: Callable[[dict[str, int]], Mapping[int, int]], *, empty: bool = False
    ) -> DimAssignment | None:
        """An assignment with its dims; None where some dim is invalid, or the inputs are too large.

        empty: allow dims of 0 that the user did not ask for.
        """
        try:
            assignment = DimAssignment(by_symbol, shrunk(by_symbol))
            assignment.dims = {size: assignment.size(size) for size in self._dims}
            for boundary in self._by_value:
                assignment.value(boundary, np.dtype(object))
        except SizeError:
            return None
        assignment.elements, assignment.work = self._elements(assignment), self._work(assignment)
        assignment.is_empty = 0 in assignment.dims.values()
        free = by_symbol.keys() - self._chosen.keys()
        assignment.is_informative = not free or any(by_symbol[name] != 1 for name in free)
        asked = {size for size in self._dims if size == 0 or symbols(size) & self._chosen.keys()}
        good = all(number > 0 or (number == 0 and (empty or size in asked)) for size, number in assignment.dims.items())
        bare = sum(math.prod(map(assignment.size, shape)) for shape in self._bare) if good else 0
        return assignment if good and self._given(assignment) <= MAX_ELEMENTS and bare <= TOO_MANY_BARE else None

    def _by_kind(self, place: int, others: tuple[int, ...]) -> dict[str, int]:
        """A size for each symbol: that of its kind, or one of the others in turn."""
        turn = cycle(others)
        kinds = {name: dim_kind(name) for name in self._symbols}
        return {name: next(turn) if kind == "other" else SIZES[kind][place] for name, kind in kinds.items()}

    def _lighter(self, sizes: dict[str, int]) -> dict[str, int]:
        """The same with smaller pictures where the work is large: an attention is between all points."""
        names = [name for name in sizes.keys() - self._chosen if dim_kind(name) == "image"]
        while names and sizes[names[0]] > SMALL_PICTURE:
            assignment = self._assign({**sizes, **self._chosen}, self._reduced_dims)
            if assignment is None or assignment.work <= COSTLY_WORK:
                return sizes
            sizes |= {name: sizes[name] // 2 for name in names}
        return sizes

    def _elements(self, assignment: DimAssignment) -> int:
        """The elements of all inputs, or of the largest computed tensor if that has more."""
        return max(self._given(assignment), *(cost.elements(assignment.size) for cost in self._costs), 0)

    def _given(self, assignment: DimAssignment) -> int:
        return sum(math.prod(map(assignment.size, shape)) for shape in self._shapes)

    def _work(self, assignment: DimAssignment) -> int:
        return sum(cost.at(assignment.size) for cost in self._costs)

    def _reduced_dims(self, symbol_sizes: dict[str, int]) -> dict[int, int]:
        """Smaller numbers for large fixed dims that no constant and no attribute mentions.

        A reduced dim stays above every smaller literal: a Slice of the first 100 must stay a part.
        """
        true = DimAssignment(symbol_sizes, {})
        is_much = self._work(true) > REDUCE_ABOVE_WORK
        if self._elements(true) <= REDUCE_ABOVE_ELEMENTS and not is_much:
            return {}
        sizes = [*self._small, *self._reducible] if is_much else self._reducible
        return reduced_dims(sizes, self._taken, self._places)

    def _reduced_further(self, symbol_sizes: dict[str, int]) -> dict[int, int]:
        """The same where that is still too much: reduced dims stay above literals that are not dims themselves."""
        if self._given(DimAssignment(symbol_sizes, self._reduced_dims(symbol_sizes))) <= MAX_ELEMENTS:
            return self._reduced_dims(symbol_sizes)
        places = self._places.difference(size for size in self._dims if isinstance(size, int))
        return reduced_dims(self._reducible, self._taken, places)

    def _reduced_but_one(self) -> Iterator[Callable[[dict[str, int]], Mapping[int, int]]]:
        """The same with one dim true, for each: a failure at its reduced size may depend on its true size."""

        def shrunk(kept: int, sizes: dict[str, int]) -> Mapping[int, int]:
            return {size: now for size, now in self._reduced_dims(sizes).items() if size != kept}

        yield from (partial(shrunk, kept) for kept in self._reducible)
