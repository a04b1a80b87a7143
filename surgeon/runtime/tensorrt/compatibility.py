"""Check a model with TensorRT: the errors of its parser for each node, and whether its builder can build an engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.runtime.inputs.consistent_sizes import ConsistentSizes
from surgeon.runtime.processes.worker import (
    ALL_MEMORY,
    Task,
    TaskFailure,
    TaskResult,
    Worker,
    acquire_worker,
    memory_limit,
    release_worker,
)
from surgeon.runtime.tensorrt.error_messages import FIXED_RANK, NEEDS_GPU, concerns_sizes, readable_reason
from surgeon.runtime.tensorrt.library import Library
from surgeon.runtime.tensorrt.parser_tasks import BuildRequest, NodeOutputs, ParseRequest, Shapes
from surgeon.shapes.constraints.input_dims import (
    DynamicDim,
    check_dim_names,
    dynamic_dims,
    evaluate,
    fallback_sets,
    input_dims,
    required_inputs,
    size_sets,
)

MODULE = "surgeon.runtime.tensorrt.parser_tasks"
MAX_ROUNDS = 64
"""How often a model is parsed again without rejected nodes, to find errors of later nodes too."""
MAX_PROFILES = 40
"""Sets of sizes to try if the builder reports that earlier sets do not fit the graph."""
LARGE = (512, 576, 1600, 16000)
"""Sizes of dims other than the batch, if smaller ones do not fit: audio models need a whole window of samples."""
CAPABILITIES = ("SM75", "SM80", "SM86", "SM89", "SM120", "SM121")
LARGE_BATCH = 64
NOTHING: Mapping[int, NodeOutputs] = {}
Range = tuple[int, int, int]
Behind = Callable[[int], tuple[int, NodeOutputs] | None]


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """A node, or a property of the network, that TensorRT rejects."""

    node: int | None
    """Number of the node in `surgeon.ops.traversal.nodes_of`; None for the network."""
    reason: str
    """A clause."""
    stage: str
    """One of "parse", "build", "sizes" (the builder accepts other sizes) or "gpu" (only a GPU can check it)."""
    call: int | None = None
    """Number of the node that calls the function of the rejected node."""


@dataclass(slots=True)
class CompatibilityReport:
    """TensorRT's report on a model."""

    faults: list[Incompatibility] = field(default_factory=list)
    """Rejected nodes; empty if TensorRT accepts the model."""
    is_whole: bool = True
    """Whether TensorRT checked every node."""
    layers: int = 0
    """Number of layers of the network."""
    engine_bytes: int = 0
    """Size of the engine; 0 without one."""
    seconds: float = 0.0
    """Processor time."""
    capability: str = ""
    """Capability of the engine's GPU, "SM86"."""
    sizes: dict[str, Range] = field(default_factory=dict)
    """Dynamic dims of the engine, as (smallest, optimal, largest)."""
    refused: list[Incompatibility] = field(default_factory=list)
    """Why earlier sizes were rejected."""
    undetermined: list[Incompatibility] = field(default_factory=list)
    """Nodes that TensorRT cannot check without a GPU."""
    stopped_because: str = ""
    """Why it did not finish; empty if it did."""


