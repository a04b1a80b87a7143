"""Comparison of converted candidates with the original, and the nodes to keep if an output's error is too large."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from surgeon.errors import ModelFileError
from surgeon.file.save import OutputModel
from surgeon.file.tensors.casting import finite_limits, smallest
from surgeon.precision.analyses.dtype_graph import STORED
from surgeon.precision.convert_report import ConvertReport, error_text, unproved_text
from surgeon.precision.delta_debugging import KeepMinimizer
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.precision.measuring.baseline_runs import BaselineRuns
from surgeon.precision.measuring.range_instrumentation import ObservedRange, Tensor
from surgeon.precision.segments.segment_proofs import Segments
from surgeon.precision.writing.conversion_candidates import Candidate, CandidateBuilder, KeptNodes
from surgeon.runtime.numerics.array_comparison import uninformative_message
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.text import format_beside_limit

GIVE_INPUTS = "Give real data with --inputs (generated data is noise to a trained model), or raise --max-error"
_MAX_KEPT_FRACTION = 0.75  # fraction of the nodes; a model that keeps more is not worth converting


class OutputComparison:
    """Compares candidates with the original, and keeps more nodes where needed.

    ranges: of the original's tensors.  kept_nodes: nodes that keep the old dtype; it grows where errors are too large
    and `decides`.
    """

    def __init__(
        self,
        builder: CandidateBuilder,
        baseline: BaselineRuns,
        ranges: Mapping[Tensor, ObservedRange],
        *,
        report: ConvertReport,
        kept_nodes: KeptNodes,
        decides: bool,
    ) -> None:
        self._builder, self.baseline, self._report, self._kept_nodes = builder, baseline, report, kept_nodes
        self._ranges, self._decides, self._has_searched = ranges, decides, False

    def compare(self, built: Candidate, made: OutputModel) -> bool:
        """Compare, and fill the report; False where more nodes are to be kept now."""
        report, baseline = self._report, self.baseline
        report.runs = len(baseline.runs)
        if baseline.failure:
            report.error, report.reason = None, baseline.failure
            return True
        report.error = self._error(built, made, self._kept_nodes, self._rounded(self._kept_nodes))
        if report.error is None or report.error <= report.max_error:
            is_held = not built.plan.dtype_graph.change.narrows or self._prove(built, made)
            if is_held and report.error is not None:
                report.reason = unproved_text(report.stretches)
                self._note_discrete()
                self._note_uninformative()
            return is_held
        refused, own = report.reason, baseline.nondeterminism()
        if own > report.max_error:
            report.reason = f"The original is not deterministic: two runs differ by {own:.3g} of the outputs' scale"
            report.error = None
            return True
        if self._decides and not self._has_searched and self._keep_minimal(built):
            return False
        hint = "Raise --max-error" if baseline.has_users_inputs else GIVE_INPUTS
        report.reason = refused or f"{self._moved(report.error)}. {self._too_large(built) or hint}"
        return True

    def _too_large(self, built: Candidate) -> str | None:
        """The remedy if an output itself overflows the new dtype; None if none does."""
        change, main = built.plan.dtype_graph.change, built.plan.dtype_graph.index.main
        high = finite_limits(change.new)[1]
        for name, dtype in built.writer.dtypes.items():
            noted = self._ranges.get((main.address, name))
            is_output = any(value.name == name for value in built.writer.draft.graph.output)
            if dtype == change.new and is_output and noted is not None and noted.max_abs_unmasked > high:
                most = f"the largest {change.names[1]} is {high:,.6g}"
                overflow = f"Output {name!r} reaches {noted.max_abs_unmasked:,.6g}; {most}"
                return f"{overflow}. Keep the dtype of inputs and outputs: --io keep"
        return None

    def _moved(self, error: float) -> str:
        """The output whose error is too large, and the limit, as a clause."""
        most = self._report.max_error
        name, part = max(self._report.others.items(), key=lambda item: item[1], default=("", 0.0))
        if part == 1 and part <= most:
            return f"All elements of output {name!r} (not floats) differ, which is never allowed"
        if part > most:
            changed = f"{_percent(part)} of the elements of output {name!r} (not floats) differ"
            return f"{changed}; the limit is {_percent(most)}"
        moved, allowed = format_beside_limit(error, most, (3, 6))
        return f"An output changes by {moved} of its scale; the limit is {allowed}"

    def _note_discrete(self) -> None:
        """Note how outputs that are not floats are judged."""
        most = _percent(self._report.max_error)
        for name, part in self._report.others.items():
            self._report.say(f"output {name!r} is not floats; {_percent(part)} of its elements differ (limit {most})")

    def _note_uninformative(self) -> None:
        """Note outputs that could not show a difference; if none could, nothing is proved."""
        empty, all_are = self.baseline.uninformative_outputs(self._report.max_error)
        if all_are:
            self._report.error, self._report.reason = None, uninformative_message(empty, all_are=True)
        elif empty:
            self._report.say(uninformative_message(empty, all_are=False).rstrip("."))

    def _prove(self, built: Candidate, made: OutputModel) -> bool:
        """Compare each segment with float64, equal ones once; False where more nodes are to be kept now."""
        segments = Segments(built, self._ranges)
        kinds = segments.equal_groups()
        parts = [max(kind, key=lambda part: part.most) for kind in kinds]
        try:
            held = self.baseline.inner_values(segments.required_inputs(parts))
        except (SessionError, ModelFileError) as refused:  # the model runs, but not with inner tensors as outputs
            held = {}
            line = refused.message if isinstance(refused, SessionError) else str(refused)
            self._report.say(f"segments were not run separately: {line.rstrip('.')}")
        if self.baseline.shown:
            masks = ", ".join(map(repr, self.baseline.shown))
            self._report.say(
                f"each segment runs with the first key of {masks} visible, because the output of a completely masked "
                "row depends only on rounding"
            )
        proofs = segments.proofs(parts, made, held, self.baseline.options)
        self._report.stretches = [replace(proof, equal=len(kind)) for proof, kind in zip(proofs, kinds, strict=True)]
        every = zip(kinds, parts, proofs, strict=True)
        failed = [(kind, run, proof) for kind, run, proof in every if proof.outcome == "failed"]
        if not (failed and self._decides):
            return True
        known = len(self._kept_nodes.nodes)
        for kind, run, proof in failed:
            chosen = None if proof.far is None else run.leading_to(proof.far[1])
            for place in (place for part in kind for place in segments.all_nodes(part, chosen)):
                self._kept_nodes.keep(place, "stretch", f"in the segment from {proof.first} on, {error_text(proof)}")
        return len(self._kept_nodes.nodes) == known  # if all are kept already, the failure remains

    def _keep_minimal(self, built: Candidate) -> bool:
        """Keep the segments with the largest effect; whether the error is within the limit then."""
        self._has_searched = True
        nodes = {node_address(node): None for node in built.plan.changed if built.plan.dtype_graph.ports[node].benefits}
        if self._keep_small(built, nodes):
            return True
        parts = [[place for place in part.places if place in nodes] for part in Segments(built, self._ranges).parts]
        inner = list(nodes.keys() - {place for part in parts for place in part})
        search = self._searched([*parts, sorted(inner)], nodes)
        for place, moved in search.items():
            self._kept_nodes.keep(place, "error", f"its segment changes the outputs by {moved:.2g} of their scale")
        return bool(search)

    def _keep_small(self, built: Candidate, nodes: Collection[NodeAddress]) -> bool:
        """Keep nodes around tensors that are nearly zero in half precision; whether that is enough.

        A norm makes such numbers large again: it multiplies them by up to 1 / sqrt(epsilon), and the next one does too.
        """
        change = built.plan.dtype_graph.change
        small = [place for place in self._small(built) if place in nodes]
        found = self._searched([small], nodes) if small else {}
        what = f"all numbers of a tensor that it reads or produces are below {smallest(change.new):.3g}"
        for place in found:
            reason = f"{what}, where {change.names[1]} loses digits that the outputs need"
            self._kept_nodes.keep(place, "range", reason)
        return bool(found)

    def _small(self, built: Candidate) -> list[NodeAddress]:
        """The nodes around tensors without a number that has all digits in the new dtype."""
        found: set[NodeAddress] = set()
        for (scope, name), wire in built.plan.dtype_graph.tensors.items():
            noted = self._ranges.get((scope.address, name))
            if (
                wire.maker != STORED
                and noted is not None
                and 0 < noted.max_abs < smallest(built.plan.dtype_graph.change.new)
            ):
                nodes = (wire.node, *(use.node for use in wire.uses))
                found.update(node_address(node) for node in nodes if node is not None)
        return sorted(found)

    def _searched(
        self, parts: Sequence[Sequence[NodeAddress]], nodes: Collection[NodeAddress]
    ) -> dict[NodeAddress, float]:
        """The nodes of these parts to keep, each with its effect on the outputs; empty if that is not enough.

        nodes: all that may be kept, of which some must remain.
        """
        search = KeepMinimizer(parts, self._error_with, self._report.max_error)
        search.run()
        if not search.holds or len(search.error_by_node) >= _MAX_KEPT_FRACTION * len(nodes):
            return {}
        if search.is_cut_short:
            note = f"the search for nodes to keep stopped after {search.trials} trials"
            self._report.say(f"{note}, so fewer nodes may be enough")
        return search.error_by_node

    def _error_with(self, kept: Collection[NodeAddress]) -> float:
        """The error with these nodes kept too, at least."""
        kept_nodes = self._kept_nodes.plus(kept)
        rounded = self._rounded(kept_nodes, in_search=True)
        if rounded is not None and rounded > self._report.max_error:
            return rounded
        built = self._builder.build(kept_nodes)
        with self._builder.as_file(built) as made:
            found = self._error(built, made, kept_nodes, rounded)
        return float("inf") if found is None else found

    def _error(self, built: Candidate, made: OutputModel, kept_nodes: KeptNodes, rounded: float | None) -> float | None:
        """The error of a candidate, unchanged and with a rounding at each node.  None if neither runs.

        rounded: the error with roundings, as found before.
        """
        report, found, ran, at_nodes = self._report, list[float](), "", "with a rounding at each node"
        report.others, report.hidden = {}, None
        if rounded is not None:
            found.append(rounded)
            self._count()
            ran = f"{self.baseline.engine} {at_nodes}"
        try:
            moved = self._relative_error(made)
            ran = f"{self.baseline.engine} and {at_nodes}" if ran else self.baseline.engine
            if built.writer.sentinel_bounds and moved > report.max_error:
                with self._builder.as_file(self._builder.build(kept_nodes, only_sentinels=True)) as beside:
                    own = self.baseline.error(made, beside)
                if own <= report.max_error:
                    report.hidden, moved = moved, own
            found.append(moved)
            self._count()
        except SessionError as refused:
            if not refused.is_unsupported:
                report.reason = f"ONNX Runtime rejects the converted model: {refused.message}"
                return float("inf")
            report.reason = refused.message
        if found:
            report.reason, report.oracle = "", ran
        return max(found) if found else None

    def _relative_error(self, made: OutputModel, *, is_new: bool = True, in_search: bool = False) -> float:
        """The error of the outputs; under the original's selection of rows if rows are swapped.

        in_search: for a model that chooses rows, measure only under that choice, because one run is enough.  Raises
        SessionError.
        """
        report, baseline = self._report, self.baseline
        if in_search and baseline.choices:
            return baseline.error_of_choice(made, is_new=is_new)
        moved = baseline.error(made, is_new=is_new)
        if moved <= report.max_error or not baseline.choices:
            return moved
        chosen = baseline.error_of_choice(made, is_new=is_new)
        if chosen <= report.max_error:
            report.say(
                "rows with almost equal scores were selected differently or in another order; outputs and scores are "
                "compared for the original's selection"
            )
        return min(moved, chosen)

    def _count(self) -> None:
        """Note the fraction of changed elements of outputs that are not floats."""
        for name, part in self.baseline.mismatch_fractions.items():
            self._report.others[name] = max(part, self._report.others.get(name, 0.0))

    def _rounded(self, kept_nodes: KeptNodes, *, in_search: bool = False) -> float | None:
        """The error in the old dtype with a rounding at each node; None if that does not run."""
        if not self._builder.narrows:
            return None
        try:
            with self._builder.as_file(self._builder.build(kept_nodes, rounded=True)) as shown:
                return self._relative_error(shown, is_new=False, in_search=in_search)
        except SessionError as refused:
            self._report.reason = self._report.reason or refused.message
            return None


def _percent(part: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * part:.3g} %"
