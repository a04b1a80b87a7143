"""Sessions of ONNX Runtime: unoptimised, single-threaded and quiet for proofs, as in production for benchmarks.

onnxruntime is imported when the first session opens.
"""

import ctypes
import json
import math
import pathlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Self, TypeAlias

import ml_dtypes
import numpy as np
import onnx
from google.protobuf.message import EncodeError

from surgeon.errors import SurgeonError, UsageError
from surgeon.file.io.path_encoding import in_utf8
from surgeon.ops.schemas.node_check import target_of_op
from surgeon.runtime.implementations.implementation import is_python, load
from surgeon.runtime.sessions.engine_names import ONNX_RUNTIME
from surgeon.runtime.sessions.ep_library import PluginProvider, full_name
from surgeon.runtime.sessions.int8_saturation import has_uint8_int8_products, saturation_probe, with_uint8_factors

_QUIET = 4  # ORT's severity "fatal": lower values print to stderr
_LONGEST_LINE = 400
_CPU = "CPUExecutionProvider"
# Settings for full precision of float32 products; OpenVINO uses bfloat16 otherwise, if the processor has it.
_ACCURATE = {device: {"EXECUTION_MODE_HINT": "ACCURACY"} for device in ("AUTO", "CPU", "GPU", "NPU")}
_EXACT = {
    "CUDAExecutionProvider": {"use_tf32": "0"},
    "OpenVINOExecutionProvider": {"load_config": json.dumps(_ACCURATE)},
}
# Types that numpy has only through ml_dtypes: ORT takes and returns them only as OrtValue.
_BITS: dict[str, tuple[Any, int, Any]] = {
    "tensor(bfloat16)": (ml_dtypes.bfloat16, onnx.TensorProto.BFLOAT16, np.uint16),
    "tensor(float8e4m3fn)": (ml_dtypes.float8_e4m3fn, onnx.TensorProto.FLOAT8E4M3FN, np.uint8),
    "tensor(float8e4m3fnuz)": (ml_dtypes.float8_e4m3fnuz, onnx.TensorProto.FLOAT8E4M3FNUZ, np.uint8),
    "tensor(float8e5m2)": (ml_dtypes.float8_e5m2, onnx.TensorProto.FLOAT8E5M2, np.uint8),
    "tensor(float8e5m2fnuz)": (ml_dtypes.float8_e5m2fnuz, onnx.TensorProto.FLOAT8E5M2FNUZ, np.uint8),
}
# Domains whose operators ORT itself defines.
ORT_DOMAINS = frozenset(("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft"))
_UNKNOWN_OP = re.compile(r"Fatal error: (?P<domain>[^\s]*?):(?P<op>\w+)\([-\d]+\) is not a registered function/op")
_UNKNOWN_NODE = re.compile(r'In Node, \("[^"]*", (?P<op>\w+), "(?P<domain>[^"]*)", -1\)')
# The model is newer than this ORT; its message begins with a C++ signature.
_TOO_NEW = re.compile(r".*?(?P<line>Unsupported model IR version|ONNX Runtime only \*guarantees\* support)")
_AT_NODE = re.compile(r"while running \w+ node\. Name:'(?P<name>[^']*)'")
_NO_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")
OUT_OF_MEMORY = "There is not enough memory to run the model."


Lack: TypeAlias = Literal["", "op", "kernel", "version", "memory"]
"""Why ONNX Runtime cannot load a model: it lacks an op of another domain, a kernel, a newer version, or memory."""


class SessionError(SurgeonError):
    """A model does not load or run, mostly under ONNX Runtime.

    `message` is the first line of the runtime's message.  If `is_unsupported`, the model may be valid: the runtime has
    no kernel for an operator, does not have the operator's domain, is older than the model, or lacks memory.  `lacks`
    is one of these, or "".  If `hit_limit`, it ran out of time or memory.
    """

    def __init__(self, line: str, *, is_unsupported: bool = False, hit_limit: bool = False, lacks: Lack = "") -> None:
        super().__init__(line)
        self.message = line
        self.is_unsupported = is_unsupported or bool(lacks)
        self.hit_limit = hit_limit
        self.lacks: Lack = lacks

    @property
    def node(self) -> str:
        """The name of the node that did not run; empty if unknown."""
        found = _AT_NODE.search(self.message)
        return found["name"] if found is not None else ""


