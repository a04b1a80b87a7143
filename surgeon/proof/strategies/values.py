"""Strategies of values for inputs that may hold any number."""

from collections.abc import Iterator
from itertools import islice, pairwise

from surgeon.proof.cases.literal_injection import MAX_LITERALS
from surgeon.proof.strategies.region_facts import CaseRegion
from surgeon.proof.strategies.strategy import InputCase, strategy
from surgeon.runtime.inputs import float_fills as floats
from surgeon.runtime.inputs import role_fills as roles
from surgeon.runtime.inputs.fill import Fill, Fills

SAMPLES = 2
"""Usual cases after the first: one sample hides, with odds of a half, an error in the order of two numbers."""
MEMBER_CASES = 5
"""Cases if rows mix, for a region whose class is proved in full: numbers of other magnitudes, zeros, and NaN."""
SMALL_LITERAL = 1e-2
"""Literals up to here are added so that nothing is divided by zero; the numbers around them are tiny."""


@strategy(
    "usual",
    models=True,
    because="operands, tensors, axes, terms or constants are mixed up: random numbers have no symmetry",
)
def usual(region: CaseRegion) -> Iterator[InputCase]:
    """Usual numbers in all inputs."""
    for _ in range(SAMPLES):
        yield region.case({})


@strategy(
    "literals",
    because="a threshold, a bound or the side of a comparison is wrong: inputs reach the numbers of both sides, also "
    "after arithmetic, and their neighbours",
)
def literals(region: CaseRegion) -> Iterator[InputCase]:
    """Literals of both sides and thresholds, solved for inputs."""
    for number in range(max(region.literal_cases(), 1)):
        yield region.case(region.literals(number))


@strategy(
    "ties",
    because="rounding goes the other way at half a step, or equal numbers are in a different order: numbers are "
    "halfway between two steps, and inputs share few numbers",
)
def ties(region: CaseRegion) -> Iterator[InputCase]:
    """Halves of each rounding step, and equal numbers in a row and across inputs."""
    integers = [spec.name for spec in region.inputs if spec.signed and spec.dtype.kind in "iu"]
    yield region.case(region.literals(0, ties=True))
    yield region.case(dict.fromkeys(region.floats, floats.EQUAL) | dict.fromkeys(integers, roles.EQUAL_INTEGERS))
    for number in range(1, region.literal_cases()):
        yield region.case(region.literals(number, ties=True))


def _non_finite(region: CaseRegion) -> Fill:
    """Usual numbers with infinity and NaN among them.

    Kernels find NaN only at some positions of a row whose extreme they take (quirks.NAN_IN_EXTREMES).  Those that read
    between pixels differ in whether they multiply a pixel at the edge by zero, so there all are NaN.
    """
    if "reads any positions" in region.traits:
        return floats.ALL_NAN
    return floats.INFINITE if "finds extremes" in region.traits else floats.NON_FINITE


def special_fills(region: CaseRegion) -> Iterator[Fill]:
    """Fills of whole rows, the most informative first."""
    traits = region.traits
    reads_positions = "reads positions" in traits  # kernels differ for those far outside of a picture
    if not reads_positions:
        yield floats.WIDE
    is_local = "reads any positions" not in traits  # else one number shows only if a kernel multiplies it by zero
    if is_local:
        yield _non_finite(region)
    yield from (floats.ZEROS, floats.SMALL)
    if not reads_positions:
        yield floats.LARGE
    if "picks by products" not in traits:  # their order decides which score overflows, and so which a softmax picks
        yield floats.EXTREME
        if any(spec.half for spec in region.inputs):
            yield floats.EXTREME_HALF
    yield from (floats.DENORMALS, floats.TINY, floats.ALL_NAN)
    if is_local:
        yield from (floats.ALL_MINUS_INF, floats.ALL_INF)
    order_decides = bool(traits & {"adds products", "accumulates", "squares", "reads any positions"})
    if not order_decides:  # else the order of terms decides which of these numbers overflow
        yield floats.UNIFORM_LARGE
    yield from (floats.NEGATIVE, floats.POSITIVE, floats.ONES)
    if is_local:
        yield from (floats.LONE_INF, floats.LONE_MINUS_INF)
    if is_local and "finds extremes" not in traits:
        yield floats.LONE_NAN


