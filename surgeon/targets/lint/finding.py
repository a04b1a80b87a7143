"""Findings: problems that stop a model on a target; each is reported once, with the number of its nodes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from surgeon.ir.scope import Node
from surgeon.result_base import JsonRecord, ResultBase, json_of

SHOWN = 5  # nodes named for one finding
CONSTANT = "make it a constant"
"""A help that `check` turns into the commands that do so for the model, and leaves out where none does."""
FOR_ALL = "rewrite the original model"
"""The beginning of a help that helps with every node which ONNX Runtime's rules wrote."""
FOR_THIS = "rewrite this model"  # the beginning of a help that `check` leaves out unless a rule fires at the node
_QUOTED, _ANY = re.compile(r"'[^']*'"), "'…'"
Kind = Literal[
    "mapping",
    "opset",
    "schema",
    "kernel",
    "plugin",
    "restriction",
    "dtype",
    "shape",
    "model",
    "load",
    "build",
    "advice",
]
SupportLink = Literal["mapping", "op", "kernel", ""]


@dataclass(slots=True)
class Diagnostic(JsonRecord):
    """A problem, its nodes, and remedies."""

    JSON = "kind op reason missing_link=link chain torch_op nodes count came_from helps stops"

    kind: Kind
    """The subject.

    "mapping": no ONNX op represents it.  "opset": the op does not exist at the model's opset.  "schema": the node
    breaks its op's schema.  "kernel": the target does not run it.  "plugin": plugins of TensorRT.  "restriction":
    limits of a target.  "dtype", "shape": tensors that do not fit each other.  "model": the graph or its header.
    "load": the runtime rejects the model.  "build": the runtime reads it, but builds no engine.  "advice": nothing
    stops the model.
    """
    op: str
    """Name with domain, "ai.onnx::Gelu"; "" if it is about the model."""
    reason: str
    """The problem, as a clause."""
    link: SupportLink = ""
    """The missing link of *torch op → mapping → ONNX op (or kernel)*, "" for none."""
    torch_op: str = ""
    """Operator of torch that the node comes from, "" if unknown."""
    nodes: list[str] = field(default_factory=list)
    """Names of the first few nodes."""
    count: int = 0
    """Number of nodes."""
    came_from: str = ""
    """Line of the user's program, else the module."""
    helps: list[str] = field(default_factory=list)
    """Remedies, best first, a clause each."""
    stops: bool = True
    """Whether it stops the model on the target."""
    is_of_torch: bool = False
    """Whether torch exported the model."""
    where: list[Node] = field(default_factory=list, repr=False, compare=False)
    """The nodes."""

    @property
    def chain(self) -> str:
        """The links from torch to the kernel, the missing one in brackets; empty without a missing link or torch."""
        if not self.link or not self.is_of_torch or (self.link == "mapping" and not self.torch_op):
            return ""  # an op that a rule wrote, or a plugin, say: no mapping is missing
        links = {"mapping": "mapping", "op": self.op if self.link == "op" else "ONNX op (or kernel)"}
        if self.link == "kernel":
            links = {"mapping": "mapping", "kernel": f"kernel for {self.op}"}
        parts = (f"[no {text}]" if name == self.link else text for name, text in links.items())
        return " -> ".join((f"torch op {self.torch_op}".rstrip(), *parts))


@dataclass(frozen=True, slots=True)
class RuntimeResult:
    """The result of a target's runtime for a model."""

    title: str = ""
    """Name and version of the runtime, "" if it was not asked."""
    silence: str = ""
    """Why it was not asked."""
    layers: int = 0
    """Layers of the network that it read."""
    is_whole: bool = True
    """Whether it looked at every node."""
    device: str = ""
    """Device that an engine was built for, "" for none."""
    engine: int = 0
    """Size of the engine in bytes."""
    sizes: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Dynamic dims of the engine, as (least, best, largest)."""
    seconds: float = 0.0
    """Processor time."""
    end: str = ""
    """Reason of the finding that says why it did not finish, "" if it did."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


