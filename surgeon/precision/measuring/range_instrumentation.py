"""A model with probes: additional nodes that measure the range of each inner tensor in a few numbers.

Fetching the tensors themselves would take as much memory and time as they do.  Ranges inside of If, Loop, Scan and
local functions come out by additional outputs: the largest of all turns and calls.
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
from surgeon.ops.traits.dtype_traits import SEQUENCE_LOOPS
from surgeon.ops.traits.trait_lookup import BRANCHES, LOOPS, WITH_BODIES
from surgeon.ops.traversal import graphs_and_functions
from surgeon.pipeline.editing.draft import ModelDraft, names_in
from surgeon.shapes.index_shapes import shapes_of

INFINITY = float("inf")
FIRST_OPSET = 9
"""The least opset of ai.onnx that has all operators of the probes."""
MAIN_GRAPH: Address = ((7, 0),)
"""The address of the main graph."""
Tensor = tuple[Address, str]
"""A tensor of any graph, body or function of a model: the address of that, and the name there."""
_HIGHS, _MEANS = ("most", "above", "least"), ("mean", "square")
_AT_ONCE = 1 << 23  # elements that are measured together
_RANK = 8  # dims that are reported of a tensor inside of a body
_NOTHING: dict[int, np.ndarray] = {
    TensorProto.FLOAT: np.array([0.0, 0.0, -INFINITY, 0.0, 0.0], np.float32),
    TensorProto.INT64: np.zeros(1 + _RANK, np.int64),
}
"""The probe of a branch or a loop that never ran, by dtype: its numbers, and its shape after the rank."""
_FIRST_INNER = 11  # least opset of ai.onnx for probes in bodies: negative indices
_AXES_READ = 18  # opset of ai.onnx from which axes of ReduceMax are an input


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
        """Add the numbers of a run, in the order of the fields."""
        most, above, least, mean, square = [INFINITY if np.isnan(number) else float(number) for number in numbers]
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


class RangeProbe(NamedTuple):
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
    """The additional outputs of a model with probes."""

    def __init__(self, probes: Sequence[RangeProbe]) -> None:
        self._probes = probes

    @property
    def names(self) -> list[str]:
        """Names of all of these outputs."""
        return [name for probe in self._probes for name in (probe.numbers, probe.shape)]

    def read(self, answer: Mapping[str, np.ndarray], found: dict[Tensor, ObservedRange]) -> dict[str, Sequence[int]]:
        """Add the outputs of a run to the ranges; return the shapes of the tensors of the main graph."""
        shapes: dict[str, Sequence[int]] = {}
        for probe in self._probes:
            if probe.numbers not in answer or probe.shape not in answer:
                continue
            sizes = tuple(map(int, answer[probe.shape]))
            if probe.is_inner:
                sizes = sizes[max(1 + _RANK - sizes[0], 1) :]
            else:
                shapes[probe.tensor[1]] = sizes
            most, above, least, mean, square = answer[probe.numbers].tolist()
            found.setdefault(probe.tensor, ObservedRange()).add((most, above, -least, mean, square), sizes)
        return shapes


@contextmanager
def instrumented(
    model: OutputModel, tensors: Collection[Tensor], low: float
) -> Iterator[tuple[OutputModel, ProbeOutputs]]:
    """Give the model with probes at these floats.  low: the number below which an element is a mask's fill.

    A model in a file is copied to its folder until the end of the block.
    """
    with Model.open(model) as opened:
        draft = ModelDraft(opened)
        probed = ProbeOutputs(_ProbeWriter(draft, tensors, low).put())
        patch = draft.patch()
        if isinstance(model, Path):
            with temporary_model(opened, lambda _: patch, None) as path:
                yield path, probed
        else:
            yield patch.to_proto(), probed


class _ProbeWriter:
    """Writes probes into a draft: inner scopes first, whose outputs the outer ones hand on."""

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
        self._of_functions: dict[Scope, list[RangeProbe]] = {}

    def put(self) -> list[RangeProbe]:
        """Add the probes; return those that the main graph outputs."""
        probes, graph = self._scope(self._index.main), self._draft.graph
        for probe in probes:
            for name, kind in ((probe.numbers, TensorProto.FLOAT), (probe.shape, TensorProto.INT64)):
                graph.output.append(helper.make_tensor_value_info(name, kind, [None]))
        return probes

    def _scope(self, scope: Scope) -> list[RangeProbe]:
        """Add probes to a scope and all below it; return those that can be read at its end."""
        probes: list[RangeProbe] = []
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
                probes += self._through_call(node, called)
            elif node in bodies:
                probes += self._through_bodies(node, bodies[node], more)
            for name in node.outputs:
                if name in wanted:
                    probe = RangeProbe((scope.address, name), *self._pair())
                    probes.append(probe)
                    more += self._nodes(probe, scope)
            if more:
                behind[node.slot] = more
        if probes:
            self._insert(scope, behind)
        return probes

    def _insert(self, scope: Scope, behind: Mapping[int, list[NodeProto]]) -> None:
        proto: Any = scope.proto
        nodes = list(self._constants()) if scope.is_function or scope.parent is None else []
        for slot, node in enumerate(proto.node):
            copy = NodeProto()
            copy.CopyFrom(node)
            nodes += [copy, *behind.get(slot, ())]
        del proto.node[:]
        proto.node.extend(nodes)

    def _through_call(self, node: Node, function: Scope) -> list[RangeProbe]:
        """Give a call the outputs of its function's probes."""
        if function not in self._of_functions:
            self._of_functions[function] = []  # for recursion, which no runnable model has
            is_new = function.versions.get("", 0) >= _FIRST_INNER
            probes = self._widened(function, self._scope(function) if is_new else [])
            _proto(function).output.extend(name for probe in probes for name in (probe.numbers, probe.shape))
            self._of_functions[function] = probes
        found = [RangeProbe(probe.tensor, *self._pair(), is_inner=True) for probe in self._of_functions[function]]
        _complete(node.proto, len(_proto(function).output) - 2 * len(found))
        node.proto.output.extend(name for probe in found for name in (probe.numbers, probe.shape))
        return found

    def _through_bodies(self, node: Node, bodies: Sequence[Scope], behind: list[NodeProto]) -> list[RangeProbe]:
        """Give an If, Loop or Scan the outputs of its bodies' probes, the largest of all turns."""
        if node.op not in WITH_BODIES - SEQUENCE_LOOPS or node.scope.versions.get("", 0) < _FIRST_INNER:
            return []
        _complete(node.proto, len(_proto(bodies[0]).output) - (node.op in LOOPS))
        by_body = [self._widened(body, self._scope(body)) for body in bodies]
        found: list[RangeProbe] = []
        for place, probes in enumerate(by_body):
            for probe in probes:
                made = RangeProbe(probe.tensor, *self._pair(), is_inner=True)
                pairs = (probe.numbers, made.numbers), (probe.shape, made.shape)
                for kind, (inner, outer) in zip(_NOTHING, pairs, strict=True):
                    for other, body in enumerate(bodies):
                        name = inner if other == place else self._nothing(body, kind)
                        graph: Any = body.proto
                        graph.output.append(helper.make_tensor_value_info(name, kind, [None]))
                    out = outer if node.op in BRANCHES else f"{outer}:turns"
                    node.proto.output.append(out)
                    if node.op not in BRANCHES:
                        behind += self._over_turns(out, outer, kind, node.scope.versions.get("", 0))
                found.append(made)
        for item in node.proto.attribute:
            if item.name in ("scan_output_axes", "scan_output_directions"):
                item.ints.extend([0] * (2 * len(found)))
        return found

    def _widened(self, scope: Scope, probes: Sequence[RangeProbe]) -> list[RangeProbe]:
        """The probes of a scope with shapes of one length, whose nodes come after all others."""
        proto: Any = scope.proto
        found: list[RangeProbe] = []
        for probe in probes:
            if not probe.is_inner:
                made = probe._replace(shape=f"{probe.shape}:long", is_inner=True)
                proto.node.extend(self._lengthened(probe.shape, made.shape))
                probe = made
            found.append(probe)
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
        """The name of an empty probe in a body without this one."""
        name = self._pair()[0]
        proto: Any = body.proto
        proto.node.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(_NOTHING[kind])))
        return name

    def _lengthened(self, shape: str, long: str) -> Iterator[NodeProto]:
        """A shape padded with ones to a fixed length, after the rank."""
        p = self._prefix
        yield helper.make_node("Shape", [shape], [f"{long}:rank"])
        yield helper.make_node("Concat", [f"{p}:ones", shape], [f"{long}:led"], axis=0)
        yield helper.make_node("Gather", [f"{long}:led", f"{p}:places"], [f"{long}:last"])
        yield helper.make_node("Concat", [f"{long}:rank", f"{long}:last"], [long], axis=0)

    def _over_turns(self, turns: str, made: str, kind: int, opset: int) -> Iterator[NodeProto]:
        """The largest of all turns; an empty probe for no turns."""
        yield helper.make_node("Concat", [f"{self._prefix}:nothing{kind}", turns], [f"{made}:all"], axis=0)
        yield self._over_first("ReduceMax", f"{made}:all", made, opset)

    def _over_first(self, op: str, source: str, made: str, opset: int) -> NodeProto:
        """A reduction over the first axis."""
        if opset >= _AXES_READ:
            return helper.make_node(op, [source, f"{self._prefix}:first"], [made], keepdims=0)
        return helper.make_node(op, [source], [made], keepdims=0, axes=[0])

    def _nodes(self, probe: RangeProbe, scope: Scope) -> Iterator[NodeProto]:
        """The nodes of one probe.  The least magnitude is negated."""
        name = probe.tensor[1]
        highs, means = (f"{probe.numbers}:{kind}" for kind in ("highs", "means"))
        yield helper.make_node("Shape", [name], [probe.shape])
        cut, dtype = _cut_of(self._shapes.shape(scope, name)), self._shapes.dtype(scope, name)
        if not cut or dtype is None:
            yield from self._measured(name, probe.numbers, highs, means)
        else:
            part, slices = f"{probe.numbers}:slice", f"{probe.numbers}:slices"
            yield helper.make_node("Flatten", [name], [slices], axis=cut)
            yield from self._by_slices(slices, part, dtype, made=(highs, means), opset=scope.versions.get("", 0))
        yield helper.make_node("Concat", [highs, means], [probe.numbers], axis=0)

    def _by_slices(
        self, slices: str, part: str, dtype: int, *, made: tuple[str, str], opset: int
    ) -> Iterator[NodeProto]:
        """The same for each slice in turn, so that only one slice is copied at a time."""
        inner, turns = ([f"{one}:{step}" for one in made] for step in ("slice", "turns"))
        inputs = [helper.make_tensor_value_info(part, dtype, None)]
        outputs = [helper.make_tensor_value_info(one, TensorProto.FLOAT, [None]) for one in inner]
        body = helper.make_graph(list(self._measured(part, part, *inner)), f"{part}:body", inputs, outputs)
        yield helper.make_node("Scan", [slices], turns, body=body, num_scan_inputs=1)
        for op, source, target in zip(("ReduceMax", "ReduceMean"), turns, made, strict=True):
            yield self._over_first(op, source, target, opset)

    def _measured(self, name: str, prefix: str, highs: str, means: str) -> Iterator[NodeProto]:
        """The largest magnitudes and the means of a tensor; non-finite elements count as zero."""

        def of(step: str) -> str:
            return f"{prefix}:{step}"

        def constant(step: str) -> str:
            return f"{self._prefix}:{step}"

        def reduced(step: str, op: str, source: str) -> Iterator[NodeProto]:
            yield helper.make_node(op, [of(source)], [of(f"{step}!")], keepdims=0)
            yield helper.make_node("Reshape", [of(f"{step}!"), constant("one")], [of(step)])

        # Each temporary of the tensor's size is consumed at once, so that few are in memory.
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
        for steps, made in ((_HIGHS, highs), (_MEANS, means)):
            yield helper.make_node("Concat", [of(step) for step in steps], [made], axis=0)


def _cut_of(shape: Sequence[object] | None) -> int:
    """The number of leading axes before slices of at most `_AT_ONCE` elements; 0 if the tensor is not larger.

    Dynamic sizes are small in a trial.
    """
    sizes = [size for size in shape or () if isinstance(size, int)]
    if shape is None or len(sizes) < len(shape):
        return 0
    return next(cut for cut in range(len(sizes) + 1) if prod(sizes[cut:]) <= _AT_ONCE)


def _proto(scope: Scope) -> Any:
    return scope.proto


def _complete(node: NodeProto, count: int) -> None:
    """Make the omitted trailing outputs of a node explicit."""
    node.output.extend([""] * (count - len(node.output)))


def _names(holder: Any) -> Iterator[str]:
    if hasattr(holder, "initializer"):
        yield from names_in(holder)
        return
    yield from (*holder.input, *holder.output)
    yield from (name for node in holder.node for name in (*node.input, *node.output))
