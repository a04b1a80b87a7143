"""The segments of a converted model that have the new dtype, each compared with itself in float64.

A segment ends where few tensors cross, so that it stays small.  Segments with the same nodes are equal, and only the
one with the largest magnitudes runs.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from surgeon.connected_components import connected_components
from surgeon.errors import GraphError, UsageError
from surgeon.file.editable_model import EditableModel
from surgeon.file.model import Model
from surgeon.file.protobuf.payloads import marked
from surgeon.file.save import OutputModel
from surgeon.file.tensors.casting import cast_array, finite_limits
from surgeon.file.tensors.decoding import raw_size
from surgeon.ops.traits.dtype_traits import SELECTING
from surgeon.ops.traversal import bytes_without, holds_any, imports_of, names_read, subgraphs
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.upgrading.upgrade import upgrade_skeleton
from surgeon.precision.convert_report import SegmentProof
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.precision.measuring.baseline_runs import Arrays
from surgeon.precision.measuring.range_instrumentation import MAIN_GRAPH, ObservedRange, Tensor
from surgeon.precision.segments.activation_ranges import divides
from surgeon.precision.segments.matmul_blocks import can_split_columns, column_blocks, transposed_weights
from surgeon.precision.segments.nested_nodes import NestedNodes
from surgeon.precision.segments.segment_run import SegmentJob, severity
from surgeon.precision.writing.conversion_candidates import Candidate
from surgeon.proof.check_options import CheckOptions
from surgeon.runtime.function_inlining import node_label
from surgeon.runtime.implementations.implementation import export_registry, local_only_ops
from surgeon.runtime.numerics.rounding_perturbation import MIN_OPSET
from surgeon.runtime.processes import worker_pool
from surgeon.runtime.processes.worker import Task, TaskFailure, TaskOutcome
from surgeon.runtime.sessions.isolated_session import session_error_of

MIN_NODES = 16
"""The least nodes of a piece of a larger segment; a piece has up to three times as many."""
MAX_BYTES = 1 << 27
"""Bytes of weights that a segment may read to run."""
BLOCK_BYTES = 1 << 24
"""Bytes of columns in one run for a larger matrix: the reference takes many times as much memory."""
_PARTS = 64  # segments of a large model, about
_APART = SELECTING | {"Constant"}  # choosing nodes do not round, and later nodes run on the original's choice
_SMALL = 16  # elements of a stored tensor up to which equal segments must have equal values
_RUN = "surgeon.precision.segments.segment_run:compare_with_float64"


class CannotRun(Exception):
    """A segment cannot run by itself; the message is the reason."""


@dataclass(slots=True)
class Segment:
    """A segment: connected nodes of the converted model that are compared with float64 together."""

    nodes: list[NodeProto]
    """Its nodes in the converted model, in topological order."""
    places: list[NodeAddress]
    """The places of these nodes in the original."""
    most: float = 0.0
    """Largest magnitude that the original showed in its tensors."""
    made: set[str] = field(init=False)
    """Tensors that its nodes produce."""
    reads: list[str] = field(init=False)
    """Tensors that it reads from outside."""

    def __post_init__(self) -> None:
        self.made = {name for node in self.nodes for name in node.output if name}
        names = dict.fromkeys(name for node in self.nodes for name in names_read(node) if name)
        self.reads = [name for name in names if name not in self.made]

    def leading_to(self, output: str) -> list[int]:
        """The indices of the nodes that an inner tensor depends on."""
        wanted, found = {output}, list[int]()
        for at in reversed(range(len(self.nodes))):
            if not wanted.isdisjoint(self.nodes[at].output):
                wanted.update(names_read(self.nodes[at]))
                found.append(at)
        return found


class Segments:
    """The segments of a converted model's main graph in which a node rounds."""

    def __init__(self, built: Candidate, ranges: Mapping[Tensor, ObservedRange]) -> None:
        writer = built.writer
        self._sources, self._dtypes = writer.sources, writer.dtypes
        self._new, self._model = writer.new, built.draft.skeleton
        graph = self._model.graph
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._transposed = transposed_weights(graph)
        self._half = {name for name, dtype in self._dtypes.items() if dtype == self._new}
        self._uses = Counter(name for node in graph.node for name in set(names_read(node)))
        self._uses.update(value.name for value in graph.output)
        found = [
            (node, (MAIN_GRAPH, slot))
            for node, slot in zip(graph.node, writer.slots, strict=True)
            if slot is not None and node.op_type not in _APART and self._is_half(node)
        ]
        plan = built.plan
        rounding = {node_address(node) for node in plan.changed if plan.dtype_graph.ports[node].benefits}
        self._insides = NestedNodes(plan.dtype_graph.index)
        parts = (part for whole in self._joined(found) for part in self._cut(whole))
        # Nodes without consumers have no output to compare.
        self.parts = [part for part in parts if not rounding.isdisjoint(self.all_nodes(part)) and self._ends(part)]
        for part in self.parts:
            keys = [(MAIN_GRAPH, self._sources.get(name, name)) for name in (*part.reads, *part.made)]
            part.most = max((ranges[key].max_abs for key in keys if key in ranges), default=0.0)

    def _is_half(self, node: NodeProto) -> bool:
        return not self._half.isdisjoint(node.output) or not self._half.isdisjoint(names_read(node))

    def _joined(self, nodes: Sequence[tuple[NodeProto, NodeAddress]]) -> list[list[tuple[NodeProto, NodeAddress]]]:
        """Groups of nodes that are connected by tensors of the new dtype."""
        return [
            [nodes[at] for at in group] for group in connected_components(range(len(nodes)), self._handed_on(nodes))
        ]

    def _handed_on(self, nodes: Sequence[tuple[NodeProto, NodeAddress]]) -> Iterator[tuple[int, int]]:
        """Pairs of nodes, by index, of which one reads the other's output in the new dtype."""
        makers: dict[str, int] = {}
        for at, (node, _) in enumerate(nodes):
            yield from ((at, makers[name]) for name in names_read(node) if name in makers)
            makers.update((name, at) for name in node.output if name in self._half)

    def _cut(self, nodes: Sequence[tuple[NodeProto, NodeAddress]]) -> Iterator[Segment]:
        """A group in pieces: cut after nodes at which the fewest tensors cross, and before weights are too large."""
        least = max(MIN_NODES, -(-len(nodes) // _PARTS))
        last = {name: at for at, (node, _) in enumerate(nodes) for name in names_read(node)}
        start = 0
        while start < len(nodes):
            end = self._end_of_weights(nodes, start, start + 3 * least)
            if end - start >= 2 * least:
                alive = set[str]()
                crossing: list[tuple[int, int]] = []
                for at in range(start, min(start + 3 * least, end - 1)):
                    alive.update(name for name in nodes[at][0].output if name in self._half)
                    alive = {name for name in alive if last.get(name, -1) > at}
                    if at - start + 1 >= least:
                        crossing.append((len(alive), at + 1))
                end = min(crossing)[1]
            piece = nodes[start:end]
            yield Segment([node for node, _ in piece], [place for _, place in piece])
            start = end

    def _end_of_weights(self, nodes: Sequence[tuple[NodeProto, NodeAddress]], start: int, most: int) -> int:
        """The end of a piece for its weights, at least one node later; the number of nodes if not before `most`."""
        seen, size = set[str](), 0
        for at in range(start, min(most, len(nodes))):
            names = {self._transposed.get(name, name) for name in names_read(nodes[at][0])}
            new = self._stored.keys() & (names - seen)
            size += sum(raw_size(self._stored[name]) for name in new)
            if size > MAX_BYTES and at > start:
                return at
            seen |= new
        return len(nodes)

    def all_nodes(self, part: Segment, chosen: Iterable[int] | None = None) -> list[NodeAddress]:
        """The nodes of a segment, or those at these indices in it, with the nodes in their bodies and functions."""
        places = part.places if chosen is None else [part.places[at] for at in chosen]
        return [*places, *sorted(place for owner in places for place in self._insides.of(owner))]

    def equal_groups(self) -> list[list[Segment]]:
        """The segments in groups of equal ones."""
        found: defaultdict[Hashable, list[Segment]] = defaultdict(list)
        for part in self.parts:
            found[self._key(part)].append(part)
        return list(found.values())

    def _key(self, part: Segment) -> Hashable:
        """The content of a segment: its nodes and their connections, and values of small weights."""
        numbers: dict[str, int] = {}
        content: list[Hashable] = []
        for node in part.nodes:
            content.append(bytes_without(node, "name", "input", "output", "doc_string", "metadata_props"))
            content += [name and numbers.setdefault(name, len(numbers)) for name in (*node.input, "", *node.output)]
        for name in part.reads:
            tensor = self._weight(name)
            content += [self._dtypes.get(name), None if tensor is None else tuple(tensor.dims)]
            if tensor is not None and prod(tensor.dims) <= _SMALL:
                content.append(bytes_without(tensor, "name"))
        return tuple(content)

    def required_inputs(self, parts: Sequence[Segment]) -> list[str]:
        """The tensors of the original that the segments need as inputs."""
        names = (name for part in parts for name in part.reads if self._weight(name) is None)
        return list(dict.fromkeys(self._sources.get(name, name) for name in names))

    def _weight(self, name: str) -> TensorProto | None:
        """The stored tensor of a name, transposed or not."""
        return self._stored.get(self._transposed.get(name, name))

    def proofs(
        self, parts: Sequence[Segment], made: OutputModel, values: Arrays, options: CheckOptions
    ) -> list[SegmentProof]:
        """The proof of each segment.

        made: the converted model.  values: the required inputs in a run of the original, by its names.
        """
        # By index of a segment: the number of runs, or why there are none.
        counts, refused = Counter[int](), dict[int, str]()
        with Model.open(made) as opened:
            read = _ModelFile(opened, self._transposed)

            def tasks() -> Iterator[Task]:
                for place, part in enumerate(parts):
                    try:
                        for run in self._runs(part, read, values, options):
                            counts[place] += 1
                            yield Task(_RUN, run, options.proof_time)
                    except CannotRun as error:
                        refused[place] = str(error)

            answers = iter(worker_pool.run(tasks(), options.jobs or worker_pool.default_jobs()))
        found: list[SegmentProof] = []
        for place, part in enumerate(parts):
            results = [_result(next(answers), options) for _ in range(counts[place])]
            results += [{"why": refused[place]}] if place in refused else []
            found.append(self._proof(part, max(results, key=_severity)))
        return found

    def _runs(self, part: Segment, read: "_ModelFile", values: Arrays, options: CheckOptions) -> Iterator[SegmentJob]:
        """The jobs of a segment, mostly one.  Raises CannotRun."""
        stored = {name: tensor for name in part.reads if (tensor := self._weight(name)) is not None}
        size = sum(map(raw_size, stored.values())) + _inner_size([*part.nodes, *self._model.functions])
        free = [name for name in part.reads if name not in stored]
        if not all(self._sources.get(name, name) in values for name in free):
            raise CannotRun("an input is too large to keep in memory, or is not a tensor")
        elif size <= MAX_BYTES:
            weights = {name: read.array(name) for name in stored}
            yield self._run(part, read, weights, fed=self._fed(free, values), options=options)
        elif len(part.nodes) == 1 and can_split_columns(part.nodes[0], stored):
            weights = {name: read.array(name) for name in stored}
            for block in column_blocks(part.nodes[0], weights, BLOCK_BYTES):
                yield self._run(part, read, block, fed=self._fed(free, values), options=options)
        else:
            raise CannotRun(f"its weights take {size / 1e6:,.0f} MB; the limit is {MAX_BYTES / 1e6:,.0f} MB")

    def _run(
        self,
        part: Segment,
        read: "_ModelFile",
        weights: Mapping[str, np.ndarray],
        *,
        fed: Arrays,
        options: CheckOptions,
    ) -> SegmentJob:
        """A job of a segment with these weights.  Raises CannotRun."""
        ends, inner = self._ends(part), self._divided(part)
        shown = {*ends, *inner}
        graph = helper.make_graph(
            [read.whole(node) for node in part.nodes],
            "stretch",
            [helper.make_tensor_value_info(name, _dtype(array), array.shape) for name, array in fed.items()],
            [self._stated(name) for node in part.nodes for name in node.output if name in shown],
            initializer=[numpy_helper.from_array(array, name) for name, array in weights.items()],
        )
        model = ModelProto(ir_version=self._model.ir_version, graph=graph)
        model.opset_import.extend(self._model.opset_import)
        model.functions.extend(read.functions)
        if holds_any(model, local_only_ops(options.custom_ops)):
            raise CannotRun("one of its operators can run only in this process")
        try:
            newer = raised(model)
        except (GraphError, UsageError) as refused:
            why = f"the effect of rounding can be computed only from opset {MIN_OPSET}: {str(refused).rstrip('.')}"
            raise CannotRun(why) from refused
        return SegmentJob(
            model,
            fed,
            self._new,
            custom_ops=tuple(options.custom_ops),
            implementations=export_registry(options.custom_ops),
            upgraded_model=newer,
            activations=[name for name in fed if name in self._half] if inner else (),
            inner=frozenset(inner).difference(ends),
        )

    def _divided(self, part: Segment) -> list[str]:
        """Outputs of the new dtype of nodes that take a root or have a computed divisor."""
        nodes = (node for node in part.nodes if divides(node.op_type, node.input, self._stored))
        return [name for node in nodes if not node.domain for name in node.output if name in self._half]

    def _fed(self, names: Sequence[str], values: Arrays) -> Arrays:
        """The original's values as inputs of the converted model: fill values of masks are limited as there."""
        low = finite_limits(self._new)[0] / 2
        fed: Arrays = {}
        for name in names:
            array = values[self._sources.get(name, name)]
            if name in self._half:
                array = np.asarray(cast_array(np.maximum(array.astype(np.float64), low).astype(array.dtype), self._new))
            fed[name] = array
        return fed

    def _ends(self, part: Segment) -> list[str]:
        """The outputs of a segment."""
        own = Counter(name for node in part.nodes for name in set(names_read(node)))
        return [name for node in part.nodes for name in node.output if name and self._uses[name] > own[name]]

    def _proof(self, part: Segment, result: Mapping[str, Any]) -> SegmentProof:
        first, last = (self._sources.get(name, name) for name in map(node_label, (part.nodes[0], part.nodes[-1])))
        if "why" in result:
            return SegmentProof(first, last, len(part.nodes), reason=str(result["why"]))
        error, allowed = float(result["error"]), float(result["allowed"])
        return SegmentProof(first, last, len(part.nodes), error=error, allowed=allowed, far=result.get("far"))

    def _stated(self, name: str) -> ValueInfoProto:
        dtype = self._dtypes.get(name)
        return ValueInfoProto(name=name) if dtype is None else helper.make_tensor_value_info(name, dtype, None)


class _ModelFile:
    """Stored tensors, bodies and functions in the file of the converted model."""

    def __init__(self, model: Model, turned: Mapping[str, str]) -> None:
        """turned: stored matrices by the tensor that is their transpose."""
        self._draft, self._transposed = ModelDraft(model), turned
        self._weights = {tensor.name: tensor for tensor in self._draft.graph.initializer}
        holding = (node for node in self._draft.graph.node if any(True for _ in subgraphs(node)))
        self._nodes = {tuple(node.output): node for node in holding}

    def array(self, name: str) -> np.ndarray:
        """The value of a stored tensor, or of the transpose of one."""
        if name in self._transposed:
            return self.array(self._transposed[name]).T
        return self._draft.value(self._weights[name])

    @cached_property
    def functions(self) -> list[FunctionProto]:
        """All local functions."""
        return [
            FunctionProto.FromString(self._draft.serialize(function)) for function in self._draft.skeleton.functions
        ]

    def whole(self, node: NodeProto) -> NodeProto:
        """A node of the converted model with all its data."""
        found = self._nodes.get(tuple(node.output))
        return node if found is None else NodeProto.FromString(self._draft.serialize(found))


def _result(answer: TaskOutcome, options: CheckOptions) -> Mapping[str, Any]:
    """The result of a job."""
    if isinstance(answer, TaskFailure):
        return {"why": session_error_of(answer, options.proof_time).message.rstrip(".")}
    result: Mapping[str, Any] = answer.value
    return result


def _severity(result: Mapping[str, Any]) -> tuple[bool, tuple[float, ...]]:
    """Sort key of the results of a segment's blocks: one that did not run comes first."""
    return (True, ()) if "why" in result else (False, severity(float(result["error"]), float(result["allowed"])))


def _inner_size(messages: Iterable[NodeProto | FunctionProto]) -> int:
    """Bytes of weights inside of nodes and functions."""
    tensors = (tensor for message in messages for tensor in marked(message))
    return sum(raw_size(tensor) for tensor in tensors if tensor.data_type != TensorProto.STRING)


def raised(model: ModelProto) -> ModelProto | None:
    """A model at an opset that supports rounding perturbation, for an older one; None for others.

    Raises GraphError and UsageError if a node would have another meaning there.
    """
    if imports_of(model.opset_import).get("", 0) >= MIN_OPSET:
        return None
    with Model.open(model) as opened:
        draft = EditableModel(opened)
        upgrade_skeleton(draft, MIN_OPSET, "The segment")
        return draft.patch().to_proto()


def _dtype(array: np.ndarray) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))
