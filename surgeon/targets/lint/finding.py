"""One thing that keeps a model from running on a target, told once however often it occurs."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from surgeon.ir.scope import Node
from surgeon.result_base import ResultBase, to_json_dict

SHOWN = 5  # nodes named for one finding
CONSTANT = "make it a constant"
"""A help that `check` turns into the commands that do so for the model, and leaves out where none does."""
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
class Diagnostic:
    """What is wrong, where, and what helps.

    kind: what it is about: "mapping" (no ONNX op stands for it), "opset" (the op is not there at the model's opset),
    "schema" (the node breaks its op's schema), "kernel" (the target does not run it), "plugin" and "restriction"
    (TensorRT's plugins, and a target's limits), "dtype" and "shape" (tensors that do not go together), "model" (the
    graph or its header), "load" (the word of the runtime itself), "build" (it reads the model and makes no engine of
    it), "advice" (nothing stops the model).

    op: "ai.onnx::Gelu", "" where it is about the model.  reason: what is wrong, a clause.  link: the missing one of
    *torch op → mapping → ONNX op (or kernel)*, "" where it is none of them.  torch_op: "" where nothing tells it.
    nodes: the names of the first few; count: of all.  came_from: the line of the user's program, else the module.
    helps: what to do, best first, a clause each.  stops: whether the target does not run the model because of it.
    is_of_torch: whether torch made the model.
    """

    kind: Kind
    op: str
    reason: str
    link: SupportLink = ""
    torch_op: str = ""
    nodes: list[str] = field(default_factory=list)
    count: int = 0
    came_from: str = ""
    helps: list[str] = field(default_factory=list)
    stops: bool = True
    is_of_torch: bool = False
    where: list[Node] = field(default_factory=list, repr=False, compare=False)

    @property
    def chain(self) -> str:
        """The links from torch to what runs, the missing one in brackets; "" where it is none, or torch has no part."""
        if not self.link or not self.is_of_torch or (self.link == "mapping" and not self.torch_op):
            return ""  # an op that a rule wrote, or a plugin, say: no mapping is missing
        links = {"mapping": "mapping", "op": self.op if self.link == "op" else "ONNX op (or kernel)"}
        if self.link == "kernel":
            links = {"mapping": "mapping", "kernel": f"kernel for {self.op}"}
        told = (f"[no {text}]" if name == self.link else text for name, text in links.items())
        return " -> ".join((f"torch op {self.torch_op}".rstrip(), *told))

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON can hold it."""
        first, rest = "kind op reason", "chain torch_op nodes count came_from helps stops"
        return {**to_json_dict(self, first), "missing_link": self.link, **to_json_dict(self, rest)}


@dataclass(frozen=True, slots=True)
class RuntimeResult:
    """What a target's own runtime made of a model.

    title: of the runtime, with its version; "" where it was not asked, and then why: `silence`.  layers: of
    the network that it read.  is_whole: whether it could look at every node.  device: what an engine was built for,
    "" for none; engine: its size in bytes; sizes: least, best and largest of each free dimension.  seconds: of
    processor time.  end: the reason of the finding that says why it came to no word (its process ended, or went
    beyond a limit); "".
    """

    title: str = ""
    silence: str = ""
    layers: int = 0
    is_whole: bool = True
    device: str = ""
    engine: int = 0
    sizes: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    end: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


class Findings(ResultBase, list[Diagnostic]):
    """What `surgeon.check` found.

    runtime: what the target's own runtime said of the model, None where the target has none that can be asked apart.
    target: the name of what the model is to run on.
    """

    runtime: RuntimeResult | None = None
    target: str = "ort"

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as JSON can hold them."""
        runtime = {} if self.runtime is None else {"runtime": self.runtime.to_dict()}
        return {"target": self.target, "findings": [item.to_dict() for item in self], **runtime}


class DiagnosticCollector:
    """Findings in the order in which they are met; those of one cause become one with a count."""

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
        """Note a finding.  at: a node or tensor by name; node: the node; of: what tells it from others of its op.

        Findings whose reasons differ in quoted names alone have one cause.  together: the reason of several, where it
        is not that of one without these names; of the model as a whole ("model") the op is then told of one alone.
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
    """What is told of one cause, and the first places, each with the names in its reason.

    together: the reason of several.
    """

    finding: Diagnostic
    together: str
    places: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    names: tuple[str, ...] | None = None
    differ: set[int] = field(default_factory=set)

    def add(self, op: str, reason: str, at: str, helps: Iterable[str]) -> None:
        """One more place."""
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
        told = (_place(at, [names[place] for place in self.differ if place < len(names)]) for at, names in self.places)
        found.nodes = [text for text in dict.fromkeys(told) if text]

    def _without_names(self, reason: str) -> str:
        """The reason of several: without the names in which they differ."""
        place = iter(range(reason.count("'")))
        return _QUOTED.sub(lambda found: _ANY if next(place) in self.differ else found[0], reason)


def _place(at: str, names: Sequence[str]) -> str:
    """A node with the names that its reason has, as far as they are its own."""
    own = ", ".join(name for name in names if name != repr(at))
    return f"{at} ({own})" if at and own else at or own


def node_path(node: Node) -> str:
    """The name of a node, with the function or body that it stands in."""
    return f"{node.label} ({node.scope.label})" if node.scope.label else node.label
