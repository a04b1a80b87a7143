"""Both whole models side by side under ONNX Runtime, on inputs made to fit the original."""

import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.prove.compare import (
    TOLERANCES,
    Comparison,
    OutputError,
    Spread,
    compare,
    dtype_name,
    require_tolerances,
    stated,
    tolerance,
    where_finite,
)
from surgeon.prove.dims import require_sizes
from surgeon.prove.inputs import InputPlan, InputsUnknown, Values
from surgeon.prove.noise import ALLOWANCE, CEILING, measure
from surgeon.prove.result import CheckResult, Outcome
from surgeon.prove.runtime import Session, SessionError, require_libraries

__all__ = ["CheckResult", "Outcome", "check_model", "require_options"]

_SLOW = 3.0  # seconds: a model that runs longer is run twice only on its first inputs, and once on wide-ranging ones
_VERY_SLOW = 30.0  # seconds: a model that runs longer sees one set of the usual inputs
# What wide-ranging values to make in turn, and which instead where the original does not stand them.
_WIDE_TURNS = ((Values.WIDE, Values.WIDE_POSITIVE), (Values.LARGE, Values.WIDE, Values.WIDE_POSITIVE))


@dataclass(slots=True)
class _Trial:
    """One set of inputs, what the original made of it, and the outputs that a second run did not repeat.

    Of a set of wide range only what is finite in the original is compared.
    """

    feeds: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    unstable: list[str]
    sizes: Mapping[str, int]
    wide: bool = False


@dataclass(slots=True)
class _Findings:
    """What comparing all trials gave."""

    made: list[tuple[_Trial, Comparison]] = field(default_factory=list)

    @property
    def worst(self) -> dict[str, Comparison]:
        """The worst comparison of each output."""
        worst: dict[str, Comparison] = {}
        for _, comparison in self.made:
            name = comparison.error.name
            if name not in worst or comparison.error.severity >= worst[name].error.severity:
                worst[name] = comparison
        return worst

    @property
    def failed(self) -> list[tuple[_Trial, Comparison]]:
        """All comparisons that went past their tolerance."""
        return [(trial, comparison) for trial, comparison in self.made if not comparison.error.ok]

    def excuse(self, trial: _Trial, comparison: Comparison, noise: float) -> None:
        """Accept an error that the original's own noise explains."""
        error = comparison.error
        excused = Comparison(replace(error, allowed=error.allowed + noise, ok=True), "")
        place = next(place for place, (_, made) in enumerate(self.made) if made is comparison)
        self.made[place] = (trial, excused)

    def drop(self, trial: _Trial) -> None:
        """Forget all comparisons of one trial."""
        self.made = [(other, comparison) for other, comparison in self.made if other is not trial]


def require_options(
    seed: int,
    dims: Mapping[str, int],
    custom_ops: Sequence[pathlib.Path | str],
    rtol: float | None,
    atol: float | None,
) -> list[str]:
    """Raise UsageError for options of a check that mean nothing; return the libraries of `custom_ops` as full paths.

    Refused are a negative seed, sizes below 0, tolerances that are negative, infinite or NaN, and libraries that do
    not exist or that ONNX Runtime cannot load.
    """
    if seed < 0:
        raise UsageError(f"The seed is {seed}: give a whole number of at least 0.")
    require_sizes(dims)
    require_tolerances(rtol, atol)
    return require_libraries(custom_ops)


