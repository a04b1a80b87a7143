"""Strategies of whole models: inputs that any model may get, and rarer ones whose differences are only reported."""

from collections.abc import Iterator
from itertools import takewhile

from surgeon.proof.model.distinguishing_inputs import equal_numbers, sums
from surgeon.proof.model.model_region import ModelRegion
from surgeon.proof.strategies import roles as roles_of_sites
from surgeon.proof.strategies import values as values_of_sites
from surgeon.proof.strategies.strategy import STRATEGIES, Cases, InputCase, strategy
from surgeon.runtime.inputs import float_fills as floats
from surgeon.runtime.inputs import role_fills as roles
from surgeon.runtime.inputs.fill import Fill

MAX_DECIDING = 16
"""Cases for numbers that decide: an input of one element holds one in each."""
MAX_ALONE = 2
"""Inputs that hold NaN and infinity by themselves: in more, a difference shows that shows in one of the first too."""


@strategy(
    "numbers that decide",
    models=True,
    because="a threshold, a bound, the side of a comparison or the choice among equal numbers differs: inputs meet the "
    "numbers at which both models decide to the bit, and lie near all others",
)
def numbers_that_decide(region: ModelRegion) -> Iterator[InputCase]:
    """Numbers solved for inputs and those next to them; equal numbers; sums that reach thresholds."""
    dims, pair = region.roomy, region.pair
    sets = (region.deciding(number, dims) for number in range(MAX_DECIDING))
    yield from (region.case(fills, dims) for fills in takewhile(bool, sets))
    if pair and pair.ties:
        yield from region.each(region.floats, map(equal_numbers, range(2)), dims)
    if pair and pair.joined:
        yield from region.each(region.floats, (sums(pair.joined, first) for first in range(2)), dims)


@strategy(
    "other sizes",
    models=True,
    because="a dynamic size is written as a number, or confused with another: all are odd instead of even, small, one",
)
def other_sizes(region: ModelRegion) -> Iterator[InputCase]:
    """Usual values at further sizes."""
    yield from (region.case({}, dims) for dims in region.odd_sizes())


@strategy(
    "long sequences",
    models=True,
    because="a mask, a table or a buffer of a written length is shorter than a sequence",
)
def long_sequences(region: ModelRegion) -> Cases:
    """The longest that the original takes."""
    for dims in region.long_sizes():
        if (yield region.case({}, dims)):
            return


@strategy("sizes that decide", models=True, because="a model branches or cuts at a size that both models mention")
def sizes_that_decide(region: ModelRegion) -> Iterator[InputCase]:
    """Each size that one side compares with, and the next one."""
    yield from (region.case({}, dims) for dims in region.branch_sizes())


@strategy(
    "all rows of tables",
    models=True,
    because="two tables differ in a row that usual indices and positions do not reach",
)
def rows_of_tables(region: ModelRegion) -> Iterator[InputCase]:
    """Indices of each row, then sequences as long as a table."""
    yield from (region.case(fills, dims) for fills, dims in region.table_rows())
    yield from (region.case({}, dims) for dims in region.table_lengths())


@strategy(
    "padding",
    models=True,
    because="a mask is taken for one that hides only the end, or positions for those that begin at 0",
)
def padding(region: ModelRegion) -> Iterator[InputCase]:
    """Masks with gaps and with zeros in front; positions and indices from anywhere; shorter sequences."""
    for mask, start in ((roles.mask("gaps"), roles.ONE_START), (roles.TRAILING_MASK, roles.EACH_START)):
        fills = {spec.name: mask for spec in region.inputs if spec.kind == "mask"}
        fills |= {spec.name: start for spec in region.inputs if spec.is_position}
        fills |= {spec.name: roles.SHORTER_KEYS for spec in region.inputs if spec.kind == "keys"}
        if fills:
            yield region.case(fills)


@strategy(
    "wide-ranging numbers",
    models=True,
    because="an approximation, a bound or an epsilon holds only for numbers of about one: activations range over many "
    "orders of magnitude, with zeros and outliers",
)
def wide_ranging(region: ModelRegion) -> Cases:
    """Without and with outliers, of both signs in any tensor, or positive if the original takes no others."""
    integers = region.named(lambda spec: spec.takes_wide_values and spec.dtype.kind in "iu")
    usual: dict[str, Fill] = dict.fromkeys(integers, roles.WIDE_INTEGERS)
    ways = [floats.WIDE, floats.LARGE] if usual or region.floats else []
    if any(region.elements(name) == 1 for name in region.floats):
        ways.append(floats.mirrored(floats.LARGE))
    for wide in ways:
        for fill in (wide, floats.positive(wide)):
            if (yield region.case(usual | dict.fromkeys(region.floats, fill))):
                break


