"""What a check found, as a value that the console and the report share."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surgeon.result_base import ResultBase, to_json_dict
from surgeon.text import format_count

if TYPE_CHECKING:
    from surgeon.runtime.numerics.array_comparison import OutputError


class Outcome(enum.Enum):
    """What a check found.  There is no fourth, and no silence."""

    PROVED = "proved"
    FAILED = "failed"
    UNPROVED = "unproved"


@dataclass(frozen=True, slots=True)
class LayerComparison:
    """Inner tensors compared: those that the nodes of both main graphs make under one name.

    compared         how many
    first_different  the first in topological order that leaves tolerance, empty if none does
    errors           those of the worst few, and of the first different one, in topological order
    left_out         one sentence on why none could be compared, else empty
    """

    compared: int
    first_different: str
    errors: "tuple[OutputError, ...]"
    left_out: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return to_json_dict(self, "compared first_different errors left_out")


@dataclass(frozen=True, slots=True)
class CheckResult(ResultBase):
    """The outcome of comparing two models, with one sentence of reason where it is not plainly proved.

    `outputs` holds each output's worst error over all runs; `runs` counts the sets of inputs compared; `tolerance`
    the rtol and atol in force by dtype; `layers` what comparing inner tensors gave, None if that was not asked for or
    the models could not be compared at all.  The layers have no part in the outcome.  `oracle` names what ran the
    models, empty where nothing did; `kinds` and `sizes` say in words on what inputs, where these were made.
    `differs_on` names kinds of inputs that few models are fed with, as such that hold NaN, on which the two answer
    otherwise: that has no part in the outcome, and `reason` says in what.  `failed_on` names the kinds of inputs on
    which the two differ too far, the worst first; `half` the half precision that one of them computes in, whose
    tolerance holds then; empty for none, and where a tolerance was asked for.
    """

    outcome: Outcome
    reason: str
    outputs: "tuple[OutputError, ...]"
    seconds: float
    runs: int
    tolerance: Mapping[str, float]
    layers: LayerComparison | None = None
    oracle: str = ""
    kinds: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    differs_on: tuple[str, ...] = ()
    failed_on: tuple[str, ...] = ()
    half: str = ""

    @property
    def proved(self) -> bool:
        """Whether the two agree in all that was compared, and that told something."""
        return self.outcome is Outcome.PROVED

    def __repr__(self) -> str:
        told = f"; {self.reason}" if self.reason else ""
        count = len(self.outputs)
        return f"<CheckResult {self.outcome.value}: {format_count(count, 'output')}, {self.runs} runs{told}>"

    def __bool__(self) -> bool:
        """As `proved`, so that `assert surgeon.compare(a, b)` means what it says."""
        return self.proved

    @property
    def first_different(self) -> str:
        """The first inner tensor in topological order that leaves tolerance; empty if none does or none was asked."""
        return self.layers.first_different if self.layers is not None else ""

    @property
    def worst(self) -> "OutputError | None":
        """The output that comes nearest to its tolerance, or lies furthest beyond; None if nothing was compared."""
        return max(self.outputs, key=lambda error: (not error.ok, error.severity), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        # Not at the top: most that is rewritten is compared nowhere.
        from surgeon.runtime.numerics.array_comparison import jsonable

        return {
            **to_json_dict(self, "outcome reason outputs"),
            "worst": self.worst.name if self.worst else None,
            **to_json_dict(self, "seconds runs oracle kinds sizes differs_on failed_on half"),
            "tolerance": {name: jsonable(number) for name, number in self.tolerance.items()},
            **to_json_dict(self, "first_different layers"),
        }
