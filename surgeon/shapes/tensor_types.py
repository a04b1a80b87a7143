"""The interface of inference rules: the facts of tensors, and one node with the facts and values of its inputs."""

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from onnx import AttributeProto, TensorProto, TensorShapeProto

from surgeon.errors import ModelFileError
from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas import AttributeSpec, Schema, schema
from surgeon.ops.schemas.node_check import opset_mismatch
from surgeon.shapes.algebra.size_expressions import Expr, Size, SizeError, evaluate, has_calls, symbols

ValueArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Shape: TypeAlias = tuple[Size, ...]
# An incomplete shape: None is an unknown dim.
PartialShape: TypeAlias = Sequence[Size | None]
MAX_AXES = 64  # maximum in any runtime
_TRIED_SIZES = (16, 48, 131)
"""Sizes at which a computed size is compared with a declared one: these for the first dim, larger ones for others."""
BOOL, INT32, INT64, FLOAT = TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT
HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
FLOATS = HALVES | {TensorProto.FLOAT, TensorProto.DOUBLE}
INTEGERS = frozenset(
    {
        TensorProto.INT8,
        TensorProto.INT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.UINT8,
        TensorProto.UINT16,
        TensorProto.UINT32,
        TensorProto.UINT64,
    }
)
INTEGERS_AND_BOOL = INTEGERS | {BOOL}
STRICT = "SURGEON_STRICT_SHAPES"
"""The environment variable that lets a bug of a rule raise, for our tests."""


class CannotInfer(Exception):
    """Raised by a rule that cannot infer anything, for example because the graph violates the rules of its op."""


class NeedsOperands(Exception):
    """Raised by a rule that needs other results first.  tasks: these results, in the notation of its evaluator."""

    def __init__(self, *tasks: Any) -> None:
        self.tasks = tasks


T = TypeVar("T")


def run_rule(rule: Callable[..., T], *given: Any) -> T | None:
    """The result of a rule; None if it cannot infer anything.

    Any other exception is a bug of the rule.  Tests raise it; for users, the shape is only unknown.
    """
    try:
        return rule(*given)
    except (CannotInfer, SizeError, ModelFileError):  # a caller that needs unreadable data reports it
        return None
    except NeedsOperands:
        raise
    except Exception:
        if os.environ.get(STRICT):
            raise
        return None


class TensorType(NamedTuple):
    """The dtype and shape of a tensor."""

    dtype: int | None
    """A value of `TensorProto.DataType`; None if unknown."""
    shape: Shape | None
    """None if the rank is unknown."""


class CallContext(NamedTuple):
    """The inputs and attributes of a function in one call."""

    scope: Scope
    """The function's scope."""
    facts: Mapping[str, TensorType]
    """The types of inputs by name."""
    values: Mapping[str, ValueArray | None]
    """The values of inputs by name."""
    attributes: Mapping[str, AttributeProto]
    """The attributes of the call by name."""
    label: str
    """The labels of the call and of those around it."""
    depth: int
    """How many calls are nested, from 1."""

    def key(self) -> Hashable:
        """The arguments of the call; calls with equal keys have equal types inside."""
        values = tuple(sorted((name, None if x is None else tuple(x.flat)) for name, x in self.values.items()))
        given = tuple(sorted((name, item.SerializeToString()) for name, item in self.attributes.items()))
        return (id(self.scope), tuple(sorted(self.facts.items())), values, given)


class PartialType(NamedTuple):
    """The inferred type of an output: a `TensorType` in which dims may be None, which means unknown."""

    dtype: int | None
    """None if unknown."""
    shape: PartialShape | None
    """None if the rank is unknown."""


UNKNOWN = TensorType(None, None)
Rule: TypeAlias = "Callable[[NodeView], Sequence[PartialType | TensorType]]"
ValueRule: TypeAlias = "Callable[[NodeView], Sequence[ValueArray | None]]"


class InferenceContext(Protocol):
    """Provides the types and values of the inputs of a `NodeView`."""

    origin: OriginalModel
    """The nodes and their inputs."""

    def facts(self, scope: Scope, name: str) -> TensorType:
        """The type of a tensor, inferred if it is still unknown."""
        ...

    def need_facts(self, scope: Scope, name: str) -> TensorType:
        """The type of a tensor; interrupts the rule if it is still unknown."""
        ...

    def need_value(self, scope: Scope, name: str) -> ValueArray | None:
        """The value of a tensor, with None for unknown elements; interrupts the rule if it is still unknown."""
        ...

    def floats(self, scope: Scope, name: str) -> list[float] | None:
        """The elements of a constant, in order; None for other tensors."""
        ...

    def attribute(self, node: Node, name: str) -> AttributeProto | None:
        """An attribute of a node, references to a function's attributes resolved."""
        ...


