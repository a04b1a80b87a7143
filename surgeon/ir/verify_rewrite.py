"""Structural check of a rewritten model: complaints that the original model does not have too.

`verifier` finds violations that need a walk over all scopes; onnx.checker checks the changed parts.

onnx.checker stops at the first error and its cost grows with the graph, so it gets one piece at a time: the model's
frame, each new initializer, each new node, each changed function.  Payloads that were cut out, or that are in external
files, are emptied first.  Some operators of the default domain exist only in ONNX Runtime, such as
SimplifiedLayerNormalization, or LayerNormalization below opset 17.  They are checked against its schemas, because
onnx.checker refuses them.
"""

from collections.abc import Iterable, Sequence

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, checker

from surgeon.errors import ModelFileError
from surgeon.file.tensors.decoding import decode_tensor
from surgeon.ir.verifier import Violation, run_audit, verify
from surgeon.ops.schemas import check_node, only_ort_knows
from surgeon.ops.schemas.node_check import target_of_op
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traversal import GRAPHS, all_nodes, function_key, imports_of, subgraphs

_TENSORS = (AttributeProto.TENSOR, AttributeProto.TENSORS)
_SPARSE = (AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS)
_UNCHECKED = "surgeon.unchecked"  # onnx.checker accepts everything in an unknown domain
_WITH_PAYLOADS = frozenset((*GRAPHS, *_TENSORS, *_SPARSE))


def _check_changes(before: ModelProto, after: ModelProto, apart: Sequence[NodeProto]) -> list[str]:
    """Run onnx.checker on what `after` has and `before` lacks.  apart: nodes of the main graph to check."""
    complaints = []
    shell = _shell_complaint(after)
    if shell and shell != _shell_complaint(before):
        complaints.append(shell)
    context = _context(after.ir_version, imports_of(after.opset_import))
    for tensor in _new_tensors(before, after):
        complaints.extend(_tensor_complaint(tensor, context))
    complaints.extend(_check_nodes(before, apart, context))
    complaints.extend(_check_functions(before, after))
    return complaints


def _new_tensors(before: ModelProto, after: ModelProto) -> Iterable[TensorProto]:
    """The initializers of `after` that `before` lacks, compared byte by byte."""
    by_name = {tensor.name: tensor for tensor in before.graph.initializer}
    others = [tensor for tensor in after.graph.initializer if by_name.get(tensor.name) != tensor]
    old = {tensor.SerializeToString() for tensor in before.graph.initializer} if others else set[bytes]()
    return [tensor for tensor in others if tensor.SerializeToString() not in old]


def _context(ir_version: int, imports: dict[str, int]) -> checker.C.CheckerContext:
    context = checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = imports
    return context


def _shell_complaint(model: ModelProto) -> str | None:
    """Return onnx.checker's complaint about a model without nodes, initializers and functions, or None."""
    shell = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    shell.metadata_props.extend(model.metadata_props)
    shell.graph.name = model.graph.name
    shell.graph.input.extend(model.graph.input)
    shell.graph.output.extend(model.graph.output)
    made = {value.name for value in model.graph.output} - {value.name for value in model.graph.input}
    shell.graph.node.add(op_type="Make", domain=_UNCHECKED, output=sorted(made))
    shell.opset_import.add(domain=_UNCHECKED, version=1)
    try:
        checker.check_model(shell)
    except checker.ValidationError as error:
        return f"The model is not valid ONNX: {_first_line(error)}"
    return None


def _tensor_complaint(tensor: TensorProto, context: checker.C.CheckerContext) -> list[str]:
    """Return what is wrong with a new initializer, if anything; external payloads are not checked."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return []
    try:
        checker.check_tensor(tensor, context)
    except checker.ValidationError as error:
        return [f"Initializer '{tensor.name}' is not valid ONNX: {_first_line(error)}"]
    try:
        decode_tensor(
            tensor
        )  # onnx before 1.23 checks neither the size of a payload nor the number of its elements
    except ModelFileError as error:
        return [f"Initializer '{tensor.name}' is not valid ONNX: {error}"]
    return []


def _check_nodes(
    before: ModelProto, found: Sequence[NodeProto], context: checker.C.CheckerContext
) -> list[str]:
    """Check those of the nodes, bodies included, that `before` lacks, compared byte by byte."""
    has_attributes = any(node.attribute for node in found)
    old = {node.SerializeToString() for node in before.graph.node if node.attribute} if has_attributes else set[bytes]()
    changed = [node for node in found if node.SerializeToString() not in old]
    if inside := _nested(changed):
        old.update(node.SerializeToString() for node in _nested(before.graph.node))
        changed.extend(node for node in inside if node.SerializeToString() not in old)
    complaints = []
    for node in changed:
        text = _node_complaint(node, context)
        if text is not None and not _had_same(before, node, text):
            what = f"{node.domain or 'ai.onnx'}::{node.op_type} '{node.name or ', '.join(node.output)}'"
            complaints.append(f"New node {what} is not valid ONNX: {text}")
    return complaints


def _nested(nodes: Iterable[NodeProto]) -> list[NodeProto]:
    """Return the nodes inside the bodies of these nodes, at every depth."""
    return [inner for node in nodes for graph in subgraphs(node) for inner in all_nodes(graph.node)]


def _node_complaint(node: NodeProto, context: checker.C.CheckerContext) -> str | None:
    """Return onnx.checker's complaint about one node, or None; nodes of its bodies are checked separately."""
    if normalize_domain(node.domain) not in context.opset_imports:
        return None  # reported already, for the domain
    if target_of_op(node.domain, node.op_type) is not None:
        return None  # of another runtime, whose own check the rule or the edit has run
    opset = context.opset_imports[normalize_domain(node.domain)]
    if only_ort_knows(node.domain, node.op_type, opset):
        return next(iter(check_node(node, opset, lambda _: None)), None)
    if node.domain == "ai.onnx" or any(attribute.type in _WITH_PAYLOADS for attribute in node.attribute):
        node = _without_payloads(node)
    try:
        checker.check_node(node, context)
    except checker.ValidationError as error:
        return _first_line(error)
    return None


