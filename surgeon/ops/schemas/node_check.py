"""Checks a node against its schema: as `onnx.checker` does, and further (`com.microsoft::Gelluu`)."""

from collections.abc import Callable, Iterator, Sequence

import onnx

from surgeon.ops.schemas.argument_binding import missing
from surgeon.ops.schemas.attribute_values import type_string, words
from surgeon.ops.schemas.op_schema import (
    FormalParameter,
    Schema,
    display_domain,
    is_meaningless,
    knows_domain,
    normalize_domain,
    schema,
)
from surgeon.target_registry import BaseTarget, owner
from surgeon.text import close_matches, format_count


def target_of_op(domain: str, op: str) -> BaseTarget | None:
    """The target that defines an op, by its domain, or by a name that ONNX does not have; None without one."""
    domain = normalize_domain(domain)
    is_known = knows_domain(domain) if domain else onnx.defs.has(op)
    return None if is_known else owner(domain, op)


def check_node(
    node: onnx.NodeProto, opset: int, dtype_of: Callable[[str], int | None], in_function: bool = False
) -> list[str]:
    """Every violation of a node against its schema at `opset` (that of the node's domain), one sentence each.

    `dtype_of` gives the `TensorProto.DataType` of a tensor by name, and None if that is unknown or the value is a
    sequence, map or optional.  In a function attributes may refer to the function's own.  Nodes of domains whose
    operators are unknown pass.  A target checks nodes of the ops that it defines.
    """
    own = target_of_op(node.domain, node.op_type)
    if own is not None and own.ops is not None:
        return own.ops.check(node, opset, dtype_of, in_function)
    version = schema(node.domain, node.op_type, opset)
    if version is None:
        return [missing(node.domain, node.op_type, opset)] if knows_domain(node.domain) else []
    return violations(version, node, dtype_of, in_function)


def dtype_violations(node: onnx.NodeProto, opset: int, dtype_of: Callable[[str], int | None]) -> Iterator[str]:
    """The same for its dtypes only; nothing for an unknown operator."""
    version = schema(node.domain, node.op_type, opset)
    return iter(()) if version is None else _types(version, node, dtype_of)


def violations(
    version: Schema, node: onnx.NodeProto, dtype_of: Callable[[str], int | None], in_function: bool
) -> list[str]:
    """The same for a given schema."""
    found = []
    if version.deprecated:
        where = display_domain(version.domain)
        found.append(f"{version.name} is deprecated in {where} since opset {version.since_version}.")
    found += _arity(
        version, "input", node.input, least=version.min_inputs, most=version.max_inputs, formal_at=version.input_at
    )
    found += _arity(
        version, "output", node.output, least=version.min_outputs, most=version.max_outputs, formal_at=version.output_at
    )
    found += _attributes(version, node, in_function)
    found += _types(version, node, dtype_of)
    return found


_mismatches: dict[tuple[object, ...], str | None] = {}  # by op, opset, given tensors and attributes


def opset_mismatch(node: onnx.NodeProto, opset: int) -> str | None:
    """Why a node of ai.onnx does not fit `opset`, which its model declares; None if it does.

    Its op does not have that number of tensors, or one of the attributes, at `opset`.  The rules of that opset would
    ignore them: the axes of a ReduceSum are an attribute up to opset 12, and an input from 13 on.  An attribute that
    the op never had does not matter.
    """
    if node.domain not in ("", "ai.onnx"):
        return None
    if any(is_meaningless("", node.op_type, item.name) for item in node.attribute):
        known = [item for item in node.attribute if not is_meaningless("", node.op_type, item.name)]
        node = onnx.NodeProto(op_type=node.op_type, input=node.input, output=node.output, attribute=known)
    attributes = tuple((item.name, item.type) for item in node.attribute)
    key = node.op_type, opset, tuple(map(bool, node.input)), len(node.output), attributes
    if key not in _mismatches:
        version = schema("", node.op_type, opset)
        is_known = version is not None and not version.deprecated
        found = violations(version, node, lambda _: None, in_function=True) if version is not None and is_known else []
        _mismatches[key] = found[0] if found else None
    return _mismatches[key]


