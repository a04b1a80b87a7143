"""Tasks of a worker with TensorRT: parse and build models.  Only this module imports TensorRT.

The parser ends its process on some models.  Then only the worker ends.
"""

import ctypes
import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from surgeon.file.external_data import locations
from surgeon.file.model import Model
from surgeon.ops.traversal import nodes_of
from surgeon.runtime.processes.worker_main import ReportProgress
from surgeon.runtime.tensorrt.error_messages import NEEDS_BUILD_TIME_VALUE, lacks_driver

MARK = "surgeon-node-"
"""Each node has this name and its number for TensorRT, because errors contain only the name."""
_MARKED = re.compile(rf"{MARK}(\d+)(?!\d)")
# The parser expects two 4-bit numbers in a byte, but the values of a tensor have one.
_PACKED = frozenset({TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1})

# Functions that a plugin library exports.
_CREATORS = ("getCreators", "getPluginCreators", "initLibNvInferPlugins")
# The message on a builtin plugin that could not be created.
_OF_PLUGIN = re.compile(r"[Pp]lugin was not found in the plugin registry|Could not create the plugin")
# Log messages of the parser before it starts with a node.
_TAKING_UP = "Parsing node"
_PARSING = ("Static check for parsing node", _TAKING_UP)

UNTOLD = "TensorRT gives no reason"

Dims = Sequence[int | str | None]
NodeOutputs = Sequence[tuple[str, int, Dims]]
"""The outputs of a node: name, `TensorProto.DataType`, dims."""
Shapes = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""The smallest, the optimal and the largest shape of an input."""


@dataclass(frozen=True, slots=True)
class ParseRequest:
    """A model for TensorRT to parse."""

    library: str
    """Module to import."""
    model: Path | bytes
    """A file, or the model as bytes."""
    plugins: Sequence[str] = ()
    """Plugin libraries to load."""
    aside: Mapping[int, NodeOutputs] = field(default_factory=dict)
    """Nodes of the main graph to leave out, by number; their outputs become inputs of the model."""


@dataclass(frozen=True, slots=True)
class PluginRequest:
    """A plugin for TensorRT to create."""

    library: str
    """Module to import."""
    model: bytes
    """A model whose first node is the plugin."""
    name: str
    """Name of the plugin."""
    version: str
    """Its version."""
    namespace: str
    """Its namespace."""
    fields: Sequence[str]
    """Names of the fields that it declares."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """An engine for TensorRT to build."""

    source: ParseRequest
    """The model."""
    profile: Mapping[str, Shapes]
    """Smallest, optimal and largest shape of each input with dynamic dims."""
    capability: str
    """GPU to build for, "SM86"; "" for the installed one."""


def parse(source: ParseRequest, note: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Parse a model; return its faults, the number of layers, and the names of shape inputs."""
    with Model.open(source.model) as model:
        parsed = Parsed(source, model, note)
        return parsed.diagnostics(), []


def build(asked: BuildRequest, note: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Parse and build a model; return the result of `parse`, and the size of the engine, or 0 and faults."""
    with Model.open(asked.source.model) as model:
        parsed = Parsed(asked.source, model, note)
        answer = parsed.diagnostics()
        answer["faults"] += [
            {"node": -1, "text": f"input '{name}' {NEEDS_BUILD_TIME_VALUE}"} for name in answer["shape_inputs"]
        ]
        if not answer["faults"]:
            note({"stage": "build"})
            answer |= parsed.build(asked)
        return answer, []


def creators(asked: tuple[str, Sequence[str]], note: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Why libraries have no TensorRT plugins, as a clause each; None for a library that has plugins."""
    trt, _ = _loaded(asked[0])
    registry, reasons = trt.get_plugin_registry(), []
    for path in asked[1]:
        note({"library": path})
        known = len(registry.all_creators)
        registry.load_library(path)  # it does not report a file that it cannot load
        reasons.append(None if len(registry.all_creators) > known else _missing_creators_reason(path))
    return {"reasons": reasons}, []


def _missing_creators_reason(path: str) -> str | None:
    """Why a loaded library has no plugins, as a clause; None if TensorRT already had all of them."""
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_LAZY if hasattr(os, "RTLD_LAZY") else ctypes.DEFAULT_MODE)
    except OSError as error:
        return f"it cannot be loaded ({str(error).removeprefix(f'{path}: ')})"
    return None if any(hasattr(library, name) for name in _CREATORS) else "it exports no plugin creators"