class Findings(ResultBase, list[Diagnostic]):
    """What `surgeon.check` found.

    runtime: the result of the target's own runtime; None if the target has no separate one.
    target: the name of the target.
    model: the path of the model, "" for one in memory.
    nodes: how many nodes it has.
    """

    runtime: RuntimeResult | None = None
    target: str = "ort"
    model: str = ""
    nodes: int = 0

    @property
    def is_undecided(self) -> bool:
        """Whether the runtime gave no answer, and nothing else stops the model."""
        end = "" if self.runtime is None else self.runtime.end
        return bool(end) and all(item.reason == end for item in self if item.stops)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as JSON can hold them."""
        findings = [item.to_dict() for item in self]
        return {**json_of(self, "model? target"), "findings": findings, **json_of(self, "runtime?")}


class DiagnosticCollector:
    """Findings in the order in which they occur; those of one cause become one with a count."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], _Cause] = {}
        self.runtime: RuntimeResult | None = None

    def add(
        self,
        kind: Kind,
        op: str,
        reason: str,
        *,
        link: SupportLink = "",
        at: str = "",
        node: Node | None = None,
        helps: Iterable[str] = (),
        stops: bool = True,
        of: str = "",
        together: str = "",
    ) -> Diagnostic:
        """Add a finding.  at: name of a node or tensor.  node: the node.  of: separates findings of one op and reason.

        Findings whose reasons differ only in quoted names have one cause.  together: the reason of several findings, if
        it is not that of one without these names; for the whole model (kind "model") the op is then that of a single
        finding.
        """
        alike = together or _QUOTED.sub(_ANY, reason)
        key = kind, "" if together and kind == "model" else op, alike, of
        cause = self._found.get(key)
        if cause is None:
            cause = self._found[key] = _Cause(Diagnostic(kind, op, reason, link, stops=stops), together)
        cause.add(op, reason, at, helps)
        found = cause.finding
        if node is not None:
            found.where.append(node)
        return found

    def __iter__(self) -> Iterator[Diagnostic]:
        return (cause.finding for cause in self._found.values())


@dataclass(slots=True)
class _Cause:
    """The findings of one cause, which are reported as one."""

    finding: Diagnostic
    """The finding that is reported."""
    together: str
    """Reason for several findings, "" to derive it from theirs."""
    places: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """The first nodes, each with the quoted names in its reason."""
    names: tuple[str, ...] | None = None
    """Quoted names in the first reason."""
    differ: set[int] = field(default_factory=set)
    """Indices of names that differ between reasons."""

    def add(self, op: str, reason: str, at: str, helps: Iterable[str]) -> None:
        """Add one place."""
        found, names = self.finding, tuple(_QUOTED.findall(reason))
        if self.names is None:
            self.names = names
        first = self.names
        self.differ.update(place for place, pair in enumerate(zip(first, names, strict=False)) if pair[0] != pair[1])
        is_one = not self.differ and found.reason == reason
        found.count += 1
        if is_one:
            found.helps += [text for text in helps if text not in found.helps]
        elif self.together:
            found.reason = self.together
        else:
            found.reason = self._without_names(reason)
        if found.op != op:
            found.op = ""
        if len(self.places) < SHOWN and (at, names) not in self.places and (at or names):
            self.places.append((at, names))
        shown = (_place(at, [names[place] for place in self.differ if place < len(names)]) for at, names in self.places)
        found.nodes = [text for text in dict.fromkeys(shown) if text]

    def _without_names(self, reason: str) -> str:
        """The reason of several: without the names in which they differ."""
        place = iter(range(reason.count("'")))
        return _QUOTED.sub(lambda found: _ANY if next(place) in self.differ else found[0], reason)


def _place(at: str, names: Sequence[str]) -> str:
    """A node with the names in its reason, except its own."""
    own = ", ".join(name for name in names if name != repr(at))
    return f"{at} ({own})" if at and own else at or own


def node_path(node: Node) -> str:
    """The name of a node, with its function or body."""
    return f"{node.label} ({node.scope.label})" if node.scope.label else node.label
