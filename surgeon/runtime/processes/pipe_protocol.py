"""Messages between two processes: a header in JSON, and arrays of numbers.

A message consists of the length of its header (8 bytes, little-endian), the header, and the raw bytes of the arrays
that the header lists under "arrays".  Nothing is unpickled.
"""

import json
import struct
from collections.abc import Sequence
from typing import IO, Any

import ml_dtypes
import numpy as np

_LENGTH = struct.Struct("<Q")
_PLAIN_KINDS = "biufc"  # numpy's own numbers; those of ml_dtypes are identified by their module


def write_message(pipe: IO[bytes], header: dict[str, Any], arrays: Sequence[Any]) -> None:
    """Write one message; None among the arrays stays None.  Raises TypeError for an array that is not of numbers."""
    packed = [None if array is None else np.ascontiguousarray(array).reshape(np.shape(array)) for array in arrays]
    listed = [None if array is None else [_dtype_name(array.dtype), list(array.shape)] for array in packed]
    head = json.dumps({**header, "arrays": listed}).encode()
    pipe.write(_LENGTH.pack(len(head)) + head)
    for array in packed:
        if array is not None:
            pipe.write(array.reshape(-1).view(np.uint8).data)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> tuple[dict[str, Any], list[Any]] | None:
    """Read one message; None if the pipe ends, even in the middle of a message."""
    start = pipe.read(_LENGTH.size)
    if len(start) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(start)
    head = pipe.read(length)
    if len(head) < length:
        return None
    header = json.loads(head)
    arrays: list[Any] = []
    for item in header["arrays"]:
        if item is None:
            arrays.append(None)
            continue
        dtype, shape = _dtype(item[0]), tuple(item[1])
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        data = np.empty(size, np.uint8)
        if _filled(pipe, data.data) < size:
            return None
        arrays.append(data.view(dtype).reshape(shape))
    return header, arrays


def _filled(pipe: IO[bytes], data: memoryview) -> int:
    """Read until `data` is full or the pipe ends; return the number of bytes."""
    count = 0
    while count < len(data) and (more := pipe.readinto(data[count:])):  # type: ignore[attr-defined]
        count += more
    return count


def is_sendable_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a dtype can be sent."""
    return dtype.kind in _PLAIN_KINDS or dtype.type.__module__ == ml_dtypes.__name__


def _dtype_name(dtype: np.dtype[Any]) -> str:
    if not is_sendable_dtype(dtype):
        raise TypeError(f"unsupported dtype {dtype.name}")
    return dtype.name


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)