def check_model(
    original: pathlib.Path | ModelProto,
    rewritten: pathlib.Path | ModelProto,
    skeleton: ModelProto,
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    custom_ops: Sequence[pathlib.Path | str] = (),
    rtol: float | None = None,
    atol: float | None = None,
) -> CheckResult:
    """Run both models on the same random inputs and compare every output.

    `skeleton` is the original without its large payloads: enough to make inputs from.  The two models are never held
    at once.  `dims` sets free dimensions by name.  `rtol` and `atol` replace the tolerance of each dtype: an element
    may differ by atol + rtol * scale, the scale being the output's largest magnitude in the original.

    What a model does never raises: every way of not running is an outcome.  Raises UsageError when `dims` names a
    dimension that no input has, and for what `require_options` refuses.
    """
    libraries = require_options(seed, dims or {}, custom_ops, rtol, atol)
    check = _Check(original, rewritten, skeleton, seed, dims or {}, libraries, rtol, atol)
    started = time.perf_counter()
    outcome, reason = check.judge()
    return CheckResult(
        outcome=outcome,
        reason=reason,
        outputs=tuple(comparison.error for comparison in check.findings.worst.values()),
        seconds=time.perf_counter() - started,
        runs=len(check.trials),
        tolerance=stated(check.dtypes, rtol, atol),
    )


