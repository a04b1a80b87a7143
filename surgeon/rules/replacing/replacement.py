"""A replacement as data: its nodes, constants and outputs, with references in place of tensor names."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, helper

from surgeon.file.protobuf.node_encoder import kind_record
from surgeon.file.tensors.decoding import encode
from surgeon.ir.scope import qualified_name
from surgeon.ops.traversal import GRAPHS

LARGE = 1024  # bytes
OUTER_READS_KEY = "surgeon.free"  # key of the names that a node's bodies read, whose tensors follow its inputs


class TensorRef(NamedTuple):
    """A tensor of a replacement."""

    kind: str
    """One of "empty", "capture", "inner" and "constant"."""
    key: Any = None
    """Capture (name, index), or the number of an inner tensor or a constant."""

    def __str__(self) -> str:
        """A name for the tensor: a capture by its name in the pattern, with its index for *rest."""
        if self.kind == "capture":
            name, place = self.key
            return f"{name}[{place}]" if place else str(name)
        return "" if self.kind == "empty" else f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class ReplacementNode:
    """A node of a replacement; its tensors are named when it is inserted."""

    domain: str
    """Operator domain."""
    op: str
    """Operator type."""
    inputs: tuple[TensorRef, ...]
    """Its inputs."""
    outputs: tuple[int, ...]
    """Numbers of its outputs, which are inner tensors."""
    attributes: tuple[AttributeProto, ...]
    """Its attributes."""
    free: tuple[tuple[str, TensorRef], ...] = ()
    """Tensors that its bodies read from outside, by their names inside."""
    qualified: str = field(init=False)
    """Op as in `Node.op`."""
    kind: bytes = field(init=False)
    """The part of its serialised record that does not depend on names."""
    holds_graphs: bool = field(init=False)
    """Whether an attribute is a graph."""
    reads: tuple[TensorRef, ...] = field(init=False)
    """`inputs` and `free`."""
    makes: tuple[TensorRef, ...] = field(init=False)
    """`outputs` as references."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "qualified", qualified_name(self.domain, self.op))
        attributes = [item.SerializeToString() for item in self.attributes]
        object.__setattr__(self, "kind", kind_record(self.op, self.domain, attributes))
        object.__setattr__(self, "holds_graphs", any(item.type in GRAPHS for item in self.attributes))
        object.__setattr__(self, "reads", (*self.inputs, *(ref for _, ref in self.free)))
        object.__setattr__(self, "makes", tuple(TensorRef("inner", number) for number in self.outputs))

    def proto(self, name_of: Callable[[TensorRef], str]) -> NodeProto:
        """The node as a message, its tensors named."""
        inputs, outputs = map(name_of, self.inputs), map(name_of, self.makes)
        made = helper.make_node(self.op, list(inputs), list(outputs), domain=self.domain)
        made.attribute.extend(self.attributes)
        return made


@dataclass(frozen=True, slots=True)
class ReplacementConstant:
    """A constant of a replacement."""

    values: np.ndarray[Any, np.dtype[Any]]
    """Its value."""
    like: TensorRef | None
    """Tensor whose dtype it takes at run time; None: its own dtype."""

    @property
    def content(self) -> tuple[str, tuple[int, ...], bytes]:
        """A key of equal constants: dtype, shape and bytes, for a large one (a weight) their digest."""
        values = self.values
        data = values.tobytes()
        if len(data) >= LARGE:
            from hashlib import blake2b  # not at the top: few constants are large

            data = blake2b(data).digest()
        return values.dtype.str + values.dtype.name, values.shape, data

    def proto(self, name: str) -> onnx.TensorProto:
        """The constant as a named TensorProto."""
        return encode(np.ascontiguousarray(self.values).reshape(self.values.shape), name)


@dataclass(frozen=True, slots=True)
class AttributeReference:
    """A reference to an attribute of the enclosing local function: alpha in g.constant(value_float=alpha)."""

    name: str
    """Attribute of the function."""
    kind: int
    """Its AttributeProto.AttributeType."""

    def proto(self, name: str) -> AttributeProto:
        """An attribute that takes its value from the function's."""
        return AttributeProto(name=name, type=cast(AttributeProto.AttributeType, self.kind), ref_attr_name=self.name)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The nodes that replace a match."""

    nodes: tuple[ReplacementNode, ...]
    """In topological order."""
    constants: tuple[ReplacementConstant, ...]
    """Constants that the nodes read."""
    outputs: tuple[TensorRef, ...]
    """A tensor for each output of the match."""
    captures: tuple[tuple[str, int], ...]
    """Keys of the captures that it reads."""
    functions: tuple[onnx.FunctionProto, ...] = ()
    """Local functions that the nodes call."""

    @property
    def fits_anywhere(self) -> bool:
        """Whether it can be written at any site: its nodes make the only output, and the dtypes of constants are known.
        """
        is_made = [output.kind == "inner" for output in self.outputs] == [True]
        return is_made and all(item.like is None for item in self.constants)

    def as_protos(self) -> Iterator[NodeProto]:
        """The nodes with provisional names: those of their references."""
        return (node.proto(str) for node in self.nodes)

    def as_body(self, inputs: Mapping[TensorRef, str]) -> tuple[list[NodeProto], list[str]]:
        """The nodes of a local function with these inputs, in order, and the names of its outputs."""
        names = {**inputs, TensorRef("empty"): ""}
        for item in self.nodes:
            for place, number in enumerate(item.outputs):
                names[TensorRef("inner", number)] = f"{item.op}_{number}" + (f"_{place}" if place else "")
        made: list[NodeProto] = []
        for item in self.nodes:
            made += (node for ref in item.inputs for node in self._constant(ref, names))
            made.append(item.proto(names.__getitem__))
        outputs: list[str] = []
        for ref in self.outputs:
            made += self._constant(ref, names)
            name = names[ref]
            if ref.kind != "inner" or name in outputs:
                name = f"output_{len(outputs)}"
                made.append(helper.make_node("Identity", [names[ref]], [name]))
            outputs.append(name)
        return made, outputs

    def _constant(self, ref: TensorRef, names: dict[TensorRef, str]) -> Iterator[NodeProto]:
        """The Constant nodes of a function, which has no initializers, at their first use."""
        if ref.kind != "constant" or ref in names:
            return
        item = self.constants[ref.key]
        name = names[ref] = f"constant_{ref.key}"
        yield helper.make_node("Constant", [], [name], value=item.proto(""))
        if item.like is not None:
            names[ref] = f"{name}_cast"
            yield helper.make_node("CastLike", [name, names[item.like]], [names[ref]])