@strategy(
    "special rows",
    because="NaN, infinity, zeros of either sign, denormals, or numbers that overflow or vanish are lost or produced",
    for_members=True,
)
def special_rows(region: CaseRegion) -> Iterator[InputCase]:
    """One kind of numbers throughout each row."""
    with_rows = [name for name in region.floats if name in region.rows.inputs]
    fills, is_partial = list(special_fills(region)), bool(with_rows) and len(with_rows) < len(region.floats)
    if is_partial and "finds extremes" in region.traits:  # NaN among numbers, which kernels find at some positions
        fills.remove(floats.ALL_NAN)
    packed = region.packed(region.for_all(with_rows or region.floats, fills))
    if region.is_member:
        yield from (case for case in islice(packed, 1 if with_rows else MEMBER_CASES))
        return
    yield from packed
    if is_partial:  # usual numbers from outside hide small rows
        everywhere = (floats.WIDE, floats.SMALL, floats.ZEROS, floats.LARGE, floats.TINY)
        yield from region.single(region.for_all(region.floats, [fill for fill in everywhere if fill in fills]))


@strategy(
    "pairs of special numbers",
    because="a rule forgets the results of 0·inf, inf-inf or NaN with a number: IEEE's table of operands",
)
def pairs(region: CaseRegion) -> Iterator[InputCase]:
    """Every special number next to every other, element by element; else the pairs that give NaN in one place of a row.

    Then one input holds special numbers while the others hold zeros and ones.
    """
    names = region.floats
    if region.is_elementwise:
        size = region.rows.number
        several = range(0, len(floats.SPECIAL) ** 2 if len(names) > 1 else size, size)
        table = ({name: floats.special_pairs(place, first) for place, name in enumerate(names)} for first in several)
        yield from region.single(table, region.rows.dims)
    if "picks by products" in region.traits or len(names) < 2:  # an infinite score leaves only NaN behind it
        return
    patterns: list[Fills] = [
        {name: floats.ZEROS_AND_ONES for name in names if name != special} | {special: _non_finite(region)}
        for special in names
    ]
    if not region.is_elementwise and "reads any positions" not in region.traits:
        patterns += [
            {one: floats.at_middle(a), other: floats.at_middle(b)}
            for one, other in pairwise(names)
            for a, b in ((floats.INF, -floats.INF), (0.0, floats.INF), (floats.INF, 0.0), (-floats.INF, floats.INF))
        ]
    yield from region.packed(patterns)


def _magnitudes(region: CaseRegion) -> Iterator[Fills]:
    """A number for each binade; if a sum shows only the largest, a row for each, which products leave finite."""
    traits, names = region.traits, region.floats
    if not names or "reads positions" in traits:  # kernels differ for far or tiny positions
        return
    if traits.isdisjoint({"picks by products", "accumulates"}):
        part = floats.THIRD if "adds products" in traits else 1.0
        yield from region.for_all(names, [floats.magnitudes(part, flip) for flip in (0, 1)])
    elif traits.isdisjoint({"picks by products", "squares", "adds products"}):
        yield from region.for_all(names, [floats.row_magnitudes(1.0)])
    else:
        values = dict.fromkeys(region.beside_softmax, floats.row_magnitudes(floats.THIRD, many=True))
        scores = [name for name in names if name not in values]
        yield dict.fromkeys(scores[::2], floats.row_magnitudes(floats.THIRD)) | values


@strategy(
    "every power of two",
    because="a square, an exponential or a sum overflows or vanishes, or a bound that no constant has cuts off numbers",
)
def powers(region: CaseRegion) -> Iterator[InputCase]:
    """A number for each binade of the dtype, of both signs; a row for each if a sum would show only the largest."""
    yield from region.single(_magnitudes(region), region.roomy)
    if "extreme" in region.proof_case.intended_differences and region.beside_softmax:
        # The rule means scores that overflow.  What a softmax only weights has no such excuse.
        weighted = floats.row_magnitudes(floats.THIRD, many=True)._replace(kinds=())
        yield region.case(dict.fromkeys(region.beside_softmax, weighted))