@dataclass(slots=True)
class _Check:
    """The steps of `check_model` and what they share."""

    original: pathlib.Path | ModelProto
    rewritten: pathlib.Path | ModelProto
    skeleton: ModelProto
    seed: int
    dims: Mapping[str, int]
    custom_ops: Sequence[pathlib.Path | str]
    rtol: float | None
    atol: float | None
    trials: list[_Trial] = field(default_factory=list)
    findings: _Findings = field(default_factory=_Findings)
    refusal: str = ""  # why the original refused the last inputs
    seconds: float = 0.0  # that the original took for the slowest inputs
    left_out: str = ""  # why a set of wide-ranging inputs tells nothing

    @property
    def dtypes(self) -> dict[str, None]:
        """The dtypes of all outputs, each once."""
        return {dtype_name(array): None for trial in self.trials for array in trial.outputs.values()}

    def judge(self) -> tuple[Outcome, str]:
        """Return the outcome and its reason."""
        if not self.skeleton.graph.output:
            return Outcome.UNPROVED, "The model has no outputs to compare."
        try:
            plan = InputPlan(self.skeleton)
            with Session(self.original, self.custom_ops) as session:
                self.trials.extend(self._trials(session, plan))
                if self.trials and plan.widens:
                    self.trials.extend(self._wide_trials(session, plan))
        except InputsUnknown as unknown:
            return Outcome.UNPROVED, f"Inputs cannot be made: {unknown.reason}."
        except SessionError as refused:
            return Outcome.UNPROVED, f"ONNX Runtime does not load the original: {refused.line}"
        if not self.trials:
            return Outcome.UNPROVED, f"The original does not run on the inputs made for it: {self.refusal}"
        refusal = self._compare()
        if refusal is not None:
            return refusal
        failure = self._verdict_on_failure() if self.findings.failed else None
        return failure or self._verdict_on_success(bool(plan.wants))

    def _trials(self, session: Session, plan: InputPlan) -> Iterator[_Trial]:
        """Yield the trials that the original accepts: several seeds at the first sizes, one at each of the others."""
        seeds = range(self.seed, self.seed + plan.seeds())
        found = 0
        for sizes in plan.size_sets(self.dims):
            for seed in seeds:
                started = time.perf_counter()
                trial = self._trial(session, plan, seed, sizes, repeat=self.seconds < _SLOW)
                if trial is None:
                    continue
                self.seconds = max(self.seconds, time.perf_counter() - started)
                found += 1
                yield trial
                if self.seconds > _VERY_SLOW:
                    return
            seeds = range(seeds.stop, seeds.stop + 1) if found else seeds
        if found:
            return
        for sizes in plan.fallback_sets(self.dims):
            trials = [self._trial(session, plan, seed, sizes) for seed in seeds]
            if any(trials):
                yield from (trial for trial in trials if trial)
                return

    def _trial(
        self, session: Session, plan: InputPlan, seed: int, sizes: Mapping[str, int], *, repeat: bool = True
    ) -> _Trial | None:
        """Run the original on one set of inputs, on tamer values if it refuses the usual ones or answers NaN alone."""
        answer: _Trial | None = None
        for values in (Values.USUAL, Values.UNSIGNED, Values.TAME):
            if values is Values.UNSIGNED and not plan.signed:
                continue
            feeds = plan.make(seed, sizes, values)
            try:
                outputs = session.run(feeds)
                again = session.run(feeds) if repeat else outputs
            except SessionError as refused:
                self.refusal = self.refusal or refused.line
                continue
            unstable = [name for name in outputs if name not in again or not _same(outputs[name], again[name])]
            answer = _Trial(feeds, outputs, unstable, sizes)
            if not _all_nan(outputs):
                break
        return answer

    def _wide_trials(self, session: Session, plan: InputPlan) -> Iterator[_Trial]:
        """Yield trials on wide-ranging values, at the first sizes: by turns without and with a few large ones.

        What the original does not stand is left out, and `left_out` says why.
        """
        first, unstable = self.trials[0], sorted({name for trial in self.trials for name in trial.unstable})
        for turn in range(1 if self.seconds > _SLOW else plan.seeds()):
            why = ""
            for values in _WIDE_TURNS[turn % len(_WIDE_TURNS)]:
                feeds = plan.make(self.seed + turn, first.sizes, values)
                try:
                    outputs = session.run(feeds)
                except SessionError as refused:
                    why = f"the original refuses it ({refused.line.rstrip('.')})"
                    continue
                if _tells(outputs, first.outputs, entirely=values is Values.LARGE):
                    yield _Trial(feeds, outputs, unstable, first.sizes, wide=True)
                    break
                why = "the original answers it with NaN or infinity"
            else:
                self.left_out = why

    def _compare(self) -> tuple[Outcome, str] | None:
        """Run the rewritten model on all trials; return an outcome only if it does not get through them."""
        try:
            with Session(self.rewritten, self.custom_ops) as session:
                complaint = _interface(self.skeleton, self.trials[0], session)
                if complaint:
                    return Outcome.FAILED, complaint
                for trial in self.trials:
                    self._compare_one(trial, session.run(trial.feeds))
        except SessionError as refused:
            if refused.missing:
                return Outcome.UNPROVED, f"ONNX Runtime has no operator here for the rewritten model: {refused.line}"
            return Outcome.FAILED, f"The original runs but the rewritten model does not: {refused.line}"
        return None

    def _compare_one(self, trial: _Trial, answer: Mapping[str, np.ndarray]) -> None:
        for name, array in trial.outputs.items():
            if name in trial.unstable:
                continue
            if name not in answer:
                error = OutputError(name, dtype_name(array), np.inf, np.inf, 0.0, 0.0, False)
                self.findings.made.append((trial, Comparison(error, "is missing")))
                continue
            other = where_finite(array, answer[name]) if trial.wide else answer[name]
            self.findings.made.append((trial, compare(name, array, other, self.rtol, self.atol)))

    def _verdict_on_failure(self) -> tuple[Outcome, str] | None:
        """Failed, unless the original itself moves as far for no reason; None if the noise explains all of it."""
        failed = self.findings.failed
        trials = list({id(trial): trial for trial, _ in failed}.values())
        measured = measure(self.original, self.custom_ops, [(trial.feeds, trial.outputs) for trial in trials])
        by_trial = {id(trial): moved for trial, moved in zip(trials, measured, strict=True)}
        real: list[Comparison] = []
        blurred = ""
        dropped: dict[int, _Trial] = {}
        for trial, comparison in failed:
            error = comparison.error
            moved = ALLOWANCE * by_trial[id(trial)].get(error.name, 0.0)
            if not error.max_abs <= error.allowed + moved:
                real.append(comparison)
            elif moved > CEILING * error.scale + error.allowed and trial.wide:
                dropped[id(trial)] = trial
                self.left_out = f"output '{error.name}' of the original moves as far when rounding changes"
            elif moved > CEILING * error.scale + error.allowed:
                blurred = (
                    f"Output '{error.name}' {comparison.why}, but the original's own answer moves as far "
                    f"({moved / ALLOWANCE:.3g}) when rounding changes."
                )
            else:
                self.findings.excuse(trial, comparison, moved)
        for trial in dropped.values():
            self.findings.drop(trial)
        self.trials = [trial for trial in self.trials if id(trial) not in dropped]
        if real:
            worst = max(real, key=lambda comparison: comparison.error.severity)
            return Outcome.FAILED, f"Output '{worst.error.name}' {worst.why}."
        return (Outcome.UNPROVED, blurred) if blurred else None

    def _verdict_on_success(self, has_inputs: bool) -> tuple[Outcome, str]:
        """Proved, unless what was compared could not have told a difference."""
        unstable = sorted({name for trial in self.trials for name in trial.unstable})
        if unstable:
            return Outcome.UNPROVED, f"Two runs of the original differ in output '{unstable[0]}'{self._random_ops()}."
        empty: dict[str, str] = {}
        # What a list holds counts, not that it always has the same length.
        names = [name for name in self.trials[0].outputs if not name.startswith(("len(", "keys("))]
        worst = self.findings.worst
        for name in names:
            spread = Spread()
            for trial in self.trials:
                if name in trial.outputs:
                    array = trial.outputs[name]
                    spread.add(array, worst[name].error.allowed)
            why = spread.emptiness()
            if why and (has_inputs or not spread.numbers):
                empty[name] = why
        if len(empty) == len(names):
            name, why = next(iter(empty.items()))
            return Outcome.UNPROVED, f"No output tells anything: '{name}' {why} in the original."
        notes = []
        if empty:
            told = ", ".join(f"'{name}' {why}" for name, why in list(empty.items())[:3])
            notes.append(f"Not every output tells something: {told}.")
        if self.left_out:
            notes.append(f"A set of inputs of wide range is left out: {self.left_out}.")
        return Outcome.PROVED, " ".join(notes)

    def _random_ops(self) -> str:
        """Name a random operator of the main graph, if there is one, as the likely cause."""
        kinds = ("Random", "Multinomial", "Bernoulli")
        for node in self.skeleton.graph.node:
            if node.op_type.startswith(kinds) or (node.op_type == "Dropout" and len(node.input) == 3):
                return f" ({node.op_type} '{node.name or node.output[0]}' is random)"
        return ""


