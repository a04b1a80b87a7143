"""The ops that fold small constants, computed in numpy."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from surgeon.file.tensors.decoding import Array, decode_tensor
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import DATA_MOVEMENT, EXPANDING, IDENTITY_OPS, ops_with

FILLS = ops_with("target_shape", (0,))  # they fill a shape with one number
FOLD_LIMIT = 1024  # elements; a larger result is a weight, not a constant of a formula


def _same_type(function: Callable[..., Any]) -> Callable[[Node, list[Any]], Array | None]:
    def compute(_: Node, arrays: list[Any]) -> Array | None:
        if arrays[0].dtype.kind in "OSU":
            return None
        return np.asarray(function(*arrays)).astype(arrays[0].dtype)

    return compute


def _div(_: Node, arrays: list[Any]) -> Array | None:
    """ONNX Div: integers are truncated towards zero."""
    a, b = arrays
    if a.dtype.kind not in "iu":
        return np.asarray(a / b).astype(a.dtype)
    return np.asarray((a - np.fmod(a, b)) // b) if np.all(b != 0) else None


def _cast(node: Node, arrays: list[Any]) -> Array | None:
    item = node.attribute("to")
    if item is None or item.ref_attr_name or arrays[0].dtype.kind in "OSUc":
        return None
    if item.i not in castable_types():
        return None
    return np.asarray(arrays[0].astype(helper.tensor_dtype_to_np_dtype(item.i)))


def castable_types() -> frozenset[int]:
    """TensorProto types that numpy (with ml_dtypes) can hold and cast between."""
    names = "FLOAT DOUBLE FLOAT16 BFLOAT16 BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64"
    return frozenset(map(onnx.TensorProto.DataType.Value, names.split()))


def _axes(node: Node, arrays: list[Any], position: int) -> list[int] | None:
    if len(arrays) > position and arrays[position] is not None:
        return [int(axis) for axis in arrays[position].reshape(-1)]
    item = node.attribute("axes")
    return [int(axis) for axis in item.ints] if item is not None and not item.ref_attr_name else None


def _unsqueeze(node: Node, arrays: list[Any]) -> Array | None:
    axes = _axes(node, arrays, 1)
    return None if axes is None else np.expand_dims(arrays[0], tuple(axes))


def _squeeze(node: Node, arrays: list[Any]) -> Array:
    axes = _axes(node, arrays, 1)
    return np.asarray(np.squeeze(arrays[0], None if axes is None else tuple(axes)))


def _reshape(_: Node, arrays: list[Any]) -> Array | None:
    if len(arrays) < 2 or arrays[1] is None or np.any(arrays[1] == 0):
        return None
    return np.asarray(arrays[0].reshape([int(dim) for dim in arrays[1]]))


def _shape(node: Node, arrays: list[Any]) -> Array | None:
    if len(node.proto.attribute):
        return None
    return np.asarray(arrays[0].shape, np.int64)


def _transpose(node: Node, arrays: list[Any]) -> Array | None:
    item = node.attribute("perm")
    if item is None:
        return np.asarray(arrays[0].T)
    return None if item.ref_attr_name else np.asarray(np.transpose(arrays[0], list(item.ints)))


def _concat(node: Node, arrays: list[Any]) -> Array | None:
    item = node.attribute("axis")
    if item is None or item.ref_attr_name or any(array is None for array in arrays):
        return None
    return np.concatenate(arrays, item.i)


def _slice(node: Node, arrays: list[Any]) -> Array | None:
    """Slice-10 and later, whose bounds are inputs; numpy clamps them as ONNX does."""
    if len(arrays) < 3 or arrays[1] is None or arrays[2] is None:
        return None
    starts, ends, axes, steps = (
        None if len(arrays) <= place or arrays[place] is None else [int(item) for item in arrays[place].reshape(-1)]
        for place in (1, 2, 3, 4)
    )
    found = [slice(None)] * arrays[0].ndim
    for place, (start, end) in enumerate(zip(starts or (), ends or (), strict=True)):
        found[axes[place] if axes else place] = slice(start, end, steps[place] if steps else 1)
    return np.asarray(arrays[0][tuple(found)])


def _expand(_: Node, arrays: list[Any]) -> Array:
    shape = np.broadcast_shapes(arrays[0].shape, tuple([int(dim) for dim in arrays[1]]))
    return np.array(np.broadcast_to(arrays[0], shape))


def _constant_of_shape(node: Node, arrays: list[Any]) -> Array | None:
    number = fill_value(node)
    if number is None or prod(arrays[0].tolist()) > FOLD_LIMIT:
        return None
    return np.full(arrays[0].tolist(), number)


def fill_value(node: Node) -> Array | None:
    """The fill value of a ConstantOfShape, of shape []."""
    item = node.attribute("value")
    if item is not None and item.ref_attr_name:
        return None
    return np.zeros((), np.float32) if item is None else np.asarray(decode_tensor(item.t)).reshape(())


_ONE = {"Sqrt": np.sqrt, "Neg": np.negative, "Reciprocal": np.reciprocal, "Exp": np.exp, "Log": np.log, "Abs": np.abs}
_TWO = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Pow": np.power}
FOLDS: dict[str, Callable[[Node, list[Any]], Array | None]] = {
    **{op: _same_type(function) for op, function in (*_ONE.items(), *_TWO.items())},
    **dict.fromkeys(IDENTITY_OPS, lambda _, arrays: np.asarray(arrays[0])),
    **dict.fromkeys(FILLS, _constant_of_shape),
    "Cast": _cast,
    "Div": _div,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Shape": _shape,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
}
_SPREADS = DATA_MOVEMENT & EXPANDING & ops_with("target_shape", (1,))  # they repeat elements to a shape
_MOVES = {op: FOLDS[op] for op in DATA_MOVEMENT & FOLDS.keys()} | dict.fromkeys(_SPREADS, _expand)


def moved(node: Node, arrays: list[Any]) -> Array | None:
    """The output of a node that only moves or repeats elements, of any size; None if it cannot be computed."""
    compute = _MOVES.get(node.op)
    if compute is None or not arrays or arrays[0] is None:
        return None
    try:
        return compute(node, arrays)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None  # shapes that do not fit
