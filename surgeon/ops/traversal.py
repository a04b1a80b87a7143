"""Traversal of plain ONNX messages: graphs in nodes, nodes in graphs, and used names.

It needs only the messages; `ir` traverses a model that is edited.
"""

from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto

from surgeon.errors import GraphError
from surgeon.ops.schemas.op_schema import normalize_domain

GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
"""The attribute types that contain graphs."""
FunctionKey = tuple[str, str, str]
"""The key of a local function and of its calls: domain, name and overload."""
T = TypeVar("T", bound=Hashable)
MAX_EXPANDED = 1 << 20
"""The maximum number of nodes of a model after inlining all calls of local functions: more than any exporter writes."""


def bytes_without(message: AttributeProto | NodeProto | TensorProto, *fields: str) -> bytes:
    """The bytes of a message without some fields, such as its name; equal messages have equal bytes."""
    copy = type(message)()
    copy.CopyFrom(message)
    for name in fields:
        copy.ClearField(name)
    data: bytes = copy.SerializeToString(deterministic=True)
    return data


def function_key(function: FunctionProto) -> FunctionKey:
    """The key by which calls refer to a function."""
    return function.domain, function.name, function.overload


def node_label(node: NodeProto) -> str:
    """The name of a node in messages: its own, or that of its first output."""
    return str(node.name) or next((name for name in node.output if name), node.op_type)


def called_function_key(node: NodeProto) -> FunctionKey:
    """The key of the function that a node calls, if there is one."""
    return node.domain, node.op_type, node.overload


def imports_of(opsets: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """The imported version of each domain, by its plain name: that of ONNX is ""."""
    return {normalize_domain(entry.domain): int(entry.version) for entry in opsets}


def attribute_graphs(attribute: AttributeProto) -> list[GraphProto]:
    """The graphs in an attribute."""
    has_graph = attribute.type == AttributeProto.GRAPH or attribute.HasField("g")
    return [attribute.g, *attribute.graphs] if has_graph else list(attribute.graphs)


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """The bodies of a node, without nested ones."""
    found: list[GraphProto] = []
    for attribute in node.attribute:
        found += attribute_graphs(attribute)
    return found


def nested_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and all nested bodies."""
    yield graph
    for node in graph.node:
        for body in subgraphs(node):
            yield from nested_graphs(body)


def graphs_and_functions(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """The graph, the local functions, and the bodies in both."""
    yield from nested_graphs(model.graph)
    for function in model.functions:
        yield function
        for node in function.node:
            for body in subgraphs(node):
                yield from nested_graphs(body)


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes and those of nested bodies, each node before those inside it."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def nodes_of(model: ModelProto) -> Iterator[NodeProto]:
    """Yield all nodes of a model: of the graph, of its bodies, of its local functions."""
    yield from all_nodes(model.graph.node)
    for function in model.functions:
        yield from all_nodes(function.node)


def holds_any(model: ModelProto, ops: Collection[tuple[str, str]]) -> bool:
    """Whether a model has a node of one of these operators, by domain and name."""
    return bool(ops) and any((node.domain, node.op_type) in ops for node in nodes_of(model))


def names_read(node: NodeProto) -> list[str]:
    """Return the names that a node reads, each once: its inputs, and captures of its bodies."""
    return list(dict.fromkeys([*filter(None, node.input), *captured_names(node)]))


def captured_names(node: NodeProto) -> list[str]:
    """Return the outer names that a node's bodies read, each once; inputs of the node can be among them."""
    names: dict[str, None] = {}
    for graph in subgraphs(node):
        own = {value.name for value in graph.input}
        own.update(tensor.name for tensor in graph.initializer)
        own.update(sparse.values.name for sparse in graph.sparse_initializer)
        own.update(name for inner in graph.node for name in inner.output)
        names.update((name, None) for inner in graph.node for name in names_read(inner) if name not in own)
        names.update((value.name, None) for value in graph.output if value.name not in own)
    return list(names)


def without_absent_end(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a node's inputs or outputs without absent ones at the end."""
    while names and not names[-1]:
        names = names[:-1]
    return names


def unique_name(name: str, *taken: Container[str]) -> str:
    """A name that no collection contains: this one, or this one with a number appended."""
    found, number = name, 1
    while any(found in names for names in taken):
        found, number = f"{name}_{number}", number + 1
    return found


def find_cycle(needs: Mapping[T, Iterable[T]]) -> Sequence[T]:
    """Items in a cycle: each needs the next, and the last one the first; empty without a cycle."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(reversed(error.args[1][1:]))
    return ()


def expanded_sizes(functions: Mapping[FunctionKey, FunctionProto]) -> dict[FunctionKey, int]:
    """For each function, the number of nodes of one call after inlining all calls.  No function may call itself."""
    called = {key: [called_function_key(node) for node in all_nodes(one.node)] for key, one in functions.items()}
    sizes: dict[FunctionKey, int] = {}
    for key in TopologicalSorter({key: functions.keys() & keys for key, keys in called.items()}).static_order():
        sizes[key] = sum(sizes.get(inner, 1) for inner in called[key])
    return sizes


def expanded_count(model: ModelProto) -> int:
    """The number of nodes of a model after inlining all calls, bodies included.  No function may call itself."""
    if not model.functions:
        return sum(1 for _ in all_nodes(model.graph.node))
    sizes = expanded_sizes({function_key(function): function for function in model.functions})
    return sum(sizes.get(called_function_key(node), 1) for node in all_nodes(model.graph.node))


def require_finite_calls(model: ModelProto) -> None:
    """Raise GraphError for recursive local functions, and for so many nested calls that no runtime can inline them.

    Runtimes inline all calls before they run anything, so a file of forty functions can represent 2^40 nodes.
    """
    if not model.functions:
        return
    functions = {function_key(function): function for function in model.functions}
    calls = {key: set(map(called_function_key, all_nodes(function.node))) for key, function in functions.items()}
    around = find_cycle({key: called & functions.keys() for key, called in calls.items()})
    if around:
        domain, name, _ = around[0]
        raise GraphError(
            f"The local function {domain}::{name} calls itself, which ONNX does not allow. Export the model again."
        )
    total = expanded_count(model)
    if total > MAX_EXPANDED:
        sizes = expanded_sizes(functions)
        domain, name, _ = max(sizes, key=sizes.__getitem__)
        raise GraphError(
            f"The model has {total:,} nodes after inlining its local functions, but surgeon supports at most "
            f"{MAX_EXPANDED:,}. The largest function is {domain}::{name}. Export the model without functions."
        )


def uses_float16(model: ModelProto) -> bool:
    """Whether some weight, input or Cast of the main graph is float16."""
    graph, half = model.graph, TensorProto.FLOAT16
    return (
        any(tensor.data_type == half for tensor in graph.initializer)
        or any(entry.type.tensor_type.elem_type == half for entry in graph.input)
        or any(node.op_type == "Cast" and any(a.i == half for a in node.attribute) for node in graph.node)
    )
