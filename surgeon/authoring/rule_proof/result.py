"""What proving a rule from itself found, as data."""

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import onnx

from surgeon.authoring.rule_proof.pattern_arguments import PatternArguments
from surgeon.proof.check_result import Outcome
from surgeon.result_base import to_json_dict
from surgeon.runtime.numerics.tensor_judge import TensorError

MUTE = "no output tells anything"  # how the reason of a proof begins whose inputs showed nothing


class InstanceOutcome(enum.StrEnum):
    """What became of one instance: a check's outcomes and two more.

    DECLINED: the rule refuses it, and gives its own reason.  NOT_MATCHED: the rule's own pattern does not find it.
    """

    PROVED = "proved"
    DECLINED = "spared"
    UNPROVED = "unproved"
    FAILED = "failed"
    NOT_MATCHED = "not matched"

    @property
    def is_fault(self) -> bool:
        """Whether it shows a fault of the rule."""
        return self in (InstanceOutcome.FAILED, InstanceOutcome.NOT_MATCHED)


@dataclass(frozen=True, slots=True)
class InstanceResult:
    """What was found of one instance.

    reason: why it is spared, or what is missing or wrong; empty where it is plainly proved.  error: the worst output.
    is_instance: whether the instance is a model that runs at all, as far as can be told.
    """

    outcome: InstanceOutcome
    reason: str = ""
    error: TensorError | None = None
    is_instance: bool = True


@dataclass(frozen=True, slots=True)
class InstanceProof:
    """One instance of one pattern, rewritten for one target.

    variant: the forms taken, in words; "" for the first of each.  layout: the shapes and values.  error: the worst
    output.  model: the instance, where it shows a fault.
    """

    pattern: str
    variant: str
    target: str
    opset: int
    dtype: str
    layout: PatternArguments
    standing: InstanceOutcome
    reason: str = ""
    error: TensorError | None = None
    model: onnx.ModelProto | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as JSON can hold it."""
        return {
            **to_json_dict(self, "pattern variant target opset dtype"),
            "rank": self.layout.rank,
            "shapes": {name: list(shape) for name, shape in self.layout.shapes.items()},
            "values": dict(self.layout.values),
            "outcome": self.standing.value,
            "reason": self.reason,
            "errors": None if self.error is None else self.error.to_dict(),
        }


@dataclass(slots=True)
class RuleProof:
    """The proofs of one rule.

    not_instantiated: forms of patterns of which no instance could be made, as (pattern, variant), and why.  why_empty:
    where there is no entry, why, and what to do.  seconds: the time it took.
    """

    rule: str
    where: str
    entries: list[InstanceProof] = field(default_factory=list)
    seconds: float = 0.0
    not_instantiated: dict[tuple[str, str], str] = field(default_factory=dict)
    why_empty: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Entries by what became of them."""
        found = Counter(entry.standing for entry in self.entries)
        return {standing.value: found[standing] for standing in InstanceOutcome}

    @property
    def faults(self) -> list[InstanceProof]:
        """The entries that show a fault of the rule."""
        return [entry for entry in self.entries if entry.standing.is_fault]

    def drop_mute(self) -> None:
        """Leave out instances whose values tell nothing, where others of the same pattern, dtype and rank are proved.

        Captured numbers are made up, and some leave nothing to see: an empty slice, a range that is hardly wider than
        a rounding.
        """

        def alike(entry: InstanceProof) -> tuple[object, ...]:
            return entry.pattern, entry.target, entry.dtype, entry.layout.rank

        proved = {alike(entry) for entry in self.entries if entry.standing is InstanceOutcome.PROVED}
        self.entries = [
            entry
            for entry in self.entries
            if not (
                entry.standing is InstanceOutcome.UNPROVED and entry.reason.startswith(MUTE) and alike(entry) in proved
            )
        ]

    @property
    def outcome(self) -> Outcome:
        """The rule as a whole: proved where something is proved, and all else is or is spared."""
        standings = {entry.standing for entry in self.entries}
        if any(standing.is_fault for standing in standings):
            return Outcome.FAILED
        is_proved = InstanceOutcome.PROVED in standings and InstanceOutcome.UNPROVED not in standings
        return Outcome.PROVED if is_proved else Outcome.UNPROVED

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as JSON can hold it."""
        return {
            **to_json_dict(self, "rule where outcome counts entries"),
            "not_made_up": [
                {"pattern": pattern, "variant": variant, "reason": reason}
                for (pattern, variant), reason in self.not_instantiated.items()
            ],
            "nothing": self.why_empty,
            "seconds": round(self.seconds, 3),
        }
