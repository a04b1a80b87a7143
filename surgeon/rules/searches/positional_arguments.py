"""Placeholders of PyTorch operators whose arguments are all positional inputs, with numbers as constants."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surgeon.errors import UsageError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas.op_schema import domains
from surgeon.ops.torch_fallbacks import ATEN_DOMAIN, NO_ATTRIBUTES, TORCHSCRIPT_DOMAIN, lost, operator_of
from surgeon.ops.torch_schema import SCALAR_TYPES, Argument, TorchSchema, known, matching_overload, namespaces_of
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search

_LISTS = "SequenceConstruct"
_KINDS = {"int": "iu", "bool": "b", "float": "fiu", "Scalar": "fiub", "str": "OUS", "ScalarType": "iu"}


@dataclass(slots=True)
class _NamedArguments:
    """A node with its arguments by name."""

    operator: str
    """Qualified name, such as aten::gelu."""
    places: list[str] = field(default_factory=list)
    """Input tensors; "": absent."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Attribute values."""
    lists: list[Node] = field(default_factory=list)
    """SequenceConstruct nodes of list arguments."""
    problem: str = ""
    """Why the arguments cannot be named; "" if they can."""


def _unnamed_arguments(index: Index, scope: Scope) -> Iterator[Found]:
    """Nodes of `org.pytorch.aten`, and of other domains with their numbers as constant inputs; never named ones.

    Binds `operator` (`aten::gelu`), `tensors` (those that are there), `places` (for each input the number of its tensor
    or None), `attributes`, `count` (of outputs) and `problem`: why the arguments cannot be named, empty if they can.
    """
    foreign = {op for op in scope.by_op if split_op(op)[0] not in ("", *domains())}
    for node in scope.live_nodes() if foreign else ():
        if not node.alive or node.op not in foreign:
            continue
        named = _named(index, scope, node)
        if named is None:
            continue
        tensors = [name for name in named.places if name]
        numbers = iter(range(len(tensors)))
        outputs = tuple(name for name in node.outputs if name)
        bound: dict[str, Any] = {
            "operator": (named.operator,),
            "tensors": VariadicBinding(tensors),
            "places": ([next(numbers) if name else None for name in named.places],),
            "attributes": (named.attributes,),
            "used": ([bool(name) for name in node.outputs],),
            "problem": (named.problem,),
        }
        yield Found((*_only_read_here(scope, named.lists), node), outputs, bound)


unnamed_arguments = Search(
    _unnamed_arguments, "the model has no node of org.pytorch.aten, and no PyTorch operator with numbers as inputs"
)


def _named(index: Index, scope: Scope, node: Node) -> _NamedArguments | None:
    """The arguments of a node by name; None if it is not such a placeholder."""
    if node.op.startswith(f"{TORCHSCRIPT_DOMAIN}::"):
        return _NamedArguments(node.op, problem=str(lost(node.proto)).rstrip("."))
    operator = operator_of(node.proto)
    if operator is None:
        return None
    namespace, name, overload = operator
    is_aten = node.op.startswith(f"{ATEN_DOMAIN}::")
    own = {item.name for item in node.proto.attribute} - set(NO_ATTRIBUTES if is_aten else ())
    values = [_Value(index, scope, one) for one in node.inputs]
    if not is_aten and (own or not _stands_by_place(namespace, name, values)):
        return None
    named = _NamedArguments(f"{namespace}::{name}")
    if is_aten and not known(namespace, name) and (others := namespaces_of(name)):  # the exporter omits the namespace
        namespace = others[0]
        named.operator = f"{namespace}::{name}"
        if len(others) > 1:
            named.problem = f"Several namespaces have an operator {name} ({', '.join(others)}), but the node gives none"
            return named
    try:
        schema = _schema(namespace, name, overload, values)
        _sort(named, schema, values)
    except UsageError as error:
        named.problem = str(error).rstrip(".")
    return named


def _stands_by_place(namespace: str, name: str, values: Sequence["_Value"]) -> bool:
    """Whether a foreign node looks like PyTorch's exporter wrote it: it has numbers for those of the schema.

    If the schema is unknown, a string or a Python number (a scalar of int64, float64 or bool) decides.
    """
    schemas = known(namespace, name)
    if schemas:
        has_list = any(value.list_node is not None for value in values)
        return has_list or any(len(values) == len(one.arguments) > len(one.tensors) for one in schemas)
    return any(value.is_python for value in values)


