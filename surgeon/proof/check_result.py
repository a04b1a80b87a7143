"""The result of a check, as a value that the console and the report share."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surgeon.result_base import JsonRecord, ResultBase
from surgeon.text import format_count

if TYPE_CHECKING:
    from surgeon.runtime.numerics.array_comparison import OutputError


class Outcome(enum.Enum):
    """The result of a check."""

    PROVED = "proved"
    FAILED = "failed"
    UNPROVED = "unproved"


@dataclass(frozen=True, slots=True)
class LayerComparison(JsonRecord):
    """Inner tensors compared: those that nodes of both main graphs produce under one name."""

    JSON = "compared first_different errors left_out"

    compared: int
    """How many were compared."""
    first_different: str
    """The first in topological order that leaves tolerance; "" if none does."""
    errors: "tuple[OutputError, ...]"
    """The worst few and the first different one, in topological order."""
    left_out: str = ""
    """One sentence on why none could be compared; "" if they were."""


@dataclass(frozen=True, slots=True)
class CheckResult(JsonRecord, ResultBase):
    """The outcome of comparing two models.  Its fields are the keys of the report, so they are many."""

    JSON = (
        "original? other? outcome assumptions? reason outputs worst=worst.name seconds runs oracle kinds sizes "
        "differs_on failed_on half tolerance first_different layers"
    )

    outcome: Outcome
    """Proved, failed or unproved."""
    reason: str
    """One sentence if the outcome is not plainly proved; else ""."""
    outputs: "tuple[OutputError, ...]"
    """The worst error of each output over all runs."""
    seconds: float
    """Wall time."""
    runs: int
    """Sets of inputs compared."""
    tolerance: Mapping[str, float]
    """The rtol and atol in force, by dtype."""
    layers: LayerComparison | None = None
    """Comparison of inner tensors, which does not affect the outcome; None if not requested or not possible."""
    oracle: str = ""
    """The runtime of the models; "" if nothing did."""
    kinds: tuple[str, ...] = ()
    """The kinds of the generated inputs, in words."""
    sizes: tuple[str, ...] = ()
    """The sizes of the generated inputs, in words."""
    differs_on: tuple[str, ...] = ()
    """Rare kinds of inputs, as NaN, on which the models differ; these do not affect the outcome."""
    failed_on: tuple[str, ...] = ()
    """Kinds of inputs on which the models differ too much, the worst first."""
    half: str = ""
    """The half precision that one model computes in and whose tolerance applies; else ""."""
    assumptions: tuple[str, ...] = ()
    """Assumptions on the inputs under which the models were compared, as "NAME: WORDS"."""
    original: str = ""
    """The path of the first of two models, "" for one in memory and for the check of a rewrite."""
    other: str = ""
    """The path of the second."""

    @property
    def proved(self) -> bool:
        """Whether the models agree on everything that was compared, and the comparison was informative."""
        return self.outcome is Outcome.PROVED

    def __repr__(self) -> str:
        suffix = f"; {self.reason}" if self.reason else ""
        count = len(self.outputs)
        return f"<CheckResult {self.outcome.value}: {format_count(count, 'output')}, {self.runs} runs{suffix}>"

    def __bool__(self) -> bool:
        """As `proved`, so that `assert surgeon.compare(a, b)` works as expected."""
        return self.proved

    @property
    def first_different(self) -> str:
        """The first inner tensor in topological order that leaves tolerance; "" if none does or none was compared."""
        return self.layers.first_different if self.layers is not None else ""

    @property
    def worst(self) -> "OutputError | None":
        """The output nearest to its tolerance, or furthest beyond it; None if nothing was compared."""
        return max(self.outputs, key=lambda error: (not error.ok, error.severity), default=None)
