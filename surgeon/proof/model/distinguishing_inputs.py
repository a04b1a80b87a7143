"""Likely differences of two models: numbers at which one of them decides, sizes that it branches on, tables."""

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest

import numpy as np
from onnx import TensorProto

from surgeon.analysis.decisions.joint_inputs import FINEST, JOINED, has_exact_joint_decision
from surgeon.analysis.decisions.sort_ties import TIED, has_exact_ties
from surgeon.analysis.decisions.threshold_solver import Threshold
from surgeon.analysis.decisions.thresholds import edges_of, find_thresholds, region_literals, sizes_of
from surgeon.file.model import Model
from surgeon.file.tensors.content_equality import TensorContents
from surgeon.ir.index import Index
from surgeon.ops.traits.trait_lookup import node_traits
from surgeon.ops.traversal import graphs_and_functions, nodes_of, uses_float16
from surgeon.runtime.inputs.fill import Blank, Fill
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.inputs.input_spec import InputSpec
from surgeon.runtime.inputs.role_fills import index_range
from surgeon.shapes.tensor_types import FLOATS

Feeds = Mapping[str, np.ndarray]
_BESIDE = (1.00211, 0.99787)  # factors on a number: beyond rounding errors, and not at a tie
_MAX_SUMS = 64  # sums to reach
_MAX_MET, _MAX_SOLVED = 128, 1024  # exact thresholds, and candidates for them
_LONE = 8  # numbers that come singly in a row, at most
_SMALL = 64  # largest number that is repeated: larger ones hide their neighbours
_OFF = (2.0**-7, 2.0**-6)  # relative shifts: larger than the rounding of bfloat16
_OFF_HALVES = (1 / 16, 1 / 8)  # the same where floats become integers: from no fraction that is tried to the next one
_MAX_FLOAT, _MAX_HALF = 2.0**20, 1e4  # largest floats: larger ones dominate the scale of an output
_FILLS = -4096.0  # a constant below this, without a known comparison, is the fill of a mask
_MIN_SIZE, _MAX_SIZE, _MAX_SIZES = 6, 4096, 4  # sizes that a model branches on, beyond those that are tried anyway
_MAX_COUNT = 256  # largest count: trips of a loop, repeats of a tensor, elements of a result
_FEW = 8  # rows of a table that usual inputs look up anyway


