"""Inline local functions (one call or a whole model), and attach function bodies to nodes without a kernel.

onnx's inliner does the work, once the model avoids quirks.INLINED_DEFAULTS and quirks.INLINED_OUTPUTS.
"""

from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import FunctionProto, ModelProto, NodeProto

from surgeon.errors import GraphError
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traversal import (
    FunctionKey,
    all_nodes,
    called_function_key,
    find_cycle,
    function_key,
    imports_of,
    nodes_of,
    subgraphs,
)

PRIVATE_DOMAIN = "surgeon.reference"
"""Domain of attached bodies.  Under the operator's own name, a runtime would use its schema instead of the body."""
IR_VERSION = 10
"""IR version of models for proofs: the newest that every supported ONNX Runtime reads.

It has local functions, bfloat16 and float8.  The meaning of a node depends only on opsets.
"""
_FIRST_IR_WITH_FUNCTIONS = 8
_SPELT_OUT = "ai.onnx"  # quirks.EVALUATOR_DOMAIN


def node_label(node: NodeProto) -> str:
    """The name of a node, or of its first output if it has none."""
    return node.name or next(iter(node.output), "")


def attach_function_bodies(model: ModelProto, bodies: Mapping[str, FunctionProto]) -> ModelProto:
    """Return a copy in which the nodes named in `bodies` call them as functions of a private domain.

    Names are those of `node_label`.  Inputs and outputs of a body match those of the node by position.  Attributes that
    the body does not declare are dropped from the node.  Raises GraphError for a name that no node has.
    """
    made = ModelProto()
    made.CopyFrom(model)
    names: dict[bytes, str] = {}
    waiting = dict.fromkeys(bodies)
    for node in list(nodes_of(made)):
        name = node_label(node)
        body = bodies.get(name)
        if body is None:
            continue
        waiting.pop(name, None)
        key = body.SerializeToString(deterministic=True)
        if key not in names:
            names[key] = f"{node.op_type}_{len(names)}"
            _add_function(made, body, names[key])
        node.domain, node.op_type = PRIVATE_DOMAIN, names[key]
        node.ClearField("overload")
        declared = {*body.attribute, *(attribute.name for attribute in body.attribute_proto)}
        kept = [attribute for attribute in node.attribute if attribute.name in declared]
        del node.attribute[:]
        node.attribute.extend(kept)
    if waiting:
        raise GraphError(f"No node named '{next(iter(waiting))}' to attach a function body to.")
    made.ir_version = max(made.ir_version, _FIRST_IR_WITH_FUNCTIONS)
    return made


def _add_function(model: ModelProto, body: FunctionProto, name: str) -> None:
    """Add a body under a private name, and import its domains in the model and its functions."""
    function = model.functions.add()
    function.CopyFrom(body)
    function.domain, function.name = PRIVATE_DOMAIN, name
    function.ClearField("overload")
    private = onnx.helper.make_opsetid(PRIVATE_DOMAIN, 1)
    callers = [model, *(other for other in model.functions if other.domain != PRIVATE_DOMAIN)]
    for caller in callers:
        known = imports_of(caller.opset_import)
        caller.opset_import.extend(one for one in (private, *body.opset_import) if one.domain not in known)


def inline_functions(model: ModelProto) -> ModelProto:
    """Return the model with every call of a local function replaced by its nodes, and ONNX's domain spelt "".

    A model without calls is returned unchanged, not copied.  Functions of another opset are converted to the model's.
    Raises GraphError for a call that does not match its function.
    """
    spelt = any(one.domain == _SPELT_OUT for one in model.opset_import)
    if not model.functions and not spelt:
        return model
    made = ModelProto()
    made.CopyFrom(model)
    if spelt:
        _shorten(made)
    functions = {function_key(one): one for one in made.functions}
    for node in list(nodes_of(made)):
        function = functions.get(called_function_key(node))
        if function is not None:
            _complete(node, function)
    for function in made.functions:  # the inliner knows only the plain list
        function.attribute.extend(attribute.name for attribute in function.attribute_proto)
        del function.attribute_proto[:]
        _tell_outputs_apart(function)
    from onnx import inliner

    try:
        made = inliner.inline_local_functions(made)
        return inliner.inline_local_functions(made, convert_version=True) if made.functions else made
    except (RuntimeError, ValueError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise GraphError(f"A local function cannot be inlined ({line}). Make its calls match it.") from error


def _shorten(model: ModelProto) -> None:
    for holder in (model, *model.functions):
        for one in holder.opset_import:
            one.domain = normalize_domain(one.domain)
    for node in nodes_of(model):
        node.domain = normalize_domain(node.domain)


def _complete(call: NodeProto, function: FunctionProto) -> None:
    """Add the attributes that a call leaves at their defaults."""
    given = {attribute.name for attribute in call.attribute}
    call.attribute.extend(one for one in function.attribute_proto if one.name not in given)
    if len(call.input) > len(function.input) or len(call.output) > len(function.output):
        raise GraphError(f"A call of '{function.name}' has more inputs or outputs than the function. Remove the rest.")


def _tell_outputs_apart(function: FunctionProto) -> None:
    """Copy each output that is also an input, or that is listed twice."""
    known = set(function.input)
    for place, name in enumerate(function.output):
        if name in known:
            function.output[place] = f"{name}:{place}"
            function.node.add(op_type="Identity", input=[name], output=[f"{name}:{place}"])
        known.add(name)


FunctionLookup = Callable[[NodeProto], FunctionProto | None]


def inline_call(call: NodeProto, function: FunctionProto, find: FunctionLookup) -> Sequence[NodeProto]:
    """The body of a function for one call, in terms of the call's inputs and outputs; nodes have no names.

    find: returns the function that a node of a body calls if it must be inlined too, else None.  All functions are
    assumed to work at one common version of each domain.  Raises GraphError as `inline_functions` does, and for a
    function that calls itself.
    """
    functions = {function_key(function): function}
    waiting, calls = [function], dict[FunctionKey, set[FunctionKey]]()
    while waiting:
        body = waiting.pop()
        found = {function_key(one): one for node in all_nodes(body.node) if (one := find(node)) is not None}
        calls[function_key(body)] = set(found)
        waiting += (one for key, one in found.items() if key not in functions)
        functions.update(found)
    if around := find_cycle(calls):
        domain, name, _ = around[0]
        raise GraphError(f"Local function {domain}::{name} calls itself, which ONNX does not allow.")
    versions = {one.domain: one.version for body in functions.values() for one in body.opset_import}
    domains = {node.domain for body in functions.values() for node in all_nodes(body.node)}
    imports = [onnx.helper.make_opsetid(domain, versions.get(domain, 1)) for domain in {call.domain, *domains}]
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            [call],
            "call",
            [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(call.input) if name],
            [onnx.ValueInfoProto(name=name) for name in call.output if name],
        ),
        functions=functions.values(),
        opset_imports=imports,
        ir_version=IR_VERSION,
    )
    for body in made.functions:
        del body.opset_import[:]
        body.opset_import.extend(imports)
    nodes = list(inline_functions(made).graph.node)
    for node in all_nodes(nodes):
        node.ClearField("name")
        while node.input and not node.input[-1]:
            node.input.pop()
        for graph in subgraphs(node):
            del graph.value_info[:]
    return nodes
