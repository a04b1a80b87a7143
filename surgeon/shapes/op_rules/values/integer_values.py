"""Values of small integer tensors, computed from shapes and constants: the size arithmetic of exporters.

Each rule returns an object array per output, of ints, bools and sizes, with None for an unknown element.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
from onnx.helper import tensor_dtype_to_np_dtype

from surgeon.shapes.algebra import ratios
from surgeon.shapes.algebra.integer_width import drop_overflows
from surgeon.shapes.algebra.size_expressions import (
    Expr,
    Size,
    at_least,
    exact_quotient,
    floor_div,
    product,
    size_max,
    size_min,
)
from surgeon.shapes.op_rules.creation import constant, range_length, shape_range
from surgeon.shapes.op_rules.data_movement import reshaped, split_sizes
from surgeon.shapes.op_rules.indexing import slice_parameters, slice_range
from surgeon.shapes.tensor_types import (
    BOOL,
    FLOATS,
    INTEGERS,
    INTEGERS_AND_BOOL,
    CannotInfer,
    NodeView,
    ValueArray,
    ValueRule,
    known,
    normalize_axis,
    objects,
    require,
)

Kinds: TypeAlias = tuple[type, ...]
SIZES: Kinds = (int, Expr)
NUMBERS: Kinds = (int, Expr, ratios.Ratio)
LIMIT = 64  # elements; a larger tensor is data, not sizes


def of_array(array: np.ndarray) -> ValueArray | None:
    """A small numeric constant as a value; else None."""
    if array.size > LIMIT or array.dtype.kind not in "iubf":
        return None
    items = array.reshape(-1).tolist()
    return objects(list(map(ratios.of_float, items)) if array.dtype.kind == "f" else items, array.shape)


def as_array(value: ValueArray | None, dtype: int | None) -> np.ndarray | None:
    """A value as an array of integers or booleans; None if an element is symbolic, unknown or of another type."""
    value = drop_overflows(value, dtype)
    if value is None or dtype not in INTEGERS_AND_BOOL or not all(isinstance(item, int) for item in value.flat):
        return None
    return value.astype(tensor_dtype_to_np_dtype(dtype))


def unknown_value(dtype: int | None, sizes: Sequence[int]) -> ValueArray | None:
    """A value of which only the number of elements is known; None for a tensor without sizes."""
    count = prod(sizes)
    return objects([None] * count, tuple(sizes)) if count and dtype in (*INTEGERS, BOOL) else None


def _by_numpy(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """The result of numpy.  Raises CannotInfer if numpy rejects the sizes or axes; the op would too."""
    try:
        return function(*given, **options)
    except (ValueError, IndexError, OverflowError) as refusal:
        raise CannotInfer(str(refusal)) from refusal


def _array(value: Any) -> ValueArray:
    """As an object array; numpy returns the bare object for 0-d arrays."""
    return value if isinstance(value, np.ndarray) else objects([value], ())


def _broadcast_map(function: Callable[..., Any], *arrays: ValueArray) -> ValueArray:
    """The function on each element of arrays that broadcast.  Raises CannotInfer for arrays that do not."""
    _by_numpy(np.broadcast_shapes, *[array.shape for array in arrays])
    return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), object)


def _map_known(function: Callable[..., Any], *arrays: ValueArray, kinds: Kinds = SIZES) -> ValueArray:
    """As `_broadcast_map`, with None if an element is unknown, or of a type that the function does not support."""

    def on_known(*items: Any) -> Any:
        return function(*items) if all(isinstance(item, kinds) for item in items) else None

    return _broadcast_map(on_known, *arrays)


def _elementwise(function: Callable[..., Any], inputs: int | None = 2, kinds: Kinds = SIZES) -> ValueRule:
    """A rule for an op with this number of inputs (None: any number but 0) and elements of these types."""

    def compute(site: NodeView) -> Sequence[ValueArray | None]:
        require(len(site.inputs) > 0)
        arrays = [site.value(position) for position in range(len(site.inputs) if inputs is None else inputs)]
        given = [array for array in arrays if array is not None]
        return [_map_known(function, *given, kinds=kinds) if len(given) == len(arrays) else None]

    return compute


def _divide(a: Size, b: Size) -> Size | None:
    """Integer division of ONNX, towards zero; of symbolic sizes if the division is exact or both are not negative."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    exact = exact_quotient(a, b)
    return floor_div(a, b) if exact is not None or (at_least(a, 0) and at_least(b, 0)) else None