@dataclass(frozen=True, slots=True)
class DistinguishingInputs:
    """Numbers and sizes at which two models are most likely to differ, and tables in which they do."""

    floats: tuple[Sequence[float], Sequence[float]]
    """Float inputs that reach a threshold exactly; then numbers next to thresholds and other scalar constants."""
    integers: tuple[Sequence[int], Sequence[int]]
    """The same for integer inputs, each with its neighbours."""
    tables: Mapping[str, int]
    """Rows of float tables that the other model does not have, by name."""
    ties: bool = False
    """Whether equal numbers in the inputs give exact ties."""
    joined: Sequence[float] = ()
    """Numbers that sums of several elements should reach; empty if no exact decision depends on such a sum."""
    sizes: Sequence[int] = ()
    """Sizes that a model branches on."""
    picks: bool = False
    """Whether a model takes the maximum or minimum of a row."""

    @classmethod
    def of(cls, original: Model, other: Model, *, exactly: bool = False, tables: bool = True) -> "DistinguishingInputs":
        """Find these for two models.

        exactly: only exact thresholds after arithmetic, because the other model runs elsewhere.  tables: include
        tables that differ.
        """
        models = original.skeleton, other.skeleton
        most = _MAX_HALF if any(map(uses_float16, models)) else _MAX_FLOAT
        indexes = [Index.over(model) for model in models]
        boundaries = list(map(find_thresholds, indexes))
        met = _met(boundaries, exactly=exactly)
        edges = list(dict.fromkeys(number for index in indexes for number in edges_of(index)))
        numbers = (number for model in models for array in region_literals(model).values() for number in array.tolist())
        literals = list(dict.fromkeys(number for number in numbers if math.isfinite(number)))
        no_fills = (number for number in literals if number > _FILLS)
        beside = dict.fromkeys(
            number * part for number in (*edges, *no_fills) for part in _BESIDE if 0 < abs(number) <= most
        )
        floats = [number for number in met if abs(number) <= most], list(beside)
        whole = [dict.fromkeys(int(number) + by for number in some for by in (0, 1, -1)) for some in (edges, literals)]
        integers = list(whole[0]), [number for number in whole[1] if number not in whole[0]]
        differing = dict(_tables(original, other)) if tables else {}
        joined = _joined(boundaries) if all(map(has_exact_joint_decision, indexes)) else ()
        (ours, reached), (theirs, reached_too) = map(sizes_of, indexes)
        sizes = dict.fromkeys((*ours, *theirs, *sorted({*reached} ^ {*reached_too})))
        branch_sizes = [size for size in sizes if _MIN_SIZE <= size <= _MAX_SIZE][:_MAX_SIZES]
        picks = any(node_traits(node).numerics.reduces == "extremum" for model in models for node in nodes_of(model))
        return cls(
            floats,
            integers,
            differing,
            ties=all(map(has_exact_ties, indexes)),
            joined=joined,
            sizes=branch_sizes,
            picks=picks,
        )

    def numbers(self, blank: Blank, case: int) -> list[float]:
        """The numbers for every other element of an input in a case; empty if it accepts none, or all were used.

        If there is room, small numbers are repeated, because some elements may not be compared; exact thresholds
        come twice.  Last come single numbers: of several in a row a maximum shows only the largest.
        """
        met, beside = self._numbers_for(blank)
        count = max(math.prod(blank.shape) // 2, 1)
        apart = [[some[at : at + count] for at in range(0, len(some), count)] for some in (met, beside, met)]
        sets = [some for together in zip_longest(*apart, fillvalue=[]) for some in together if some]
        sets += [[number] for number in beside[:_LONE] if self.picks]
        if case >= len(sets) or not math.prod(blank.shape):
            return []
        again = [number for number in sets[case] if abs(number) <= _SMALL]
        return [*sets[case], *(np.resize(again, count - len(sets[case])).tolist() if again else ())]

    def _numbers_for(self, blank: Blank) -> tuple[Sequence[float], Sequence[float]]:
        """The exact thresholds for an input, and the other numbers."""
        if blank.spec.takes_edge_values and blank.spec.named is None:
            return self.floats
        if blank.spec.dtype.kind not in "iu":
            return (), ()
        low, high = _bounds(blank)
        met, beside = ([number for number in some if low <= number <= high] for some in self.integers)
        return met, beside

    def unvisited_tables(self, plan: InputGenerator, feeds: Sequence[Feeds], lengths: Collection[int]) -> list[str]:
        """The tables of which some rows may not have been looked up.

        feeds: all inputs that ran.  lengths: of sequences.
        """
        fed = {
            rows
            for want in plan.wants
            if (rows := self.rows_of(want))
            and feeds
            and len(np.unique(np.concatenate([arrays[want.name].reshape(-1) for arrays in feeds]) % rows)) == rows
        }
        return [name for name, rows in self.tables.items() if rows not in fed and rows not in lengths]

    def rows_of(self, want: InputSpec) -> int:
        """The number of rows of tables that differ and that an input indexes; 0 for other inputs."""
        found = [limit for limit in want.role.limits if not limit.shift and not limit.sizes and limit.parts == 1]
        is_plain = want.kind == "indices" and found and len(found) == len(want.role.limits)
        tables = [limit.table for limit in found if isinstance(limit.table, int)] if is_plain else []
        least = min(tables, default=0)
        return least if least in self.tables.values() else 0


def away_from_ties(plan: InputGenerator, feeds: Feeds, seed: int) -> dict[str, np.ndarray]:
    """The same inputs with each float shifted a little, so that nothing depends on a last bit."""
    random, made = np.random.default_rng(seed), dict(feeds)
    for want in plan.wants:
        array = feeds[want.name]
        if want.takes_edge_values:
            off, wide = random.uniform(*_OFF, array.shape), array.astype(np.float64)
            made[want.name] = np.where(wide == 0, off, wide * (1 + off)).astype(want.dtype)
        elif want.fractional:
            made[want.name] = (array + random.uniform(*_OFF_HALVES, array.shape)).astype(want.dtype)
    return plan.obeying(made)


def _met(models: Sequence[Sequence[Threshold]], *, exactly: bool) -> list[float]:
    """Thresholds of some model that do not depend on rounding: the first numbers for inputs.

    After arithmetic, both models must have the threshold to the bit, and all thresholds near it must agree: 0.1 * x >
    0.3 and x > 3 may differ near it, as everybody expects.  A model with arithmetic that is not followed is excluded
    too: sigmoid(x) > 0.25 is x > -1.0986123.
    """
    apart = [sorted(some, key=lambda one: (not one.is_model_input, not one.is_plain))[:_MAX_MET] for some in models]
    every = [boundary for boundaries in apart for boundary in boundaries]
    solved = [number for boundary in every for number in boundary.solutions().tolist()]
    numbers = np.array(list(dict.fromkeys(solved))[:_MAX_SOLVED], np.float64)
    met = {one: one.meets_exactly(numbers) if exactly else one.meets(numbers) for one in every}
    none = np.zeros(numbers.shape, bool)
    plain = reduce(np.logical_or, (met[one].any(axis=1) for one in every if one.is_plain), none)
    agreed = ~none
    for one in every:
        missed = (one.is_near(numbers) & ~met[one]).any(axis=1)
        agreed &= ~missed | (plain & one.is_plain)
    by_each = [reduce(np.logical_or, (met[one].any(axis=1) for one in boundaries), none) for boundaries in apart]
    for found_by, boundaries in zip(by_each, apart, strict=True):
        if not all(one.is_model_input for one in boundaries):
            plain &= found_by
    found: list[float] = numbers[agreed & (plain | np.all(by_each, axis=0))].tolist()
    return found[:_MAX_MET]


def equal_numbers(case: int) -> Fill:
    """Few different numbers; every other one equals that of other inputs with as many elements."""

    def make(blank: Blank) -> np.ndarray:
        flat = np.random.default_rng(case).choice(TIED, math.prod(blank.shape))
        flat[1::2] = blank.random.choice(TIED, flat[1::2].size)
        return flat.reshape(blank.shape)

    return Fill("equal numbers", make, may_overflow=True, decides=True)


def _joined(models: Sequence[Sequence[Threshold]]) -> list[float]:
    """Sums that several elements are to reach: thresholds and halves."""
    started = [number for some in models for one in some for number in one.source_values.reshape(-1).tolist()]
    plain = (number for number in started if math.isfinite(number) and (number / FINEST).is_integer())
    return list(dict.fromkeys([*JOINED, *(number for number in plain if abs(number) <= _MAX_HALF)]))[:_MAX_SUMS]


def sums(numbers: Sequence[float], first: int) -> Fill:
    """Numbers whose sums reach thresholds, and rows of zeros with one other element, from a first row on."""

    def make(blank: Blank) -> np.ndarray:
        made = blank.random.choice(JOINED, blank.shape)
        rows = made.reshape(-1, made.shape[-1] if made.ndim else 1)
        lone = np.arange(first, len(rows), 2)
        rows[lone] = 0.0
        rows[lone, blank.random.integers(0, rows.shape[1], len(lone))] = blank.random.choice(numbers, len(lone))
        return made

    return Fill("sums that decide", make, may_overflow=True, decides=True)


def _bounds(blank: Blank) -> tuple[int, int]:
    """The range of numbers that an input of integers may take: indices up to the last row of their tables."""
    want = blank.spec
    if want.kind == "indices" and want.named is None:
        return 0, int(index_range(blank)[1].min()) - 1
    if want.kind == "counts" and "target" not in want.role.flags:
        return 0, _MAX_COUNT
    if (want.is_unconstrained and want.kind in ("plain", "compared")) or want.is_compared_length:
        limits = np.iinfo(want.dtype)
        return int(limits.min) if want.signed else int(want.is_compared_length), int(limits.max)
    return 1, 0


def _tables(original: Model, other: Model) -> Iterator[tuple[str, int]]:
    """Stored float tables with lookups that the other model does not have, with their number of rows."""
    ours, theirs = TensorContents(original), TensorContents(other)
    stored: dict[Hashable, list[TensorProto]] = {}
    for tensor in other.skeleton.graph.initializer:
        stored.setdefault((tensor.data_type, *tensor.dims), []).append(tensor)
    try:
        for tensor, axis in looked_up_in(original):
            rows = tensor.dims[axis] if -len(tensor.dims) <= axis < len(tensor.dims) else 0
            if tensor.data_type in FLOATS and rows > _FEW:
                alike = stored.get((tensor.data_type, *tensor.dims), ())
                if not any(ours.same(tensor, one, theirs) for one in alike):
                    yield tensor.name, rows
    finally:
        ours.close()
        theirs.close()


def looked_up_in(model: Model) -> Iterator[tuple[TensorProto, int]]:
    """Initializers of the main graph that nodes look up in, each once, with the axis."""
    stored = {tensor.name: tensor for tensor in model.skeleton.graph.initializer}
    for holder in graphs_and_functions(model.skeleton):
        for node in holder.node:
            for lookup in node_traits(node).indexing.lookups:
                name = node.input[lookup.table] if lookup.table < len(node.input) else ""
                tensor = stored.pop(name, None)
                if tensor is not None:
                    given = (item.i for item in node.attribute if item.name == lookup.axis_attribute)
                    yield tensor, next(given, lookup.default_axis)
