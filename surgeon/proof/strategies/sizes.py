"""Strategies for sizes: which other sizes a region runs at, and which mistake each of them finds.

A strategy proposes sizes for some dims; all other dims keep the sizes at which the region ran on all kinds of inputs.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, islice
from typing import TypeAlias

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.dims import COSTLY_WORK, MAX_BRIEF_ELEMENTS, MAX_FULL_ELEMENTS, SMALL, CaseDims
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.region.size_decisions import boundary, exact_limits, has_loops, size_comparisons
from surgeon.proof.strategies.strategy import STRATEGIES, Cases, InputCase, cases, next_proposed, strategy
from surgeon.shapes.algebra.size_expressions import symbols
from surgeon.shapes.constraints.input_dims import dim_kind

Sizes: TypeAlias = Mapping[str, int]

CASE_ELEMENTS = 1 << 15  # of the largest tensor in one case: judging so many takes as long as ten small runs
LITERAL_ELEMENTS = 1 << 20  # the same near a literal: a size that is said to matter may cost more than a guess
LONG_ELEMENTS = 1 << 17  # the same where one dim is long and the others are small: 2,048 rows of 64 numbers
BLOCK = 64  # bytes of the widest vector register, so a multiple of the blocks of elements that kernels step by
BLOCKS = 2 * BLOCK  # whole blocks, so many that a loop over them takes a second step
MANY = BLOCK * 3 // 2  # more than one block, and not a multiple of it
STEPS = range(1, 13)  # binades of the ladder, to the first number beyond 4096: even, so that no two dims are equal
MAY_BE_LENGTHS = range(4, 1 << 16)  # literals: smaller ones are axes and powers, larger ones are bounds of numbers
LITERALS = 5  # of a region, each with its neighbours: what says more of them is mostly shapes


class SizeFacts:
    """What strategies for sizes may ask of a region that ran at `first` on all kinds of inputs.

    dims: the named dims that are free to choose.  nameless: dims that inference named, which may depend on others.
    totals: sums of others, as past and new tokens together.  fixed: dims of the inputs, as reduced, ascending.
    literals: integers of either side that may be lengths, the most telling first.
    """

    def __init__(self, case: ProofCase, dims: CaseDims, first: DimAssignment) -> None:
        self._case, self._all, self.first = case, dims, first
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

    @cached_property
    def turning(self) -> list[Sizes]:
        """Sizes of one dim at and beside which a comparison of two sizes turns, on either side."""
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

    def true_dims(self) -> Iterator[DimAssignment]:
        """The first sizes with true fixed dims, where they were reduced."""
        most = MAX_BRIEF_ELEMENTS if self._case.is_brief else MAX_FULL_ELEMENTS
        return self._all.full(most) if self.first.reduced else iter(())

    def fits(self, sizes: Sizes) -> bool:
        """Whether a case with these sizes is affordable, other dims as in `base`."""
        return self._affordable(sizes) is not None

    def at(self, proposed: Iterable[Sizes], elements: int = CASE_ELEMENTS) -> Cases:
        """A case for each of some sizes; where it is too costly, one for each dim, then with small others.

        elements: of the largest tensor, where all others are small.  Sizes that ran before are left out.
        """
        for sizes in proposed:
            together = self._affordable(sizes)
            for at in (together,) if together else self._one_by_one(sizes, elements):
                is_taken = at is None or (yield from self._new(at))
                if at is not None and is_taken is False and not at.is_empty:
                    yield from self._refused(at)

    def _new(self, at: DimAssignment) -> Generator[InputCase, bool | None, bool | None]:
        """A case, unless it ran before; whether the original took it."""
        if at.by_symbol in self._seen:
            return None
        self._seen.append(dict(at.by_symbol))
        return (yield InputCase(at, {}, ""))

    def _refused(self, together: DimAssignment) -> Cases:
        """Where the nodes reject these sizes together, each by itself, or as long as they accept."""
        changed = {name: size for name, size in together.by_symbol.items() if size != self.base[name]}
        are_taken = False
        for name in self.dims if len(changed) > 1 else ():
            alone = self._all.beside(self.first, {name: changed[name]}) if name in changed else None
            are_taken |= alone is not None and bool((yield from self._new(alone)))
        search = self._all.longest_accepted(together, self.first)
        is_taken: bool | None = None
        while not are_taken and (at := next_proposed(search, is_taken)) is not None:
            is_taken = yield InputCase(at, {}, "")

    def _one_by_one(self, sizes: Sizes, elements: int) -> Iterator[DimAssignment | None]:
        for name, size in sizes.items():
            # With several batches behind a past, counts of its rows cannot be consistent.
            is_past = dim_kind(name) == "past"
            others = {other: 1 if is_past and dim_kind(other) == "batch" else SMALL for other in self.dims}
            yield self._affordable({name: size}) or self._affordable({**others, name: size}, elements)

    def _affordable(self, sizes: Sizes, elements: int = CASE_ELEMENTS) -> DimAssignment | None:
        """The assignment, unless it has more elements or work than a case may, or twice those of the first sizes."""
        at = self._all.beside(self.first, sizes)
        if at is None or at.work > max(COSTLY_WORK, 2 * self.first.work):
            return None
        return at if at.elements <= max(elements, 2 * self.first.elements) else None


@strategy(
    "as in the file",
    because="a fixed dim that proofs make smaller means more than its size: a folded number, the heads of a width",
    for_members=True,
)
def as_in_the_file(region: SizeFacts) -> Cases:
    """All fixed dims true, or as many at once as are affordable; only where they were reduced."""
    return (InputCase(at, {}, "") for at in region.true_dims())


@strategy(
    "related sizes",
    because="a formula of sizes takes one dim for another, or holds only where dims are equal, odd, multiples of one "
    "another or whole blocks",
)
def related_sizes(region: SizeFacts) -> Cases:
    """All dims odd where they were even, equal whole blocks, half and twice the next, and as one fixed dim."""
    names = region.dims
    blocks = (dict.fromkeys(names, size) for size in (BLOCKS, BLOCKS // 16))
    return region.at(
        [
            {name: region.base[name] + 1 for name in names},
            *islice(filter(region.fits, blocks), 1),
            *({name: pair[place % 2] for place, name in enumerate(names)} for pair in ((4, 8), (8, 4))),
            *(dict.fromkeys(names, size) for size in region.fixed[-1:]),
        ]
    )


@strategy(
    "sizes near literals",
    because="a comparison, window or part of a dim is off by one, or on the wrong side, at a number that either side "
    "holds or at which two of its sizes are equal",
)
def sizes_near_literals(region: SizeFacts) -> Cases:
    """One dim at and beside each size that turns a comparison; then all dims at and beside each literal."""
    beside = (literal + by for literal in region.literals for by in (0, 1, -1))
    return region.at(chain(region.turning, (dict.fromkeys(region.dims, size) for size in beside)), LITERAL_ELEMENTS)


@strategy(
    "one",
    because="an axis is broadcast, squeezed or summed that has more than one element, which shows at 1 alone",
)
def one_element(region: SizeFacts) -> Cases:
    """Each dim at 1 beside many of the others, then beside the few of the first sizes."""
    crowds = ({**dict.fromkeys(region.dims, MANY), name: 1} for name in region.dims if len(region.dims) > 1)
    return region.at(chain(filter(region.fits, crowds), ({name: 1} for name in region.dims)))


@strategy(
    "size ladder",
    because="a kernel, a buffer or a written shape ends at a size that nothing names: a block, a tile, a table",
)
def size_ladder(region: SizeFacts) -> Cases:
    """One size in each binade, odd and even in turn; all dims share it, and where one is long the next is short."""
    return region.at(_steps(region), LONG_ELEMENTS)


def _steps(region: SizeFacts) -> Iterator[Sizes]:
    rungs = [3 * 2**step // 2 | step % 2 for step in STEPS]
    left = {name: rungs[place // 2 :] + rungs[: place // 2] for place, name in enumerate(region.dims)}
    left.update((name, left[name][::-1]) for name in region.dims[1::2])
    while any(left.values()):
        now: dict[str, int] = {}
        for name, steps in left.items():
            found = next((size for size in steps if region.fits({**now, name: size})), None)
            if found is not None:
                now[name] = found
                steps.remove(found)
        if not now:  # nothing fits beside the usual sizes of the others
            name = max(left, key=lambda name: len(left[name]))
            now[name] = left[name].pop(0)
        yield now


@strategy(
    "beyond exact integers",
    because="positions or counts pass through a dtype that cannot tell so many apart",
)
def beyond_exact_integers(region: SizeFacts) -> Cases:
    """Each dim three longer than the dtypes inside of either side can count, the narrowest first."""
    return region.at(({name: limit + 3} for limit in region.exact for name in region.dims), LONG_ELEMENTS)


@strategy(
    "trips",
    because="what a loop carries from one pass to the next is lost, or its first or last pass is another",
)
def trips(region: SizeFacts) -> Cases:
    """Two and three passes, where dims are how often a body runs; 1 and 0 are other strategies."""
    return region.at(dict.fromkeys(region.dims, size) for size in ((2, 3) if region.has_loops else ()))


@strategy(
    "nameless dims",
    because="a dim without a name is taken for another that it usually equals, or for one of few rows",
)
def nameless_dims(region: SizeFacts) -> Cases:
    """Each by itself, for it may depend on others: one longer, then long."""
    longer = (lambda size: size + 1, lambda _: MANY, lambda _: MANY * 16)
    return region.at({name: size(region.base[name])} for size in longer for name in region.nameless)


@strategy(
    "longer totals",
    because="a mask or a cache is taken to be exactly as long as past and new together, and may be longer",
)
def longer_totals(region: SizeFacts) -> Cases:
    """Each total three longer than the sum."""
    return region.at({name: region.base[name] + 3} for name in region.totals)


@strategy("zero", because="a mean, a maximum or a shape with -1 is taken of nothing")
def zero(region: SizeFacts) -> Cases:
    """Each dim at 0."""
    return region.at({name: 0} for name in (region.dims if region.allows_empty else ()))


SIZE_STRATEGIES = [item for item in STRATEGIES.values() if item.propose.__module__ == __name__]


def size_cases(case: ProofCase, dims: CaseDims, first: DimAssignment) -> Generator[InputCase, bool | None, None]:
    """Cases at further sizes of a region that ran at `first`, one of each strategy in turn.

    Send whether the original ran at them.
    """
    wanted = [item for item in SIZE_STRATEGIES if item.for_members or not case.is_brief]
    return cases(SizeFacts(case, dims, first), wanted)