@strategy(
    "numbers between integers",
    models=True,
    because="a float that becomes an index, a count or a boolean is rounded differently",
)
def between_integers(region: ModelRegion) -> Iterator[InputCase]:
    """Above and below halves, halves, and next to integers."""
    names = region.named(lambda spec: spec.fractional)
    parts = (*map(roles.fractions, roles.FRACTIONS), roles.BESIDE_INTEGERS)
    yield from region.each(names, (fill._replace(decides=True) for fill in parts))


@strategy(
    "rows of zeros and small rows",
    models=True,
    because="the number that keeps a divisor from zero, such as the epsilon of a variance, differs or is missing",
)
def small_rows(region: ModelRegion) -> Iterator[InputCase]:
    """Rows of padding are zeros, and epsilons show only on small ones."""
    names = region.named(
        lambda spec: spec.takes_edge_values and spec.named is None and len(spec.dims) in floats.RANKS_OF_ROWS
    )
    yield from region.each(names, [floats.SMALL_ROWS], region.roomy)


@strategy(
    "inputs that hold NaN or infinity",
    models=True,
    informs=True,
    because="NaN or infinity is lost, produced or compared differently",
)
def non_finite(region: ModelRegion) -> Iterator[InputCase]:
    """In rows, anywhere, in slices; as an integer; in one input while the others are usual."""
    names = region.named(lambda spec: spec.takes_edge_values)
    ways = floats.NON_FINITE_ROWS, floats.NON_FINITE, floats.NON_FINITE_SLICES
    yield from region.each(names, ways)
    yield from region.each(region.named(lambda spec: spec.fractional), [roles.NAN_AMONG_INTEGERS])
    for name in names[:MAX_ALONE] if len(names) > 1 else ():
        yield from region.each([name], (floats.NON_FINITE_ROWS, floats.NON_FINITE_SLICES))


@strategy(
    "masks that hide whole rows",
    models=True,
    informs=True,
    because="a completely hidden row is NaN in one model, and a mean or zeros in the other",
)
def hidden_rows(region: ModelRegion) -> Iterator[InputCase]:
    """Some rows hidden as a whole, then those that the other value of a mask hides."""
    masks = region.named(lambda spec: spec.is_mask)
    lengths = dict.fromkeys(region.named(lambda spec: spec.is_compared_length), roles.NO_LENGTH)
    for form, by in (("a row", None), ("some", roles.HIDING[1])) if masks or lengths else ():
        yield region.case(dict.fromkeys(masks, roles.mask(form, by=by)) | lengths)


@strategy(
    "indices that count from the end",
    models=True,
    informs=True,
    because="a negative index is rejected, or looks up another row",
)
def backwards(region: ModelRegion) -> Iterator[InputCase]:
    """Some indices count from the end of their tables."""
    yield from region.each(region.named(lambda spec: spec.is_index), [roles.BACKWARDS])


@strategy(
    "counts and positions that count from the end",
    models=True,
    informs=True,
    because="a negative start, step or count means something else",
)
def negative_counts(region: ModelRegion) -> Iterator[InputCase]:
    """Negative counts, near and far."""
    yield from region.each(region.alike(lambda spec: spec.kind == "counts"), map(roles.counts, roles.NEGATIVE_COUNTS))


@strategy(
    "integers that do not fit in half of their bits",
    models=True,
    informs=True,
    because="an integer is cut to half of its bits, or goes through a float",
)
def large_integers(region: ModelRegion) -> Iterator[InputCase]:
    """A few of both signs, whose squares still fit."""
    yield from region.each(region.alike(lambda spec: spec.takes_large_integers), [roles.BEYOND_HALF])


_HOMES = [module.__name__ for module in (values_of_sites, roles_of_sites)]
MODEL_STRATEGIES = [
    item for item in STRATEGIES.values() if item.models and item.propose.__module__ in (*_HOMES, __name__)
]
"""Those of this module, and those of sites that need no facts of nodes."""
