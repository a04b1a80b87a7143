"""The checks of one rewrite, and the clock that times its phases."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import onnx

from surgeon.errors import CheckFailed, ExpectationUnmet, UsageError
from surgeon.file.model import Model
from surgeon.prove.result import CheckResult, Outcome
from surgeon.rewriting.result import Report

Check = Literal["model", "none"]


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How the numeric check runs.

    dims: sizes of symbolic dims by name.  seed: of the random inputs.  custom_ops: libraries that ORT registers.
    rtol, atol: tolerances in place of those by dtype.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    custom_ops: Sequence[str | Path] = ()
    rtol: float | None = None
    atol: float | None = None

    def require(self) -> None:
        """Raise UsageError for options that mean nothing."""
        if self != CheckOptions():
            from surgeon.prove.model_check import require_options

            require_options(self.seed, self.dims, self.custom_ops, self.rtol, self.atol)


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
        found = report.count(name)
        if found != wanted:
            wrong.append(f"{name} fires {found} times where {wanted} were expected")
    if wrong:
        raise ExpectationUnmet(f"{'; '.join(wrong)}; nothing was written.", report)


def check_rewritten(
    report: Report,
    model: Model,
    original: onnx.ModelProto | Path,
    rewritten: onnx.ModelProto | Path,
    options: CheckOptions,
    require_proof: bool,
) -> None:
    """Compare the rewritten model with the original and put the result into the report; raises CheckFailed."""
    from surgeon.prove.model_check import check_model  # not at the top: most of its weight is spared without a check
    from surgeon.prove.structure import check_structure

    with Model.open(rewritten) as written:
        complaints = check_structure(model.skeleton, written.skeleton)
    if complaints:
        rules = ", ".join(dict.fromkeys(site.rule for site in report.sites))
        raise CheckFailed(
            f"Rules {rules} make the model invalid: {complaints[0].rstrip('.')}; nothing was written.", report
        )
    result = report.check = check_model(
        original,
        rewritten,
        model.skeleton,
        seed=options.seed,
        dims=options.dims,
        custom_ops=options.custom_ops,
        rtol=options.rtol,
        atol=options.atol,
    )
    for site in report.sites:
        site.outcome, site.error = result.outcome.value, result.worst
    _judge(report, result, require_proof)


def _judge(report: Report, result: CheckResult, require_proof: bool) -> None:
    reason = result.reason.rstrip(".")
    if result.outcome is Outcome.FAILED:
        raise CheckFailed(f"The rewritten model differs from the original: {reason}; nothing was written.", report)
    if result.outcome is Outcome.UNPROVED and require_proof:
        raise CheckFailed(f"The rewritten model is not proved: {reason}; nothing was written.", report)
