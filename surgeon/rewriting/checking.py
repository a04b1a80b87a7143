"""The checks of one rewrite, and the clock that times its phases."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import onnx

from surgeon.errors import CheckFailed, ExpectationUnmet, UsageError
from surgeon.file.model import Model
from surgeon.prove.result import CheckResult, Outcome
from surgeon.rewriting.result import Report

if TYPE_CHECKING:
    from surgeon.prove.model_check import ModelCheck

Check = Literal["sites", "model", "both", "none"]
CHECKS = ("sites", "model", "both", "none")


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How the numeric checks run.

    dims: sizes of symbolic dims by name.  seed: of the random inputs.  custom_ops: libraries that ORT registers, and
    Python files that implement ops.  rtol, atol: tolerances in place of those by dtype.  inputs: for the check of the
    whole model, files of the user's own data (.npz, or folders of them) in place of random ones.  layers: compare inner
    tensors of the whole models too.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    custom_ops: Sequence[str | Path] = ()
    rtol: float | None = None
    atol: float | None = None
    inputs: Sequence[str | Path] = ()
    layers: bool = False

    def require(self) -> None:
        """Raise UsageError for options that mean nothing."""
        if self != CheckOptions():
            from surgeon.prove.model_check import require_options

            require_options(self.seed, self.dims, self.custom_ops, self.rtol, self.atol, self.inputs)


class Clock:
    """Seconds by phase; a phase inside another does not count for the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what runs inside."""
        start = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inner.pop()
            self._inner[-1] += spent


def check_expected(report: Report, expect: Mapping[str, int]) -> None:
    """Raise ExpectationUnmet where a rule fired another number of times, UsageError for a rule that was not run."""
    wrong = []
    for name, wanted in expect.items():
        if not report.knows(name):
            names = dict.fromkeys([*report.selection, *(rule for rules in report.selection.values() for rule in rules)])
            raise UsageError(
                f"A number of sites is expected of {name!r}, which is not run; there are {', '.join(names)}."
            )
        found, gone = report.count(name), report.count(name, rolled_back=True)
        if found != wanted:
            more = f", the {gone} that {'was' if gone == 1 else 'were'} rolled back aside," if gone else ""
            times, were = "time" if found == 1 else "times", "was" if wanted == 1 else "were"
            wrong.append(f"{name} fires {found} {times}{more} where {wanted} {were} expected")
    if wrong:
        raise ExpectationUnmet(f"{'; '.join(wrong)}; nothing was written.", report)


def invalidity(model: Model, written: onnx.ModelProto | Path) -> str | None:
    """What is wrong with the structure of the written model that was not so in the original, or None."""
    from surgeon.prove.structure import check_structure  # not at the top: a run without a check is spared its weight

    with Model.open(written) as after:
        complaints = check_structure(model.skeleton, after.skeleton)
    return complaints[0].rstrip(".") if complaints else None


def model_check(model: Model, original: onnx.ModelProto | Path, options: CheckOptions) -> "ModelCheck":
    """The check of whole models under ONNX Runtime: one original, and any number to hold against it."""
    from surgeon.prove.model_check import ModelCheck

    return ModelCheck(
        original,
        model.skeleton,
        seed=options.seed,
        dims=options.dims,
        custom_ops=options.custom_ops,
        rtol=options.rtol,
        atol=options.atol,
        inputs=options.inputs,
        layers=options.layers,
    )


def require_passed(made: str, result: CheckResult, require_proof: bool, report: object) -> None:
    """Raise CheckFailed, with the report, for a model that differs, or that is not proved where it has to be.

    made: how the model came to be, "rewritten" or "upgraded".
    """
    reason = result.reason.rstrip(".")
    if result.outcome is Outcome.FAILED:
        raise CheckFailed(f"The {made} model differs from the original: {reason}; nothing was written.", report)
    if result.outcome is Outcome.UNPROVED and require_proof:
        raise CheckFailed(f"The {made} model is not proved: {reason}; nothing was written.", report)
