"""Loops that end by a condition and count: their trip count follows from it."""

from collections.abc import Iterator
from itertools import compress
from typing import NamedTuple

from onnx import FunctionProto, GraphProto, NodeProto, TensorProto, helper

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import ADDITIONS, CAST_OPS, GATHERS, IDENTITY_OPS, LOOPS, traits_of
from surgeon.ops.traversal import names_read, subgraphs
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.searches.constant_conditions import is_unmodified
from surgeon.shapes.index_shapes import shapes_of

CARRIED = 2  # number of inputs of a loop, and of its body, before the loop-carried ones
INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64})
SAME_INTEGERS = IDENTITY_OPS | CAST_OPS
INTEGER_DTYPES = frozenset(map(helper.tensor_dtype_to_np_dtype, INTEGERS))


class _Count(NamedTuple):
    """How a loop counts."""

    start: str
    """Outer tensor with the first value; "": 0."""
    limit: str
    """Outer tensor with the limit; if `axis` is set, a tensor whose size along it is the limit."""
    more: int = 0
    """Iterations beyond the limit."""
    axis: int | None = None
    """Axis of `limit`; None: `limit` is a number."""


def _counted_loops(index: Index, scope: Scope) -> Iterator[Found]:
    """A Loop without a trip count that runs while a counter, increased by one each time, is below a fixed limit.

    If its condition is another one, a Gather may index an unchanged tensor by the counter: past its end there are none.
    Binds `body`, a function of one Loop with a trip count, which is its first input; `start`, an integer, None for 0;
    `limit`, an integer, or a tensor with that size along `axis`; `more`, iterations beyond the limit; `tensors`, all
    further inputs of the function; and `used`, whether each output has readers.
    """
    types = shapes_of(index)
    for node in scope.nodes_of(LOOPS):
        if not node.alive or node.inputs[0] or len(node.inputs) < 2:
            continue
        bodies = index.bodies(node)
        if len(bodies) != 1 or not is_unmodified(bodies[0]):
            continue
        counts = _Counter(index, node, bodies[0]).counts()
        numbers = (one for one in counts if all(types.dtype(scope, name) in INTEGERS for name in _integers(one)))
        count = next(numbers, None)
        if count is None:
            continue
        used = index.used(node)
        outputs = tuple(compress(node.outputs, used))
        if outputs:
            function = _limited(NodeProto.FromString(index.model.serialize(node.proto)))
            bound = {
                "body": (function,),
                "start": count.start or None,
                "limit": count.limit,
                "more": (count.more,),
                "axis": (count.axis,),
                "tensors": VariadicBinding(list(function.input)[1:]),
                "used": (used,),
            }
            yield Found((node,), outputs, bound)


counted_loops = Search(
    _counted_loops, "no Loop without a trip count counts up to a fixed limit", replaces=LOOPS.__contains__
)


def _integers(count: _Count) -> list[str]:
    """The tensors of a count that must be integers."""
    return [name for name in (count.start, count.limit if count.axis is None else "") if name]


class _Counter:
    """Analyses the counter of a loop's body, and the tensors that it is compared with or indexes."""

    def __init__(self, index: Index, node: Node, body: Scope) -> None:
        self._body, self._constants = body, index.constants
        inputs, outputs = body.input_names, body.output_names
        self._carried = dict(zip(inputs[CARRIED:], node.inputs[CARRIED:], strict=False))
        self._nexts = dict(zip(inputs[CARRIED:], outputs[1:], strict=False))
        self._condition, self._iteration = outputs[0], inputs[0]

    def counts(self) -> Iterator[_Count]:
        """Trip counts, by the loop's condition first, then by Gathers."""
        pending = [self._condition]
        while pending:
            made = self._body.producers.get(self._source(pending.pop()))
            if made is not None and made.op == "And":
                pending += made.inputs
            elif made is not None:
                yield from self._compared(made)
        for made in self._body.nodes:
            if made.op in GATHERS and (limit := self._invariant(made.inputs[0])) is not None:
                axis = made.attribute("axis")
                along = 0 if axis is None else axis.i
                yield from (_Count(start, limit, more, along) for start, more in self._counted(made.inputs[1]))

    def _compared(self, made: Node) -> Iterator[_Count]:
        comparison = traits_of(made.op).algebra.comparison
        if comparison in ("", "="):
            return
        low, high = made.inputs if comparison.startswith("<") else reversed(made.inputs)
        limit = self._invariant(high)
        if limit is not None:
            for start, later in self._counted(low):
                yield _Count(start, limit, int(comparison.endswith("=")) + later)

    def _counted(self, name: str) -> Iterator[tuple[str, int]]:
        """The start of a counter, and 1 if the tensor is its value before this step; nothing for other tensors."""
        name = self._source(name)
        counter, later = (name, 1) if name in self._carried or name == self._iteration else (self._predecessor(name), 0)
        if counter == self._iteration:
            yield "", later
        elif counter in self._carried and self._predecessor(self._source(self._nexts[counter])) == counter:
            yield self._carried[counter], later

    def _predecessor(self, name: str) -> str | None:
        """The tensor that is one less than this one; None if there is none."""
        step = self._body.producers.get(name)
        if step is None or step.op not in ADDITIONS:
            return None
        pairs = zip(step.inputs, reversed(step.inputs), strict=True)
        return next((self._source(one) for one, other in pairs if self._is_one(other)), None)

    def _invariant(self, name: str) -> str | None:
        """The outer tensor that equals this one in every step; None if there is none."""
        name = self._source(name)
        if name in self._carried:
            return self._carried[name] if self._source(self._nexts[name]) == name else None
        return None if self._body.defines(name) else name

    def _source(self, name: str) -> str:
        """The tensor before identities and casts, which do not change how integers compare."""
        while (made := self._body.producers.get(name)) is not None and made.op in SAME_INTEGERS:
            name = made.inputs[0]
        return name

    def _is_one(self, name: str) -> bool:
        """Whether a tensor of the body is the integer 1."""
        value = self._constants.get(self._body, name)
        return value is not None and value.array.dtype in INTEGER_DTYPES and value.scalar == 1


def _limited(loop: NodeProto) -> FunctionProto:
    """A function of a trip count and of all tensors that a loop reads."""
    names = list(dict.fromkeys(name for name in (*loop.input, *names_read(loop)) if name))
    loop.input[0] = "trip_limit"
    _add_identities(next(item.g for item in loop.attribute if item.name == "body"))
    outputs = [name or f"unnamed_{place}" for place, name in enumerate(loop.output)]
    loop.output[:] = outputs
    return helper.make_function(
        "surgeon.loop", "loop", ["trip_limit", *names], outputs=outputs, nodes=[loop], opset_imports=[]
    )


def _add_identities(body: GraphProto) -> None:
    """Put an Identity before each output of a body that none of its nodes computes (quirks.INLINED_BODY_OUTPUTS)."""
    made = {name for node in body.node for name in node.output}
    for node in body.node:
        for inner in subgraphs(node):
            _add_identities(inner)
    for place, value in enumerate(body.output):
        if value.name not in made:
            given, value.name = value.name, f"{value.name}_handed_on_{place}"
            body.node.append(helper.make_node("Identity", [given], [value.name]))
