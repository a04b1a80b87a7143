"""The numbers of which a region speaks: as lengths, places or parts that its sizes may hang on."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from onnx import AttributeProto, TensorProto, numpy_helper

from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL

if TYPE_CHECKING:
    from surgeon.proof.region.backward_slice import RegionSlice

LEAST_PART, MOST_PARTS = 8, 4  # of a dim: how large, how many
MOST_TIMES = 256  # a small dim that a number may be spoken of as: heads of a size
MAX_UNREDUCED_DIM = 16  # fixed dims up to here stay as they are
_OF_CHANNELS = frozenset({"group"})  # attributes that divide channels: no lengths
# Of floats that may stand for dims: how small, and how near as a part; float16 holds three digits.
_LEAST, _NEAR, _NEAR_HALF = 1e-6, 1e-5, 1e-3


def region_literals(cut: "RegionSlice") -> frozenset[int]:
    """Numbers that the region's constants and attributes speak of, as dims or as values."""
    groups = (item.i for node in cut.before for item in node.proto.attribute if item.name in _OF_CHANNELS)
    return value_literals(cut).union(groups, *(tensor.dims for tensor in cut.constants.values()))


def value_literals(cut: "RegionSlice") -> frozenset[int]:
    """Numbers that the region's constants and attributes speak of as values: lengths, places, parts."""
    return _values(cut, cut.constants)


def position_literals(cut: "RegionSlice") -> frozenset[int]:
    """Those of them that are not but sizes which something is to have, be they put together for that first."""
    handed_on = {cut.name(cut.region.scope, name) for pair in cut.region.outputs for name in pair}
    readers: defaultdict[str, list[tuple[Node, int]]] = defaultdict(list)
    for node in (*cut.prefix, *cut.before, *cut.after):
        for slot, name in enumerate(node.inputs):
            readers[cut.name(node.scope, name)].append((node, slot))
        handed_on.update(cut.name(node.scope, name) for name in cut.captured(node))
    known: dict[str, bool] = {}

    def is_size(name: str) -> bool:
        if name not in known:
            known[name] = name not in handed_on and all(asks_for_size(node, slot) for node, slot in readers[name])
        return known[name]

    def asks_for_size(node: Node, slot: int) -> bool:
        told = traits_of(node.op)
        if slot in told.operands.target_shape:
            return True
        puts_together = slot in told.data.copies_elements and not told.shape.broadcasts and not told.numerics.reduces
        made = [cut.name(node.scope, name) for name in node.outputs if name]
        return puts_together and all(readers[name] and is_size(name) for name in made)

    return _values(cut, [name for name in cut.constants if not (readers[name] and is_size(name))])


def _values(cut: "RegionSlice", constants: Iterable[str]) -> frozenset[int]:
    found: set[int] = set()
    for tensor in map(cut.constants.__getitem__, constants):
        if math.prod(tensor.dims) > 64:
            continue
        if tensor.data_type in INTEGERS_AND_BOOL:
            numbers = [int(number) for number in numpy_helper.to_array(tensor).reshape(-1)]
            found.update((*numbers, sum(numbers)))  # the parts of a Split, and what is split
        elif tensor.data_type != TensorProto.STRING and math.prod(tensor.dims) == 1:  # of many, some are near by chance
            found.update(dims_encoded_by(numpy_helper.to_array(tensor)))
    for leaf in cut.boundary_inputs.values():
        if leaf.value is not None:
            found.update(item for item in leaf.value.reshape(-1) if isinstance(item, int))
    for node in (*cut.prefix, *cut.before, *cut.after):
        for item in node.proto.attribute:
            if item.name in _OF_CHANNELS:
                continue
            found.update((item.i,) if item.type == AttributeProto.INT else (*item.ints, sum(item.ints)))
            found.update(dims_encoded_by(np.asarray([item.f] if item.type == AttributeProto.FLOAT else [], np.float32)))
    return frozenset(abs(number) for number in found)


def dims_encoded_by(numbers: np.ndarray) -> Iterator[int]:
    """Dims that floats may stand for: a mean divides by one, attention by the root of one."""
    near = _NEAR_HALF if numbers.dtype.itemsize < 4 else _NEAR
    for number in numbers.reshape(-1):
        size = abs(float(np.real(number)))
        if not _LEAST < size < 1 / _LEAST:
            continue
        for guess in (size, 1 / size, size * size, 1 / (size * size)):
            if guess > MAX_UNREDUCED_DIM and abs(guess - round(guess)) <= near * guess:
                yield round(guess)


def matches_literal(size: int, pinned: Iterable[int]) -> bool:
    """Whether a constant or an attribute speaks of a dim, or of a half of it, or another of few parts."""
    return any(size % part == 0 and part >= LEAST_PART for part in pinned if 0 < size <= part * MOST_PARTS)


def divides_literal(size: int, pinned: Iterable[int]) -> bool:
    """Whether a constant or an attribute speaks of several times a dim: of the width of heads of that size."""
    return any(number % size == 0 for number in pinned if size < number <= size * MOST_TIMES)
