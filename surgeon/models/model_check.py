"""Whole models side by side: one original, and any number that are held against it.

They run under ONNX Runtime, with users' Python implementations of what it has no kernel for.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.inputs.dims import require_sizes, wanted_inputs
from surgeon.inputs.user_inputs import read_inputs
from surgeon.limits import RUN_TIME
from surgeon.models.layers import compare_layers
from surgeon.models.trials import Trial, Trials
from surgeon.models.verdict import Verdict
from surgeon.ops.records import is_random
from surgeon.ops.walking import holds_half
from surgeon.running.away import Away
from surgeon.running.runtime import SessionError, require_libraries
from surgeon.running.whole import Whole
from surgeon.verdicts.compare import dtype_name, require_tolerances, stated, tolerance
from surgeon.verdicts.result import CheckResult, Layers, Outcome

__all__ = ["CheckResult", "ModelCheck", "Outcome", "require_options"]


def require_options(
    seed: int,
    dims: Mapping[str, int],
    custom_ops: Sequence[Path | str],
    rtol: float | None,
    atol: float | None,
    inputs: Sequence[Path | str] = (),
) -> list[str]:
    """Raise UsageError for options of a check that mean nothing; return `custom_ops` as full paths.

    Refused are a negative seed, sizes below 0, tolerances that are negative, infinite or NaN, libraries that do not
    exist or that ONNX Runtime cannot load, Python files that do not exist or cannot be run, inputs that are not there,
    and sizes beside inputs.
    """
    if seed < 0:
        raise UsageError(f"The seed is {seed}: give a whole number of at least 0.")
    require_sizes(dims)
    require_tolerances(rtol, atol)
    if inputs and dims:
        raise UsageError("Inputs are given beside sizes of dimensions, which they have of their own: give one of them.")
    for path in inputs:
        if not Path(path).exists():
            raise UsageError(f"There are no inputs at {path}: give an .npz file or a folder of them.")
    return require_libraries(custom_ops)


class ModelCheck:
    """An original to hold rewritten models against: it is run once, with the first of them.

    `skeleton` is the original without its large payloads: enough to make inputs from.  The two models are never held
    at once.  `dims` sets free dimensions by name.  `rtol` and `atol` replace the tolerance of each dtype: an element
    may differ by atol + rtol * scale, the scale being the output's largest magnitude in the original.  In a model that
    holds float16 all outputs have the tolerance of float16.

    `inputs` are the user's: .npz files with an array by the name of each input, folders of these, or folders of ONNX
    test data.  With them no others are made.  `layers`: inner tensors are compared too.  `run_time`: seconds of
    processor time that one run of a model may take.

    `other` is what to call the models held against the original.  `ordered`: their outputs have to come in the
    original's order; inputs never do, for they are given by name.

    Raises UsageError for what `require_options` refuses, when `dims` names a dimension that no input has, and for
    `inputs` that do not fit the model.
    """

    def __init__(
        self,
        original: Path | ModelProto,
        skeleton: ModelProto,
        *,
        seed: int = 0,
        dims: Mapping[str, int] | None = None,
        custom_ops: Sequence[Path | str] = (),
        rtol: float | None = None,
        atol: float | None = None,
        inputs: Sequence[Path | str] = (),
        layers: bool = False,
        run_time: float = RUN_TIME,
        other: str = "the rewritten model",
        ordered: bool = True,
    ) -> None:
        self._away = Away(require_options(seed, dims or {}, custom_ops, rtol, atol, inputs), run_time)
        self._original = original
        self._skeleton = skeleton
        if holds_half(skeleton):  # what is computed in float16 has its digits, also where an output is cast up
            rtol, atol = tolerance("float16", rtol, atol)
        self._rtol = rtol
        self._atol = atol
        self._layers = layers
        self._other = other
        self._ordered = ordered
        self._oracle = ""  # of the model last held against the original
        self._trials = Trials(
            original,
            skeleton,
            seed=seed,
            dims=dims or {},
            away=self._away,
            given=read_inputs(skeleton, inputs),
        )

    def check(self, rewritten: Path | ModelProto, *, layers: bool | None = None) -> CheckResult:
        """Run the rewritten model on all trials and compare every output with the original's.

        layers: compare inner tensors too, or not; None for what was asked for at first.
        What a model does never raises: every way of not running is an outcome.
        """
        started = time.perf_counter()
        self._trials.run()
        verdict = Verdict(self._trials, self._rtol, self._atol, self._random_op())
        compared: Layers | None = None
        if self._trials.why:
            outcome, reason = Outcome.UNPROVED, self._trials.why
        else:
            refusal = self._answer(rewritten, verdict)
            outcome, reason = refusal or verdict.outcome()
            if (self._layers if layers is None else layers) and refusal is None:
                compared = self._compare_layers(rewritten, verdict.telling)
        used = verdict.used
        dtypes = {dtype_name(array): None for trial in used for array in trial.outputs.values()}
        return CheckResult(
            outcome=outcome,
            reason=reason,
            outputs=tuple(comparison.error for comparison in verdict.worst.values()),
            seconds=time.perf_counter() - started,
            runs=len(used),
            tolerance=stated(dtypes, self._rtol, self._atol),
            layers=compared,
            oracle=self._told_oracle() if used else "",
        )

    def _told_oracle(self) -> str:
        """What ran the two models."""
        first, second = self._trials.oracle, self._oracle or self._trials.oracle
        return first if first == second else f"{second}, the original under {first}"

    def _answer(self, rewritten: Path | ModelProto, verdict: Verdict) -> tuple[Outcome, str] | None:
        """Run the rewritten model on all trials; return an outcome only if it does not get through them."""
        where, self._oracle = "", ""
        try:
            with self._away.open(rewritten) as session:
                self._oracle = session.name
                complaint = self._interface(session)
                if complaint:
                    return Outcome.FAILED, complaint
                for trial in self._trials.made:
                    where = f" on the inputs of {trial.source}" if trial.source else ""
                    verdict.add(trial, session.run(trial.feeds))
        except SessionError as refused:
            if refused.missing:
                return Outcome.UNPROVED, f"Nothing here runs {self._other}: {refused.line}"
            return Outcome.FAILED, f"The original runs{where} but {self._other} does not: {refused.line}"
        return None

    def _interface(self, session: Whole) -> str:
        """Say how the rewritten model's inputs or outputs differ in name from the original's; empty if they do not."""
        other = self._other[0].upper() + self._other[1:]
        wanted, feeds = wanted_inputs(self._skeleton.graph), self._trials.made[0].feeds
        for name in feeds:
            if name not in session.inputs and name in wanted:
                return f"{other} has lost the input '{name}'."
        for name in session.inputs:
            if name not in feeds:
                return f"{other} wants an input '{name}' that the original has not."
        outputs = tuple(value.name for value in self._skeleton.graph.output)
        same = outputs == session.outputs if self._ordered else sorted(outputs) == sorted(session.outputs)
        if not same:
            return f"{other}'s outputs are {list(session.outputs)} where the original's are {list(outputs)}."
        return ""

    def _compare_layers(self, rewritten: Path | ModelProto, trial: Trial) -> Layers:
        return compare_layers(self._original, rewritten, self._skeleton, trial, self._away, self._rtol, self._atol)

    def _random_op(self) -> str:
        """Name a random operator of the main graph, if there is one, as the likely cause of answers that differ."""
        for node in self._skeleton.graph.node:
            if is_random(node):
                return f" ({node.op_type} '{node.name or node.output[0]}' is random)"
        return ""
