"""What came of one model, as a value that goes over wires and into files."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

WRONG = ("failed", "refused", "unexpected", "late", "memory", "crashed", "lost", "unwritten")
"""Outcomes that are told by the exit code."""
PASSING = ("lost", "unwritten")
"""Those of them that another run may end otherwise."""
OUTCOMES_BY_SEVERITY = (*WRONG, "unproved", "unchecked", "proved", "unchanged")
"""All outcomes, the worst first."""


@dataclass(slots=True)
class FleetRow:
    """What came of one model of a fleet.

    Attributes:
        model: what it is called below the target.
        source: where it was read.
        target: where it was to be written.
        outcome: proved, unchanged, unproved, unchecked or failed, as of a recipe; refused (it cannot be read, or a step
            does not fit it), unexpected (`expect` is not met), late, memory, crashed (what its process came to), lost
            (with its worker) or unwritten (the store did not take it).
        why: a sentence, where there is something to say.
        counts: how often each rule fired, of those that did.
        edits: what edits said.
        rolled_back: how many sites were.
        proofs: how many sites there are of each outcome.
        proved_in: how many proofs were made for another model, by that model.
        nodes: how many there were before and are after.
        seconds: how long it took.
        size: bytes of the model and its data files.
        read: bytes that were brought from a store.
        written: bytes that were written.
        graph: what tells one export from another, whatever its weights.
        key: what was asked for: the recipe, its settings and versions.
        files: the files that the model was read from, with what tells their state.
        made: the files that were written, likewise.
        versions: of what did it.
        limits: the seconds and the bytes of memory that it was given, 0 for a part of the machine's.
        kept: whether all of this was so already, and nothing was done.
        stale: whether a file lies at the target that this run did not make: the result of an earlier one, mostly.

    Examples:
        >>> import surgeon
        >>> fleet = surgeon.run_many(surgeon.Recipe([surgeon.Rules("gelu")]), "notebooks/models/*.onnx", to="fused")
        >>> next(iter(fleet)).outcome
        'proved'
    """

    model: str
    source: str
    target: str
    outcome: str = ""
    why: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    edits: list[str] = field(default_factory=list)
    rolled_back: int = 0
    proofs: dict[str, int] = field(default_factory=dict)
    proved_in: dict[str, int] = field(default_factory=dict)
    nodes: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    size: int = 0
    read: int = 0
    written: int = 0
    graph: str = ""
    key: str = ""
    files: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    limits: list[float] = field(default_factory=list)
    kept: bool = False
    stale: bool = False

    @property
    def is_wrong(self) -> bool:
        """Whether the model is not what was asked for."""
        return self.outcome in WRONG

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {**asdict(self), "nodes": list(self.nodes), "seconds": round(self.seconds, 4)}

    def line(self) -> str:
        """The row as a line of JSONL, without its end."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


_FIELDS = {item.name for item in fields(FleetRow)}


def row_from_dict(found: Mapping[str, Any]) -> FleetRow:
    """The row that `to_dict` made, of this version or another.  Raises TypeError for anything else."""
    row = FleetRow(**{key: value for key, value in found.items() if key in _FIELDS})
    row.nodes = (int(row.nodes[0]), int(row.nodes[1]))
    return row


def row_from_json(line: str) -> FleetRow | None:
    """The row of a line; None for one that is cut off, as a killed process leaves it."""
    try:
        return row_from_dict(json.loads(line))
    except (ValueError, TypeError, IndexError):
        return None