@dataclass(frozen=True, slots=True)
class CompatibilityCheck:
    """Settings to check models with a TensorRT library."""

    library: Library
    """The TensorRT to use."""
    run_time: float
    """Limit of processor time for one model, in seconds."""
    capability: str | None = None
    """GPU to build for, "SM86"; None to only parse."""
    dims: Mapping[str, Range] = field(default_factory=dict)
    """Dynamic dims as (smallest, optimal, largest)."""
    plugins: Sequence[str] = ()
    """Plugin libraries to load."""

    def run(
        self, model: Model, aside: Mapping[int, NodeOutputs] = NOTHING, behind: Behind = lambda _: None
    ) -> CompatibilityReport:
        """Check a model.

        Args:
            model: the model to parse.
            aside: nodes to leave out from the start, by number, with their outputs.
            behind: returns the node of the main graph to leave out for a rejected node, by number, with its outputs, so
                that the parser sees the nodes after it; None if these are not known.

        Returns:
            The report.  A library that ends its process, takes too long or needs too much memory is a fault.

        Raises:
            UsageError: a capability that TensorRT does not support, a size of a dim that the model does not have, or a
                library without plugins.
        """
        self._require_creators()
        said, left_out = CompatibilityReport(), dict(aside)
        for _ in range(MAX_ROUNDS):
            answer = self._run(said, "parse", self._source(model, left_out))
            if answer is None or not answer["faults"]:
                break
            new = [_fault(one, "parse") for one in answer["faults"]]
            said.faults += [one for one in new if one.stage != "gpu"]
            said.undetermined += [one for one in new if one.stage == "gpu"]
            found = [None if one.node is None else behind(one.node if one.call is None else one.call) for one in new]
            if None in found or said.seconds > self.run_time:
                said.is_whole = False
                break
            left_out.update(one for one in found if one is not None)
        if self.capability is not None and not said.faults and not left_out:
            self._build(said, model)
        return said

    def _require_creators(self) -> None:
        """Raise UsageError for a library without TensorRT plugins, because it would have no effect."""
        if not self.plugins or self.library.module is None:
            return
        child = Worker()  # a new worker, because a library that is already loaded would add no plugins
        try:
            asked = self.library.module, list(self.plugins)
            result = child.run(Task(f"{MODULE}:creators", asked, self.run_time, ALL_MEMORY))
        finally:
            child.end()
        if isinstance(result, TaskResult):
            reasons = dict(zip(self.plugins, result.value["reasons"], strict=True))
        else:
            at = (result.last_note or {}).get("library", self.plugins[0])
            reasons = {at: f"loading it ends the process{f' ({result.detail})' if result.detail else ''}"}
        for path, reason in reasons.items():
            if reason:
                title = self.library.title
                raise UsageError(f"{Path(path).name} is not a plugin library for {title}: {reason}.")

    def _build(self, said: CompatibilityReport, model: Model) -> None:
        """Build with the given sizes, or with the first ones that fit the graph."""
        said.capability = _capability(self.capability or "")
        source, first = self._source(model, {}), list[Incompatibility]()
        for profile, sizes in islice(profiles_of(model, self.dims), MAX_PROFILES):
            answer = self._run(said, "build", BuildRequest(source, profile, said.capability))
            if answer is None:
                return
            faults = [_fault(one, "build") for one in answer["faults"]]
            if not faults:
                said.sizes, said.engine_bytes = sizes, answer["engine"]
                said.refused = [Incompatibility(one.node, one.reason, "sizes") for one in first[:1]]
                return
            if not first or (_wants_rank(faults) and not _wants_rank(first)):  # a remedy exists for that
                first, said.sizes = faults, sizes
            if not any(concerns_sizes(one.reason) for one in faults):
                break
        said.faults += first

    def _source(self, model: Model, aside: Mapping[int, NodeOutputs]) -> ParseRequest:
        module = self.library.module
        assert module is not None, "a library that is installed"
        source = bytes(model.data) if model.path is None and not model.held else model.runnable()
        return ParseRequest(module, source, self.plugins, aside)

    def _run(self, said: CompatibilityReport, function: str, argument: Any) -> dict[str, Any] | None:
        """The result of one task; None if it failed, which adds a fault."""
        child = acquire_worker()
        result = child.run(Task(f"{MODULE}:{function}", argument, self.run_time, ALL_MEMORY))
        release_worker(child)
        if isinstance(result, TaskResult):
            said.seconds += result.seconds
            said.layers = result.value["layers"]
            return result.value
        fault = self._ended(result, function)
        said.faults.append(fault)
        said.is_whole, said.stopped_because = False, fault.reason
        return None

    def _ended(self, failure: TaskFailure, function: str) -> Incompatibility:
        noted = failure.last_note or {}
        at = noted.get("node", -1)
        what = {"parse": "TensorRT's parser", "build": "TensorRT's builder"}.get(noted.get("stage", ""), "TensorRT")
        if failure.cause in ("time", "clock"):
            reason = f"{what} takes more than {self.run_time:g} s. Give it more time: --run-time"
            return Incompatibility(None, f"{reason} {5 * self.run_time:g}", function)
        if failure.cause == "memory":
            limit = f"{memory_limit(ALL_MEMORY) / 1e9:.1f} GB"
            return Incompatibility(None, f"{what} needs more than {limit} of memory", function)
        how = f" ({failure.detail})" if failure.detail else ""
        return Incompatibility(at if at >= 0 else None, f"{what} ended its process{how}", function)


