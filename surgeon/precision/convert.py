"""The driver of conversions: look at what runs show, plan, write, compare, keep more where that is needed."""

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from surgeon.editing.draft import holders
from surgeon.errors import CheckFailed, GraphError, RuleError, UsageError
from surgeon.file.beside import home_between, path_between
from surgeon.file.model import Model
from surgeon.file.recasting import limits, smallest
from surgeon.file.save import DataMode, Written, save
from surgeon.file.source import Source, as_written, is_in_memory, label
from surgeon.file.values import raw_size
from surgeon.indexing.scope import Node
from surgeon.models.options import CheckOptions, require_check, require_output
from surgeon.models.whole_model import invalidity
from surgeon.ops.attributes import dtype_number
from surgeon.precision.building import Builder, Built, Io
from surgeon.precision.choices import Retyping
from surgeon.precision.evidence import Evidence
from surgeon.precision.fills import Fills
from surgeon.precision.keeping import AUTO, Place, asked, place_of
from surgeon.precision.lessening import Lessening
from surgeon.precision.result import ConvertReport, Kept
from surgeon.precision.trying import Trying
from surgeon.precision.typing import mistypings
from surgeon.rewriting.rewrite import Rules, rewrite
from surgeon.running.runtime import SessionError

PAIRS = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float16", "float64"),
    "float32": ("float64", "float16", "bfloat16"),
    "int32": ("int64",),
}
"""What can turn into what; the first is what is taken where nothing is said."""
CHECKS = ("model", "none")
_MOST_KEPT = 0.75  # of all nodes; a model that keeps more is not worth to be converted


