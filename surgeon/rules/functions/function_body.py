"""Builds the body of a local function with the helpers of replacements, as a FunctionProto.

The function's inputs have no dtype, since each call may have another: a number combined with a tensor is cast to its
type at run time (CastLike, from opset 15 on), and so is an attribute that is used as a number.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_graphsurgeon as gs
from onnx import AttributeProto, FunctionProto, NodeProto, helper

from surgeon.errors import ConditionFailed, OpsetError, RuleError
from surgeon.ops.builder.graph import Graph
from surgeon.ops.builder.tensor_operators import Operators, building
from surgeon.ops.schemas import history, knows_domain, schema
from surgeon.ops.schemas.node_check import check_node
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traversal import all_nodes, imports_of
from surgeon.printed_commands import upgrade_to
from surgeon.rules.functions.function_signature import Signature
from surgeon.rules.replacing.replacement import AttributeReference, TensorRef
from surgeon.rules.replacing.replacement_builder import to_replacement

CAST_LIKE = 15  # the opset of ai.onnx that introduced it
_AS_CONSTANT: dict[int, str] = {
    AttributeProto.FLOAT: "value_float",
    AttributeProto.INT: "value_int",
    AttributeProto.FLOATS: "value_floats",
    AttributeProto.INTS: "value_ints",
    AttributeProto.TENSOR: "value",
}


@dataclass(frozen=True, slots=True)
class FunctionContext:
    """The model that a function is built for."""

    versions: Mapping[str, int]
    """Opset versions by domain; "" is ai.onnx."""
    has_defaults: bool = True
    """Whether the IR version allows default values of attributes."""

    @property
    def opset(self) -> int:
        """The version of ai.onnx."""
        return self.versions.get("", Graph.DEFAULT_OPSET)


class FunctionInput(Operators, gs.Variable):
    """An input of the function, inside its body."""

    def __init__(self, name: str) -> None:
        self.key = (name, 0)
        super().__init__(name)


class BodyGraph(Graph):
    """The graph that the body of a function is built on."""

    def emit(self, domain: str, op: str, inputs: Sequence[Any], attributes: dict[str, Any], outputs: int) -> list[Any]:
        """Add one node; an attribute of the function among the inputs becomes a Constant that refers to it."""
        known = schema(domain, op, self.version(domain))
        kinds = [
            None if known is None else known.inputs[min(place, len(known.inputs) - 1)].type
            for place in range(len(inputs))
        ]
        given = [
            self._number(value, _siblings(inputs, kinds, place)) if isinstance(value, AttributeReference) else value
            for place, value in enumerate(inputs)
        ]
        return super().emit(domain, op, given, attributes=attributes, outputs=outputs)

    def _number(self, attribute: AttributeReference, siblings: Sequence[Any]) -> Any:
        named = _AS_CONSTANT.get(attribute.kind)
        if named is None:
            raise RuleError(f"Attribute {attribute.name!r} of a local function is not numeric, so it is not an input.")
        made = self.call("", "Constant", (), {named: attribute})
        return self.call("", "CastLike", (made, siblings[0]), {}) if siblings else made


def _siblings(inputs: Sequence[Any], kinds: Sequence[str | None], place: int) -> list[Any]:
    """The other inputs that must have the same type as an input."""
    return [
        other
        for at, other in enumerate(inputs)
        if at != place
        and isinstance(other, gs.Tensor)
        and not isinstance(other, gs.Constant)
        and kinds[at] == kinds[place]
    ]


def build_function(
    signature: Signature, function: Callable[..., Any], home: FunctionContext
) -> tuple[FunctionProto, Graph]:
    """The function at a model's opset, and the graph that its body was built on.

    Raises RuleError for an invalid body, OpsetError if it needs a newer opset than the model's.
    """
    graph = BodyGraph(
        opset=home.opset, versions=dict(home.versions), home=(function.__module__ or "").partition(".")[0]
    )
    inputs = [FunctionInput(name) for name in signature.inputs]
    attributes = {name: AttributeReference(name, kind) for name, kind in signature.kinds.items()}
    try:
        with building(graph):
            returned = function(graph, *inputs, **attributes)
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if not results or not all(isinstance(item, gs.Tensor) for item in results):
            raise RuleError(f"Local function {signature.op} must return one or more tensors.")
        fragment = to_replacement(graph, results)
    except ConditionFailed as error:
        raise RuleError(
            f"Local function {signature.op} calls require ({error}). Call it in the rule instead."
        ) from error
    except OpsetError as error:
        raise _too_new(signature, str(error).rstrip("."), error.needs) from error
    if home.opset < CAST_LIKE and any(item.like is not None for item in fragment.constants):
        what = f"a number in it needs CastLike, which exists from opset {CAST_LIKE}"
        raise _too_new(signature, what, CAST_LIKE)
    nodes, outputs = fragment.as_body({TensorRef("capture", (name, 0)): name for name in signature.inputs})
    made = FunctionProto(domain=signature.domain, name=signature.name, input=signature.inputs, output=outputs)
    made.node.extend(nodes)
    _declare(made, signature, home)
    made.opset_import.extend(needed_imports(nodes, home.versions))
    require_valid(made)
    return made, graph


def _too_new(signature: Signature, what: str, needs: int | None) -> OpsetError:
    """The error for a body that needs a newer opset than the model's."""
    change = f" Raise the opset of the model: {upgrade_to(needs)}" if needs else ""
    return OpsetError(f"The body of local function {signature.op} cannot use the model's opset: {what}.{change}", needs)


