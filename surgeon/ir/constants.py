"""Constants by value: initializers, Constant nodes, and small subgraphs of them that fold."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper

from surgeon.file.model import Model
from surgeon.file.tensors.decoding import Array
from surgeon.ir.folding_kernels import FILLS, FOLD_LIMIT, FOLDS, fill_value
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import IDENTITY_OPS

FOLD_DEPTH = 16
SPREAD_LIMIT = 1 << 24  # maximum number of elements of a ConstantOfShape


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A constant."""

    array: Array
    """Its value."""
    eps: float
    """Relative precision of the coarsest float dtype on the way to it; 0 for integers."""

    @property
    def scalar(self) -> float | None:
        """The only element as a number; None if there are several or it is not a number."""
        if self.array.size != 1 or self.array.dtype.kind in "OSU":
            return None
        item = self.array.reshape(-1)[0]
        return float(item) if not isinstance(item, (complex, np.complexfloating)) else None

    @property
    def content(self) -> tuple[np.dtype[Any], tuple[int, ...], bytes]:
        """A key of equal constants: dtype, shape and every bit."""
        array = self.array
        text = array.dtype.kind in "OSU"
        return array.dtype, array.shape, repr(array.tolist()).encode() if text else array.tobytes()


class Constants:
    """Finds out which tensors are constants, and their values; results are cached."""

    def __init__(self, model: Model, ir_version: int) -> None:
        self._model, self._ir_version = model, ir_version
        self._cut_off: set[tuple[int, str]] = set()  # during one query: tensors beyond the depth limit
        self._is_cut_off = False
        self._found: dict[int, dict[str, ConstantValue | None]] = {}
        self._scalars: defaultdict[int, dict[str, tuple[float, float, int, bool] | None]] = defaultdict(dict)

    def get(self, scope: Scope, name: str) -> ConstantValue | None:
        """The value of a constant of at most FOLD_LIMIT elements, else None.  Larger weights are not read."""
        return self._get(scope, name, 0)

    def scalar(self, scope: Scope, name: str) -> tuple[float, float, int, bool] | None:
        """(value, eps, rank, is float) of a constant of one element, else None.  The matcher's most frequent query."""
        known = self._scalars[id(scope)]
        if name not in known:
            known[name] = _as_scalar(self.get(scope, name)) if _may_be_one(scope, name) else None
        return known[name]

    def scalars_of(self, scope: Scope) -> dict[str, tuple[float, float, int, bool] | None]:
        """The cached results of `scalar` in a scope."""
        return self._scalars[id(scope)]

    def is_constant(self, scope: Scope, name: str) -> bool:
        """Whether the tensor's value is fixed, at any size; reads no weights."""
        home = scope.defining_scope(name)
        if home is None:
            return False
        if self._stored(home, name) is not None:
            return True
        node = home.producers.get(name)
        if node is None:
            return False
        if node.op == "Constant":
            return not any(item.ref_attr_name for item in node.proto.attribute)
        if node.op in IDENTITY_OPS:
            return self.is_constant(home, node.inputs[0])
        return node.op in FOLDS and (self.get(scope, name) is not None or self._spread(home, node) is not None)

    def array(self, scope: Scope, name: str) -> Array | None:
        """The value of a constant of any size, read from the file now; None for other tensors."""
        found = self.get(scope, name)
        if found is not None:
            return found.array
        home = scope.defining_scope(name)
        if home is None:
            return None
        stored = self._stored(home, name)
        if stored is not None:
            return self._value(stored)
        node = home.producers.get(name)
        if node is not None and node.op == "Constant":
            return self._of_node(node, limit=None)
        if node is not None and node.op in IDENTITY_OPS:
            return self.array(home, node.inputs[0])
        spread = self._spread(home, node) if node is not None else None
        return None if spread is None or node is None else np.full(spread, fill_value(node))

    def shape(self, scope: Scope, name: str) -> tuple[int, ...] | None:
        """The shape of a stored constant without reading it."""
        home = scope.defining_scope(name)
        stored = self._stored(home, name) if home is not None else None
        if stored is not None:
            return tuple(int(dim) for dim in stored.dims)
        found = self.get(scope, name)
        if found is not None:
            return tuple(found.array.shape)
        node = home.producers.get(name) if home is not None else None
        if home is None or node is None:
            return None
        if node.op in IDENTITY_OPS:
            return self.shape(home, node.inputs[0])
        return _written(node) if node.op == "Constant" else self._spread(home, node)

    def _spread(self, home: Scope, node: Node) -> tuple[int, ...] | None:
        """The shape of a weight that a ConstantOfShape fills with one number; None for other nodes."""
        if node.op not in FILLS or fill_value(node) is None:
            return None
        found = self.get(home, node.inputs[0])
        shape = tuple(int(size) for size in found.array.reshape(-1)) if found is not None else (-1,)
        return shape if min(shape, default=0) >= 0 and prod(shape) <= SPREAD_LIMIT else None

    def forget(self) -> None:
        """Drop cached results: a rewrite has made a tensor constant."""
        for found in self._found.values():
            found.clear()
        for scalars in self._scalars.values():
            scalars.clear()  # in place, since attempts keep references

    def _stored(self, home: Scope, name: str) -> onnx.TensorProto | onnx.SparseTensorProto | None:
        """The initializer of this name, unless a caller of the model may override it."""
        if name in home.inputs and (self._ir_version >= 4 or home.parent is not None):
            return None
        return home.initializers.get(name) or home.sparse.get(name)

    def _value(self, stored: onnx.TensorProto | onnx.SparseTensorProto) -> Array | None:
        """The value of a stored tensor; None if its data were cut out of a model in memory."""
        if isinstance(stored, onnx.TensorProto):
            return self._model.value(stored) if self._model.has_value(stored) else None
        has_data = self._model.has_value(stored.values) and self._model.has_value(stored.indices)
        return self._model.sparse_value(stored) if has_data else None

    def _get(self, scope: Scope, name: str, depth: int) -> ConstantValue | None:
        known = self._found.setdefault(id(scope), {})
        if name in known:
            return known[name]
        if not depth:
            self._cut_off.clear()
        elif (id(scope), name) in self._cut_off:
            return None
        was_cut_off, self._is_cut_off = self._is_cut_off, False
        value = self._find(scope, name, depth)
        if depth and value is None and self._is_cut_off:
            self._cut_off.add((id(scope), name))  # it may fold in a query of its root
        else:
            known[name] = value
        self._is_cut_off = self._is_cut_off or was_cut_off
        return value

    def _find(self, scope: Scope, name: str, depth: int) -> ConstantValue | None:
        home = scope.defining_scope(name)
        if home is None:
            return None
        stored = self._stored(home, name)
        if stored is not None:
            known = self._value(stored) if prod(stored.dims) <= FOLD_LIMIT else None
            return None if known is None else ConstantValue(known, _precision(known))
        node = home.producers.get(name)
        if node is None or name in home.inputs:
            return None
        if node.op == "Constant":
            array_or_none = self._of_node(node, limit=FOLD_LIMIT)
            return None if array_or_none is None else ConstantValue(array_or_none, _precision(array_or_none))
        return self._fold(home, node, depth)

    def _of_node(self, node: Node, limit: int | None) -> Array | None:
        """The value of a Constant node (ONNX spec, Constant-13: exactly one attribute)."""
        if len(node.proto.attribute) != 1 or node.proto.attribute[0].ref_attr_name:
            return None
        item = node.proto.attribute[0]
        # By type too: torch's exporter writes Python strings as `value`, against the specification.
        if item.type in (AttributeProto.TENSOR, AttributeProto.SPARSE_TENSOR):
            tensor = item.t if item.name == "value" else item.sparse_tensor
            return self._value(tensor) if limit is None or prod(tensor.dims) <= limit else None
        if item.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
            return np.asarray(helper.get_attribute_value(item), np.float32)
        if item.type in (AttributeProto.INT, AttributeProto.INTS):
            return np.asarray(helper.get_attribute_value(item), np.int64)
        return np.asarray(helper.get_attribute_value(item), object)

    def _fold(self, scope: Scope, node: Node, depth: int) -> ConstantValue | None:
        compute = FOLDS.get(node.op)
        self._is_cut_off = self._is_cut_off or depth >= FOLD_DEPTH
        if compute is None or depth >= FOLD_DEPTH or not node.inputs or not node.inputs[0]:
            return None
        values = []
        for name in node.inputs:
            value = self._get(scope, name, depth + 1) if name else None
            if name and value is None:
                return None
            values.append(value)
        arrays = [None if value is None else value.array for value in values]
        try:
            with np.errstate(all="ignore"):
                array = compute(node, arrays)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None  # not computable: shapes that do not fit, 2 ** -1 in integers
        if array is None or array.size > FOLD_LIMIT:
            return None
        return ConstantValue(array, max([_precision(array), *(value.eps for value in values if value is not None)]))


