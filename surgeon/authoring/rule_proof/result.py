"""Results of proving a rule on instances of its patterns."""

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import onnx

from surgeon.authoring.rule_proof.pattern_arguments import PatternArguments
from surgeon.proof.check_result import Outcome
from surgeon.result_base import JsonRecord, ResultBase, json_of
from surgeon.runtime.numerics.tensor_judge import TensorError

UNINFORMATIVE = "no run could show a difference"  # start of the reason if all inputs were uninformative


class InstanceOutcome(enum.StrEnum):
    """The outcome of one instance: the outcomes of a check, and two more.

    DECLINED: a condition of the rule refuses the instance.  NOT_MATCHED: the pattern does not match its own instance.
    """

    PROVED = "proved"
    DECLINED = "spared"
    UNPROVED = "unproved"
    FAILED = "failed"
    NOT_MATCHED = "not matched"

    @property
    def is_fault(self) -> bool:
        """Whether the outcome is a fault of the rule."""
        return self in (InstanceOutcome.FAILED, InstanceOutcome.NOT_MATCHED)


@dataclass(frozen=True, slots=True)
class InstanceResult:
    """The result of proving one instance."""

    outcome: InstanceOutcome
    """The outcome."""
    reason: str = ""
    """Why the instance is declined, unproved or wrong; empty if it is proved."""
    error: TensorError | None = None
    """The error of the worst output."""
    is_instance: bool = True
    """Whether the instance is a valid model, as far as is known."""
    assumptions: tuple[str, ...] = ()
    """Assumptions on the inputs of the instance that the conditions of the rule ask for."""


@dataclass(frozen=True, slots=True)
class InstanceProof(JsonRecord):
    """One instance of one pattern, rewritten for one target."""

    JSON = (
        "pattern variant target opset dtype rank=arguments.rank shapes=arguments.shapes values=arguments.values "
        "outcome reason assumptions? errors=error"
    )

    pattern: str
    """The name of the pattern."""
    variant: str
    """The label of the variant; empty for the first form of everything."""
    target: str
    """The target of the rewrite."""
    opset: int
    """The version of ai.onnx."""
    dtype: str
    """The NumPy name of the dtype."""
    arguments: PatternArguments
    """The shapes and values of the instance."""
    outcome: InstanceOutcome
    """The outcome of the proof."""
    reason: str = ""
    """Why the instance is declined, unproved or wrong; empty if it is proved."""
    error: TensorError | None = None
    """The error of the worst output."""
    assumptions: tuple[str, ...] = ()
    """Assumptions on the inputs of the instance, as "NAME: WORDS"."""
    model: onnx.ModelProto | None = field(default=None, repr=False)
    """The instance, if the outcome is a fault."""


@dataclass(slots=True)
class RuleProof(ResultBase):
    """The proofs of one rule."""

    rule: str
    """The name of the rule."""
    where: str
    """The file and line of the rule."""
    entries: list[InstanceProof] = field(default_factory=list)
    """The proofs of its instances."""
    seconds: float = 0.0
    """The wall time of the proofs."""
    not_instantiated: dict[tuple[str, str], str] = field(default_factory=dict)
    """The reason for each (pattern, variant) without a valid instance."""
    why_empty: str = ""
    """Why `entries` is empty, and the remedy."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of entries by outcome."""
        found = Counter(entry.outcome for entry in self.entries)
        return {outcome.value: found[outcome] for outcome in InstanceOutcome}

    @property
    def faults(self) -> list[InstanceProof]:
        """The entries whose outcome is a fault of the rule."""
        return [entry for entry in self.entries if entry.outcome.is_fault]

    @property
    def assumptions(self) -> list[str]:
        """The assumptions under which entries are proved, as "NAME: WORDS"."""
        return list(dict.fromkeys(line for entry in self.entries for line in entry.assumptions))

    def drop_uninformative(self) -> None:
        """Drop instances with uninformative values if others of the same pattern, dtype and rank are proved.

        Some generated values make the output trivial: an empty slice, a range hardly wider than a rounding error.
        """

        def alike(entry: InstanceProof) -> tuple[object, ...]:
            return entry.pattern, entry.target, entry.dtype, entry.arguments.rank

        proved = {alike(entry) for entry in self.entries if entry.outcome is InstanceOutcome.PROVED}

        def is_uninformative(entry: InstanceProof) -> bool:
            return entry.outcome is InstanceOutcome.UNPROVED and entry.reason.startswith(UNINFORMATIVE)

        self.entries = [entry for entry in self.entries if not (is_uninformative(entry) and alike(entry) in proved)]

    @property
    def outcome(self) -> Outcome:
        """PROVED if an entry is proved and all others are proved or declined."""
        outcomes = {entry.outcome for entry in self.entries}
        if any(outcome.is_fault for outcome in outcomes):
            return Outcome.FAILED
        is_proved = InstanceOutcome.PROVED in outcomes and InstanceOutcome.UNPROVED not in outcomes
        return Outcome.PROVED if is_proved else Outcome.UNPROVED

    def to_dict(self) -> dict[str, Any]:
        """Return the proofs as JSON values."""
        return {
            **json_of(self, "rule where outcome counts entries"),
            "not_made_up": [
                {"pattern": pattern, "variant": variant, "reason": reason}
                for (pattern, variant), reason in self.not_instantiated.items()
            ],
            **json_of(self, "nothing=why_empty seconds"),
        }
