"""Reuses the searches of earlier attempts: an attempt that would get the same answers ends in the same way.

Models repeat themselves: twelve layers, one normalisation each.  An attempt is deterministic and learns about the model
only through its `MatchState`.  So its queries are recorded with their answers, tensors as indices; if a later attempt
at another root gets the same answers, it skips the search and enters the recorded complete matches.  Those are accepted
or refused anew, since readers of a tensor and conditions of a rule are not part of the search.  If a match depends only
on structure, the path from its anchor to its root is recorded too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from surgeon.ir.constants import CONSTANT_OPS, ConstantValue
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ir.structure import Structure
from surgeon.ops.traits.trait_lookup import IDENTITY_OPS, TRANSPARENT
from surgeon.rules.matching.associative.identities import without_virtual
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match_state import VIRTUAL_PREFIX, MatchState, VariadicBinding
from surgeon.rules.matching.node_matchers import is_wildcard
from surgeon.rules.matching.pattern import NodeOutput, walk_values

MAX_SEARCHES = 8  # recorded searches of similar roots
PRODUCER, SCALAR = "maker", "scalar"  # queries; others are named by their method
ANSWERED_BY_KIND = frozenset({SCALAR, "constant", "is_constant"})  # queries that the kind of most producers answers
T = TypeVar("T")


class RecordingState(MatchState):
    """A state that records its queries.  asked: query and tensor -> answer, in order."""

    __slots__ = ("asked", "ends")

    def __init__(self, index: Index, scope: Scope) -> None:
        super().__init__(index, scope)
        self.asked: dict[tuple[str, str], Any] = {}
        self.ends: list[tuple[list[Node], dict[str, Any], dict[int, Node]]] = []
        self.producers = _RecordingProducers(scope.producers, self.asked)
        self.scalars = {}  # only numbers of virtual constants

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
        """Record a complete match, then finish it.  The queries of finishing are not part of the search."""
        known = len(self.asked)
        self.ends.append((list(self.nodes), dict(self.bindings), dict(self.node_of_pattern)))
        is_found = bool(finish())
        while len(self.asked) > known:
            self.asked.popitem()
        return is_found


class _RecordingProducers(Mapping[str, Node]):
    """Producers of tensors; records each lookup."""

    def __init__(self, producers: Mapping[str, Node], asked: dict[tuple[str, str], Any]) -> None:
        self._producers, self._asked = producers, asked

    def get(self, name: str, default: Any = None) -> Any:
        found = self._asked[PRODUCER, name] = self._producers.get(name)
        return default if found is None else found

    def __getitem__(self, name: str) -> Node:
        self._asked[PRODUCER, name] = self._producers.get(name)
        return self._producers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._producers)

    def __len__(self) -> int:
        return len(self._producers)


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
        """Restore the state of a complete match.  met: the nodes that a similar attempt visits."""
        names, nodes = met
        state.nodes = [nodes[place] for place in self.nodes]
        state.node_of_pattern = {key: nodes[place] for key, place in self.made}
        state.bindings = {key: _resolve(held, names) for key, held in self.bound}


VisitedTensors = tuple[list[str], list[Node]]  # tensors and their producers, in the order of a search


class CachedAttempt(NamedTuple):
    """One search, its tensors as indices into a list: "", the output, then the tensors of each visited node."""

    producers: tuple[tuple[int, int | None], ...]
    """Index of a tensor and the kind of its producer (None: no producer), in the order of the lookups."""
    answers: tuple[tuple[str, int, Any], ...]
    """Query, index of the tensor, and the answer."""
    firsts: list[int]
    """For each index, the first index of the same tensor."""
    ends: tuple[CachedResult, ...]
    """The complete matches, in the order in which they were found."""
    found: bool
    """Whether the last of them was accepted."""

    def fits(self, state: MatchState, structure: Structure, name: str) -> VisitedTensors | None:
        """The tensors and nodes that an attempt visits, if it would get the same answers; else None."""
        names, nodes = ["", name], list[Node]()
        producers, scalars, bare = state.producers, state.scalars, structure.bare
        for place, kind in self.producers:
            node = producers.get(names[place])
            if node is not None:
                known = bare.get((node.op, len(node.inputs), len(node.outputs), node.scope))
                if kind != (_kind(structure, node) if known is None else known):
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
            elif _comparable(getattr(state, question)(asked)) != wanted:
                return None
        return names, nodes


def _kind(structure: Structure, node: Node) -> int:
    """The parts of a node that an attempt reads besides tensors; other queries read the value of a Constant."""
    return -1 if node.op == "Constant" else structure.stated(node)


def _comparable(answer: Any) -> Any:
    """An answer in a form to compare."""
    return (answer.content, answer.eps) if isinstance(answer, ConstantValue) else answer


def _resolve(held: Any, names: list[str]) -> Any:
    if isinstance(held, int):
        return names[held]
    return VariadicBinding([names[place] for place in held]) if isinstance(held, list) else held


class MatchCache:
    """The recorded searches for one pattern in one scope, by op of the root and of its producers.

    is_off: nothing is recorded for patterns with several outputs, wildcards or Constant nodes.
    """

    def __init__(self, compiled: CompiledPattern, index: Index) -> None:
        self.structure = index.cached_analysis(Structure, Structure)
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
        """The recorded search that applies to an output of a node, if any, and the nodes that it visits there."""
        known = [] if self.is_off else self._like(root)
        for place, earlier in enumerate(known):
            met = None if earlier is None else earlier.fits(state, self.structure, name)
            if earlier is not None and met is not None:
                if place:  # likely to apply next time too
                    known.insert(0, known.pop(place))
                yield earlier, met
                return

    def has_enough(self, root: Node) -> bool:
        """Whether no more searches are recorded for roots that look like this one."""
        return self.is_off or len(self._like(root)) >= MAX_SEARCHES

    def add(self, root: Node, recorder: RecordingState, name: str, found: bool) -> CachedAttempt | None:
        """Record a finished search; None if it cannot be recorded."""
        self._like(root).append(self._recorded(recorder, name, found))
        return self._like(root)[-1]

    def _recorded(self, recorder: RecordingState, name: str, found: bool) -> CachedAttempt | None:
        """None if a tensor of the search has no index."""
        names = ["", name]
        places = {"": 0, name: 1}
        producers, met = dict[Node, int](), 0
        kinds: list[tuple[int, int | None]] = []
        answers: list[tuple[str, int, Any]] = []
        for (question, tensor), answer in recorder.asked.items():
            if tensor[:1] == VIRTUAL_PREFIX:
                continue  # virtual tensors follow from earlier answers
            if tensor not in places:
                return None
            place = places[tensor]
            if isinstance(answer, Node):
                producers.setdefault(answer, met)
                met += 1
                kinds.append((place, _kind(self.structure, answer)))
                for made in (*answer.inputs, *answer.outputs):
                    places.setdefault(made, len(names))
                    names.append(made)
            elif question == PRODUCER:
                kinds.append((place, None))
            elif question not in ANSWERED_BY_KIND or not _is_computed(recorder.asked.get((PRODUCER, tensor))):
                answers.append((question, place, _comparable(answer)))
        try:
            ends = tuple(
                CachedResult(
                    tuple(producers[node] for node in without_virtual(nodes)),
                    tuple((key, _as_indices(held, places)) for key, held in bound.items()),
                    tuple((key, producers[node]) for key, node in made.items()),
                )
                for nodes, bound, made in recorder.ends
            )
        except KeyError:
            return None  # a virtual node or tensor
        return CachedAttempt(tuple(kinds), tuple(answers), [places[tensor] for tensor in names], ends=ends, found=found)


class AnchorPath(NamedTuple):
    """A path from the anchor of a match to its root, which replaces the climb, and the search that found it."""

    up: tuple[str, ...]
    """Ops on the path; each tensor on it has a single reader."""
    search: CachedAttempt
    """The search that found the match."""

    @classmethod
    def of(
        cls, compiled: CompiledPattern, state: MatchState, search: CachedAttempt | None, root: Node, anchor: Node
    ) -> "AnchorPath | None":
        """The path of a match that was just found; None if the match depends on more than structure.

        Its nodes may read only numbers, each other's outputs and captured tensors.
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
        """The root at the end of the same path from another anchor; None if the path differs."""
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
    """Whether a node never produces a constant, so that its kind answers the query."""
    return maker is not None and maker.op not in CONSTANT_OPS and maker.op not in IDENTITY_OPS


def _as_indices(held: Any, places: dict[str, int]) -> Any:
    if isinstance(held, str):
        return places[held]
    return [places[name] for name in held] if isinstance(held, VariadicBinding) else held
