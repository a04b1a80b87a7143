"""What a check found, as a value that the console and the report share."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surgeon.prove.compare import OutputError, jsonable


class Outcome(enum.Enum):
    """What a check found.  There is no fourth, and no silence."""

    PROVED = "proved"
    FAILED = "failed"
    UNPROVED = "unproved"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of comparing two models, with one sentence of reason where it is not plainly proved.

    `outputs` holds each output's worst error over all runs; `runs` counts the sets of inputs compared; `tolerance`
    the rtol and atol in force by dtype.
    """

    outcome: Outcome
    reason: str
    outputs: tuple[OutputError, ...]
    seconds: float
    runs: int
    tolerance: Mapping[str, float]

    @property
    def worst(self) -> OutputError | None:
        """The output that comes nearest to its tolerance, or lies furthest beyond; None if nothing was compared."""
        return max(self.outputs, key=lambda error: (not error.ok, error.severity), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "outcome": self.outcome.value,
            "reason": self.reason,
            "outputs": [error.to_dict() for error in self.outputs],
            "worst": self.worst.name if self.worst else None,
            "seconds": round(self.seconds, 3),
            "runs": self.runs,
            "tolerance": {name: jsonable(number) for name, number in self.tolerance.items()},
        }
