"""Structural check of a rewritten model: complaints that the model before the rewrite did not already earn.

Here: what only a walk over all scopes can show: names made twice, names made nowhere, order, cycles, imports.  What
onnx.checker says of the changed parts is `changes`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from onnx import GraphProto, ModelProto, NodeProto

from surgeon.ops.records import WITH_BODIES
from surgeon.ops.walking import circle, free_names, graphs_in
from surgeon.validity.changes import check_changes, domain_of, imports_of


@dataclass(frozen=True, slots=True)
class _Complaint:
    """A sentence, and the key by which the same fault is known again in the other model."""

    key: tuple[str, ...]
    sentence: str


def check_structure(before: ModelProto, after: ModelProto) -> list[str]:
    """Return what is wrong with `after` that was not already wrong with `before`, one sentence each; empty if nothing.

    Both may be skeletons: large payloads are not looked at.  Faults that `before` has too (unsorted nodes, operators
    that only ONNX Runtime knows in the default domain, a name made twice) are accepted as they come.
    """
    found = _audit(after)
    if found:
        known = {complaint.key for complaint in _audit(before)}
        found = [complaint for complaint in found if complaint.key not in known]
    return list(dict.fromkeys([complaint.sentence for complaint in found] + check_changes(before, after)))


def _audit(model: ModelProto) -> list[_Complaint]:
    """Walk the main graph and all function bodies."""
    imports = imports_of(model.opset_import)
    audit = _Audit(imports, "the graph")
    captured = audit.graph(model.graph, "the graph")
    audit.dangling(captured, "the graph")
    complaints = audit.complaints
    for function in model.functions:
        where = f"function '{function.name}'"
        audit = _Audit(imports_of(function.opset_import), where)
        given = Counter(function.input)
        captured = audit.nodes(function.node, given, function.output, where)
        audit.dangling(captured, where)
        complaints.extend(audit.complaints)
    return complaints


@dataclass(slots=True)
class _Audit:
    """The walk over one root scope (main graph or function) and the bodies inside it."""

    imports: dict[str, int]
    root: str
    complaints: list[_Complaint] = field(default_factory=list)

    def graph(self, graph: GraphProto, where: str) -> list[str]:
        """Check one graph; return the names that it takes from around it."""
        given = Counter(value.name for value in graph.input)
        initializers = Counter(tensor.name for tensor in graph.initializer)
        initializers.update(sparse.values.name for sparse in graph.sparse_initializer)
        for counts, what in ((given, "input"), (initializers, "initializer")):
            self._twice((name for name, count in counts.items() if count > 1), where, f"as {what}")
        outputs = [value.name for value in graph.output]
        return self.nodes(graph.node, given | initializers, outputs, where)

    def nodes(self, nodes: Iterable[NodeProto], given: Counter[str], outputs: Iterable[str], where: str) -> list[str]:
        """Check the nodes of one scope that starts with the names `given`; return the names made outside of it.

        The one loop that runs over every node of a model: kept lean.
        """
        made = set(given)
        count = len(made)
        late: list[str] = []
        domains: dict[str, str] = {}
        for node in nodes:
            domain, op_type = node.domain, node.op_type
            if domain not in domains:
                domains[domain] = node.name or op_type
            for name in node.input:
                if name not in made and name:
                    late.append(name)
            if domain or op_type in WITH_BODIES:
                late.extend(name for name in self._captured(node, where) if name not in made)
            for name in node.output:
                if name:
                    made.add(name)
                    count += 1
        if count != len(made):
            self._twice(_repeated(nodes, given), where, "by two nodes, or by a node and as input")
        self._unimported(domains, where)
        late.extend(name for name in outputs if name not in made)
        disordered = [name for name in late if name in made]
        if disordered:
            self._disorder(nodes, disordered[0], where)
        return [name for name in late if name not in made]

    def dangling(self, names: Iterable[str], where: str) -> None:
        """Complain of names that a root scope uses and nothing makes."""
        for name in dict.fromkeys(names):
            sentence = f"Tensor '{name}' is used in {where} but nothing makes it."
            self.complaints.append(_Complaint(("dangling", where, name), sentence))

    def _captured(self, node: NodeProto, where: str) -> list[str]:
        """Check the bodies of a node; return the names that they take from around them."""
        captured: list[str] = []
        for attribute in node.attribute:
            for graph in graphs_in(attribute):
                inside = f"{attribute.name} of {node.op_type} '{node.name or ', '.join(node.output)}' in {where}"
                captured.extend(self.graph(graph, inside))
        return captured

    def _twice(self, names: Iterable[str], where: str, how: str) -> None:
        for name in names:
            sentence = f"Tensor '{name}' is made twice in {where} ({how})."
            self.complaints.append(_Complaint(("twice", where, name), sentence))

    def _unimported(self, domains: dict[str, str], where: str) -> None:
        for domain, node in domains.items():
            if domain_of(domain) not in self.imports:
                sentence = f"Node '{node}' in {where} uses domain '{domain}', which {self.root} does not import."
                self.complaints.append(_Complaint(("import", self.root, domain), sentence))

    def _disorder(self, nodes: Iterable[NodeProto], name: str, where: str) -> None:
        """Complain of nodes out of order, and of a cycle, which no order can cure."""
        if cycle := _on_cycle(nodes):
            sentence = f"Tensor '{cycle}' in {where} is computed from itself: the graph has a cycle."
            self.complaints.append(_Complaint(("cycle", where), sentence))
            return
        sentence = f"Tensor '{name}' is used in {where} before the node that makes it: nodes are out of order."
        self.complaints.append(_Complaint(("order", where), sentence))


def _repeated(nodes: Iterable[NodeProto], given: Counter[str]) -> list[str]:
    """Return the names that the nodes make more than once, or that were given before."""
    counts = Counter(name for node in nodes for name in node.output if name)
    return [name for name, count in counts.items() if count > 1 or name in given]


def _on_cycle(nodes: Iterable[NodeProto]) -> str | None:
    """Return a tensor that depends on itself, or None."""
    listed = list(nodes)
    maker = {name: position for position, node in enumerate(listed) for name in node.output if name}
    needs = {
        position: [maker[name] for name in free_names(node) if name in maker] for position, node in enumerate(listed)
    }
    around = circle(needs)
    return str(listed[around[0]].output[0]) if around else None
