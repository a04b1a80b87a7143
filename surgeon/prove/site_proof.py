"""One region proved: both mini-models on the same inputs, their answers held against a higher-precision reference."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import cast

import numpy as np
import onnx
from onnx import FunctionProto

from surgeon.feeding.inputs import InputPlan, InputsUnknown, Values
from surgeon.feeding.wants import OVERFLOWING
from surgeon.prove.compare import same_values, stated
from surgeon.prove.experiment import Experiment, MiniModels
from surgeon.prove.exposing import exposing
from surgeon.prove.judge import TensorError, judge
from surgeon.prove.kinds import DIVIDING, FIRST, FURTHER, OTHERS, SPOKEN_OF, WEIGHED, is_tried, name_of_kind
from surgeon.prove.moves import Moves
from surgeon.prove.pins import LARGE_PIN, sprinkle
from surgeon.prove.proof import CannotCut, SiteProof
from surgeon.prove.result import Outcome
from surgeon.prove.sizes import Setting, Sizes
from surgeon.running.oracles import KERNELS, Oracle, open_evaluator, open_oracle
from surgeon.running.precision import Reference
from surgeon.running.runtime import SessionError

Feeds = dict[str, np.ndarray]
PRODUCTS = frozenset(("MatMul", "Gemm", "FusedMatMul", "Einsum"))

MOST_AGAIN = 1 << 20  # elements of inputs up to which a region that fails at smaller sizes is run at its own
LOSING = frozenset((Values.EXTREME, Values.MAGNITUDES))  # of which products overflow


def run_experiment(experiment: Experiment) -> SiteProof:
    """Run both sides and judge.  What the models do never raises: every way of not running is an outcome."""
    started = time.perf_counter()
    options = experiment.options
    proof = _Proof(experiment)
    outcome, reason = proof.judged()
    if proof.is_refused:  # kernels of ONNX Runtime take less than the ops allow
        other = _Proof(experiment, is_evaluated=True)
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
        is_of_weights=proof.is_of_weights,
    )


class _Proof:
    """The steps of `run_experiment` and what they share.  is_evaluated: by onnx's ReferenceEvaluator alone."""

    def __init__(self, experiment: Experiment, *, is_evaluated: bool = False) -> None:
        self.experiment, self.options, self.is_evaluated = experiment, experiment.options, is_evaluated
        self.reference: Reference | None = None
        self.oracle, self.independent, self.against = "", True, "the original's own result"
        self.worst: dict[str, TensorError] = {}
        self.runs = 0
        self.is_of_weights = False  # it fails for other weights than the usual ones alone
        self.refusal = ""
        self._constants = {tensor.name: tensor for tensor in experiment.minis.before.graph.initializer}
        self._plain: frozenset[str] = frozenset()  # float inputs of no special role
        self._telling: set[str] = set()
        self._ran_at: Setting | None = None  # all kinds of inputs
        self._tells = False  # some run was at sizes other than 1
        self._picks = experiment.picks_by_products
        nodes = (*experiment.minis.before.graph.node, *experiment.minis.after.graph.node)
        self._divides = any(node.op_type in DIVIDING for node in nodes)
        self._moves: Moves | None = None
        self._weights: tuple[Setting, Feeds] | None = None  # made up once for a setting
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
        try:
            first = self._oracle(minis.before, bodies)
        except SessionError as error:
            return Outcome.UNPROVED, f"nothing here runs the original nodes: {error.line.rstrip('.')}"
        with first:
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
                custom_ops = self.options.custom_ops
                moves = Moves(minis.before, bodies, custom_ops, self.reference, first.run, self._plain)
                self._moves = stack.enter_context(moves)
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

    def _oracle(self, mini: onnx.ModelProto, bodies: Mapping[str, FunctionProto]) -> Oracle:
        return open_evaluator(mini) if self.is_evaluated else open_oracle(mini, self.options.custom_ops, bodies)

    def _reference(self, model: onnx.ModelProto, bodies: Mapping[str, FunctionProto]) -> Reference | None:
        """The original in higher precision; None where nothing computes it."""
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
        if not self.runs or failure or not self._tells:
            return failure
        at = self._ran_at or group[0]
        failure = self._run_weighed(at, plan, minis, first, second)
        full = sizes.full()
        settings = (*sizes.further(at), *([full] if full is not None and group[0].shrunk else ()))
        for setting in () if failure else settings:
            failure = self._run_at(setting, FURTHER, plan, minis, first, second)
            if failure:
                break
        return failure

    def _run_weighed(
        self, setting: Setting, plan: InputPlan, minis: MiniModels, first: Oracle, second: Oracle
    ) -> str:
        """Run on other weights than the usual ones, where such are made up; returns what is wrong."""
        weights = {item.name for item in self.experiment.inputs if item.weight}
        sizes = {text: setting.size(size) for text, size in minis.dims.items()}
        for values in WEIGHED if weights else ():
            if name_of_kind(values) in self.experiment.apart:
                continue
            feeds = self._feeds(plan, setting, sizes, Values.USUAL, self.options.seed)
            feeds.update(plan.make(self.options.seed, sizes, values, leave=feeds.keys() - weights))
            failure = self._run(feeds, values, first, second)
            if failure:
                self.is_of_weights = True
                return f"{failure} (weights {name_of_kind(values).replace('_', ' ')})"
        return ""

    def _run_group(
        self, group: Sequence[Setting], plan: InputPlan, minis: MiniModels, first: Oracle, second: Oracle
    ) -> str:
        """Run at each of several settings, on all kinds of inputs at the first that runs; returns what is wrong."""
        for setting in group:
            has_run = bool(self.runs)
            failure = self._run_at(setting, OTHERS if has_run else FIRST, plan, minis, first, second)
            if self.runs and not has_run:
                self._ran_at = setting
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
            values = Values.NEAR if values is Values.OFFSET and self._picks else values
            seed = self.options.seed + turn
            if not is_tried(plan, values, seed, self.experiment.apart, divides=self._divides):
                continue
            feeds = self._feeds(plan, setting, sizes, values, seed)
            failure = self._run(feeds, values, first, second)
            self._tells = self._tells or (self.runs > 0 and setting.tells)
            if failure:
                return f"{failure}{_where(values, feeds)}"
        return ""

    def _feeds(self, plan: InputPlan, setting: Setting, sizes: Mapping[str, int], values: Values, seed: int) -> Feeds:
        """One set of inputs: weights stay usual, and what follows from the sizes is computed from them."""
        weights = {item.name for item in self.experiment.inputs if item.weight}
        feeds = plan.make(seed, sizes, values, leave=weights)
        if weights:
            if self._weights is None or self._weights[0] is not setting:
                self._weights = setting, plan.make(self.options.seed, sizes, leave=feeds.keys())
            feeds.update(self._weights[1])
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
        try:
            rewritten = second.run(feeds)
        except SessionError as error:
            if error.missing:
                raise CannotCut(f"nothing here runs the replacement: {error.line.rstrip('.')}") from error
            return f"the replacement does not run where the original does: {error.line.rstrip('.')}"
        exact = self._exact(feeds)
        for name, answer in original.items():
            found = self._judge(name, answer, rewritten[name], exact.get(name), feeds, values in OVERFLOWING)
            if not found.ok and values in LOSING and self._overflows(feeds):
                return ""
            if name not in self.worst or found.severity >= self.worst[name].severity:
                self.worst[name] = found
            tells = (found.telling or not found.scale) and not _all_nan(answer)
            if tells if answer.size else name in self.experiment.empty:
                self._telling.add(name)
            if not found.ok:
                return f"{name!r} {found.why}"
        return ""

    def _overflows(self, feeds: Feeds) -> bool:
        """Whether products of these inputs overflow inside the original, for rules that differ where a number does.

        The infinity or NaN need not be seen in what it hands on: a guard may put zeros in the place of weights.
        """
        if name_of_kind(Values.NON_FINITE) not in self.experiment.apart:
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
    ) -> TensorError:
        """Judge one output; how far the reference moves with its inputs is asked only where that decides."""
        rtol, atol, slack = self.options.rtol, self.options.atol, self.experiment.slack
        settled = partial(judge, name, original, rewritten, exact, rtol=rtol, atol=atol, slack=slack, overflowing=large)
        if self._moves is None:
            return settled(0.0)
        answer, asked = original if exact is None else exact, partial(settled, terms=self._terms)
        return self._moves.settle(asked, name, answer, original.dtype, feeds)


def _all_nan(array: np.ndarray) -> bool:
    return array.dtype.kind in "fc" and bool(np.isnan(array).all())


def _where(values: Values, feeds: Feeds) -> str:
    """What the inputs were like, for a sentence."""
    shapes = ", ".join(str(list(array.shape)) for array in feeds.values())
    return f" (inputs {values.name.lower().replace('_', ' ')}, shapes {shapes})"
