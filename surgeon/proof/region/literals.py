"""Literals of a region: integers in its constants and attributes that sizes may depend on."""

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

MIN_PART, MAX_PARTS = 8, 4  # parts of a dim: smallest size, largest number
MAX_TIMES = 256  # factor between a literal and a small dim, as the number of heads
MAX_UNREDUCED_DIM = 16  # fixed dims up to here are not reduced
_OF_CHANNELS = frozenset({"group"})  # attributes that divide channels
# Floats that may encode dims: the least magnitude, and the relative distance; float16 has three digits.
_MIN_MAGNITUDE, _NEAR, _NEAR_HALF = 1e-6, 1e-5, 1e-3


def region_literals(cut: "RegionSlice") -> frozenset[int]:
    """Integers in the region's constants and attributes, as dims or as values."""
    groups = (item.i for node in cut.before for item in node.proto.attribute if item.name in _OF_CHANNELS)
    return value_literals(cut).union(groups, *(tensor.dims for tensor in cut.constants.values()))


def value_literals(cut: "RegionSlice") -> frozenset[int]:
    """Integers that are values of the region's constants and attributes: lengths, indices, parts."""
    return _values(cut, cut.constants)


def position_literals(cut: "RegionSlice") -> frozenset[int]:
    """Value literals that are not only target sizes, also through nodes that concatenate them."""
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
        traits = traits_of(node.op)
        if slot in traits.operands.target_shape:
            return True
        puts_together = (
            slot in traits.data.copies_elements and not traits.shape.broadcasts and not traits.numerics.reduces
        )
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
            found.update((*numbers, sum(numbers)))  # the parts of a Split, and their sum
        elif tensor.data_type != TensorProto.STRING and math.prod(tensor.dims) == 1:  # longer ones match by chance
            found.update(dims_encoded_by(numpy_helper.to_array(tensor)))
    for boundary in cut.boundary_inputs.values():
        if boundary.value is not None:
            found.update(item for item in boundary.value.reshape(-1) if isinstance(item, int))
    for node in (*cut.prefix, *cut.before, *cut.after):
        for item in node.proto.attribute:
            if item.name in _OF_CHANNELS:
                continue
            found.update((item.i,) if item.type == AttributeProto.INT else (*item.ints, sum(item.ints)))
            found.update(dims_encoded_by(np.asarray([item.f] if item.type == AttributeProto.FLOAT else [], np.float32)))
    return frozenset(abs(number) for number in found)


def dims_encoded_by(numbers: np.ndarray) -> Iterator[int]:
    """Dims that floats may encode: a mean divides by one, attention by the root of one."""
    near = _NEAR_HALF if numbers.dtype.itemsize < 4 else _NEAR
    for number in numbers.reshape(-1):
        size = abs(float(np.real(number)))
        if not _MIN_MAGNITUDE < size < 1 / _MIN_MAGNITUDE:
            continue
        for guess in (size, 1 / size, size * size, 1 / (size * size)):
            if guess > MAX_UNREDUCED_DIM and abs(guess - round(guess)) <= near * guess:
                yield round(guess)


def matches_literal(size: int, literals: Iterable[int]) -> bool:
    """Whether a literal equals a dim, or the dim is a small multiple of one."""
    return any(size % part == 0 and part >= MIN_PART for part in literals if 0 < size <= part * MAX_PARTS)


def divides_literal(size: int, literals: Iterable[int]) -> bool:
    """Whether a literal is a multiple of a dim, such as the width of heads of that size."""
    return any(number % size == 0 for number in literals if size < number <= size * MAX_TIMES)
