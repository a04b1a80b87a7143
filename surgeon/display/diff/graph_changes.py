"""What differs between two graphs whose nodes are paired."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

import onnx

from surgeon.connected_components import connected_components
from surgeon.display.diff.diff_graph import GIVEN, LEFT_OUT, MADE, STORED, DiffGraph, Read, inputs_and_outputs
from surgeon.display.diff.metadata_changes import told_of_nodes
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
SOURCES = {MADE: "what a node makes", GIVEN: "what is given", STORED: "a constant", LEFT_OUT: "nothing"}
SHOWN = 6  # ops that are named of those that went or came
Site = tuple[tuple[str, ...], tuple[str, ...]]


class GraphChanges:
    """The changes of one graph, and how many of its nodes are the same in both.

    told: of how many nodes that stand for each other a doc string, or a key of their metadata, is another.
    """

    def __init__(
        self, one: DiffGraph, other: DiffGraph, contents: tuple[TensorContents, TensorContents], scope: str
    ) -> None:
        self.pairing = NodePairing(one, other)
        self.one, self.other, self._contents, self._scope = one, other, contents, scope
        self.same = self.renamed = self._notes = 0
        self._is_given_alike = _given(one) == _given(other)
        self._sizes = [
            [at for at in sorted(side.sizes) if at not in done]
            for side, done in ((one, self.pairing.to), (other, self.pairing.back))
        ]
        self._found: dict[tuple[ChangeKind, str, tuple[str, ...], tuple[str, ...]], list[Site]] = defaultdict(list)
        self.told = Counter[str]()
        for gone, come in self._regions():  # one node of one op by itself, in one site: what differs is in the node
            if len(gone) == len(come) == 1 and one.nodes[gone[0]].op == other.nodes[come[0]].op:
                self.pairing.join(gone[0], come[0])
        self._pairs()
        self._handed_on()
        if any(self._sizes):
            self._region("sizes", *self._sizes)
        for gone, come in self._regions():
            self._region("nodes", gone, come)

    @property
    def changes(self) -> Iterator[ModelChange]:
        """What differs, equal changes once, those at most sites last."""
        for (kind, what, removed, added), sites in sorted(self._found.items(), key=lambda item: len(item[1])):
            yield ModelChange(kind, what, removed, added=added, sites=tuple(sites), scope=self._scope)

    def _note(self, kind: ChangeKind, what: str, at: int, to: int) -> None:
        site = ((self.one.nodes[at].label,), (self.other.nodes[to].label,))
        self._found[kind, what, (), ()].append(site)
        self._notes += 1

    def _pairs(self) -> None:
        """What differs in nodes that stand for each other."""
        for at, to in self.pairing.to.items():
            self.told.update(told_of_nodes(self.one.nodes[at], self.other.nodes[to]))
            before = self._notes
            self._attributes(at, to)
            self._inputs(at, to)
            self._ends(at, to)
            if not (self._is_given_alike and self.pairing.are_computed_alike(at, to)):
                self._types(at, to)
            if self._notes == before:
                self.same += 1
                self.renamed += self.one.nodes[at].label != self.other.nodes[to].label

    def _attributes(self, at: int, to: int) -> None:
        one, other = self.one.nodes[at], self.other.nodes[to]
        if one.op != other.op:
            self._note("attributes", f"{one.op} → {other.op}", at, to)
        elif self.one.said[at] != self.other.said[to]:
            _, op = split_op(one.op)
            texts = [
                {item.name: attribute_text(op, item) for item in node.proto.attribute if item.type not in GRAPHS}
                for node in (one, other)
            ]
            for text, node in zip(texts, (one, other), strict=True):
                if node.proto.overload:
                    text["overload"] = node.proto.overload
            names = sorted(name for name in {**texts[0], **texts[1]} if texts[0].get(name) != texts[1].get(name))
            told = [f"{name} {texts[0].get(name, 'left out')} → {texts[1].get(name, 'left out')}" for name in names]
            if not told:  # of tensors and of long lists, which are not written out
                told = [f"{name} holds something else" for name in _unlike(one, other)]
            self._note("attributes", f"{one.op}: {', '.join(told) or 'attributes'}", at, to)

    def _inputs(self, at: int, to: int) -> None:
        op, reads, others = self.one.nodes[at].op, self.one.reads[at], self.other.reads[to]
        if len(reads) != len(others):
            self._reads_otherwise(f"{op} reads {len(reads)} tensors → {len(others)}", at, to)
            return
        if op in COMMUTATIVE and len(reads) == 2 and self._is_counterpart(reads[0], others[1]):
            others = others[::-1]
        for slot, (mine, theirs) in enumerate(zip(reads, others, strict=True)):
            if mine[0] == theirs[0] == STORED:
                self._stored(at, to, slot)
            elif not self._is_counterpart(mine, theirs) and not self._leads_to_region(mine, theirs):
                self._reads_otherwise(f"{op} reads another tensor as input {slot}", at, to)

    def _ends(self, at: int, to: int) -> None:
        """What the graph hands on of a node, and what it hands on in that place in the other."""
        op = self.one.nodes[at].op
        for place, key in self.one.ends.get(at, ()):
            who, other = self.other.makers.get(key, (to, place))
            if who == to and other != place:
                self._note("wiring", f"{op} hands on its output {place} → {other}", at, to)
            elif who != to and who in self.pairing.back:
                self._note("wiring", f"{op} hands on what another node does", at, to)

    def _handed_on(self) -> None:
        """What the graph hands on that no node of it makes, in one of the models at least: it stands in no pair."""
        ours, theirs = self.one.outputs, self.other.outputs
        if len(ours) != len(theirs) and self._scope:  # of the main graph the header tells
            what = f"gives {len(ours)} tensors → {len(theirs)}"
            self._found["interface", what, (), ()].append(((self._scope,), (self.other.scope.label,)))
        for key in ours:
            if key not in theirs or (key in self.one.makers and key in self.other.makers):
                continue
            names = ours[key], theirs[key]
            mine, other = self.one.read(names[0]), self.other.read(names[1])
            if mine[0] == other[0] == STORED:
                kind, what = self._held_otherwise(*names)
                what = what and f"output {key} {what}"
            elif self._is_counterpart(mine, other) or self._leads_to_region(mine, other):
                continue
            else:
                told = (SOURCES[mine[0]], SOURCES[other[0]])
                kind, what = "wiring", f"output {key} is " + (
                    f"another of what is given: {names[0]} → {names[1]}" if told[0] == told[1] else " → ".join(told)
                )
            if what:
                self._found[kind, what, (), ()].append(((names[0],), (names[1],)))

    def _reads_otherwise(self, what: str, at: int, to: int) -> None:
        """Wiring; where sizes are computed in another way altogether, that of the nodes that do so is no news."""
        if any(self._sizes) and at in self.one.sizes and to in self.other.sizes:
            self._note("sizes", "what computes sizes in both reads other tensors", at, to)
        else:
            self._note("wiring", what, at, to)

    def _is_counterpart(self, mine: Read, theirs: Read) -> bool:
        if mine[0] == theirs[0] == MADE:
            return self.pairing.to.get(mine[1]) == theirs[1] and mine[2] == theirs[2]
        return mine[0] == theirs[0] and mine[2] == theirs[2]

    def _leads_to_region(self, mine: Read, theirs: Read) -> bool:
        """Whether what makes it went or came, which is told there."""
        went = mine[0] == MADE and mine[1] not in self.pairing.to
        return went or (theirs[0] == MADE and theirs[1] not in self.pairing.back)

    def _stored(self, at: int, to: int, slot: int) -> None:
        """Constants: small ones by value, large ones by their bytes."""
        kind, what = self._held_otherwise(self.one.inputs[at][slot], self.other.inputs[to][slot])
        if what:
            self._note(kind, f"{self.one.nodes[at].op} {what} as input {slot}", at, to)

    def _held_otherwise(self, name: str, other: str) -> tuple[ChangeKind, str]:
        """How what one stored tensor holds differs from what another does; "" where it does not."""
        tensors = self.one.stored(name), self.other.stored(other)
        is_held_alike = self.one.held(name) == self.other.held(other)
        if is_held_alike and (tensors[0] is None or tensors[1] is None or self._same_bytes(tensors[0], tensors[1])):
            return "weights", ""
        texts = self._text(self.one, name), self._text(self.other, other)
        if texts[0] != texts[1]:
            return "constants", f"has {texts[0]} → {texts[1]}"
        if not texts[0]:  # in a function, what calls give
            return "constants", "has another constant"
        return "weights", f"has other numbers in {texts[0]}"

    def _same_bytes(self, mine: onnx.TensorProto, theirs: onnx.TensorProto) -> bool:
        """Whether tensors of one dtype and shape hold the same; all is read only where a few bytes agree."""
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

    def _types(self, at: int, to: int) -> None:
        one, other = self.one.nodes[at], self.other.nodes[to]
        for mine, theirs in zip(one.outputs, other.outputs, strict=False):
            if mine and theirs:
                facts = [shapes_of(side.index).facts(side.scope, name) for side, name in
                         ((self.one, mine), (self.other, theirs))]
                if _disagree(*facts):
                    texts = [type_text(dtype or 0, shape) for dtype, shape in facts]
                    self._note("types", f"{one.op} makes {texts[0]} → {texts[1]}", at, to)

    def _regions(self) -> Iterator[tuple[list[int], list[int]]]:
        """Nodes that went and came, those that hang together as one site, but for those that compute sizes."""
        gone, come = (
            [at for at in range(len(side.nodes)) if at not in done and at not in side.sizes]
            for side, done in ((self.one, self.pairing.to), (self.other, self.pairing.back))
        )
        items = [*((0, at) for at in gone), *((1, at) for at in come)]
        for region in connected_components(
            items, (pair for pair in self._links(gone, come) if self._may_be_one(*pair))
        ):
            yield [at for side, at in region if side == 0], [at for side, at in region if side == 1]

    def _region(self, kind: ChangeKind, removed: Sequence[int], added: Sequence[int]) -> None:
        ops = tuple(self.one.nodes[at].op for at in removed), tuple(self.other.nodes[at].op for at in added)
        names = tuple(self.one.nodes[at].label for at in removed), tuple(self.other.nodes[at].label for at in added)
        self._found[kind, f"{_listed(ops[0])} → {_listed(ops[1])}", *ops].append(names)

    def _may_be_one(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Not where the exporters note that they stand in two layers: what repeats from layer to layer is told once."""
        layers = [layer_of((self.one, self.other)[side].paths[at]) for side, at in (one, other)]
        return not (layers[0] and layers[1]) or layers[0] == layers[1]

    def _links(self, gone: Sequence[int], come: Sequence[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """What hangs together: neighbours, and what went and came between the same nodes."""
        for number, side, some in ((0, self.one, gone), (1, self.other, come)):
            for at in some:
                yield from (((number, at), (number, maker)) for kind, maker, _ in side.reads[at] if kind == MADE)
        for at, to in self.pairing.to.items():
            for mine, theirs in zip(self.one.reads[at], self.other.reads[to], strict=False):
                have_gone = mine[0] == theirs[0] == MADE and mine[1] not in self.pairing.to
                if have_gone and theirs[1] not in self.pairing.back:
                    yield (0, mine[1]), (1, theirs[1])
        for key, (at, _) in self.one.makers.items():
            if key in self.other.makers:
                yield (0, at), (1, self.other.makers[key][0])
        yield from self._between(gone, come)

    def _between(self, gone: Sequence[int], come: Sequence[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """What went and what came that read outputs of the same pair, where there is one of each."""
        readers: dict[Hashable, list[int]] = defaultdict(list)
        for at in come:
            for kind, maker, what in self.other.reads[at]:
                if kind == MADE and maker in self.pairing.back:
                    readers[self.pairing.back[maker], what].append(at)
                elif kind == GIVEN:
                    readers[what].append(at)
        counts = Counter(use for at in gone for use in self._uses(at))
        for at in gone:
            for use in self._uses(at):
                if counts[use] == 1 and len(readers.get(use, ())) == 1:
                    yield (0, at), (1, readers[use][0])

    def _uses(self, at: int) -> Iterator[Hashable]:
        for kind, maker, what in self.one.reads[at]:
            if kind == MADE and maker in self.pairing.to:
                yield maker, what
            elif kind == GIVEN:
                yield what


def _given(side: DiffGraph) -> list[TensorType]:
    """What is known of what a graph is given."""
    return [shapes_of(side.index).facts(side.scope, name) for name in inputs_and_outputs(side.scope)[0]]


def _unlike(one: Node, other: Node) -> list[str]:
    """The attributes that two nodes have and that say something else."""
    said = [{item.name: item.SerializeToString(deterministic=True) for item in node.proto.attribute
             if item.type not in GRAPHS} for node in (one, other)]
    return sorted(name for name, data in said[0].items() if said[1].get(name, data) != data)


def layer_of(path: Sequence[str]) -> str:
    """The name and number of the outermost layer in a path of scopes: layer.3 of encoder, layer.3, output; or ""."""
    return next((one for one in path if any(part.isdecimal() for part in one.split("."))), "")


def _disagree(one: TensorType, other: TensorType) -> bool:
    """Whether both are known and differ: a dtype, how many axes, or a size that is a number in both."""
    if one.dtype and other.dtype and one.dtype != other.dtype:
        return True
    if one.shape is None or other.shape is None:
        return False
    if len(one.shape) != len(other.shape):
        return True
    pairs = zip(one.shape, other.shape, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def _listed(ops: Sequence[str]) -> str:
    """Ops with how often each is there."""
    told = [f"{op} ×{count}" if count > 1 else op for op, count in Counter(ops).items()]
    return join_first(told, SHOWN) or "nothing"


def merged(changes: Sequence[ModelChange]) -> list[ModelChange]:
    """Changes of several graphs, in the order in which they are read: what is about the whole first."""
    return sorted(changes, key=lambda change: (ORDER.index(change.kind), change.count))
