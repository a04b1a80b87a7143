"""Strategies for sizes: which other sizes a region runs at.

A strategy proposes sizes for some dims; all other dims keep the sizes at which the region ran first.
"""

from collections.abc import Iterator
from itertools import chain, islice

from surgeon.proof.strategies.region_facts import CaseRegion
from surgeon.proof.strategies.size_facts import BLOCK, SizeFacts, Sizes
from surgeon.proof.strategies.strategy import Cases, strategy

LITERAL_ELEMENTS = 1 << 20  # the same near a literal: a size that is said to matter may cost more than a guess
LONG_ELEMENTS = 1 << 17  # the same where one dim is long and the others are small: 2,048 rows of 64 numbers
BLOCKS = 2 * BLOCK  # whole blocks, so many that a loop over them takes a second step
MANY = BLOCK * 3 // 2  # more than one block, and not a multiple of it
STEPS = range(1, 13)  # binades of the ladder, to the first number beyond 4096: even, so that no two dims are equal


@strategy(
    "as in the file",
    because="a fixed dim that proofs make smaller means more than its size: a folded number, the heads of a width",
    for_members=True,
)
def as_in_the_file(region: CaseRegion) -> Cases:
    """All fixed dims true, or as many at once as are affordable; only if they were reduced."""
    return region.sizes.true_dims()


@strategy(
    "related sizes",
    because="a formula of sizes confuses two dims, or holds only if dims are equal, odd, multiples of one "
    "another or whole blocks",
)
def related_sizes(region: CaseRegion) -> Cases:
    """All dims odd that were even, equal whole blocks, half and twice the next, and as one fixed dim."""
    sizes = region.sizes
    names = sizes.dims
    blocks = (dict.fromkeys(names, size) for size in (BLOCKS, BLOCKS // 16))
    return sizes.at(
        [
            {name: sizes.base[name] + 1 for name in names},
            *islice(filter(sizes.fits, blocks), 1),
            *({name: pair[place % 2] for place, name in enumerate(names)} for pair in ((4, 8), (8, 4))),
            *(dict.fromkeys(names, size) for size in sizes.fixed[-1:]),
        ]
    )


@strategy(
    "sizes near literals",
    because="a comparison, window or part of a dim is off by one, or on the wrong side, at a number of either side "
    "or at which two of its sizes are equal",
)
def sizes_near_literals(region: CaseRegion) -> Cases:
    """One dim at and next to each size that turns a comparison; then all dims at and next to each literal."""
    sizes = region.sizes
    beside = (literal + by for literal in sizes.literals for by in (0, 1, -1))
    return sizes.at(chain(sizes.turning, (dict.fromkeys(sizes.dims, size) for size in beside)), LITERAL_ELEMENTS)


@strategy(
    "one",
    because="an axis of several elements is broadcast, squeezed or summed wrongly, which shows only at 1",
)
def one_element(region: CaseRegion) -> Cases:
    """Each dim at 1 with many of the others, then with the few of the first sizes."""
    sizes = region.sizes
    crowds = ({**dict.fromkeys(sizes.dims, MANY), name: 1} for name in sizes.dims if len(sizes.dims) > 1)
    return sizes.at(chain(filter(sizes.fits, crowds), ({name: 1} for name in sizes.dims)))


@strategy(
    "size ladder",
    because="a kernel, a buffer or a written shape ends at a size that nothing mentions: a block, a tile, a table",
)
def size_ladder(region: CaseRegion) -> Cases:
    """One size in each binade, odd and even in turn; all dims share it, and if one is long, the next is short."""
    sizes = region.sizes
    return sizes.at(_steps(sizes), LONG_ELEMENTS)


def _steps(facts: SizeFacts) -> Iterator[Sizes]:
    rungs = [3 * 2**step // 2 | step % 2 for step in STEPS]
    left = {name: rungs[place // 2 :] + rungs[: place // 2] for place, name in enumerate(facts.dims)}
    left.update((name, left[name][::-1]) for name in facts.dims[1::2])
    while any(left.values()):
        now: dict[str, int] = {}
        for name, steps in left.items():
            found = next((size for size in steps if facts.fits({**now, name: size})), None)
            if found is not None:
                now[name] = found
                steps.remove(found)
        if not now:  # nothing fits next to the usual sizes of the others
            name = max(left, key=lambda name: len(left[name]))
            now[name] = left[name].pop(0)
        yield now


@strategy(
    "beyond exact integers",
    because="positions or counts pass through a dtype that cannot represent so many",
)
def beyond_exact_integers(region: CaseRegion) -> Cases:
    """Each dim three longer than the dtypes inside of either side can count, the narrowest first."""
    sizes = region.sizes
    return sizes.at(({name: limit + 3} for limit in sizes.exact for name in sizes.dims), LONG_ELEMENTS)


@strategy(
    "trips",
    because="the state of a loop is lost between iterations, or its first or last iteration is different",
)
def trips(region: CaseRegion) -> Cases:
    """Two and three passes, where dims are how often a body runs; 1 and 0 are other strategies."""
    sizes = region.sizes
    return sizes.at(dict.fromkeys(sizes.dims, size) for size in ((2, 3) if sizes.has_loops else ()))


@strategy(
    "nameless dims",
    because="a dim without a name is confused with another that it usually equals, or with one of few rows",
)
def nameless_dims(region: CaseRegion) -> Cases:
    """Each by itself, because it may depend on others: one longer, then long."""
    sizes = region.sizes
    longer = (lambda size: size + 1, lambda _: MANY, lambda _: MANY * 16)
    return sizes.at({name: size(sizes.base[name])} for size in longer for name in sizes.nameless)


@strategy(
    "longer totals",
    because="a rule expects a mask or a cache as long as past and new together, but it may be longer",
)
def longer_totals(region: CaseRegion) -> Cases:
    """Each total three longer than the sum."""
    sizes = region.sizes
    return sizes.at({name: sizes.base[name] + 3} for name in sizes.totals)


@strategy(
    "batches of a cache",
    because="sequences of a batch are confused by an op that runs several rows after a past only in a batch of one",
)
def batches_of_a_cache(region: CaseRegion) -> Cases:
    """Several sequences, with one row each after a past, and with several rows without a past."""
    sizes = region.sizes
    return sizes.at(sizes.batches)


@strategy("zero", because="a mean or maximum of no elements, or a shape with -1 and a 0, is handled differently")
def zero(region: CaseRegion) -> Cases:
    """Each dim at 0."""
    sizes = region.sizes
    return sizes.at({name: 0} for name in (sizes.dims if sizes.allows_empty else ()))
