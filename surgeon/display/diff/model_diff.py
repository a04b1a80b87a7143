"""What differs between two models, as data; what differs alike in many nodes is told once."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from surgeon.result_base import ResultBase, to_json_dict

ChangeKind = Literal["interface", "opset", "nodes", "attributes", "constants", "weights", "types", "wiring", "sizes"]


@dataclass(frozen=True, slots=True)
class ModelChange:
    """One thing that differs, with all the nodes that it concerns alike.

    Attributes:
        kind: what it is about: "interface" (inputs, outputs, functions), "opset", "nodes" (some went and others came),
            "attributes", "constants" (small ones, by value), "weights" (large ones), "types" (dtypes and shapes of what
            nodes make), "wiring" (nodes that read other tensors), "sizes" (nodes that look at nothing but sizes).
        what: in words that hold for all of them.
        removed: the ops of nodes of the first model that went, in the order of the file.
        added: the ops of nodes of the second that came.
        sites: for each time the names of the nodes that went and of those that came; of nodes in both, the two names.
        scope: the body or function it is in, empty for the main graph.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> change = surgeon.diff("notebooks/models/tiny_distilbert.onnx", "out.onnx").changes[-1]
        >>> change.removed, change.added, change.count
        (('Div', 'Erf', 'Add', 'Mul', 'Mul'), ('com.microsoft::Gelu',), 4)
    """

    kind: ChangeKind
    what: str
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    sites: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    scope: str = ""

    @property
    def count(self) -> int:
        """At how many sites."""
        return max(1, len(self.sites))

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON can hold it."""
        return {**asdict(self), "count": self.count}


@dataclass(slots=True)
class ModelDiff(ResultBase):
    """What differs between two models.

    Attributes:
        first: the one model, by its path; empty for one in memory.
        second: the other.
        nodes: how many nodes both have, Constants left out: of the first, and of the second.
        same: how many of them stand for each other and are the same, names apart.
        renamed: how many of these are called otherwise.
        changes: what differs, equal changes once.
        told: what differs in what they tell of themselves (producer, IR version, doc strings, metadata), a line each;
            it changes nothing that they compute.
        seconds: how long it took.

    Examples:
        >>> import surgeon
        >>> found = surgeon.diff("notebooks/models/tiny_distilbert.onnx", "notebooks/models/tiny_distilbert.onnx")
        >>> found.differs, found.same
        (False, 180)
    """

    first: str
    second: str
    nodes: tuple[int, int] = (0, 0)
    same: int = 0
    renamed: int = 0
    changes: list[ModelChange] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def differs(self) -> bool:
        """Whether anything does but names and what is told."""
        return bool(self.changes)

    def of(self, kind: ChangeKind) -> Iterator[ModelChange]:
        """The changes of a kind."""
        return (change for change in self.changes if change.kind == kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as JSON can hold it."""
        return to_json_dict(self, "first second differs nodes same renamed changes told seconds")

    def __repr__(self) -> str:
        return f"<ModelDiff {self.same} nodes are the same; {len(self.changes)} changes>"
