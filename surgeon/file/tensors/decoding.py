"""Values of tensors: from the bytes and typed fields of a TensorProto to a numpy array, for every ONNX dtype.

Types that numpy lacks are `ml_dtypes` arrays (bfloat16, float8_*, int4, ...).  Strings are an object array of `str`;
bytes that are not UTF-8 are kept by `surrogateescape`.  Layouts: the comments of TensorProto in onnx.proto.
"""

from math import prod
from mmap import mmap
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from surgeon.errors import ModelFileError

Array = np.ndarray[Any, np.dtype[Any]]

STRING = 8

# TensorProto.DataType -> (dtype of the array, bits per element where stored raw, typed field that may hold it)
_TYPES: dict[int, tuple[np.dtype[Any], int, str]] = {
    1: (np.dtype(np.float32), 32, "float_data"),
    2: (np.dtype(np.uint8), 8, "int32_data"),
    3: (np.dtype(np.int8), 8, "int32_data"),
    4: (np.dtype(np.uint16), 16, "int32_data"),
    5: (np.dtype(np.int16), 16, "int32_data"),
    6: (np.dtype(np.int32), 32, "int32_data"),
    7: (np.dtype(np.int64), 64, "int64_data"),
    9: (np.dtype(np.bool_), 8, "int32_data"),
    10: (np.dtype(np.float16), 16, "int32_data"),
    11: (np.dtype(np.float64), 64, "double_data"),
    12: (np.dtype(np.uint32), 32, "uint64_data"),
    13: (np.dtype(np.uint64), 64, "uint64_data"),
    14: (np.dtype(np.complex64), 64, "float_data"),
    15: (np.dtype(np.complex128), 128, "double_data"),
    16: (np.dtype(ml_dtypes.bfloat16), 16, "int32_data"),
    17: (np.dtype(ml_dtypes.float8_e4m3fn), 8, "int32_data"),
    18: (np.dtype(ml_dtypes.float8_e4m3fnuz), 8, "int32_data"),
    19: (np.dtype(ml_dtypes.float8_e5m2), 8, "int32_data"),
    20: (np.dtype(ml_dtypes.float8_e5m2fnuz), 8, "int32_data"),
    21: (np.dtype(ml_dtypes.uint4), 4, "int32_data"),
    22: (np.dtype(ml_dtypes.int4), 4, "int32_data"),
    23: (np.dtype(ml_dtypes.float4_e2m1fn), 4, "int32_data"),
    24: (np.dtype(ml_dtypes.float8_e8m0fnu), 8, "int32_data"),
    25: (np.dtype(ml_dtypes.uint2), 2, "int32_data"),
    26: (np.dtype(ml_dtypes.int2), 2, "int32_data"),
    27: (np.dtype(ml_dtypes.float6_e2m3fn), 6, "int32_data"),
    28: (np.dtype(ml_dtypes.float6_e3m2fn), 6, "int32_data"),
}
_FIELD_TYPES = {
    "float_data": np.float32,
    "int32_data": np.int32,
    "int64_data": np.int64,
    "double_data": np.float64,
    "uint64_data": np.uint64,
}


def dtype_of(number: int) -> np.dtype[Any]:
    """The numpy dtype of a `TensorProto.DataType` that has a raw form."""
    return _TYPES[number][0]


def raw_size(tensor: onnx.TensorProto) -> int:
    """The size of the elements of `tensor` in raw form, in bytes.

    Raises ModelFileError for a dtype without raw form (string, unknown) and for negative dims.
    """
    _, bits, _ = _type_of(tensor)
    return (_elements(tensor) * bits + 7) // 8


def decode_tensor(tensor: onnx.TensorProto) -> Array:
    """The value of a tensor with inline data, in its shape and dtype.

    Raises ModelFileError if the data do not fill the shape or the dtype is unknown.
    """
    if tensor.data_type == STRING:
        return _strings(tensor)
    if tensor.HasField("raw_data"):
        return decode_raw(tensor, tensor.raw_data)
    dtype, bits, field = _type_of(tensor)
    data: Array = np.array(getattr(tensor, field), _FIELD_TYPES[field])
    if field == "int32_data" and bits < 32:
        if bits == 6:
            data &= 0x3F
        narrow = data.astype(np.uint16 if bits == 16 else np.uint8)  # the low bits, as a C cast keeps them
        if bits in (2, 4):
            return _unpack(tensor, narrow, dtype, bits)
        return _shape(tensor, narrow.view(dtype))
    if dtype.kind == "c":
        if data.size % 2:
            raise _misfit(tensor, data.size)
        data = data.view(dtype)
    return _shape(tensor, data.astype(dtype, copy=False))


