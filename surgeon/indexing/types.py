"""Dtypes and shapes of tensors: as the file states them, else inferred, on demand."""

from collections.abc import Callable, Iterator
from typing import Any

import onnx
from onnx import TensorProto

from surgeon.indexing.constants import Constants
from surgeon.indexing.scope import Node, Scope
from surgeon.ops.attributes import DTYPES
from surgeon.ops.records import ONE_TYPE, RETYPING
from surgeon.ops.schemas import schema

Dim = int | str | None
Inferred = Callable[[Scope, str], tuple[int | None, tuple[Dim, ...] | None]]
FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16})
FLOAT_STRINGS = frozenset({"tensor(float)", "tensor(float16)", "tensor(double)", "tensor(bfloat16)"})
UNKNOWN = frozenset({"unknown"})
TIED_LIMIT = 256  # tensors looked at for the dtype of one


class Infos:
    """The ValueInfoProtos of a graph by name; the objects themselves are made when asked for."""

    def __init__(self, proto: Any) -> None:
        self._values = proto.value_info
        self._places = {value.name: place for place, value in enumerate(proto.value_info)}
        is_graph = isinstance(proto, onnx.GraphProto)
        self._ends = {value.name: value for value in (*proto.output, *proto.input)} if is_graph else {}

    def get(self, name: str) -> onnx.ValueInfoProto | None:
        """What the graph states of a tensor; its inputs and outputs go before value_info."""
        place = self._places.get(name)
        found: onnx.ValueInfoProto | None = self._ends.get(name) or (None if place is None else self._values[place])
        return found


class Types:
    """What is known of each tensor.  dtypes are TensorProto enum values; dims are int, a symbol's name, or None.

    inferred: what tells the dtype and the shape of a tensor where the file does not; see `surgeon.shapes.indexed`.
    """

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self.inferred: Inferred = lambda scope, name: (None, None)
        self._stated: dict[int, Infos] = {}
        self._known: dict[int, dict[str, int]] = {}  # a tensor keeps its dtype under its name

    def dtype(self, scope: Scope, name: str) -> int | None:
        """The element type, or None where nothing tells it."""
        known = self._known.setdefault(id(scope), {})
        if name not in known:
            found = self._dtype(scope, name)
            if not found:
                return None
            known[name] = found
        return known[name]

    def _dtype(self, scope: Scope, name: str) -> int | None:
        source = scope.producers.get(name)
        near = [*scope.consumers.get(name, ())[:2], *([] if source is None else [source])]
        for node in near:  # the quick road: a weight or constant beside it
            if node.op in ONE_TYPE and node.scope is scope:
                for beside in node.inputs:
                    stored = scope.initializers.get(beside)
                    if stored is not None:
                        return int(stored.data_type)
        found = self._by_producer(scope, name)
        return self.inferred(scope, name)[0] if found is None else found

    def shape(self, scope: Scope, name: str) -> tuple[Dim, ...] | None:
        """The shape with symbols where dims are symbolic, or None where the rank is unknown."""
        constant = self._constants.shape(scope, name)
        if constant is not None:
            return constant
        info = self._info(scope, name)
        if info is not None and info.type.tensor_type.HasField("shape"):
            return tuple(_dim(dim) for dim in info.type.tensor_type.shape.dim)
        return self.inferred(scope, name)[1]

    def rank(self, scope: Scope, name: str) -> int | None:
        """The number of dims, or None where it is unknown."""
        shape = self.shape(scope, name)
        return None if shape is None else len(shape)

    def is_float(self, scope: Scope, name: str) -> bool:
        """Whether the tensor is known to hold floats; the exact type may be unknown (as in a function)."""
        for dtype, allowed in self._of_one_type(scope, name):
            if dtype is not None:
                return dtype in FLOATS
            if allowed <= FLOAT_STRINGS:
                return True
        return self.dtype(scope, name) in FLOATS

    def _by_producer(self, scope: Scope, name: str) -> int | None:
        """The dtype as stated, or carried over nodes whose schema ties output to input."""
        return next((dtype for dtype, _ in self._of_one_type(scope, name) if dtype is not None), None)

    def _of_one_type(self, scope: Scope, name: str) -> Iterator[tuple[int | None, frozenset[str]]]:
        """(dtype, types that the schema allows) of a tensor and of those below it that must have the same type."""
        seen, waiting = {name}, [(scope, name)]
        while waiting and len(seen) < TIED_LIMIT:
            scope, name = waiting.pop()
            home = scope.home(name)
            if home is None:
                continue
            node = home.producers.get(name)
            own = self._own(home, name, node)
            known = _schema_of(home, node.op) if own is None and node is not None else None
            if node is None or known is None or not known.outputs:
                yield own, UNKNOWN
                continue
            formal = known.outputs[min(node.outputs.index(name), len(known.outputs) - 1)].type
            yield _enum_of_string(formal) if formal.startswith("tensor(") else None, known.types.get(formal, UNKNOWN)
            fresh = [source for source in _tied_inputs(known, node.inputs, formal) if source not in seen]
            seen.update(fresh)
            # All are of one type: a stored weight tells it at once, where the way back through the data may be long.
            fresh.sort(key=home.initializers.__contains__, reverse=True)
            waiting += [(home, source) for source in reversed(fresh)]

    def _own(self, home: Scope, name: str, node: Node | None) -> int | None:
        """The dtype that the file or the node itself states, or that was found before."""
        known = self._known.get(id(home), {}).get(name)
        if known is not None:
            return known
        stored = home.initializers.get(name)
        if stored is not None:
            return int(stored.data_type)
        info = self._infos(home).get(name)
        if info is not None and info.type.tensor_type.elem_type in DTYPES:
            return int(info.type.tensor_type.elem_type)
        if node is not None and node.op in RETYPING:
            target = node.attribute("to")
            known = target is not None and not target.ref_attr_name and target.i in DTYPES
            return int(target.i) if target is not None and known else None
        if node is not None and node.op == "Constant":
            value = self._constants.get(home, name)
            return None if value is None else _enum(value.array.dtype)
        return None

    def _info(self, scope: Scope, name: str) -> onnx.ValueInfoProto | None:
        home = scope.home(name)
        return None if home is None else self._infos(home).get(name)

    def _infos(self, home: Scope) -> Infos:
        if id(home) not in self._stated:
            self._stated[id(home)] = Infos(home.proto)
        return self._stated[id(home)]


def _schema_of(scope: Scope, op: str) -> Any:
    domain, _, name = op.rpartition("::")
    return schema(domain, name, scope.versions.get(domain))


def _tied_inputs(known: Any, inputs: tuple[str, ...], formal: str) -> list[str]:
    """Inputs whose type variable is the given one."""
    return [
        name
        for position, name in enumerate(inputs)
        if name and known.inputs and known.inputs[min(position, len(known.inputs) - 1)].type == formal
    ]


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None  # some write -1 for a size that is open
    return dim.dim_param or None


def _enum(dtype: Any) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype)) if dtype.kind != "O" else int(TensorProto.STRING)


def _enum_of_string(type_string: str) -> int | None:
    name = type_string[len("tensor(") : -1]
    return getattr(TensorProto, {"float": "FLOAT", "double": "DOUBLE"}.get(name, name.upper()), None)
