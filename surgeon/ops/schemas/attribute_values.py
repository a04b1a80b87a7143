"""Converts Python values to attribute values: an int for a FLOAT becomes a float, `"float16"` for `to` an enum.

Values other than plain Python, NumPy and ONNX ones (captures of a pattern) pass through.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

from surgeon.errors import RuleError
from surgeon.ops.schemas.op_schema import AttributeSpec

# INT attributes that hold a `TensorProto.DataType`.
_DTYPE_ATTRIBUTE = re.compile(r"to|(.*_)?(dtype|datatype|data_type|precision)|stash_type")

_DTYPES: Mapping[str, int] = MappingProxyType(
    {name.lower(): number for name, number in TensorProto.DataType.items()}
    | {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "half": TensorProto.FLOAT16}
    | {"fp16": TensorProto.FLOAT16, "fp32": TensorProto.FLOAT, "fp64": TensorProto.DOUBLE, "bf16": TensorProto.BFLOAT16}
)

AT_REST: Mapping[str, int] = MappingProxyType({"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0})
"""The default of each element of a list; schemas cannot have it, because the length follows from the windows."""

_WORDS: Mapping[int, str] = MappingProxyType(
    {
        AttributeProto.FLOAT: "a number",
        AttributeProto.INT: "an integer",
        AttributeProto.STRING: "a string",
        AttributeProto.TENSOR: "a tensor",
        AttributeProto.GRAPH: "a graph",
        AttributeProto.SPARSE_TENSOR: "a sparse tensor",
        AttributeProto.TYPE_PROTO: "a TypeProto",
        AttributeProto.FLOATS: "a list of numbers",
        AttributeProto.INTS: "a list of integers",
        AttributeProto.STRINGS: "a list of strings",
        AttributeProto.TENSORS: "a list of tensors",
        AttributeProto.GRAPHS: "a list of graphs",
        AttributeProto.SPARSE_TENSORS: "a list of sparse tensors",
        AttributeProto.TYPE_PROTOS: "a list of TypeProtos",
    }
)

_SCALARS = frozenset({AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING})

_ELEMENT: Mapping[int, int] = MappingProxyType(
    {
        AttributeProto.FLOATS: AttributeProto.FLOAT,
        AttributeProto.INTS: AttributeProto.INT,
        AttributeProto.STRINGS: AttributeProto.STRING,
        AttributeProto.TENSORS: AttributeProto.TENSOR,
        AttributeProto.GRAPHS: AttributeProto.GRAPH,
        AttributeProto.SPARSE_TENSORS: AttributeProto.SPARSE_TENSOR,
        AttributeProto.TYPE_PROTOS: AttributeProto.TYPE_PROTO,
    }
)

_MAX_SHOWN = 8  # elements of a tensor in a message
_PROTOS = (onnx.TensorProto, onnx.GraphProto, onnx.SparseTensorProto, onnx.TypeProto)
_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, np.ndarray, np.generic, np.dtype, type, *_PROTOS)


def words(kind: int) -> str:
    """An attribute type in words: `INTS` is "a list of integers"."""
    return _WORDS.get(kind, "a value of a type that the installed onnx does not know")


def dtype_number(dtype: str | int | type | npt.DTypeLike) -> int:
    """The `TensorProto.DataType` of a dtype by name (`"float16"`, `"bfloat16"`), NumPy dtype or type, or number.

    Raises RuleError if ONNX does not have the dtype.
    """
    if isinstance(dtype, str) and dtype.lower() in _DTYPES:
        return _DTYPES[dtype.lower()]
    if isinstance(dtype, int):
        return dtype
    try:
        return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    except (TypeError, ValueError) as error:
        raise RuleError(f"{dtype!r} is not an ONNX dtype. Write a name such as 'float16', or a NumPy dtype.") from error


DTYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
"""All possible dtypes of tensor elements, as `TensorProto.DataType`."""


_DTYPE_WORDS = {number: name.lower() for name, number in TensorProto.DataType.items()}


def dtype_word(dtype: int) -> str:
    """A `TensorProto.DataType` as schemas spell it: FLOAT is `"float"`; an unknown one is its number."""
    return _DTYPE_WORDS.get(dtype) or str(dtype)


def dtype_name(dtype: int) -> str:
    """A `TensorProto.DataType` as people and numpy spell it: FLOAT is `"float32"`, UNDEFINED is `"unknown"`."""
    if dtype not in _DTYPE_WORDS:
        return f"dtype {dtype}"
    name = dtype_word(dtype)
    return {"float": "float32", "double": "float64", "undefined": "unknown"}.get(name, name)


def type_string(dtype: int) -> str:
    """A tensor's type as schemas spell it, by its `TensorProto.DataType`: FLOAT is `"tensor(float)"`."""
    return f"tensor({dtype_word(dtype)})"


