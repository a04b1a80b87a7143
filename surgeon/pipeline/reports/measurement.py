"""The record of a measured choice: the forms that were chosen, and the latency of the result at each shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surgeon.result_base import JsonRecord

if TYPE_CHECKING:
    from surgeon.runtime.timing.latency import Bench, LatencyRatio

BUDGET = 120.0  # seconds of a search and its last measurement
BOUNDED, SAME_GRAPH, KEPT, BUSY = "not slower", "same graph", "kept", "undecided"


@dataclass(frozen=True, slots=True)
class Measurement(JsonRecord):
    """Which forms of the rules were chosen, and how fast the result is compared with the original."""

    JSON = "outcome margin bench gains equal rules models busy memory seconds"

    outcome: str
    """ "not slower": the latency is at most 1 + margin of the original's; "same graph": ONNX Runtime makes one graph of
    both; "kept": no result has this bound, so the model stays as it is; "undecided": the machine is busy, so the result
    has the default forms."""
    margin: float
    """The allowed loss, as a share of the original's latency."""
    bench: "Bench | None" = None
    """The result by the original, measured anew after the choice; None if nothing was measured."""
    gains: "Sequence[LatencyRatio]" = ()
    """Chosen forms by other forms, such as "residual: summed first" by "residual: as it is", over all shapes."""
    equal: Sequence[str] = ()
    """Choices of which ONNX Runtime makes the same graph with any form."""
    rules: Sequence[str] = ()
    """The rules that write the same without a measurement, as `rewrite` takes them."""
    models: int = 0
    """Number of measured models, without the original."""
    busy: float = 0.0
    """Share of the processors that other processes used, if too few were left for several threads; else 0."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Largest memory of runs beyond that of the loaded model, in bytes, by model: "original" and "result"."""
    seconds: float = 0.0
    """Duration."""
