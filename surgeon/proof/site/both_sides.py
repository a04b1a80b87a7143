"""Both sides of a region while they are open: one set of inputs at a time, run and judged."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
import onnx
from onnx import FunctionProto

from surgeon.proof.cases.case_inputs import CaseInputs
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.literal_injection import Feeds
from surgeon.proof.check_result import Outcome
from surgeon.proof.counterexample import Differing, shapes_text
from surgeon.proof.judge.common_prefix import without_common_prefix
from surgeon.proof.judge.exemptions import cannot_be_empty
from surgeon.proof.proof_case import ORIGINAL, REFERENCE, REPLACEMENT, ProofCase, RegionModels
from surgeon.proof.site.largest_tensor import dims_to_json, error_message
from surgeon.proof.site.output_judge import OutputJudge
from surgeon.proof.site.run_findings import RunFindings
from surgeon.proof.site.target_replacement import TargetArithmetic, TargetReplacement, open_replacement
from surgeon.runtime.numerics.array_comparison import same_values
from surgeon.runtime.numerics.sensitivity_probe import SensitivityProbe
from surgeon.runtime.sessions.engine_names import KERNEL_ENGINES, both_engines
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.oracle import Oracle, open_evaluator, open_oracle
from surgeon.runtime.sessions.ort_session import SessionError


class InputFacts(NamedTuple):
    """Facts of the inputs of a run; its judgement uses them."""

    description: str
    """Their values, in words."""
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
    strategy: str = ""
    """Name of the strategy that proposed them."""

    def in_brackets(self, feeds: Feeds) -> str:
        """The inputs in brackets, for a message; with how to declare a difference that right rules have there too."""
        return f" (inputs {self.description}, {shapes_text(feeds)}{self.hint})"

    @property
    def hint(self) -> str:
        """How to declare a difference that right rules have there too: the end of a sentence."""
        is_hinted = self.kind in ("non_finite", "extreme")
        return f'; if this is intended, declare it in the rule: differs={{"{self.kind}": "why"}}' if is_hinted else ""


class FailingCase(NamedTuple):
    """Inputs on which the replacement fails."""

    feeds: Feeds
    """The inputs of both sides."""
    facts: InputFacts
    """Facts of these inputs."""
    dims: DimAssignment
    """Their sizes."""
    why: str
    """Why it fails, in words."""
    result: Differing | None
    """The output that differs; None if the replacement did not run."""

    @property
    def text(self) -> str:
        """Why it fails, and the inputs in brackets."""
        return f"{self.why}{self.facts.in_brackets(self.feeds)}"


class Decided(Exception):
    """The outcome of a proof before all of its cases ran, with the reason."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