def _arithmetic(of_floats: np.ufunc, of_sizes: Callable[..., Any] | None = None) -> ValueRule:
    """A rule for an op on floats and sizes; without `of_sizes`, on floats only."""

    def compute(site: NodeView) -> Sequence[ValueArray | None]:
        require(len(site.inputs) == of_floats.nin)
        given = [array for array in map(site.value, range(len(site.inputs))) if array is not None]
        if len(given) < len(site.inputs):
            return [None]
        dtype = site.dtype(0) or site.dtype(len(given) - 1)
        if dtype in FLOATS:
            return [_map_known(partial(ratios.computed, of_floats, dtype), *given, kinds=NUMBERS)]
        return [None if of_sizes is None else _map_known(of_sizes, *given)]

    return compute


def _modulo(site: NodeView) -> Sequence[ValueArray | None]:
    """ONNX Mod: the sign of the divisor, or with fmod that of the dividend."""
    a, b = site.value(0), site.value(1)
    if a is None or b is None:
        return [None]
    if site.attribute("fmod", 0):
        return [_map_known(lambda x, y: None if (q := _divide(x, y)) is None else x - y * q, a, b)]
    return [_map_known(lambda x, y: None if y == 0 else x - y * floor_div(x, y), a, b)]


def equals(a: Size, b: Size) -> bool | None:
    """Whether two sizes are equal; None if it depends on the symbols."""
    if a == b:
        return True
    apart = (isinstance(a, int) and isinstance(b, int)) or isinstance(a - b, int)
    return False if apart or at_least(a, b + 1) or at_least(b, a + 1) else None


def _less(a: Size, b: Size) -> bool | None:
    return True if at_least(b, a + 1) else False if at_least(a, b) else None


def _less_or_equal(a: Size, b: Size) -> bool | None:
    return _less(a, b + 1)


def _sign_of(a: Size) -> int | None:
    return 1 if at_least(a, 1) else 0 if a == 0 else -1 if at_least(-1, a) else None


def _where(site: NodeView) -> Sequence[ValueArray | None]:
    condition, first, second = site.value(0), site.value(1), site.value(2)
    if condition is None or first is None or second is None:
        return [None]

    def choose(truth: bool | None, a: Any, b: Any) -> Any:
        return a if truth is True or (truth is None and a == b) else b if truth is False else None

    return [_broadcast_map(choose, condition, first, second)]


def _is_small(sizes: Sequence[int]) -> bool:
    """Whether an array of these sizes can be created, and is small enough to be kept."""
    return all(0 <= size <= LIMIT for size in sizes) and prod(sizes) <= LIMIT


def _same(site: NodeView) -> Sequence[ValueArray | None]:
    return [site.value(0)]


def _cast_to(site: NodeView, target: int | None) -> Sequence[ValueArray | None]:
    value = site.value(0)
    if value is None or target not in (*INTEGERS, *FLOATS, BOOL):
        return [None]
    if target in FLOATS:
        wide = _map_known(lambda item: int(item) if isinstance(item, bool) else item, value, kinds=NUMBERS)
        return [_map_known(lambda item: ratios.rounded(item, target), wide, kinds=NUMBERS)]
    if site.dtype(0) in FLOATS:
        return [_map_known(ratios.truncated, value, kinds=NUMBERS) if target in INTEGERS else None]
    if target == BOOL:
        return [_map_known(lambda item: item if isinstance(item, bool) else _not(equals(item, 0)), value)]
    return [_map_known(lambda item: int(item) if isinstance(item, bool) else item, value)]


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _constant(site: NodeView) -> Sequence[ValueArray | None]:
    """A Constant whose value is a reference to an attribute of the function's call."""
    item = constant(site)
    if item is None or item.name == "value" or not (item.ints or item.HasField("i")):
        return [None]
    return [objects([int(x) for x in item.ints]) if item.ints else objects([int(item.i)], ())]


