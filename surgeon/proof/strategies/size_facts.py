"""The facts of a region that strategies for sizes use, and the cost of a case of other sizes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.dims import (
    COSTLY_WORK,
    MAX_BRIEF_ELEMENTS,
    MAX_FULL_ELEMENTS,
    REDUCE_ABOVE_ELEMENTS,
    SMALL,
    CaseDims,
)
from surgeon.proof.cases.region_traits import adds_nothing
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.region.size_decisions import LONGEST, boundary, exact_limits, has_loops, size_comparisons
from surgeon.proof.strategies.strategy import AnsweredCases, Cases, next_proposed
from surgeon.shapes.algebra.size_expressions import symbols
from surgeon.shapes.constraints.input_dims import dim_kind

Sizes: TypeAlias = Mapping[str, int]

BLOCK = 64  # bytes of the widest vector register, so a multiple of the blocks of elements that kernels step by
MAY_BE_LENGTHS = range(4, LONGEST)  # literals: smaller ones are axes and powers, larger ones are bounds of numbers
LITERALS = 5  # of a region, each with its neighbours: what says more of them is mostly shapes


class SizeFacts:
    """Facts of a region that ran at `first`, for strategies for sizes.

    dims: the named dims that are free to choose.  nameless: dims that inference named, which may depend on others.
    totals: sums of others, as past and new tokens together.  fixed: dims of the inputs, as reduced, ascending.
    literals: integers of either side that may be lengths, the likeliest first.  fill: gives the cases at some sizes.
    """

    def __init__(
        self, case: ProofCase, dims: CaseDims, first: DimAssignment, fill: Callable[[DimAssignment], AnsweredCases]
    ) -> None:
        self._case, self._all, self.first, self._fill = case, dims, first, fill
        self.allows_empty, self.base = case.allows_empty, first.by_symbol
        names = [name for name in dims.symbols if name not in case.options.dims]
        self.nameless = [name for name in names if name.startswith("?")]
        self.totals = [name for name in names if name not in self.nameless and dims.depends_on_others(name, first)]
        self.dims = [name for name in names if name not in self.nameless and name not in self.totals]
        sizes = {first.size(size) for item in case.inputs for size in item.shape if isinstance(size, int)}
        self.fixed = sorted(size for size in sizes if SMALL < size <= BLOCK)
        products = {one * other for one in (1, *sizes) for other in sizes}  # as widths of all heads: no lengths
        found = case.literals.intersection(MAY_BE_LENGTHS)
        self.literals = sorted(found, key=lambda size: (size in products, size))[:LITERALS]
        self._seen = [dict(self.base)]

    @property
    def batches(self) -> list[Sizes]:
        """Larger batches at which an attention with a cache runs."""
        return [sizes for limit in self._case.cache_limits for sizes in limit.batches]

    @cached_property
    def turning(self) -> list[Sizes]:
        """Sizes of one dim at and next to which a comparison of two sizes turns, on either side."""
        return [
            {name: size}
            for difference in size_comparisons(self._case.models)
            for name in sorted(symbols(difference).intersection(self.dims))
            for last in (boundary(difference, name, self.base),)
            for size in (last, last + 1, last - 1)
            if size > 0
        ]

    @cached_property
    def exact(self) -> list[int]:
        """Numbers up to which dtypes narrower than float32 inside of either side count, ascending."""
        return exact_limits(self._case.models)

    @cached_property
    def has_loops(self) -> bool:
        """Whether a node of either side runs its body for each row."""
        return has_loops(self._case.models)

    def true_dims(self) -> Cases:
        """Cases at the first sizes with true fixed dims, if they were reduced."""
        most = MAX_BRIEF_ELEMENTS if self._case.is_brief else MAX_FULL_ELEMENTS
        for at in self._all.full(most) if self.first.reduced else ():
            yield from self._fill(at)

    def fits(self, sizes: Sizes) -> bool:
        """Whether a case with these sizes is affordable, other dims as in `base`."""
        return self._affordable(sizes) is not None

    def at(self, proposed: Iterable[Sizes], elements: int = REDUCE_ABOVE_ELEMENTS) -> Cases:
        """Cases at each of some sizes; if it is too costly, at each dim, then with small others.

        elements: of the largest tensor, if all others are small.  Sizes that ran before are left out.
        """
        for sizes in proposed:
            together = self._affordable(sizes)
            for at in (together,) if together else self._one_by_one(sizes, elements):
                is_taken = at is None or (yield from self._new(at))
                if at is not None and is_taken is False and not at.is_empty:
                    yield from self._refused(at)

    def _new(self, at: DimAssignment) -> AnsweredCases:
        """Cases at sizes that did not run before; whether the original took them, None without a case."""
        if at.by_symbol in self._seen or adds_nothing(at, self._case.ops):
            return None
        self._seen.append(dict(at.by_symbol))
        return (yield from self._fill(at))

    def _refused(self, together: DimAssignment) -> Cases:
        """If the nodes reject these sizes together, each by itself, or as long as they accept."""
        changed = {name: size for name, size in together.by_symbol.items() if size != self.base[name]}
        are_taken = False
        for name in self.dims if len(changed) > 1 else ():
            alone = self._all.beside(self.first, {name: changed[name]}) if name in changed else None
            are_taken |= alone is not None and bool((yield from self._new(alone)))
        search = self._all.longest_accepted(together, self.first)
        is_taken: bool | None = None
        while not are_taken and (at := next_proposed(search, is_taken)) is not None:
            is_taken = yield from self._fill(at)

    def _one_by_one(self, sizes: Sizes, elements: int) -> Iterator[DimAssignment | None]:
        for name, size in sizes.items():
            # With several batches behind a past, counts of its rows cannot be consistent.
            is_past = dim_kind(name) == "past"
            others = {other: 1 if is_past and dim_kind(other) == "batch" else SMALL for other in self.dims}
            yield self._affordable({name: size}) or self._affordable({**others, name: size}, elements)

    def _affordable(self, sizes: Sizes, elements: int = REDUCE_ABOVE_ELEMENTS) -> DimAssignment | None:
        """The assignment, unless it has more elements or work than a case may, or twice those of the first sizes."""
        at = self._all.beside(self.first, sizes)
        if at is None or at.work > max(COSTLY_WORK, 2 * self.first.work):
            return None
        return at if at.elements <= max(elements, 2 * self.first.elements) else None
