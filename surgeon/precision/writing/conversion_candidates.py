"""Converted copies of one model: which nodes keep their dtype is said by place, so that each copy is made anew."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_model
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.precision.analyses.dtype_graph import DtypeGraph, TensorKey, Told
from surgeon.precision.analyses.mask_sentinels import MaskSentinels
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.precision.measuring.range_instrumentation import Tensor
from surgeon.precision.planning.dtype_plan import DtypePlan, plan_dtypes
from surgeon.precision.planning.node_dtypes import DtypeChange
from surgeon.precision.writing.apply_plan import DtypeWriter
from surgeon.precision.writing.function_specialization import specialize_functions

Io = Literal["keep", "convert"]


@dataclass(slots=True)
class KeptNodes:
    """The nodes and stored tensors that keep the old dtype."""

    nodes: dict[NodeAddress, tuple[str, str]] = field(default_factory=dict)
    """Kind of the reason and the reason, by node."""
    weights: dict[Tensor, str] = field(default_factory=dict)
    """Reasons by stored tensor."""

    def keep(self, place: NodeAddress, kind: str, reason: str) -> None:
        """Keep a node; the first reason stands."""
        self.nodes.setdefault(place, (kind, reason))

    def plus(self, places: Collection[NodeAddress]) -> "KeptNodes":
        """The same and these nodes beside, on trial."""
        return KeptNodes({**dict.fromkeys(places, ("", "tried")), **self.nodes}, self.weights)


@dataclass
class Candidate:
    """A converted model that is not written yet."""

    draft: ModelDraft
    """The converted copy."""
    plan: DtypePlan
    """The dtypes of its tensors."""
    writer: DtypeWriter
    """What wrote the plan into the draft."""
    weight_reasons: frozenset[str]
    """Reasons for which stored tensors keep the old dtype."""
    saturated: Sequence[str]
    """One sentence for each stored tensor that saturates."""

    def patch(self, output: Path | None) -> Patch:
        """The edits that make it of its source."""
        return self.draft.patch(output)


class CandidateBuilder:
    """One model, and how it is to be converted.

    saturate: of weights, what is too large.  on_gpu: whether a GPU is to run the result.  has_stale_value_info: whether
    what the file states of inner shapes is not what they are, so that it is left out: ONNX Runtime gives tensors of one
    stated size one place in memory.
    """

    def __init__(
        self, model: Model, change: DtypeChange, io: Io, *, saturate: bool, output: Path | None, on_gpu: bool = False
    ) -> None:
        self._model, self._change, self._io, self._on_gpu = model, change, io, on_gpu
        self._saturate, self._output = saturate, output
        self.has_stale_value_info = False
        self._next: DtypeGraph | None = None  # of the next copy, as nothing is written in it yet
        self._told: Told = {}

    @property
    def narrows(self) -> bool:
        """Whether the new dtype holds less than the old one."""
        return self._change.narrows

    def wiring(self) -> DtypeGraph:
        """Who makes and who reads each tensor, in the draft of the next copy; it changes once that is built."""
        self._next = self._next or self._wired()
        return self._next

    def _wired(self) -> DtypeGraph:
        """The wiring of a draft in which no function is called with two dtypes."""
        draft = ModelDraft(self._model)
        specialize_functions(draft, self._change.old)
        return DtypeGraph(draft, self._change, self._io, self._told)

    def build(self, keeping: KeptNodes, *, rounded: bool = False, only_fills: bool = False) -> Candidate:
        """Convert a copy.

        rounded: in the old dtype, with a rounding at each node.  only_fills: with nothing but its fills changed.
        """
        wiring, self._next = self.wiring(), None
        fills = MaskSentinels(wiring, saturate=self._saturate)
        pins = keeping.nodes
        by_node = {node: pins[place][1] for node in wiring.nodes() if (place := node_address(node)) in pins}
        unfit = {**fills.unfit, **self._unfit(wiring, keeping.weights)}
        plan = plan_dtypes(wiring, by_node, unfit, transposed_first=not self._on_gpu)
        writer = DtypeWriter(plan, fills.found, emulate_rounding=rounded, saturate=self._saturate)
        if only_fills:
            writer.write_sentinels()
        else:
            writer.write()
            if self.has_stale_value_info:
                del wiring.draft.graph.value_info[:]
        clamped = [told for key, told in fills.clamped.items() if plan.is_produced_new(wiring.tensors[key])]
        return Candidate(wiring.draft, plan, writer, weight_reasons=frozenset(unfit.values()), saturated=clamped)

    def _unfit(self, wiring: DtypeGraph, stored: Mapping[Tensor, str]) -> dict[TensorKey, str]:
        """Stored tensors by the scopes of this copy."""
        by_address = {scope.address: scope for scope in wiring.scopes} if stored else {}
        return {(by_address[address], name): reason for (address, name), reason in stored.items()}

    @contextmanager
    def as_file(self, built: Candidate) -> Iterator[OutputModel]:
        """A converted copy as a runtime reads it: as a file beside the source where that is one."""
        patch = built.patch(self._output)
        if self._model.path is None:
            yield patch.to_proto()
            return
        with temporary_model(self._model, patch, self._output) as path:
            yield path
