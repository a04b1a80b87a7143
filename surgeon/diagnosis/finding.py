"""One thing that keeps a model from running on a target, told once however often it occurs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from surgeon.indexing.scope import Node

SHOWN = 5  # nodes named for one finding
Kind = Literal[
    "mapping", "opset", "schema", "kernel", "plugin", "restriction", "dtype", "shape", "model", "load", "advice"
]
Link = Literal["mapping", "op", "kernel", ""]


@dataclass(slots=True)
class Finding:
    """What is wrong, where, and what helps.

    kind: what it is about: "mapping" (no ONNX op stands for it), "opset" (the op is not there at the model's opset),
    "schema" (the node breaks its op's schema), "kernel" (the target does not run it), "plugin" and "restriction"
    (TensorRT's plugins, and its limits), "dtype" and "shape" (tensors that do not go together), "model" (the graph or
    its header), "load" (ONNX Runtime's own word), "advice" (nothing stops the model).

    op: "ai.onnx::Gelu", "" where it is about the model.  reason: what is wrong, a clause.  link: the missing one of
    *torch op → mapping → ONNX op (or kernel)*, "" where it is none of them.  torch_op: "" where nothing tells it.
    nodes: the names of the first few; count: of all.  came_from: the line of the user's program, else the module.
    helps: what to do, best first, a clause each.  stops: whether the target does not run the model because of it.
    """

    kind: Kind
    op: str
    reason: str
    link: Link = ""
    torch_op: str = ""
    nodes: list[str] = field(default_factory=list)
    count: int = 0
    came_from: str = ""
    helps: list[str] = field(default_factory=list)
    stops: bool = True
    where: list[Node] = field(default_factory=list, repr=False, compare=False)

    @property
    def chain(self) -> str:
        """The links from torch to what runs, the missing one in brackets; "" where it is none of them."""
        if not self.link:
            return ""
        links = {"mapping": "mapping", "op": self.op if self.link == "op" else "ONNX op (or kernel)"}
        if self.link == "kernel":
            links = {"mapping": "mapping", "kernel": f"kernel for {self.op}"}
        told = (f"[no {text}]" if name == self.link else text for name, text in links.items())
        return " -> ".join((f"torch op {self.torch_op}".rstrip(), *told))

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON can hold it."""
        return {
            "kind": self.kind,
            "op": self.op,
            "reason": self.reason,
            "missing_link": self.link,
            "chain": self.chain,
            "torch_op": self.torch_op,
            "nodes": list(self.nodes),
            "count": self.count,
            "came_from": self.came_from,
            "helps": list(self.helps),
            "stops": self.stops,
        }


class Findings:
    """Findings in the order in which they are met; equal ones become one with a count."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], Finding] = {}

    def add(
        self,
        kind: Kind,
        op: str,
        reason: str,
        *,
        link: Link = "",
        at: str = "",
        node: Node | None = None,
        helps: Iterable[str] = (),
        stops: bool = True,
        of: str = "",
    ) -> Finding:
        """Note a finding.  at: a node or tensor by name; node: the node; of: what tells it from others of its op."""
        key = kind, op, reason, of
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = Finding(kind, op, reason, link, stops=stops)
        found.count += 1
        found.helps += [text for text in helps if text not in found.helps]
        if at and len(found.nodes) < SHOWN and at not in found.nodes:
            found.nodes.append(at)
        if node is not None:
            found.where.append(node)
        return found

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())


def place_of(node: Node) -> str:
    """The name of a node, with the function or body that it stands in."""
    return f"{node.label} ({node.scope.label})" if node.scope.label else node.label