def _schema(namespace: str, name: str, overload: str | None, values: Sequence["_Value"]) -> TorchSchema:
    """The overload that a node calls.  Raises UsageError."""
    given = len(values)
    try:
        return matching_overload(namespace, name, overload, inputs=given, takes=lambda at, item: values[at].suits(item))
    except UsageError:
        # Perhaps a number is computed: then the error names it.
        return matching_overload(
            namespace, name, overload, inputs=given, takes=lambda at, item: values[at].may_suit(item)
        )


def _sort(named: _NamedArguments, schema: TorchSchema, values: Sequence["_Value"]) -> None:
    """Sort the values into inputs and attributes.  Raises UsageError if one cannot be classified.

    Absent inputs at the end stay if there is a list of tensors, whose last ones would otherwise take their place.
    """
    lists = sum(item.is_list for item in schema.tensors)
    if lists > 1:
        raise UsageError(f"{schema.full} takes several lists of tensors, so the inputs of the node are ambiguous.")
    for at, item in enumerate(schema.arguments):
        value = values[at] if at < len(values) else None
        if item.is_tensor:
            if value is not None and item.is_list and value.name:
                node = value.list_node
                if node is None:
                    raise UsageError(
                        f"Argument {item.name!r} of {schema.full} does not come from a SequenceConstruct, so its "
                        "tensors are unknown."
                    )
                named.places += node.inputs
                named.lists.append(node)
            else:
                named.places.append(value.name if value is not None else "")
        elif item.attribute is not None:
            setting = _default(item) if value is None else _setting(item, value, schema)
            if setting is not None:
                named.attributes[item.name] = setting
    while named.places and not named.places[-1] and not lists:
        named.places.pop()


def _default(item: Argument) -> Any:
    if item.base == "ScalarType" and item.default is not None:
        return int(SCALAR_TYPES[item.default])
    return _as_kind(item, item.default)


def _setting(item: Argument, value: "_Value", schema: TorchSchema) -> Any:
    """An attribute's value; None if it is omitted.  Raises UsageError if the graph computes it."""
    if not value.name:
        return None
    array = value.array
    if array is None:
        raise UsageError(
            f"Argument {item.name!r} of {schema.full} is computed by the graph ('{value.name}'), but an attribute must "
            "be a constant."
        )
    if item.base == "ScalarType":
        number = int(array.item())
        if number not in SCALAR_TYPES:
            raise UsageError(
                f"Argument {item.name!r} of {schema.full} is PyTorch's dtype {number}, which ONNX does not have."
            )
        return int(SCALAR_TYPES[number])
    elements = array.reshape(-1).tolist()
    return _as_kind(item, elements if item.is_list else elements[0])


def _as_kind(item: Argument, value: Any) -> Any:
    """A Python value in the type of the attribute."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_as_kind(item, one) for one in value]
    if item.base in ("int", "bool", "ScalarType"):
        return int(value)
    if item.base == "str":
        return value.decode() if isinstance(value, bytes) else str(value)
    return float(value) if item.base == "float" else (int(value) if isinstance(value, bool) else value)


class _Value:
    """One input, and the arguments that it can be."""

    def __init__(self, index: Index, scope: Scope, name: str) -> None:
        self.name = name
        home = scope.defining_scope(name) if name else None
        maker = home.producers.get(name) if home is not None else None
        self.list_node = maker if maker is not None and maker.op == _LISTS else None
        is_constant = bool(name) and self.list_node is None and index.constants.is_constant(scope, name)
        self.array: np.ndarray | None = index.constants.array(scope, name) if is_constant else None

    @property
    def is_python(self) -> bool:
        """Whether it is a constant as torch writes a Python number or string."""
        array = self.array
        if array is None or array.ndim:
            return False
        return array.dtype.kind in "OUSb" or array.dtype.name in ("int64", "float64")

    def suits(self, item: Argument) -> bool:
        """Whether it can be an argument as it is."""
        if not self.name:
            return item.is_optional or item.attribute is None
        if item.is_tensor:
            return item.is_list == (self.list_node is not None) and (self.array is None or self.array.dtype.kind != "O")
        if item.attribute is None:
            return True
        if self.array is None or self.array.dtype.kind not in _KINDS.get(item.base, ""):
            return False
        return self.array.ndim == 1 if item.is_list else self.array.size == 1

    def may_suit(self, item: Argument) -> bool:
        """The same, if computed values were constants, and lists known."""
        is_hopeful = item.is_list or not item.is_tensor
        return self.suits(item) or (self.array is None and is_hopeful and bool(self.name))


def _only_read_here(scope: Scope, lists: Sequence[Node]) -> list[Node]:
    """The nodes whose list only this node reads."""
    return [node for node in lists if len(scope.readers(node.outputs[0])) == 1] if lists else []
