"""The functions of NVIDIA's driver that engines need: GPU memory, copies, a stream.  No package is required."""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

NAMES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")


class GpuUnavailable(Exception):
    """Why no GPU can be used, as a clause."""


class GpuDriver:
    """The first GPU, in this process.  Raises GpuUnavailable without one."""

    def __init__(self) -> None:
        self._library = _opened()
        self._check("cuInit", ctypes.c_uint(0))
        count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self._check("cuDeviceGetCount", ctypes.byref(count))
        if not count.value:
            raise GpuUnavailable("NVIDIA's driver finds no GPU")
        self._check("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._check("cuCtxSetCurrent", context)
        stream = ctypes.c_void_p()
        self._check("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))  # CU_STREAM_NON_BLOCKING
        self.stream = int(stream.value or 0)

    def allocate(self, size: int) -> int:
        """Allocate GPU memory, which `free` releases; return its address."""
        address = ctypes.c_uint64()
        self._check("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return int(address.value)

    def free(self, address: int) -> None:
        """Release memory."""
        self._check("cuMemFree_v2", ctypes.c_uint64(address))

    def copy_to_device(self, address: int, array: np.ndarray) -> None:
        """Copy a contiguous array to the GPU."""
        if array.nbytes:
            self._check("cuMemcpyHtoD_v2", ctypes.c_uint64(address), _pointer(array), ctypes.c_size_t(array.nbytes))

    def copy_to_host(self, address: int, array: np.ndarray) -> None:
        """Copy from the GPU into a contiguous array."""
        if array.nbytes:
            self._check("cuMemcpyDtoH_v2", _pointer(array), ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes))

    def wait(self) -> None:
        """Wait until the stream is idle."""
        self._check("cuStreamSynchronize", ctypes.c_void_p(self.stream))

    def _check(self, name: str, *arguments: Any) -> None:
        function: Callable[..., int] = getattr(self._library, name)
        code = function(*arguments)
        if code:
            error_name = ctypes.c_char_p()
            self._library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(error_name))
            why = (error_name.value or b"").decode() or f"error {code}"
            raise GpuUnavailable(f"{name} of NVIDIA's driver returns {why}")


def _opened() -> Any:
    for name in NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise GpuUnavailable(f"NVIDIA's driver is not installed ({NAMES[0]} not found)")


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
