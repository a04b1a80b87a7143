"""The contents of a model: opsets, ops, ops without a schema, inputs and outputs, and the size of the weights.

No payload is read, so 100 GB take as long as the graph.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from surgeon.errors import ModelFileError
from surgeon.file.external_data.locations import extent_of, resolve, tensors_of
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, by_component, model_name, resolve_model
from surgeon.file.tensors.decoding import raw_size
from surgeon.ir.scope import qualified_name
from surgeon.ops.schemas import history, knows_domain, schema
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traversal import all_nodes, imports_of, node_label
from surgeon.result_base import ResultBase
from surgeon.targets.inspection.outline import OutlineGroup, build_outline
from surgeon.targets.inspection.provenance import module_path

PLACES = 3  # nodes named for each unknown op


@dataclass(frozen=True, slots=True)
class UnknownOp:
    """An op that neither onnx nor ONNX Runtime has at the model's opset."""

    op: str
    """Name with domain, "acme::Gelu"."""
    count: int
    """Number of nodes."""
    why: str
    """Why it is unknown, a clause."""
    places: tuple[str, ...]
    """The first few nodes."""


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """A local function of the model."""

    name: str
    """Name with domain."""
    nodes: int
    """Nodes in its body."""
    calls: int
    """Nodes that call it."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """An external data file."""

    location: str
    """As the model names it."""
    used: int
    """Bytes that tensors use."""
    size: int | None
    """Bytes on disk, None if it is missing."""


@dataclass(slots=True)
class Inspection(ResultBase):
    """The facts about one model: a record with a field for each line that `surgeon inspect` prints."""

    path: str
    """Path of the model."""
    file_size: int
    """Bytes of the model file."""
    ir_version: int
    """ONNX IR version."""
    producer: str
    """Name and version of the exporter."""
    opsets: dict[str, int]
    """Versions by domain."""
    inputs: dict[str, str]
    """Types by name, "float32[batch, 128]"."""
    outputs: dict[str, str]
    """Types by name, "float32[batch, 128]"."""
    about: dict[str, str] = field(default_factory=dict)
    """Other header fields: name of the graph, domain, model_version, doc_string."""
    metadata: dict[str, str] = field(default_factory=dict)
    """metadata_props; the last value of a repeated key."""
    nodes: int = 0
    """Number of nodes, in bodies and functions too."""
    ops: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of nodes by domain ("ai.onnx" for "") and op, most frequent first."""
    unknown: list[UnknownOp] = field(default_factory=list)
    """Ops without a schema."""
    functions: list[FunctionSummary] = field(default_factory=list)
    """Local functions."""
    tensors: int = 0
    """Number of stored tensors."""
    inside: dict[str, int] = field(default_factory=dict)
    """Bytes of weights in the model file, by dtype."""
    outside: dict[str, int] = field(default_factory=dict)
    """Bytes of weights in external data, by dtype."""
    files: list[DataFile] = field(default_factory=list)
    """External data files."""
    _graph: onnx.GraphProto | None = field(default=None, repr=False, compare=False)  # without its payloads

    @property
    def outline(self) -> OutlineGroup:
        """The nodes of the main graph without Constants, grouped by scope and by repetition."""
        nodes = [node for node in self._graph.node if node.op_type != "Constant"] if self._graph is not None else []
        return build_outline([module_path(node) for node in nodes], [node.op_type for node in nodes])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return asdict(replace(self, _graph=None), dict_factory=_public)


@by_component("source")
def inspect(source: ModelLike) -> Inspection:
    """Tell what is in a model: opsets, ops, custom ops, inputs, outputs and the size of the weights.

    Payloads are not read.

    Args:
        source: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.

    Returns:
        The facts; a notebook shows them as tables.

    Raises:
        ModelFileError: it is not a model.

    Examples:
        >>> import surgeon
        >>> found = surgeon.inspect("notebooks/models/tiny_distilbert.onnx")
        >>> found.nodes, found.inputs["input_ids"]
        (180, 'int64[batch, sequence]')
    """
    path = model_name(source)
    with Model.open(resolve_model(source)) as model:
        proto = model.skeleton
        found = Inspection(
            path=path,
            file_size=len(model.data),
            ir_version=int(proto.ir_version),
            producer=" ".join(part for part in (proto.producer_name, proto.producer_version) if part),
            opsets={item.domain or "ai.onnx": int(item.version) for item in proto.opset_import},
            inputs=_signature(proto.graph.input, {tensor.name for tensor in proto.graph.initializer}),
            outputs=_signature(proto.graph.output, frozenset()),
            about={name: text for name, text in _about(proto) if text},
            metadata={item.key: item.value for item in proto.metadata_props},
            _graph=proto.graph,
        )
        _count_ops(found, proto)
        _weigh(found, model)
    return found


def _public(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if not name.startswith("_")}


