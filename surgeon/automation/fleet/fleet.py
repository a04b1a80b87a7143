"""What came of a fleet: rows on disk, and what they come to."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from surgeon.automation.fleet.baseline import FleetChange, since_last
from surgeon.automation.fleet.fleet_row import OUTCOMES_BY_SEVERITY, WRONG, FleetRow
from surgeon.automation.fleet.run_database import RunDatabase
from surgeon.result_base import ResultBase

SLOWEST = 5


@dataclass(slots=True)
class Fleet(ResultBase):
    """What came of a recipe over many models.  It is iterable: a FleetRow for each model, by name.

    Attributes:
        to: where the results lie.
        book: the rows, on disk.
        seconds: how long it took.
        changes: what is otherwise than in the baseline; those that are regressions first.
        has_baseline: whether there was one to compare with.
        is_dry: whether nothing was to be written.
        ended: why the run ended before all was done; empty where it did not.

    Examples:
        >>> import surgeon
        >>> fleet = surgeon.run_many(surgeon.Recipe([surgeon.Rules("gelu")]), "notebooks/models/*.onnx", to="fused")
        >>> fleet.ok, fleet.outcomes
        (True, {'proved': 1})
    """

    to: str
    book: RunDatabase = field(repr=False)
    seconds: float = 0.0
    changes: list[FleetChange] = field(default_factory=list)
    has_baseline: bool = False
    is_dry: bool = False
    ended: str = ""

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
        """How many models came to each outcome, the worst first."""
        found = self.book.outcomes()
        return {outcome: found[outcome] for outcome in OUTCOMES_BY_SEVERITY if outcome in found}

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule fired, over all models."""
        found: Counter[str] = Counter()
        for row in self:
            found.update(row.counts)
        return dict(found.most_common())

    @property
    def kept(self) -> int:
        """How many models were done already, and left as they were."""
        return self.book.kept()

    @property
    def wrong(self) -> Iterator[FleetRow]:
        """The rows of models that are not what was asked for, the worst outcome first."""
        for outcome in WRONG:
            yield from self.book.rows(outcome=outcome)

    @property
    def stale(self) -> Iterator[FleetRow]:
        """Those of them at whose targets the results of earlier runs still lie."""
        return (row for row in self.wrong if row.stale)

    @property
    def slowest(self) -> list[FleetRow]:
        """The rows of the models that took longest."""
        return [row for row in self.book.rows(slowest=SLOWEST) if not row.kept]

    @property
    def regressions(self) -> list[FleetChange]:
        """What is worse than in the baseline."""
        return [change for change in self.changes if change.is_regression]

    @property
    def since(self) -> Iterator[FleetChange]:
        """What is otherwise than in the last run to the same target; nothing after the first."""
        return since_last(self.book)

    @property
    def ok(self) -> bool:
        """Whether all is well: nothing worse than in the baseline, or, where there is none, no model wrong."""
        if self.ended or self.regressions:
            return False
        outcomes = self.outcomes
        if self.has_baseline:
            return not (outcomes.get("unwritten") or outcomes.get("lost"))
        return outcomes.keys().isdisjoint(WRONG)

    def to_dict(self) -> dict[str, Any]:
        """Return what the rows come to as JSON can hold it."""
        return {
            "to": self.to,
            "models": len(self),
            "outcomes": self.outcomes,
            "kept": self.kept,
            "counts": self.counts,
            "wrong": [{key: row.to_dict()[key] for key in ("model", "outcome", "why", "stale")} for row in self.wrong],
            "slowest": [{"model": row.model, "seconds": round(row.seconds, 3)} for row in self.slowest],
            "changes": [change.to_dict() for change in self.changes],
            "since": [change.to_dict() for change in self.since],
            "ok": self.ok,
            "ended": self.ended,
            "seconds": round(self.seconds, 3),
        }

    def close(self) -> None:
        """Let go of the rows."""
        self.book.close()

    def __repr__(self) -> str:
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes.items())
        return f"<Fleet {len(self):,} models: {told or 'nothing done'}>"