def _declare(made: FunctionProto, signature: Signature, home: FunctionContext) -> None:
    """Declare the attributes, with defaults if the IR version allows them."""
    for name, kind in signature.kinds.items():
        if home.has_defaults and name in signature.defaults:
            made.attribute_proto.append(helper.make_attribute(name, signature.defaults[name], attr_type=kind))
        else:
            made.attribute.append(name)


def needed_imports(nodes: Iterable[NodeProto], versions: Mapping[str, int]) -> Iterator[onnx.OperatorSetIdProto]:
    """The domains of nodes at the versions of a model, or at the newest version needed if it lacks the domain."""
    every = list(all_nodes(nodes))
    for domain in sorted({"", *(node.domain for node in every)}):
        version = versions.get(domain)
        if version is None:
            found = [schema(domain, node.op_type, None) for node in every if node.domain == domain]
            version = max((item.since_version for item in found if item is not None), default=1)
        yield helper.make_opsetid(domain, version)


def require_valid(function: FunctionProto) -> None:
    """Raise OpsetError for an op that the function's opset does not have, RuleError for another invalid node."""
    versions = imports_of(function.opset_import)
    name = f"{function.domain}::{function.name}"
    for node in all_nodes(function.node):
        domain = normalize_domain(node.domain)
        version = versions.get(domain)
        if version is None:
            raise RuleError(f"Local function {name} has a {node.op_type}, but does not import domain {domain!r}.")
        newest = schema(domain, node.op_type, None)
        if newest is not None and schema(domain, node.op_type, version) is None:
            raise OpsetError(too_old(name, domain, node.op_type, version), first_version(domain, node.op_type))
        complaints = check_node(node, version, lambda _: None, in_function=True) if knows_domain(domain) else []
        if complaints:
            raise RuleError(f"Local function {name} has an invalid node: {complaints[0]}")


def too_old(name: str, domain: str, op: str, version: int) -> str:
    """The message for a body whose opset is too old for an op."""
    first = first_version(domain, op)
    return (
        f"{op} exists from opset {first}, but the body of local function {name} has opset {version}. Write the body "
        f"at opset {first} or later."
    )


def first_version(domain: str, op: str) -> int | None:
    """The version that introduced an op; None if unknown."""
    versions = history(domain, op)
    return versions[0].since_version if versions else None
