"""The graphs of models after ONNX Runtime has optimised them on loading, and the memory of their runs."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto

from surgeon.runtime.processes.worker import ALL_MEMORY, Task, TaskResult, Worker, acquire_worker, release_worker
from surgeon.runtime.processes.worker_main import ReportProgress
from surgeon.runtime.sessions.ep_library import PluginProvider, library_of
from surgeon.runtime.sessions.ort_session import SessionError, TimedSession

MODULE = "surgeon.runtime.timing.loaded_graphs"
RUNS = 3
RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")  # Linux


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model, and how it is loaded; see `LoadRequest`."""

    source: Path | ModelProto
    """The model."""
    feeds: Sequence[Mapping[str, np.ndarray]] = ()
    """Inputs of the runs whose memory is measured."""
    threads: int = 0
    """Threads of one operator."""
    provider: str | PluginProvider = "CPUExecutionProvider"
    """Execution provider."""
    libraries: Sequence[str] = ()
    """Libraries of custom ops."""
    run_time: float = 120.0
    """Limit of processor time in seconds."""


def graph_key(model: LoadedModel) -> str:
    """A digest of the graph that ONNX Runtime runs after its own optimisations; equal graphs take equally long.

    Nodes count with their attributes and the contents of constants, names do not.  Empty if there is none, for example
    because the graph has more than 2 GB.
    """
    child = acquire_worker(library_of(model.provider))
    try:
        found = child.run(Task(f"{MODULE}:optimized", model, model.run_time, ALL_MEMORY))
    finally:
        release_worker(child)
    return str(found.value.get("key", "")) if isinstance(found, TaskResult) else ""


def peak_memory(model: LoadedModel) -> int | None:
    """The largest memory of runs beyond that of the loaded model, in bytes; None if it is unknown.

    It is measured in a new process, on Linux.
    """
    if not RESET.exists():
        return None
    child = Worker()
    try:
        found = child.run(Task(f"{MODULE}:measured_memory", model, model.run_time * (1 + RUNS), ALL_MEMORY))
    finally:
        child.end()
    return found.value.get("bytes") if isinstance(found, TaskResult) else None


def optimized(model: LoadedModel, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """The task of `graph_key`."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        try:
            with TimedSession(model.source, model.libraries, provider=model.provider, optimized=path):
                return {"key": digest(onnx.load(path, load_external_data=False).graph)}, []
        except (SessionError, OSError) as error:  # it does not load, or is too large for one file
            return {"error": str(error)}, []


def measured_memory(model: LoadedModel, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """The task of `peak_memory`."""
    try:
        with TimedSession(model.source, model.libraries, threads=model.threads, provider=model.provider) as session:
            runs = [session.bind_inputs(feed) for feed in model.feeds]
            RESET.write_text("5", encoding="ascii")  # the peak so far becomes the present size (man 5 proc)
            before = _resident("VmRSS")
            for run in runs * RUNS:
                run()
            return {"bytes": _resident("VmHWM") - before}, []
    except (SessionError, OSError) as error:  # it does not run, or the system forbids the reset
        return {"error": str(error)}, []


def _resident(field: str) -> int:
    """The resident memory of this process in bytes: at present (VmRSS) or at its peak (VmHWM)."""
    lines = STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def digest(graph: GraphProto) -> str:
    """A digest of the computation of a graph's outputs from its inputs, independent of the names of inner tensors."""
    made: dict[str, bytes] = {value.name: _hash(b"input", value.name.encode()) for value in graph.input}
    for constant in graph.initializer:
        if constant.data_location == onnx.TensorProto.EXTERNAL:  # its range in the file represents its contents
            where = sorted((entry.key, entry.value) for entry in constant.external_data)
            made[constant.name] = _hash(str((constant.data_type, list(constant.dims), where)).encode())
            continue
        values = onnx.numpy_helper.to_array(constant)
        made[constant.name] = _hash(str((values.dtype, values.shape)).encode(), values.tobytes())
    for node in graph.node:  # in topological order
        parts = [node.op_type.encode(), node.domain.encode(), *(made.get(name, b"") for name in node.input)]
        whole = _hash(*parts, *_attributes(node))
        made |= {name: _hash(whole, bytes([place])) for place, name in enumerate(node.output)}
    return _hash(*(made.get(value.name, b"") for value in graph.output)).hex()


def _attributes(node: NodeProto) -> list[bytes]:
    """The attributes in order of their names; a graph counts with the names of its tensors."""
    return sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)


def _hash(*parts: bytes) -> bytes:
    """A digest of several parts, with their lengths."""
    made = hashlib.sha256()
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()
