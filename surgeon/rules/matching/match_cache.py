"""An attempt that asks what an earlier one asked, and is told the same, ends as that did: it needs no search.

Models repeat themselves: twelve layers, one normalisation each.  An attempt is deterministic, and all that it learns of
the model it asks of its `MatchState`.  So its questions are written down, with the answers, the tensors in them by
place; where a later one, at another root, would get the same answers, it goes straight to what was found: the nodes and
bindings that had the last word then have it again, for what that depends on (who else reads a tensor, what a rule says)
is no part of the search.  Where a match depends on structure alone, the way from its anchor to its root is kept too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from surgeon.ir.constants import CONSTANT_OPS, ConstantValue
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas import schema
from surgeon.ops.traits.trait_lookup import IDENTITY_OPS, TRANSPARENT
from surgeon.rules.matching.associative.identities import without_virtual
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match_state import VIRTUAL_PREFIX, MatchState, VariadicBinding
from surgeon.rules.matching.node_matchers import is_wildcard
from surgeon.rules.matching.pattern import NodeOutput, walk_values

MOST = 8  # searches that are remembered of roots that look alike at first glance
MAKER, SCALAR = "maker", "scalar"  # two questions: who makes it, and what number it is; others are named like them
IN_KIND = frozenset({SCALAR, "constant", "is_constant"})  # questions that the op of most makers answers: none
T = TypeVar("T")


class RecordingState(MatchState):
    """A state that writes down what it is asked.  asked: question and tensor -> answer, in order."""

    __slots__ = ("asked", "ends")

    def __init__(self, index: Index, scope: Scope) -> None:
        super().__init__(index, scope)
        self.asked: dict[tuple[str, str], Any] = {}
        self.ends: list[tuple[list[Node], dict[str, Any], dict[int, Node]]] = []
        self.producers = _Makers(scope.producers, self.asked)
        self.scalars = {}  # numbers that algebra made up, alone: others are asked for

    def scalar(self, name: str) -> tuple[float, float, int, bool] | None:
        return self.scalars[name] if name in self.scalars else self._noted(SCALAR, name, super().scalar)

    def constant(self, name: str) -> ConstantValue | None:
        return self._noted("constant", name, super().constant)

    def is_constant(self, name: str) -> bool:
        return self._noted("is_constant", name, super().is_constant)

    def is_float(self, name: str) -> bool:
        return self._noted("is_float", name, super().is_float)

    def dtype(self, name: str) -> int | None:
        return self._noted("dtype", name, super().dtype)

    def rank(self, name: str) -> int | None:
        return self._noted("rank", name, super().rank)

    def _noted(self, question: str, name: str, ask: Callable[[str], T]) -> T:
        key = question, name
        if key not in self.asked:
            self.asked[key] = ask(name)
        answer: T = self.asked[key]
        return answer

    def end(self, finish: Any) -> bool:
        """Let what is matched have the last word.  What that asks is no part of the search."""
        known = len(self.asked)
        self.ends.append((list(self.nodes), dict(self.bindings), dict(self.node_of_pattern)))
        is_found = bool(finish())
        while len(self.asked) > known:
            self.asked.popitem()
        return is_found


class _Makers(Mapping[str, Node]):
    """Who makes which tensor, asked through a recorder."""

    def __init__(self, makers: Mapping[str, Node], asked: dict[tuple[str, str], Any]) -> None:
        self._makers, self._asked = makers, asked

    def get(self, name: str, default: Any = None) -> Any:
        found = self._asked[MAKER, name] = self._makers.get(name)
        return default if found is None else found

    def __getitem__(self, name: str) -> Node:
        self._asked[MAKER, name] = self._makers.get(name)
        return self._makers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@dataclass(frozen=True, slots=True, eq=False)
class CachedResult:
    """A complete match of an attempt, with nodes and tensors as indices into those that the attempt visited."""

    nodes: tuple[int, ...]
    """Indices of the matched nodes."""
    bound: tuple[tuple[str, Any], ...]
    """Captures: the index of a tensor, a list of indices for *rest, any other value as it is."""
    made: tuple[tuple[int, int], ...]
    """Operation of the pattern (by id) and the index of its node."""

    def enter(self, state: MatchState, met: "VisitedTensors") -> None:
        """Put a state where the search was then.  met: what an attempt like it has before it."""
        names, nodes = met
        state.nodes = [nodes[place] for place in self.nodes]
        state.node_of_pattern = {key: nodes[place] for key, place in self.made}
        state.bindings = {key: _named(held, names) for key, held in self.bound}


VisitedTensors = tuple[
    list[str], list[Node]
]  # tensors, and nodes that make some of them, in the order in which a search met them


class CachedAttempt(NamedTuple):
    """One search, its tensors as indices into a list: "", the output, then the tensors of each visited node."""

    makers: tuple[tuple[int, int | None], ...]
    """Index of a tensor and the kind of its producer (None: no producer), in the order of the lookups."""
    answers: tuple[tuple[str, int, Any], ...]
    """Query, index of the tensor, and the answer."""
    firsts: list[int]
    """For each index, the first index of the same tensor."""
    ends: tuple[CachedResult, ...]
    """The complete matches, in the order in which they were found."""
    found: bool
    """Whether the last of them was accepted."""

    def fits(self, state: MatchState, kinds: "NodeKinds", name: str) -> VisitedTensors | None:
        """The tensors and nodes by place where an attempt would be told the same, else None."""
        names, nodes = ["", name], list[Node]()
        producers, scalars, bare, kind_of = state.producers, state.scalars, kinds.bare, kinds.of
        for place, kind in self.makers:
            node = producers.get(names[place])
            if node is not None:
                known = bare.get((node.op, len(node.inputs), len(node.outputs), id(node.scope)))
                if kind != (kind_of(node) if known is None else known):
                    return None
                nodes.append(node)
                names += node.inputs
                names += node.outputs
            elif kind is not None:
                return None
        firsts: dict[str, int] = {}
        if list(map(firsts.setdefault, names, range(len(names)))) != self.firsts:
            return None
        for question, place, wanted in self.answers:
            asked = names[place]
            if question == SCALAR and asked in scalars:
                if scalars[asked] != wanted:
                    return None
            elif _told(getattr(state, question)(asked)) != wanted:
                return None
        return names, nodes


class NodeKinds:
    """What an attempt can see of a node, but for its tensors, as a number: its op, what it says, and how many.

    bare: the numbers of ops whose nodes say nothing, which are most nodes of a model, by op, inputs, outputs and scope.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.bare: dict[tuple[str, int, int, int], int] = {}
        self._other: dict[Node, int] = {}

    def of(self, node: Node) -> int:
        """The number of a node."""
        key = node.op, len(node.inputs), len(node.outputs), id(node.scope)
        found = self.bare.get(key)
        if found is None:
            found = self._other.get(node)
        if found is None:
            is_bare = _is_bare(node)
            said = () if is_bare else _said_by(node)
            found = self._numbers.setdefault((*key[:3], said), len(self._numbers))
            if is_bare:
                self.bare[key] = found
            else:
                self._other[node] = found
        return found


