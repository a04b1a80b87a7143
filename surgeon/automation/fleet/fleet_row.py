"""The result of one model, as a value that can be sent and saved."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

WRONG = ("failed", "refused", "unexpected", "late", "memory", "crashed", "lost", "unwritten")
"""Outcomes that change the exit code."""
PASSING = ("lost", "unwritten")
"""Outcomes in WRONG that another run may change."""
OUTCOMES_BY_SEVERITY = (*WRONG, "unproved", "unchecked", "proved", "unchanged")
"""All outcomes, the worst first."""


@dataclass(slots=True)
class FleetRow:
    """The result of one model of a fleet; the table of rows has a column for each of its many fields.

    Examples:
        >>> import surgeon
        >>> fleet = surgeon.run_many(surgeon.Recipe([surgeon.Rules("gelu")]), "notebooks/models/*.onnx", to="fused")
        >>> next(iter(fleet)).outcome
        'proved'
    """

    model: str
    """The model's name below the target."""
    source: str
    """The URL of the model."""
    target: str
    """The URL of the result."""
    outcome: str = ""
    """proved, unchanged, unproved, unchecked or failed as in a recipe, or one of these:

    refused (the model cannot be read, or a step does not fit it), unexpected (`expect` is not met), late, memory.
    Others are crashed (its process ended), lost (with its worker), and unwritten (the store did not accept it).
    """
    why: str = ""
    """The reason for the outcome as a sentence, if there is one."""
    counts: dict[str, int] = field(default_factory=dict)
    """Number of sites that each rule rewrote, without rules that rewrote none."""
    edits: list[str] = field(default_factory=list)
    """Sentences that edits report."""
    rolled_back: int = 0
    """Number of sites that were rolled back."""
    proofs: dict[str, int] = field(default_factory=dict)
    """Number of sites by outcome."""
    proved_in: dict[str, int] = field(default_factory=dict)
    """Number of proofs reused from another model, by that model."""
    nodes: tuple[int, int] = (0, 0)
    """Number of nodes before and after."""
    seconds: float = 0.0
    """Duration in seconds."""
    size: int = 0
    """Bytes of the model and its data files."""
    read: int = 0
    """Bytes downloaded from a store."""
    written: int = 0
    """Bytes written."""
    graph: str = ""
    """Hash of the model's structure, without names, metadata and large weights."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The contents of the result that `--baseline` and the gate compare (`ModelFacts`)."""
    key: str = ""
    """Hash of the recipe, its settings and versions."""
    files: dict[str, str] = field(default_factory=dict)
    """Files of the source model, each with a token of its state."""
    made: dict[str, str] = field(default_factory=dict)
    """Files of the result, each with a token of its state."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the packages that produced the result."""
    limits: list[float] = field(default_factory=list)
    """The limits of seconds and of bytes of memory; 0 for a share of the machine's memory."""
    kept: bool = False
    """Whether the result was up to date, so that the model was skipped."""
    stale: bool = False
    """Whether a file of an earlier run is at the target."""

    @property
    def is_wrong(self) -> bool:
        """Whether the model has no result as requested."""
        return self.outcome in WRONG

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON can hold it."""
        return {**asdict(self), "nodes": list(self.nodes), "seconds": round(self.seconds, 4)}

    def line(self) -> str:
        """The row as a line of JSONL, without a newline."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


_FIELDS = {item.name for item in fields(FleetRow)}


def row_from_dict(found: Mapping[str, Any]) -> FleetRow:
    """The row from its `to_dict`, of this version or another.  Raises TypeError for other content."""
    row = FleetRow(**{key: value for key, value in found.items() if key in _FIELDS})
    row.nodes = (int(row.nodes[0]), int(row.nodes[1]))
    return row


def row_from_json(line: str) -> FleetRow | None:
    """The row of a line; None for a line that is cut off because its process was killed."""
    try:
        return row_from_dict(json.loads(line))
    except (ValueError, TypeError, IndexError):
        return None