def _without_payloads(node: NodeProto) -> NodeProto:
    """Return a copy of a node with empty bodies, without external payloads, in the default domain."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.domain = normalize_domain(copy.domain)
    for graph in subgraphs(copy):
        graph.Clear()
        graph.name = "body"
    for attribute in copy.attribute:
        for tensor in (attribute.t, *attribute.tensors) if attribute.type in _TENSORS else ():
            if tensor.data_location == TensorProto.EXTERNAL:
                _empty(tensor)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors) if attribute.type in _SPARSE else ():
            for tensor in (sparse.values, sparse.indices):
                if tensor.data_location == TensorProto.EXTERNAL:
                    _empty(tensor)
    return copy


def _empty(tensor: TensorProto) -> None:
    """Make a tensor one without elements, which needs no payload."""
    name, data_type = tensor.name, tensor.data_type
    tensor.Clear()
    tensor.name, tensor.data_type, tensor.raw_data = name, data_type, b""
    tensor.dims.append(0)


def _had_same(before: ModelProto, node: NodeProto, text: str) -> bool:
    """Whether `before` has a node of the same operator with the same complaint."""
    context = _context(before.ir_version, imports_of(before.opset_import))
    for nodes in (before.graph.node, _nested(before.graph.node)):
        for other in nodes:
            same_op = other.op_type == node.op_type and normalize_domain(other.domain) == normalize_domain(node.domain)
            if same_op and _node_complaint(other, context) == text:
                return True
    return False


def _check_functions(before: ModelProto, after: ModelProto) -> list[str]:
    """Check the local functions of `after` that `before` lacks, compared byte by byte."""
    old = {function_key(function): function for function in before.functions}
    complaints = []
    for function in after.functions:
        known = old.get(function_key(function))
        if known == function:
            continue
        text = _function_complaint(function, after.ir_version)
        if text is not None and (known is None or text != _function_complaint(known, before.ir_version)):
            complaints.append(f"Function '{function.name}' is not valid ONNX: {text}")
    return complaints


def _function_complaint(function: FunctionProto, ir_version: int) -> str | None:
    """Return onnx.checker's complaint about a local function, or None."""
    light = FunctionProto()
    light.CopyFrom(function)
    imports = imports_of(function.opset_import)
    for node in light.node:
        is_of_target = target_of_op(node.domain, node.op_type) is not None
        if is_of_target or only_ort_knows(node.domain, node.op_type, imports.get("", 1)):
            found = () if is_of_target else check_node(node, imports[""], lambda _: None, True)
            complaint = next(iter(found), None)
            if complaint is not None:
                return complaint
            node.domain = _UNCHECKED
            if _UNCHECKED not in imports_of(light.opset_import):
                light.opset_import.add(domain=_UNCHECKED, version=1)
        node.CopyFrom(_without_payloads(node))
    try:
        checker.check_function(light, _context(ir_version, {**imports, _UNCHECKED: 1}))
    except checker.ValidationError as error:
        return _first_line(error)
    return None


def _first_line(error: Exception) -> str:
    """Return the first line of a message with exactly one full stop."""
    return str(error).strip().splitlines()[0].rstrip(".") + "."


def new_violations(before: ModelProto, after: ModelProto) -> list[str]:
    """Return what is wrong with `after` that was not already wrong with `before`, one sentence each; empty if nothing.

    Both may be skeletons: large payloads are not checked.  Violations that `before` has too (unsorted nodes, operators
    that only ONNX Runtime has in the default domain, duplicate names) are accepted.
    """
    audit = run_audit(after)
    found = audit.faults
    if found:
        known = set(map(_key, verify(before)))
        found = [fault for fault in found if _key(fault) not in known]
    return list(dict.fromkeys([*map(_sentence, found), *_check_changes(before, after, audit.apart)]))


def _key(fault: Violation) -> tuple[str, str, str]:
    """A key by which a violation is found again in the other model."""
    kind, place = fault.kind, fault.place
    if kind in ("order", "circle"):
        return kind, place.words, ""
    if kind.endswith("twice"):
        return "twice", place.words, fault.name
    return kind.removeprefix("output "), place.root, fault.name


def _sentence(fault: Violation) -> str:
    name, words, root = fault.name, fault.place.words, fault.place.root
    node = fault.node.name or fault.node.op_type if fault.node is not None else ""
    return {
        "input twice": f"Tensor '{name}' is defined twice in {words} (as input).",
        "initializer twice": f"Tensor '{name}' is defined twice in {words} (as initializer).",
        "made twice": f"Tensor '{name}' is defined twice in {words} (by two nodes, or by a node and as input).",
        "not made": f"Tensor '{name}' is used in {root}, but no node produces it.",
        "output not made": f"Tensor '{name}' is used in {root}, but no node produces it.",
        "domain": f"Node '{node}' in {words} uses domain '{name}', which {root} does not import.",
        "order": f"Tensor '{name}' is used in {words} before its producer: nodes are out of order.",
        "circle": f"Tensor '{_first(fault)}' in {words} is computed from itself: the graph has a cycle.",
    }[fault.kind]


def _first(fault: Violation) -> str:
    """The tensor of a cycle."""
    return str(fault.around[0].output[0]) if fault.around else ""