def _about(proto: onnx.ModelProto) -> Iterator[tuple[str, str]]:
    yield "graph", proto.graph.name
    yield "domain", proto.domain
    yield "model_version", str(proto.model_version or "")
    yield "doc_string", proto.doc_string or proto.graph.doc_string


def _signature(values: Any, initializers: Any) -> dict[str, str]:
    return {value.name: type_text(value.type) for value in values if value.name not in initializers}


def type_text(kind: onnx.TypeProto, *, with_names: bool = True) -> str:
    """A type as people read it: float32[batch, 3, 224, 224], seq(int64[?]).  with_names: give dynamic dims by name."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(kind, which)
        shape = ""
        if tensor.HasField("shape"):
            dims = (
                str(dim.dim_value) if dim.HasField("dim_value") else (with_names and dim.dim_param) or "?"
                for dim in tensor.shape.dim
            )
            shape = f"[{', '.join(dims)}]"
        return f"{'sparse ' * (which != 'tensor_type')}{dtype_name(tensor.elem_type)}{shape}"
    if which == "sequence_type":
        return f"seq({type_text(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({type_text(kind.optional_type.elem_type)})"
    if which == "map_type":
        return f"map({dtype_name(kind.map_type.key_type)}, {type_text(kind.map_type.value_type)})"
    return "unknown"


def _count_ops(found: Inspection, proto: onnx.ModelProto) -> None:
    versions = imports_of(proto.opset_import)
    counts: Counter[tuple[str, str]] = Counter()
    unknown: dict[tuple[str, str], tuple[str, list[str]]] = {}
    judged: dict[tuple[int, str, str], str | None] = {}
    local = {(function.domain, function.name) for function in proto.functions}
    scopes = [(proto.graph.node, versions)]
    scopes += [(function.node, imports_of(function.opset_import) or versions) for function in proto.functions]
    for nodes, opsets in scopes:
        for node in all_nodes(nodes):
            domain, op = node.domain, node.op_type
            counts[normalize_domain(domain), op] += 1
            key = (id(opsets), domain, op)
            if key not in judged:
                judged[key] = None if (domain, op) in local else _missing_schema_reason(domain, op, opsets)
            if (why := judged[key]) is not None:
                places = unknown.setdefault((domain, op), (why, []))[1]
                if len(places) < PLACES:
                    places.append(node_label(node))
    found.nodes = counts.total()
    for (domain, op), count in sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0][1])):
        found.ops.setdefault(domain or "ai.onnx", {})[op] = count
    found.unknown = [
        UnknownOp(qualified_name(*key), counts[normalize_domain(key[0]), key[1]], why, tuple(places))
        for key, (why, places) in unknown.items()
    ]
    found.functions = [
        FunctionSummary(
            f"{function.domain}::{function.name}",
            len(function.node),
            counts[normalize_domain(function.domain), function.name],
        )
        for function in proto.functions
    ]


def _missing_schema_reason(domain: str, op: str, opsets: Mapping[str, int]) -> str | None:
    """Why no schema fits; None if one does."""
    plain = normalize_domain(domain)
    if schema(plain, op, opsets.get(plain)) is not None:
        return None
    versions = history(plain, op)
    if versions:
        return f"needs opset {versions[0].since_version}, but the model has {opsets.get(plain)}"
    return "no such op" if knows_domain(plain) else "custom or placeholder"


def _weigh(found: Inspection, model: Model) -> None:
    """Bytes of weights by dtype and place, computed from shapes and dtypes."""
    everywhere: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    for tensor in tensors_of(model.skeleton):
        everywhere[dtype_name(tensor.data_type)] += _size(tensor)
        found.tensors += 1
    extents = set()
    for tensor in model.external_tensors:
        outside[dtype_name(tensor.data_type)] += _size(tensor)
        extents.add(extent_of(tensor))
    everywhere.subtract(outside)
    found.inside = {name: size for name, size in everywhere.most_common() if size > 0}
    found.outside = dict(outside.most_common())
    used: Counter[str] = Counter()
    for extent in extents:
        used[extent.location] += extent.size
    folder = Path(found.path).parent
    found.files = [DataFile(location, size, _size_on_disk(folder, location)) for location, size in sorted(used.items())]


def _size(tensor: TensorProto) -> int:
    if tensor.data_type == TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    try:
        return raw_size(tensor)
    except ModelFileError:  # a dtype of tomorrow: its size is unknown, and the rest still worth showing
        return 0


def _size_on_disk(folder: Path, location: str) -> int | None:
    try:
        return os.stat(resolve(folder, location)).st_size
    except (OSError, ModelFileError):
        return None


def size_text(size: int) -> str:
    """Bytes with a decimal unit, three digits."""
    value, units = float(size), ("bytes", "kB", "MB", "GB", "TB")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            break
        value /= 1000
    return f"{size} bytes" if unit == "bytes" else f"{value:.3g} {unit}"
