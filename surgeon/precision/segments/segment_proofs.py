"""The parts of a converted model that are of the new dtype, between Casts, and each held against itself in float64.

A stretch is cut where few tensors cross, so that it stays small; stretches of the same nodes are equal, and of those
the one with the largest numbers is run.
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
from surgeon.file.model import Model
from surgeon.file.protobuf.payloads import marked
from surgeon.file.save import OutputModel
from surgeon.file.tensors.casting import cast_array, finite_limits
from surgeon.file.tensors.decoding import raw_size
from surgeon.ops.traits.dtype_traits import SELECTING
from surgeon.ops.traversal import bytes_but, holds_any, imports_of, names_read, subgraphs
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.upgrading.upgrade import plan_upgrade
from surgeon.precision.convert_report import SegmentProof
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.precision.measuring.baseline_runs import Arrays
from surgeon.precision.measuring.range_instrumentation import MAIN_GRAPH, ObservedRange, Tensor
from surgeon.precision.segments.activation_ranges import divides
from surgeon.precision.segments.matmul_blocks import can_split_columns, column_blocks, transposed_weights
from surgeon.precision.segments.nested_nodes import NestedNodes
from surgeon.precision.segments.segment_run import SegmentJob, harm
from surgeon.precision.writing.conversion_candidates import Candidate
from surgeon.proof.check_options import CheckOptions
from surgeon.runtime.function_inlining import node_label
from surgeon.runtime.implementations.implementation import export_registry, local_only_ops
from surgeon.runtime.numerics.rounding_perturbation import LEAST_OPSET
from surgeon.runtime.processes import worker_pool
from surgeon.runtime.processes.worker import Task, TaskFailure, TaskOutcome
from surgeon.runtime.sessions.isolated_session import session_error_of

LEAST = 16
"""Nodes of a stretch that is cut off a larger one; it has up to three times as many."""
MOST_BYTES = 1 << 27
"""Of weights that a stretch which is run may read."""
BLOCK_BYTES = 1 << 24
"""Of columns that are run at once of a matrix that is larger: the reference takes many times as much."""
_PARTS = 64  # stretches that a large model is cut into, about, whatever it holds
_APART = SELECTING | {"Constant"}  # what chooses rounds nothing, and what is behind it runs on the original's choice
_SMALL = 16  # elements of a stored tensor whose values are compared where two stretches are
_RUN = "surgeon.precision.segments.segment_run:hold"


@dataclass(slots=True)
class Stretch:
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
        """Which of the nodes an output of one of them follows from."""
        wanted, found = {output}, list[int]()
        for at in reversed(range(len(self.nodes))):
            if not wanted.isdisjoint(self.nodes[at].output):
                wanted.update(names_read(self.nodes[at]))
                found.append(at)
        return found


class Segments:
    """The stretches of a converted model's main graph in which anything is rounded."""

    def __init__(self, built: Candidate, ranges: Mapping[Tensor, ObservedRange]) -> None:
        writer = built.writer
        self._sources, self._dtypes = writer.sources, writer.dtypes
        self._new, self._model = writer.new, built.draft.skeleton
        graph = self._model.graph
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._turned = transposed_weights(graph)
        self._half = {name for name, dtype in self._dtypes.items() if dtype == self._new}
        self._uses = Counter(name for node in graph.node for name in set(names_read(node)))
        self._uses.update(value.name for value in graph.output)
        found = [
            (node, (MAIN_GRAPH, slot))
            for node, slot in zip(graph.node, writer.slots, strict=True)
            if slot is not None and node.op_type not in _APART and self._is_half(node)
        ]
        plan = built.plan
        rounding = {node_address(node) for node in plan.changed if plan.wiring.ports[node].benefits}
        self._insides = NestedNodes(plan.wiring.index)
        parts = (part for whole in self._joined(found) for part in self._cut(whole))
        # Of nodes that nobody reads there is nothing to hold against anything.
        self.parts = [part for part in parts if not rounding.isdisjoint(self.all_nodes(part)) and self._ends(part)]
        for part in self.parts:
            keys = [(MAIN_GRAPH, self._sources.get(name, name)) for name in (*part.reads, *part.made)]
            part.most = max((ranges[key].max_abs for key in keys if key in ranges), default=0.0)

    def _is_half(self, node: NodeProto) -> bool:
        return not self._half.isdisjoint(node.output) or not self._half.isdisjoint(names_read(node))

    def _joined(self, nodes: Sequence[tuple[NodeProto, NodeAddress]]) -> list[list[tuple[NodeProto, NodeAddress]]]:
        """The nodes that hand each other tensors of the new dtype, together."""
        return [
            [nodes[at] for at in group] for group in connected_components(range(len(nodes)), self._handed_on(nodes))
        ]

    def _handed_on(self, nodes: Sequence[tuple[NodeProto, NodeAddress]]) -> Iterator[tuple[int, int]]:
        """Pairs of nodes, by their places, of which one makes what the other reads in the new dtype."""
        makers: dict[str, int] = {}
        for at, (node, _) in enumerate(nodes):
            yield from ((at, makers[name]) for name in names_read(node) if name in makers)
            makers.update((name, at) for name in node.output if name in self._half)

    def _cut(self, nodes: Sequence[tuple[NodeProto, NodeAddress]]) -> Iterator[Stretch]:
        """A stretch in pieces: cut behind the nodes where the fewest tensors cross, and before weights are too much."""
        least = max(LEAST, -(-len(nodes) // _PARTS))
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
            yield Stretch([node for node, _ in piece], [place for _, place in piece])
            start = end

    def _end_of_weights(self, nodes: Sequence[tuple[NodeProto, NodeAddress]], start: int, most: int) -> int:
        """Where a piece that starts here ends for its weights, a node later at least; all nodes where not by `most`."""
        seen, size = set[str](), 0
        for at in range(start, min(most, len(nodes))):
            names = {self._turned.get(name, name) for name in names_read(nodes[at][0])}
            new = self._stored.keys() & (names - seen)
            size += sum(raw_size(self._stored[name]) for name in new)
            if size > MOST_BYTES and at > start:
                return at
            seen |= new
        return len(nodes)

    def all_nodes(self, part: Stretch, chosen: Iterable[int] | None = None) -> list[NodeAddress]:
        """The nodes of a stretch, or those of them at these places in it; and those in their bodies and functions."""
        places = part.places if chosen is None else [part.places[at] for at in chosen]
        return [*places, *sorted(place for owner in places for place in self._insides.of(owner))]

    def equal_groups(self) -> list[list[Stretch]]:
        """The parts, those that are equal together."""
        found: defaultdict[Hashable, list[Stretch]] = defaultdict(list)
        for part in self.parts:
            found[self._key(part)].append(part)
        return list(found.values())

    def _key(self, part: Stretch) -> Hashable:
        """What tells parts apart: their nodes and how they hang together, and what is small of the weights."""
        numbers: dict[str, int] = {}
        told: list[Hashable] = []
        for node in part.nodes:
            told.append(bytes_but(node, "name", "input", "output", "doc_string", "metadata_props"))
            told += [name and numbers.setdefault(name, len(numbers)) for name in (*node.input, "", *node.output)]
        for name in part.reads:
            tensor = self._weight(name)
            told += [self._dtypes.get(name), None if tensor is None else tuple(tensor.dims)]
            if tensor is not None and prod(tensor.dims) <= _SMALL:
                told.append(bytes_but(tensor, "name"))
        return tuple(told)

    def required_inputs(self, parts: Sequence[Stretch]) -> list[str]:
        """The tensors of the original that parts are fed with."""
        names = (name for part in parts for name in part.reads if self._weight(name) is None)
        return list(dict.fromkeys(self._sources.get(name, name) for name in names))

    def _weight(self, name: str) -> TensorProto | None:
        """The stored tensor that a name stands for, its axes swapped or not."""
        return self._stored.get(self._turned.get(name, name))

    def proofs(
        self, parts: Sequence[Stretch], made: OutputModel, held: Arrays, options: CheckOptions
    ) -> list[SegmentProof]:
        """What came of each part.

        made: the converted model.  held: what the tensors that parts need were in a run of the original, by its names.
        """
        counts, refused = Counter[int](), dict[int, str]()  # by the place of a part: its runs, or why there are none
        with Model.open(made) as opened:
            read = _InFile(opened, self._turned)

            def tasks() -> Iterator[Task]:
                for place, part in enumerate(parts):
                    for run in self._runs(part, read, held, options):
                        if isinstance(run, str):
                            refused[place] = run
                            break
                        counts[place] += 1
                        yield Task(_RUN, run, options.proof_time)

            answers = iter(worker_pool.run(tasks(), options.jobs or worker_pool.default_jobs()))
        found: list[SegmentProof] = []
        for place, part in enumerate(parts):
            told = [_told(next(answers), options) for _ in range(counts[place])]
            told += [{"why": refused[place]}] if place in refused else []
            found.append(self._proof(part, max(told, key=_harm)))
        return found

    def _runs(
        self, part: Stretch, read: "_InFile", held: Arrays, options: CheckOptions
    ) -> Iterator[SegmentJob | str]:
        """The runs that show what a part is, one in most cases; or why it cannot be run, before any."""
        stored = {name: tensor for name in part.reads if (tensor := self._weight(name)) is not None}
        size = sum(map(raw_size, stored.values())) + _inner_size([*part.nodes, *self._model.functions])
        free = [name for name in part.reads if name not in stored]
        if not all(self._sources.get(name, name) in held for name in free):
            yield "what it reads is too large to be held, or no tensor"
        elif size <= MOST_BYTES:
            yield self._run(
                part, read, {name: read.array(name) for name in stored}, fed=self._fed(free, held), options=options
            )
        elif len(part.nodes) == 1 and can_split_columns(part.nodes[0], stored):
            weights = {name: read.array(name) for name in stored}
            for block in column_blocks(part.nodes[0], weights, BLOCK_BYTES):
                yield self._run(part, read, block, fed=self._fed(free, held), options=options)
        else:
            yield f"its weights take {size / 1e6:,.0f} MB, and {MOST_BYTES / 1e6:,.0f} is the most"

    def _run(
        self,
        part: Stretch,
        read: "_InFile",
        weights: Mapping[str, np.ndarray],
        fed: Arrays,
        options: CheckOptions,
    ) -> SegmentJob | str:
        """A run of a part with these weights, or why there is none."""
        ends, inner = self._ends(part), self._divided(part)
        shown = {*ends, *inner}
        graph = helper.make_graph(
            [read.whole(node) for node in part.nodes],
            "stretch",
            [helper.make_tensor_value_info(name, _dtype(array), array.shape) for name, array in fed.items()],
            outputs=[self._stated(name) for node in part.nodes for name in node.output if name in shown],
            initializer=[numpy_helper.from_array(array, name) for name, array in weights.items()],
        )
        model = ModelProto(ir_version=self._model.ir_version, graph=graph)
        model.opset_import.extend(self._model.opset_import)
        model.functions.extend(read.functions)
        if holds_any(model, local_only_ops(options.custom_ops)):
            return "an operator in it is computed in this process alone"
        try:
            newer = raised(model)
        except (GraphError, UsageError) as refused:
            return f"what roundings explain is told from opset {LEAST_OPSET} on: {str(refused).rstrip('.')}"
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

    def _divided(self, part: Stretch) -> list[str]:
        """What nodes of a part make that take a root, or divide by what is computed, in the new dtype."""
        nodes = (node for node in part.nodes if divides(node.op_type, node.input, self._stored))
        return [name for node in nodes if not node.domain for name in node.output if name in self._half]

    def _fed(self, names: Sequence[str], values: Arrays) -> Arrays:
        """What the original's tensors are in the converted model: fills of masks are no lower than they are there."""
        low = finite_limits(self._new)[0] / 2
        fed: Arrays = {}
        for name in names:
            array = values[self._sources.get(name, name)]
            if name in self._half:
                array = np.asarray(cast_array(np.maximum(array.astype(np.float64), low).astype(array.dtype), self._new))
            fed[name] = array
        return fed

    def _ends(self, part: Stretch) -> list[str]:
        """What a part hands on."""
        own = Counter(name for node in part.nodes for name in set(names_read(node)))
        return [name for node in part.nodes for name in node.output if name and self._uses[name] > own[name]]

    def _proof(self, part: Stretch, told: Mapping[str, Any]) -> SegmentProof:
        first, last = (self._sources.get(name, name) for name in map(node_label, (part.nodes[0], part.nodes[-1])))
        if "why" in told:
            return SegmentProof(first, last, len(part.nodes), reason=str(told["why"]))
        error, allowed = float(told["error"]), float(told["allowed"])
        return SegmentProof(first, last, len(part.nodes), error=error, allowed=allowed, far=told.get("far"))

    def _stated(self, name: str) -> ValueInfoProto:
        dtype = self._dtypes.get(name)
        return ValueInfoProto(name=name) if dtype is None else helper.make_tensor_value_info(name, dtype, None)


class _InFile:
    """What stretches take from the file of the converted model: stored tensors, bodies and functions with theirs."""

    def __init__(self, model: Model, turned: Mapping[str, str]) -> None:
        """turned: of tensors that are stored matrices with their axes swapped, those."""
        self._draft, self._turned = ModelDraft(model), turned
        self._weights = {tensor.name: tensor for tensor in self._draft.graph.initializer}
        holding = (node for node in self._draft.graph.node if any(True for _ in subgraphs(node)))
        self._nodes = {tuple(node.output): node for node in holding}

    def array(self, name: str) -> np.ndarray:
        """What a stored tensor holds, or one that is such with its axes swapped."""
        if name in self._turned:
            return self.array(self._turned[name]).T
        return self._draft.value(self._weights[name])

    @cached_property
    def functions(self) -> list[FunctionProto]:
        """All local functions."""
        return [
            FunctionProto.FromString(self._draft.serialize(function)) for function in self._draft.skeleton.functions
        ]

    def whole(self, node: NodeProto) -> NodeProto:
        """A node of the converted model as its file has it."""
        found = self._nodes.get(tuple(node.output))
        return node if found is None else NodeProto.FromString(self._draft.serialize(found))


def _told(answer: TaskOutcome, options: CheckOptions) -> Mapping[str, Any]:
    """What came of a run."""
    if isinstance(answer, TaskFailure):
        return {"why": session_error_of(answer, options.proof_time).message.rstrip(".")}
    told: Mapping[str, Any] = answer.value
    return told


def _harm(told: Mapping[str, Any]) -> tuple[bool, tuple[float, ...]]:
    """By which of the blocks of one part the worst comes first: one that did not run goes before all others."""
    return (True, ()) if "why" in told else (False, harm(float(told["error"]), float(told["allowed"])))


def _inner_size(messages: Iterable[NodeProto | FunctionProto]) -> int:
    """How many bytes of weights nodes and functions hold themselves."""
    tensors = (tensor for message in messages for tensor in marked(message))
    return sum(raw_size(tensor) for tensor in tensors if tensor.data_type != TensorProto.STRING)


def raised(model: ModelProto) -> ModelProto | None:
    """A model of an opset in which roundings can be told, for one that is older; None for all others.

    Raises GraphError and UsageError where a node would mean something else there.
    """
    if imports_of(model.opset_import).get("", 0) >= LEAST_OPSET:
        return None
    with Model.open(model) as opened:
        _, patch = plan_upgrade(opened, LEAST_OPSET, "The stretch", "")
        return patch.to_proto()


def _dtype(array: np.ndarray) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


