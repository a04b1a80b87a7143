"""One conversion: plan, write, compare with the original, and keep more nodes where needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from surgeon.analysis.integer_range import SMALL
from surgeon.errors import CheckFailed, GraphError
from surgeon.file.model import Model
from surgeon.file.save import ExternalDataMode, OutputModel, save
from surgeon.file.tensors.casting import CastRange, range_of
from surgeon.file.tensors.decoding import raw_size
from surgeon.ir.scope import Node
from surgeon.ops.traits.dtype_traits import SELECTING
from surgeon.ops.traversal import graphs_and_functions
from surgeon.pipeline.acceptance.kernel_support import ANY_PROVIDER
from surgeon.pipeline.editing.node_insertion import require_casts
from surgeon.precision.analyses.dtype_graph import STORED, DtypeGraph, TensorKey
from surgeon.precision.analyses.integer_overflow import IntegerOverflow
from surgeon.precision.analyses.mask_sentinels import MaskSentinels, range_misfit
from surgeon.precision.convert_report import ConvertReport, KeptNode
from surgeon.precision.kept_nodes.missing_kernels import crashing_fused_matmuls, nodes_without_kernel
from surgeon.precision.kept_nodes.selectors import AUTO, NodeAddress, node_address, select_nodes
from surgeon.precision.kept_nodes.sensitive_nodes import SensitiveNodes
from surgeon.precision.measuring.baseline_runs import BaselineRuns
from surgeon.precision.measuring.range_instrumentation import Tensor
from surgeon.precision.output_comparison import OutputComparison
from surgeon.precision.planning.node_dtypes import DtypeChange
from surgeon.precision.writing.conversion_candidates import Candidate, CandidateBuilder, Io, KeptNodes
from surgeon.precision.writing.type_check import type_errors
from surgeon.printed_commands import command
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.model.final_check import structural_fault
from surgeon.proof.model.load_check import require_loaded, tolerated_lacks
from surgeon.runtime.provider_support import CPU
from surgeon.text import join_first

_SHOWN = 2  # nodes that one sentence names


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSettings:
    """The arguments of `surgeon.convert`, checked.  It mirrors that function, so it has thirteen fields."""

    change: DtypeChange
    """The old and the new dtype."""
    io: Io
    """"keep" or "convert" the dtypes of the model's inputs and outputs."""
    keep: Sequence[str]
    """Selectors of nodes that keep the old dtype."""
    max_error: float
    """How far an output may move, relative to its largest magnitude."""
    options: CheckOptions
    """Of the runs."""
    output: Path | None
    """Where to write; None for a model in memory."""
    provider: str | None
    """The execution provider whose kernels are required; None for no requirement."""
    clamp: bool
    """Saturate weights that are too large for the new dtype."""
    check: bool
    """Whether to run and compare both models."""
    require_proof: bool
    """Whether an unproved result counts as failed."""
    dry_run: bool
    """Report only; write nothing."""
    data: ExternalDataMode
    """What happens to files of external data."""
    force: bool
    """Overwrite a data file of other content."""

    @property
    def may_keep_more(self) -> bool:
        """Whether runs decide which nodes keep the old dtype."""
        return AUTO in self.keep and self.change.narrows