def element_type(text: str) -> int | None:
    """The `TensorProto.DataType` of a type as schemas spell it, such as `"tensor(float16)"`; None for any other."""
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    is_known = text.startswith("tensor(") and name in TensorProto.DataType.keys()  # noqa: SIM118 - not a mapping
    return int(TensorProto.DataType.Value(name)) if is_known else None


def coerce(op: str, spec: AttributeSpec, value: Any) -> Any:
    """`value` as a valid value of the attribute `spec` of the operator `op`.

    Scalars for a list become a list of one, tuples and arrays become lists, NumPy scalars become Python's, numbers for
    a TENSOR become an array.  Raises RuleError if the value has another type.
    """
    if not isinstance(value, _PLAIN):
        return value
    element = _ELEMENT.get(spec.type)
    if element is None:
        return _one(op, spec, spec.type, value)
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist() if element != AttributeProto.TENSOR else [value]
    elif not isinstance(value, (list, tuple)):
        value = [value]
    return [_one(op, spec, element, one) if isinstance(one, _PLAIN) else one for one in value]


def attribute_proto(name: str, value: Any, kind: int | None) -> AttributeProto:
    """An attribute from a Python value; an array becomes a tensor.  kind: its `AttributeProto.AttributeType`, if known.

    Raises TypeError or ValueError for a value that no attribute, or none of this kind, can have.
    """
    if isinstance(value, (list, tuple)) and any(isinstance(item, np.ndarray) for item in value):
        value = [numpy_helper.from_array(item) if isinstance(item, np.ndarray) else item for item in value]
    elif isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value)
    try:
        return onnx.helper.make_attribute(name, value, attr_type=kind)
    except AssertionError as error:  # onnx raises it for a value of another kind
        raise TypeError(f"{value!r} is not of the attribute's type") from error


def array_of(value: Any) -> npt.NDArray[Any] | None:
    """The array of a tensor attribute, from a TensorProto or an array; None for any other value."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return value if isinstance(value, np.ndarray) else None


def value_text(value: Any) -> str:
    """An attribute's value as messages show it: a tensor by dtype, shape and, if they are few, its elements."""
    array = array_of(value)
    if array is None:
        return str(value)
    kind = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
    return f"{array.tolist()} ({kind})" if array.size <= _MAX_SHOWN else f"a tensor {kind}"


def _one(op: str, spec: AttributeSpec, kind: int, value: Any) -> Any:
    is_dtype = isinstance(value, (str, type, np.dtype))
    if is_dtype and kind == AttributeProto.INT and _DTYPE_ATTRIBUTE.fullmatch(spec.name):
        return dtype_number(value)
    if kind in _SCALARS and isinstance(value, (np.generic, np.ndarray)) and value.size == 1:
        value = value.item()
    converted = _CONVERTERS[kind](value) if kind in _CONVERTERS else value
    if converted is None:
        raise RuleError(f"The attribute '{spec.name}' of {op} must be {words(spec.type)}, not {_shown(value)}.")
    if op == "ConstantOfShape" and isinstance(converted, np.ndarray):
        return converted.reshape(1) if converted.size == 1 else converted
    return converted


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _int(value: Any) -> int | None:
    return int(value) if isinstance(value, int) else None


def _string(value: Any) -> str | bytes | None:
    return value if isinstance(value, (str, bytes)) else None


def _tensor(value: Any) -> Any:
    """An array as it is; Python numbers as int64, float32 or bool, the dtypes that ONNX has for its own scalars."""
    if isinstance(value, (np.ndarray, TensorProto)):
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    if not isinstance(value, (bool, int, float, str, list, tuple)):
        return None
    array = np.asarray(value)
    if array.dtype == np.float64:
        return array.astype(np.float32)
    return array if array.dtype.kind in "biU" else None


def _of(proto: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, proto) else None


_CONVERTERS: Mapping[int, Callable[[Any], Any]] = MappingProxyType(
    {
        AttributeProto.FLOAT: _float,
        AttributeProto.INT: _int,
        AttributeProto.STRING: _string,
        AttributeProto.TENSOR: _tensor,
        AttributeProto.GRAPH: _of(onnx.GraphProto),
        AttributeProto.SPARSE_TENSOR: _of(onnx.SparseTensorProto),
        AttributeProto.TYPE_PROTO: _of(onnx.TypeProto),
    }
)


def _shown(value: Any) -> str:
    if isinstance(value, (*_PROTOS, np.ndarray)):
        return f"a {type(value).__name__}"
    return repr(value)
