"""Loops that end by a condition and count: their trip limit follows from it."""

from collections.abc import Iterator, Mapping
from itertools import compress
from typing import NamedTuple

from onnx import FunctionProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope
from surgeon.matching.pattern import Found, Search
from surgeon.matching.state import Several
from surgeon.ops.walking import free_names
from surgeon.searches.branches import is_as_read
from surgeon.shapes.indexed import shapes_of

CARRIED = 2  # inputs of a loop, and of its body, before those that it carries on
INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64})


class _Count(NamedTuple):
    """Where a loop begins to count, and below what it goes on, as tensors outside of it."""

    start: str
    limit: str


def _counted_loops(index: Index, scope: Scope) -> Iterator[Found]:
    """Loop without a trip limit that goes on while a counter, one more each time, is below a limit that stays.

    Binds `body`, a function of one Loop with a trip limit, which is its first input; `start` and `limit`, integers;
    `tensors`, all further inputs of the function; and `used`, which of its outputs somebody reads.
    """
    types = shapes_of(index)
    for node in list(scope.by_op.get("Loop", ())):
        if not node.alive or node.inputs[0] or len(node.inputs) < 2:
            continue
        item = node.attribute("body")
        body = next((inner for inner in scope.bodies if inner.owner is node), None)
        if item is None or item.ref_attr_name or body is None or not is_as_read(body):
            continue
        count = _count(node, item.g)
        if count is None or any(types.dtype(scope, name) not in INTEGERS for name in count):
            continue
        used = index.used(node)
        outputs = tuple(compress(node.outputs, used))
        if outputs:
            function = _limited(NodeProto.FromString(index.model.full(node.proto)))
            bound = {
                "body": (function,),
                "start": count.start,
                "limit": count.limit,
                "tensors": Several(list(function.input)[1:]),
                "used": (used,),
            }
            yield Found((node,), outputs, bound)


counted_loops = Search(
    _counted_loops, "no Loop without a trip limit counts up to a limit that stays", replaces=lambda op: op == "Loop"
)


def _count(node: Node, body: GraphProto) -> _Count | None:
    """How a loop counts, None where its condition says something else."""
    makers = {name: made for made in body.node for name in made.output}
    inputs = [value.name for value in body.input]
    outputs = [value.name for value in body.output]
    carried = dict(zip(inputs[CARRIED:], node.inputs[CARRIED:], strict=False))
    nexts = dict(zip(inputs[CARRIED:], outputs[1:], strict=False))
    condition = makers.get(_plain(outputs[0], makers))
    if condition is None or condition.op_type not in ("Less", "Greater"):
        return None
    low, high = (_plain(name, makers) for name in condition.input)
    if condition.op_type == "Greater":
        low, high = high, low
    step = makers.get(low)
    if step is None or step.op_type != "Add":
        return None
    counter = next((name for name in step.input if name in carried and _plain(nexts[name], makers) == low), None)
    others = [name for name in step.input if name != counter]
    if counter is None or len(others) != 1 or not _is_one(others[0], body, makers):
        return None
    if high in carried:
        return _Count(carried[counter], carried[high]) if _plain(nexts[high], makers) == high else None
    own = {tensor.name for tensor in body.initializer}.union(makers, inputs)
    return None if high in own else _Count(carried[counter], high)


def _plain(name: str, makers: Mapping[str, NodeProto]) -> str:
    """The tensor that is handed on or cast to this one: casts do not change how integers compare."""
    while name in makers and makers[name].op_type in ("Identity", "Cast"):
        name = makers[name].input[0]
    return name


def _is_one(name: str, body: GraphProto, makers: Mapping[str, NodeProto]) -> bool:
    """Whether a tensor of a body is the constant 1."""
    stored = next((tensor for tensor in body.initializer if tensor.name == name), None)
    made = makers.get(name)
    if stored is None and made is not None and made.op_type == "Constant":
        stored = next((item.t for item in made.attribute if item.name == "value"), None)
    if stored is None or stored.external_data or stored.data_type not in INTEGERS:
        return False
    value = numpy_helper.to_array(stored)
    return bool(value.size == 1 and value.item() == 1)


def _limited(loop: NodeProto) -> FunctionProto:
    """A function of a trip limit and of all that a loop reads."""
    names = list(dict.fromkeys(name for name in (*loop.input, *free_names(loop)) if name))
    loop.input[0] = "trip_limit"
    _hand_on(next(item.g for item in loop.attribute if item.name == "body"))
    outputs = [name or f"unnamed_{place}" for place, name in enumerate(loop.output)]
    loop.output[:] = outputs
    return helper.make_function("surgeon.loop", "loop", ["trip_limit", *names], outputs, [loop], [])


def _hand_on(body: GraphProto) -> None:
    """Put an Identity before each output that is an input as it came: onnx's inliner loses the names of these."""
    inputs = {value.name for value in body.input}
    for place, value in enumerate(body.output):
        if value.name in inputs:
            given, value.name = value.name, f"{value.name}_handed_on_{place}"
            body.node.append(helper.make_node("Identity", [given], [value.name]))
