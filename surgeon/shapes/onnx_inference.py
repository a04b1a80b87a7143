"""The last resort for an op without a rule: onnx's own inference of one node, and the types of its schema."""

from collections.abc import Mapping, Sequence

import onnx
from onnx import AttributeProto, TensorProto, TypeProto, defs, helper

from surgeon.ir.scope import split_op
from surgeon.ops.schemas import element_type
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.op_rules.rule_table import RULES
from surgeon.shapes.tensor_types import INTEGERS, NodeView, PartialType, TensorType, schema_of

REFUSALS = (
    defs.SchemaError,
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    RuntimeError,
    ArithmeticError,
    ValueError,
    TypeError,
    KeyError,
)


def infer(site: NodeView) -> Sequence[PartialType]:
    """The inferred outputs of a node whose op has no rule here; only dtypes if inference fails.

    It is not used for ops with a rule: on invalid inputs that the rule rejects, inference can take forever (Expand).
    """
    inferred = None if site.node.op in RULES or site.is_misread else _by_onnx(site)
    if inferred is None:
        inferred = [PartialType(None, None)] * len(site.node.outputs)
    return [PartialType(draft.dtype or _by_schema(site, place), draft.shape) for place, draft in enumerate(inferred)]


def keeps_output_types(
    site: NodeView, attributes: Mapping[str, AttributeProto | None], values: Mapping[int, TensorProto]
) -> bool:
    """Whether a node would keep the dtypes and shapes of its outputs if some of its attributes or values differed.

    attributes: by name; None for one that is omitted.  values: of inputs, by position.  True for an op that onnx does
    not know.
    """
    node, (domain, name) = _alone(site), split_op(site.node.op)
    version = site.scope.versions.get(domain)
    if node is None or version is None or not defs.has(name, version, domain):
        return True
    other = onnx.NodeProto()
    other.CopyFrom(node)
    del other.attribute[:]
    other.attribute.extend(item for item in node.attribute if item.name not in attributes)
    other.attribute.extend(item for item in attributes.values() if item is not None)
    try:
        types, data = _known(site, {})
        kept = {f"i{place}": value for place, value in values.items()}
        found, changed = (
            onnx.shape_inference.infer_node_outputs(
                defs.get_schema(name, version, domain), one, types, known, opset_imports=_imports(site)
            )
            for one, known in ((node, data), (other, {**data, **kept}))
        )
    except REFUSALS:
        return False
    return found == changed


def _imports(site: NodeView) -> list[onnx.OperatorSetIdProto]:
    return [helper.make_opsetid(where, version) for where, version in site.scope.versions.items()]


def _alone(site: NodeView) -> onnx.NodeProto | None:
    """The node with inputs and outputs by their positions; None if it contains bodies, or refers to attributes of a
    call.
    """
    domain, name = split_op(site.node.op)
    node = onnx.NodeProto(op_type=name, domain=domain)
    node.input.extend([f"i{place}" if given else "" for place, given in enumerate(site.inputs)])
    node.output.extend([f"o{place}" if made else "" for place, made in enumerate(site.node.outputs)])
    for item in site.node.proto.attribute:
        resolved = site.resolved(item.name)
        if resolved is None or resolved.HasField("g") or resolved.graphs:
            return None
        node.attribute.append(resolved)
        node.attribute[-1].name = item.name
    return node


def _by_onnx(site: NodeView) -> Sequence[PartialType] | None:
    domain, name = split_op(site.node.op)
    node = _alone(site) if defs.has(name, domain) else None
    if node is None:
        return None
    names: dict[Size, str] = {}
    try:
        types, data = _known(site, names)
        wanted = defs.get_schema(name, site.scope.versions.get(domain, 1), domain)
        found = onnx.shape_inference.infer_node_outputs(wanted, node, types, data, opset_imports=_imports(site))
    except REFUSALS:
        return None  # onnx may reject a valid model
    sizes = {text: size for size, text in names.items()}
    return [_draft(found.get(f"o{place}"), sizes) for place in range(len(site.node.outputs))]


def _known(site: NodeView, names: dict[Size, str]) -> tuple[dict[str, TypeProto], dict[str, TensorProto]]:
    """The types of all inputs, and the values of those that are plain integers; fills `names`."""
    types, data = {}, {}
    for place in range(len(site.inputs)):
        if site.has(place):
            types[f"i{place}"] = _type(site.facts(place), names)
            numbers, value, dtype = site.numbers(place), site.value(place), site.dtype(place)
            if numbers is not None and value is not None and dtype in INTEGERS:
                data[f"i{place}"] = helper.make_tensor(f"i{place}", int(dtype or 0), value.shape, numbers)
    return types, data


def _type(facts: TensorType, names: dict[Size, str]) -> TypeProto:
    """A tensor type in which each unknown size has a short name."""
    if facts.shape is None:
        return helper.make_tensor_type_proto(facts.dtype or 0, None)
    dims = [size if isinstance(size, int) else names.setdefault(size, f"d{len(names)}") for size in facts.shape]
    return helper.make_tensor_type_proto(facts.dtype or 0, dims)


def _draft(kind: TypeProto | None, sizes: dict[str, Size]) -> PartialType:
    if kind is None or not kind.HasField("tensor_type"):
        return PartialType(None, None)
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return PartialType(tensor.elem_type or None, None)
    dims = [dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param) for dim in tensor.shape.dim]
    if sizes:  # some of onnx's inference functions treat an unknown size as 0
        dims = [None if size == 0 else size for size in dims]
    return PartialType(tensor.elem_type or None, dims)


def _by_schema(site: NodeView, place: int) -> int | None:
    """The dtype of an output: the one type that its schema allows, or that of an input of the same type variable.

    None if each of several tensors may have its own dtype, such as the carried tensors of a Loop.
    """
    known = schema_of(site.scope, site.node.op)
    formal = known.output_at(place) if known is not None else None
    if known is None or formal is None:
        return None
    if formal.type.startswith("tensor("):
        return element_type(formal.type)
    for position in range(len(site.inputs) if formal.homogeneous else 0):
        beside = known.input_at(position)
        dtype = site.dtype(position) if beside is not None and beside.type == formal.type else None
        if dtype:
            return dtype
    return None
