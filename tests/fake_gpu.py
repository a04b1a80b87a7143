"""Engines without a GPU, in a child: TensorRT's parser is the real one, what it would run runs under ONNX Runtime.

Memory of the GPU is memory of the host here.  Of `tensorrt.engine` everything is as it is but the driver and
the objects that TensorRT makes of an engine, which need a GPU; they are put in its place for each call alone, as other
tests may have the same child.
"""

import ctypes
import os
from unittest import mock

import numpy as np
import onnxruntime as ort

from surgeon.runtime.tensorrt import engine
from surgeon.runtime.tensorrt.parser_tasks import Parsed

KINDS = {"tensor(float)": "FLOAT", "tensor(float16)": "HALF", "tensor(int64)": "INT64", "tensor(bool)": "BOOL"}
FAULT = "SURGEON_TEST_FAULT"
"""Of the environment: what of the engine goes wrong."""
CHANGES = {
    "answer": lambda right: right + 1,
    "one size": lambda right: right + (right.shape[:1] == (1,)),
    "no NaN": np.nan_to_num,
    "coarse": lambda right: right.astype(np.float16).astype(right.dtype),
}
"""Wrong answers of the engine, by the fault."""


class HostDriver:
    """Memory that lies on the host."""

    stream = 7

    def __init__(self):
        self.held = {}

    def allocate(self, size):
        buffer = np.empty(max(size, 1), np.uint8)
        self.held[buffer.ctypes.data] = buffer
        return buffer.ctypes.data

    def free(self, address):
        del self.held[address]

    def copy_to_device(self, address, array):
        assert array.nbytes <= self.held[address].nbytes
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def copy_to_host(self, address, array):
        assert array.nbytes <= self.held[address].nbytes
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def wait(self):
        """All is done at once."""


class Named:
    def __init__(self, name):
        self.name = name


class OrtEngine:
    """What TensorRT would have deserialized."""

    def __init__(self, model):
        self.session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.kinds = {item.name: KINDS[item.type] for item in (*self.session.get_inputs(), *self.session.get_outputs())}

    def get_tensor_location(self, name):
        return Named("DEVICE")

    def get_tensor_dtype(self, name):
        return Named("FP4" if os.environ.get(FAULT) == "dtype" else self.kinds[name])

    def create_execution_context(self):
        return OrtContext(self)


class OrtContext:
    """What TensorRT would run it with."""

    def __init__(self, engine):
        self.engine, self.shapes, self.addresses, self.outputs = engine, {}, {}, {}

    def set_input_shape(self, name, shape):
        self.shapes[name] = shape

    def set_tensor_address(self, name, address):
        self.addresses[name] = address

    def set_output_allocator(self, name, allocator):
        self.outputs[name] = allocator

    def execute_async_v3(self, stream):
        if os.environ.get(FAULT) == "run":
            return False
        feeds = {}
        for name, shape in self.shapes.items():
            dtype = np.dtype(engine.DTYPES[self.engine.kinds[name]])
            held = ctypes.string_at(self.addresses[name], int(np.prod(shape)) * dtype.itemsize)
            feeds[name] = np.frombuffer(held, dtype).reshape(shape)
        for name, array in zip(self.outputs, self.engine.session.run(list(self.outputs), feeds), strict=True):
            made = np.ascontiguousarray(CHANGES.get(os.environ.get(FAULT), lambda right: right)(array))
            address = self.outputs[name].reallocate_output_async(name, 0, made.nbytes, 256, stream)
            ctypes.memmove(address, made.ctypes.data, made.nbytes)
            self.outputs[name].notify_shape(name, made.shape)
        return True


class ParsedHere(Parsed):
    """The real parser; the engine is the model."""

    def __init__(self, source, model, note):
        super().__init__(source, model, note)
        self._bytes = model.path.read_bytes() if model.path is not None else bytes(model.data)

    def engine(self, profile, capability, *, short=True):
        assert not capability
        free = {name for name, shape in self.inputs.items() if -1 in shape}
        assert set(profile) == free
        return None if os.environ.get(FAULT) == "build" else self._bytes

    def loaded(self, engine):
        return None if os.environ.get(FAULT) == "load" else OrtEngine(engine)


here = mock.patch.multiple(engine, GpuDriver=HostDriver, Parsed=ParsedHere)
gpu, hold = here(engine.gpu), here(engine.hold)