def _shape(site: NodeView) -> Sequence[ValueArray | None]:
    shape = site.shape(0)
    return [None if shape is None else objects([shape[axis] for axis in shape_range(site, len(shape))])]


def _size(site: NodeView) -> Sequence[ValueArray | None]:
    shape = site.shape(0)
    return [None if shape is None else objects([product(shape)], ())]


def _gather(site: NodeView) -> Sequence[ValueArray | None]:
    value, indices = site.value(0), site.value(1)
    if value is None or indices is None or not all(isinstance(item, int) for item in indices.reshape(-1)):
        return [None]
    places = _by_numpy(indices.astype, np.int64)
    return [_array(_by_numpy(np.take, value, places, axis=site.attribute("axis", 0)))]


def _slice(site: NodeView) -> Sequence[ValueArray | None]:
    value, found = site.value(0), slice_parameters(site)
    if value is None or found is None:
        return [None]
    for start, end, axis, step in zip(*found, strict=True):
        if not isinstance(start, int) or not isinstance(end, int):
            return [None]
        at = normalize_axis(axis, value.ndim)
        require(step != 0)
        value = np.take(value, list(slice_range(value.shape[at], start, end, step)), axis=at)
    return [value]


def _concat(site: NodeView) -> Sequence[ValueArray | None]:
    arrays = [site.value(position) for position in range(len(site.inputs))]
    given = [array for array in arrays if array is not None]
    if len(given) < len(arrays):
        return [None]
    return [_by_numpy(np.concatenate, given, axis=site.attribute("axis", 0))]


def _reshape(site: NodeView) -> Sequence[ValueArray | None]:
    value = site.value(0)
    target = site.numbers(1) if site.has(1) else site.attribute("shape")
    if value is None or target is None:
        return [None]
    sizes = known(reshaped(value.shape, target, bool(site.attribute("allowzero", 0))))
    return [None if sizes is None else _by_numpy(value.reshape, [int(str(size)) for size in sizes])]


def _unsqueeze(site: NodeView) -> Sequence[ValueArray | None]:
    value, axes = site.value(0), site.axes(1)
    return [None if value is None or axes is None else _by_numpy(np.expand_dims, value, tuple(axes))]


def _squeeze(site: NodeView) -> Sequence[ValueArray | None]:
    value, axes = site.value(0), site.axes(1)
    if value is None or (axes is None and site.has_axes(1)):
        return [None]
    return [_array(_by_numpy(np.squeeze, value, None if axes is None else tuple(axes)))]


def _transpose(site: NodeView) -> Sequence[ValueArray | None]:
    value = site.value(0)
    return [None if value is None else _by_numpy(np.transpose, value, site.attribute("perm"))]


def _split(site: NodeView) -> Sequence[ValueArray | None]:
    value, count = site.value(0), len(site.node.outputs)
    if value is None:
        return [None] * count
    axis = normalize_axis(site.attribute("axis", 0), value.ndim)
    sizes = split_sizes(site, value.shape[axis], count)
    if not all(isinstance(size, int) for size in sizes):
        return [None] * count
    return np.split(value, np.cumsum([int(str(size)) for size in sizes])[:-1], axis=axis)


def _expand(site: NodeView) -> Sequence[ValueArray | None]:
    value, target = site.value(0), site.numbers(1)
    if value is None or target is None or not _is_small(target):
        return [None]
    return [np.broadcast_to(value, _by_numpy(np.broadcast_shapes, value.shape, tuple(target)))]


def _tile(site: NodeView) -> Sequence[ValueArray | None]:
    value, repeats = site.value(0), site.numbers(1)
    if value is None or repeats is None or not _is_small([value.size, *repeats]):
        return [None]
    return [np.tile(value, repeats)]


