"""A model that measures itself: nodes beside its own, which answer in a few numbers what each inner tensor holds.

To fetch the tensors themselves would take as much memory and time as they do.  What bodies of If, Loop and Scan and
local functions hold comes out by outputs more: the largest of all turns and calls.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from surgeon.file.model import Address, Model
from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_model
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traversal import graphs_and_functions
from surgeon.pipeline.editing.draft import ModelDraft, names_in
from surgeon.shapes.index_shapes import shapes_of

INFINITY = float("inf")
FIRST_OPSET = 9
"""Of ai.onnx, from which on there is all that gauges are made of."""
MAIN_GRAPH: Address = ((7, 0),)
"""Where the main graph lies."""
Tensor = tuple[Address, str]
"""A tensor of any graph, body or function of a model: where that lies, and its name there."""
_HIGHS, _MEANS = ("most", "above", "least"), ("mean", "square")
_AT_ONCE = 1 << 23  # numbers that are measured together
_RANK = 8  # dimensions that are told of a tensor inside of a body
_NOTHING: dict[int, np.ndarray] = {
    TensorProto.FLOAT: np.array([0.0, 0.0, -INFINITY, 0.0, 0.0], np.float32),
    TensorProto.INT64: np.zeros(1 + _RANK, np.int64),
}
"""By dtype what the gauge of a branch or of turns that never ran says: its numbers, its shape led by the rank."""
_FIRST_INNER = 11  # opset of ai.onnx, from which on an index may count from the end
_AXES_READ = 18  # opset of ai.onnx from which on ReduceMax reads its axes


@dataclass(slots=True)
class ObservedRange:
    """The values of one tensor over all runs.  Non-finite elements count as zero."""

    max_abs: float = 0.0
    """Largest magnitude."""
    max_abs_unmasked: float = 0.0
    """Largest magnitude of elements above the fill values of masks."""
    min_abs: float = INFINITY
    """Smallest magnitude that is not zero."""
    mean_abs: float = 0.0
    """Mean magnitude, the largest of all runs."""
    mean_square: float = 0.0
    """Mean square, the largest of all runs."""
    shape: tuple[int, ...] = ()
    """Shape in the run with the most elements."""

    def add(self, numbers: Sequence[float], shape: tuple[int, ...]) -> None:
        """Take in what a run showed, in the order of the fields."""
        most, above, least, mean, square = (INFINITY if np.isnan(number) else float(number) for number in numbers)
        if most == -INFINITY or (most == 0 and not prod(shape)):
            return
        self.max_abs, self.max_abs_unmasked, self.min_abs = (
            max(self.max_abs, most),
            max(self.max_abs_unmasked, above),
            min(self.min_abs, least),
        )
        self.mean_abs, self.mean_square = max(self.mean_abs, mean), max(self.mean_square, square)
        if prod(shape) >= prod(self.shape or (0,)):
            self.shape = shape


class Gauge(NamedTuple):
    """The probe of one tensor as one scope sees it."""

    tensor: Tensor
    """The tensor it measures."""
    numbers: str
    """Name of the tensor with its five numbers."""
    shape: str
    """Name of the tensor with its shape."""
    is_inner: bool = False
    """Whether the tensor lies in a nested body or function; then `shape` is padded with ones after the rank."""


class ProbeOutputs:
    """The outputs of a gauged model."""

    def __init__(self, gauges: Sequence[Gauge]) -> None:
        self._gauges = gauges

    @property
    def names(self) -> list[str]:
        """Of all outputs."""
        return [name for gauge in self._gauges for name in (gauge.numbers, gauge.shape)]

    def read(self, answer: Mapping[str, np.ndarray], found: dict[Tensor, ObservedRange]) -> dict[str, Sequence[int]]:
        """Take in what a run answered; returns the shapes of the tensors of the main graph."""
        shapes: dict[str, Sequence[int]] = {}
        for gauge in self._gauges:
            if gauge.numbers not in answer or gauge.shape not in answer:
                continue
            sizes = tuple(int(size) for size in answer[gauge.shape])
            if gauge.is_inner:
                sizes = sizes[max(1 + _RANK - sizes[0], 1) :]
            else:
                shapes[gauge.tensor[1]] = sizes
            most, above, least, mean, square = answer[gauge.numbers].tolist()
            found.setdefault(gauge.tensor, ObservedRange()).add((most, above, -least, mean, square), sizes)
        return shapes


@contextmanager
def instrumented(
    model: OutputModel, tensors: Collection[Tensor], low: float
) -> Iterator[tuple[OutputModel, ProbeOutputs]]:
    """Give the model with gauges at these floats.  low: from where on down a number is a fill.

    Of a file a copy lies beside it until the block is left.
    """
    with Model.open(model) as opened:
        draft = ModelDraft(opened)
        gauged = ProbeOutputs(_Gauging(draft, tensors, low).put())
        patch = draft.patch()
        if isinstance(model, Path):
            with temporary_model(opened, patch, None) as path:
                yield path, gauged
        else:
            yield patch.to_proto(), gauged


class _Gauging:
    """Gauges on their way into a draft: those of bodies and functions first, which hand on what theirs say."""

    def __init__(self, draft: ModelDraft, tensors: Collection[Tensor], low: float) -> None:
        self._draft, self._index, self._low = draft, draft.index, max(low, -3e38)
        self._shapes = shapes_of(draft.index)
        self._wanted: defaultdict[Address, set[str]] = defaultdict(set)
        for address, name in tensors:
            self._wanted[address].add(name)
        taken = {name for holder in graphs_and_functions(draft.skeleton) for name in _names(holder)}
        self._prefix = "gauge"
        while any(name.startswith(f"{self._prefix}:") for name in taken):
            self._prefix += "_"
        self._count = 0
        self._of_functions: dict[Scope, list[Gauge]] = {}

    def put(self) -> list[Gauge]:
        """Put them in; what the main graph answers now."""
        gauges, graph = self._scope(self._index.main), self._draft.graph
        for gauge in gauges:
            for name, kind in ((gauge.numbers, TensorProto.FLOAT), (gauge.shape, TensorProto.INT64)):
                graph.output.append(helper.make_tensor_value_info(name, kind, [None]))
        return gauges

    def _scope(self, scope: Scope) -> list[Gauge]:
        """Gauge a scope and all below it; what can be read at its end."""
        gauges: list[Gauge] = []
        behind: dict[int, list[NodeProto]] = {}
        bodies: defaultdict[Node, list[Scope]] = defaultdict(list)
        for body in scope.bodies:
            if body.owner is not None:
                bodies[body.owner].append(body)
        wanted = self._wanted[scope.address]
        for node in scope.nodes:
            more: list[NodeProto] = []
            called = self._index.called(node)
            if called is not None:
                gauges += self._through_call(node, called)
            elif node in bodies:
                gauges += self._through_bodies(node, bodies[node], more)
            for name in node.outputs:
                if name in wanted:
                    gauge = Gauge((scope.address, name), *self._pair())
                    gauges.append(gauge)
                    more += self._nodes(gauge, scope)
            if more:
                behind[node.slot] = more
        if gauges:
            self._insert(scope, behind)
        return gauges

    def _insert(self, scope: Scope, behind: Mapping[int, list[NodeProto]]) -> None:
        proto: Any = scope.proto
        nodes = list(self._constants()) if scope.is_function or scope.parent is None else []
        for slot, node in enumerate(proto.node):
            copy = NodeProto()
            copy.CopyFrom(node)
            nodes += [copy, *behind.get(slot, ())]
        del proto.node[:]
        proto.node.extend(nodes)

    def _through_call(self, node: Node, function: Scope) -> list[Gauge]:
        """Have a call answer what the gauges of its function do."""
        if function not in self._of_functions:
            self._of_functions[function] = []  # of one that calls itself, which no model is run with
            is_new = function.versions.get("", 0) >= _FIRST_INNER
            gauges = self._widened(function, self._scope(function) if is_new else [])
            _proto(function).output.extend(name for gauge in gauges for name in (gauge.numbers, gauge.shape))
            self._of_functions[function] = gauges
        found = [Gauge(gauge.tensor, *self._pair(), is_inner=True) for gauge in self._of_functions[function]]
        _complete(node.proto, len(_proto(function).output) - 2 * len(found))
        node.proto.output.extend(name for gauge in found for name in (gauge.numbers, gauge.shape))
        return found

    def _through_bodies(self, node: Node, bodies: Sequence[Scope], behind: list[NodeProto]) -> list[Gauge]:
        """Have an If, Loop or Scan answer what the gauges of its bodies do, of all turns the largest."""
        if node.op not in ("If", "Loop", "Scan") or node.scope.versions.get("", 0) < _FIRST_INNER:
            return []
        _complete(node.proto, len(_proto(bodies[0]).output) - (node.op == "Loop"))
        by_body = [self._widened(body, self._scope(body)) for body in bodies]
        found: list[Gauge] = []
        for place, gauges in enumerate(by_body):
            for gauge in gauges:
                made = Gauge(gauge.tensor, *self._pair(), is_inner=True)
                pairs = (gauge.numbers, made.numbers), (gauge.shape, made.shape)
                for kind, (inner, outer) in zip(_NOTHING, pairs, strict=True):
                    for other, body in enumerate(bodies):
                        name = inner if other == place else self._nothing(body, kind)
                        graph: Any = body.proto
                        graph.output.append(helper.make_tensor_value_info(name, kind, [None]))
                    out = outer if node.op == "If" else f"{outer}:turns"
                    node.proto.output.append(out)
                    if node.op != "If":
                        behind += self._over_turns(out, outer, kind, node.scope.versions.get("", 0))
                found.append(made)
        for item in node.proto.attribute:
            if item.name in ("scan_output_axes", "scan_output_directions"):
                item.ints.extend([0] * (2 * len(found)))
        return found

    def _widened(self, scope: Scope, gauges: Sequence[Gauge]) -> list[Gauge]:
        """The gauges of a scope with shapes that are all of one length, its nodes being put behind all others."""
        proto: Any = scope.proto
        found: list[Gauge] = []
        for gauge in gauges:
            if not gauge.is_inner:
                made = gauge._replace(shape=f"{gauge.shape}:long", is_inner=True)
                proto.node.extend(self._lengthened(gauge.shape, made.shape))
                gauge = made
            found.append(gauge)
        return found

    def _pair(self) -> tuple[str, str]:
        self._count += 1
        return f"{self._prefix}:{self._count}:numbers", f"{self._prefix}:{self._count}:shape"

    def _constant(self, name: str, value: np.ndarray) -> NodeProto:
        return helper.make_node("Constant", [], [f"{self._prefix}:{name}"], value=numpy_helper.from_array(value))

    def _constants(self) -> Iterator[NodeProto]:
        for name, number in {"zero": 0.0, "inf": INFINITY, "low": self._low}.items():
            yield self._constant(name, np.array(number, np.float32))
        yield self._constant("one", np.array([1], np.int64))
        yield self._constant("ones", np.ones(_RANK, np.int64))
        yield self._constant("places", np.arange(-_RANK, 0))
        yield self._constant("first", np.array([0], np.int64))
        for kind, value in _NOTHING.items():
            yield self._constant(f"nothing{kind}", value[None])

    def _nothing(self, body: Scope, kind: int) -> str:
        """What a branch that is not gauged says: its name there."""
        name = self._pair()[0]
        proto: Any = body.proto
        proto.node.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(_NOTHING[kind])))
        return name

    def _lengthened(self, shape: str, long: str) -> Iterator[NodeProto]:
        """A shape led by ones to a fixed length, and that by the rank."""
        p = self._prefix
        yield helper.make_node("Shape", [shape], [f"{long}:rank"])
        yield helper.make_node("Concat", [f"{p}:ones", shape], [f"{long}:led"], axis=0)
        yield helper.make_node("Gather", [f"{long}:led", f"{p}:places"], [f"{long}:last"])
        yield helper.make_node("Concat", [f"{long}:rank", f"{long}:last"], [long], axis=0)

    def _over_turns(self, turns: str, made: str, kind: int, opset: int) -> Iterator[NodeProto]:
        """The largest of all turns; of none, what says nothing."""
        yield helper.make_node("Concat", [f"{self._prefix}:nothing{kind}", turns], [f"{made}:all"], axis=0)
        yield self._over_first("ReduceMax", f"{made}:all", made, opset)

    def _over_first(self, op: str, source: str, made: str, opset: int) -> NodeProto:
        """A reduction over the first axis."""
        if opset >= _AXES_READ:
            return helper.make_node(op, [source, f"{self._prefix}:first"], [made], keepdims=0)
        return helper.make_node(op, [source], [made], keepdims=0, axes=[0])

    def _nodes(self, gauge: Gauge, scope: Scope) -> Iterator[NodeProto]:
        """The nodes of one gauge.  The least comes with its sign turned."""
        name = gauge.tensor[1]
        highs, means = (f"{gauge.numbers}:{kind}" for kind in ("highs", "means"))
        yield helper.make_node("Shape", [name], [gauge.shape])
        cut, dtype = _cut_of(self._shapes.shape(scope, name)), self._shapes.dtype(scope, name)
        if not cut or dtype is None:
            yield from self._measured(name, gauge.numbers, highs, means)
        else:
            part, slices = f"{gauge.numbers}:slice", f"{gauge.numbers}:slices"
            yield helper.make_node("Flatten", [name], [slices], axis=cut)
            yield from self._by_slices(slices, part, dtype, made=(highs, means), opset=scope.versions.get("", 0))
        yield helper.make_node("Concat", [highs, means], [gauge.numbers], axis=0)

    def _by_slices(self, slices: str, part: str, dtype: int, made: tuple[str, str], opset: int) -> Iterator[NodeProto]:
        """The same of each slice in turn, so that there are copies of no more at a time."""
        inner, turns = ([f"{one}:{step}" for one in made] for step in ("slice", "turns"))
        inputs = [helper.make_tensor_value_info(part, dtype, None)]
        outputs = [helper.make_tensor_value_info(one, TensorProto.FLOAT, [None]) for one in inner]
        body = helper.make_graph(list(self._measured(part, part, *inner)), f"{part}:body", inputs, outputs)
        yield helper.make_node("Scan", [slices], turns, body=body, num_scan_inputs=1)
        for op, source, target in zip(("ReduceMax", "ReduceMean"), turns, made, strict=True):
            yield self._over_first(op, source, target, opset)

    def _measured(self, name: str, prefix: str, highs: str, means: str) -> Iterator[NodeProto]:
        """The largest of what a tensor holds, and the means, each as a tensor: what is no number counts as zero."""

        def of(step: str) -> str:
            return f"{prefix}:{step}"

        def constant(step: str) -> str:
            return f"{self._prefix}:{step}"

        def reduced(step: str, op: str, source: str) -> Iterator[NodeProto]:
            yield helper.make_node(op, [of(source)], [of(f"{step}!")], keepdims=0)
            yield helper.make_node("Reshape", [of(f"{step}!"), constant("one")], [of(step)])

        # What is as large as the tensor is read at once, so that little of it is there at a time.
        yield helper.make_node("Cast", [name], [of("wide")], to=TensorProto.FLOAT)
        yield helper.make_node("Greater", [of("wide"), constant("low")], [of("high")])
        yield helper.make_node("Abs", [of("wide")], [of("any")])
        yield helper.make_node("Less", [of("any"), constant("inf")], [of("usual")])
        yield helper.make_node("Where", [of("usual"), of("any"), constant("zero")], [of("size")])
        yield from reduced("most", "ReduceMax", "size")
        yield from reduced("mean", "ReduceMean", "size")
        yield helper.make_node("Where", [of("high"), of("size"), constant("zero")], [of("above?")])
        yield from reduced("above", "ReduceMax", "above?")
        yield helper.make_node("Greater", [of("size"), constant("zero")], [of("some")])
        yield helper.make_node("Where", [of("some"), of("size"), constant("inf")], [of("inverse?")])
        yield helper.make_node("Neg", [of("inverse?")], [of("least?")])
        yield from reduced("least", "ReduceMax", "least?")
        yield helper.make_node("Mul", [of("size"), of("size")], [of("square?")])
        yield from reduced("square", "ReduceMean", "square?")
        for told, made in ((_HIGHS, highs), (_MEANS, means)):
            yield helper.make_node("Concat", [of(step) for step in told], [made], axis=0)


def _cut_of(shape: Sequence[object] | None) -> int:
    """How many axes of a tensor stand before slices of at most `_AT_ONCE` numbers; 0 where it is not larger itself.

    Sizes that are free are small where a model is tried.
    """
    sizes = [size for size in shape or () if isinstance(size, int)]
    if shape is None or len(sizes) < len(shape):
        return 0
    return next(cut for cut in range(len(sizes) + 1) if prod(sizes[cut:]) <= _AT_ONCE)


def _proto(scope: Scope) -> Any:
    return scope.proto


def _complete(node: NodeProto, count: int) -> None:
    """Write out the outputs that a node leaves out at its end."""
    node.output.extend([""] * (count - len(node.output)))


def _names(holder: Any) -> Iterator[str]:
    if hasattr(holder, "initializer"):
        yield from names_in(holder)
        return
    yield from (*holder.input, *holder.output)
    yield from (name for node in holder.node for name in (*node.input, *node.output))
