"""Calls of local functions expanded to the nodes of their bodies, with the call's attributes filled in."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from surgeon.errors import RuleError, Unavailable, require
from surgeon.file.model import Model
from surgeon.file.tensors.decoding import decode_tensor
from surgeon.ir.index import Index
from surgeon.ops.builder.graph import Graph
from surgeon.ops.schemas import schema
from surgeon.ops.schemas.node_check import check_node
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traits.trait_lookup import IDENTITY_OPS
from surgeon.ops.traversal import all_nodes, captured_names, imports_of
from surgeon.rules.functions.function_body import first_version
from surgeon.rules.replacing.replacement import OUTER_READS_KEY
from surgeon.runtime.function_inlining import IR_VERSION, FunctionLookup, inline_call
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.opsets.migration import migrate_node

SMALL = 1024  # maximum number of elements of a constant that is converted
STRING = TensorProto.STRING


def why_versions_differ(function: FunctionProto, versions: Mapping[str, int]) -> Unavailable | None:
    """Why the body of a function means something else at these versions of its domains; None if it does not."""
    own = imports_of(function.opset_import)
    rewritten: set[str] | None = None  # computed once an op has another version
    for node in all_nodes(function.node):
        domain = normalize_domain(node.domain)
        before, after = own.get(domain), versions.get(domain, own.get(domain))
        if before is None or after is None or schema(domain, node.op_type, None) is None:
            continue
        first = first_version(domain, node.op_type)
        there, here = schema(domain, node.op_type, before), schema(domain, node.op_type, after)
        if there is None:
            return Unavailable(
                f"its body has opset {before} but uses {node.op_type}, which exists from opset {first}; write the body "
                f"at opset {first} or later"
            )
        if here is None:
            why = f"the model has opset {after}, but the body uses {node.op_type}, which exists from opset {first}"
            return Unavailable(why)
        if there.since_version == here.since_version:
            continue
        if rewritten is None:
            rewritten = _changed(function, own.get("", 0), versions.get("", 0))
        if domain or node.op_type in rewritten:
            changed = max(there.since_version, here.since_version)
            return Unavailable(
                f"its body has opset {before} and the model opset {after}, but {node.op_type} changed at opset "
                f"{changed}; write the body at opset {after}"
            )
    return None


def _changed(function: FunctionProto, before: int, after: int) -> set[str]:
    """The ops of a body of which some node would have to be migrated to another opset of ai.onnx."""
    holder = ModelProto(ir_version=IR_VERSION, graph=GraphProto(name="empty"), functions=[function])
    index = Index(Model.open(holder))
    low, high = sorted((before, after))
    found: set[str] = set()
    for node in (node for scope in index.scopes for node in scope.nodes if schema("", node.op, low) is not None):
        change = migrate_node(node, low, high, shapes_of(index))
        if isinstance(change, Unavailable) or not change.empty or check_node(node.proto, after, lambda _: None, True):
            found.add(node.op)
    return found


def emit_body(
    g: Graph,
    function: FunctionProto,
    inputs: Sequence[Any],
    attributes: Mapping[str, AttributeProto],
    *,
    find: FunctionLookup = lambda _: None,
    outputs: Sequence[bool] = (),
    settle: bool = False,
) -> list[Any]:
    """Add the body of a function to a graph, without copies; a pattern matches constants in every form of storage.

    Args:
        g: the graph of a replacement or a pattern.
        function: the function.
        inputs: tensors in the order of its inputs; None for an absent one.
        attributes: its attributes by name.
        find: returns a function that the body calls, by domain and name.
        outputs: the outputs to compute; all by default.
        settle: write a constant that is cast to the type of a tensor whose dtype is known in that dtype.

    Returns:
        The outputs.

    Examples:
        >>> import onnx, surgeon
        >>> proto = onnx.parser.parse_function(
        ...     '<domain: "acme", opset_import: ["": 18]> Twice (x) => (y) { y = Add(x, x) }'
        ... )
        >>> g = surgeon.Graph(opset=18)
        >>> _ = surgeon.emit_body(g, proto, [g.literal([1.0])], {})
        >>> [node.op for node in g.nodes]
        ['Add']
    """
    call = NodeProto(op_type=function.name, domain=function.domain, overload=function.overload)
    call.input.extend("" if item is None else f"in{place}" for place, item in enumerate(inputs))
    wanted = list(outputs) or [True] * len(function.output)
    call.output.extend(f"out{place}" if is_wanted else "" for place, is_wanted in enumerate(wanted))
    call.attribute.extend(attributes.values())
    tensors: dict[str, Any] = {f"in{place}": item for place, item in enumerate(inputs) if item is not None}
    tensors[""] = None
    numbers: dict[str, np.ndarray] = {}
    for node in inline_call(call, function, find):
        if node.op_type in IDENTITY_OPS and not node.domain:
            tensors[node.output[0]] = tensors[node.input[0]]
            continue
        if _is_number(node):
            numbers[node.output[0]] = _number(node)
        if (
            g.helper_opset() is None
            and node.op_type in ("Constant", "CastLike")
            and {*node.input[:1], *node.output} & numbers.keys()
        ):
            tensors[node.output[0]] = _looked_for(g, node, numbers)
            continue
        if settle and node.op_type == "CastLike" and not node.domain and node.input[0] in numbers:
            dtype = tensors[node.input[1]].dtype
            if dtype is not None:
                value = numbers[node.output[0]] = numbers[node.input[0]].astype(dtype)
                tensors[node.output[0]] = gs.Constant(node.output[0], value)
                continue
        require(not node.overload, f"its body calls {node.domain}::{node.op_type}, which has several overloads")
        free = captured_names(node)
        values: dict[str, Any] = {item.name: _value(item) for item in node.attribute}
        if free:
            values[OUTER_READS_KEY] = tuple(free)
        read = [*node.input, *free]
        made = g.emit(node.domain, node.op_type, [tensors[name] for name in read], values, len(node.output))
        tensors.update(zip(node.output, made, strict=True))
    for tensor in tensors.values():
        if tensor is not None and not isinstance(tensor, gs.Tensor):
            raise RuleError("A function body can be inlined only on tensors.")
    return [tensors[name] for name in call.output if name]


def _looked_for(g: Graph, node: NodeProto, numbers: Mapping[str, np.ndarray]) -> Any:
    """A literal of a pattern, of any dtype."""
    return g.literal(numbers[node.output[0]]) if not node.input else g.maybe_like(g.literal(numbers[node.input[0]]))


def _is_number(node: NodeProto) -> bool:
    """Whether a node is a small Constant of numbers, by value or by tensor."""
    if node.op_type != "Constant" or node.domain or len(node.attribute) != 1 or node.attribute[0].ref_attr_name:
        return False
    item = node.attribute[0]
    return item.name in ("value_float", "value_floats", "value_int", "value_ints") or (
        item.name == "value" and prod(item.t.dims) <= SMALL and not item.t.external_data and item.t.data_type != STRING
    )


def _number(node: NodeProto) -> np.ndarray:
    """The value of such a node, in the dtype of its attribute (ONNX spec, Constant-13)."""
    item = node.attribute[0]
    if item.name == "value":
        return decode_tensor(item.t)
    return np.asarray(helper.get_attribute_value(item), np.float32 if "float" in item.name else np.int64)


def _value(item: AttributeProto) -> Any:
    """The value of an integer attribute, which helpers can read; other attributes unchanged."""
    return item.i if item.type == AttributeProto.INT and not item.ref_attr_name else item
