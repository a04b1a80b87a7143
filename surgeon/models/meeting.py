"""Inputs at which two models are likeliest to part: numbers that either decides at, and rows of tables that differ."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from surgeon.file.model import Model
from surgeon.file.sameness import Contents
from surgeon.inputs.decisions import edges_of, numbers_in
from surgeon.inputs.inputs import InputPlan
from surgeon.inputs.requirements import Want
from surgeon.ops.records import likened_node
from surgeon.ops.walking import holders, holds_half

Feeds = Mapping[str, np.ndarray]
MET, LOOKED_UP = "numbers that decide", "all rows of tables"
"""What the kinds of such inputs are called."""
TURNS = 4  # sets of inputs in which numbers are put
INDICES, RUNS = 256, 64  # how many indices one run is to take where the model leaves that free, and the most runs
_BESIDE = (1 + 2.0**-9, 1 - 2.0**-9)  # times a number: further from it than roundings lie
_ALIKE = 1e-3  # of numbers: what is so near to one behind arithmetic is not met itself, as there rounding decides
_MOST, _MOST_HALF = 2.0**20, 1e4  # of floats that are put: beside larger ones the scale of an output hides all others
_FEW = 8  # rows of a table that any inputs look up
_FLOATS = frozenset((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16))


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where two models may part.

    floats: what inputs of floats have to be for something to be what it is compared with, beside that, and beside other
    constants of one element, as of a minimum or a remainder.  integers: the same of integers.  tables: how many rows
    tables of floats have that the other model has not, by name.
    """

    floats: tuple[float, ...]
    integers: tuple[int, ...]
    tables: Mapping[str, int]

    @classmethod
    def of(cls, original: Model, other: Model, *, tables: bool = True) -> "Meeting":
        """What two models tell.  tables: whether to compare those too, which reads them.

        Raises ModelFileError where a table cannot be read.
        """
        models = original.skeleton, other.skeleton
        every = dict.fromkeys(number for model in models for number in edges_of(model))
        exact = dict.fromkeys(number for model in models for number in edges_of(model, solved=False))
        behind = [number for number in every if number not in exact]
        met = [number for number in exact if not any(_is_near(number, one) for one in behind)]
        most = _MOST_HALF if any(map(holds_half, models)) else _MOST
        spoken = [float(number) for model in models for numbers in numbers_in(model).values() for number in numbers]
        every.update(dict.fromkeys(number for number in spoken if math.isfinite(number)))
        beside = [number * part for number in every for part in _BESIDE if number]
        floats = dict.fromkeys(number for number in (*met, *beside) if abs(number) <= most)
        whole = dict.fromkeys(int(number) + by for number in every for by in (0, 1, -1))
        return cls(tuple(floats), tuple(whole), dict(_tables(original, other)) if tables else {})

    def numbers(self, plan: InputPlan, feeds: Feeds, seed: int) -> Iterator[dict[str, np.ndarray]]:
        """The same inputs with numbers in them that a model decides at, others each time."""
        for turn in range(TURNS):
            random = np.random.default_rng([seed, turn])
            put = ((want.name, self._put(want, feeds[want.name], turn, random)) for want in plan.wants)
            made = {name: array for name, array in put if array is not None}
            if not made:
                return
            yield {**feeds, **made}

    def _put(self, want: Want, array: np.ndarray, turn: int, random: np.random.Generator) -> np.ndarray | None:
        """An input with numbers in every other element; None where none may stand there, or all did before."""
        pins: list[float] | list[int] = []
        if want.edged and want.named is None:
            pins = [*self.floats]
        elif want.dtype.kind in "iu" and array.size:
            low, high = _bounds(want, array)
            pins = [number for number in self.integers if low <= number <= high]
        count = max(array.size // 2, 1)
        if not array.size or turn * count >= len(pins):
            return None
        flat = array.reshape(-1).copy()
        put = pins[turn * count : (turn + 1) * count]
        flat[random.permutation(flat.size)[: len(put)]] = put
        return flat.reshape(array.shape)

    def rows(self, plan: InputPlan, sizes: Mapping[str, int], seed: int) -> Iterator[dict[str, np.ndarray]]:
        """Inputs whose indices go through all rows of the tables that differ, as far as `RUNS` sets reach."""
        wants = [(want, rows) for want in plan.wants if (rows := self._rows_of(want))]
        if not wants:
            return
        larger = _enlarged(plan, wants[0][0], sizes)
        counts = [max(math.prod(want.shape(larger)), 1) for want, _ in wants]
        runs = max(-(-rows // count) for (_, rows), count in zip(wants, counts, strict=True))
        for turn in range(runs if runs <= RUNS else 0):
            feeds = plan.make(seed, larger)
            for (want, rows), count in zip(wants, counts, strict=True):
                indices = (turn * count + np.arange(count)) % rows
                feeds[want.name] = indices.reshape(want.shape(larger)).astype(want.dtype)
            yield feeds

    def _rows_of(self, want: Want) -> int:
        """How many rows of tables that differ an input points at; 0 for other inputs."""
        found = [limit for limit in want.role.limits if not limit.shift and not limit.sizes and limit.parts == 1]
        is_plain = want.kind == "indices" and found and len(found) == len(want.role.limits)
        tables = [limit.table for limit in found if isinstance(limit.table, int)] if is_plain else []
        least = min(tables, default=0)
        return least if least in self.tables.values() else 0

    def longest(self, plan: InputPlan, sizes: Mapping[str, int]) -> list[dict[str, int]]:
        """Sizes at which sequences are as long as tables that differ have rows which no input points at itself."""
        fed = {self._rows_of(want) for want in plan.wants}
        long = sorted({rows for rows in self.tables.values() if rows not in fed})
        free = [key for key, dim in plan.free.items() if key in sizes and dim.kind() == "sequence"]
        return [{**sizes, **dict.fromkeys(free, rows)} for rows in long] if free else []

    def unmet(self, plan: InputPlan, looked_up: bool, reached: set[int]) -> list[str]:
        """The tables of which rows may not have been looked up.

        looked_up: whether all rows were that inputs point at.  reached: how long sequences were.
        """
        fed = {self._rows_of(want) for want in plan.wants} if looked_up else set()
        return [name for name, rows in self.tables.items() if rows not in fed and rows not in reached]


def _is_near(number: float, other: float) -> bool:
    return abs(number - other) <= _ALIKE * max(abs(number), abs(other))


def _bounds(want: Want, array: np.ndarray) -> tuple[int, int]:
    """Between which numbers an input of integers takes any: indices no further than those that are there."""
    if want.kind == "indices" and want.named is None:
        return 0, int(array.max())
    if (want.free and want.kind in ("plain", "compared")) or want.measured:
        limits = np.iinfo(want.dtype)
        return int(limits.min) if want.signed else int(want.measured), int(limits.max)
    return 1, 0


def _enlarged(plan: InputPlan, want: Want, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes at which an input holds `INDICES` indices, if one of its dimensions is free: rather more batches."""
    free = [key for key in want.dims if isinstance(key, str) and key in sizes]
    if not free:
        return dict(sizes)
    key = next((key for key in free if key in plan.free and plan.free[key].kind() == "batch"), free[0])
    beside = math.prod(want.shape(sizes)) // max(sizes[key], 1)
    return {**sizes, key: max(-(-INDICES // max(beside, 1)), sizes[key])}


def _tables(original: Model, other: Model) -> Iterator[tuple[str, int]]:
    """Stored tables of floats that something is looked up in, with their rows, that the other model has not."""
    theirs = Contents(other)
    contents = Contents(original)
    try:
        known = {_key(theirs, tensor) for tensor in other.skeleton.graph.initializer if tensor.data_type in _FLOATS}
        for tensor, axis in _looked_up_in(original):
            rows = tensor.dims[axis] if -len(tensor.dims) <= axis < len(tensor.dims) else 0
            if tensor.data_type in _FLOATS and rows > _FEW and _key(contents, tensor) not in known:
                yield tensor.name, rows
    finally:
        contents.close()
        theirs.close()


def _key(contents: Contents, tensor: TensorProto) -> tuple[object, ...]:
    return tensor.data_type, tuple(tensor.dims), contents.probe(tensor), contents.digest(tensor)


def _looked_up_in(model: Model) -> Iterator[tuple[TensorProto, int]]:
    """Initializers of the main graph that nodes anywhere look up in, each once, and along which axis."""
    stored = {tensor.name: tensor for tensor in model.skeleton.graph.initializer}
    for holder in holders(model.skeleton):
        for node in holder.node:
            for lookup in likened_node(node).lookups:
                name = node.input[lookup.table] if lookup.table < len(node.input) else ""
                tensor = stored.pop(name, None)
                if tensor is not None:
                    given = (item.i for item in node.attribute if item.name == lookup.axis)
                    yield tensor, next(given, lookup.usual)
