"""One region proved: both mini-models on the same inputs, their answers held against a higher-precision reference."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

import numpy as np
import onnx
from onnx import FunctionProto

from surgeon.feeding.inputs import InputPlan, InputsUnknown, Values
from surgeon.feeding.wants import OVERFLOWING
from surgeon.prove.compare import same_values, stated
from surgeon.prove.experiment import ORIGINAL, REFERENCE, REPLACEMENT, Experiment, MiniModels
from surgeon.prove.exposing import exposing
from surgeon.prove.judge import TensorError, change, judge, moved_by_one_ulp
from surgeon.prove.pins import LARGE_PIN, sprinkle
from surgeon.prove.proof import CannotCut, SiteProof
from surgeon.prove.result import Outcome
from surgeon.prove.sizes import Setting, Sizes
from surgeon.running.oracles import KERNELS, Oracle, open_evaluator, open_oracle
from surgeon.running.precision import Reference
from surgeon.running.runtime import SessionError

Feeds = dict[str, np.ndarray]
PRODUCTS = frozenset(("MatMul", "Gemm", "FusedMatMul", "Einsum"))

# What a region is run on at the first sizes, and at the others.
SPOKEN_OF = 2  # the turn of usual values that hold the region's own constants too
FIRST = (
    *((Values.USUAL, turn) for turn in range(3)),
    (Values.WIDE, 0),
    (Values.LARGE, 1),
    (Values.ZEROS, 0),
    (Values.DENORMALS, 0),
    (Values.CONSTANT_ROWS, 0),
    *((Values.OFFSET, turn) for turn in range(2)),
    (Values.SMALL, 0),
    (Values.FAR, 0),
    *((Values.EXTREME, turn) for turn in range(2)),
    *((Values.NON_FINITE, turn) for turn in range(2)),
)
# How often, and each time how much further, all inputs are moved where a softmax picks one of many numbers by products
# of large ones: those lose more places than one, and where two come near each other, which of them is the larger hangs
# on the order in which a kernel adds up.
NUDGES, FURTHER = 4, 8
OTHERS = ((Values.USUAL, 0), (Values.WIDE, 0), (Values.NON_FINITE, 0))
MOST_AGAIN = 1 << 20  # elements of inputs up to which a region that fails at smaller sizes is run at its own
TELLING = frozenset((Values.USUAL, Values.WIDE, Values.LARGE, Values.UNSIGNED, Values.TAME))


def run_experiment(experiment: Experiment, note: Callable[[Any], None] = lambda _: None) -> SiteProof:
    """Run both sides and judge.  What the models do never raises: every way of not running is an outcome.

    note: told which side is run next, and how many runs agreed before: what it takes in may be its last.
    """
    started = time.perf_counter()
    options = experiment.options
    proof = _Proof(experiment, note)
    outcome, reason = proof.judged()
    if proof.is_refused:  # kernels of ONNX Runtime take less than the ops allow
        other = _Proof(experiment, note, is_evaluated=True)
        found = other.judged()
        if found[0] is not Outcome.UNPROVED:
            proof, (outcome, reason) = other, found
    return SiteProof(
        outcome=outcome,
        reason=reason,
        oracle=proof.oracle,
        independent=proof.independent,
        reference=proof.against,
        errors=tuple(proof.worst.values()),
        runs=proof.runs,
        tolerance=stated({error.dtype: None for error in proof.worst.values()}, options.rtol, options.atol),
        seconds=time.perf_counter() - started,
    )


class _Proof:
    """The steps of `run_experiment` and what they share.  is_evaluated: by onnx's ReferenceEvaluator alone."""

    def __init__(self, experiment: Experiment, note: Callable[[Any], None], *, is_evaluated: bool = False) -> None:
        self._note_down, self._agreed = note, 0
        self.experiment, self.options, self.is_evaluated = experiment, experiment.options, is_evaluated
        self.reference: Reference | None = None
        self.oracle, self.independent, self.against = "", True, "the original's own result"
        self.worst: dict[str, TensorError] = {}
        self.runs = 0
        self.refusal = ""
        self._constants = {tensor.name: tensor for tensor in experiment.minis.before.graph.initializer}
        self._plain: frozenset[str] = frozenset()  # float inputs of no special role
        self._telling: set[str] = set()
        self._tells = False  # some run was at sizes other than 1
        self._picks = False  # whether a softmax of large products picks one of many numbers
        self._terms = 1  # of the longest sum, at the sizes of the run

    @property
    def is_refused(self) -> bool:
        """Whether ONNX Runtime loads both sides, and runs the original at no sizes that tell anything."""
        return bool(self.refusal) and not self._tells and self.oracle in KERNELS

    def judged(self) -> tuple[Outcome, str]:
        """Return the outcome and its reason; what cannot be fed, or answers anew each time, is unproved."""
        try:
            return self._judged()
        except CannotCut as error:
            return Outcome.UNPROVED, str(error)
        except InputsUnknown as error:
            return Outcome.UNPROVED, error.reason

    def _judged(self) -> tuple[Outcome, str]:
        minis = self.experiment.minis
        plan = InputPlan(minis.before, names=False)
        self._plain = plan.edged
        bodies = self.experiment.bodies_before
        self._note(ORIGINAL)
        try:
            first = self._oracle(minis.before, bodies)
        except SessionError as error:
            return Outcome.UNPROVED, f"nothing here runs the original nodes: {error.line.rstrip('.')}"
        with first:
            self._note(REPLACEMENT)
            try:
                second = self._oracle(minis.after, self.experiment.bodies_after)
            except SessionError as error:
                if error.missing:
                    return Outcome.UNPROVED, f"nothing here runs the replacement: {error.line.rstrip('.')}"
                return Outcome.FAILED, f"the replacement does not load: {error.line.rstrip('.')}"
            with second, ExitStack() as stack:
                self.oracle, self.independent = second.name, first.independent and second.independent
                if first.name not in (second.name, *KERNELS):
                    self.oracle += f", the original under {first.name}"
                self.reference = self._reference(minis.before, bodies)
                if self.reference is not None:
                    stack.enter_context(self.reference)
                failure = self._run_all(plan, minis, first, second)
                if self.reference is not None:
                    self.against = self.reference.name  # it may have turned to another engine on the way
        if failure:
            return Outcome.FAILED, failure
        if not self.runs and not self.refusal:
            return (
                Outcome.UNPROVED,
                "its inputs are too large to make, or one of their dims is 0 whatever the others are",
            )
        if not self.runs:
            return Outcome.UNPROVED, f"the original nodes run on no input made for them: {self.refusal.rstrip('.')}"
        if not self._tells:
            return Outcome.UNPROVED, "the original nodes run where all free dims are 1, and at no other sizes tried"
        if self.experiment.inputs and not self._telling:
            return (
                Outcome.UNPROVED,
                "no output tells anything: empty, NaN, or lost in rounding wherever it was computed",
            )
        apart = " and ".join(sorted(self.experiment.apart))
        return Outcome.PROVED, f"for all inputs but {apart}, where the rule differs on purpose" if apart else ""

    def _note(self, side: str) -> None:
        """Say what runs next, for whoever has to tell why it never ended."""
        self._note_down({"side": side, "agreed": self._agreed})

    def _oracle(self, mini: onnx.ModelProto, bodies: Mapping[str, FunctionProto]) -> Oracle:
        return open_evaluator(mini) if self.is_evaluated else open_oracle(mini, self.options.custom_ops, bodies)

    def _reference(self, model: onnx.ModelProto, bodies: Mapping[str, FunctionProto]) -> Reference | None:
        """The original in higher precision; None where nothing computes it."""
        self._note(REFERENCE)
        try:
            return Reference(model, bodies, custom_ops=self.options.custom_ops)
        except SessionError:
            return None

    def _run_all(self, plan: InputPlan, minis: MiniModels, first: Oracle, second: Oracle) -> str:
        """Run all sets of inputs; returns what is wrong, worst first, or an empty string."""
        sizes, failure = Sizes(self.experiment, self.options.dims), ""
        for group in sizes.groups():
            if failure and group[0].elements > MOST_AGAIN:
                continue
            before = self.worst, self.runs, self._telling
            self.worst, self.runs, self._telling = {}, 0, set()
            found = self._run_group(group, plan, minis, first, second)
            if not self.runs:
                self.worst, self.runs, self._telling = before
                continue
            failure = found
            if not failure and not self._tells:
                continue
            if not (failure and group[0].shrunk) or self.experiment.weights:
                break  # else: what fails with dims made smaller may be right as they are
        full = sizes.full()
        if self.runs and not failure and full is not None and group[0].shrunk:
            failure = self._run_at(full, ((Values.USUAL, 0),), plan, minis, first, second)
        return failure

    def _run_group(
        self, group: Sequence[Setting], plan: InputPlan, minis: MiniModels, first: Oracle, second: Oracle
    ) -> str:
        """Run at each of several settings, on all kinds of inputs at the first that runs; returns what is wrong."""
        for setting in group:
            failure = self._run_at(setting, OTHERS if self.runs else FIRST, plan, minis, first, second)
            if failure:
                return failure
        return ""

    def _run_at(
        self,
        setting: Setting,
        kinds: Sequence[tuple[Values, int]],
        plan: InputPlan,
        minis: MiniModels,
        first: Oracle,
        second: Oracle,
    ) -> str:
        """Run on inputs of these kinds and of one set of sizes; returns what is wrong, or an empty string."""
        sizes = {text: setting.size(size) for text, size in minis.dims.items()}
        self._terms = self.experiment.longest_sum(setting.size)
        for values, turn in kinds:
            self._picks = values is Values.OFFSET and self.experiment.picks_by_products
            if values.name.lower() in self.experiment.apart:
                continue
            if not (values in TELLING or (plan.far if values is Values.FAR else plan.edged)):
                continue
            feeds = self._feeds(plan, setting, sizes, values, self.options.seed + turn)
            failure = self._run(feeds, values, first, second)
            self._tells = self._tells or (self.runs > 0 and setting.tells)
            if failure:
                return f"{failure}{_where(values, feeds)}"
        return ""

    def _feeds(self, plan: InputPlan, setting: Setting, sizes: Mapping[str, int], values: Values, seed: int) -> Feeds:
        """One set of inputs: weights stay usual, and what follows from the sizes is computed from them."""
        feeds = plan.make(seed, sizes, values)
        weights = [item.name for item in self.experiment.inputs if item.weight]
        if weights and values is not Values.USUAL:
            usual = plan.make(seed, sizes)
            feeds.update((name, usual[name]) for name in weights)
        if values is Values.USUAL and seed - self.options.seed == SPOKEN_OF:
            sprinkle(feeds, plan, self._constants, seed, most=self._largest_pin(), added=self.experiment.added)
        for item in self.experiment.inputs:
            if item.value is not None:
                feeds[item.name] = setting.value(item.value, feeds[item.name].dtype)
        return feeds

    def _largest_pin(self) -> float:
        """Up to where numbers of the region's own are of a kind of input that the rule does not differ for."""
        apart = self.experiment.apart
        if Values.EXTREME.name.lower() in apart:
            return LARGE_PIN
        return float(np.finfo(np.float64).max) if Values.NON_FINITE.name.lower() in apart else np.inf

    def _run(self, feeds: Feeds, values: Values, first: Oracle, second: Oracle) -> str:
        """Run one set of inputs and judge it; returns why the replacement fails, or an empty string."""
        self._note(ORIGINAL)
        try:
            original = first.run(feeds)
        except SessionError as error:
            self.refusal = self.refusal or error.line
            return ""
        if not self.runs:
            again = first.run(feeds)
            for name, answer in original.items():
                if not same_values(answer, again[name]):
                    raise CannotCut(f"two runs of the original nodes differ in {name!r}")
        self.runs += 1
        self._note(REPLACEMENT)
        try:
            rewritten = second.run(feeds)
        except SessionError as error:
            if error.missing:
                raise CannotCut(f"nothing here runs the replacement: {error.line.rstrip('.')}") from error
            return f"the replacement does not run where the original does: {error.line.rstrip('.')}"
        exact = self._exact(feeds)
        for name, answer in original.items():
            found = self._judge(name, answer, rewritten[name], exact.get(name), feeds, first, values in OVERFLOWING)
            if not found.ok and values is Values.EXTREME and self._overflows(feeds):
                return ""
            if name not in self.worst or found.severity >= self.worst[name].severity:
                self.worst[name] = found
            tells = (found.telling or not found.scale) and not _all_nan(answer)
            if tells if answer.size else name in self.experiment.empty:
                self._telling.add(name)
            if not found.ok:
                return f"{name!r} {found.why}"
        self._agreed += 1
        return ""

    def _overflows(self, feeds: Feeds) -> bool:
        """Whether products of these inputs overflow inside the original, for rules that differ where a number does.

        The infinity or NaN need not be seen in what it hands on: a guard may put zeros in the place of weights.
        """
        if Values.NON_FINITE.name.lower() not in self.experiment.apart:
            return False
        before = self.experiment.minis.before
        products = [name for node in before.graph.node if node.op_type in PRODUCTS for name in node.output]
        try:
            with exposing(before, products) as shown, self._oracle(cast(onnx.ModelProto, shown), {}) as oracle:
                made = oracle.run(feeds)
        except SessionError:
            return False
        return any(name in made and not np.isfinite(made[name]).all() for name in products)

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
        first: Oracle,
        large: bool,
    ) -> TensorError:
        """Judge one output; how far the reference moves with its inputs is asked only where that decides."""
        rtol, atol, slack = self.options.rtol, self.options.atol, self.experiment.slack
        settled = partial(judge, name, original, rewritten, exact, rtol=rtol, atol=atol, slack=slack, overflowing=large)
        error = settled(moved=0.0)
        if error.ok:
            return error
        farthest = 0.0
        for turn in range(NUDGES if self._picks else 1):
            nudged = moved_by_one_ulp(feeds, self._plain, turn, FURTHER**turn)
            try:
                moved = first.run(nudged)[name] if exact is None else self._exact(nudged).get(name)
            except SessionError:
                moved = None
            if moved is None:
                return error
            farthest = max(farthest, change(original if exact is None else exact, moved, original.dtype))
            error = settled(moved=farthest, terms=self._terms)
            if error.ok:
                break
        return error


def _all_nan(array: np.ndarray) -> bool:
    return array.dtype.kind in "fc" and bool(np.isnan(array).all())


def _where(values: Values, feeds: Feeds) -> str:
    """What the inputs were like, for a sentence."""
    shapes = ", ".join(str(list(array.shape)) for array in feeds.values())
    return f" (inputs {values.name.lower().replace('_', ' ')}, shapes {shapes})"
