"""The conversion of a model as a transform: plan, write, compare with the original, and keep more nodes if needed."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from surgeon.analysis.integer_range import SMALL
from surgeon.errors import GraphError
from surgeon.file.model import Model
from surgeon.file.save import OutputModel
from surgeon.file.tensors.casting import CastRange, range_of
from surgeon.file.tensors.decoding import raw_size
from surgeon.ir.scope import Node
from surgeon.ops.traits.dtype_traits import SELECTING
from surgeon.ops.traversal import graphs_and_functions
from surgeon.pipeline.acceptance.kernel_support import ANY_PROVIDER
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.node_insertion import require_casts
from surgeon.pipeline.snapshot import Snapshot
from surgeon.pipeline.transform import Claim, Failure, Words
from surgeon.precision.analyses.dtype_graph import CAST_TO_FLOAT32, STORED, DtypeGraph, TensorKey
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
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.load_check import tolerated_lacks
from surgeon.runtime.provider_support import CPU
from surgeon.text import join_first

_SHOWN = 2  # nodes that one sentence names


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert:
    """Convert a model to another precision; the fields are those of `surgeon.convert`."""

    change: DtypeChange
    """The old and the new dtype."""
    io: Io = "keep"
    """"keep" or "convert" the dtypes of the model's inputs and outputs."""
    keep: Sequence[str] = (AUTO,)
    """Selectors of nodes that keep the old dtype."""
    max_error: float = 1e-2
    """How far an output may move, relative to its largest magnitude."""
    provider: str | None = None
    """The execution provider whose kernels are required; None for no requirement."""
    clamp: bool = False
    """Saturate weights that are too large for the new dtype."""
    output: Path | None = None
    """Path of the result; its folder may have data files already."""
    report: ConvertReport
    """Report, which is updated."""

    @property
    def may_keep_more(self) -> bool:
        """Whether runs decide which nodes keep the old dtype."""
        return AUTO in self.keep and self.change.narrows

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Run the model before, convert it, and claim that no output moves further than allowed."""
        self.report.checked = not checks.is_off
        return _Conversion(self, checks).first(draft)


class _Conversion:
    """The candidates of one conversion: each keeps more nodes in the old dtype than the one before."""

    def __init__(self, asked: Convert, checks: Checks) -> None:
        self._asked, self._checks, self._report, self._change = asked, checks, asked.report, asked.change
        self._kept_nodes = KeptNodes()
        self._looked_at: dict[Tensor, CastRange] = {}
        self._clamped: list[str] = []
        self._invalid = ""  # why ONNX Runtime does not load the original

    def first(self, draft: ModelDraft) -> Claim:
        """The claim of the first candidate."""
        asked, options, model = self._asked, self._checks.options, draft.before
        is_checked = not self._checks.is_off
        assert draft.snapshot is not None  # the driver sets it
        original = draft.snapshot.runnable()
        options.require_dims_of(model.skeleton.graph)
        model.check_data()
        require_casts(model.skeleton)
        self._model = model
        self._builder = builder = CandidateBuilder(
            model,
            self._change,
            asked.io,
            saturate=asked.clamp,
            output=asked.output,
            on_gpu=asked.provider not in (None, CPU),
        )
        dtype_graph = builder.dtype_graph()
        for place, reason in select_nodes(asked.keep, list(dtype_graph.nodes()), original).items():
            self._kept_nodes.keep(place, "asked", reason)
        misfits: dict[NodeAddress, str] = {}
        if asked.provider is not None:
            misfits = nodes_without_kernel(dtype_graph, asked.provider)
        elif asked.may_keep_more:
            misfits = crashing_fused_matmuls(dtype_graph)
        for place, reason in misfits.items():
            self._kept_nodes.keep(place, "kernel", reason)
        baseline = BaselineRuns(original, model.skeleton, self._change, options, io=asked.io)
        ranges = baseline.run(_measured(dtype_graph) if asked.may_keep_more else ()) if is_checked else {}
        self._invalid = baseline.invalid if is_checked else next(iter(type_errors(model)), "")
        builder.has_stale_value_info = baseline.has_stale_value_info
        if builder.has_stale_value_info:
            self._report.say("the file declares wrong shapes for inner tensors; the result leaves them out")
        sentinels = MaskSentinels(dtype_graph, saturate=asked.clamp)
        if asked.may_keep_more:
            sensitive = SensitiveNodes(dtype_graph, sentinels, ranges, options.dims)
            for place, (kind, reason) in sensitive.found.items():
                self._kept_nodes.keep(place, kind, reason)
        elif AUTO in asked.keep and self._change.is_integer:
            overflow = IntegerOverflow(dtype_graph, converts=asked.io == "convert")
            for place, (kind, reason) in overflow.found.items():
                self._kept_nodes.keep(place, kind, reason)
        self._comparison = OutputComparison(
            builder,
            baseline,
            ranges,
            report=self._report,
            kept_nodes=self._kept_nodes,
            decides=asked.may_keep_more,
        )
        return self._next(draft)

    def _next(self, draft: ModelDraft) -> Claim:
        """Build a candidate in a draft, and claim what it has to hold."""
        self._keeps_more = False
        built = self._builder.build(self._kept_nodes)
        self._fill_report(self._model, built)
        if not self._report.changed:
            self._require_valid()
            return Claim.unchanged(self._report)
        draft.become(built.draft)
        # The CPU provider has hardly any kernel for bfloat16.
        provider = self._asked.provider or (ANY_PROVIDER if self._change.new == onnx.TensorProto.BFLOAT16 else None)
        return Claim(
            self._report,
            Words.of("converted")._replace(differs=""),
            lambda _, made, options: self._compare(built, made),
            runs_before=True,
            inspect=lambda after: self._inspect(built, after),
            less=lambda failure, fresh: self._next(fresh) if self._keeps_more else None,
            tolerated=tolerated_lacks("ort", provider),
        )

    def _require_valid(self) -> None:
        """Raise GraphError if the original is invalid, because the result would be too."""
        if self._invalid:
            why = f"ONNX Runtime does not load it ({self._invalid.rstrip('.')})"
            how = f"Nothing was written. To find the cause: {command('check', 'IN')}"
            raise GraphError(f"The model is invalid before the conversion: {why}. {how}")

    def _inspect(self, built: Candidate, after: Snapshot) -> Failure | None:
        """Check the weights and the types of a converted model that was written."""
        made = after.runnable()
        if self._misfits(built):
            self._keeps_more = True
            return Failure("weights do not fit the new dtype")
        with Model.open(made) as opened:
            fault = next(iter(type_errors(opened)), None)
        if fault is not None and fault not in set(type_errors(self._model)):
            return Failure(fault, f"The converted model would be invalid ({fault.rstrip('.')})", is_invalid=True)
        if self._invalid and not self._checks.is_off:
            if not self._comparison.baseline.loads(made):
                self._require_valid()
            self._report.say("ONNX Runtime loads the result, but not the original")
        for sentence in self._clamped:
            self._report.say(sentence)
        return None

    def _compare(self, built: Candidate, made: OutputModel) -> CheckResult:
        """Compare the outputs with those of the original; the report has the numbers."""
        started, report = time.perf_counter(), self._report
        self._keeps_more = not self._comparison.compare(built, made)
        outcome = Outcome.FAILED if self._keeps_more else Outcome(report.own_outcome)
        seconds = time.perf_counter() - started
        reason = "more nodes must keep their dtype" if self._keeps_more else report.reason
        return CheckResult(outcome, reason, (), seconds=seconds, runs=report.runs, tolerance={})

    def _misfits(self, built: Candidate) -> bool:
        """Whether large weights, which are known once written, must keep the old dtype; from now on they do."""
        if not (self._change.narrows or self._change.is_integer):
            return False
        misfits: dict[Tensor, str] = {}
        self._clamped = list(built.saturated)
        for (scope, name), seen, is_cast in self._seen(built):
            found = range_misfit(name, seen, self._change.new)
            if found is not None and self._asked.clamp and not is_cast:  # an ONNX Cast does not saturate
                self._clamped.append(found.clamped)
            elif found is not None:
                misfits[scope.address, name] = found.reason
        if misfits.keys() <= self._kept_nodes.weights.keys():
            return False
        self._kept_nodes.weights.update(misfits)
        for reason in misfits.values():
            self._report.say(f"{reason}, so it stays {self._change.names[0]}")
        return True

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
        report.bytes = stored_bytes(model.skeleton), stored_bytes(built.draft.skeleton)
        ports = plan.dtype_graph.ports
        choosing = [name for node, name in plan.names.items() if node.op in SELECTING and ports[node].any]
        if choosing and report.converted and self._change.narrows:
            nodes, new = join_first(choosing, _SHOWN), self._change.names[1]
            how = f"by values that {new} rounds, and may select another element if two are almost equal"
            report.say(f"{nodes} select{'' if choosing[1:] else 's'} {how}")

    def _kept(self, built: Candidate, node: Node, name: str, reason: str) -> KeptNode:
        kind, known = self._kept_nodes.nodes.get(node_address(node), ("", ""))
        if known != reason:  # a reason of another call of the function, or of a tensor
            others = (kind for kind, other in self._kept_nodes.nodes.values() if other == reason)
            kind = "weight" if reason in built.weight_reasons else next(others, "schema")
        if kind == "schema" and reason == CAST_TO_FLOAT32:
            kind = "model"
        return KeptNode(name, node.op, reason, kind)


def _measured(dtype_graph: DtypeGraph) -> list[Tensor]:
    """The tensors to measure: all of the old dtype that nodes produce."""
    wires = (wire for wire in dtype_graph.tensors.values() if wire.node is not None and wire.maker != STORED)
    return [(wire.home.address, wire.name) for wire in wires]


def stored_bytes(model: onnx.ModelProto) -> int:
    """Bytes of the tensors that a model's graphs store."""
    found = 0
    for holder in graphs_and_functions(model):
        tensors = list(holder.initializer) if isinstance(holder, onnx.GraphProto) else []
        constants = (node for node in holder.node if node.op_type == "Constant")
        tensors += [item.t for node in constants for item in node.attribute if item.HasField("t")]
        found += sum(raw_size(tensor) for tensor in tensors if tensor.data_type != onnx.TensorProto.STRING)
    return found