class Conversion:
    """One conversion of a model; its result is in the report."""

    def __init__(self, settings: ConvertSettings, report: ConvertReport) -> None:
        self._settings, self._report, self._change = settings, report, settings.change
        self._kept_nodes = KeptNodes()
        self._looked_at: dict[Tensor, CastRange] = {}
        self._clamped: list[str] = []
        self._invalid = ""  # why ONNX Runtime does not load the original

    def run(self, original: OutputModel) -> Any:
        """Convert a model."""
        settings, self._original = self._settings, original
        with Model.open(original) as model:
            settings.options.require_dims_of(model.skeleton.graph)
            model.check_data()
            require_casts(model.skeleton)
            builder = CandidateBuilder(
                model,
                self._change,
                settings.io,
                saturate=settings.clamp,
                output=settings.output,
                on_gpu=settings.provider not in (None, CPU),
            )
            dtype_graph = builder.dtype_graph()
            for place, reason in select_nodes(settings.keep, dtype_graph, original).items():
                self._kept_nodes.keep(place, "asked", reason)
            misfits: dict[NodeAddress, str] = {}
            if settings.provider is not None:
                misfits = nodes_without_kernel(dtype_graph, settings.provider)
            elif settings.may_keep_more:
                misfits = crashing_fused_matmuls(dtype_graph)
            for place, reason in misfits.items():
                self._kept_nodes.keep(place, "kernel", reason)
            baseline = BaselineRuns(original, model.skeleton, self._change, settings.options, io=settings.io)
            ranges = baseline.run(_measured(dtype_graph) if settings.may_keep_more else ()) if settings.check else {}
            self._invalid = baseline.invalid if settings.check else next(iter(type_errors(model)), "")
            builder.has_stale_value_info = baseline.has_stale_value_info
            if builder.has_stale_value_info:
                self._report.say("what the file states of inner shapes is not what they are, and is left out")
            sentinels = MaskSentinels(dtype_graph, saturate=settings.clamp)
            if settings.may_keep_more:
                sensitive = SensitiveNodes(dtype_graph, sentinels, ranges, settings.options.dims)
                for place, (kind, reason) in sensitive.found.items():
                    self._kept_nodes.keep(place, kind, reason)
            elif AUTO in settings.keep and self._change.is_integer:
                overflow = IntegerOverflow(dtype_graph, converts=settings.io == "convert")
                for place, (kind, reason) in overflow.found.items():
                    self._kept_nodes.keep(place, kind, reason)
            self._comparison = OutputComparison(
                builder,
                baseline,
                ranges,
                report=self._report,
                kept_nodes=self._kept_nodes,
                decides=settings.may_keep_more,
            )
            return self._write(model, builder)

    def _write(self, model: Model, builder: CandidateBuilder) -> Any:
        """Build, compare with the original, and save; again with more nodes kept where they are needed."""
        while True:
            built = builder.build(self._kept_nodes)
            self._fill_report(model, built)
            if self._report.outcome == "unchanged" and not self._report.converted:
                self._require_valid()
                return self._unchanged(model)
            try:
                made = self._finish(model, builder, built)
            except _Again:
                continue
            for sentence in self._clamped:
                self._report.say(sentence)
            return made

    def _finish(self, model: Model, builder: CandidateBuilder, built: Candidate) -> Any:
        settings = self._settings
        if settings.dry_run or settings.output is None:
            made = built.patch(settings.output).to_proto() if model.path is None else None
            if made is not None:
                self._check(model, built, made)
            else:
                with builder.as_file(built) as path:
                    self._check(model, built, path)
            return made
        save(
            model,
            built.patch(settings.output),
            settings.output,
            external_data=settings.data,
            force=settings.force,
            check=lambda path: self._check(model, built, path),
        )
        self._report.written = True
        return settings.output

    def _require_valid(self) -> None:
        """Raises GraphError where the original is invalid, because the result would be too."""
        if self._invalid:
            why = f"ONNX Runtime does not load it ({self._invalid.rstrip('.')})"
            how = f"nothing was written; what is wrong, and where: {command('check', 'IN')}"
            raise GraphError(f"The model is invalid before the conversion: {why}; {how}")

    def _unchanged(self, model: Model) -> Any:
        settings = self._settings
        if settings.output is not None and not settings.dry_run:
            save(model, None, settings.output, external_data=settings.data, force=settings.force)
            self._report.written = True
            return settings.output
        return model.whole() if settings.output is None and model.path is None else None

    # Checks before the output gets its name

    def _check(self, model: Model, built: Candidate, made: OutputModel) -> None:
        """Check a converted model; raises where it is wrong, or _Again where more nodes must be kept."""
        self._check_weights(built)
        complaint = structural_fault(model, made)
        if complaint is None:
            with Model.open(made) as opened:
                complaint = next(iter(type_errors(opened)), None)
                before = set(type_errors(model)) if complaint is not None else set()
                complaint = None if complaint in before else complaint
        if complaint is not None:
            raise GraphError(f"The converted model would be invalid ({complaint.rstrip('.')}); nothing was written.")
        report, settings = self._report, self._settings
        if self._invalid and settings.check:
            if not self._comparison.baseline.loads(made):
                self._require_valid()
            report.say("ONNX Runtime loads the result, and does not load the original")
        if settings.check and not self._comparison.compare(built, made):
            raise _Again
        asked = settings.provider or (ANY_PROVIDER if self._change.new == onnx.TensorProto.BFLOAT16 else None)
        note = require_loaded(
            "converted",
            [self._original],
            made,
            options=settings.options,
            report=report,
            tolerated=tolerated_lacks("ort", asked),  # the CPU provider has hardly any kernel for bfloat16
        )
        if note is not None:
            report.say(note)
        if not settings.check:
            return
        if report.outcome == "failed":
            raise CheckFailed(f"{report.reason}; nothing was written.", report)
        if report.outcome == "unproved" and settings.require_proof:
            why = report.reason.rstrip(".")
            raise CheckFailed(f"The converted model is not proved: {why}; nothing was written.", report)

    def _check_weights(self, built: Candidate) -> None:
        """Check the large weights after they were written; raises _Again where one must keep the old dtype."""
        if not (self._change.narrows or self._change.is_integer):
            return
        misfits: dict[Tensor, str] = {}
        self._clamped = list(built.saturated)
        for (scope, name), seen, is_cast in self._seen(built):
            found = range_misfit(name, seen, self._change.new)
            if found is not None and self._settings.clamp and not is_cast:  # an ONNX Cast does not saturate
                self._clamped.append(found.clamped)
            elif found is not None:
                misfits[scope.address, name] = found.reason
        if misfits.keys() - self._kept_nodes.weights.keys():
            self._kept_nodes.weights.update(misfits)
            for reason in misfits.values():
                self._report.say(f"{reason}: it stays {self._change.names[0]}")
            raise _Again

    def _seen(self, built: Candidate) -> Iterator[tuple[TensorKey, CastRange, bool]]:
        """The value ranges of stored tensors that got the new dtype, with whether a Cast converts them at run time."""
        for key, change in built.writer.recasts:
            if change.seen.count > SMALL:  # smaller ones were checked before
                yield key, change.seen, False
        for key, tensor in built.writer.cast_stored.items():
            known = key[0].address, key[1]
            if known not in self._looked_at:
                self._looked_at[known] = range_of(built.draft.value(tensor))
            yield key, self._looked_at[known], True

    # The report

    def _fill_report(self, model: Model, built: Candidate) -> None:
        report, plan = self._report, built.plan
        report.converted = sum(node.op != "Constant" for node in plan.changed)
        report.kept = [self._kept(built, node, plan.names[node], reason) for node, reason in plan.kept.items()]
        report.followers, report.casts = len(plan.followers), built.writer.casts
        report.bytes = _stored(model.skeleton), _stored(built.draft.skeleton)
        ports = plan.dtype_graph.ports
        choosing = [name for node, name in plan.names.items() if node.op in SELECTING and ports[node].any]
        if choosing and report.converted and self._change.narrows:
            nodes, new = join_first(choosing, _SHOWN), self._change.names[1]
            how = f"by numbers that {new} rounds on the way, and may choose another where two are nearly alike"
            report.say(f"{nodes} choose{'' if choosing[1:] else 's'} {how}")

    def _kept(self, built: Candidate, node: Node, name: str, reason: str) -> KeptNode:
        kind, known = self._kept_nodes.nodes.get(node_address(node), ("", ""))
        if known != reason:  # a reason of another call of the function, or of a tensor
            others = (kind for kind, other in self._kept_nodes.nodes.values() if other == reason)
            kind = "weight" if reason in built.weight_reasons else next(others, "schema")
        if kind == "schema" and "Cast of the model's own" in reason:
            kind = "model"
        return KeptNode(name, node.op, reason, kind)


class _Again(Exception):
    """More nodes must keep the old dtype."""


def _measured(dtype_graph: DtypeGraph) -> list[Tensor]:
    """The tensors to measure: all of the old dtype that nodes produce."""
    wires = (wire for wire in dtype_graph.tensors.values() if wire.node is not None and wire.maker != STORED)
    return [(wire.home.address, wire.name) for wire in wires]


def _stored(model: onnx.ModelProto) -> int:
    """Bytes of the tensors that a model's graphs store."""
    found = 0
    for holder in graphs_and_functions(model):
        tensors = list(holder.initializer) if isinstance(holder, onnx.GraphProto) else []
        constants = (node for node in holder.node if node.op_type == "Constant")
        tensors += [item.t for node in constants for item in node.attribute if item.HasField("t")]
        found += sum(raw_size(tensor) for tensor in tensors if tensor.data_type != onnx.TensorProto.STRING)
    return found
