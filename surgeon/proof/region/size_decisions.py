"""Decisions of a region that depend on sizes: comparisons of two sizes, loops, and dtypes that cannot count far."""

from collections.abc import Iterator, Mapping

import ml_dtypes
import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper

from surgeon.ir.index import Index
from surgeon.ops.traits.trait_lookup import LOOPS, SCANS, node_traits, op_of, traits_of
from surgeon.ops.traversal import nodes_of
from surgeon.proof.proof_case import RegionModels
from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, substitute, symbols
from surgeon.shapes.index_shapes import shapes_of

LONGEST = 1 << 16  # of all dims that are tried: a row of so many elements takes milliseconds
OF_DTYPE = ("to", "dtype", "output_dtype")  # attributes that name a dtype


def size_comparisons(sides: RegionModels) -> list[Size]:
    """The differences of two sizes that nodes of either side compare, in the symbols of the source."""
    return list(
        dict.fromkeys(difference for side in (sides.before, sides.after) for difference in _compared(sides, side))
    )


def _compared(sides: RegionModels, side: ModelProto) -> Iterator[Size]:
    if not any(node_traits(node).algebra.compares for node in nodes_of(side)):
        return
    index = Index.over(side)
    shapes = shapes_of(index)
    for scope in index.scopes:
        for node in scope.live_nodes():
            if not traits_of(node.op).algebra.compares:
                continue
            one, other = (shapes.value(scope, name) for name in node.inputs)
            if one is None or other is None or not one.size == other.size == 1:
                continue
            try:
                difference = substitute(one.reshape(-1)[0] - other.reshape(-1)[0], sides.dims)
            except SizeError:
                continue  # too long to compute with
            if symbols(difference):
                yield difference


def boundary(difference: Size, name: str, sizes: Mapping[str, int]) -> int:
    """The size of a dim at which a difference is 0, or the last before its sign turns; 0 if it does not turn.

    sizes: of the other dims.  Found by bisection, which takes the difference to rise or fall with the dim.
    """

    def sign(size: int) -> float:
        try:
            return float(np.sign(evaluate(difference, {**sizes, name: size})))
        except SizeError:
            return 0.0  # no value, as after a division by zero

    low, high = 1, LONGEST
    if sign(low) == sign(high):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sign(middle) == sign(low) else (low, middle)
    return low if sign(high) else high


def exact_limits(sides: RegionModels) -> list[int]:
    """The numbers up to which dtypes narrower than float32, inside of either side, hold all integers; ascending."""
    dtypes = {dtype for side in (sides.before, sides.after) for dtype in _dtypes(side)}
    limits = {_exact_limit(dtype) for dtype in dtypes - {0, TensorProto.STRING, TensorProto.BOOL}}
    return sorted(limit for limit in limits if limit < _exact_limit(TensorProto.FLOAT))


def _exact_limit(dtype: int) -> int:
    """The number up to which a dtype holds all integers."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    try:
        return int(ml_dtypes.iinfo(kind).max) + 1
    except ValueError:
        return 1 << int(ml_dtypes.finfo(kind).nmant) + 1


def _dtypes(side: ModelProto) -> Iterator[int]:
    yield from (port.type.tensor_type.elem_type for port in side.graph.input)
    yield from (tensor.data_type for tensor in side.graph.initializer)
    for node in nodes_of(side):
        for item in node.attribute:
            if item.type == AttributeProto.TENSOR:
                yield item.t.data_type
            elif item.type == AttributeProto.INT and item.name in OF_DTYPE:
                yield item.i


def has_loops(sides: RegionModels) -> bool:
    """Whether a node of either side runs a body several times."""
    return any(op_of(node) in LOOPS | SCANS for side in (sides.before, sides.after) for node in nodes_of(side))
