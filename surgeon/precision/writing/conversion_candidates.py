"""Converted copies of one model; kept nodes are given by place, because each copy is built anew."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from surgeon.file.model import Model
from surgeon.file.save import OutputModel
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.precision.analyses.dtype_graph import DtypeGraph, KnownDtypes, TensorKey
from surgeon.precision.analyses.mask_sentinels import MaskSentinels
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.precision.measuring.range_instrumentation import Tensor
from surgeon.precision.planning.dtype_plan import DtypePlan, plan_dtypes
from surgeon.precision.planning.node_dtypes import DtypeChange
from surgeon.precision.writing.apply_plan import DtypeWriter
from surgeon.precision.writing.draft_file import draft_as_file
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
        """Keep a node; the first reason stays."""
        self.nodes.setdefault(place, (kind, reason))

    def plus(self, places: Collection[NodeAddress]) -> "KeptNodes":
        """The same with these nodes kept on trial."""
        return KeptNodes({**dict.fromkeys(places, ("", "tried")), **self.nodes}, self.weights)


@dataclass
class Candidate:
    """A converted model that is not written yet."""

    draft: ModelDraft
    """The converted copy."""
    plan: DtypePlan
    """The dtypes of its tensors."""
    writer: DtypeWriter
    """The writer of the plan into the draft."""
    weight_reasons: frozenset[str]
    """Reasons for which stored tensors keep the old dtype."""
    saturated: Sequence[str]
    """One sentence for each stored tensor that saturates."""


class CandidateBuilder:
    """One model, and the settings of its conversion.

    saturate: large weights saturate.  on_gpu: whether a GPU will run the result.  has_stale_value_info: whether stated
    inner shapes are wrong, so that they are removed: ONNX Runtime shares memory between tensors of equal stated size.
    """

    def __init__(
        self, model: Model, change: DtypeChange, io: Io, *, saturate: bool, output: Path | None, on_gpu: bool = False
    ) -> None:
        self._model, self._change, self._io, self._on_gpu = model, change, io, on_gpu
        self._saturate, self._output = saturate, output
        self.has_stale_value_info = False
        self._next: DtypeGraph | None = None  # of the next copy, not changed yet
        self._told: KnownDtypes = {}

    @property
    def narrows(self) -> bool:
        """Whether the new dtype holds less than the old one."""
        return self._change.narrows

    def dtype_graph(self) -> DtypeGraph:
        """The graph of the next copy; it changes once that copy is built."""
        self._next = self._next or self._new_graph()
        return self._next

    def _new_graph(self) -> DtypeGraph:
        """The graph of a draft in which no function is called with two dtypes."""
        draft = ModelDraft(self._model)
        specialize_functions(draft, self._change.old)
        return DtypeGraph(draft, self._change, self._io, self._told)

    def build(self, kept_nodes: KeptNodes, *, rounded: bool = False, only_sentinels: bool = False) -> Candidate:
        """Convert a copy.

        rounded: in the old dtype, with a rounding at each node.  only_sentinels: change only its sentinels.
        """
        dtype_graph, self._next = self.dtype_graph(), None
        sentinels = MaskSentinels(dtype_graph, saturate=self._saturate)
        kept = kept_nodes.nodes
        by_node = {node: kept[place][1] for node in dtype_graph.nodes() if (place := node_address(node)) in kept}
        misfits = {**sentinels.misfits, **self._by_scope(dtype_graph, kept_nodes.weights)}
        plan = plan_dtypes(dtype_graph, by_node, misfits, transposed_first=not self._on_gpu)
        writer = DtypeWriter(plan, sentinels.found, emulate_rounding=rounded, saturate=self._saturate)
        if only_sentinels:
            writer.write_sentinels()
        else:
            writer.write()
            if self.has_stale_value_info:
                del dtype_graph.draft.graph.value_info[:]
        clamped = [
            sentence for key, sentence in sentinels.clamped.items() if plan.is_produced_new(dtype_graph.tensors[key])
        ]
        reasons = frozenset(misfits.values())
        return Candidate(dtype_graph.draft, plan, writer, weight_reasons=reasons, saturated=clamped)

    def _by_scope(self, dtype_graph: DtypeGraph, stored: Mapping[Tensor, str]) -> dict[TensorKey, str]:
        """Stored tensors by the scopes of this copy."""
        by_address = {scope.address: scope for scope in dtype_graph.scopes} if stored else {}
        return {(by_address[address], name): reason for (address, name), reason in stored.items()}

    def as_file(self, built: Candidate) -> AbstractContextManager[OutputModel]:
        """A converted copy as a runtime reads it: a file next to the source if that is a file."""
        return draft_as_file(built.draft, self._output)
