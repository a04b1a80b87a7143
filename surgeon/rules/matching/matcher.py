"""Finds the matches of a compiled pattern in an index.  This module neither edits nor explains."""

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter

from surgeon.errors import RuleError, SurgeonError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.anchors import CLIMB_LIMIT, RootFinder, anchors, cannot_match
from surgeon.rules.matching.associative.identities import without_virtual
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_cache import AnchorPath, CachedAttempt, MatchCache, RecordingState
from surgeon.rules.matching.match_state import MatchState
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.matching.removability import (
    find_reentry,
    has_no_outside_uses,
    input_produced_inside,
    kept_passthrough_nodes,
    kept_shared_nodes,
    outside_uses,
    with_helper_nodes,
)
from surgeon.rules.matching.shape_uses import ShapeUse, find_shape_uses
from surgeon.text import suggest_name

_SLOT = attrgetter("slot")

Accept = Callable[[Match], bool]


def find(index: Index, compiled: CompiledPattern, scope: Scope, accept: Accept | None = None) -> Iterator[Match]:
    """Yield the matches of a pattern in one scope, in file order; the scope may be edited between two of them.

    accept: decides about a match; after a refusal the search goes on for another match at the same root.
    """
    if compiled.search is not None:
        yield from _searched(index, compiled, compiled.search, scope=scope, accept=accept)
        return
    if compiled.lacks_required_op(scope.has_any, forms=True):
        return
    tried: set[Node] = set()
    elsewhere: dict[Node, set[Node]] = {}  # nodes of the matches at a root that do not contain the anchor
    path: AnchorPath | None = None
    starts = anchors(compiled, scope)
    if not starts:
        return
    root_finder, state = RootFinder(index, scope, compiled), MatchState(index, scope)
    cache = MatchCache(compiled, index)
    for anchor in starts:
        if not anchor.alive:
            continue
        if path is not None:
            found = _match_along(path, cache, state, compiled=compiled, accept=accept, anchor=anchor, tried=tried)
            if found is not None:
                root_finder.forget()
                yield found
                if anchor not in found.kept:
                    continue
        for root in reversed(root_finder.roots(anchor)):
            if not anchor.alive:
                break
            if root in tried or not root.alive or (root in elsewhere and anchor not in elsewhere[root]):
                continue
            if cannot_match(scope, compiled, root):
                tried.add(root)
                continue
            attempt = _Attempt(compiled, MatchState(index, scope), accept, anchor)
            attempt.run(root, cache)
            if attempt.lacks_anchor:
                elsewhere[root] = attempt.nodes
            else:
                tried.add(root)
            if attempt.found is not None:
                path = AnchorPath.of(compiled, attempt.state, attempt.known, root=root, anchor=anchor)
                root_finder.forget()
                yield attempt.found
                if anchor not in attempt.found.kept:  # several matches may share the node
                    break


def match_at(index: Index, compiled: CompiledPattern, root: Node, accept: Accept | None = None) -> Match | None:
    """The match whose first output is produced by this node; None if there is none."""
    if compiled.search is not None:
        places = _searched(index, compiled, compiled.search, scope=root.scope, accept=None)
        return next((match for match in places if match.root is root and (accept is None or accept(match))), None)
    attempt = _Attempt(compiled, MatchState(index, root.scope), accept, None)
    attempt.run(root)
    return attempt.found


def _searched(
    index: Index, compiled: CompiledPattern, search: Search, scope: Scope, accept: Accept | None
) -> Iterator[Match]:
    """The results of a search as matches, without those of which a node was removed in the meantime."""
    for place in _found(search, index, scope):
        if all(node.alive for node in (*place.nodes, *place.kept)):
            match = Match(
                index,
                scope,
                compiled.pattern,
                nodes=place.nodes,
                outputs=place.outputs,
                bound=dict(place.bound),
                kept=place.kept,
                rule=place.rule,
                content=place.content,
            )
            if accept is None or accept(match):
                yield match


