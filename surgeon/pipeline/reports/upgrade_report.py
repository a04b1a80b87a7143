"""The result of an upgrade, as data."""

from dataclasses import dataclass, field

from surgeon.pipeline.reports.report import Report


@dataclass(slots=True)
class UpgradeReport(Report):
    """The result of an upgrade."""

    JSON = "opset ir_version outcome assumptions? newer edited functions check seconds refused declared"

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
    declared: str = ""
    """The error in the declared opset, as a clause; empty if there was none."""

    @property
    def changed(self) -> bool:
        """Whether the opset was raised."""
        return self.opset[0] < self.opset[1]
