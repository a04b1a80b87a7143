"""The reports of a container of models: one for each component."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from surgeon.pipeline.reports.report import Report


@dataclass(slots=True)
class ComponentReports(Report):
    """The reports by component; counts, sites and the outcome are those of all components."""

    JSON = "outcome counts components seconds"

    components: dict[str, Report] = field(default_factory=dict)
    """Report of each component, by name."""

    @classmethod
    def of(cls, components: Mapping[str, Report]) -> Self:
        """The reports of these components."""
        return cls("", "", dict(components), steps=list(components.values()))

    def __getitem__(self, name: str) -> Report:
        return self.components[name]

    @property
    def nodes(self) -> tuple[int, int]:
        """Nodes of all components (before, after)."""
        before, after = zip(*(report.nodes for report in self.components.values()), strict=True)
        return sum(before), sum(after)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name} {report.nodes[0]} -> {report.nodes[1]}" for name, report in self.components.items())
        return f"<ComponentReports {inner}; {self.outcome}>"
