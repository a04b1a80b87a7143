"""The differences between two models as data; equal changes of many nodes are one record."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from surgeon.result_base import JsonRecord, ResultBase

ChangeKind = Literal["interface", "opset", "nodes", "attributes", "constants", "weights", "types", "wiring", "sizes"]


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A change, with all its sites.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> change = surgeon.diff("notebooks/models/tiny_distilbert.onnx", "out.onnx").changes[-1]
        >>> change.removed, change.added, change.count
        (('Div', 'Erf', 'Add', 'Mul', 'Mul'), ('com.microsoft::Gelu',), 4)
    """

    kind: ChangeKind
    """The changed part of the model.

    "interface" (inputs, outputs, functions), "opset", "nodes" (removed and added ones), "attributes", "constants"
    (small ones, by value), "weights" (large ones).  "types" (dtypes and shapes of outputs), "wiring" (nodes with other
    inputs), "sizes" (nodes that only compute sizes).
    """
    what: str
    """The change in words that hold for all sites."""
    removed: tuple[str, ...] = ()
    """The ops of nodes that only the first model has, in file order."""
    added: tuple[str, ...] = ()
    """The ops of nodes that only the second model has."""
    sites: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    """For each site the names of its nodes in the first and in the second model."""
    scope: str = ""
    """The label of the body or function; empty for the main graph."""

    @property
    def count(self) -> int:
        """The number of sites."""
        return max(1, len(self.sites))

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON can hold it."""
        return {**asdict(self), "count": self.count}


@dataclass(slots=True)
class ModelDiff(JsonRecord, ResultBase):
    """The differences between two models.

    Examples:
        >>> import surgeon
        >>> found = surgeon.diff("notebooks/models/tiny_distilbert.onnx", "notebooks/models/tiny_distilbert.onnx")
        >>> found.differs, found.same
        (False, 180)
    """

    JSON = "first second differs nodes same renamed changes told seconds"

    first: str
    """The path of the first model; empty for a model in memory."""
    second: str
    """The path of the second model."""
    nodes: tuple[int, int] = (0, 0)
    """The number of nodes in each model, without Constants."""
    same: int = 0
    """The number of paired nodes that are equal apart from their names."""
    renamed: int = 0
    """The number of these that have other names."""
    changes: list[ModelChange] = field(default_factory=list)
    """The changes, with equal ones merged."""
    told: list[str] = field(default_factory=list)
    """Differences that change no results, a line each: producer, IR version, doc strings, metadata."""
    seconds: float = 0.0
    """The duration in seconds."""

    @property
    def differs(self) -> bool:
        """Whether anything differs except names and metadata."""
        return bool(self.changes)

    def of(self, kind: ChangeKind) -> Iterator[ModelChange]:
        """The changes of a kind."""
        return (change for change in self.changes if change.kind == kind)

    def __repr__(self) -> str:
        return f"<ModelDiff {self.same} nodes are the same; {len(self.changes)} changes>"
