"""Runs of both sides of a region on the same inputs, compared with a reference of higher precision."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import FunctionProto

from surgeon.proof.cases.case_inputs import CaseInputs
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.dims import COSTLY_WORK, REDUCE_ABOVE_ELEMENTS, CaseDims
from surgeon.proof.cases.literal_injection import Feeds
from surgeon.proof.cases.value_strategies import (
    BRIEF_SCHEDULE,
    COSTLY_SCHEDULE,
    FULL_SCHEDULE,
    LITERALS_VARIANT,
    LOSING,
    MANY,
    OTHER_SIZES_SCHEDULE,
    REPEATED_SCHEDULE,
    ROOM,
    SINGLE_RUN_SCHEDULE,
    VARIANT_STRIDE,
    WEIGHED,
    adapted_kind,
    adds_nothing,
    describe_inputs,
    kind_name,
    kinds_at_other_sizes,
    scope_note,
)
from surgeon.proof.check_result import Outcome
from surgeon.proof.judge.common_prefix import without_common_prefix
from surgeon.proof.judge.error_summary import ErrorSummary
from surgeon.proof.judge.exemptions import cannot_be_empty
from surgeon.proof.proof_case import ORIGINAL, REFERENCE, REPLACEMENT, ProofCase, RegionModels
from surgeon.proof.site.largest_tensor import dims_to_json, error_message
from surgeon.proof.site.output_judge import OutputJudge
from surgeon.proof.site_proof import CannotSlice
from surgeon.proof.strategies.sizes import size_cases
from surgeon.proof.strategies.strategy import next_proposed
from surgeon.runtime.inputs.input_generator import InputsUnknown, ValueKind
from surgeon.runtime.inputs.string_values import unmatched
from surgeon.runtime.numerics.array_comparison import same_values
from surgeon.runtime.numerics.sensitivity_probe import SensitivityProbe
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.oracle import KERNEL_ORACLES, Oracle, open_evaluator, open_oracle
from surgeon.runtime.sessions.ort_session import SessionError

MAX_RETRIED = 1 << 22  # input elements up to which a region that fails at reduced sizes runs at its own
MAX_REPEATED = 1 << 12  # input elements up to which a region runs on many sets of inputs


@dataclass(slots=True)
class RunFindings:
    """What the runs of one case showed."""

    summary: ErrorSummary
    """Errors of the outputs."""
    runs: int = 0
    """Sets of inputs compared."""
    oracle: str = ""
    """What ran the replacement, and the original if that differs."""
    independent: bool = True
    """Whether neither side ran by a rule's own pattern."""
    reference: str = "the original's own result"
    """What both sides are compared with."""
    refusal: str = ""
    """Why the original did not run on the first inputs that it refused."""
    depends_on_weights: bool = False
    """Whether the region fails only for other weights than the usual ones."""
    is_informative: bool = False
    """Whether some run was at sizes other than 1."""
    makes_integers: bool = False
    """Whether an output of integers is made of floats."""
    unsupported_empty: str = ""
    """Sizes, one of them 0, at which the original runs and the replacement does not."""
    kinds: dict[str, None] = field(default_factory=dict)
    """Kinds of inputs on which both sides agreed."""
    assignments: list[DimAssignment] = field(default_factory=list)
    """Sizes at which both sides agreed."""

    @property
    def sizes(self) -> Iterable[str]:
        """The sizes at which both sides agreed, in words."""
        return (assignment.description for assignment in self.assignments if assignment.by_symbol)


class InputFacts(NamedTuple):
    """What the judgement of a run needs to know of its inputs."""

    description: str
    """Their kind, in words."""
    kind: str = ""
    """Their public kind; "" for usual ones."""
    may_not_fit: bool = False
    """Whether sizes that depend on them may contradict the stated shapes."""
    may_overflow: bool = False
    """Whether they are finite, but so large that results may overflow."""
    may_lose: bool = False
    """Whether products of them may overflow."""
    has_denormals: bool = False
    """Whether reciprocals of them overflow."""
    is_usual: bool = False
    """Whether they are usual ones, without numbers put into them."""


