"""Strategies of inputs with a role: masks, indices, counts, conditions, lengths, strings."""

from collections.abc import Iterator
from itertools import product

from surgeon.proof.strategies.region_facts import CaseRegion
from surgeon.proof.strategies.strategy import InputCase, strategy
from surgeon.runtime.inputs import role_fills as roles
from surgeon.runtime.inputs.input_spec import MAX_CONDITIONS

MAX_WORDS = 100
"""Cases for strings: an input of few elements holds one or two in each."""
MAX_TRIPS = 16
"""Literals that are tried as trip counts: a loop body runs so often in each case."""


def _named(region: CaseRegion, kind: str) -> list[str]:
    return [spec.name for spec in region.inputs if spec.kind == kind]


@strategy(
    "masks",
    because="a completely hidden row, a hole, or one of several masks is handled differently, or a fill that is "
    "added counts as minus infinity",
)
def masks(region: CaseRegion) -> Iterator[InputCase]:
    """A table of holes, rows, all and none by the hiding value, in all masks and in one of several."""
    specs = [spec for spec in region.inputs if spec.is_mask]
    names = [spec.name for spec in specs]
    lengths = [spec.name for spec in region.inputs if spec.is_compared_length]
    added = any(spec.kind != "mask" for spec in specs)
    ways = roles.HIDING if added else roles.HIDING[:1]
    fills = [
        roles.mask(form, by=by, beside=place % 2 == 1)
        for by in ways
        for place, form in enumerate(("a row", "holes", "all", "none"))
    ]
    yield from region.single(region.for_all(names, [roles.mask("all"), roles.mask("none")]))  # rows may mix there only
    yield from region.packed(region.for_all(names, fills))
    bits = [spec.name for spec in specs if spec.dtype.kind != "f"]
    of_bits = (roles.TRAILING_MASK, roles.mask("some"), roles.ANY_NON_ZERO_MASK)
    yield from region.packed(region.for_all(bits, of_bits))
    if len(names) > 1:
        yield from region.packed(region.each_alone(names, [roles.mask("a row", by=by) for by in ways]))
    yield from region.single(region.for_all(lengths, [roles.NO_LENGTH]))


@strategy(
    "indices",
    because="a negative, last or repeated index is handled differently, or a position starts later",
)
def indices(region: CaseRegion) -> Iterator[InputCase]:
    """Indices from the end and from anywhere, positions from later starts."""
    signed = [spec.name for spec in region.inputs if spec.is_index]
    yield from region.single(region.for_all(signed, [roles.BACKWARDS]))
    yield from region.single(region.for_all(_named(region, "indices"), [roles.BETWEEN]))
    yield from region.single(region.for_all(_named(region, "positions"), [roles.ONE_START, roles.EACH_START]))
    yield from region.single(region.for_all(_named(region, "keys"), [roles.SHORTER_KEYS]))


@strategy(
    "fractions",
    because="a float that becomes an index, a count or a boolean is rounded differently, or NaN becomes a number",
)
def fractions(region: CaseRegion) -> Iterator[InputCase]:
    """Floats between integers, halfway, near their limits, and NaN."""
    names = [spec.name for spec in region.inputs if spec.fractional]
    parts = [roles.fractions(part) for part in roles.FRACTIONS]
    yield from region.single(region.for_all(names, [*parts, roles.BESIDE_INTEGERS, roles.NAN_AMONG_INTEGERS]))


@strategy(
    "counts",
    because="a depth, a number of repeats, a step or an axis from outside is right only within the usual range",
)
def counts(region: CaseRegion) -> Iterator[InputCase]:
    """Counts that are none, one, literals, sizes, longer and negative, one at a time and several at once."""
    names = _named(region, "counts")
    for number in range(roles.COUNTED):
        lengths = {name: roles.count_at_a_place(array) for name, array in region.cached_lengths(number).items()}
        fills = dict.fromkeys(names, roles.counts(number)) | lengths
        if fills:
            yield region.case(fills)
    for arrays in region.counts():
        yield region.case({name: roles.count_at_a_place(array) for name, array in arrays.items()})


@strategy(
    "trip counts",
    models=True,
    because="a loop loses its state if it runs never, once, or past a bound that one side mentions",
)
def trips(region: CaseRegion) -> Iterator[InputCase]:
    """Loops of 0, 1, 3 and more trips than literals."""
    names = [spec.name for spec in region.inputs if spec.kind == "counts" and "trip" in spec.role.flags]
    # A scalar that is compared and that sizes depend on may be the bound of a loop.
    bounds = (spec for spec in region.inputs if spec.kind == "lengths" and not spec.is_unconstrained)
    names += [spec.name for spec in bounds if not spec.dims]
    literals = (int(number) + 1 for number in region.numbers if float(number).is_integer() and 0 < number < MAX_TRIPS)
    for number in dict.fromkeys((0, 3, 1, 7, *literals)) if names else ():
        yield region.case(dict.fromkeys(names, roles.constant(number, "trips")))


@strategy("conditions", models=True, because="a rule is right for one branch, or for some combination of conditions")
def conditions(region: CaseRegion) -> Iterator[InputCase]:
    """All combinations of the values of four conditions; further ones are true."""
    names = _named(region, "condition")[:MAX_CONDITIONS]
    for values in product((0, 1), repeat=len(names)) if names else ():
        yield region.case(
            {name: roles.constant(value, "conditions") for name, value in zip(names, values, strict=True)}
        )


@strategy(
    "any number",
    because="a rule relies on a bound that only the use of an input implies: a mask of ones, a length within a "
    "dimension",
)
def any_number(region: CaseRegion) -> Iterator[InputCase]:
    """Lengths, counts and masks as if they were plain numbers, if the original accepts them."""
    names = [spec.name for spec in region.inputs if spec.may_ignore_role]
    ways = ("few", "many", "not negative")
    yield from region.single(region.for_all(names, map(roles.any_number, ways)))
    literals = (region.literals(number, out_of_role=True) for number in range(region.literal_cases(out_of_role=True)))
    yield from region.single(literals)


@strategy(
    "strings",
    models=True,
    because="a string is cut, compared or split differently: strings of both sides, their parts, prefixes and cases",
)
def strings(region: CaseRegion) -> Iterator[InputCase]:
    """Strings of the region and variations of them, all in turn."""
    specs = [spec for spec in region.inputs if spec.kind == "words"]
    most = max((len(spec.role.words) for spec in specs), default=0)
    for first in range(1, min(max(most, 2), MAX_WORDS + 1)) if specs else ():
        yield region.case(dict.fromkeys((spec.name for spec in specs), roles.words(first)))


@strategy(
    "compared integers",
    because="an integer bound that usual inputs never reach is off by one, or compared on the other side",
)
def compared(region: CaseRegion) -> Iterator[InputCase]:
    """Integers of a wide range for inputs that are compared."""
    names = [spec.name for spec in region.inputs if spec.kind == "compared" and spec.takes_wide_values]
    yield from region.single(region.for_all(names, [roles.WIDE_INTEGERS]))
