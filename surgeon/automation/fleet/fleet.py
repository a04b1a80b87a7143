"""The result of a run over many models: rows on disk, and their totals."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from surgeon.automation.fleet.baseline import since_last
from surgeon.automation.fleet.fleet_row import OUTCOMES_BY_SEVERITY, WRONG, FleetRow
from surgeon.automation.fleet.run_database import RunDatabase
from surgeon.automation.gate.model_comparison import Difference
from surgeon.result_base import ResultBase, json_of

SLOWEST = 5


@dataclass(slots=True)
class Fleet(ResultBase):
    """The result of a recipe over many models.  Iterating yields a FleetRow for each model, by name.

    Examples:
        >>> import surgeon
        >>> fleet = surgeon.run_many(surgeon.Recipe([surgeon.Rules("gelu")]), "notebooks/models/*.onnx", to="fused")
        >>> fleet.ok, fleet.outcomes
        (True, {'proved': 1})
    """

    to: str
    """The URL of the results."""
    book: RunDatabase = field(repr=False)
    """The rows, on disk."""
    seconds: float = 0.0
    """Duration of the run in seconds."""
    changes: list[Difference] = field(default_factory=list)
    """Differences from the baseline, regressions first."""
    has_baseline: bool = False
    """Whether the run has a baseline to compare with."""
    is_dry: bool = False
    """Whether the run writes nothing."""
    has_rows: bool = False
    """Whether the run writes a table of its rows."""
    ended: str = ""
    """Why the run ended early; empty if it did not."""

    def __iter__(self) -> Iterator[FleetRow]:
        return self.book.rows()

    def __len__(self) -> int:
        return sum(self.outcomes.values())

    def __getitem__(self, model: str) -> FleetRow:
        row = self.book.row(model)
        if row is None:
            raise KeyError(model)
        return row

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of models by outcome, the worst first."""
        found = self.book.outcomes()
        return {outcome: found[outcome] for outcome in OUTCOMES_BY_SEVERITY if outcome in found}

    @property
    def counts(self) -> dict[str, int]:
        """Number of sites that each rule rewrote, over all models."""
        found: Counter[str] = Counter()
        for row in self:
            found.update(row.counts)
        return dict(found.most_common())

    @property
    def kept(self) -> int:
        """Number of models that were up to date and skipped."""
        return self.book.kept()

    @property
    def wrong(self) -> Iterator[FleetRow]:
        """The rows of failed models, the worst outcome first."""
        for outcome in WRONG:
            yield from self.book.rows(outcome=outcome)

    @property
    def stale(self) -> Iterator[FleetRow]:
        """The rows of failed models whose targets still have results of earlier runs."""
        return (row for row in self.wrong if row.stale)

    @property
    def slowest(self) -> list[FleetRow]:
        """The rows of the models that took longest."""
        return [row for row in self.book.rows(slowest=SLOWEST) if not row.kept]

    @property
    def regressions(self) -> list[Difference]:
        """The changes for the worse since the baseline."""
        return [change for change in self.changes if change.is_regression]

    @property
    def since(self) -> Iterator[Difference]:
        """Differences from the last run to the same target; nothing after the first."""
        return since_last(self.book)

    @property
    def ok(self) -> bool:
        """Whether no model breaks a rule of level error or, without a baseline, whether no model failed."""
        if self.ended or any(one.rule is not None and one.rule.level == "error" for one in self.changes):
            return False
        outcomes = self.outcomes
        if self.has_baseline:
            return not (outcomes.get("unwritten") or outcomes.get("lost"))
        return outcomes.keys().isdisjoint(WRONG)

    def to_dict(self) -> dict[str, Any]:
        """Return the totals of the rows as JSON can hold them."""
        return {
            "to": self.to,
            "models": len(self),
            **json_of(self, "outcomes kept counts"),
            "wrong": [json_of(row, "model outcome why stale") for row in self.wrong],
            "slowest": [json_of(row, "model seconds") for row in self.slowest],
            "since": [change.to_dict() for change in self.since],
            **json_of(self, "changes ok ended seconds"),
        }

    def close(self) -> None:
        """Close the database of rows."""
        self.book.close()

    def __repr__(self) -> str:
        totals = ", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes.items())
        return f"<Fleet {len(self):,} models: {totals or 'nothing done'}>"