def _found(search: Search, index: Index, scope: Scope) -> Iterator[Found]:
    """The results of a search.  Raises RuleError for any other error that its function raises."""
    try:
        yield from search.find(index, scope)
    except SurgeonError:
        raise
    except Exception as error:
        who, kind = f"Search {search.name} ({search.where})", type(error).__name__
        raise RuleError(f"{who} raised an error: {kind}: {error}{suggest_name(error)}") from error


def _match_along(
    path: AnchorPath,
    cache: MatchCache,
    state: MatchState,
    compiled: CompiledPattern,
    accept: Accept | None,
    anchor: Node,
    tried: set[Node],
) -> Match | None:
    """The match at the end of a known path from another anchor, if it is accepted.

    tried: roots, to which that of the match is added.
    """
    root = path.root(state.scope, anchor)
    met = None if root is None or root in tried else path.search.fits(state, cache.structure, root.outputs[0])
    if root is None or met is None:
        return None
    for end in path.search.ends:
        end.enter(state, met)
        match, _, is_free = build_match(state, compiled, (root.outputs[0],))
        match.template = end
        is_whole = is_free and anchor in state.nodes and not input_produced_inside(state, compiled, match.nodes)
        if is_whole and (accept is None or accept(match)):
            tried.add(root)
            return match
    return None


class _Attempt:
    """One attempt at one root.  Continuations are bound methods: closures that name themselves would be cycles."""

    __slots__ = ("accept", "anchor", "compiled", "found", "known", "lacks_anchor", "nodes", "state")

    def __init__(
        self, compiled: CompiledPattern, state: MatchState, accept: Accept | None, anchor: Node | None
    ) -> None:
        self.compiled, self.state, self.accept, self.anchor = compiled, state, accept, anchor
        self.found: Match | None = None
        self.lacks_anchor = False  # there is a match without the anchor, which belongs to a later anchor
        self.nodes: set[Node] = set()  # nodes of all such matches
        self.known: CachedAttempt | None = None  # the search that found it, perhaps an earlier one

    def run(self, root: Node, cache: MatchCache | None = None) -> None:
        """Try to match with the first output of this node.  cache: earlier attempts, which may replace the search."""
        name = first_output(self.compiled, root)
        if name is not None and (cache is None or not self._repeat(root, name, cache)):
            self._search(root, name, cache)
        self.state.count()

    def _search(self, root: Node, name: str, cache: MatchCache | None) -> None:
        """Search from an output.  cache: where to record the search."""
        index, scope = self.state.index, self.state.scope
        finish = partial(self.finish, (name,))
        if cache is None or cache.has_enough(root):
            self.state = MatchState(index, scope)
            self.compiled.outputs[0](self.state, name, finish)
            return
        self.state = recorder = RecordingState(index, scope)
        self.compiled.outputs[0](recorder, name, partial(recorder.end, finish))
        self.known = cache.add(root, recorder, name, self.found is not None)

    def _repeat(self, root: Node, name: str, cache: MatchCache) -> bool:
        """Repeat an earlier attempt that applies here; returns whether no search is needed."""
        for earlier, met in cache.fitting(self.state, root, name):
            self.known = earlier
            for end in earlier.ends:
                end.enter(self.state, met)
                if self.finish((name,)):
                    return True
            return not earlier.found
        return False

    def finish(self, names: tuple[str, ...]) -> bool:
        """All outputs so far matched: go on with the next, or complete the match."""
        state, compiled, place = self.state, self.compiled, len(names)
        if place < len(compiled.outputs):
            matcher = compiled.outputs[place]
            further = candidate_outputs(state, compiled, names)
            return any(matcher(state, name, partial(self.finish, (*names, name))) for name in further)
        if state.virtual:
            state.nodes = without_virtual(state.nodes)
        self.nodes.update(state.nodes)
        if self.anchor is not None and self.anchor not in state.nodes:
            self.lacks_anchor = True
            return False
        match, passed, is_free = build_match(state, compiled, names)
        if not is_free or input_produced_inside(state, compiled, match.nodes):
            return False
        if len(names) > 1 and find_reentry(state, compiled, match.nodes, names=names, passed=passed):
            return False
        if self.accept is not None and not self.accept(match):
            return False
        self.found = match
        return True