class OpenSides(NamedTuple):
    """Both sides while they are open."""

    first: Oracle
    """Runs the original."""
    second: Oracle
    """Runs the replacement."""
    reference: Float64Reference | None
    """Runs the original in higher precision."""
    run_prefix: Callable[[Feeds], Feeds]
    """Gives the inputs of the models from those of the case."""
    inputs: CaseInputs
    """Makes the inputs of the case."""
    judge: OutputJudge
    """Judges outputs."""


class _Progress:
    """The current step of a run, reported before each step because it may end the process."""

    def __init__(self, note: Callable[[Any], None]) -> None:
        self._note, self.agreed = note, 0
        self.assignment: DimAssignment | None = None

    @property
    def is_empty(self) -> bool:
        """Whether some dim is 0."""
        return self.assignment is not None and self.assignment.is_empty

    def note(self, side: str) -> None:
        """Report what runs next."""
        at = dims_to_json(self.assignment)
        self._note({"side": side, "agreed": self.agreed, "empty": self.is_empty, "at": at})


class ProofRun:
    """One way of running a proof case: the steps, and their state.

    is_evaluated: only by onnx's ReferenceEvaluator.  once: on one set of inputs.
    """

    def __init__(
        self, case: ProofCase, note: Callable[[Any], None], *, is_evaluated: bool = False, once: bool = False
    ) -> None:
        self.case, self.is_evaluated, self._once = case, is_evaluated, once
        self.findings, self._progress = RunFindings(ErrorSummary(case.always_empty)), _Progress(note)
        self._last_failure: tuple[ValueKind, int] | None = None  # tried first at the next sizes
        self._ran_at: DimAssignment | None = None  # on all kinds of inputs
        picks, squares, divides = case.picks_by_products, case.squares, case.divides
        self._adapt = partial(adapted_kind, picks=picks, squares=squares, divides=divides)
        self._ops = case.ops

    @property
    def is_refused(self) -> bool:
        """Whether ONNX Runtime loads both sides, but runs the original at no informative sizes."""
        found = self.findings
        return bool(found.refusal) and not found.is_informative and found.oracle in KERNEL_ORACLES

    def merge(self, other: "ProofRun") -> None:
        """Add the runs and the worst errors of another run of the same region."""
        self.findings.runs += other.findings.runs
        self.findings.summary.merge(other.findings.summary)

    def outcome(self) -> tuple[Outcome, str]:
        """Return the outcome and its reason; unproved where inputs cannot be made or the original is not repeatable."""
        try:
            with without_common_prefix(self.case.models, self._oracle) as (sides, run_prefix, made):
                return self._open(sides, run_prefix, made)
        except CannotSlice as error:
            return Outcome.UNPROVED, str(error)
        except InputsUnknown as error:
            return Outcome.UNPROVED, error.reason

    def _open(
        self, sides: RegionModels, run_prefix: Callable[[Feeds], Feeds], made: frozenset[str]
    ) -> tuple[Outcome, str]:
        """Open both sides without their common prefix, and run them.  made: float outputs of the prefix."""
        bodies, inputs = self.case.bodies_before, CaseInputs(self.case)
        self._progress.note(ORIGINAL)
        try:
            first = self._oracle(sides.before, bodies)
        except SessionError as error:
            if self._state_sizes():
                return self.outcome()
            return Outcome.UNPROVED, f"nothing here runs the original nodes: {error.message.rstrip('.')}"
        with first:
            self._progress.note(REPLACEMENT)
            try:
                second = self._oracle(sides.after, self.case.bodies_after)
            except SessionError as error:
                if self._state_sizes():
                    return self.outcome()
                if error.is_unsupported:
                    return Outcome.UNPROVED, f"nothing here runs the replacement: {error.message.rstrip('.')}"
                return Outcome.FAILED, f"the replacement does not load: {error.message.rstrip('.')}"
            with second, ExitStack() as stack:
                self.findings.oracle = second.name
                self.findings.independent = first.is_independent and second.is_independent
                if first.name not in (second.name, *KERNEL_ORACLES):
                    self.findings.oracle += f", the original under {first.name}"
                reference = self._reference(sides.before, bodies)
                if reference is not None:
                    stack.enter_context(reference)
                probe = SensitivityProbe(
                    sides.before,
                    bodies,
                    self.case.options.custom_ops,
                    reference,
                    first=first.run,
                    whole=inputs.plain | made,
                )
                judge = OutputJudge(self.case, self._oracle, stack.enter_context(probe))
                failure = self._run_all(OpenSides(first, second, reference, run_prefix, inputs=inputs, judge=judge))
                if reference is not None:
                    self.findings.reference = reference.name  # it may have changed to another engine
        return (Outcome.FAILED, failure) if failure else self._agreement()

    def _agreement(self) -> tuple[Outcome, str]:
        """The outcome where no run failed: unproved where the runs were not informative."""
        case, found = self.case, self.findings
        if not found.runs and not found.refusal:
            why = "its inputs are too large to make, or one of their dims is 0 whatever the others are"
            return Outcome.UNPROVED, why
        if not found.runs:
            why = f"the original nodes run on no input made for them: {found.refusal}"
            return Outcome.UNPROVED, f"{why}{case.cure}"
        if not found.is_informative:
            why = "the original nodes run where all free dims are 1, and at no other sizes tried"
            return Outcome.UNPROVED, f"{why}{case.cure}"
        if case.inputs and not found.summary.is_informative:
            why = "no output tells anything: empty, NaN, or lost in rounding wherever it was computed"
            return Outcome.UNPROVED, why
        if doubt := unmatched(case.models.before) or found.summary.unproved_reason():
            return Outcome.UNPROVED, doubt
        notes = found.summary.loose_limit_note(), scope_note(case.intended_differences, found.unsupported_empty)
        return Outcome.PROVED, "; ".join(filter(None, notes))

    def _state_sizes(self) -> bool:
        """State the fixed sizes in both models, for onnx may infer wrong ones otherwise; whether that is new."""
        before, self.case = self.case, self.case.with_sizes()
        return self.case is not before

    def _oracle(self, model: onnx.ModelProto, bodies: Mapping[str, FunctionProto]) -> Oracle:
        return open_evaluator(model) if self.is_evaluated else open_oracle(model, self.case.options.custom_ops, bodies)

    def _reference(self, model: onnx.ModelProto, bodies: Mapping[str, FunctionProto]) -> Float64Reference | None:
        """The original in higher precision; None where nothing computes it."""
        self._progress.note(REFERENCE)
        try:
            return Float64Reference(model, bodies, custom_ops=self.case.options.custom_ops)
        except SessionError:
            return None

    def _run_all(self, sides: OpenSides) -> str | None:
        """Run all sets of inputs; return the first failure, None where there is none."""
        self._sides, found = sides, self.findings
        sizes = self._sizes = CaseDims(self.case, self.case.options.dims)
        failure: str | None = None
        for group in sizes.runnable():
            if failure and group[0].elements > MAX_RETRIED:
                continue
            before = found.summary, found.runs
            found.summary, found.runs = ErrorSummary(self.case.always_empty), 0
            failed = self._run_group(group)
            if not found.runs:
                found.summary, found.runs = before
                continue
            failure = failed
            if not failure and not found.is_informative:
                continue
            if not (failure and group[0].reduced) or self.case.weights:
                break  # else: a failure at reduced dims may pass at the true ones
        if not found.runs or failure or not found.is_informative or self._once:
            return failure
        return self._run_further(sizes, self._ran_at or group[0])

    def _run_further(self, sizes: CaseDims, at: DimAssignment) -> str | None:
        """Run on further inputs and sizes, after a group that runs.  at: the sizes of all kinds of inputs."""
        failure = None if self.case.is_brief else self._run_weight_kinds(at) or self._run_repeated(at)
        roomy: DimAssignment | None = None
        long: DimAssignment | None = None
        proposed, is_taken, number = size_cases(self.case, sizes, at), None, 0
        while not failure and (case := next_proposed(proposed, is_taken)) is not None:
            assignment, number, runs = case.dims, number + 1, self.findings.runs
            if adds_nothing(assignment, self._ops):
                continue
            roomy = roomy or (assignment if assignment.elements >= ROOM else None)
            longest = max(assignment.dims.values(), default=0)
            long = long or (assignment if longest >= MANY and assignment.work <= COSTLY_WORK else None)
            counted = 1 in assignment.by_symbol.values() or self._sides.inputs.counts_past
            special = {"has_room": assignment is roomy, "is_counted": counted, "is_first": assignment is long}
            kinds = kinds_at_other_sizes(number, longest, **special)
            failure = self._run_at(assignment, [*kinds, *self._sides.inputs.counts_sized(assignment)])
            is_taken = self.findings.runs > runs
        return failure

    def _run_weight_kinds(self, assignment: DimAssignment) -> str | None:
        """Run on other kinds of generated weights; return the first failure."""
        for values in WEIGHED if self._sides.inputs.weights else ():
            if kind_name(values) in self.case.intended_differences:
                continue
            failure = self._run(self._sides.inputs.with_weights(assignment, values), self._facts(values, 0))
            if failure:
                self.findings.depends_on_weights = True
                return f"{failure} (weights {values.description})"
            self.findings.kinds[f"weights {values.description}"] = None
        return None

    def _run_repeated(self, assignment: DimAssignment) -> str | None:
        """Run on more usual inputs where floats become integers: few inputs show a difference in rounding."""
        often = REPEATED_SCHEDULE if self.findings.makes_integers and assignment.elements <= MAX_REPEATED else ()
        return self._run_at(assignment, often)

    def _run_group(self, group: Sequence[DimAssignment]) -> str | None:
        """Run at each of several sizes, on all kinds of inputs at the first that runs; return the first failure."""
        for assignment in group:
            has_run = bool(self.findings.runs)
            failure = self._run_of_group(assignment, has_run)
            if self.findings.runs and not has_run:
                self._ran_at = assignment
            if failure or ((self.case.is_brief or self._once) and self.findings.is_informative):
                return failure
        return None

    def _run_of_group(self, assignment: DimAssignment, has_run: bool) -> str | None:
        """Run at one of the sizes of a group; return the first failure.  has_run: whether one before ran."""
        return self._run_at(assignment, self._kinds_at(assignment, has_run))

    def _kinds_at(self, assignment: DimAssignment, has_run: bool) -> Sequence[tuple[ValueKind, int]]:
        """The kinds of inputs at the sizes of a group: all of them at the first that runs."""
        if self._once or has_run or self.case.is_brief:
            return SINGLE_RUN_SCHEDULE if self._once else OTHER_SIZES_SCHEDULE if has_run else BRIEF_SCHEDULE
        return (
            (*FULL_SCHEDULE, *self._sides.inputs.more(assignment))
            if assignment.work <= COSTLY_WORK
            else COSTLY_SCHEDULE
        )

    def _run_at(self, assignment: DimAssignment, kinds: Sequence[tuple[ValueKind, int]]) -> str | None:
        """Run on inputs of these kinds at one set of sizes; return the first failure."""
        found, self._progress.assignment = self.findings, assignment
        before, self._sides.judge.terms = found.runs, self.case.longest_sum(assignment.size)
        for kind, turn in sorted(kinds, key=lambda item: item != self._last_failure):
            values = self._adapt(kind, turn, self._ops, len(self._sides.inputs.plain))
            if values is None or not self._sides.inputs.is_informative(values, turn):
                continue
            feeds, runs = self._sides.inputs.make(assignment, values, turn), found.runs
            failure = self._run_described(feeds, self._facts(values, turn))
            found.is_informative = found.is_informative or (found.runs > 0 and assignment.is_informative)
            if failure:
                self._last_failure = kind, turn
                return failure
            if found.runs > runs:
                found.kinds[values.description] = None
            elif found.runs == before and assignment.elements > REDUCE_ABOVE_ELEMENTS:
                break  # the nodes reject these sizes, not these values
        if found.runs > before:
            found.assignments.append(assignment)
        return None

    def _facts(self, values: ValueKind, turn: int) -> InputFacts:
        """What a kind of inputs means for a judgement."""
        return InputFacts(
            values.description,
            kind_name(values),
            may_not_fit=values in (ValueKind.COUNTS, ValueKind.OUT_OF_ROLE),
            may_overflow=self._sides.inputs.overflows(values, turn),
            may_lose=values in LOSING,
            has_denormals=values is ValueKind.DENORMALS,
            is_usual=values is ValueKind.USUAL and turn % VARIANT_STRIDE < LITERALS_VARIANT,
        )

    def _run_described(self, feeds: Feeds, facts: InputFacts) -> str | None:
        """The same as `_run`, with a description of the inputs behind a failure."""
        failure = self._run(feeds, facts)
        return failure and f"{failure}{describe_inputs(facts.description, facts.kind, feeds)}"

    def _run(self, feeds: Feeds, facts: InputFacts) -> str | None:
        """Run one set of inputs and judge it; return why the replacement fails, None where it does not."""
        found, sides, at = self.findings, self._sides, self._progress.assignment
        self._progress.note(ORIGINAL)
        try:
            feeds = sides.run_prefix(feeds)
            original = sides.first.run(feeds)
        except SessionError as error:
            found.refusal = found.refusal or error_message(error, self.case, self.case.models.before, at)
            return None
        if (self._progress.is_empty or facts.may_not_fit) and not self._fits(original):
            return None  # the rule may rely on the shapes that the source states, which x[:-0] does not have
        if not found.runs:
            again = sides.first.run(feeds)
            for name, answer in original.items():
                if not same_values(answer, again[name]):
                    raise CannotSlice(self.case.differs_by_itself(name))
        found.runs += 1
        self._progress.note(REPLACEMENT)
        try:
            rewritten = sides.second.run(feeds)
        except SessionError as error:
            return self._refused(error, original)
        common = original.keys() & rewritten.keys()
        if any(rewritten[name].shape != original[name].shape for name in common) and not self._fits(original):
            found.runs -= 1
            return None  # broadcasting gives the original another shape than the source states: anything goes
        return self._compare(feeds, original, rewritten, facts=facts)

    def _refused(self, error: SessionError, original: Mapping[str, np.ndarray]) -> str | None:
        """Why it is a failure that the replacement does not run; None where kernels may differ in that."""
        at = self._progress.assignment
        if error.is_unsupported:
            why = error_message(error, self.case, self.case.models.after, at)
            raise CannotSlice(f"nothing here runs the replacement: {why}") from error
        is_odd = self._progress.is_empty and not cannot_be_empty(self.case, at, error.node)
        if is_odd and at is not None and self._fits(original):
            self.findings.unsupported_empty = self.findings.unsupported_empty or at.description or "0"
        if is_odd or not self._fits(original):
            return None  # some kernels reject inconsistent sizes and empty tensors, others do not
        return f"the replacement does not run where the original does: {error.message.rstrip('.')}"

    def _compare(
        self,
        feeds: Feeds,
        original: Mapping[str, np.ndarray],
        rewritten: Mapping[str, np.ndarray],
        *,
        facts: InputFacts,
    ) -> str | None:
        """Compare all outputs of a run; return the first failure."""
        found, inputs = self.findings, self._sides.inputs
        exact = cache(partial(self._exact, feeds))
        for name, answer in original.items():
            if name not in rewritten:
                return f"{name!r} is not there: a sequence stands for a tensor, or a tensor for a sequence"
            if self._progress.is_empty and not answer.size and not rewritten[name].size:
                continue  # kernels differ in the shape of an empty tensor
            found.makes_integers = found.makes_integers or (answer.dtype.kind in "iu" and bool(inputs.plain))
            error = self._sides.judge.judge(
                name,
                answer,
                rewritten[name],
                reference=lambda name=name: exact().get(name),  # type: ignore[misc]
                feeds=feeds,
                # The reciprocal of a denormal overflows in the reference too: no dtype is wider than float64.
                overflowing=facts.may_overflow or (facts.has_denormals and answer.dtype == np.float64),
                may_lose=facts.may_lose,
            )
            if error is None:
                return None
            found.summary.add(error, answer, found.reference, is_usual=facts.is_usual)
            if not error.ok:
                return f"{name!r} {error.why}"
        self._progress.agreed += 1
        return None

    def _fits(self, original: Mapping[str, np.ndarray]) -> bool:
        """Whether the sizes of a run are consistent, as far as the stated shapes of the source show."""
        at = self._progress.assignment
        return at is None or self.case.is_of_source(original, at.size)

    def _exact(self, feeds: Feeds) -> dict[str, np.ndarray]:
        """The outputs of the reference; empty where it does not run."""
        self._progress.note(REFERENCE)
        if self._sides.reference is None:
            return {}
        try:
            return self._sides.reference.run(feeds)
        except SessionError:
            return {}  # compared with the original's own result