def _told(answer: Any) -> Any:
    """An answer as something to compare."""
    return (answer.content, answer.eps) if isinstance(answer, ConstantValue) else answer


def _named(held: Any, names: list[str]) -> Any:
    if isinstance(held, int):
        return names[held]
    return VariadicBinding([names[place] for place in held]) if isinstance(held, list) else held


class MatchCache:
    """The searches for one pattern in one scope, by what their roots look like at first glance.

    is_off: nothing is remembered of patterns of several outputs, and of those that look at Constant nodes as such.
    """

    def __init__(self, compiled: CompiledPattern, index: Index) -> None:
        self._kinds = index.cached_analysis(NodeKinds, NodeKinds)
        self._known: dict[Any, list[CachedAttempt | None]] = {}
        outputs = compiled.pattern.outputs
        ops = (value.operation for value in walk_values(outputs) if isinstance(value, NodeOutput))
        is_open = any(operation.op == "Constant" or is_wildcard(operation) for operation in ops)
        self.is_off = is_open or len(outputs) != 1

    def _like(self, root: Node) -> list[CachedAttempt | None]:
        producers = root.scope.producers
        sources = [producers.get(name) for name in root.inputs]
        return self._known.setdefault((root.op, *[None if node is None else node.op for node in sources]), [])

    def fitting(self, state: MatchState, root: Node, name: str) -> Iterator[tuple[CachedAttempt, VisitedTensors]]:
        """The searches that would go the same way from an output of this node on, and what they would meet."""
        known = [] if self.is_off else self._like(root)
        for place, earlier in enumerate(known):
            met = None if earlier is None else earlier.fits(state, self._kinds, name)
            if earlier is not None and met is not None:
                if place:  # what fits here is likely to fit next time
                    known.insert(0, known.pop(place))
                yield earlier, met
                return

    def fit(self, earlier: CachedAttempt, state: MatchState, name: str) -> VisitedTensors | None:
        """As `Remembered.fits`."""
        return earlier.fits(state, self._kinds, name)

    def has_enough(self, root: Node) -> bool:
        """Whether no more is to be remembered of roots that look like this one."""
        return self.is_off or len(self._like(root)) >= MOST

    def add(self, root: Node, recorder: RecordingState, name: str, found: bool) -> CachedAttempt | None:
        """Remember a search that came to its end; None where it cannot be."""
        self._like(root).append(self._said(recorder, name, found))
        return self._like(root)[-1]

    def _said(self, recorder: RecordingState, name: str, found: bool) -> CachedAttempt | None:
        """None where something in a search has no place."""
        names = ["", name]
        places = {"": 0, name: 1}
        makers, met = dict[Node, int](), 0
        kinds: list[tuple[int, int | None]] = []
        answers: list[tuple[str, int, Any]] = []
        for (question, tensor), answer in recorder.asked.items():
            if tensor[:1] == VIRTUAL_PREFIX:
                continue  # whatever algebra makes up follows from what it asked before
            if tensor not in places:
                return None
            place = places[tensor]
            if isinstance(answer, Node):
                makers.setdefault(answer, met)
                met += 1
                kinds.append((place, self._kinds.of(answer)))
                for made in (*answer.inputs, *answer.outputs):
                    places.setdefault(made, len(names))
                    names.append(made)
            elif question == MAKER:
                kinds.append((place, None))
            elif question not in IN_KIND or not _is_computed(recorder.asked.get((MAKER, tensor))):
                answers.append((question, place, _told(answer)))
        try:
            ends = tuple(
                CachedResult(
                    tuple(makers[node] for node in without_virtual(nodes)),
                    tuple((key, _placed(held, places)) for key, held in bound.items()),
                    tuple((key, makers[node]) for key, node in made.items()),
                )
                for nodes, bound, made in recorder.ends
            )
        except KeyError:
            return None  # a node or a tensor that algebra made up
        return CachedAttempt(tuple(kinds), tuple(answers), [places[tensor] for tensor in names], ends=ends, found=found)


