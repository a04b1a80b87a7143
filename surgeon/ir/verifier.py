"""Structural violations of ONNX's rules: one walk over a model's messages finds them.

Duplicate and missing names, unsorted nodes and cycles, missing imports.  It reads only the messages, so that it finds
all violations of a model that cannot be indexed; callers word the messages.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traits.trait_lookup import WITH_BODIES
from surgeon.ops.traversal import attribute_graphs, find_cycle, imports_of, names_read

Kind = Literal[
    "input twice", "initializer twice", "made twice", "not made", "output not made", "domain", "order", "circle"
]


@dataclass(frozen=True, slots=True)
class GraphLocation:
    """A graph of a model, in words."""

    words: str
    """The graph, as messages name it."""
    root: str
    """The main graph or function that contains it."""
    function: FunctionProto | None = None
    """The function that contains it, if any."""
    owner: NodeProto | None = None
    """The node whose body it is, if any."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of ONNX's rules."""

    kind: Kind
    """Kind of violation."""
    name: str
    """Name of the tensor or domain."""
    place: GraphLocation
    """Graph that contains it."""
    node: NodeProto | None = None
    """The node that reads the tensor, produces it again, or uses the domain."""
    first: NodeProto | None = None
    """The first producer; None: an input or initializer."""
    around: tuple[NodeProto, ...] = ()
    """The nodes of a cycle, each depending on the next."""


def verify(model: ModelProto) -> list[Violation]:
    """All violations in the main graph, in bodies and in local functions."""
    return run_audit(model).faults


def run_audit(model: ModelProto) -> "Audit":
    """The walk over a model: the violations, and further results."""
    audit = Audit(imports_of(model.opset_import))
    root = GraphLocation("the graph", "the graph")
    audit.add_undefined(audit.graph(model.graph, root))
    for function in model.functions:
        audit.imports = imports_of(function.opset_import)
        words = f"function {function.name!r}"
        place = GraphLocation(words, words, function)
        audit.add_undefined(audit.nodes(function.node, set(function.input), function.output, place))
    return audit


OuterName = tuple[
    str, GraphLocation, NodeProto | None
]  # an undefined name, and its reader; None: it is an output


@dataclass(slots=True)
class Audit:
    """One walk over a model."""

    imports: dict[str, int]
    """Opset imports of the main graph, or of the function being checked."""
    faults: list[Violation] = field(default_factory=list)
    """Violations found so far."""
    apart: list[NodeProto] = field(default_factory=list)
    """Nodes of the main graph, one of each kind that a schema check distinguishes."""

    def graph(self, graph: GraphProto, place: GraphLocation) -> list[OuterName]:
        """Check one graph; returns the names that it takes from outer graphs."""
        given = [value.name for value in graph.input]
        initializers = [tensor.name for tensor in graph.initializer]
        initializers += [sparse.values.name for sparse in graph.sparse_initializer]
        self.faults += [Violation("input twice", name, place) for name in _twice(given)]
        self.faults += [Violation("initializer twice", name, place) for name in _twice(initializers)]
        return self.nodes(graph.node, {*given, *initializers}, [value.name for value in graph.output], place)

    def nodes(
        self, nodes: Sequence[NodeProto], given: Collection[str], ends: Iterable[str], place: GraphLocation
    ) -> list[OuterName]:
        """Check the nodes of one scope that starts with the names `given`; returns the names defined outside of it.

        This loop runs over every node of a model, so it is kept lean.
        """
        made = {"", *given}
        count = len(made)
        late: list[OuterName] = []
        domains: dict[str, NodeProto] = {}
        kinds: set[Hashable] = set()
        apart: list[NodeProto] = []
        for node in nodes:
            domain, op = node.domain, node.op_type
            inputs, outputs = node.input[:], node.output[:]  # a slice is faster than a loop
            if domain not in domains:
                domains[domain] = node
            if not made.issuperset(inputs):
                late.extend((name, place, node) for name in inputs if name not in made)
            if node.attribute:
                apart.append(node)
                if domain or op in WITH_BODIES:
                    late.extend(item for item in self._captured(node, place) if item[0] not in made)
            else:
                kind: Hashable = op, domain, len(inputs), len(outputs)
                if "" in inputs or "" in outputs:
                    kind = op, domain, tuple(map(bool, inputs)), tuple(map(bool, outputs))
                if kind not in kinds:
                    kinds.add(kind)
                    apart.append(node)
            made.update(outputs)
            count += len(outputs)
        if place.owner is None and place.function is None:
            self.apart = apart
        if count != len(made):  # or outputs are absent
            self.faults += _repeated(nodes, given, place)
        strange = [(domain, node) for domain, node in domains.items() if normalize_domain(domain) not in self.imports]
        self.faults += [Violation("domain", domain, place, node) for domain, node in strange]
        disordered = next((name for name, *_ in late if name in made), None)
        if disordered is not None:
            around = _circle(nodes)
            self.faults.append(Violation("circle" if around else "order", disordered, place, around=around))
        late.extend((name, place, None) for name in ends if name not in made)
        return [item for item in late if item[0] not in made]

    def add_undefined(self, names: Iterable[OuterName]) -> None:
        """Record the names that a main graph or a function uses and does not define."""
        each_once = {(name, id(node)): (name, place, node) for name, place, node in names}
        for name, place, node in each_once.values():
            self.faults.append(Violation("output not made" if node is None else "not made", name, place, node))

    def _captured(self, node: NodeProto, place: GraphLocation) -> Iterator[OuterName]:
        """Check the bodies of a node; yields the names that they take from outer graphs."""
        for attribute in node.attribute:
            for graph in attribute_graphs(attribute):
                inside = f"{attribute.name} of {node.op_type} '{node.name or ', '.join(node.output)}' in {place.words}"
                yield from self.graph(graph, GraphLocation(inside, place.root, place.function, node))


def _twice(names: Sequence[str]) -> Sequence[str]:
    """The names that occur more than once."""
    return () if len(set(names)) == len(names) else [name for name, count in Counter(names).items() if count > 1]


def _repeated(nodes: Iterable[NodeProto], given: Iterable[str], place: GraphLocation) -> Iterator[Violation]:
    """The names that nodes define again."""
    makers: dict[str, NodeProto | None] = dict.fromkeys(given)
    for node in nodes:
        for name in filter(None, node.output):
            if name in makers:
                yield Violation("made twice", name, place, node=node, first=makers[name])
            makers.setdefault(name, node)


def _circle(nodes: Sequence[NodeProto]) -> tuple[NodeProto, ...]:
    """Nodes that form a cycle, if there are any."""
    maker = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    needs = {place: [maker[name] for name in names_read(node) if name in maker] for place, node in enumerate(nodes)}
    return tuple(nodes[place] for place in find_cycle(needs))