def _filled(site: NodeView) -> Sequence[ValueArray | None]:
    sizes, filling = site.numbers(0), site.attribute("value")
    if sizes is None or filling is None or not _is_small(sizes):
        return [None]  # the default value is a float
    item = _by_numpy(np.frombuffer, filling.t.raw_data, np.int64) if filling.t.raw_data else [*filling.t.int64_data]
    if filling.t.data_type != 7 or len(item) != 1:
        return [None]
    return [np.full(sizes, int(item[0]), object)]


def _one_hot(site: NodeView) -> Sequence[ValueArray | None]:
    places, depths, pair = site.value(0), site.sizes(1), site.value(2)
    depth = depths[0] if depths else None
    if places is None or pair is None or not isinstance(depth, int) or not _is_small([places.size, depth]):
        return [None]
    if not all(isinstance(item, int) for item in places.flat):
        return [None]
    axis = site.attribute("axis", -1)
    off, on = pair.reshape(-1)
    rows = _by_numpy(np.expand_dims, places, axis)
    ahead = normalize_axis(axis, rows.ndim)
    counted = np.arange(depth).reshape([-1 if at == ahead else 1 for at in range(rows.ndim)])
    return [np.where((rows == counted) | (rows + depth == counted), on, off)]


def _range(site: NodeView) -> Sequence[ValueArray | None]:
    bounds = [site.sizes(position) for position in range(3)]
    if any(not bound for bound in bounds):
        return [None]
    start, limit, delta = (bound[0] for bound in bounds if bound)
    length = range_length(start, limit, delta)
    if not isinstance(length, int) or length > LIMIT:
        return [None]
    return [objects([start + step * delta for step in range(length)])]


def _reducing(reduce: Callable[..., Size]) -> ValueRule:
    def compute(site: NodeView) -> Sequence[ValueArray | None]:
        items = site.sizes(0)
        if items is None:
            return [None]
        value = site.value(0)
        axes = site.axes(1)
        flat = value is not None and value.ndim == 1 and (axes in ([0], [-1], []) or not site.has_axes(1))
        if not flat or (not axes and site.attribute("noop_with_empty_axes", 0)):
            return [None]
        return [objects([reduce(items)], (1,) if site.attribute("keepdims", 1) else ())]

    return compute


def _total(items: Sequence[Size]) -> Size:
    return sum(items, start=0)


RULES: dict[str, ValueRule] = {
    "Constant": _constant,
    "Identity": _same,
    "Cast": lambda site: _cast_to(site, site.attribute("to")),
    "CastLike": lambda site: _cast_to(site, site.dtype(1)),
    "Shape": _shape,
    "Size": _size,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Split": _split,
    "Expand": _expand,
    "Tile": _tile,
    "ConstantOfShape": _filled,
    "OneHot": _one_hot,
    "Range": _range,
    "Where": _where,
    "Mod": _modulo,
    "Add": _arithmetic(np.add, lambda a, b: a + b),
    "Sub": _arithmetic(np.subtract, lambda a, b: a - b),
    "Mul": _arithmetic(np.multiply, lambda a, b: a * b),
    "Div": _arithmetic(np.divide, _divide),
    "Neg": _arithmetic(np.negative, lambda a: -a),
    "Floor": _arithmetic(np.floor),
    "Ceil": _arithmetic(np.ceil),
    "Abs": _elementwise(lambda a: a if at_least(a, 0) else -a if at_least(0, a) else None, 1),
    "Sign": _elementwise(_sign_of, 1),
    "Min": _elementwise(size_min, None),
    "Max": _elementwise(size_max, None),
    "Equal": _elementwise(equals),
    "Less": _elementwise(_less),
    "LessOrEqual": _elementwise(_less_or_equal),
    "Greater": _elementwise(lambda a, b: _less(b, a)),
    "GreaterOrEqual": _elementwise(lambda a, b: _less_or_equal(b, a)),
    "Not": _elementwise(lambda a: not a, 1),
    "And": _elementwise(lambda a, b: a and b),
    "Or": _elementwise(lambda a, b: a or b),
    "ReduceProd": _reducing(product),
    "ReduceSum": _reducing(_total),
    "ReduceMax": _reducing(lambda items: size_max(*items)),
    "ReduceMin": _reducing(lambda items: size_min(*items)),
}
