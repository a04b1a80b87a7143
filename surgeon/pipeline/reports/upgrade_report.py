"""What an upgrade did, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from surgeon.proof.check_result import CheckResult
from surgeon.result_base import JsonRecord, ResultBase


@dataclass(slots=True)
class UpgradeReport(JsonRecord, ResultBase):
    """What an upgrade did."""

    JSON = "opset ir_version outcome newer edited functions check seconds refused declared"

    source: str
    """Path of the input model; empty if it was in memory."""
    output: str
    """Path of the output file; empty if the result stays in memory."""
    opset: tuple[int, int]
    """Opset of ai.onnx (before, after)."""
    ir_version: tuple[int, int]
    """IR version (before, after)."""
    newer: dict[str, int] = field(default_factory=dict)
    """By op, nodes that follow a newer version of it."""
    edited: dict[str, int] = field(default_factory=dict)
    """Nodes that had to change, by the sentence that describes the change."""
    functions: list[str] = field(default_factory=list)
    """Local functions whose own opset import was raised."""
    check: CheckResult | None = None
    """Comparison of the whole models; None if none was requested."""
    seconds: float = 0.0
    """Duration."""
    refused: str = ""
    """Why ONNX Runtime loads neither the source nor the result; empty if it loads the source."""
    written: bool = False
    """Whether the output file was written."""
    declared: str = ""
    """What was wrong with the declared opset, as a clause; empty if nothing was."""

    @property
    def outcome(self) -> str:
        """proved, failed, unproved, unchanged or unchecked."""
        if self.opset[0] == self.opset[1]:
            return "unchanged"
        return self.check.outcome.value if self.check is not None else "unchecked"

    def record(self, found: CheckResult | None) -> None:
        """Set the comparison with the model before."""
        self.check = found

    def timed(self, seconds: Mapping[str, float]) -> None:
        """Set the duration."""
        self.seconds = sum(seconds.values())

    def saved(self, copied: int, new: int) -> None:
        """Note that the result is written."""
        self.written = True