def _may_be_one(scope: Scope, name: str) -> bool:
    """A quick check whether a tensor may be a constant of one element; reads no weight."""
    inner = name
    for _ in range(FOLD_DEPTH):
        node = scope.producers.get(inner)
        if node is None or node.op == "Constant" or not node.inputs:
            break
        if node.op not in FOLDS:
            return False
        inner = node.inputs[0]
    stored = scope.initializers.get(name)
    return stored is None or prod(stored.dims) == 1


def _written(node: Node) -> tuple[int, ...] | None:
    """The shape of the tensor that a Constant node holds."""
    for item in node.proto.attribute:
        if item.type == AttributeProto.TENSOR and not item.ref_attr_name:
            return tuple(int(dim) for dim in item.t.dims)
    return None


def _as_scalar(value: ConstantValue | None) -> tuple[float, float, int, bool] | None:
    number = value.scalar if value is not None else None
    if value is None or number is None:
        return None
    return number, value.eps, value.array.ndim, _is_float(value.array.dtype)


@cache
def _eps(dtype: np.dtype[Any]) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps) if _is_float(dtype) else 0.0


def _precision(array: Array) -> float:
    """The relative precision of a constant: that of its dtype, or worse for subnormal numbers."""
    eps = _eps(array.dtype)
    if not eps or array.size != 1:
        return eps
    import ml_dtypes

    limits, number = ml_dtypes.finfo(array.dtype), abs(float(array.reshape(-1)[0]))
    if not 0 < number < float(limits.smallest_normal):
        return eps
    return max(eps, float(limits.smallest_subnormal) / number)


@cache
def _is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is floating-point; `kind` does not say for those of ml_dtypes."""
    return dtype.name.startswith(("float", "bfloat"))


CONSTANT_OPS = frozenset({"Constant", *FOLDS})
