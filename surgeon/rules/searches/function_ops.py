"""Nodes of standard ops that ONNX defines as functions, with the bodies of their schemas."""

from collections.abc import Iterator
from itertools import compress
from typing import Any

import onnx
from onnx import FunctionProto, TypeProto, helper

from surgeon.errors import require
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import RANDOM
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.shapes.index_shapes import shapes_of


def _defined_nodes(index: Index, scope: Scope) -> Iterator[Found]:
    """Nodes of ops of ai.onnx that the standard defines as functions of other ops.

    Binds `tensors` (the inputs that are present), `places` (for each input the number of its tensor, or None) and
    `used` (whether each output has readers); `standard_body` returns the body.
    """
    for node in scope.live_nodes():
        if not node.alive or node.op in RANDOM or not _bodies(node.op, scope.opset):
            continue
        used = index.used(node)
        outputs = tuple(compress(node.outputs, used))
        if outputs:
            given = iter(range(len(node.inputs)))
            bound = {
                "tensors": VariadicBinding([name for name in node.inputs if name]),
                "places": ([next(given) if name else None for name in node.inputs],),
                "used": (used,),
            }
            yield Found((node,), outputs, bound)


def _is_defined(op: str) -> bool:
    """Whether ONNX defines an op as a function at any opset."""
    return op not in RANDOM and bool(_bodies(op, None))


defined_nodes = Search(_defined_nodes, "ONNX defines no op of the model by a function body", replaces=_is_defined)


def standard_body(match: Match) -> FunctionProto:
    """The body by which ONNX defines the op of a match's node, at the newest opset that is not beyond the model's.

    Source: the function bodies of onnx.defs; those that depend on the node are built for its attributes, dtypes and
    shapes.  Raises ConditionFailed if there is none for these.
    """
    node, scope = match.root, match.scope
    schema, versions = _schema(node.op, scope.opset), _bodies(node.op, scope.opset)
    require(bool(schema is not None and versions), f"ONNX has no function body for {node.op} at this opset")
    types = [_type_of(match, name).SerializeToString() for name in node.inputs]
    data = b""
    for version in reversed(versions):
        try:
            if schema.has_context_dependent_function:
                proto = node.proto.SerializeToString()
                data = schema.get_context_dependent_function_with_opset_version(version, proto, types)
            if not data and schema.has_function:
                data = schema.get_function_with_opset_version(version)
        except (ValueError, RuntimeError) as error:  # for example sequences, whose types are not passed
            require(False, f"ONNX cannot build the body of {node.op} here ({str(error).partition(chr(10))[0]})")
        if data:
            break
    require(bool(data), f"ONNX has no function body for {node.op} with these dtypes and shapes")
    return _complete(FunctionProto.FromString(data), node, schema)


def _schema(op: str, opset: int | None) -> Any:
    """The `onnx.defs.OpSchema` of an op of ai.onnx, the newest for opset None; None if there is none."""
    try:
        return onnx.defs.get_schema(op, opset or onnx.defs.onnx_opset_version(), "")
    except onnx.defs.SchemaError:
        return None


def _bodies(op: str, opset: int | None) -> list[int]:
    """The opsets of ai.onnx, up to this one or the newest, for which an op has a body, in order."""
    schema = None if "::" in op else _schema(op, opset)
    if schema is None:
        return []
    versions = [*schema.function_opset_versions, *schema.context_dependent_function_opset_versions]
    return sorted(version for version in set(versions) if opset is None or version <= opset)


def _type_of(match: Match, name: str) -> TypeProto:
    """The type of a tensor, as far as it is known."""
    if not name:
        return TypeProto()
    facts = shapes_of(match.index).facts(match.scope, name)
    shape = None if facts.shape is None else [size if isinstance(size, int) else str(size) for size in facts.shape]
    return helper.make_tensor_type_proto(facts.dtype or 0, shape)


def _complete(function: FunctionProto, node: Node, schema: Any) -> FunctionProto:
    """A body with the defaults of the op's attributes that the node omits."""
    given = {item.name for item in node.proto.attribute}
    named_here = {item.name for item in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if name in function.attribute and name not in given | named_here and attribute.default_value.name:
            function.attribute_proto.append(attribute.default_value)
    kept = [name for name in function.attribute if name not in {item.name for item in function.attribute_proto}]
    del function.attribute[:]
    function.attribute.extend(kept)
    return function
