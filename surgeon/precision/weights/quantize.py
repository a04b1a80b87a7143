"""The quantisation of weights as a transform: round, write, compare, and keep more floats if the loss is too large."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

from surgeon.errors import ModelFileError, UsageError
from surgeon.file.save import OutputModel
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.snapshot import Snapshot
from surgeon.pipeline.transform import Claim, Failure, Words
from surgeon.precision.conversion import stored_bytes
from surgeon.precision.convert_report import KeptNode
from surgeon.precision.delta_debugging import KeepMinimizer
from surgeon.precision.kept_nodes.selectors import AUTO, NodeAddress, select_nodes
from surgeon.precision.measuring.baseline_runs import Arrays, BaselineRuns
from surgeon.precision.planning.node_dtypes import DtypeChange
from surgeon.precision.weights.quantize_report import QuantizedLayer, QuantizeReport
from surgeon.precision.weights.quantized_model import QuantizedModel, QuantizedModelBuilder
from surgeon.precision.weights.weight_rounding import BlockRounding
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.load_check import tolerated_lacks
from surgeon.runtime.numerics.array_comparison import uninformative_message
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.text import format_beside_limit

_FIRST_OPSET = 5  # with a Reshape whose shape is an input
_KERNEL_ERROR: Mapping[int, float] = {onnx.TensorProto.FLOAT: 1e-3, onnx.TensorProto.FLOAT16: 1e-2}
"""Error of the outputs that the order of sums explains, as a fraction of their largest magnitude."""
_SCORES = "logits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantize:
    """Round the weights of products and tables to integers; the fields are those of `surgeon.convert`."""

    rounding: BlockRounding
    """Bits, blocks, zero points and the accuracy level."""
    keep: Sequence[str] = (AUTO,)
    """Selectors of nodes that keep their weights; "auto": those that lose most, if the report's limit requires it."""
    provider: str | None = None
    """The execution provider whose kernels are required; None for no requirement."""
    output: Path | None = None
    """Path of the result; its folder may have data files already."""
    report: QuantizeReport
    """Report, which is updated."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Round the weights, and claim that no output moves further than allowed."""
        self.report.checked = not checks.is_off
        return _Quantization(self, checks).first(draft)


