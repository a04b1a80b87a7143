"""The sizes of a region's dims: the first at which the original runs, and further ones.

`proof.strategies.sizes` has the other sizes, and the reasons for them.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TypeAlias

import numpy as np

from surgeon.proof.cases.dim_assignment import DimAssignment, grows_with, size_or_zero
from surgeon.proof.cases.reduced_dims import reduced_dims, restore_in_turn
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.region.literals import MAX_UNREDUCED_DIM, divides_literal, matches_literal
from surgeon.proof.region.size_decisions import LONGEST
from surgeon.shapes.algebra.size_expressions import Size, SizeError, is_total, symbols
from surgeon.shapes.constraints.constraint_solver import SizeSolver
from surgeon.shapes.constraints.input_dims import SIZES, dim_kind

OTHERS = (3, 4, 6, 7, 9, 11)  # for dims of unknown kind: all different, so that a mix-up shows
LARGER = 16  # times the usual sizes, for nodes that take a window away from each dim
SMALL = 2  # of the dims next to a long one, and of tables of few rows: not 1, at which everything broadcasts
FEW = 4  # fixed dims up to here are never reduced: as few as coordinates, colours or quarters
SMALL_PICTURE = 8  # points on a side, below which an image is not reduced: five halvings leave nothing of it
MIN_LONG = 64  # rejected length from which the longest accepted one is searched: tables are longer
# Elements of all inputs, or of the largest tensor; float32 has 4 bytes of each.
REDUCE_ABOVE_ELEMENTS = 1 << 15  # above this, dims are reduced: judging so many takes as long as ten small runs
MAX_FULL_ELEMENTS = 1 << 19  # up to which a region runs at its true dims: 2 MB, as a core's cache
MAX_BRIEF_ELEMENTS = 1 << 16  # the same where an equal region of its class is proved in full
MAX_ROW_ELEMENTS = 1 << 22  # up to which true fixed dims run a few times: to find the longest size, or after a failure
MAX_ELEMENTS = 1 << 25  # up to which inputs are generated at all: 128 MB
TOO_MANY_BARE = 1 << 28  # the same for inputs of which only the shape is read: nothing is written into them
# Multiplications, as `CostTerm` counts them; a core does about 2**30 of them in a second.
REDUCE_ABOVE_WORK = 1 << 25  # above this, fixed dims are reduced, small ones too
COSTLY_WORK = 1 << 27  # above this, fewer kinds of inputs are tried; up to this, one case of other sizes may take
MAX_TRUE_WORK = 1 << 30  # up to which true dims run: once
_Given: TypeAlias = Mapping[str, int]
SizeSearch: TypeAlias = Generator[DimAssignment, bool | None, None]


class CaseDims:
    """The dims of a case's inputs, and the sizes that they may have.

    All of it reads the same dims, literals and costs of the case, so it has more than twelve attributes.
    """

    def __init__(self, case: ProofCase, chosen: Mapping[str, int]) -> None:
        self._most = case.max_dims
        self._constraints, self._limits = case.size_constraints, case.cache_limits
        self._dims = list(dict.fromkeys(size for item in case.inputs for size in item.shape))
        bare = case.shape_only_inputs
        self._shapes = [item.shape for item in case.inputs if item.name not in bare]
        self._bare = [item.shape for item in case.inputs if item.name in bare]
        self._by_value = [item.value for item in case.inputs if item.value is not None]
        values = [item for value in self._by_value for item in value.reshape(-1)]
        self.symbols = list(dict.fromkeys(name for size in (*self._dims, *values) for name in sorted(symbols(size))))
        self._chosen = {name: size for name, size in chosen.items() if name in self.symbols}
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

    def runnable(self) -> Iterator[list[DimAssignment]]:
        """Groups of sizes; a later group is for a region that runs at none of the earlier ones.

        Reduced fixed dims come first: a failure there may pass at the true dims.  Different dynamic dims come before
        consistent ones that the nodes' constraints give, and before equal ones.  Dims of size 0 or less that the user
        did not ask for, and inputs that are too large, are left out.
        """
        seen: list[dict[Size, int]] = []
        usual, small = self._lighter(self._by_kind(0, OTHERS)), self._lighter(self._by_kind(1, (SMALL, SMALL + 1)))
        larger = {name: size * LARGER for name, size in usual.items()}
        # Some nodes accept only equal sizes: even ones, then odd ones.
        ones, *alike = (dict.fromkeys(self.symbols, size) for size in (1, *OTHERS[1::-1]))
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
        """Sizes by symbol for each group; consistent ones are computed only if the first do not run."""
        yield usual, small, ones
        if len(self.symbols) > 1:
            yield tuple(self._solved(sizes) for sizes in (usual, small))
        yield *alike, ones
        yield tuple(self._raised(sizes) for sizes in (usual, small))
        yield (larger,)
        if len(self.symbols) > 1:
            yield (self._solved(larger),)

    def _solved(self, sizes: _Given) -> _Given:
        """The same sizes with dependent ones computed; unchanged if one cannot be computed."""
        if self._solver is None:
            self._solver = SizeSolver(self._constraints)
        try:
            return self._solver.sizes(sizes, self._chosen)
        except SizeError:
            return sizes

    def _raised(self, sizes: _Given) -> _Given:
        """The same sizes with sizes doubled that leave nothing, such as 5 samples after a window of 256.

        The first symbol of each dim that grows with it; unchanged if no size up to `LONGEST` leaves something.
        """
        raised = {**sizes, **self._chosen}
        while (lacking := self._lacking(raised)) is not None:
            names = [name for name in sorted(symbols(lacking)) if name not in self._chosen]
            growing = (name for name in names if raised[name] < LONGEST and grows_with(lacking, name, LONGEST))
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
        """The first sizes to try; None if there are none."""
        group = next(self.runnable(), None)
        return group[0] if group else None

    def full(self, most: int) -> Iterator[DimAssignment]:
        """The usual sizes with true fixed dims, if they have at most `most` elements.

        Otherwise each fixed dim in turn is true, with as many others as fit, and the rest is reduced.
        """
        assignment = self.as_it_is()
        if assignment and assignment.elements <= most and assignment.work <= MAX_TRUE_WORK:
            yield assignment
            return
        sizes = {**self._by_kind(0, OTHERS), **self._chosen}

        def made(shrunk: Mapping[int, int]) -> DimAssignment | None:
            return self._assign(sizes, lambda _: shrunk)

        def fits(shrunk: Mapping[int, int]) -> bool:
            found = made(shrunk)
            return found is not None and found.elements <= most and found.work <= COSTLY_WORK

        yield from filter(None, map(made, restore_in_turn(self._reduced_dims(sizes), fits)))

    def as_it_is(self) -> DimAssignment | None:
        """The usual sizes with true fixed dims, at any cost; None if the inputs are too large."""
        return self._assign({**self._by_kind(0, OTHERS), **self._chosen}, lambda _: {})

    def beside(self, first: DimAssignment, sizes: Mapping[str, int]) -> DimAssignment | None:
        """The first sizes with others for some symbols; None if they fit nothing or are too large.

        Totals of past and new, and with a dim of 0 all dependent sizes, change with them, unless `sizes` has them.
        """
        bounded = {name: min(size, self._most.get(name, size)) for name, size in sizes.items()}
        by_symbol = {**self._with_totals({**first.by_symbol, **bounded, **self._chosen}), **bounded}
        if 0 in bounded.values():  # with an empty dim, kernels accept inconsistent sizes and return anything
            by_symbol = dict(self._solved(by_symbol))
            if 0 not in by_symbol.values():
                return None
        return self._assign(by_symbol, lambda _: first.reduced, empty=True)

    def depends_on_others(self, name: str, first: DimAssignment) -> bool:
        """Whether a dim is a total of others."""
        changed = {**first.by_symbol, name: first.by_symbol[name] + 1}
        return self._with_totals(changed)[name] != changed[name]

    def longest_accepted(self, refused: DimAssignment, first: DimAssignment) -> SizeSearch:
        """Sizes on the way to the longest size of a dim that the nodes accept, if they reject one.

        Send whether the nodes accepted each.  Each dim is searched once, and only long ones.
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
        others = {other: min(own, SMALL) for other, own in assignment.by_symbol.items() if not is_total(other)}
        by_symbol = self._with_totals({**assignment.by_symbol, **others, **self._chosen, name: size})
        whole = self._assign(by_symbol, lambda _: {})
        if whole is not None and whole.elements <= MAX_ROW_ELEMENTS and whole.work <= COSTLY_WORK:
            return whole
        return self._assign(by_symbol, lambda _: assignment.reduced)

    def _with_totals(self, sizes: dict[str, int]) -> dict[str, int]:
        """The same with totals of past and new as sums, by their names or by the nodes' constraints."""
        total = [name for name in self.symbols if is_total(name) and name not in self._chosen]
        if not total:
            return sizes
        past = next((name for name in self.symbols if dim_kind(name) == "past" and not is_total(name)), None)
        new = next((name for name in self.symbols if dim_kind(name) == "sequence" and not is_total(name)), None)
        if past is not None and new is not None:
            return {**sizes, **dict.fromkeys(total, sizes[past] + sizes[new])}
        fitted = self._solved(sizes)
        return {**sizes, **{name: fitted[name] for name in total}}

    def _assign(
        self, by_symbol: dict[str, int], shrunk: Callable[[dict[str, int]], Mapping[int, int]], *, empty: bool = False
    ) -> DimAssignment | None:
        """An assignment with its dims; None if some dim is invalid, or the inputs are too large.

        empty: allow dims of 0 that the user did not ask for.
        """
        try:
            for limit in self._limits:
                within = limit.within(by_symbol, DimAssignment(by_symbol, {}).size)
                if within is None or within.items() & self._chosen.items() != self._chosen.items():
                    return None
                by_symbol = within
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
        kinds = {name: dim_kind(name) for name in self.symbols}
        return {name: next(turn) if kind == "other" else SIZES[kind][place] for name, kind in kinds.items()}

    def _lighter(self, sizes: dict[str, int]) -> dict[str, int]:
        """The same with smaller images if the work is large: an attention is between all points."""
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
        """The same if that is still too much: reduced dims stay above literals that are not dims themselves."""
        if self._given(DimAssignment(symbol_sizes, self._reduced_dims(symbol_sizes))) <= MAX_ELEMENTS:
            return self._reduced_dims(symbol_sizes)
        places = self._places.difference(size for size in self._dims if isinstance(size, int))
        return reduced_dims(self._reducible, self._taken, places)

    def _reduced_but_one(self) -> Iterator[Callable[[dict[str, int]], Mapping[int, int]]]:
        """The same with one dim true, for each: a failure at its reduced size may depend on its true size."""

        def shrunk(kept: int, sizes: dict[str, int]) -> Mapping[int, int]:
            return {size: now for size, now in self._reduced_dims(sizes).items() if size != kept}

        yield from (partial(shrunk, kept) for kept in self._reducible)