def convert(
    source: Source,
    to: str = "float16",
    *,
    from_: str | None = None,
    output: str | os.PathLike[str] | None = None,
    io: Io = "keep",
    keep: Sequence[str] = (AUTO,),
    max_error: float = 1e-2,
    clamp: bool = False,
    rules: Rules = (),
    check: str = "model",
    require_proof: bool = False,
    dry_run: bool = False,
    external_data: DataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> tuple[Any, ConvertReport]:
    """Convert a model to another precision, the fewest nodes and Casts beside.

    Args:
        source: a path (then `output` says where to write; it may be the same path), a ModelProto or a gs.Graph.
        to: the new dtype: "float16", "bfloat16", "float32" or "int32".
        from_: the old one; None for float32, of int32 for int64, of float32 for float64.
        output: the path to write, for a source that is a path.
        io: "keep" leaves inputs and outputs of the model as they are, "convert" has them of the new dtype too.
        keep: what keeps the old dtype: "op:Softmax", "name:*/norm/*", "rule:layer_norm"; "auto" is what runs of the
            original and known formulas say.
        max_error: how far an output may move, as a part of its largest number.
        clamp: have weights that are too large for the new dtype saturate, instead of keeping them.
        rules: rules to run first, as for `rewrite`: what is one op computes in float32 inside.
        check: "model" runs both models and compares them, "none" runs nothing.
        require_proof: treat a result that cannot be proved as a failed one.
        dry_run: say what would be done, write nothing.
        external_data: what becomes of data files: "auto", "share", "copy" or "inline".
        force: overwrite a data file of other content.
        options: inputs, seeds, sizes and limits of the runs.

    Returns:
        The model in the kind it was given (a path: the path written), and a ConvertReport.

    Raises:
        UsageError: dtypes that do not go together, or `keep` names nothing.
        GraphError: the model breaks ONNX's rules.
        CheckFailed: no way was found in which the outputs move by no more than `max_error`; nothing is written.

    Examples:
        >>> import surgeon
        >>> path, report = surgeon.convert("models/tiny_distilbert.onnx", output="half.onnx")
        >>> report.outcome, report.casts
        ('proved', 1)
    """
    change = _change(to, from_)
    options = options or CheckOptions()
    options.require()
    require_check(check, CHECKS, require_proof)
    require_output(is_in_memory(source), output, dry_run)
    if io not in ("keep", "convert"):
        raise UsageError(f"io={io!r} is unknown; choose keep or convert.")
    if not max_error > 0:
        raise UsageError(f"Outputs cannot move by {max_error:g} at most; give a number above 0, as in 0.01.")
    run = _Conversion(change, io, (keep,) if isinstance(keep, str) else keep, max_error, options)
    run.clamp, run.check, run.require_proof, run.dry_run = clamp, check == "model", require_proof, dry_run
    run.output = None if output is None else Path(os.fspath(output))
    run.data, run.force = external_data, force
    run.report = ConvertReport(label(source), str(output or ""), change.names, max_error=max_error, checked=run.check)
    started = time.perf_counter()
    try:
        with _fused(as_written(source), rules, run, options) as original:
            made = run.go(original)
    finally:
        run.report.seconds = time.perf_counter() - started
    if dry_run:
        return source, run.report
    return gs.import_onnx(made) if isinstance(source, gs.Graph) else made, run.report


def _change(to: str, from_: str | None) -> Retyping:
    """The dtypes.  Raises UsageError for a pair that there is not."""
    try:
        new = dtype_number(to)
        names = {dtype_number(name): name for name in PAIRS}
        known = PAIRS[names[new]]
        old = dtype_number(known[0] if from_ is None else from_)
    except (RuleError, KeyError):
        raise UsageError(f"Nothing converts to {to!r} from {from_ or 'that'}; choose of {', '.join(PAIRS)}.") from None
    if old not in map(dtype_number, known):
        raise UsageError(f"Nothing converts from {from_!r} to {to!r}; give one of {', '.join(known)}.")
    return Retyping(old, new)


@contextmanager
def _fused(original: Written, rules: Rules, run: "_Conversion", options: CheckOptions) -> Iterator[Written]:
    """The model once rules have run over it, which lies beside it where it is a file."""
    if not rules:
        yield original
        return
    if isinstance(original, onnx.ModelProto):
        made, report = rewrite(original, rules, options=options)
        run.report.rules = _fired(report)
        yield made
        return
    with home_between(original, run.output) as (home, mode):
        between = path_between(home, original)
        try:
            _, report = rewrite(original, rules, output=between, external_data=mode, options=options)
            run.report.rules = _fired(report)
            yield between
        finally:
            for path in (between, between.with_name(f"{between.name}.data")):
                path.unlink(missing_ok=True)


def _fired(report: Any) -> dict[str, int]:
    return {name: count for name, count in report.counts.items() if count}


class _Conversion:
    """One conversion of a model."""

    report: ConvertReport
    output: Path | None
    data: DataMode
    clamp: bool
    check: bool
    require_proof: bool
    dry_run: bool
    force: bool

    def __init__(
        self, change: Retyping, io: Io, keep: Sequence[str], max_error: float, options: CheckOptions
    ) -> None:
        self.change, self.io, self.keep, self.max_error, self.options = change, io, keep, max_error, options
        self._pins: dict[Place, tuple[str, str]] = {}
        self._unfit: dict[str, str] = {}

    def go(self, original: Written) -> Any:
        """Convert it."""
        with Model.open(original) as model:
            model.check_data()
            builder = Builder(model, self.change, self.io, saturate=self.clamp, output=self.output)
            wiring = builder.wiring()
            for place, reason in asked(self.keep, wiring, original).items():
                self._pins[place] = ("asked", reason)
            self._trying = Trying(original, model.skeleton, self.change, self.options, io=self.io)
            names = [wire.name for wire in wiring.wires.values() if wire.home is wiring.index.main and wire.node]
            has_auto = AUTO in self.keep and self.change.narrows
            ranges = self._trying.run(names if has_auto else ()) if self.check else {}
            builder.is_stale = self._trying.is_stale
            if builder.is_stale:
                self._say("what the file states of inner shapes is not what they are, and is left out")
            if has_auto:
                evidence = Evidence(wiring, Fills(wiring), ranges)
                for place, told in evidence.found.items():
                    self._pins.setdefault(place, told)
            return self._write(model, builder)

    def _write(self, model: Model, builder: Builder) -> Any:
        """Build, hold against the original, and save; again with more kept where weights or outputs ask for it."""
        while True:
            built = builder.build({place: reason for place, (_, reason) in self._pins.items()}, self._unfit)
            self._tell(model, built)
            if self.report.outcome == "unchanged" and not self.report.converted:
                return self._unchanged(model)
            try:
                return self._finish(model, builder, built)
            except _Again:
                continue

    def _finish(self, model: Model, builder: Builder, built: Built) -> Any:
        patch = built.patch(self.output)
        if self.dry_run or self.output is None:
            made = patch.to_proto() if model.path is None else None
            if made is not None:
                self._look(model, builder, built, made)
            else:
                with builder.made(built) as path:
                    self._look(model, builder, built, path)
            return made
        save(
            model,
            patch,
            self.output,
            external_data=self.data,
            force=self.force,
            check=lambda path: self._look(model, builder, built, path),
        )
        self.report.written = True
        return self.output

    def _unchanged(self, model: Model) -> Any:
        if self.output is not None and not self.dry_run:
            save(model, None, self.output, external_data=self.data, force=self.force)
            self.report.written = True
            return self.output
        return model.whole() if self.output is None and model.path is None else None

    # What is looked at before anything bears its name

    def _look(self, model: Model, builder: Builder, built: Built, made: Written) -> None:
        """Hold a converted model against its original; raises where it is not right, or more has to be kept."""
        self._weigh(built)
        complaint = invalidity(model, made)
        if complaint is None:
            with Model.open(made) as opened:
                complaint = next(iter(mistypings(opened)), None)
                before = set(mistypings(model)) if complaint is not None else set()
                complaint = None if complaint in before else complaint
        if complaint is not None:
            raise GraphError(f"The converted model would be invalid ({complaint.rstrip('.')}); nothing was written.")
        if not self.check:
            return
        self._compare(builder, built, made)
        if self.report.outcome == "failed":
            raise CheckFailed(f"{self.report.reason}; nothing was written.", self.report)
        if self.report.outcome == "unproved" and self.require_proof:
            why = self.report.reason.rstrip(".")
            raise CheckFailed(f"The converted model is not proved: {why}; nothing was written.", self.report)

    def _weigh(self, built: Built) -> None:
        """Look at what was seen of large weights while they were written; raises where one must stay as it was."""
        if not self.change.narrows:
            return
        high, tiny, named = limits(self.change.new)[1], smallest(self.change.new), self.change.names[1]
        unfit: dict[str, str] = {}
        for change in built.draft.recasts:
            most = change.seen.largest
            if most > high and not self.clamp:
                unfit[change.name] = f"{change.name!r} reaches {most:,.6g}, and {named} ends at {high:,.6g}"
            elif 0 < most < tiny:
                digits = f"{named} has all digits from {tiny:.3g} on"
                unfit[change.name] = f"{change.name!r} reaches {most:.3g}, and {digits}"
            elif most > high:
                self._say(f"{change.name!r} saturates at {high:,.6g}, from {most:,.6g}")
        if unfit.keys() - self._unfit.keys():
            self._unfit.update(unfit)
            for reason in unfit.values():
                self._say(f"{reason}: it stays {self.change.names[0]}")
            raise _Again

    def _say(self, sentence: str) -> None:
        if sentence not in self.report.told:
            self.report.told.append(sentence)

    def _compare(self, builder: Builder, built: Built, made: Written) -> None:
        report, trying = self.report, self._trying
        report.runs = len(trying.wanted)
        if trying.why:
            report.error, report.reason = None, trying.why
            return
        report.error = self._error(builder, built, made)
        if report.error is None or report.error <= self.max_error:
            return
        if AUTO in self.keep and self.change.narrows and not any(kind == "error" for kind, _ in self._pins.values()):
            nodes = [place_of(node) for node in built.plan.changed if built.plan.wiring.ports[node].wants]
            search = Lessening(nodes, lambda kept: self._error_with(builder, kept), self.max_error)
            search.run()
            if search.reached <= self.max_error and len(search.moved) < _MOST_KEPT * len(nodes):
                for place, moved in search.moved.items():
                    told = f"its part alone moves the outputs by {moved:.2g} of their scale"
                    self._pins.setdefault(place, ("error", told))
                raise _Again
        told = f"An output moves by {report.error:.3g} of its scale, and {self.max_error:g} is allowed"
        own = "" if self.options.inputs else "inputs of your own, as made ones are noise to a trained model, or "
        report.reason = report.reason or f"{told}: give {own}a larger --max-error"

    def _error_with(self, builder: Builder, kept: Collection[Place]) -> float:
        pins = {place: reason for place, (_, reason) in self._pins.items()} | dict.fromkeys(kept, "tried")
        built = builder.build(pins, self._unfit)
        with builder.made(built) as made:
            found = self._error(builder, built, made, pins)
        return float("inf") if found is None else found

    def _error(
        self, builder: Builder, built: Built, made: Written, pins: dict[Place, str] | None = None
    ) -> float | None:
        """How far a converted model moves: as it is, and with a rounding at each node.  None where neither runs."""
        found: list[float] = []
        ran: list[str] = []
        pins = pins or {place: reason for place, (_, reason) in self._pins.items()}
        if self.change.narrows:
            rounded = self._rounded(builder, pins)
            if rounded is not None:
                found.append(rounded)
                ran.append("with a rounding at each node")
        try:
            moved = self._trying.error(made)
            ran.insert(0, self._trying.oracle)
            if built.writer.fills and moved > self.max_error:
                with builder.made(builder.build(pins, self._unfit, only_fills=True)) as beside:
                    own = self._trying.error(made, beside)
                if own <= self.max_error:
                    moved = own
                    self._say("rows that a mask hides whole answer otherwise where sums are not of half precision")
            found.append(moved)
        except SessionError as refused:
            if not refused.missing:
                self.report.reason = f"ONNX Runtime refuses the converted model: {refused.line}"
                return float("inf")
            self.report.reason = refused.line
        if found:
            self.report.reason, self.report.oracle = "", " and ".join(ran)
        return max(found) if found else None

    def _rounded(self, builder: Builder, pins: dict[Place, str]) -> float | None:
        """How far the model moves in the old dtype, with a rounding at each node; None where that does not run."""
        try:
            with builder.made(builder.build(pins, self._unfit, rounded=True)) as shown:
                return self._trying.error(shown)
        except SessionError as refused:
            self.report.reason = self.report.reason or refused.line
            return None

    # The report

    def _tell(self, model: Model, built: Built) -> None:
        report, plan = self.report, built.plan
        report.converted = sum(node.op != "Constant" for node in plan.changed)
        report.kept = [self._kept(built, node, plan.names[node], reason) for node, reason in plan.kept.items()]
        report.followers, report.casts = len(plan.followers), built.writer.casts
        report.bytes = _stored(model.skeleton), _stored(built.draft.skeleton)

    def _kept(self, built: Built, node: Node, name: str, reason: str) -> Kept:
        kind = self._pins.get(place_of(node), ("", ""))
        told = kind[0] if kind[1] == reason else "weight" if reason in built.weights else "schema"
        if told == "schema" and "Cast of the model's own" in reason:
            told = "model"
        return Kept(name, node.op, reason, told)


class _Again(Exception):
    """More has to be kept than was thought."""


def _stored(model: onnx.ModelProto) -> int:
    """Bytes of the tensors that a model stores in its graphs."""
    found = 0
    for holder in holders(model):
        tensors = list(holder.initializer) if isinstance(holder, onnx.GraphProto) else []
        constants = (node for node in holder.node if node.op_type == "Constant")
        tensors += [item.t for node in constants for item in node.attribute if item.HasField("t")]
        found += sum(raw_size(tensor) for tensor in tensors if tensor.data_type != onnx.TensorProto.STRING)
    return found

