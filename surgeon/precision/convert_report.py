"""The report of a conversion: nodes that keep their dtype and why, inserted Casts, errors of the outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from surgeon.pipeline.reports.report import UNCHANGED, Report
from surgeon.result_base import JsonRecord
from surgeon.text import format_beside_limit

MAX_MEANINGFUL_ERROR = 0.5
"""Relative to a segment's scale: if rounding explains a larger error, nothing is proved."""
MEANINGLESS = "rounding dominates its outputs"
ORDER = "This proves dtypes and value ranges. It does not cover the order in which a runtime adds numbers."


@dataclass(frozen=True, slots=True)
class KeptNode(JsonRecord):
    """A node that keeps the old dtype."""

    JSON = "node op reason kind"

    node: str
    """Its name; without one, the name of its first output."""
    op: str
    """Its operator."""
    reason: str
    """Why, with the number that decides it."""
    kind: str
    """The reason: "asked", "kernel", "schema", "range", "weight", "sum", "formula", "error" (of the whole model),
    "stretch" (of one part) or "model" (its own Casts).
    """


@dataclass(frozen=True, slots=True)
class SegmentProof(JsonRecord):
    """One part of the converted model, compared with the same part in float64."""

    JSON = "first last nodes equal outcome error allowed reason far"

    first: str
    """Name of its first node; without one, of that node's first output."""
    last: str
    """The same of its last node."""
    nodes: int
    """Number of its nodes."""
    equal: int = 1
    """Number of equal parts, this one included; the one with the largest magnitudes runs."""
    error: float | None = None
    """Error of its worst output, relative to that output's largest magnitude; None if it did not run."""
    allowed: float = 0.0
    """The relative error that rounding in its nodes explains."""
    reason: str = ""
    """Why it did not run; "" if it did."""
    far: tuple[float, str] | None = None
    """Magnitude of scaled activations at which it fails, and the output, if those of the model pass."""

    @property
    def outcome(self) -> str:
        """proved, failed, or unproved: it did not run, or rounding leaves no information in its outputs."""
        if self.error is None:
            return "unproved"
        if self.allowed > MAX_MEANINGFUL_ERROR and self.error <= self.allowed:
            return "unproved"
        return "proved" if self.error <= self.allowed else "failed"


def unproved_text(stretches: Sequence[SegmentProof]) -> str:
    """How many segments are not proved, and why the first is not, as a sentence; empty if all are."""
    others = [item for item in stretches if item.outcome != "proved"]
    if not others:
        return ""
    count, every = (sum(item.equal for item in items) for items in (others, stretches))
    first = next((item for item in others if item.outcome == "failed"), others[0])
    why = error_text(first) if first.outcome == "failed" else first.reason or MEANINGLESS
    if every == 1:
        return f"The segment from {first.first} on is not proved: {why}"
    message = f"{count:,} of {every:,} segments {'is' if count == 1 else 'are'} not proved"
    return f"{message}; first the segment from {first.first} on: {why}"


def error_text(proof: SegmentProof) -> str:
    """The error of a segment, as a clause."""
    error = 0.0 if proof.error is None else proof.error
    found, allowed = format_beside_limit(error, proof.allowed, (2, 2))
    where = "" if proof.far is None else f" for activations up to {proof.far[0]:g}"
    return f"an output is off by {found} of its scale{where}, but rounding explains only {allowed}"


@dataclass(slots=True)
class ConvertReport(Report):
    """The result of a conversion.  Its fields are the keys of the report, so they are many.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.convert("notebooks/models/tiny_distilbert.onnx", output="half.onnx")
        >>> report.outcome, report.change
        ('proved', ('float32', 'float16'))
    """

    JSON = (
        "source output outcome assumptions? from=change.0 to=change.1 converted kept followers casts told=notes "
        "bytes error others hidden max_error stretches runs oracle reason rules=counts written seconds"
    )

    change: tuple[str, str]
    """Names of the old dtype and the new one."""
    converted: int = 0
    """Number of nodes that compute in the new dtype."""
    kept: Sequence[KeptNode] = ()
    """Nodes that keep the old dtype, each with its reason."""
    followers: int = 0
    """Number of further nodes that keep it because their neighbours do; these do not round."""
    casts: int = 0
    """Number of inserted Casts."""
    told: list[str] = field(default_factory=list)
    """Notes, one sentence each, as on weights that saturate or keep the old dtype."""
    bytes: tuple[int, int] = (0, 0)
    """Bytes of stored tensors before and after."""
    error: float | None = None
    """Largest error of an output, relative to its largest magnitude; None if nothing ran."""
    others: dict[str, float] = field(default_factory=dict)
    """Largest fraction of changed elements in one run, by name, for outputs that are not floats."""
    hidden: float | None = None
    """Relative error with fully masked rows included, where only those exceed `max_error`; else None."""
    max_error: float = 0.0
    """Limit of `error`, and of the fractions in `others`, which must also stay below 1 over all runs."""
    stretches: Sequence[SegmentProof] = ()
    """Parts that compute in the new dtype, compared with float64; equal parts appear once."""
    runs: int = 0
    """Number of sets of inputs compared."""
    oracle: str = ""
    """Runtime of the converted model."""
    reason: str = ""
    """Why nothing ran, or what failed; "" otherwise."""
    checked: bool = True
    """Whether the check was on."""

    @property
    def rules(self) -> dict[str, int]:
        """How often each rule fired before the conversion."""
        return self.counts

    @property
    def notes(self) -> list[str]:
        """The notes, with why ONNX Runtime loads neither model."""
        return [*self.told, *filter(None, [self.refused])]

    def say(self, sentence: str) -> None:
        """Add a note, once."""
        if sentence not in self.told:
            self.told.append(sentence)

    @property
    def changed(self) -> bool:
        """Whether nodes or stored tensors have another dtype."""
        return bool(self.converted or self.casts) or self.bytes[0] > self.bytes[1]

    @property
    def own_outcome(self) -> str:
        """proved, failed, unproved, unchecked, or unchanged if nothing has the old dtype.

        Proved means that the errors of the outputs are within the limit and all segments are proved.
        """
        if not self.changed:
            return UNCHANGED
        if not self.checked:
            return "unchecked"
        if self.error is None:
            return "unproved"
        if self.error > self.max_error:
            return "failed"
        return "proved" if all(item.outcome == "proved" for item in self.stretches) else "unproved"

    def __repr__(self) -> str:
        moved = "" if self.error is None else f", outputs change by {self.error:.2g}"
        return (
            f"<ConvertReport {self.change[0]} to {self.change[1]}: {self.converted} nodes, {len(self.kept)} kept, "
            f"{self.casts} Casts{moved}; {self.outcome}>"
        )
