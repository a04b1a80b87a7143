"""The result of the gate: facts, differences from the baseline, and the exit code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from surgeon.automation.gate.gate_rules import GateRule
from surgeon.automation.gate.model_comparison import Difference
from surgeon.automation.gate.model_facts import ModelFacts
from surgeon.result_base import ResultBase, json_of

FailOn = Literal["error", "warning"]


@dataclass(slots=True)
class GateResult(ResultBase):
    """The result of the gate.  Iterating yields a Difference for each difference from the baseline.

    Examples:
        >>> import surgeon
        >>> result = surgeon.gate("notebooks/models/*.onnx", baseline="surgeon-baseline.json", update=True)
        >>> result.ok, len(result.models)
        (True, 1)
    """

    baseline: str
    """Path of the baseline."""
    settings: Mapping[str, Any]
    """Target, rules and checks, by the names of their options."""
    models: Mapping[str, ModelFacts] = field(default_factory=dict)
    """Facts by the name of the model."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Paths or URLs of the models by name."""
    differences: list[Difference] = field(default_factory=list)
    """Differences from the baseline, regressions first."""
    has_baseline: bool = False
    """Whether there was a baseline."""
    updated: bool = False
    """Whether the baseline was written."""
    fail_on: FailOn = "error"
    """The least level of a regression for which `ok` is false."""
    seconds: float = 0.0
    """Duration in seconds."""

    @property
    def regressions(self) -> list[Difference]:
        """The differences for the worse."""
        return [one for one in self.differences if one.is_regression]

    def stops(self, rule: GateRule) -> bool:
        """Whether a regression of this rule makes the gate fail."""
        return rule.level == "error" or self.fail_on == "warning"

    @property
    def ok(self) -> bool:
        """Whether no regression makes the gate fail, or the baseline was written."""
        return self.updated or not any(one.rule is not None and self.stops(one.rule) for one in self.differences)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return json_of(self, "baseline settings has_baseline updated ok differences models seconds")

    def __repr__(self) -> str:
        return f"<GateResult {len(self.models):,} models; {len(self.regressions):,} regressions>"
