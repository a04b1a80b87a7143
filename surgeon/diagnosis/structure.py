"""A graph against ONNX's own rules: names made twice or never, circles, inputs and outputs without a type.

Works on the messages alone, so that all faults are found where an index could not be made; a name that is made again
gets another one in the message on the way, so that one can be.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import onnx

from surgeon.diagnosis.finding import Findings
from surgeon.listing import first_of
from surgeon.ops.walking import free_names, graphs_of
from surgeon.shapes.facts import Facts

TENSORS = ("tensor_type", "sparse_tensor_type")


def check_structure(model: onnx.ModelProto, found: Findings) -> None:
    """Note what breaks ONNX's rules in the graph, its bodies and the functions.  The model is the caller's own copy."""
    _check_graph(model.graph, frozenset(), "", found)
    for function in model.functions:
        where = f"function {function.domain}::{function.name}"
        _check_nodes(function.node, list(function.input), list(function.output), frozenset(), where, found)


def check_ends(graph: onnx.GraphProto, target: str, facts_of: Callable[[str], Facts], found: Findings) -> None:
    """Note inputs and outputs of the main graph without a dtype, or without a shape, which onnx.checker wants.

    facts_of: what is known of a tensor else; it goes into the advice.
    """
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            which = value.type.WhichOneof("value")
            if which is not None and which not in TENSORS:
                continue
            tensor = getattr(value.type, which) if which is not None else None
            dtype, shape = facts_of(value.name)
            helps = [f"state it: onnx.helper.make_tensor_value_info({value.name!r}, {_enum(dtype)}, {_dims(shape)})"]
            if tensor is None or not tensor.elem_type:
                together = f"{kind}s of the graph have no dtype"
                reason = f"the {kind} {value.name!r} of the graph has no dtype"
                found.add("model", "", reason, helps=helps, together=together)
            if tensor is None or not tensor.HasField("shape"):
                reason = f"the {kind} {value.name!r} of the graph has no shape, which onnx.checker wants"
                together = f"{kind}s of the graph have no shape, which onnx.checker wants"
                found.add("model", "", reason, helps=helps, stops=target == "onnx", together=together)


def _enum(dtype: int | None) -> str:
    return f"onnx.TensorProto.{onnx.TensorProto.DataType.Name(dtype or onnx.TensorProto.FLOAT)}"


def _dims(shape: Sequence[object] | None) -> str:
    """A shape as one writes it; sizes that are open get names, and nothing known leaves it to the reader."""
    if shape is None:
        return "shape"
    sizes = (size if isinstance(size, int) else None if str(size).startswith("?") else str(size) for size in shape)
    return str(list(sizes))


def _check_graph(graph: onnx.GraphProto, outer: frozenset[str], where: str, found: Findings) -> None:
    given = dict.fromkeys(tensor.name for tensor in graph.initializer)
    given.update(dict.fromkeys(tensor.values.name for tensor in graph.sparse_initializer))
    inputs = [value.name for value in graph.input]
    for name in sorted({name for name in inputs if inputs.count(name) > 1}):
        found.add("model", "", f"the input {name!r} is there twice{_in(where)}", helps=["rename one of them"])
    outputs = [value.name for value in graph.output]
    _check_nodes(graph.node, [*given, *inputs], outputs, outer, where, found)


def _check_nodes(
    nodes: Sequence[onnx.NodeProto],
    given: Collection[str],
    outputs: Sequence[str],
    outer: frozenset[str],
    where: str,
    found: Findings,
) -> None:
    """The nodes of one scope.  given: names that are there without a node; outer: names of the scopes around it."""
    makers: dict[str, onnx.NodeProto | None] = dict.fromkeys(given)
    for node in nodes:
        for place, name in enumerate(node.output):
            if name in makers and name:
                _tell_twice(name, makers[name], node, where, found)
                node.output[place] = name = _fresh(name, makers)
            makers[name] = node
    made = set(given).union(outer)
    names = outer.union(makers)
    is_late = False
    for node in nodes:
        for name in dict.fromkeys(node.input):
            if name and name not in names:
                reason = f"{name!r} is read{_in(where)} and nothing makes it"
                help_ = "add it as an input or an initializer, or correct the name"
                together = f"tensors are read{_in(where)} that nothing makes"
                found.add("model", _op(node), reason, at=_label(node), helps=[help_], together=together)
        is_late = is_late or any(name in makers and name not in made for name in free_names(node))
        made.update(node.output)
        for graph in graphs_of(node):
            _check_graph(graph, names, f"a body of {_label(node)}", found)
    for name in outputs:
        if name and name not in names:
            reason = f"nothing makes {name!r}, an output{_in(where) or ' of the graph'}"
            together = f"outputs{_in(where) or ' of the graph'} are made by nothing"
            found.add("model", "", reason, helps=["name a tensor that a node makes"], together=together)
    if is_late:
        _tell_order(nodes, where, found)


def _tell_twice(name: str, first: onnx.NodeProto | None, second: onnx.NodeProto, where: str, found: Findings) -> None:
    by = f"by {_label(first)}" if first is not None else "as an input or initializer"
    found.add(
        "model",
        "",
        f"{name!r} is made twice{_in(where)}, {by} and by {_label(second)}",
        at=_label(second),
        helps=["rename one of them, and what reads it"],
        together=f"names are made twice{_in(where)}",
    )


def _fresh(name: str, taken: Collection[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _tell_order(nodes: Sequence[onnx.NodeProto], where: str, found: Findings) -> None:
    """Tell a circle, else that nodes stand before what they read, which ONNX Runtime and TensorRT sort themselves."""
    circle = [_label(node) for node in _in_circles(nodes)]
    if circle:
        reason = f"nodes{_in(where)} need each other's outputs in a circle: {first_of(circle, 4)}"
        found.add("model", "", reason, at=circle[0], helps=["have one of them read a tensor from outside the circle"])
        return
    found.add(
        "model",
        "",
        f"nodes{_in(where)} stand before those whose outputs they read, which onnx.checker refuses",
        helps=["sort them: gs.import_onnx(model).toposort()"],
        stops=False,
    )


def _in_circles(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes that lie on a circle: neither before it nor after it (Kahn's algorithm from both ends)."""
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    before = [{makers[name] for name in free_names(node) if name in makers} for node in nodes]
    after: list[set[int]] = [set() for _ in nodes]
    for place, needed in enumerate(before):
        for other in needed:
            after[other].add(place)
    left = set(range(len(nodes)))
    for needs, serves in ((before, after), (after, before)):
        waiting = {place: len(needs[place] & left) for place in left}
        ready = [place for place, count in waiting.items() if not count]
        while ready:
            done = ready.pop()
            left.discard(done)
            for other in serves[done] & waiting.keys():
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
    yield from (nodes[place] for place in sorted(left))


def _op(node: onnx.NodeProto) -> str:
    return f"{node.domain or 'ai.onnx'}::{node.op_type}"


def _label(node: onnx.NodeProto) -> str:
    return str(node.name) or next((name for name in node.output if name), node.op_type)


def _in(where: str) -> str:
    return f" in {where}" if where else ""
