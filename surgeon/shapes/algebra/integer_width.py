"""Which sizes fit an integer dtype; others overflow."""

from math import isqrt

from onnx import TensorProto

from surgeon.shapes.algebra.ratios import Number, Ratio
from surgeon.shapes.algebra.size_expressions import Expr, Size, at_least
from surgeon.shapes.tensor_types import INTEGERS, ValueArray, objects

BITS: dict[int, int] = {
    TensorProto.INT8: 8,
    TensorProto.UINT8: 8,
    TensorProto.INT16: 16,
    TensorProto.UINT16: 16,
    TensorProto.INT32: 32,
    TensorProto.UINT32: 32,
    TensorProto.INT64: 64,
    TensorProto.UINT64: 64,
}
UNSIGNED = frozenset({TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64})
WIDE = 32  # bits that hold any usual size


def fits(size: Size, dtype: int | None) -> bool:
    """Whether a size fits a dtype, for usual sizes of its dynamic dims."""
    bits = 0 if dtype is None else BITS.get(dtype, 0)
    least, most = (0, 2**bits - 1) if dtype in UNSIGNED else (-(2**bits) // 2, 2**bits // 2 - 1)
    if not isinstance(size, Expr):
        return bool(least <= size <= most)
    is_small = all(abs(factor) <= (isqrt(most) if monomial else most // 2) for monomial, factor in size.terms)
    return bits >= WIDE and is_small and (least < 0 or at_least(size, 0))


def drop_overflows(value: ValueArray | None, dtype: int | None) -> ValueArray | None:
    """A value with None for elements that do not fit its dtype: overflows, and ratios of invalid graphs."""
    if value is None or dtype not in INTEGERS:
        return value
    items = value.reshape(-1).tolist()
    return objects([item if _fits_item(item, dtype) else None for item in items], value.shape)


def _fits_item(item: Number | bool | None, dtype: int | None) -> bool:
    return item is None or isinstance(item, bool) or (not isinstance(item, Ratio) and fits(item, dtype))