class _Quantization:
    """The candidates of one quantisation: each keeps more weights than the one before."""

    def __init__(self, asked: Quantize, checks: Checks) -> None:
        self._asked, self._checks, self._report = asked, checks, asked.report
        self._kept: dict[NodeAddress, str] = {}
        self._kinds: dict[NodeAddress, str] = {}
        self._has_searched = self._keeps_more = False

    def first(self, draft: ModelDraft) -> Claim:
        """The claim of the first candidate."""
        asked, options, model = self._asked, self._checks.options, draft.before
        assert draft.snapshot is not None  # the driver sets it
        skeleton, index = model.skeleton, draft.index
        if (index.main.opset or _FIRST_OPSET) < _FIRST_OPSET:
            old = f"The model has opset {index.main.opset}, but a table of integers needs {_FIRST_OPSET}"
            raise UsageError(f"{old}. Export the model with a newer opset.")
        options.require_dims_of(skeleton.graph)
        model.check_data()
        original = draft.snapshot.runnable()
        nodes = [node for scope in index.scopes for node in scope.live_nodes()]
        for address, reason in select_nodes(asked.keep, nodes, original).items():
            self._kept[address], self._kinds[address] = reason, "asked"
        self._builder = QuantizedModelBuilder(model, asked.rounding, asked.output)
        built = self._builder.build(self._kept)
        if not built.nodes and not built.kept:
            names = "a stored matrix of float32 or float16"
            raise UsageError(f"No MatMul, Gemm or Gather of the model reads {names}, so no weight can be quantised.")
        change = DtypeChange(onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT)
        self._baseline = BaselineRuns(original, skeleton, change, options, io="keep")
        if not self._checks.is_off and built.nodes:
            self._baseline.run(())
        return self._claim(draft, built)

    def _claim(self, draft: ModelDraft, built: QuantizedModel) -> Claim:
        """Let a draft be a candidate, and claim what it has to hold."""
        self._keeps_more = False
        self._fill_report(built)
        if not built.nodes:
            return Claim.unchanged(self._report)
        draft.become(built.draft)
        return Claim(
            self._report,
            Words.of("quantised")._replace(differs=""),
            lambda _, made, options: self._compare(built, made),
            runs_before=True,
            inspect=lambda after: self._inspect(built, after),
            less=lambda failure, fresh: self._claim(fresh, self._next()) if self._keeps_more else None,
            tolerated=tolerated_lacks("ort", self._asked.provider),
        )

    def _next(self) -> QuantizedModel:
        return self._builder.build(self._kept)

    def _inspect(self, built: QuantizedModel, after: Snapshot) -> Failure | None:
        """Read the errors of the weights, which are known once they are written."""
        after.runnable()
        self._report.layers = [
            QuantizedLayer(node.name, node.op, node.weight, *node.sizes, error=node.loss.relative)
            for node in built.nodes
        ]
        known = (one for one in self._report.layers if one.error is not None)
        broken = next((one for one in known if not np.isfinite(one.error or 0.0)), None)
        if broken is not None:
            what = f"The weight {broken.weight!r} of node {broken.node!r} has elements that are infinite or not numbers"
            return Failure("a weight cannot be rounded", f"{what}. Keep the node: --keep 'name:{broken.node}'")
        return None

    # Comparison

    def _compare(self, built: QuantizedModel, made: OutputModel) -> CheckResult:
        """Compare the outputs with those of the original; the report has the numbers."""
        started, report = time.perf_counter(), self._report
        self._judge(built, made)
        seconds = time.perf_counter() - started
        outcome = Outcome.FAILED if self._keeps_more else Outcome(report.own_outcome)
        reason = "more weights must stay floats" if self._keeps_more else report.reason
        return CheckResult(outcome, reason, (), seconds=seconds, runs=report.runs, tolerance={})

    def _judge(self, built: QuantizedModel, made: OutputModel) -> None:
        """Fill the report with the errors, and keep more weights if they are too large."""
        report, baseline = self._report, self._baseline
        report.runs, report.reason, report.error, report.kernel_error = len(baseline.runs), baseline.failure, None, None
        if baseline.failure:
            return
        report.kernel_limit = max(_KERNEL_ERROR[node.dtype] for node in built.nodes)
        scores = _Scores(built.rows)
        try:
            report.error = baseline.error(made, is_new=False, visit=scores.add)
            report.oracle, report.others = baseline.engine, dict(baseline.mismatch_fractions)
            report.divergence, report.best = scores.divergence, scores.best
            report.kernel_error = self._kernel_error(built, made)
            self._measure_layers(built, made)
        except SessionError as refused:
            report.reason = f"ONNX Runtime rejects the quantised model: {refused.message}"
            if not refused.is_unsupported:
                report.error = report.kernel_error = float("inf")
            return
        empty, all_are = baseline.uninformative_outputs(report.kernel_limit)
        own = 0.0 if all_are else baseline.nondeterminism()
        if all_are or own > report.kernel_limit:
            random = f"The original is not deterministic: two runs differ by {own:.3g} of the outputs' scale"
            report.reason, report.error = uninformative_message(empty, all_are=True) if all_are else random, None
        elif report.kernel_error > report.kernel_limit:
            found = format_beside_limit(report.kernel_error, report.kernel_limit, (3, 6))
            differs = f"An output differs by {found[0]} of its scale"
            report.reason = f"{differs} from that of the rounded weights as floats; the limit is {found[1]}"
        elif report.limit is not None and report.error > report.limit:
            self._keep_more(built, report.limit)

    def _kernel_error(self, built: QuantizedModel, made: OutputModel) -> float:
        """How far the outputs are from those of the original with the rounded weights.  Raises SessionError."""
        with self._builder.as_file(self._builder.build(self._kept, restored=True)) as restored:
            if not self._asked.rounding.accuracy_level:
                return self._baseline.error(made, restored, is_new=False)
            with self._builder.as_file(self._builder.build(self._kept, plain=True)) as plain:
                return self._baseline.error(plain, restored, is_new=False)

    def _measure_layers(self, built: QuantizedModel, made: OutputModel) -> None:
        """Compare the outputs of layers of the main graph with those of the original, on the first inputs."""
        names = [node.output for node in built.nodes if node.is_main]
        try:
            errors = self._baseline.inner_errors(made, names)
        except (SessionError, ModelFileError) as refused:  # the models run, but not with inner tensors as outputs
            line = refused.message if isinstance(refused, SessionError) else str(refused)
            self._report.say(f"outputs of layers were not compared: {line.rstrip('.')}")
            return
        self._report.layers = [
            replace(layer, output_error=errors.get(node.output) if node.is_main else None)
            for layer, node in zip(self._report.layers, built.nodes, strict=True)
        ]

    def _keep_more(self, built: QuantizedModel, limit: float) -> None:
        """Keep the layers that lose most, and no more than necessary; sets `_keeps_more` if that is enough."""
        report = self._report
        moved, allowed = format_beside_limit(report.error or 0.0, limit, (3, 6))
        report.reason = f"An output changes by {moved} of its scale; the limit is {allowed}"
        if self._has_searched or AUTO not in self._asked.keep:
            report.reason += ". Raise --max-error, or add auto to --keep"
            return
        self._has_searched = True
        parts: dict[str, list[NodeAddress]] = {}
        for node in built.nodes:
            parts.setdefault(node.weight, []).append(node.address)
        search = KeepMinimizer(list(parts.values()), self._error_with, limit)
        search.run()
        kept = {**dict.fromkeys(search.error_by_node, "tried"), **self._kept}
        if not search.holds or not self._builder.build(kept).nodes:
            report.reason += ", and no weight can be rounded within it. Raise --max-error, or use more bits: --to int8"
            return
        if search.is_cut_short:
            report.say(f"the search for weights to keep stopped after {search.trials} trials; fewer may be enough")
        for address, error in search.error_by_node.items():
            self._kept[address] = f"with its part rounded too, the outputs change by {error:.2g} of their scale"
            self._kinds[address] = "error"
        self._keeps_more = True

    def _error_with(self, kept: Collection[NodeAddress]) -> float:
        """The error with these nodes kept too."""
        built = self._builder.build({**dict.fromkeys(kept, "tried"), **self._kept})
        if not built.nodes:
            return 0.0
        with self._builder.as_file(built) as made:
            try:
                return self._baseline.error(made, is_new=False)
            except SessionError:
                return float("inf")

    # The report

    def _fill_report(self, built: QuantizedModel) -> None:
        report = self._report
        report.converted, report.layers = len(built.nodes), ()
        names = sorted({dtype_name(node.dtype) for node in built.nodes})
        report.change = " and ".join(names) or report.change[0], report.change[1]
        report.kept = [
            KeptNode(name, op, reason, self._kinds.get(address, "weight")) for address, name, op, reason in built.kept
        ]
        report.bytes = stored_bytes(built.draft.before.skeleton), stored_bytes(built.draft.skeleton)


