"""The order of nodes: a skeleton has them in topological order, even if the file has not.

ONNX requires the order, but ONNX Runtime and TensorRT sort the nodes of each graph themselves, and many files need it.
"""

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto

from surgeon.connected_components import topological_order

Steps = tuple[tuple[int, int], ...]  # the address of a graph (see `surgeon.file.model`), or the end of one
Orders = dict[Steps, list[int]]
GRAPH_NODE, FUNCTION_NODE = 1, 7  # onnx.proto: node of GraphProto and of FunctionProto
_MAY_HAVE_BODIES = (AttributeProto.UNDEFINED, AttributeProto.GRAPH, AttributeProto.GRAPHS)  # old files give no type


def sort_nodes(skeleton: ModelProto) -> Orders:
    """Sort the nodes of each graph and function, in place, if they are not in topological order.

    Returns the changed graphs: by address, for each node its number in the file.  Graphs with a cycle are not changed.
    """
    orders: Orders = {}
    for head, graph in (((7, 0), skeleton.graph), *(((25, k), item) for k, item in enumerate(skeleton.functions))):
        orders |= {(head, *steps): order for steps, order in _sort(graph)[1].items()}
    return orders


def node_field(where: Steps) -> int:
    """The number of the field with the nodes of the graph or function at an address."""
    return FUNCTION_NODE if len(where) == 1 and where[0][0] != 7 else GRAPH_NODE


def _sort(graph: GraphProto | FunctionProto) -> tuple[list[str], Orders]:
    """Sort a graph and the bodies in it; returns the names that it reads from outside, and the changed graphs."""
    made, early = {""}, list[str]()
    captured: dict[int, list[str]] = {}
    bodies: list[tuple[int, Steps, Orders]] = []
    for place, node in enumerate(graph.node):
        read = node.input[:]
        for number, item in enumerate(node.attribute[:] if node.attribute else ()):
            if item.type in _MAY_HAVE_BODIES:
                graphs = [((11, k), body) for k, body in enumerate(item.graphs)]
                for step, body in [*([((6, 0), item.g)] if item.HasField("g") else ()), *graphs]:
                    names, inner = _sort(body)
                    captured.setdefault(place, []).extend(names)
                    bodies.append((place, ((5, number), step), inner))
                    read += names
        if not made.issuperset(read):
            early += [name for name in read if name not in made]
        made.update(node.output[:])
    outside = [name for name in early if name not in made]
    order = _order(graph, captured) if len(outside) < len(early) else None
    numbers = {old: new for new, old in enumerate(order or ())}
    orders: Orders = {}
    if order is not None:
        orders[()] = order
        in_file = iter(range(len(order)))
        graph.node.sort(key=lambda _: numbers[next(in_file)])  # keys are computed in the order of the list
    field = FUNCTION_NODE if isinstance(graph, FunctionProto) else GRAPH_NODE
    for place, steps, inner in bodies:
        head = (field, numbers.get(place, place)), *steps
        orders |= {(*head, *rest): changed for rest, changed in inner.items()}
    if isinstance(graph, GraphProto):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= made | {tensor.values.name for tensor in graph.sparse_initializer}
        outside = [name for name in (*outside, *(value.name for value in graph.output)) if name not in own]
    return outside, orders


def _order(graph: GraphProto | FunctionProto, captured: dict[int, list[str]]) -> list[int] | None:
    """The numbers of the nodes in topological order; None if they form a cycle."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    reads = ((*node.input, *captured.get(place, ())) for place, node in enumerate(graph.node))
    needs = [[makers[name] for name in names if name in makers] for names in reads]
    return topological_order(range(len(needs)), needs.__getitem__)