def _interface(skeleton: ModelProto, trial: _Trial, session: Session) -> str:
    """Say how the rewritten model's inputs or outputs differ in name from the original's; empty if they do not."""
    for name in trial.feeds:
        if name not in session.inputs:
            return f"The rewritten model has lost the input '{name}'."
    for name in session.inputs:
        if name not in trial.feeds:
            return f"The rewritten model wants an input '{name}' that the original has not."
    outputs = tuple(value.name for value in skeleton.graph.output)
    if outputs != session.outputs:
        return f"The rewritten model's outputs are {list(session.outputs)} where the original's are {list(outputs)}."
    return ""


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two results are the same bit for bit (NaN equal to NaN)."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.array_equal(a, b)) or (a.dtype.kind != "O" and a.tobytes() == b.tobytes())


def _tells(outputs: Mapping[str, np.ndarray], usual: Mapping[str, np.ndarray], *, entirely: bool) -> bool:
    """Whether some number is finite, and each output that usually holds such holds one here (`entirely`: no other)."""
    floats = {name: np.isfinite(array) for name, array in outputs.items() if dtype_name(array) in TOLERANCES}
    for name, finite in floats.items():
        expected = finite.size and name in usual and bool(np.isfinite(usual[name]).any())
        if expected and not (finite.all() if entirely else finite.any()):
            return False
    return not floats or any(finite.any() for finite in floats.values())


def _all_nan(outputs: Mapping[str, np.ndarray]) -> bool:
    """Whether no output holds a number."""
    floats = [array for array in outputs.values() if tolerance(dtype_name(array)) != (0.0, 0.0)]
    return (
        bool(floats)
        and len(floats) == len(outputs)
        and all(bool(np.isnan(array.astype(np.complex128)).all()) for array in floats)
    )