class NodeView:
    """A node as a rule sees it; inputs by position, attributes by name."""

    def __init__(self, evaluator: InferenceContext, scope: Scope, node: Node, inputs: tuple[str, ...]) -> None:
        self._evaluator = evaluator
        self.scope, self.node, self.inputs = scope, node, inputs

    @property
    def op(self) -> str:
        """The op with its domain."""
        return self.node.op

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return len(self.node.outputs)

    def made_shape(self) -> Shape | None:
        """The inferred shape of the first output; not for the rule that infers it."""
        return self._evaluator.facts(self.scope, self.node.outputs[0]).shape

    @cached_property
    def opset(self) -> int:
        """The opset of ai.onnx; 1 if the model does not import it."""
        return self.scope.versions.get("", 1)

    @cached_property
    def is_misread(self) -> bool:
        """Whether the node does not fit the declared opset, whose rules would misread it."""
        return self.node.original and opset_mismatch(self.node.proto, self.opset) is not None

    @cached_property
    def _attributes(self) -> dict[str, Any]:
        return {item.name: item for item in self.node.proto.attribute}

    @cached_property
    def _formals(self) -> Mapping[str, AttributeSpec]:
        found = schema_of(self.scope, self.node.op)
        return {} if found is None else found.attributes

    def has(self, position: int) -> bool:
        """Whether the input is present."""
        return position < len(self.inputs) and bool(self.inputs[position])

    def facts(self, position: int) -> TensorType:
        """The type of an input; unknown for an omitted one."""
        name = self.inputs[position] if position < len(self.inputs) else ""
        return self._evaluator.need_facts(self.scope, name) if name else UNKNOWN

    def producer(self, position: int) -> "NodeView | None":
        """The producer of an input; None without one."""
        home = self.scope.defining_scope(self.inputs[position]) if self.has(position) else None
        node = None if home is None else home.producers.get(self.inputs[position])
        if home is None or node is None:
            return None
        return NodeView(self._evaluator, home, node, self._evaluator.origin.inputs(node))

    def shape(self, position: int) -> Shape | None:
        """The shape of an input; None if its rank is unknown."""
        return self.facts(position).shape

    def ranked_type(self, position: int) -> tuple[int | None, Shape]:
        """The dtype and shape of an input.  Raises CannotInfer for an unknown rank, so that the schema is used."""
        dtype, shape = self.facts(position)
        if shape is None:
            raise CannotInfer("the rank is unknown")
        return dtype, shape

    def dtype(self, position: int) -> int | None:
        """The dtype of an input; None if unknown."""
        return self.facts(position).dtype

    def value(self, position: int) -> ValueArray | None:
        """The value of an input: its elements are sizes, bools, ratios of sizes, or None if unknown."""
        name = self.inputs[position] if position < len(self.inputs) else ""
        return self._evaluator.need_value(self.scope, name) if name else None

    def sizes(self, position: int) -> list[Size] | None:
        """All elements of an input in order; None if one is unknown."""
        value = self.value(position)
        found = None if value is None else value.reshape(-1).tolist()
        return found if found is not None and all(isinstance(item, (int, Expr)) for item in found) else None

    def numbers(self, position: int) -> list[int] | None:
        """As `sizes`, if all are integers; else None."""
        found = self.sizes(position)
        numbers = [int(item) for item in found or () if isinstance(item, int)]
        return numbers if found is not None and len(numbers) == len(found) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute: an int, a float, a string, a list of those; otherwise protobuf's object.

        An attribute that the op does not have counts as absent.  Raises CannotInfer if the value does not have the op's
        type.
        """
        wanted = self._formals.get(name) if name in self._attributes else None
        item: Any = None if wanted is None else self.resolved(name)
        if wanted is None or item is None:
            return default
        require(item.type == wanted.type)
        kinds = {AttributeProto.INT: "i", AttributeProto.FLOAT: "f"}
        if item.type in kinds:
            return getattr(item, kinds[item.type])
        if item.type == AttributeProto.STRING:
            return item.s.decode(errors="replace")
        lists = {AttributeProto.INTS: "ints", AttributeProto.FLOATS: "floats", AttributeProto.STRINGS: "strings"}
        return list(getattr(item, lists[item.type])) if item.type in lists else item

    def resolved(self, name: str) -> AttributeProto | None:
        """An attribute as stored; a reference is resolved by the call of the function."""
        item: AttributeProto | None = self._attributes.get(name)
        return self._evaluator.attribute(self.node, name) if item is not None and item.ref_attr_name else item

    def floats(self, position: int) -> list[float] | None:
        """The elements of a constant input of floats, in order."""
        return self._evaluator.floats(self.scope, self.inputs[position]) if self.has(position) else None

    def axes(self, position: int, name: str = "axes") -> list[int] | None:
        """The axes in an input or, in older opsets, in an attribute; None if absent or unknown.

        `has_axes` says whether they are absent.
        """
        if self.has(position):
            return self.numbers(position)
        found = self.attribute(name)
        return None if found is None else [int(axis) for axis in found]

    def has_axes(self, position: int, name: str = "axes") -> bool:
        """Whether axes are present."""
        return self.has(position) or self.attribute(name) is not None


def schema_of(scope: Scope, op: str) -> Schema | None:
    """The schema of an op at the version that a scope imports."""
    domain, name = split_op(op)
    return schema(domain, name, scope.versions.get(domain))


def require(fits: bool) -> None:
    """Raise CannotInfer if a graph violates what a rule assumes."""
    if not fits:
        raise CannotInfer("the graph breaks the rules of the op")


def is_unknown(size: Size) -> bool:
    """Whether a size contains an unknown dim."""
    return not isinstance(size, int) and _has_unknown(size)


@lru_cache(maxsize=4096)
def _has_unknown(size: Expr) -> bool:
    return any(name.startswith("?") for name in symbols(size))


def complete_type(draft: PartialType | TensorType) -> TensorType | None:
    """The type if dtype and rank are known and every dim is, else None."""
    if not draft.dtype or draft.shape is None:
        return None
    shape: list[Size] = []
    for size in draft.shape:
        if size is None or is_unknown(size):
            return None
        shape.append(size)
    return draft if isinstance(draft, TensorType) else TensorType(draft.dtype, tuple(shape))


def size_text(size: Size | None) -> str:
    """A size as text; "?" for an unknown one."""
    return "?" if size is None or is_unknown(size) else str(size)


def known(shape: PartialShape | None) -> Shape | None:
    """The shape if every dim is known, else None."""
    return None if shape is None or any(size is None for size in shape) else tuple(x for x in shape if x is not None)


def sanitized(draft: PartialType | TensorType) -> PartialType | TensorType:
    """A draft without invalid dims, which malformed attributes can produce."""
    dtype, shape = draft
    if shape is not None and not isinstance(shape, (tuple, list)):
        shape = None
    for size in shape or ():
        if not (type(size) is Expr or size is None or (type(size) is int and size >= 0)):
            shape = None
    dtype = dtype if isinstance(dtype, int) else None
    return draft if shape is draft.shape and dtype == draft.dtype else PartialType(dtype, shape)


def completed(ruled: PartialType | TensorType, declared: PartialType | TensorType) -> PartialType:
    """The type that a node implies; the file completes unknown parts.

    A declaration of another rank, or with another number, is ignored.
    """
    dtype = ruled.dtype or declared.dtype
    if ruled.shape is None or declared.shape is None:
        return PartialType(dtype, declared.shape if ruled.shape is None else ruled.shape)
    if contradict(ruled.shape, declared.shape):
        return PartialType(dtype, ruled.shape)
    return PartialType(dtype, list(map(_simplest, ruled.shape, declared.shape)))


def is_sum(size: Size | None) -> bool:
    """Whether a size is a sum of several terms."""
    return isinstance(size, Expr) and len(size.terms) > 1


def contradict(one: PartialShape, other: PartialShape) -> bool:
    """Whether two shapes differ in rank or in a number.  Symbolic sizes never contradict."""
    pairs = zip(one, other, strict=False)
    return len(one) != len(other) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def fixed_sizes(dims: Iterable[TensorShapeProto.Dimension]) -> list[Size | None]:
    """Declared dims; only numbers are known."""
    return [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in dims]


def _simplest(ruled: Size | None, declared: Size | None) -> Size | None:
    """The declared size, if the other is unknown, or is computed and has the same value at all tried sizes.

    An exporter may know that a size with a floor is a plain number, or that it is positive.  A declared name of a total
    of past and new tokens is treated as a sum, because no node says that the two are equal.
    """
    if declared is None or ruled is None or is_unknown(ruled):
        return ruled if declared is None else declared
    names = sorted(symbols(ruled))
    if isinstance(declared, Expr) and declared.is_total_of(ruled):
        return declared
    if not has_calls(ruled, "floor", "min", "max") or not symbols(declared) <= set(names):
        return ruled
    tried = [{name: least + 2 * place for place, name in enumerate(names)} for least in _TRIED_SIZES]
    try:
        return declared if all(evaluate(ruled, sizes) == evaluate(declared, sizes) for sizes in tried) else ruled
    except SizeError:
        return ruled


def length_of(shape: Shape | None) -> int | None:
    """The length of a 1-d tensor, such as axes or dims; None if it is symbolic or too long."""
    length = shape[0] if shape is not None and len(shape) == 1 else None
    return length if isinstance(length, int) and length <= MAX_AXES else None


def normalize_axis(axis: int, rank: int) -> int:
    """A non-negative axis.  Raises CannotInfer if it is out of range."""
    require(-rank <= axis < rank)
    return axis % rank


def objects(items: Any, shape: tuple[int, ...] | None = None) -> ValueArray:
    """An array of sizes from a list, with one axis unless `shape` says otherwise."""
    made = np.empty(len(items), object)
    made[:] = items
    return made if shape is None else made.reshape(shape)