def profiles_of(model: Model, dims: Mapping[str, Range]) -> Iterator[tuple[dict[str, Shapes], dict[str, Range]]]:
    """Optimization profiles to try in turn: the shapes of each dynamic input, and the ranges of dynamic dims.

    Dims that are not given have one size.  Sets that fit most models come first.

    Raises:
        UsageError: a size of a dim that the model does not have, or a range out of order.
    """
    inputs = required_inputs(model.skeleton.graph)
    free = dynamic_dims(list(inputs.values()))
    check_dim_names(free, {name: sizes[1] for name, sizes in dims.items()})
    for name, sizes in dims.items():
        if list(sizes) != sorted(sizes) or sizes[0] < 0:
            raise UsageError(f"The sizes of {name!r} are not in order. Give the smallest, optimal and largest size.")
    ends = [{name: sizes[place] for name, sizes in dims.items()} for place in range(3)]
    sets = zip(*(_sets(model, free, end) for end in ends), strict=False)
    for points in sets:
        profile: dict[str, Shapes] = {}
        for name, value in inputs.items():
            shape = input_dims(value)
            if any(isinstance(size, str) for size in shape):
                least, best, largest = ([_size(size, point) for size in shape] for point in points)
                profile[name] = (least, best, largest)
        yield profile, {name: (points[0][name], points[1][name], points[2][name]) for name in free}


def _sets(model: Model, free: Mapping[str, DynamicDim], chosen: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """Sets of sizes to try in turn: usual ones, further ones, and large consistent ones."""
    usual, *others = size_sets(free, chosen)
    yield usual
    yield from ConsistentSizes(model, chosen).of([usual, *others])
    yield from others
    batches = [key for key, dim in free.items() if dim.kind() == "batch"]
    further = fallback_sets(free, chosen)
    yield from (sizes for sizes in further if all(sizes[key] < LARGE_BATCH for key in batches))
    large = [
        {key: chosen.get(key, batch if dim.kind() == "batch" else size) for key, dim in free.items()}
        for size in LARGE
        for batch in (1, 2)
    ]
    for sizes in large:
        yield from ConsistentSizes(model, chosen).of([sizes])
        yield sizes
    yield from (sizes for sizes in further if any(sizes[key] >= LARGE_BATCH for key in batches))


def _size(size: int | str, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    known = sizes.get(size)
    return known if known is not None else evaluate(size, sizes) or 1


def _capability(name: str) -> str:
    """TensorRT's name of a capability, given "86" or "SM86"."""
    found = f"SM{name.upper().removeprefix('SM')}"
    if found not in CAPABILITIES:
        listed = ", ".join(one.removeprefix("SM") for one in CAPABILITIES)
        raise UsageError(f"TensorRT does not support compute capability {name!r}. Choose one of {listed}.")
    return found


def _wants_rank(faults: Sequence[Incompatibility]) -> bool:
    """Whether the builder failed because it does not know which sizes are 1."""
    return any(FIXED_RANK in one.reason for one in faults)


def _fault(error: Mapping[str, Any], stage: str) -> Incompatibility:
    node, call = (number if number >= 0 else None for number in (error["node"], error.get("call", -1)))
    if error.get("needs_gpu"):
        return Incompatibility(node, NEEDS_GPU, "gpu", call)
    return Incompatibility(node, readable_reason(error["text"]), stage, call)