def first_output(compiled: CompiledPattern, root: Node) -> str | None:
    """The output of a node that would be the first output of a pattern; None if it is absent."""
    keys = compiled.keys[0]
    position = keys[0][1] if keys else 0
    return (root.outputs[position] or None) if position < len(root.outputs) else None


def build_match(state: MatchState, compiled: CompiledPattern, names: tuple[str, ...]) -> tuple[Match, set[Node], bool]:
    """The match of the current bindings, the nodes that it only looks through and that stay, and whether all others may
    go.

    names: the outputs.
    """
    nodes = tuple(sorted(dict.fromkeys(state.nodes), key=_SLOT))
    kept: tuple[Node, ...] = ()
    if compiled.shared:
        stays = kept_shared_nodes(state, compiled.shared, nodes, names)
        kept = tuple(node for node in nodes if node in stays)
        nodes = tuple(node for node in nodes if node not in stays)
    passed: set[Node] = set()
    sizes: tuple[ShapeUse, ...] = ()
    is_free = has_no_outside_uses(state, nodes, names)
    if not is_free:
        passed = kept_passthrough_nodes(state, nodes, names)
        kept = (*kept, *(node for node in nodes if node in passed))
        nodes = tuple(node for node in nodes if node not in passed)
        if compiled.pattern.claims:
            wider = with_helper_nodes(state, nodes, names)
            nodes = nodes if input_produced_inside(state, compiled, wider) else wider
        sizes = find_shape_uses(state, nodes, names)
        is_free = not any(outside_uses(state, nodes, names, apart={asked.node for asked in sizes}))
    match = Match(
        state.index, state.scope, compiled.pattern, nodes=nodes, outputs=names, bound=dict(state.bindings), kept=kept
    )
    match.sizes = sizes
    return match, passed, is_free


def candidate_outputs(state: MatchState, compiled: CompiledPattern, names: tuple[str, ...]) -> list[str]:
    """Candidates for the next output: that of its node if it is matched, else tensors above the bound ones."""
    for key, position in compiled.keys[len(names)]:
        node = state.node_of_pattern.get(key)
        if node is not None and position < len(node.outputs):
            return [node.outputs[position]]
    return [name for name in _tensors_above(state, compiled, len(names)) if name not in names]


def _tensors_above(state: MatchState, compiled: CompiledPattern, place: int) -> list[str]:
    """Tensors that could be a further output: above bound tensors, and produced by one of its head ops."""
    heads, keys = compiled.output_ops[place], compiled.keys[place]
    position = keys[0][1] if keys else 0
    tensors = [held for held in state.bindings.values() if isinstance(held, str)]
    tensors += [name for node in state.nodes for name in node.outputs]
    homes = [(state.scope.home_of_read(name) or state.scope, name) for name in dict.fromkeys(tensors)]
    level = [reader for home, name in homes for reader in home.readers(name)]
    found: dict[int, Node] = {}
    for _ in range(compiled.depth):
        fresh = [node for node in level if id(node) not in found and node.scope is state.scope]
        found.update((id(node), node) for node in fresh)
        if len(found) > CLIMB_LIMIT:
            break
        level = []
        for node in fresh:
            if compiled.allowed is None or node.op in compiled.allowed:
                for reader in (reader for name in node.outputs for reader in state.scope.readers(name)):
                    if reader.op in TRANSPARENT and reader.scope is state.scope and id(reader) not in found:
                        found[id(reader)] = reader
                        fresh.append(reader)
                    else:
                        level.append(reader)
    taken = {id(node) for node in state.nodes}
    nodes = sorted((node for node in found.values() if id(node) not in taken), key=_SLOT)
    return [
        node.outputs[position]
        for node in nodes
        if (heads is None or node.op in heads) and position < len(node.outputs) and node.outputs[position]
    ]