class _Scores:
    """Compares outputs that are scores of all tokens or classes: named logits, or as many as a table has rows."""

    def __init__(self, rows: set[int]) -> None:
        self._rows, self._sum = rows, 0.0
        self.best = [0, 0]

    @property
    def divergence(self) -> float | None:
        """The mean Kullback-Leibler divergence of all rows."""
        return self._sum / self.best[1] if self.best[1] else None

    def add(self, wanted: Arrays, answer: Mapping[str, np.ndarray]) -> None:
        """Add the outputs of a run."""
        for name, array in wanted.items():
            is_scores = array.ndim > 1 and (name == _SCORES or array.shape[-1] in self._rows)
            other = answer.get(name)
            if not is_scores or array.dtype.kind != "f" or other is None or other.shape != array.shape:
                continue
            for one, two in _rows(array, other):
                self.best[0] += int((one.argmax(axis=-1) == two.argmax(axis=-1)).sum())
                self.best[1] += len(one)
                one, two = _log_softmax(one), _log_softmax(two)
                self._sum += float((np.exp(one) * (one - two)).sum())


def _rows(array: np.ndarray, other: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of two arrays of scores, some at a time."""
    size = array.shape[-1]
    step = max((1 << 20) // max(size, 1), 1)
    one, two = array.reshape(-1, size), other.reshape(-1, size)
    for at in range(0, len(one), step):
        yield one[at : at + step], two[at : at + step]


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    wide = scores.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    made: np.ndarray = wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))
    return made