def infer_output_dtypes(node: onnx.NodeProto, opset: int, known: dict[str, int | None]) -> None:
    """Add to `known` (`TensorProto.DataType` by tensor) the output dtypes that the schema or a Cast determines."""
    if node.op_type == "Cast" and not node.domain:
        to = next((item.i for item in node.attribute if item.name == "to"), None)
        known[node.output[0]] = known.get(node.output[0]) or to
        return
    own = target_of_op(node.domain, node.op_type)
    if own is not None and own.ops is not None:
        own.ops.learn(node, opset, known)
        return
    version = schema(node.domain, node.op_type, opset)
    if version is not None:
        learn_by(version, node, known)


def learn_by(version: Schema, node: onnx.NodeProto, known: dict[str, int | None]) -> None:
    """Add to `known` the output dtypes that a schema determines."""
    bound: dict[str, int] = {}
    for names, formal_at in ((node.input, version.input_at), (node.output, version.output_at)):
        for index, name in enumerate(names):
            formal, dtype = formal_at(index), known.get(name)
            if formal is not None and formal.homogeneous and dtype:
                bound.setdefault(formal.type, dtype)
    for index, name in enumerate(node.output):
        formal = version.output_at(index)
        if formal is not None:
            known[name] = known.get(name) or bound.get(formal.type)


def _arity(
    version: Schema,
    kind: str,
    names: Sequence[str],
    least: int,
    most: int,
    formal_at: Callable[[int], FormalParameter | None],
) -> Iterator[str]:
    given = len(names)
    if not least <= given <= most:
        bound = "" if least == most else "at least " if given < least else "at most "
        wanted = format_count(least if given < least else most, kind)
        yield f"{version.name} has {bound}{wanted}, but this node has {given}."
    if kind == "output":  # the checker allows unnamed outputs
        return
    for index, name in enumerate(names):
        formal = formal_at(index)
        if not name and formal is not None and not formal.optional and not formal.variadic:
            yield f"The input '{formal.name}' of {version.name} is required, but this node does not have it."


def _attributes(version: Schema, node: onnx.NodeProto, in_function: bool) -> Iterator[str]:
    given = set()
    for attribute in node.attribute:
        name = attribute.name
        if name in given:
            yield f"This node has the attribute '{name}' of {version.name} twice."
        given.add(name)
        spec = version.attributes.get(name)
        if spec is None:
            near = close_matches(name, version.attributes)
            hint = f"the nearest are {', '.join(near)}" if near else "remove it"
            yield f"{version.name} has no attribute '{name}' at version {version.since_version}; {hint}."
        elif attribute.type and attribute.type != spec.type:
            yield f"The attribute '{name}' of {version.name} must be {words(spec.type)}, not {words(attribute.type)}."
        if attribute.ref_attr_name and not in_function:
            yield f"The attribute '{name}' of {version.name} refers to '{attribute.ref_attr_name}' outside a function."
    for name, spec in version.attributes.items():
        if spec.required and name not in given:
            yield f"{version.name} needs the attribute '{name}'."


def _types(version: Schema, node: onnx.NodeProto, dtype_of: Callable[[str], int | None]) -> Iterator[str]:
    bound: dict[str, tuple[str, str]] = {}
    for kind, names, formal_at in (
        ("input", node.input, version.input_at),
        ("output", node.output, version.output_at),
    ):
        for index, name in enumerate(names):
            formal = formal_at(index)
            dtype = dtype_of(name) if name and formal is not None else None
            if formal is None or not dtype:
                continue
            shown = type_string(dtype)
            if shown not in version.allowed(formal):
                choices = ", ".join(sorted(version.allowed(formal)))
                yield f"The {kind} '{formal.name}' of {version.name} is {shown} ('{name}'), but must be {choices}."
            elif formal.type in version.types and formal.homogeneous:
                first, first_name = bound.setdefault(formal.type, (shown, name))
                if first != shown:
                    yield (
                        f"'{first_name}' and '{name}' of {version.name} must have the same dtype, "
                        f"but are {first} and {shown}."
                    )