def require_libraries(libraries: Sequence[pathlib.Path | str]) -> list[str]:
    """Load the libraries of custom operators into ONNX Runtime, and return their absolute paths.

    Files of Python implementations (`.py`) among them run, and are returned too.  Raises UsageError for a library that
    does not exist or that ONNX Runtime cannot load, and for a Python file that fails.
    """
    found: list[str] = []
    for library in libraries:
        path = pathlib.Path(library)
        if is_python(path):
            load(path)
            found.append(str(path.absolute()))
            continue
        if not path.is_file():
            raise UsageError(f"Custom-op library not found: {library}")
        found.append(str(path.absolute()))  # the loader searches a bare name only on its own path
    shared = [name for name in found if not is_python(name)]
    if shared:
        import onnxruntime

        refusals = _exceptions()
        for name in shared:
            try:
                onnxruntime.SessionOptions().register_custom_ops_library(_in_utf8(name))
            except refusals as error:
                why = _refused(error).message.rstrip(".")
                raise UsageError(
                    f"Custom-op library {name} cannot be loaded ({why}). Use one built for this machine."
                ) from error
    return found


class OrtSession:
    """One model under ONNX Runtime, on the CPU by default.  A context manager; leaving it frees the model.

    model: a path (external data are next to it), or a ModelProto with its weights.  custom_ops: only shared libraries
    count.  exact: products of uint8 by int8 in a ModelProto are exact, even if this processor's kernels saturate.
    only_loads: the model will not run, so weights are not repacked for kernels.  folder: the folder of a ModelProto's
    data files.  provider: one of a plugin, or ORT's name of it; TF32 is off.  Raises SessionError if ORT does not load
    the model, or if the provider does not work on this machine.
    """

    name = ONNX_RUNTIME
    is_independent = True

    def __init__(
        self,
        model: pathlib.Path | onnx.ModelProto,
        custom_ops: Sequence[pathlib.Path | str] = (),
        *,
        optimised: bool = False,
        exact: bool = True,
        only_loads: bool = False,
        folder: pathlib.Path | None = None,
        provider: str | PluginProvider = _CPU,
    ) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED  # the file's
        level = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_EXTENDED if optimised else level.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        if only_loads:
            options.add_session_config_entry("session.disable_prepacking", "1")
        if folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", _in_utf8(folder))
        if exact and isinstance(model, onnx.ModelProto) and has_uint8_int8_products(model) and int8_sums_saturate():
            model = with_uint8_factors(model)
        name = full_name(provider)
        self._open(model, custom_ops, options, provider, settings=_EXACT.get(name.partition(".")[0]))
        if name not in self._session.get_providers():
            raise SessionError(_not_working(name), is_unsupported=True)

    def _open(
        self,
        model: pathlib.Path | onnx.ModelProto,
        custom_ops: Sequence[pathlib.Path | str],
        options: Any,
        provider: str | PluginProvider,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Load the model with these options, and settings of the provider; raises SessionError."""
        import onnxruntime

        options.log_severity_level = _QUIET
        self._run_options = onnxruntime.RunOptions()
        self._run_options.log_severity_level = _QUIET
        self._refusals = _exceptions()
        try:
            for library in custom_ops:
                if is_python(library):
                    continue
                # the loader searches a bare name only on its own path
                options.register_custom_ops_library(_in_utf8(pathlib.Path(library).absolute()))
            source = _in_utf8(model) if isinstance(model, pathlib.Path) else _serialized(model)
            chosen = {}
            if isinstance(provider, PluginProvider):
                provider.add_to(options, dict(settings or {}))
            else:
                chosen = {"providers": [(provider, dict(settings or {}))]}
            self._session: Any = onnxruntime.InferenceSession(source, options, **chosen)
        except self._refusals as error:
            raise _refused(error) from error
        self.inputs: tuple[str, ...] = tuple(port.name for port in self._session.get_inputs())
        self.outputs: tuple[str, ...] = tuple(port.name for port in self._session.get_outputs())
        types = [port.type for port in (*self._session.get_inputs(), *self._session.get_outputs())]
        self._by_value = any(kind in _BITS for kind in types)
        self._bound = threading.local()  # the memory that was filled last, and its binding

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session, self._bound = None, threading.local()

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once.  Sequences come back as `name[i]`, maps as `name[key]`.  Raises SessionError."""
        try:
            if self._by_value:
                values = self._session.run_with_ort_values(
                    list(self.outputs), {name: _ort_value(array) for name, array in feeds.items()}, self._run_options
                )
                results = [_from_ort_value(value) for value in values]
            else:
                results = self._session.run(list(self.outputs), dict(feeds), self._run_options)
        except self._refusals as error:
            raise _refused(error) from error
        flat: dict[str, np.ndarray] = {}
        for name, result in zip(self.outputs, results, strict=True):
            flatten_result(name, result, flat)
        return flat

    def nodes_elsewhere(self) -> list[tuple[str, str]]:
        """The op and the name of each node that another provider than the plugin of the session runs.

        Raises SessionError if this ONNX Runtime does not know.
        """
        ask = getattr(self._session, "get_provider_graph_assignment_info", None)
        if ask is None:
            raise SessionError("The installed ONNX Runtime does not report which provider runs a node.")
        own = self._session.get_providers()[0]
        nodes = [node for part in ask() if part.ep_name != own for node in part.get_nodes()]
        return [(f"{node.domain or 'ai.onnx'}::{node.op_type}", node.name) for node in nodes]

    def run_into(self, source: str, array: np.ndarray, name: str, made: np.ndarray) -> None:
        """Run on one input, and write one output into an array of its shape and dtype.

        Both arrays are contiguous and have dtypes of numpy.  Raises SessionError.
        """
        key = source, array.ctypes.data, array.shape, name, made.ctypes.data, made.shape
        known, binding = getattr(self._bound, "last", (None, None))
        if known != key:  # a new binding takes longer than a small run
            binding = self._session.io_binding()
            for bind, port, given in ((binding.bind_input, source, array), (binding.bind_output, name, made)):
                memory = {"element_type": given.dtype, "shape": given.shape, "buffer_ptr": given.ctypes.data}
                bind(port, "cpu", 0, **memory)
            self._bound.last = key, binding
        try:
            self._session.run_with_iobinding(binding, self._run_options)
        except self._refusals as error:
            raise _refused(error) from error


class TimedSession(OrtSession):
    """One model as in production: all of ORT's optimisations, its arena, several threads, any provider.

    threads: for one operator, 0 for one per physical core.  provider: as for `OrtSession`.  The threads of a
    session sleep between runs, so that sessions in one process do not slow each other.  optimized: where ORT saves the
    graph that it runs.  Raises UsageError if the provider does not work on this machine, because ORT would use the CPU
    provider instead.
    """

    def __init__(
        self,
        model: pathlib.Path | onnx.ModelProto,
        custom_ops: Sequence[pathlib.Path | str] = (),
        *,
        threads: int = 0,
        provider: str | PluginProvider = _CPU,
        optimized: pathlib.Path | None = None,
    ) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        if optimized is not None:
            options.optimized_model_filepath = _in_utf8(optimized)
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self._open(model, custom_ops, options, provider)
        name = full_name(provider)
        if name not in self._session.get_providers():
            raise UsageError(f"{_not_working(name)}. Install them, or choose another execution provider.")

    def bind_inputs(self, feeds: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Return a function that runs once on these inputs, without conversions, and drops the outputs.

        It raises SessionError if ORT rejects them.
        """
        session, outputs, options, refusals = self._session, list(self.outputs), self._run_options, self._refusals
        given: Mapping[str, Any]
        if any(array.dtype.kind in "OSU" for array in feeds.values()):  # ORT's values cannot hold strings
            given, call = dict(feeds), session.run
        else:
            given, call = {name: _ort_value(array) for name, array in feeds.items()}, session.run_with_ort_values

        def run() -> None:
            try:
                call(outputs, given, options)
            except refusals as error:
                raise _refused(error) from error

        return run


def _not_working(provider: str) -> str:
    """The message for a provider that ONNX Runtime silently replaced with the CPU's."""
    short = provider.removesuffix("ExecutionProvider")
    lacks = "libraries, a driver or the device are missing"
    return f"ONNX Runtime's {short} provider does not work on this machine ({lacks})"


@cache
def int8_sums_saturate() -> bool:
    """Whether ORT's kernels saturate sums of uint8 by int8 on this processor (quirks.SATURATED_INT8_SUMS)."""
    with OrtSession(saturation_probe(), exact=False) as session:
        (found,) = session.run({}).values()
    return int(found.item()) != 2 * 255 * 127


def installed_providers() -> list[str]:
    """ONNX Runtime's names of its installed execution providers."""
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def _in_utf8(path: pathlib.Path | str) -> str:
    """A path in UTF-8 for ONNX Runtime; raises SessionError if that is not possible."""
    try:
        return in_utf8(path)
    except UnicodeDecodeError as error:
        raise SessionError(f"The path {str(path)!r} is not UTF-8. Rename the file.", is_unsupported=True) from error


def _serialized(model: onnx.ModelProto) -> bytes:
    """Return the model as bytes; raises SessionError above protobuf's 2 GiB."""
    try:
        return bytes(model.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise SessionError(f"The model cannot be passed in memory ({error}). Give its path.") from error


def _exceptions() -> tuple[type[Exception], ...]:
    """The exceptions that ORT's Python API raises for a model or its inputs."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = {kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    return (*own, RuntimeError, ValueError, TypeError)


def _refused(error: Exception) -> SessionError:
    """ORT's exception as a SessionError with the first line of its message, and the lack that it reports."""
    text = str(error).strip()
    line = re.sub(r"^\[ONNXRuntimeError\] : \d+ : ", "", text.splitlines()[0] if text else type(error).__name__)
    line = re.sub(r"Load model from .*? failed: ?", "", line)  # the caller adds the path
    if any(text_of in text for text_of in _NO_MEMORY):
        return SessionError(OUT_OF_MEMORY, lacks="memory")
    newer = _TOO_NEW.match(line)
    if newer is not None:
        line = line[newer.start("line") :]
    named = _UNKNOWN_OP.search(text) or _UNKNOWN_NODE.search(text)
    foreign = named is not None and is_foreign(named["domain"], named["op"])
    no_kernel = type(error).__name__ == "NotImplemented"
    lacks: Lack = "version" if newer is not None else "op" if foreign else "kernel" if no_kernel else ""
    return SessionError(line[:_LONGEST_LINE], lacks=lacks)


def is_foreign(domain: str, op: str) -> bool:
    """Whether an op is of another runtime than ORT: TensorRT's plugins may be in the default domain too."""
    return domain not in ORT_DOMAINS or target_of_op(domain, op) is not None


def _ort_value(array: np.ndarray) -> Any:
    """Wrap an array, which may have a dtype of ml_dtypes."""
    from onnxruntime import OrtValue

    for dtype, elem_type, bits in _BITS.values():
        if array.dtype == dtype:
            return OrtValue.ortvalue_from_numpy_with_onnx_type(
                np.ascontiguousarray(array).reshape(array.shape).view(bits), elem_type
            )
    return OrtValue.ortvalue_from_numpy(array)


def _from_ort_value(value: Any) -> Any:
    """Unwrap a result; tensors with dtypes of ml_dtypes are copied from ORT's memory."""
    if not value.is_tensor():
        raise SessionError("An output is not a tensor, and another has a dtype that numpy lacks.")
    if value.data_type() not in _BITS:
        return value.numpy()
    dtype = np.dtype(_BITS[value.data_type()][0])
    shape = tuple(value.shape())
    size = math.prod(shape)
    data = ctypes.string_at(value.data_ptr(), size * dtype.itemsize) if size else b""
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def flatten_result(name: str, result: Any, into: dict[str, np.ndarray]) -> None:
    """Store a result under its name, a sequence or map element by element.  An empty optional is an empty array."""
    if isinstance(result, list):
        into[f"len({name})"] = np.asarray(len(result))
        for position, element in enumerate(result):
            flatten_result(f"{name}[{position}]", element, into)
    elif isinstance(result, dict):
        into[f"keys({name})"] = np.asarray([str(key) for key in result], dtype=object)
        for key, element in result.items():
            flatten_result(f"{name}[{key}]", element, into)
    else:
        into[name] = np.empty(0, dtype=np.float32) if result is None else np.asarray(result)