def decode_raw(tensor: onnx.TensorProto, data: bytes | mmap, start: int = 0, end: int | None = None) -> Array:
    """The value of `tensor` whose raw bytes are `data[start:end]`; a read-only view of `data` if the dtype allows.

    Raises ModelFileError if the bytes do not fill the shape or the dtype has no raw form.
    """
    dtype, bits, _ = _type_of(tensor)
    size = (len(data) if end is None else end) - start
    if bits < 8:
        packed = np.frombuffer(data, np.uint8, size, start) if size else np.empty(0, np.uint8)
        return _unpack(tensor, packed, dtype, bits)
    if size % dtype.itemsize:
        raise _misfit(tensor, size / dtype.itemsize)
    if not size:
        return _shape(tensor, np.empty(0, dtype))
    return _shape(tensor, np.frombuffer(data, dtype, size // dtype.itemsize, start))


def encode(array: Array, name: str = "") -> onnx.TensorProto:
    """A tensor with the values of an array inline: the inverse of `decode_tensor`, also for strings of any bytes."""
    if array.dtype != object:
        return onnx.numpy_helper.from_array(array, name)
    words = (item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape") for item in array.flat)
    return onnx.TensorProto(name=name, data_type=STRING, dims=array.shape, string_data=words)


def densify(values: Array, indices: Array, dims: tuple[int, ...], name: str) -> Array:
    """A dense array of shape `dims` from the `[nnz]` values of a sparse tensor.

    `indices` are `[nnz]` positions in the flattened array or `[nnz, rank]` coordinates; all other elements are 0 (an
    empty string for strings).  Raises ModelFileError if they do not fit the values or the shape.
    """
    if any(size < 0 for size in dims):
        raise ModelFileError(f"Sparse tensor {name!r} has a negative size in its shape {list(dims)}. Export it again.")
    dense = np.full(dims, "", object) if values.dtype == object else np.zeros(dims, values.dtype)
    if indices.size == 0 and values.size == 0:
        return dense
    fits = values.ndim == 1 and indices.shape in ((values.size,), (values.size, len(dims)))
    if fits:
        limits = dense.size if indices.ndim == 1 else np.array(dims)
        fits = bool(((indices >= 0) & (indices < limits)).all())
    if not fits:
        raise ModelFileError(f"The indices of sparse tensor {name!r} do not fit its values or its shape {list(dims)}.")
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense


def _type_of(tensor: onnx.TensorProto) -> tuple[np.dtype[Any], int, str]:
    if tensor.HasField("segment"):
        raise ModelFileError(f"Tensor {tensor.name!r} is stored in segments, which no runtime reads. Store it whole.")
    found = _TYPES.get(tensor.data_type)
    if found is None:
        raise ModelFileError(
            f"Tensor {tensor.name!r} has data type {tensor.data_type}, which this version of surgeon "
            "cannot read. A newer version may."
        )
    return found


def _elements(tensor: onnx.TensorProto) -> int:
    if any(n < 0 for n in tensor.dims):
        raise ModelFileError(f"Tensor {tensor.name!r} has a negative dimension in its shape {list(tensor.dims)}.")
    return prod(tensor.dims)


def _misfit(tensor: onnx.TensorProto, found: float) -> ModelFileError:
    return ModelFileError(
        f"Tensor {tensor.name!r} of shape {list(tensor.dims)} needs {_elements(tensor)} elements, "
        f"but its data has {found:g}: the file is damaged."
    )


def _shape(tensor: onnx.TensorProto, flat: Array) -> Array:
    if flat.size != _elements(tensor):
        raise _misfit(tensor, flat.size)
    return flat.reshape(tuple(tensor.dims))


def _strings(tensor: onnx.TensorProto) -> Array:
    flat = np.empty(len(tensor.string_data), object)
    flat[:] = [item.decode("utf-8", "surrogateescape") for item in tensor.string_data]
    return _shape(tensor, flat)


def _unpack(tensor: onnx.TensorProto, data: Array, dtype: np.dtype[Any], bits: int) -> Array:
    """Elements of 2, 4 or 6 bits, the first in the lowest bits, each in a separate byte."""
    count = _elements(tensor)
    if data.size < (count * bits + 7) // 8:
        raise _misfit(tensor, data.size * 8 // bits)
    if bits == 6:
        each = np.unpackbits(data, bitorder="little")[: count * 6].reshape(-1, 6)
        flat = np.packbits(each, axis=1, bitorder="little").reshape(-1)
    else:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        flat = (data[:, None] >> shifts & np.uint8((1 << bits) - 1)).reshape(-1)[:count]
    return flat.view(dtype).reshape(tuple(tensor.dims))
