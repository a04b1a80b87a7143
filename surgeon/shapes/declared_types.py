"""The types that a file declares: of graph inputs and outputs, and in value_info."""

import re
from functools import cached_property
from itertools import count
from typing import Any

import onnx

from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Scope
from surgeon.ops.schemas.attribute_values import DTYPES
from surgeon.shapes.algebra.size_expressions import Size, parse_size, symbol, symbols
from surgeon.shapes.tensor_types import UNKNOWN, PartialType, TensorType

RANGES = "pkg.torch.export.ExportedProgram.range_constraints"
"""The metadata key with the dynamic dims of a program and their ranges, as torch's exporter writes it."""


class ValueInfos:
    """The ValueInfoProtos of a graph by name, created on demand."""

    def __init__(self, scope: Scope) -> None:
        proto = scope.proto
        self._values = proto.value_info
        self._places = dict(zip(scope.stated, count(), strict=False))
        is_graph = isinstance(proto, onnx.GraphProto)
        self._ends = {value.name: value for value in (*proto.output, *proto.input)} if is_graph else {}

    def get(self, name: str) -> onnx.ValueInfoProto | None:
        """The declaration of a tensor; inputs and outputs have precedence over value_info."""
        place = self._places.get(name)
        found: onnx.ValueInfoProto | None = self._ends.get(name) or (None if place is None else self._values[place])
        return found


class DeclaredTypes:
    """The declared types of all scopes, parsed on demand.

    ignore_dim_names: treat all dims of the inputs as different, even of the same name, and trust no other shape.
    """

    def __init__(self, origin: OriginalModel, *, ignore_dim_names: bool = False) -> None:
        self._ignores_dim_names = ignore_dim_names
        self._infos: dict[int, ValueInfos] = {}  # by graph, which a scope and its copies share
        self._by_type: dict[bytes, PartialType] = {}
        self._graph = graph = origin.model.skeleton.graph
        self._parsed: dict[str, Size] = {}
        self.inputs = {value.name: self._input(value) for value in graph.input}
        """Types of the inputs of the main graph; an unnamed dynamic dim is called `input[axis]`."""
        shapes = [facts.shape for facts in self.inputs.values() if facts.shape is not None]
        self.symbols = frozenset(name for shape in shapes for size in shape for name in symbols(size))
        """The dynamic dims of the inputs."""
        self._is_stale = bool(self.symbols) and _is_fixed(graph)

    @classmethod
    def of(cls, origin: OriginalModel) -> "DeclaredTypes":
        """The declared types of a model, cached."""
        return origin.index.cached_analysis(cls, lambda: cls(origin))

    @cached_property
    def has_reliable_dim_names(self) -> bool:
        """Whether dims of one name have one size, as torch.export guarantees: it names each dynamic dim.

        Hand-written names have no such guarantee.  A model with more names than torch recorded was edited later, for
        example by a merge.
        """
        noted = next((item.value for item in self._graph.metadata_props if item.key == RANGES), None)
        return noted is not None and len(set(re.findall(r"\bs\d+\b", noted))) == len(self.symbols)

    def draft(self, home: Scope, name: str) -> PartialType:
        """The declaration of a tensor in the scope that defines it."""
        key = id(home.proto)
        if key not in self._infos:
            self._infos[key] = ValueInfos(home)
        info = self._infos[key].get(name)
        if info is None:
            return _UNDECLARED
        kind = info.type.SerializeToString()
        if kind not in self._by_type:
            self._by_type[kind] = self._read(info.type)
        declared = self._by_type[kind]
        is_stale = self._ignores_dim_names or (self._is_stale and home.parent is None)
        return PartialType(declared.dtype, None) if is_stale else declared

    def _read(self, kind: onnx.TypeProto) -> PartialType:
        dtype, shape = _tensor(kind)
        return PartialType(dtype, None if shape is None else [self._size(dim) for dim in shape.dim])

    def _input(self, value: onnx.ValueInfoProto) -> TensorType:
        dtype, shape = _tensor(value.type)
        if shape is None:
            return TensorType(dtype, None)
        sizes = [self._size(dim) for dim in shape.dim]
        kept = [size if isinstance(size, int) or not self._ignores_dim_names else None for size in sizes]
        named = [symbol(f"{value.name}[{axis}]") if size is None else size for axis, size in enumerate(kept)]
        return TensorType(dtype, tuple(named))

    def _size(self, dim: onnx.TensorShapeProto.Dimension) -> Size | None:
        if dim.HasField("dim_value"):
            return int(dim.dim_value) if dim.dim_value >= 0 else None
        text = dim.dim_param.strip()
        if not text:
            return None
        if text not in self._parsed:
            self._parsed[text] = parse_size(text)
        size = self._parsed[text]
        return None if isinstance(size, int) and size < 0 else size


def _is_fixed(graph: onnx.GraphProto) -> bool:
    """Whether all dims in value_info are numbers, although the inputs have dynamic dims.

    In that case the dims were made dynamic after the export, and value_info is stale.
    """
    shapes = (_tensor(value.type)[1] for value in graph.value_info)
    known_shapes = (shape.dim for shape in shapes if shape is not None)
    return len(graph.value_info) > 0 and all(dim.HasField("dim_value") for dims in known_shapes for dim in dims)


_UNDECLARED = PartialType(*UNKNOWN)

def _tensor(kind: onnx.TypeProto) -> tuple[int | None, Any]:
    """Element type and shape of a tensor or sparse tensor; nothing for a sequence, map or optional."""
    field = kind.WhichOneof("value")
    if field not in ("tensor_type", "sparse_tensor_type"):
        return None, None
    tensor: Any = getattr(kind, field)
    return tensor.elem_type if tensor.elem_type in DTYPES else None, tensor.shape if tensor.HasField("shape") else None
