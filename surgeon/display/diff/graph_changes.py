"""Finds the differences between two graphs with paired nodes."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

import onnx

from surgeon.connected_components import connected_components
from surgeon.display.diff.diff_graph import INPUT, OMITTED, PRODUCED, STORED, DiffGraph, InputSource
from surgeon.display.diff.metadata_changes import changed_metadata_keys
from surgeon.display.diff.model_diff import ChangeKind, ModelChange
from surgeon.display.diff.node_pairing import NodePairing
from surgeon.display.pictures.diagram import array_text, attribute_text, type_text
from surgeon.file.tensors.content_equality import TensorContents
from surgeon.ir.scope import Node, split_op
from surgeon.ops.traits.trait_lookup import COMMUTATIVE
from surgeon.ops.traversal import GRAPHS
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.tensor_types import TensorType
from surgeon.text import join_first

ORDER: tuple[ChangeKind, ...] = (
    "interface", "opset", "sizes", "types", "wiring", "attributes", "constants", "weights", "nodes"
)
SOURCES = {PRODUCED: "an output of a node", INPUT: "a graph input", STORED: "a constant", OMITTED: "nothing"}
SHOWN = 6  # ops listed by name
Site = tuple[tuple[str, ...], tuple[str, ...]]


class GraphChanges:
    """The differences between two graphs, and the number of their equal nodes.

    metadata: for each changed metadata key the number of paired nodes.
    """

    def __init__(
        self, one: DiffGraph, other: DiffGraph, contents: tuple[TensorContents, TensorContents], scope: str
    ) -> None:
        self.pairing = NodePairing(one, other)
        self.one, self.other, self._contents, self._scope = one, other, contents, scope
        self.same = self.renamed = self._change_count = 0
        self._has_equal_inputs = _input_types(one) == _input_types(other)
        self._size_nodes = [
            [at for at in sorted(side.size_nodes) if at not in done]
            for side, done in ((one, self.pairing.second_of), (other, self.pairing.first_of))
        ]
        self._found: dict[tuple[ChangeKind, str, tuple[str, ...], tuple[str, ...]], list[Site]] = defaultdict(list)
        self.metadata = Counter[str]()
        for removed, added in self._regions():  # a region of one node of the same op is a changed node
            if len(removed) == len(added) == 1 and one.nodes[removed[0]].op == other.nodes[added[0]].op:
                self.pairing.join(removed[0], added[0])
        self._compare_pairs()
        self._compare_passed_through()
        if any(self._size_nodes):
            self._add_region("sizes", *self._size_nodes)
        for removed, added in self._regions():
            self._add_region("nodes", removed, added)

    @property
    def changes(self) -> Iterator[ModelChange]:
        """The changes with equal ones merged, those with the most sites last."""
        for (kind, what, removed, added), sites in sorted(self._found.items(), key=lambda item: len(item[1])):
            yield ModelChange(kind, what, removed, added=added, sites=tuple(sites), scope=self._scope)

    def _add(self, kind: ChangeKind, what: str, at: int, to: int) -> None:
        site = ((self.one.nodes[at].label,), (self.other.nodes[to].label,))
        self._found[kind, what, (), ()].append(site)
        self._change_count += 1

    def _compare_pairs(self) -> None:
        """Compare paired nodes."""
        for at, to in self.pairing.second_of.items():
            self.metadata.update(changed_metadata_keys(self.one.nodes[at], self.other.nodes[to]))
            before = self._change_count
            self._compare_attributes(at, to)
            self._compare_inputs(at, to)
            self._compare_outputs(at, to)
            if not (self._has_equal_inputs and self.pairing.are_computed_alike(at, to)):
                self._compare_types(at, to)
            if self._change_count == before:
                self.same += 1
                self.renamed += self.one.nodes[at].label != self.other.nodes[to].label

    def _compare_attributes(self, at: int, to: int) -> None:
        one, other = self.one.nodes[at], self.other.nodes[to]
        if one.op != other.op:
            self._add("attributes", f"{one.op} → {other.op}", at, to)
        elif self.one.attribute_keys[at] != self.other.attribute_keys[to]:
            _, op = split_op(one.op)
            texts = [
                {item.name: attribute_text(op, item) for item in node.proto.attribute if item.type not in GRAPHS}
                for node in (one, other)
            ]
            for text, node in zip(texts, (one, other), strict=True):
                if node.proto.overload:
                    text["overload"] = node.proto.overload
            names = sorted(name for name in {**texts[0], **texts[1]} if texts[0].get(name) != texts[1].get(name))
            changes = [f"{name} {texts[0].get(name, 'left out')} → {texts[1].get(name, 'left out')}" for name in names]
            if not changes:  # tensors and long lists have a shortened text
                changes = [f"{name} holds something else" for name in _changed_attributes(one, other)]
            self._add("attributes", f"{one.op}: {', '.join(changes) or 'attributes'}", at, to)

    def _compare_inputs(self, at: int, to: int) -> None:
        op, sources, others = self.one.nodes[at].op, self.one.sources[at], self.other.sources[to]
        if len(sources) != len(others):
            self._add_wiring(f"{op} reads {len(sources)} tensors → {len(others)}", at, to)
            return
        if op in COMMUTATIVE and len(sources) == 2 and self._is_counterpart(sources[0], others[1]):
            others = others[::-1]
        for slot, (mine, theirs) in enumerate(zip(sources, others, strict=True)):
            if mine[0] == theirs[0] == STORED:
                self._compare_stored(at, to, slot)
            elif not self._is_counterpart(mine, theirs) and not self._is_in_region(mine, theirs):
                self._add_wiring(f"{op} reads another tensor as input {slot}", at, to)

    def _compare_outputs(self, at: int, to: int) -> None:
        """Compare the graph outputs of a node with those of its counterpart."""
        op = self.one.nodes[at].op
        for place, key in self.one.graph_outputs.get(at, ()):
            who, other = self.other.output_producers.get(key, (to, place))
            if who == to and other != place:
                self._add("wiring", f"{op} hands on its output {place} → {other}", at, to)
            elif who != to and who in self.pairing.first_of:
                self._add("wiring", f"{op} hands on what another node does", at, to)

    def _compare_passed_through(self) -> None:
        """Compare graph outputs that no node produces in at least one of the models."""
        ours, theirs = self.one.outputs, self.other.outputs
        if len(ours) != len(theirs) and self._scope:  # the interface covers the main graph
            what = f"gives {len(ours)} tensors → {len(theirs)}"
            self._found["interface", what, (), ()].append(((self._scope,), (self.other.scope.label,)))
        for key in ours:
            if key not in theirs or (key in self.one.output_producers and key in self.other.output_producers):
                continue
            names = ours[key], theirs[key]
            mine, other = self.one.source(names[0]), self.other.source(names[1])
            if mine[0] == other[0] == STORED:
                change = self._content_change(*names)
                if change is None:
                    continue
                kind, what = change[0], f"output {key} {change[1]}"
            elif self._is_counterpart(mine, other) or self._is_in_region(mine, other):
                continue
            else:
                kinds = (SOURCES[mine[0]], SOURCES[other[0]])
                kind, what = "wiring", f"output {key} is " + (
                    f"another graph input: {names[0]} → {names[1]}" if kinds[0] == kinds[1] else " → ".join(kinds)
                )
            self._found[kind, what, (), ()].append(((names[0],), (names[1],)))

    def _add_wiring(self, what: str, at: int, to: int) -> None:
        """Add a wiring change, or a change of sizes if both nodes only compute sizes."""
        if any(self._size_nodes) and at in self.one.size_nodes and to in self.other.size_nodes:
            self._add("sizes", "nodes that compute sizes read other tensors", at, to)
        else:
            self._add("wiring", what, at, to)

    def _is_counterpart(self, mine: InputSource, theirs: InputSource) -> bool:
        if mine[0] == theirs[0] == PRODUCED:
            return self.pairing.second_of.get(mine[1]) == theirs[1] and mine[2] == theirs[2]
        return mine[0] == theirs[0] and mine[2] == theirs[2]

    def _is_in_region(self, mine: InputSource, theirs: InputSource) -> bool:
        """Whether a producer is unpaired: the change of its region covers that."""
        is_removed = mine[0] == PRODUCED and mine[1] not in self.pairing.second_of
        return is_removed or (theirs[0] == PRODUCED and theirs[1] not in self.pairing.first_of)

    def _compare_stored(self, at: int, to: int, slot: int) -> None:
        """Compare constants: small ones by value, large ones by their bytes."""
        change = self._content_change(self.one.inputs[at][slot], self.other.inputs[to][slot])
        if change is not None:
            self._add(change[0], f"{self.one.nodes[at].op} {change[1]} as input {slot}", at, to)

    def _content_change(self, name: str, other: str) -> tuple[ChangeKind, str] | None:
        """The change between two stored tensors; None if their contents are equal."""
        tensors = self.one.stored(name), self.other.stored(other)
        has_equal_content = self.one.content(name) == self.other.content(other)
        if has_equal_content and (tensors[0] is None or tensors[1] is None or self._same_bytes(tensors[0], tensors[1])):
            return None
        texts = self._text(self.one, name), self._text(self.other, other)
        if texts[0] != texts[1]:
            return "constants", f"has {texts[0]} → {texts[1]}"
        if not texts[0]:  # in a function, an argument of the call
            return "constants", "has another constant"
        return "weights", f"has other numbers in {texts[0]}"

    def _same_bytes(self, mine: onnx.TensorProto, theirs: onnx.TensorProto) -> bool:
        """Whether tensors of equal dtype and shape have equal data; samples are compared first."""
        one, other = self._contents
        probes = one.probe(mine), other.probe(theirs)
        if probes[0] != probes[1] or isinstance(probes[0], bytes):
            return probes[0] == probes[1]
        return one.digest(mine) == other.digest(theirs)

    def _text(self, side: DiffGraph, name: str) -> str:
        value = side.index.constants.get(side.scope, name)
        shape = side.index.constants.shape(side.scope, name)
        if value is not None and value.array.size <= SHOWN:
            kind = "string" if value.array.dtype == object else value.array.dtype
            return f"{kind} {array_text(value.array)}"
        tensor = side.stored(name)
        dtype = shapes_of(side.index).dtype(side.scope, name) if tensor is None else tensor.data_type
        text = type_text(dtype or 0, shape if tensor is None else tensor.dims)
        return f"sparse {text}" if side.is_sparse(name) else text

    def _compare_types(self, at: int, to: int) -> None:
        one, other = self.one.nodes[at], self.other.nodes[to]
        for mine, theirs in zip(one.outputs, other.outputs, strict=False):
            if mine and theirs:
                facts = [shapes_of(side.index).facts(side.scope, name) for side, name in
                         ((self.one, mine), (self.other, theirs))]
                if _conflict(*facts):
                    texts = [type_text(dtype or 0, shape) for dtype, shape in facts]
                    self._add("types", f"{one.op} makes {texts[0]} → {texts[1]}", at, to)

    def _regions(self) -> Iterator[tuple[list[int], list[int]]]:
        """Connected regions of removed and added nodes, except nodes that compute sizes."""
        removed, added = (
            [at for at in range(len(side.nodes)) if at not in done and at not in side.size_nodes]
            for side, done in ((self.one, self.pairing.second_of), (self.other, self.pairing.first_of))
        )
        items = [*((0, at) for at in removed), *((1, at) for at in added)]
        for region in connected_components(
            items, (pair for pair in self._links(removed, added) if self._may_be_one_site(*pair))
        ):
            yield [at for side, at in region if side == 0], [at for side, at in region if side == 1]

    def _add_region(self, kind: ChangeKind, removed: Sequence[int], added: Sequence[int]) -> None:
        ops = tuple(self.one.nodes[at].op for at in removed), tuple(self.other.nodes[at].op for at in added)
        names = tuple(self.one.nodes[at].label for at in removed), tuple(self.other.nodes[at].label for at in added)
        self._found[kind, f"{_listed(ops[0])} → {_listed(ops[1])}", *ops].append(names)

    def _may_be_one_site(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Whether two nodes may be in one layer: a change that repeats by layer is reported once."""
        layers = [outermost_layer((self.one, self.other)[side].paths[at]) for side, at in (one, other)]
        return None in layers or layers[0] == layers[1]

    def _links(self, removed: Sequence[int], added: Sequence[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Links between removed and added nodes: neighbours, and nodes between the same paired nodes."""
        for number, side, some in ((0, self.one, removed), (1, self.other, added)):
            for at in some:
                producers = (producer for kind, producer, _ in side.sources[at] if kind == PRODUCED)
                yield from (((number, at), (number, producer)) for producer in producers)
        for at, to in self.pairing.second_of.items():
            for mine, theirs in zip(self.one.sources[at], self.other.sources[to], strict=False):
                have_gone = mine[0] == theirs[0] == PRODUCED and mine[1] not in self.pairing.second_of
                if have_gone and theirs[1] not in self.pairing.first_of:
                    yield (0, mine[1]), (1, theirs[1])
        for key, (at, _) in self.one.output_producers.items():
            if key in self.other.output_producers:
                yield (0, at), (1, self.other.output_producers[key][0])
        yield from self._between(removed, added)

    def _between(
        self, removed: Sequence[int], added: Sequence[int]
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Links between a removed and an added node that are the only consumers of the same source."""
        readers: dict[Hashable, list[int]] = defaultdict(list)
        for at in added:
            for kind, producer, what in self.other.sources[at]:
                if kind == PRODUCED and producer in self.pairing.first_of:
                    readers[self.pairing.first_of[producer], what].append(at)
                elif kind == INPUT:
                    readers[what].append(at)
        counts = Counter(use for at in removed for use in self._shared_sources(at))
        for at in removed:
            for use in self._shared_sources(at):
                if counts[use] == 1 and len(readers.get(use, ())) == 1:
                    yield (0, at), (1, readers[use][0])

    def _shared_sources(self, at: int) -> Iterator[Hashable]:
        for kind, producer, what in self.one.sources[at]:
            if kind == PRODUCED and producer in self.pairing.second_of:
                yield producer, what
            elif kind == INPUT:
                yield what


def _input_types(side: DiffGraph) -> list[TensorType]:
    """The types of a graph's inputs."""
    return [shapes_of(side.index).facts(side.scope, name) for name in side.scope.input_names]


def _changed_attributes(one: Node, other: Node) -> list[str]:
    """The attributes of both nodes that differ."""
    attribute_keys = [{item.name: item.SerializeToString(deterministic=True) for item in node.proto.attribute
             if item.type not in GRAPHS} for node in (one, other)]
    return sorted(name for name, data in attribute_keys[0].items() if attribute_keys[1].get(name, data) != data)


def outermost_layer(path: Sequence[str]) -> str | None:
    """The name and number of the outermost layer in a path of scopes: layer.3 of encoder, layer.3, output; or None."""
    return next((one for one in path if any(part.isdecimal() for part in one.split("."))), None)


def _conflict(one: TensorType, other: TensorType) -> bool:
    """Whether both types are known and differ in dtype, rank or a fixed size."""
    if one.dtype and other.dtype and one.dtype != other.dtype:
        return True
    if one.shape is None or other.shape is None:
        return False
    if len(one.shape) != len(other.shape):
        return True
    pairs = zip(one.shape, other.shape, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def _listed(ops: Sequence[str]) -> str:
    """Ops with their counts."""
    texts = [f"{op} ×{count}" if count > 1 else op for op, count in Counter(ops).items()]
    return join_first(texts, SHOWN) or "nothing"


def in_report_order(changes: Sequence[ModelChange]) -> list[ModelChange]:
    """The changes of several graphs in the order of a report: general ones first."""
    return sorted(changes, key=lambda change: (ORDER.index(change.kind), change.count))
