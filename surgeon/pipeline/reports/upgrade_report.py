"""What an upgrade did, as data."""

from dataclasses import dataclass, field
from typing import Any

from surgeon.proof.check_result import CheckResult
from surgeon.result_base import to_json_dict


@dataclass(slots=True)
class UpgradeReport:
    """What an upgrade did.

    opset, ir_version: (before, after).  newer: nodes by op that now follow a newer version of it.  edited: sentences
    on nodes that had to change, with their numbers.  functions: local functions whose own import was raised.
    declared: what was wrong with the opset that the model declared, a clause; "" where nothing was.
    refused: why ONNX Runtime loads neither the source nor the result, "" where it loads the source.
    """

    source: str
    output: str
    opset: tuple[int, int]
    ir_version: tuple[int, int]
    newer: dict[str, int] = field(default_factory=dict)
    edited: dict[str, int] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    check: CheckResult | None = None
    seconds: float = 0.0
    refused: str = ""
    declared: str = ""

    @property
    def outcome(self) -> str:
        """proved, failed, unproved, unchanged or unchecked."""
        if self.opset[0] == self.opset[1]:
            return "unchanged"
        return self.check.outcome.value if self.check is not None else "unchecked"

    def to_dict(self) -> dict[str, Any]:
        """Return the upgrade as JSON can hold it."""
        return to_json_dict(self, "opset ir_version outcome newer edited functions check seconds refused declared")