@strategy(
    "statistics of rows",
    because="a variance cancels, an epsilon is added elsewhere, or a mean is left out: rows are constant, far "
    "from zero, and about as small as the constants that are added",
)
def statistics(region: CaseRegion) -> Iterator[InputCase]:
    """Rows whose mean is large compared with their deviation, and rows without one."""
    is_small = "picks by products" in region.traits
    epsilons = sorted({abs(number) for number in region.numbers if 0 < abs(number) <= SMALL_LITERAL})
    near = [floats.scaled(factor) for epsilon in epsilons for factor in (epsilon**0.5, epsilon)]
    fills = [floats.offset(1, is_small=is_small), floats.CONSTANT, *near]
    fills += [floats.offset(-1, is_small=is_small), floats.CONSTANT_MORE]
    with_rows = [name for name in region.floats if name in region.rows.inputs] or region.floats
    yield from region.packed(region.for_all(with_rows, fills))


@strategy(
    "ordered rows",
    because="a rule is right only for rows that are sorted, unique, one-hot, constant, or add up to one",
)
def ordered_rows(region: CaseRegion) -> Iterator[InputCase]:
    """Rows that rise, fall, hold a one among zeros, pairs of equals, parts of one."""
    yield from region.single(region.for_all(region.floats, [floats.ordered(0), floats.ordered(3)]))


@strategy(
    "each alone",
    because="an input is ignored, or is right only with usual other inputs: one holds special numbers while the others "
    "are usual",
)
def each_alone(region: CaseRegion) -> Iterator[InputCase]:
    """One input special, the others usual."""
    names = region.floats
    if len(names) < 2:
        return
    alone = region.beside_softmax if "picks by products" in region.traits else names
    yield from region.packed(region.each_alone(alone, [_non_finite(region), floats.ZEROS]))
    if "reads positions" not in region.traits:
        yield from region.packed(region.each_alone(names, [floats.row_magnitudes(floats.THIRD)]))
    if "picks by products" in region.traits:
        yield from region.packed(region.each_alone(names, [floats.ZEROS]))


def _near(can_sum: bool, first: int, place: int) -> Fill:
    return roles.integers_of_every_length(can_sum=can_sum, first=first, beside=place)


@strategy(
    "integers of every length",
    because="an integer wraps, is cut to half of its bits, or goes through a float: one number for each count of bits, "
    "and both ends of the dtype",
)
def integers(region: CaseRegion) -> Iterator[InputCase]:
    """Integers of every count of bits."""
    names = [spec.name for spec in region.inputs if spec.takes_large_integers]
    # ONNX Runtime saturates sums of integers, so the order of terms decides; a divisor of -1 ends the process.
    can_sum = not region.traits.isdisjoint({"sums", "divides"})
    dims = region.roomy
    if names:
        yield region.case({name: _near(can_sum, 0, place) for place, name in enumerate(names)}, dims)
        yield region.case(dict.fromkeys(names, roles.mixed_integers(can_sum=can_sum)), dims)
        room = max(min(region.elements_of(name, dims) for name in names), 1)
        bits = 8 * max(spec.dtype.itemsize for spec in region.inputs if spec.takes_large_integers)
        for first in range(room, min(2 * bits, room * MAX_LITERALS), room):
            yield region.case({name: _near(can_sum, first, place) for place, name in enumerate(names)}, dims)
    yield from region.single(region.for_all(names, [roles.WIDE_INTEGERS]))
    wraps = (spec for spec in region.inputs if not can_sum or spec.dtype.itemsize == 1)
    ends = [spec.name for spec in wraps if spec.takes_large_integers]
    for is_low in (False, True) if ends else ():
        yield region.case(dict.fromkeys(ends, roles.near_end(is_low=is_low)), dims)
