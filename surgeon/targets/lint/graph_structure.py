"""A graph against ONNX's rules: names computed twice or never, cycles, inputs and outputs without a type.

A duplicate name is reported and replaced, so that the graph can be indexed.
"""

from collections.abc import Callable, Sequence
from itertools import count

import onnx

from surgeon.errors import GraphError
from surgeon.file.model import Model
from surgeon.ir.verifier import GraphLocation, Violation, verify
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traversal import node_label, nodes_of, require_finite_calls
from surgeon.printed_commands import command
from surgeon.shapes.tensor_types import TensorType
from surgeon.targets.lint.dtype_conflicts import op_text
from surgeon.targets.lint.finding import DiagnosticCollector
from surgeon.text import join_first

TENSORS = ("tensor_type", "sparse_tensor_type")


def check_structure(model: Model, found: DiagnosticCollector) -> None:
    """Report what breaks ONNX's rules in the graph, its bodies and the functions."""
    if not model.is_sorted:  # ONNX Runtime and TensorRT sort them
        helps = [f"sort them: {command('edit', 'IN', 'OUT', '--sort-nodes')}"]
        reason = "its nodes are not in topological order"
        found.add("model", "", f"{reason}, so onnx.checker rejects the model", helps=helps, stops=False)
    faults = verify(model.skeleton)
    twice = {fault.name for fault in faults if fault.kind == "made twice"}
    names = {name for node in nodes_of(model.skeleton) for name in node.output} if twice else set[str]()
    for fault in faults:
        where = _in(fault.place)
        if fault.kind in ("input twice", "initializer twice"):
            what = fault.kind.partition(" ")[0]
            found.add("model", "", f"the {what} {fault.name!r} exists twice{where}", helps=["rename one of them"])
        elif fault.kind == "made twice" and fault.node is not None:
            _tell_twice(fault, fault.node, where, found)
            _rename(fault.name, fault.node, names)
        elif fault.kind == "not made" and fault.node is not None:
            reason = f"{fault.name!r} is read{where}, but no node produces it"
            help_ = "add it as an input or an initializer, or correct the name"
            together = f"nodes{where} read tensors that no node produces"
            found.add("model", op_text(fault.node), reason, at=node_label(fault.node), helps=[help_], together=together)
        elif fault.kind == "output not made":
            where = where or " of the graph"
            reason, together = f"no node produces {fault.name!r}, an output{where}", f"no node produces outputs{where}"
            found.add("model", "", reason, helps=["use the name of a tensor that a node produces"], together=together)
        elif fault.kind == "circle":
            circle = [node_label(node) for node in fault.around]
            reason = f"nodes{where} form a cycle: {join_first(circle, 4)}"
            helps = ["let one of them read a tensor from outside the cycle"]
            found.add("model", "", reason, at=circle[0], helps=helps)


def check_calls(model: onnx.ModelProto, found: DiagnosticCollector) -> bool:
    """Report local functions that no runtime can inline.  Returns whether there are none."""
    try:
        require_finite_calls(model)
    except GraphError as error:
        found.add("model", "", str(error).rstrip("."))
        return False
    return True


def check_inputs_and_outputs(
    graph: onnx.GraphProto, facts_of: Callable[[str], TensorType], found: DiagnosticCollector, *, wants_shapes: bool
) -> None:
    """Report inputs and outputs of the main graph without a dtype, or without a shape, which onnx.checker requires.

    facts_of: returns inferred facts of a tensor, for advice.  wants_shapes: whether the target requires shapes too.
    """
    stated = _statement(graph, facts_of)
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            which = value.type.WhichOneof("value")
            if which is not None and which not in TENSORS:
                continue
            tensor = getattr(value.type, which) if which is not None else None
            dtype, shape = facts_of(value.name)
            written = f"onnx.helper.make_tensor_value_info({value.name!r}, {_enum(dtype)}, {_dims(shape)})"
            helps = [f"declare it: {stated if kind == 'output' else written}"]
            if tensor is None or not tensor.elem_type:
                together = f"{kind}s of the graph have no dtype"
                reason = f"the {kind} {value.name!r} of the graph has no dtype"
                found.add("model", "", reason, helps=helps, together=together)
            if tensor is None or not tensor.HasField("shape"):
                reason = f"the {kind} {value.name!r} of the graph has no shape, which onnx.checker requires"
                together = f"{kind}s of the graph have no shape, which onnx.checker requires"
                found.add("model", "", reason, helps=helps, stops=wants_shapes, together=together)


def _statement(graph: onnx.GraphProto, facts_of: Callable[[str], TensorType]) -> str:
    """The command that declares dtypes and shapes of all outputs that lack them."""
    options: list[str] = []
    for value in graph.output:
        which = value.type.WhichOneof("value")
        tensor = getattr(value.type, which) if which in TENSORS else None
        is_whole = tensor is not None and tensor.elem_type and tensor.HasField("shape")
        if is_whole or which not in (None, *TENSORS):
            continue
        known, shape = facts_of(value.name)
        dtype = known or (tensor.elem_type if tensor is not None else 0)
        sizes = ["SIZE,..."] if shape is None else ["?" if str(size)[:1] == "?" else str(size) for size in shape]
        options += ["--state", f"{value.name}={dtype_name(dtype) if dtype else 'DTYPE'}[{','.join(sizes)}]"]
    return command("edit", "IN", "OUT", *options)


def _enum(dtype: int | None) -> str:
    known = onnx.TensorProto.DataType.values()
    stated = dtype if dtype and dtype in known else onnx.TensorProto.FLOAT
    return f"onnx.TensorProto.{onnx.TensorProto.DataType.Name(stated)}"


def _dims(shape: Sequence[object] | None) -> str:
    """A shape as text; dynamic dims get names, and an unknown shape is left to the reader."""
    if shape is None:
        return "shape"
    sizes = (size if isinstance(size, int) else None if str(size).startswith("?") else str(size) for size in shape)
    return str(list(sizes))


def _tell_twice(fault: Violation, node: onnx.NodeProto, where: str, found: DiagnosticCollector) -> None:
    by = f"by {node_label(fault.first)}" if fault.first is not None else "as an input or initializer"
    found.add(
        "model",
        "",
        f"{fault.name!r} is defined twice{where}, {by} and by {node_label(node)}",
        at=node_label(node),
        helps=["rename one of them, and update the nodes that read it"],
        together=f"names are defined twice{where}",
    )


def _rename(name: str, node: onnx.NodeProto, taken: set[str]) -> None:
    """Give a duplicate output a unique name, so that the graph can be indexed."""
    fresh = next(other for number in count(2) if (other := f"{name}_{number}") not in taken)
    taken.add(fresh)
    node.output[len(node.output) - 1 - list(node.output)[::-1].index(name)] = fresh


def _in(place: GraphLocation) -> str:
    if place.owner is not None:
        return f" in a body of {node_label(place.owner)}"
    return f" in function {place.function.domain}::{place.function.name}" if place.function is not None else ""
