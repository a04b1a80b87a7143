"""Tasks of a worker that runs models under TensorRT, with engines for the installed GPU and the sizes of inputs.

They need only TensorRT and NVIDIA's driver.  Only workers import this module.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import ml_dtypes
import numpy as np

from surgeon.file.model import Model
from surgeon.printed_commands import command
from surgeon.runtime.processes.worker_main import ReportProgress
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.runtime.sessions.session_tasks import hold_as
from surgeon.runtime.tensorrt.cuda_driver import GpuDriver, GpuUnavailable
from surgeon.runtime.tensorrt.error_messages import readable_reason
from surgeon.runtime.tensorrt.parser_tasks import Parsed, ParseRequest, Shapes

DTYPES = {
    "FLOAT": np.float32,
    "HALF": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "FP8": ml_dtypes.float8_e4m3fn,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}
"""numpy's dtypes by TensorRT's names."""


class GpuEngine:
    """A model under TensorRT.  A context manager.

    short: allow TF32 for products of float32, which is TensorRT's default.  Raises SessionError for a model that
    TensorRT rejects.
    """

    def __init__(self, source: ParseRequest, note: ReportProgress, *, short: bool) -> None:
        self._stack, self._short = ExitStack(), short
        self._built: tuple[dict[str, tuple[int, ...]], Any, Any] | None = None
        try:
            self._driver = GpuDriver()
        except GpuUnavailable as why:
            raise SessionError(f"TensorRT cannot run, because {why}.", is_unsupported=True) from why
        model = self._stack.enter_context(Model.open(source.model))
        self._parsed = Parsed(source, model, note)
        faults = self._parsed.diagnostics()["faults"]
        if faults:
            reason, where = readable_reason(faults[0]["text"]), command("check", "IN", "--target", "tensorrt")
            raise SessionError(f"TensorRT rejects the model ({reason}). To list the nodes: {where}")
        self.name = "TensorRT"
        self.inputs, self.outputs = tuple(self._parsed.inputs), tuple(self._parsed.outputs)

    def __enter__(self) -> "GpuEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self._built = None
        self._stack.close()

    def bind_inputs(self, feeds: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Copy inputs to the GPU; return a function that runs once on them and drops the outputs."""
        call, _ = self._bound(feeds)
        return call

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once.  Raises SessionError."""
        call, outputs = self._bound(feeds)
        call()
        return {name: outputs[name].array() for name in self.outputs}

    def _bound(self, feeds: Mapping[str, np.ndarray]) -> tuple[Callable[[], None], dict[str, "_Output"]]:
        engine, context = self._engine({name: np.shape(feeds[name]) for name in self.inputs})
        held: list[np.ndarray] = []
        for name in self.inputs:
            array = np.ascontiguousarray(feeds[name])
            held.append(array)
            context.set_input_shape(name, tuple(array.shape))
            context.set_tensor_address(name, self._address(engine, name, array))
        made = self._parsed.outputs  # each needs memory, even if it is not returned
        outputs = {name: _output(self._parsed.library, self._driver, engine, name) for name in made}
        for name, output in outputs.items():
            self._stack.callback(output.let_go)
            context.set_output_allocator(name, output)

        def call() -> None:
            if not context.execute_async_v3(self._driver.stream):
                raise SessionError(f"TensorRT cannot run the model: {self._parsed.lines}")
            try:
                self._driver.wait()
            except GpuUnavailable as why:
                raise SessionError(f"TensorRT cannot run the model: {why}.") from why
            assert held  # keeps arrays of sizes alive, which TensorRT reads while it runs

        return call, outputs

    def _address(self, engine: Any, name: str, array: np.ndarray) -> int:
        """The address of an input; inputs that determine sizes stay on the host."""
        if engine.get_tensor_location(name).name == "HOST":
            return int(array.ctypes.data)
        address = self._driver.allocate(array.nbytes)
        self._stack.callback(self._driver.free, address)
        self._driver.copy_to_device(address, array)
        return address

    def _engine(self, shapes: dict[str, tuple[int, ...]]) -> tuple[Any, Any]:
        """The engine for these sizes, and its execution context."""
        if self._built is not None and self._built[0] == shapes:
            return self._built[1:]
        free = {name for name, shape in self._parsed.inputs.items() if -1 in shape}
        profile: dict[str, Shapes] = {name: (shapes[name],) * 3 for name in shapes if name in free}
        made = self._parsed.engine(profile, "", short=self._short)
        if made is None:
            raise SessionError(f"TensorRT cannot build an engine: {readable_reason(self._parsed.lines)}.")
        engine = self._parsed.loaded(made)
        if engine is None:
            raise SessionError(f"TensorRT cannot load the engine that it built: {readable_reason(self._parsed.lines)}.")
        self._built = shapes, engine, engine.create_execution_context()
        return self._built[1:]


class _Output:
    """An output of an engine: GPU memory that grows on demand, and the shape that TensorRT reports."""

    def __init__(self, driver: GpuDriver, dtype: Any) -> None:
        self._driver, self._dtype = driver, np.dtype(dtype)
        self._address, self._size, self._shape = 0, 0, tuple[int, ...]()

    def grown(self, size: int) -> int:
        """The address of memory of at least this size."""
        if size > self._size or not self._address:
            self.let_go()
            self._address, self._size = self._driver.allocate(size), size
        return self._address

    def shaped(self, shape: Any) -> None:
        """Store the shape."""
        self._shape = tuple(shape)

    def array(self) -> np.ndarray:
        """The result, copied from the GPU."""
        found = np.empty(self._shape, self._dtype)
        self._driver.copy_to_host(self._address, found)
        return found

    def let_go(self) -> None:
        """Release the memory."""
        if self._address:
            self._driver.free(self._address)
        self._address, self._size = 0, 0


def _output(trt: Any, driver: GpuDriver, engine: Any, name: str) -> Any:
    """An output allocator of the class that TensorRT requires."""
    kind = engine.get_tensor_dtype(name).name
    if kind not in DTYPES:
        raise SessionError(f"Output {name!r} is {kind}, which numpy does not support. Cast it in the model.")

    class GrowingOutput(trt.IOutputAllocator, _Output):
        """GPU memory that grows on demand."""

        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            _Output.__init__(self, driver, DTYPES[kind])

        def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
            """Memory of a size."""
            return self.grown(size)

        def reallocate_output_async(self, tensor_name: str, memory: int, size: int, alignment: int, stream: int) -> int:
            """Memory of a size."""
            return self.grown(size)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            """Note the shape."""
            self.shaped(shape)

    return GrowingOutput()


def gpu(_: None, __: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Why no GPU can be used, as a clause; empty if one can."""
    try:
        GpuDriver()
    except GpuUnavailable as why:
        return {"why": str(why)}, []
    return {"why": ""}, []


def hold(opening: ParseRequest, note: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Open a model instead of the previous one; the tasks of `sessions.session_tasks` then use it."""
    return hold_as(lambda: GpuEngine(opening, note, short=False))