class BothSides:
    """Both sides of a proof case.  A context manager, which has them open.

    findings: runs add to them.  note: receives each step before it, because it may end the process.
    is_evaluated: only by onnx's ReferenceEvaluator.  Raises Decided if a side does not load, and InputsUnknown.
    """

    def __init__(
        self, case: ProofCase, findings: RunFindings, note: Callable[[Any], None], *, is_evaluated: bool
    ) -> None:
        self.case, self._findings, self._note, self._is_evaluated = case, findings, note, is_evaluated
        self._agreed = 0
        self._stack = ExitStack()
        # The reduced dims of models that state their sizes, and whether they load with these.
        self._stated: tuple[Mapping[int, int], bool] | None = None

    def __enter__(self) -> Self:
        models = self.case.models
        try:
            self._open(models)
        except Decided:
            if models.states_sizes:
                raise
            self._stated = {}, True  # onnx may require that sizes are stated, or infer wrong ones where they are not
            self._open(models.with_sizes({}))
        return self

    def __exit__(self, *_: object) -> None:
        self._note_engines()
        self._stack.close()

    def _loads_at(self, at: DimAssignment) -> bool:
        """Whether both sides load at these sizes; models that state other ones are opened again."""
        if self._stated is not None and self._stated[0] != at.reduced:
            self._stack.close()
            try:
                self._open(self.case.models.with_sizes(at.reduced))
                self._stated = at.reduced, True
            except Decided:
                self._stated = at.reduced, False
        return self._stated is None or self._stated[1]

    def _open(self, models: RegionModels) -> None:
        """Open both sides without their common prefix."""
        case = self.case
        self.__dict__.pop("_reference", None)
        with ExitStack() as stack:
            sides, self._run_prefix, made = stack.enter_context(without_common_prefix(models, self._oracle))
            self.inputs = CaseInputs(case)
            self._runtimes = self._opened(sides, stack)
            self._note_engines()
            probe = SensitivityProbe(
                sides.before,
                case.bodies_before,
                case.options.custom_ops,
                lambda: self._reference,
                first=self._runtimes[0].run,
                whole=self.inputs.plain | made,
            )
            arithmetic = TargetArithmetic(self._runtimes[1], case.options.runtime)
            self._judge = OutputJudge(case, self._oracle, stack.enter_context(probe), arithmetic)
            self._before = sides.before
            self._stack = stack.pop_all()

    def _opened(self, sides: RegionModels, stack: ExitStack) -> tuple[Oracle, Oracle]:
        """The runtimes of the original and of the replacement."""
        self._noted(ORIGINAL, None)
        try:
            first = stack.enter_context(self._oracle(sides.before, self.case.bodies_before))
        except SessionError as error:
            why = f"the original nodes cannot run: {error.message.rstrip('.')}"
            raise Decided(Outcome.UNPROVED, why) from error
        self._noted(REPLACEMENT, None)
        try:
            return first, stack.enter_context(self._replacement(sides))
        except SessionError as error:
            message = error.message.rstrip(".")
            if error.is_unsupported:
                raise Decided(Outcome.UNPROVED, f"the replacement cannot run: {message}") from error
            raise Decided(Outcome.FAILED, f"the replacement does not load: {message}") from error

    def _oracle(self, model: onnx.ModelProto, bodies: Mapping[str, FunctionProto]) -> Oracle:
        return open_evaluator(model) if self._is_evaluated else open_oracle(model, self.case.options.custom_ops, bodies)

    def _replacement(self, sides: RegionModels) -> Oracle:
        """The runtime of the replacement."""

        def elsewhere() -> Oracle:
            return self._oracle(sides.after, self.case.bodies_after)

        return elsewhere() if self._is_evaluated else open_replacement(self.case, sides, elsewhere)

    def _note_engines(self) -> None:
        """Note what runs both sides."""
        found, (first, second) = self._findings, self._runtimes
        found.oracle = both_engines(second.name, "" if first.name in KERNEL_ENGINES else first.name)
        found.independent = first.is_independent and second.is_independent
        refusal = second.refusal if isinstance(second, TargetReplacement) else ""
        found.not_on_target = refusal or found.not_on_target

    @cached_property
    def _reference(self) -> Float64Reference | None:
        """The original in higher precision, opened at first use; None if nothing computes it."""
        options, bodies = self.case.options, self.case.bodies_before
        try:
            return self._stack.enter_context(Float64Reference(self._before, bodies, custom_ops=options.custom_ops))
        except SessionError:
            return None

    def _noted(self, side: str, at: DimAssignment | None) -> None:
        is_empty = at is not None and at.is_empty
        self._note({"side": side, "agreed": self._agreed, "empty": is_empty, "at": dims_to_json(at)})

    def original(self, feeds: Feeds, at: DimAssignment) -> Feeds | None:
        """The outputs of the original; None if it rejects the inputs."""
        self._noted(ORIGINAL, at)
        if not self._loads_at(at):
            return None
        try:
            return self._runtimes[0].run(self._run_prefix(dict(feeds)))
        except SessionError:
            return None

    def outputs(self, feeds: Feeds, at: DimAssignment) -> tuple[Feeds, Feeds] | None:
        """The outputs of the original and of the replacement, counted as a run; None if one rejects the inputs."""
        self._noted(ORIGINAL, at)
        if not self._loads_at(at):
            return None
        try:
            given = self._run_prefix(feeds)
            original = self._runtimes[0].run(given)
            self._findings.runs += 1
            self._noted(REPLACEMENT, at)
            return original, self._runtimes[1].run(given)
        except SessionError:
            return None

    def agree(self) -> None:
        """Count a run on which both sides agree."""
        self._agreed += 1

    def run(self, feeds: Feeds, facts: InputFacts, at: DimAssignment) -> FailingCase | None:
        """Run one set of inputs and judge it; None if the replacement does not fail."""
        failure = self._run(feeds, facts, at)
        return None if failure is None else FailingCase(feeds, facts, at, *failure)

    def _run(self, feeds: Feeds, facts: InputFacts, at: DimAssignment) -> tuple[str, Differing | None] | None:
        """Why the replacement fails, and the output that differs."""
        found = self._findings
        self._noted(ORIGINAL, at)
        if not self._loads_at(at):
            return None
        try:
            feeds = self._run_prefix(feeds)
            original = self._runtimes[0].run(feeds)
        except SessionError as error:
            found.refusal = found.refusal or error_message(error, self.case, self.case.models.before, at)
            return None
        if (at.is_empty or facts.may_not_fit) and not self.case.is_of_source(original, at.size):
            return None  # the rule may rely on the shapes that the source states, which x[:-0] does not have
        if not found.runs:
            again = self._runtimes[0].run(feeds)
            for name, answer in original.items():
                if not same_values(answer, again[name]):
                    raise Decided(Outcome.UNPROVED, self.case.differs_by_itself(name))
        found.runs += 1
        self._noted(REPLACEMENT, at)
        try:
            rewritten = self._runtimes[1].run(feeds)
        except SessionError as error:
            why = self._refused(error, original, at)
            return None if why is None else (why, None)
        common = original.keys() & rewritten.keys()
        is_broadcast = any(rewritten[name].shape != original[name].shape for name in common)
        if is_broadcast and not self.case.is_of_source(original, at.size):
            found.runs -= 1
            return None  # broadcasting gives the original another shape than the source states: anything goes
        return self._compare(feeds, original, rewritten, facts=facts, at=at)

    def _refused(self, error: SessionError, original: Feeds, at: DimAssignment) -> str | None:
        """Why it is a failure that the replacement does not run; None if kernels may differ in that."""
        if error.is_unsupported:
            why = error_message(error, self.case, self.case.models.after, at)
            raise Decided(Outcome.UNPROVED, f"the replacement cannot run: {why}") from error
        is_odd, fits = self._is_odd(error, at), self.case.is_of_source(original, at.size)
        if is_odd and fits:
            self._findings.unsupported_empty = self._findings.unsupported_empty or at.description or "0"
        if is_odd or not fits:
            return None  # some kernels reject inconsistent sizes and empty tensors, others do not
        return f"the replacement fails on inputs that the original accepts: {error.message.rstrip('.')}"

    def _is_odd(self, error: SessionError, at: DimAssignment) -> bool:
        """Whether a kernel may reject the run because a tensor is empty."""
        return at.is_empty and not cannot_be_empty(self.case, at, error.node)

    def _compare(
        self, feeds: Feeds, original: Feeds, rewritten: Feeds, *, facts: InputFacts, at: DimAssignment
    ) -> tuple[str, Differing | None] | None:
        """Compare all outputs of a run; return the first failure."""
        found = self._findings
        exact, terms = cache(partial(self._exact, feeds, at)), self.case.longest_sum(at.size)
        for name, answer in original.items():
            if name not in rewritten:
                return f"{name!r} is a tensor on one side and a sequence on the other", None
            if at.is_empty and not answer.size and not rewritten[name].size:
                continue  # kernels differ in the shape of an empty tensor
            error = self._judge.judge(
                name,
                answer,
                rewritten[name],
                reference=lambda name=name: exact().get(name),  # type: ignore[misc]
                feeds=feeds,
                # The reciprocal of a denormal overflows in the reference too: no dtype is wider than float64.
                overflowing=facts.may_overflow or (facts.has_denormals and answer.dtype == np.float64),
                may_lose=facts.may_lose,
                terms=terms,
            )
            if error is None:
                return None
            found.summary.add(error, answer, found.reference, is_usual=facts.is_usual)
            if not error.ok:
                is_named = self.case.outputs != (name,)
                return f"{name!r} {error.why}", Differing(error, answer, rewritten[name], is_named=is_named)
        self.agree()
        return None

    def _exact(self, feeds: Feeds, at: DimAssignment) -> Feeds:
        """The outputs of the reference; empty if it does not run."""
        self._noted(REFERENCE, at)
        if self._reference is None:
            return {}
        try:
            return self._reference.run(feeds)
        except SessionError:
            return {}  # compared with the original's own result
        finally:
            self._findings.reference = self._reference.name  # it changes to another engine if one fails
