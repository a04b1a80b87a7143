"""Both mini-models of a region on the same inputs, their answers held against a higher-precision reference."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto

from surgeon.proof.cases.case_inputs import CaseInputs
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.literal_injection import Feeds
from surgeon.proof.cases.size_strategies import (
    COSTLY_WORK,
    MAX_FULL_ELEMENTS,
    MOST_AT_ONCE,
    REDUCE_ABOVE_ELEMENTS,
    Halving,
    SizeStrategies,
)
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
    absolute_error,
    adapted_kind,
    adds_nothing,
    begins_at_zero,
    describe_inputs,
    has_absolute_error,
    kind_name,
    kinds_at_other_sizes,
    overflows_in_doubles,
    told_limits,
)
from surgeon.proof.check_result import Outcome
from surgeon.proof.judge.common_nodes import have_common_nodes
from surgeon.proof.judge.common_prefix import front_opened
from surgeon.proof.judge.error_summary import ErrorSummary
from surgeon.proof.judge.exemptions import cannot_be_empty, overflows, reach_fill
from surgeon.proof.proof_case import ORIGINAL, REFERENCE, REPLACEMENT, ProofCase, RegionModels
from surgeon.proof.site.largest_tensor import dims_to_json, error_message
from surgeon.proof.site_proof import CannotSlice
from surgeon.runtime.inputs.input_generator import InputsUnknown, ValueKind
from surgeon.runtime.inputs.string_values import unmatched
from surgeon.runtime.numerics.array_comparison import same_values
from surgeon.runtime.numerics.sensitivity import Sensitivity
from surgeon.runtime.numerics.sensitivity_probe import SensitivityProbe
from surgeon.runtime.numerics.tensor_judge import TensorError, judge_tensor
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.oracle import KERNEL_ORACLES, Oracle, open_evaluator, open_oracle
from surgeon.runtime.sessions.ort_session import SessionError

MOST_AGAIN = 1 << 22  # elements of inputs up to which a region that fails at smaller sizes is run at its own
MOST_OFTEN = 1 << 12  # elements of inputs up to which it is run on many sets of them

class ProofRun:
    """One way of running an experiment: the steps, and what they share.

    is_evaluated: by onnx's ReferenceEvaluator alone.  once: on one set of inputs.
    """

    def __init__(
        self, experiment: ProofCase, note: Callable[[Any], None], *, is_evaluated: bool = False, once: bool = False
    ) -> None:
        self._once, self._note_down, self._agreed, self._is_empty = once, note, 0, False
        self._suspect: tuple[ValueKind, int] | None = (
            None  # what failed last: where it fails again, the rest is not run
        )
        self._at: DimAssignment | None = None
        self.experiment, self.options, self.is_evaluated = experiment, experiment.options, is_evaluated
        self.reference: Float64Reference | None = None
        self.oracle, self.independent, self.against = "", True, "the original's own result"
        self.ledger, self.runs, self.refusal = ErrorSummary(experiment.always_empty), 0, ""
        self.is_of_weights = False  # it fails for other weights than the usual ones alone
        self._ran_at: DimAssignment | None = None  # all kinds of inputs
        self._tells, self._rounds = False, False  # a run at sizes other than 1; an output of integers, made of floats
        picks, squares, divides = experiment.picks_by_products, experiment.squares, experiment.divides
        self._suited = partial(adapted_kind, picks=picks, squares=squares, divides=divides)
        self._ops, self._terms = experiment.ops, 1  # of the longest sum, at the sizes of the run
        self._errs_alike = have_common_nodes(experiment.models, has_absolute_error)
        self._zeros = frozenset[str]() if begins_at_zero(self._ops) else experiment.sign_sensitive
        self._kinds, self._tried = dict[str, None](), list[DimAssignment]()
        self._only_filled = ""  # sizes, one of them 0, at which the original runs and the replacement does not

    @property
    def is_refused(self) -> bool:
        """Whether ONNX Runtime loads both sides, and runs the original at no sizes that tell anything."""
        return bool(self.refusal) and not self._tells and self.oracle in KERNEL_ORACLES

    @property
    def kinds(self) -> Iterable[str]:
        """The kinds of inputs on which both sides agreed."""
        return self._kinds

    @property
    def sizes(self) -> Iterable[str]:
        """The sets of sizes at which they did, in words."""
        return (setting.description for setting in self._tried if setting.by_symbol)

    def merge(self, other: "ProofRun") -> None:
        """Count the runs of another proof of the same region among these, and keep what was worst in either."""
        self.runs += other.runs
        self.ledger.merge(other.ledger)

    def outcome(self) -> tuple[Outcome, str]:
        """Return the outcome and its reason; what cannot be fed, or answers anew each time, is unproved."""
        try:
            with front_opened(self.experiment.models, self._oracle) as (minis, self._fed, made):
                return self._judged(minis, made)
        except CannotSlice as error:
            return Outcome.UNPROVED, str(error)
        except InputsUnknown as error:
            return Outcome.UNPROVED, error.reason

    def _judged(self, minis: RegionModels, made: frozenset[str]) -> tuple[Outcome, str]:
        """The same of what is behind what both sides compute first; made: what that hands on, but for integers."""
        bodies, self._feeder = self.experiment.bodies_before, CaseInputs(self.experiment)
        self._note(ORIGINAL)
        try:
            first = self._oracle(minis.before, bodies)
        except SessionError as error:
            if self._state_sizes():
                return self.outcome()
            return Outcome.UNPROVED, f"nothing here runs the original nodes: {error.message.rstrip('.')}"
        with first:
            self._note(REPLACEMENT)
            try:
                second = self._oracle(minis.after, self.experiment.bodies_after)
            except SessionError as error:
                if self._state_sizes():
                    return self.outcome()
                if error.is_unsupported:
                    return Outcome.UNPROVED, f"nothing here runs the replacement: {error.message.rstrip('.')}"
                return Outcome.FAILED, f"the replacement does not load: {error.message.rstrip('.')}"
            with second, ExitStack() as stack:
                self.oracle, self.independent = second.name, first.is_independent and second.is_independent
                if first.name not in (second.name, *KERNEL_ORACLES):
                    self.oracle += f", the original under {first.name}"
                self.reference = self._reference(minis.before, bodies)
                if self.reference is not None:
                    stack.enter_context(self.reference)
                ops, plain = self.options.custom_ops, self._feeder.plain | made
                self._moves = stack.enter_context(
                    SensitivityProbe(minis.before, bodies, ops, reference=self.reference, first=first.run, whole=plain)
                )
                self._first, self._second = first, second
                failure = self._run_all()
                if self.reference is not None:
                    self.against = self.reference.name  # it may have turned to another engine on the way
        if failure:
            return Outcome.FAILED, failure
        if not self.runs and not self.refusal:
            why = "its inputs are too large to make, or one of their dims is 0 whatever the others are"
            return Outcome.UNPROVED, why
        if not self.runs:
            why = f"the original nodes run on no input made for them: {self.refusal}"
            return Outcome.UNPROVED, f"{why}{self.experiment.cure}"
        if not self._tells:
            why = "the original nodes run where all free dims are 1, and at no other sizes tried"
            return Outcome.UNPROVED, f"{why}{self.experiment.cure}"
        if self.experiment.inputs and not self.ledger.tells:
            why = "no output tells anything: empty, NaN, or lost in rounding wherever it was computed"
            return Outcome.UNPROVED, why
        if doubt := unmatched(self.experiment.models.before) or self.ledger.unproved_reason():
            return Outcome.UNPROVED, doubt
        return Outcome.PROVED, told_limits(self.experiment.intended_differences, self._only_filled)

    def _note(self, side: str) -> None:
        """Say what runs next, for whoever has to tell why it never ended."""
        at = dims_to_json(self._at)
        self._note_down({"side": side, "agreed": self._agreed, "empty": self._is_empty, "at": at})

    def _state_sizes(self) -> bool:
        """Let both models state their fixed sizes, for without them onnx may infer wrong ones; whether that is new."""
        before, self.experiment = self.experiment, self.experiment.with_sizes()
        return self.experiment is not before

    def _oracle(self, mini: onnx.ModelProto, bodies: Mapping[str, FunctionProto]) -> Oracle:
        return open_evaluator(mini) if self.is_evaluated else open_oracle(mini, self.options.custom_ops, bodies)

    def _reference(self, model: onnx.ModelProto, bodies: Mapping[str, FunctionProto]) -> Float64Reference | None:
        """The original in higher precision; None where nothing computes it."""
        self._note(REFERENCE)
        try:
            return Float64Reference(model, bodies, custom_ops=self.options.custom_ops)
        except SessionError:
            return None

    def _run_all(self) -> str:
        """Run all sets of inputs; returns what is wrong, worst first, or an empty string."""
        sizes, failure = SizeStrategies(self.experiment, self.options.dims), ""
        for group in sizes.groups():
            if failure and group[0].elements > MOST_AGAIN:
                continue
            before = self.ledger, self.runs
            self.ledger, self.runs = ErrorSummary(self.experiment.always_empty), 0
            found = self._run_group(group)
            if not self.runs:
                self.ledger, self.runs = before
                continue
            failure = found
            if not failure and not self._tells:
                continue
            if not (failure and group[0].reduced) or self.experiment.weights:
                break  # else: what fails with dims made smaller may be right as they are
        if not self.runs or failure or not self._tells or self._once:
            return failure
        at = self._ran_at or group[0]
        full = sizes.full(MOST_AT_ONCE if self.experiment.is_brief else MAX_FULL_ELEMENTS) if group[0].reduced else ()
        further: Iterable[DimAssignment] = tuple(full)
        if not self.experiment.is_brief:
            failure = self._run_weighed(at) or self._run_often(at)
            further = (*further, *sizes.variations(at))
        roomy: DimAssignment | None = None
        long: DimAssignment | None = None
        wanted = () if failure else (setting for setting in further if not adds_nothing(setting, self._ops))
        for number, setting in enumerate(wanted, 1):
            roomy = roomy or (setting if setting.elements >= ROOM else None)
            longest, runs = max(setting.dims.values(), default=0), self.runs
            long = long or (setting if longest >= MANY and setting.work <= COSTLY_WORK else None)
            counted = 1 in setting.by_symbol.values() or self._feeder.counts_past
            special = {"has_room": setting is roomy, "is_counted": counted, "is_first": setting is long}
            kinds = [*kinds_at_other_sizes(number, longest, **special), *self._feeder.counts_sized(setting)]
            failure = self._run_at(setting, kinds)
            for alone in (
                sizes.one_at_a_time(setting, at) if self.runs == runs else ()
            ):  # it takes no such sizes together
                failure = failure or self._run_at(alone, kinds)
            if self.runs == runs:
                failure = failure or self._run_longest(sizes.longest_accepted(setting, at), kinds)
            if failure:
                break
        return failure

    def _run_longest(self, asked: Halving, kinds: Sequence[tuple[ValueKind, int]]) -> str:
        """Run with the longest size that the nodes take of a dim of which they refuse one, as a table has rows."""
        failure, is_taken = "", None
        with suppress(StopIteration):
            while not failure:
                setting, runs = asked.send(is_taken), self.runs
                failure, is_taken = self._run_at(setting, kinds), self.runs > runs
        return failure

    def _run_weighed(self, setting: DimAssignment) -> str:
        """Run on other weights than the usual ones, where such are made up; returns what is wrong."""
        for values in WEIGHED if self._feeder.weights else ():
            if kind_name(values) in self.experiment.intended_differences:
                continue
            failure = self._run(self._feeder.with_weights(setting, values), values)
            if failure:
                self.is_of_weights = True
                return f"{failure} (weights {values.description})"
            self._kinds[f"weights {values.description}"] = None
        return ""

    def _run_often(self, setting: DimAssignment) -> str:
        """Run on more usual inputs where floats become integers: few tell one rounding from another."""
        often = REPEATED_SCHEDULE if self._rounds and setting.elements <= MOST_OFTEN else ()
        return self._run_at(setting, often)

    def _run_group(self, group: Sequence[DimAssignment]) -> str:
        """Run at each of several settings, on all kinds of inputs at the first that runs; returns what is wrong."""
        for setting in group:
            has_run = bool(self.runs)
            failure = self._run_at(setting, self._kinds_at(setting, has_run))
            if self.runs and not has_run:
                self._ran_at = setting
            if failure or ((self.experiment.is_brief or self._once) and self._tells):
                return failure
        return ""

    def _kinds_at(self, setting: DimAssignment, has_run: bool) -> Sequence[tuple[ValueKind, int]]:
        """The kinds of inputs at the sizes of a group: all of them at the first that runs."""
        if self._once or has_run or self.experiment.is_brief:
            return SINGLE_RUN_SCHEDULE if self._once else OTHER_SIZES_SCHEDULE if has_run else BRIEF_SCHEDULE
        return (*FULL_SCHEDULE, *self._feeder.more(setting)) if setting.work <= COSTLY_WORK else COSTLY_SCHEDULE

    def _run_at(self, setting: DimAssignment, kinds: Sequence[tuple[ValueKind, int]]) -> str:
        """Run on inputs of these kinds and of one set of sizes; returns what is wrong, or an empty string."""
        self._at, self._is_empty, before = setting, setting.is_empty, self.runs
        self._terms = self.experiment.longest_sum(setting.size)
        for kind, turn in sorted(kinds, key=lambda item: item != self._suspect):
            values = self._suited(kind, turn, self._ops, len(self._feeder.plain))
            if values is None or not self._feeder.is_informative(values, turn):
                continue
            feeds, runs = self._feeder.make(setting, values, turn), self.runs
            failure = self._run(feeds, values, turn)
            self._tells = self._tells or (self.runs > 0 and setting.is_informative)
            if failure:
                self._suspect = kind, turn
                return f"{failure}{describe_inputs(values, feeds)}"
            if self.runs > runs:
                self._kinds[values.description] = None
            elif self.runs == before and setting.elements > REDUCE_ABOVE_ELEMENTS:
                break  # what refuses much refuses its sizes: it is not made again with other numbers
        if self.runs > before:
            self._tried.append(setting)
        return ""

    def _run(self, feeds: Feeds, values: ValueKind, turn: int = 0) -> str:
        """Run one set of inputs and judge it; returns why the replacement fails, or an empty string."""
        self._note(ORIGINAL)
        try:
            feeds = self._fed(feeds)
            original = self._first.run(feeds)
        except SessionError as error:
            self.refusal = self.refusal or error_message(
                error, self.experiment, self.experiment.models.before, self._at
            )
            return ""
        if (self._is_empty or values in (ValueKind.COUNTS, ValueKind.OUT_OF_ROLE)) and not self._fits(original):
            return ""  # the rule may stand on the shapes that the source states, which x[:-0] has not
        if not self.runs:
            again = self._first.run(feeds)
            for name, answer in original.items():
                if not same_values(answer, again[name]):
                    raise CannotSlice(self.experiment.differs_by_itself(name))
        self.runs += 1
        self._note(REPLACEMENT)
        try:
            rewritten = self._second.run(feeds)
        except SessionError as error:
            if error.is_unsupported:
                why = error_message(error, self.experiment, self.experiment.models.after, self._at)
                raise CannotSlice(f"nothing here runs the replacement: {why}") from error
            is_odd = self._is_empty and not cannot_be_empty(self.experiment, self._at, error.node)
            if is_odd and self._at is not None and self._fits(original):
                self._only_filled = self._only_filled or self._at.description or "0"
            if is_odd or not self._fits(original):
                return ""  # kernels differ in whether they take sizes that do not fit, and tensors without elements
            return f"the replacement does not run where the original does: {error.message.rstrip('.')}"
        common = original.keys() & rewritten.keys()
        if any(rewritten[name].shape != original[name].shape for name in common) and not self._fits(original):
            self.runs -= 1
            return ""  # where the original is spread to another shape than the source states, the rule need not be
        exact, large = self._exact(feeds), self._feeder.overflows(values, turn)
        for name, answer in original.items():
            if name not in rewritten:
                return f"{name!r} is not there: a sequence stands for a tensor, or a tensor for a sequence"
            if self._is_empty and not answer.size and not rewritten[name].size:
                continue  # which shape a tensor without elements has, kernels tell differently too
            self._rounds = self._rounds or (answer.dtype.kind in "iu" and bool(self._feeder.plain))
            is_large = large or overflows_in_doubles(values, answer.dtype)
            found = self._judge(
                name,
                answer,
                rewritten[name],
                exact=exact.get(name),
                feeds=feeds,
                large=is_large,
                loses=values in LOSING,
            )
            if found is None:
                return ""
            is_usual = values is ValueKind.USUAL and turn % VARIANT_STRIDE < LITERALS_VARIANT
            self.ledger.add(found, answer, self.against, is_usual=is_usual)
            if not found.ok:
                return f"{name!r} {found.why}"
        self._agreed += 1
        return ""

    def _fits(self, original: Mapping[str, np.ndarray]) -> bool:
        """Whether the sizes of a run fit one another, as far as the shapes tell that the source states."""
        return self._at is None or self.experiment.is_of_source(original, self._at.size)

    def _exact(self, feeds: Feeds) -> dict[str, np.ndarray]:
        """The reference's answer, nothing where it has none."""
        self._note(REFERENCE)
        if self.reference is None:
            return {}
        try:
            return self.reference.run(feeds)
        except SessionError:
            return {}  # judged against the original itself, as the proof then says

    def _judge(
        self,
        name: str,
        original: np.ndarray,
        rewritten: np.ndarray,
        exact: np.ndarray | None,
        feeds: Feeds,
        large: bool,
        loses: bool,
    ) -> TensorError | None:
        """Judge one output; how far the reference moves with its inputs is asked only where that decides.

        loses: products of such inputs may overflow.  None where it differs as `surgeon.proof.judge.exemptions` says.
        """
        settled = partial(
            judge_tensor,
            name,
            original,
            rewritten,
            exact,
            rtol=self.options.rtol,
            atol=self.options.atol,
            slack=self.experiment.slack,
            overflowing=large,
            by_ones=absolute_error(self._ops, original.shape, feeds),
            errs_alike=self._errs_alike,
            has_signs=name in self._zeros,
        )
        answer, asked = original if exact is None else exact, partial(settled, terms=self._terms)
        if loses:
            found = asked(Sensitivity.uniform(0.0))
            if found.ok or overflows(self.experiment, feeds, self._oracle):
                return found if found.ok else None
        found = self._moves.judge(asked, name, answer, dtype=original.dtype, feeds=feeds)
        return None if not found.ok and reach_fill(self.experiment, feeds, self._oracle) else found