class AnchorPath(NamedTuple):
    """A path from the anchor of a match to its root, which makes the climb unnecessary, and the search that found it.
    """

    up: tuple[str, ...]
    """Ops on the path; each tensor on it has a single reader."""
    search: CachedAttempt
    """The search that found the match."""

    @classmethod
    def of(
        cls, compiled: CompiledPattern, state: MatchState, search: CachedAttempt | None, root: Node, anchor: Node
    ) -> "AnchorPath | None":
        """That of a match just found, None where it depends on more than structure: its pattern is of nothing else.

        Beside numbers, the nodes read nothing but what they make and what the variables of the pattern stand for.
        """
        inside = set(state.nodes)
        if search is None or not compiled.is_plain or any(node.op in TRANSPARENT for node in inside):
            return None
        known = {name for node in inside for name in node.outputs}.union(state.bindings.values())
        for name in {name for node in inside for name in node.inputs} - known:
            number = state.scalar(name)
            if number is None or not number[3] or number[2]:
                return None
        up = _way_up(state, anchor, root, inside)
        return None if up is None else cls(up, search)

    def root(self, scope: Scope, anchor: Node) -> Node | None:
        """The root that the same way leads to from another anchor; None where there is no such way."""
        node, consumers = anchor, scope.consumers
        for op in self.up:
            readers = consumers.get(node.outputs[0])
            if readers is None or len(readers) != 1 or readers[0].op != op or not readers[0].alive:
                return None
            node = readers[0]
        return node if node.scope is scope else None


def _way_up(state: MatchState, anchor: Node, root: Node, inside: set[Node]) -> tuple[str, ...] | None:
    ops: list[str] = []
    node = anchor
    while node is not root:
        readers = state.scope.readers(node.outputs[0])
        if len(readers) != 1 or readers[0] not in inside:
            return None
        node = readers[0]
        ops.append(node.op)
    return tuple(ops)


def _is_computed(maker: Node | None) -> bool:
    """Whether a node makes no constant, whatever it reads: then its kind tells that there is none."""
    return maker is not None and maker.op not in CONSTANT_OPS and maker.op not in IDENTITY_OPS


def _placed(held: Any, places: dict[str, int]) -> Any:
    if isinstance(held, str):
        return places[held]
    return [places[name] for name in held] if isinstance(held, VariadicBinding) else held


def _is_bare(node: Node) -> bool:
    """Whether nodes of this op say nothing; of a Constant: what it holds is asked for by other questions."""
    domain, op = split_op(node.op)
    known = schema(domain, op, node.scope.versions.get(domain))
    return node.op == "Constant" or (known is not None and not known.attributes)


def _said_by(node: Node) -> tuple[bytes, ...]:
    return tuple([item.SerializeToString(deterministic=True) for item in node.proto.attribute[:]])