def supports(asked: tuple[str, Sequence[str]], _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Whether the parser of a library has each op."""
    trt, log = _loaded(asked[0])
    parser = trt.OnnxParser(trt.Builder(log).create_network(_flags(trt)), log)
    return {"ops": {name: bool(parser.supports_operator(name)) for name in asked[1]}}, []


def create(asked: PluginRequest, note: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """The fields that TensorRT passes to the creator of a plugin for a node, each as its kind and number of elements.

    surgeon's creator does not create a plugin, so none has to be installed.
    """
    trt, log = _loaded(asked.library)
    handed: dict[str, tuple[str, int]] = {}
    registry, kinds = trt.get_plugin_registry(), trt.PluginFieldType

    class Creator(trt.IPluginCreatorV3One):  # type: ignore[name-defined]
        """Records its arguments."""

        def __init__(self) -> None:
            trt.IPluginCreatorV3One.__init__(self)
            self.name, self.plugin_version, self.plugin_namespace = asked.name, asked.version, asked.namespace
            none = np.zeros(1, np.int32)
            self.field_names = trt.PluginFieldCollection(
                [trt.PluginField(name, none, kinds.INT32) for name in asked.fields]
            )

        def create_plugin(self, name: str, fields: Any, phase: Any) -> None:
            """Create nothing."""
            handed.update((field.name, (field.type.name, int(field.size))) for field in fields)
            handed[""] = (name, 0)

    creator = Creator()
    is_new = registry.register_creator(creator, asked.namespace)
    try:
        network = trt.Builder(log).create_network(_flags(trt))
        trt.OnnxParser(network, log).parse(asked.model)
    finally:
        if is_new:
            registry.deregister_creator(creator)
    return {"is_called": handed.pop("", None) is not None, "fields": handed}, []


class Parsed:
    """A model that TensorRT parsed."""

    def __init__(self, source: ParseRequest, model: Model, note: ReportProgress) -> None:
        self._trt, self._log = _loaded(source.library)
        for plugins in source.plugins:
            self._trt.get_plugin_registry().load_library(plugins)
        self._log.lines.clear()
        self._log.note, self._log.node = note, -1
        self._builder = self._trt.Builder(self._log)
        self._network = self._builder.create_network(_flags(self._trt))
        self._parser = self._trt.OnnxParser(self._network, self._log)
        self._kept: list[np.ndarray] = []  # weights, which the parser reads later
        note({"stage": "parse"})
        proto = ModelProto()
        proto.CopyFrom(model.skeleton)
        _mark(proto)
        _set_aside(proto, source.aside)
        fed = dict(_fed(model, proto))
        self._is_read = self._parser.load_model_proto(proto.SerializeToString())
        if self._is_read:
            for name, array in fed.items():
                self._kept.append(array)
                self._parser.load_initializer(name, array.ctypes.data, array.nbytes)
            self._is_read = self._parser.parse_model_proto()

    def diagnostics(self) -> dict[str, Any]:
        """Faults of the parser, the number of layers, and the names of shape inputs."""
        faults = [_fault(self._parser.get_error(place)) for place in range(self._parser.num_errors)]
        for fault in faults[:1]:
            fault["node"] = fault["node"] if fault["node"] >= 0 else self._log.node  # some errors have no node
        if lacks_driver(self._log.lines):
            for fault in faults:
                fault["needs_gpu"] = _OF_PLUGIN.search(fault["text"]) is not None
        if not self._is_read and not faults:
            faults = [_located("\n".join(self._log.lines) or UNTOLD)]
        inputs = [self._network.get_input(place) for place in range(self._network.num_inputs)]
        return {
            "faults": faults,
            "layers": self._network.num_layers,
            "shape_inputs": [one.name for one in inputs if one.is_shape_tensor],
        }

    def build(self, asked: BuildRequest) -> dict[str, Any]:
        """Build an engine, and release it."""
        engine = self.engine(asked.profile, asked.capability)
        if engine is not None:
            return {"engine": engine.nbytes}
        return {"engine": 0, "faults": [_located(text) for text in self._log.lines or [UNTOLD]]}

    def engine(self, profile: Mapping[str, Shapes], capability: str, *, short: bool = True) -> Any:
        """An engine as bytes; None if it cannot be built, with the reason in `lines`.

        short: allow TF32 for float32 products, as TensorRT does by default.
        """
        config = self._builder.create_builder_config()
        if not short:
            config.clear_flag(self._trt.BuilderFlag.TF32)
        if capability:
            config.num_compute_capabilities = 1
            config.set_compute_capability(getattr(self._trt.ComputeCapability, capability), 0)
        if profile:
            made = self._builder.create_optimization_profile()
            for name, shapes in profile.items():
                made.set_shape(name, *map(tuple, shapes))
            config.add_optimization_profile(made)
        self._log.lines.clear()
        return self._builder.build_serialized_network(self._network, config)

    def loaded(self, engine: Any) -> Any:
        """An engine that can run; None if it cannot be loaded, for example without a GPU."""
        self._log.lines.clear()
        self._runtime = self._trt.Runtime(self._log)
        return self._runtime.deserialize_cuda_engine(engine)

    @property
    def library(self) -> Any:
        """The module of TensorRT."""
        return self._trt

    @property
    def lines(self) -> str:
        """The last errors that TensorRT logged."""
        return "; ".join(self._log.lines) or UNTOLD

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the network's inputs, with -1 for dynamic dims."""
        found = [self._network.get_input(place) for place in range(self._network.num_inputs)]
        return {one.name: tuple(one.shape) for one in found}

    @property
    def outputs(self) -> list[str]:
        """The outputs of the network."""
        return [self._network.get_output(place).name for place in range(self._network.num_outputs)]


@cache
def _loaded(library: str) -> tuple[Any, Any]:
    """The library and its logger, cached because the library uses only the first logger."""
    trt = importlib.import_module(library)

    class Log(trt.ILogger):  # type: ignore[name-defined]
        """Keeps errors, and notes the current node, in case it ends the process."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.lines: list[str] = []
            self.note: ReportProgress | None = None
            self.node = -1  # number of the parser's current node

        def log(self, severity: Any, message: str) -> None:
            """Keep errors."""
            if severity.name in ("ERROR", "INTERNAL_ERROR"):
                self.lines.append(message)
            elif self.note is not None and message.startswith(_PARSING):
                self.note({"stage": "parse", **_located(message)})
                self.node = _located(message)["node"] if message.startswith(_TAKING_UP) else self.node

    log = Log()
    trt.init_libnvinfer_plugins(log, "")  # builtin plugins of the library
    return trt, log


def _flags(trt: Any) -> int:
    """The flags of a strongly typed network, the only kind since TensorRT 11."""
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def _mark(proto: ModelProto) -> None:
    for number, node in enumerate(nodes_of(proto)):
        node.name = f"{MARK}{number}"


def _set_aside(proto: ModelProto, aside: Mapping[int, NodeOutputs]) -> None:
    """Remove nodes from the main graph; their outputs become inputs if they are read."""
    if not aside:
        return
    graph, names = proto.graph, {f"{MARK}{number}" for number in aside}
    kept = [node for node in graph.node if node.name not in names]
    del graph.node[:]
    graph.node.extend(kept)
    gone = {name for outputs in aside.values() for name, _, _ in outputs}
    outputs = [value for value in graph.output if value.name not in gone]
    del graph.output[:]
    graph.output.extend(outputs)
    read = {name for node in nodes_of(proto) for name in node.input}
    for outputs_of in aside.values():
        graph.input.extend(onnx.helper.make_tensor_value_info(*one) for one in outputs_of if one[0] in read)


def _fed(model: Model, proto: ModelProto) -> Iterator[tuple[str, np.ndarray]]:
    """The weights of the main graph with external data, by name; other external data are loaded into the model."""
    weights = [one for one in proto.graph.initializer if one.data_location == TensorProto.EXTERNAL]
    apart = {id(one): one for one in weights if one.data_type not in _PACKED}
    for tensor in apart.values():
        value = np.asarray(model.value(tensor))
        yield tensor.name, np.ascontiguousarray(value).reshape(value.shape)
    rest = [one for one in locations.tensors_of(proto) if one.data_location == TensorProto.EXTERNAL]
    for tensor in rest:
        if id(tensor) not in apart:
            tensor.CopyFrom(onnx.numpy_helper.from_array(model.value(tensor), tensor.name))


def _fault(error: Any) -> dict[str, Any]:
    """An error of the parser: its text, the node, and the node of the main graph whose call contains it (-1: none)."""
    fault, named = _located(error.desc()), _MARKED.search(error.node_name())
    calls = [int(found) for text in error.local_function_stack() for found in _MARKED.findall(text)]
    return {"text": fault["text"], "node": int(named[1]) if named else fault["node"], "call": calls[0] if calls else -1}


def _located(text: str) -> dict[str, Any]:
    """A message, and the number of the first node in it; -1 without one."""
    found = _MARKED.search(text)
    return {"text": text, "node": int(found[1]) if found else -1}
