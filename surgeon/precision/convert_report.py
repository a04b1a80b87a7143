"""What a conversion did: which nodes keep their dtype and why, how many Casts it took, how far outputs moved."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from surgeon.result_base import ResultBase
from surgeon.runtime.numerics.array_comparison import jsonable
from surgeon.text import format_beside_limit

MAX_MEANINGFUL_ERROR = 0.5
"""Of a stretch's scale: what roundings alone may move so far, nothing can be told of."""
MEANINGLESS = "roundings alone leave nothing of what it hands on"
ORDER = "Dtypes and ranges are proved; in which order an engine adds up its sums is not."


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node that keeps the old dtype.

    Attributes:
        node: its name, or without one that of its first output.
        op: its operator.
        reason: why, with the number that says so.
        kind: "asked" (by `keep`), "kernel" (the provider has none), "schema", "range", "weight", "sum", "formula",
            "error" (of the whole model), "stretch" (off by more than its roundings explain), or "model" (its own Casts
            have it so).
    """

    node: str
    op: str
    reason: str
    kind: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"node": self.node, "op": self.op, "reason": self.reason, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class SegmentProof:
    """A part of the converted model, run by itself and held against itself in float64.

    Attributes:
        first: the name of its first node, or without one that of its first output.
        last: that of its last.
        nodes: how many it has.
        instances: how many parts of the model are equal to it, itself among them; the one with the largest numbers is
        run.  error: how far an output of it is off, as a part of the largest number in it; that of the output that is
        worst
            for what is allowed to it.  None where it was not run.
        allowed: how far it may be off: what roundings of its nodes explain.
        reason: why it was not run; empty where it was.
        far: the size of activations that it is off for, where the model's own show nothing, and the output.
    """

    first: str
    last: str
    nodes: int
    instances: int = 1
    error: float | None = None
    allowed: float = 0.0
    reason: str = ""
    far: tuple[float, str] | None = None

    @property
    def outcome(self) -> str:
        """proved, failed, or unproved: not run, or roundings leave nothing of what it hands on."""
        if self.error is None:
            return "unproved"
        if self.allowed > MAX_MEANINGFUL_ERROR and self.error <= self.allowed:
            return "unproved"
        return "proved" if self.error <= self.allowed else "failed"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "first": self.first,
            "last": self.last,
            "nodes": self.nodes,
            "equal": self.instances,
            "outcome": self.outcome,
            "error": None if self.error is None else jsonable(self.error),
            "allowed": self.allowed,
            "reason": self.reason,
            "far": None if self.far is None else list(self.far),
        }


def unproved_text(stretches: Sequence[SegmentProof]) -> str:
    """How many stretches are not proved, and why the first of these is not, as a sentence; empty where all are."""
    others = [item for item in stretches if item.outcome != "proved"]
    if not others:
        return ""
    count, every = (sum(item.instances for item in items) for items in (others, stretches))
    first = next((item for item in others if item.outcome == "failed"), others[0])
    why = error_text(first) if first.outcome == "failed" else first.reason or MEANINGLESS
    told = f"Of {every:,} stretches {count:,} {'is' if count == 1 else 'are'} not proved, as that from {first.first} on"
    return f"{told}: {why}" if every > 1 else f"The stretch from {first.first} on is not proved: {why}"


def error_text(proof: SegmentProof) -> str:
    """How far a stretch is off, as a clause."""
    error = 0.0 if proof.error is None else proof.error
    found, allowed = format_beside_limit(error, proof.allowed, (2, 2))
    where = "" if proof.far is None else f" where activations reach {proof.far[0]:g}"
    return f"an output is off by {found} of its scale{where}, and roundings explain {allowed}"


@dataclass(slots=True)
class ConvertReport(ResultBase):
    """What a conversion did.

    Attributes:
        source: the model that was read, by its path; empty for one in memory.
        output: the file that was to be written, likewise.
        change: the old dtype and the new one.
        converted: how many nodes compute in the new dtype.
        kept: the nodes that keep the old one, each with its reason.
        followers: how many more do because what is around them does, and they round nothing.
        casts: how many Casts were put in.
        told: of weights that saturate or stay, a sentence each.
        bytes: of tensors stored before and after.
        error: how far the outputs move at most, as a part of the largest number in the output; None where nothing ran.
        others: of outputs that hold no floats, by name, the largest part of their elements that were others in a run.
        hidden: how far rows move that a mask hides whole, beside `error`, where sums are not of half precision; None
            where nothing shows such rows to move further than others.
        max_error: how far outputs may move, and how large that part may be; all elements in all runs never may be
            others.
        stretches: the parts that compute in the new dtype, each held against itself in float64; equal ones once.
        runs: how many sets of inputs were compared.
        oracle: what ran the converted model.
        reason: why nothing ran, or what is wrong; empty where all is well.
        rules: how often each rule fired before the conversion.
        checked: whether the models were to be compared.
        written: whether a file was.
        seconds: how long it took.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.convert("notebooks/models/tiny_distilbert.onnx", output="half.onnx")
        >>> report.outcome, report.change
        ('proved', ('float32', 'float16'))
    """

    source: str
    output: str
    change: tuple[str, str]
    converted: int = 0
    kept: Sequence[KeptNode] = ()
    followers: int = 0
    casts: int = 0
    told: list[str] = field(default_factory=list)
    bytes: tuple[int, int] = (0, 0)
    error: float | None = None
    others: dict[str, float] = field(default_factory=dict)
    hidden: float | None = None
    max_error: float = 0.0
    stretches: Sequence[SegmentProof] = ()
    runs: int = 0
    oracle: str = ""
    reason: str = ""
    rules: dict[str, int] = field(default_factory=dict)
    checked: bool = True
    written: bool = False
    seconds: float = 0.0

    def say(self, sentence: str) -> None:
        """Tell something once."""
        if sentence not in self.told:
            self.told.append(sentence)

    @property
    def outcome(self) -> str:
        """proved, failed, unproved, unchecked, or unchanged where nothing is of the old dtype.

        Proved is what moves the outputs by no more than it may, and of which each stretch is proved.
        """
        if not self.converted and not self.casts and not self.bytes[0] > self.bytes[1]:
            return "unchanged"
        if not self.checked:
            return "unchecked"
        if self.error is None:
            return "unproved"
        if self.error > self.max_error:
            return "failed"
        return "proved" if all(item.outcome == "proved" for item in self.stretches) else "unproved"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON can hold it."""
        return {
            "source": self.source,
            "output": self.output,
            "outcome": self.outcome,
            "from": self.change[0],
            "to": self.change[1],
            "converted": self.converted,
            "kept": [item.to_dict() for item in self.kept],
            "followers": self.followers,
            "casts": self.casts,
            "told": list(self.told),
            "bytes": list(self.bytes),
            "error": None if self.error is None else jsonable(self.error),
            "others": dict(self.others),
            "hidden": None if self.hidden is None else jsonable(self.hidden),
            "max_error": self.max_error,
            "stretches": [item.to_dict() for item in self.stretches],
            "runs": self.runs,
            "oracle": self.oracle,
            "reason": self.reason,
            "rules": dict(self.rules),
            "written": self.written,
            "seconds": round(self.seconds, 4),
        }

    def __repr__(self) -> str:
        moved = "" if self.error is None else f", outputs move by {self.error:.2g}"
        return (
            f"<ConvertReport {self.change[0]} to {self.change[1]}: {self.converted} nodes, {len(self.kept)} kept, "
            f"{self.casts} Casts{moved}; {self.outcome}>"
        )
