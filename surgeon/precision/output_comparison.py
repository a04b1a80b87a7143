"""Converted copies of a model held against it, and what to keep beside where one moves too far."""

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

_MOST_KEPT = 0.75  # of all nodes; a model that keeps more is not worth to be converted


class OutputComparison:
    """The original on its inputs, and what converted copies answer there.

    ranges: of its tensors.  keeping: what keeps the old dtype; more is added where outputs move too far and `decides`.
    """

    def __init__(
        self,
        builder: CandidateBuilder,
        trying: BaselineRuns,
        ranges: Mapping[Tensor, ObservedRange],
        report: ConvertReport,
        keeping: KeptNodes,
        *,
        decides: bool,
    ) -> None:
        self._builder, self.trying, self._report, self._keeping = builder, trying, report, keeping
        self._ranges, self._decides, self._has_searched = ranges, decides, False

    def compare(self, built: Candidate, made: OutputModel) -> bool:
        """Compare, and note in the report what came of it; False where more is to be kept now."""
        report, trying = self._report, self.trying
        report.runs = len(trying.runs)
        if trying.failure:
            report.error, report.reason = None, trying.failure
            return True
        report.error = self._error(built, made, self._keeping, self._rounded(self._keeping))
        if report.error is None or report.error <= report.max_error:
            is_held = not built.plan.wiring.change.narrows or self._prove(built, made)
            if is_held and report.error is not None:
                report.reason = unproved_text(report.stretches)
                self._tell_counted()
                self._tell_emptiness()
            return is_held
        refused, own = report.reason, trying.nondeterminism()
        if own > report.max_error:
            report.reason = f"The original's own outputs move by {own:.3g} of their scale from run to run"
            report.error = None
            return True
        if self._decides and not self._has_searched and self._lessen(built):
            return False
        hint = "" if trying.has_users_inputs else "inputs of your own, as made ones are noise to a trained model, or "
        hint = self._too_large(built) or f"give {hint}a larger --max-error"
        report.reason = refused or f"{self._moved(report.error)}: {hint}"
        return True

    def _too_large(self, built: Candidate) -> str:
        """What to do where an output itself is beyond the new dtype; empty where none is."""
        change, main = built.plan.wiring.change, built.plan.wiring.index.main
        high = finite_limits(change.new)[1]
        for name, dtype in built.writer.dtypes.items():
            noted = self._ranges.get((main.address, name))
            is_output = any(value.name == name for value in built.writer.draft.graph.output)
            if dtype == change.new and is_output and noted is not None and noted.max_abs_unmasked > high:
                told = (
                    f"output {name!r} reaches {noted.max_abs_unmasked:,.6g}, and {change.names[1]} ends at {high:,.6g}"
                )
                return f"{told}; have inputs and outputs keep their dtype (--io keep)"
        return ""

    def _moved(self, error: float) -> str:
        """How far outputs moved that moved too far, and what is allowed, as a clause."""
        most = self._report.max_error
        name, part = max(self._report.others.items(), key=lambda item: item[1], default=("", 0.0))
        if part == 1 and part <= most:
            return f"All elements of output {name!r}, which holds no floats, are others, and so many never may be"
        if part > most:
            told = f"{_percent(part)} of the elements of output {name!r}, which holds no floats, are others"
            return f"{told}, and {_percent(most)} may be"
        moved, allowed = format_beside_limit(error, most, (3, 6))
        return f"An output moves by {moved} of its scale, and {allowed} is allowed"

    def _tell_counted(self) -> None:
        """Say what outputs that hold no floats are judged by."""
        most = _percent(self._report.max_error)
        for name, part in self._report.others.items():
            told = f"output {name!r} holds no floats, and is judged by how many of its elements are others"
            self._report.say(f"{told}: {_percent(part)} are, and {most} may be")

    def _tell_emptiness(self) -> None:
        """Say where the outputs could not have shown a difference; of what none of them shows nothing is proved."""
        empty, all_are = self.trying.uninformative_outputs(self._report.max_error)
        if all_are:
            self._report.error, self._report.reason = None, uninformative_message(empty, all_are=True)
        elif empty:
            self._report.say(uninformative_message(empty, all_are=False).rstrip("."))

    def _prove(self, built: Candidate, made: OutputModel) -> bool:
        """Hold each stretch against itself in float64, equal ones once; False where more is to be kept now."""
        stretches = Segments(built, self._ranges)
        kinds = stretches.equal_groups()
        parts = [max(kind, key=lambda part: part.most) for kind in kinds]
        try:
            held = self.trying.inner_values(stretches.required_inputs(parts))
        except (SessionError, ModelFileError) as refused:  # the whole runs, but not with inner tensors as outputs
            held = {}
            line = refused.message if isinstance(refused, SessionError) else str(refused)
            self._report.say(f"stretches are not run by themselves: {line.rstrip('.')}")
        if self.trying.shown:
            masks = ", ".join(map(repr, self.trying.shown))
            self._report.say(f"each stretch is run with the first key of {masks} shown: where a mask hides all keys "
                             "of a row, what the row answers follows from roundings")
        proofs = stretches.proofs(parts, made, held, self.trying.options)
        self._report.stretches = [
            replace(proof, equal=len(kind)) for proof, kind in zip(proofs, kinds, strict=True)
        ]
        every = zip(kinds, parts, proofs, strict=True)
        failed = [(kind, run, proof) for kind, run, proof in every if proof.outcome == "failed"]
        if not (failed and self._decides):
            return True
        known = len(self._keeping.nodes)
        for kind, run, proof in failed:
            chosen = None if proof.far is None else run.leading_to(proof.far[1])
            for place in (place for part in kind for place in stretches.all_nodes(part, chosen)):
                self._keeping.keep(place, "stretch", f"in the stretch from {proof.first} on {error_text(proof)}")
        return len(self._keeping.nodes) == known  # where all are kept already, it stays told as failed

    def _lessen(self, built: Candidate) -> bool:
        """Keep the parts that move the outputs most; whether it holds then, and enough is left."""
        self._has_searched = True
        nodes = {node_address(node): None for node in built.plan.changed if built.plan.wiring.ports[node].benefits}
        if self._keep_small(built, nodes):
            return True
        parts = [[place for place in part.places if place in nodes] for part in Segments(built, self._ranges).parts]
        inner = list(nodes.keys() - {place for part in parts for place in part})
        search = self._searched([*parts, sorted(inner)], nodes)
        for place, moved in search.items():
            self._keeping.keep(place, "error", f"its part alone moves the outputs by {moved:.2g} of their scale")
        return bool(search)

    def _keep_small(self, built: Candidate, nodes: Collection[NodeAddress]) -> bool:
        """Keep what makes or reads numbers that half precision takes for zero, or nearly so; whether it holds then.

        A norm makes such numbers large again: it multiplies them by up to 1 / sqrt(epsilon), and the next one does too.
        """
        change = built.plan.wiring.change
        small = [place for place in self._small(built) if place in nodes]
        found = self._searched([small], nodes) if small else {}
        told = f"it makes or reads a tensor of which all numbers are below {smallest(change.new):.3g}"
        for place in found:
            reason = f"{told}: {change.names[1]} keeps too little of them, and the outputs follow from them"
            self._keeping.keep(place, "range", reason)
        return bool(found)

    def _small(self, built: Candidate) -> list[NodeAddress]:
        """The nodes that make or read tensors of which no number has all digits in the new dtype."""
        found: set[NodeAddress] = set()
        for (scope, name), wire in built.plan.wiring.tensors.items():
            noted = self._ranges.get((scope.address, name))
            if (
                wire.maker != STORED
                and noted is not None
                and 0 < noted.max_abs < smallest(built.plan.wiring.change.new)
            ):
                nodes = (wire.node, *(use.node for use in wire.uses))
                found.update(node_address(node) for node in nodes if node is not None)
        return sorted(found)

    def _searched(
        self, parts: Sequence[Sequence[NodeAddress]], nodes: Collection[NodeAddress]
    ) -> dict[NodeAddress, float]:
        """What of these parts to keep, each with how far it moves the outputs; nothing where that is not enough.

        nodes: all that may be kept, of which some must be left.
        """
        search = KeepMinimizer(parts, self._error_with, self._report.max_error)
        search.run()
        if not search.holds or len(search.error_by_node) >= _MOST_KEPT * len(nodes):
            return {}
        if search.is_cut_short:
            told = f"the search for the nodes to keep ended after {search.trials} trials"
            self._report.say(f"{told}: fewer nodes may be enough")
        return search.error_by_node

    def _error_with(self, kept: Collection[NodeAddress]) -> float:
        """How far it moves at least where these nodes are kept too."""
        keeping = self._keeping.plus(kept)
        rounded = self._rounded(keeping, in_search=True)
        if rounded is not None and rounded > self._report.max_error:
            return rounded
        built = self._builder.build(keeping)
        with self._builder.as_file(built) as made:
            found = self._error(built, made, keeping, rounded)
        return float("inf") if found is None else found

    def _error(self, built: Candidate, made: OutputModel, keeping: KeptNodes, rounded: float | None) -> float | None:
        """How far a converted model moves: as it is, and with a rounding at each node.  None where neither runs.

        rounded: the latter, as it was found just before.
        """
        report, found, ran, at_nodes = self._report, list[float](), "", "with a rounding at each node"
        report.others, report.hidden = {}, None
        if rounded is not None:
            found.append(rounded)
            self._count()
            ran = f"{self.trying.engine} {at_nodes}"
        try:
            moved = self._apart(made)
            ran = f"{self.trying.engine} and {at_nodes}" if ran else self.trying.engine
            if built.writer.sentinel_bounds and moved > report.max_error:
                with self._builder.as_file(self._builder.build(keeping, only_fills=True)) as beside:
                    own = self.trying.error(made, beside)
                if own <= report.max_error:
                    report.hidden, moved = moved, own
            found.append(moved)
            self._count()
        except SessionError as refused:
            if not refused.is_unsupported:
                report.reason = f"ONNX Runtime refuses the converted model: {refused.message}"
                return float("inf")
            report.reason = refused.message
        if found:
            report.reason, report.oracle = "", ran
        return max(found) if found else None

    def _apart(self, made: OutputModel, *, is_new: bool = True, in_search: bool = False) -> float:
        """How far outputs lie apart; under the original's own choice of rows where others are chosen.

        in_search: of a model that chooses at once under that choice, as one run is enough.  Raises SessionError.
        """
        report, trying = self._report, self.trying
        if in_search and trying.choices:
            return trying.error_of_choice(made, is_new=is_new)
        moved = trying.error(made, is_new=is_new)
        if moved <= report.max_error or not trying.choices:
            return moved
        chosen = trying.error_of_choice(made, is_new=is_new)
        if chosen <= report.max_error:
            report.say("rows whose scores are nearly alike come in another order, or others of them are chosen: "
                       "outputs and scores are compared for the original's own choice of rows")
        return min(moved, chosen)

    def _count(self) -> None:
        """Note of the model that was tried last how many elements of outputs that are no floats are others."""
        for name, part in self.trying.mismatch_fractions.items():
            self._report.others[name] = max(part, self._report.others.get(name, 0.0))

    def _rounded(self, keeping: KeptNodes, *, in_search: bool = False) -> float | None:
        """How far the model moves in the old dtype, with a rounding at each node; None where that does not run."""
        if not self._builder.narrows:
            return None
        try:
            with self._builder.as_file(self._builder.build(keeping, rounded=True)) as shown:
                return self._apart(shown, is_new=False, in_search=in_search)
        except SessionError as refused:
            self._report.reason = self._report.reason or refused.message
            return None


def _percent(part: float) -> str:
    """A part of a hundred, as text."""
    return f"{100 * part:.3g} %"
