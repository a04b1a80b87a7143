"""Compiles a traced pattern to closures: each takes the state, a tensor's name and the continuation."""

import sys
from collections.abc import Iterator
from functools import cached_property, partial

from surgeon.errors import RuleError
from surgeon.ir.scope import Node, qualified_name
from surgeon.ops.traits.trait_lookup import RANDOM, TRANSPARENT
from surgeon.rules.matching.associative.chain import Chain, ChainOperand, Matcher, ordered
from surgeon.rules.matching.associative.chain_matcher import chain_matcher
from surgeon.rules.matching.associative.flattening import SUM, FlatChain
from surgeon.rules.matching.associative.identities import OPS_EXPANDED
from surgeon.rules.matching.listener import Continuation
from surgeon.rules.matching.match_state import MatchState, leave
from surgeon.rules.matching.node_matchers import InputOrder, inputs_matcher, is_wildcard, node_differences, op_predicate
from surgeon.rules.matching.op_requirements import HasAnyOp, OpRequirements, WrittenOps
from surgeon.rules.matching.pattern import (
    AnyOf,
    LiteralValue,
    NamedValue,
    NodeOutput,
    NodePattern,
    Pattern,
    Search,
    Value,
    Var,
    walk_values,
)
from surgeon.rules.matching.root_paths import RootPaths
from surgeon.rules.matching.value_matchers import any_of_matcher, literal_matcher, named_matcher, var_matcher

STACK_OF_OTHERS, FRAMES_PER_VALUE = 1_000, 40  # of Python's stack; a value of ONNX's formula of attention takes 25
MAX_STACK = 20_000  # frames of Python are on the heap, and those of C between them are few


class CompiledPattern:
    """A compiled pattern; each part is built when it is needed, since most patterns fail on a missing op.

    shared: ids of operations whose nodes may stay.  search: finds the sites instead of a pattern.
    """

    search: Search | None = None

    def __init__(self, pattern: Pattern) -> None:
        """Raises RuleError for a pattern that shares a sum or a product."""
        self.pattern = pattern
        self.compiler = PatternCompiler(pattern)
        self.shared = _shared(self.compiler)

    @cached_property
    def outputs(self) -> tuple[Matcher, ...]:
        depth = min(MAX_STACK, STACK_OF_OTHERS + FRAMES_PER_VALUE * len(self.compiler.values))
        sys.setrecursionlimit(max(sys.getrecursionlimit(), depth))  # a match is one chain of calls
        return tuple(map(self.compiler.matcher, self.pattern.outputs))

    @cached_property
    def keys(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        return tuple(tuple(self.compiler.keys(value)) for value in self.pattern.outputs)

    @cached_property
    def output_ops(self) -> tuple[frozenset[str] | None, ...]:
        return tuple(map(self.compiler.heads, self.pattern.outputs))

    @cached_property
    def required(self) -> frozenset[frozenset[str]]:
        return self.compiler.required(self.pattern.outputs[0])

    def lacks_required_op(self, has: HasAnyOp, *, forms: bool = False) -> bool:
        """Whether a required op is absent, by a quick check; see `OpRequirements.lacks`."""
        return self.compiler.lacks(self.pattern.outputs[0], has, forms=forms)

    @cached_property
    def allowed(self) -> frozenset[str] | None:
        return self.compiler.allowed()

    @cached_property
    def below(self) -> dict[str, tuple[tuple[int, frozenset[str]], ...]]:
        """Root op -> ops of which one must produce a given input."""
        value = self.pattern.outputs[0]
        if not isinstance(value, NodeOutput) or self.compiler.flat(value) is not None or self.op_glob is not None:
            return {}
        operation, plan = value.operation, InputOrder.of(value.operation)
        heads = ((place, self.compiler.heads(item)) for place, item in enumerate(operation.inputs) if item is not None)
        known = ((place, ops | TRANSPARENT) for place, ops in heads if ops is not None and place not in plan.parameters)
        return {} if plan.is_free else {qualified_name(operation.domain, operation.op): tuple(known)}

    @cached_property
    def among(self) -> frozenset[str] | None:
        """Ops of which one must produce an input of a root that is a sum or product; None: any."""
        value = self.pattern.outputs[0]
        flat = self.compiler.flat(value) if isinstance(value, NodeOutput) else None
        if (
            flat is None
            or not isinstance(value, NodeOutput)
            or self.compiler.identities(value)
            or len(flat.operands) < 2
        ):
            return None
        heads = [ops for ops in (self.compiler.heads(item) for item, _ in flat.operands) if ops is not None]
        return min(heads, key=len) | flat.family | TRANSPARENT if heads else None

    @cached_property
    def root_paths(self) -> RootPaths:
        return RootPaths(self.compiler, lambda value: op_predicate(value.operation))

    @cached_property
    def depth(self) -> int:
        return max(map(self.compiler.depth, self.pattern.outputs)) + 2

    @cached_property
    def is_plain(self) -> bool:
        return _is_plain(self.pattern.outputs)

    @cached_property
    def chain_lengths(self) -> dict[int, int]:
        """Number of pattern nodes in each chain, by its key."""
        _ = self.outputs
        return {key: flat.size for key, flat in self.compiler.flats.items() if flat is not None}

    @cached_property
    def written_ops(self) -> WrittenOps:
        return _spelling(self.compiler)

    @cached_property
    def op_glob(self) -> tuple[str, str] | None:
        return _wild(self.pattern.outputs[0])


class _Searched(CompiledPattern):
    """A search in place of a pattern; only `find` uses it."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.pattern = Pattern(search.name, (), frozenset(), where=search.where, function=search.find)
        self.shared = frozenset()
        nothing = frozenset[frozenset[str]]()
        spelling = WrittenOps((frozenset(),), nothing, frozenset())
        self.__dict__.update(outputs=(), keys=((),), heads=spelling.heads, required=nothing, allowed=spelling.allowed)
        self.__dict__.update(depth=0, is_plain=False, chain_lengths={}, written_ops=spelling, op_glob=None)

    def lacks_required_op(self, has: HasAnyOp, *, forms: bool = False) -> bool:
        """Always False: the ops that a search requires are unknown."""
        return False


def compile_pattern(pattern: Pattern) -> CompiledPattern:
    """Compile a pattern.  Raises as CompiledPattern."""
    return CompiledPattern(pattern)


def compile_search(search: Search) -> CompiledPattern:
    """Wrap a search as a compiled pattern."""
    return _Searched(search)


def _spelling(compiler: "PatternCompiler") -> WrittenOps:
    """The ops that a pattern names as written, without algebraic identities."""
    outputs, operations = compiler.pattern.outputs, (item for item in compiler.values if isinstance(item, NodeOutput))
    plain = OpRequirements(compiler.pattern, compiler) if any(map(compiler.identities, operations)) else compiler
    return WrittenOps(tuple(map(plain.heads, outputs)), plain.required(outputs[0]), plain.allowed())


def _wild(root: Value) -> tuple[str, str] | None:
    """The domain and op of the first output, if they are globs."""
    if isinstance(root, NodeOutput) and is_wildcard(root.operation):
        return root.operation.domain, root.operation.op
    return None


def _shared(compiler: "PatternCompiler") -> frozenset[int]:
    """Ids of the operations of nodes that may stay.  Raises RuleError for sums and products."""
    found: set[int] = set()
    for value in compiler.values:
        if isinstance(value, NodeOutput) and value.operation.is_shared:
            if compiler.flat(value) is not None:
                where, op = value.operation.where, value.operation.op
                raise RuleError(f"{where}: {op} cannot be shared, because its operands match in any order.")
            found.add(id(value.operation))
    return frozenset(found)


class PatternCompiler(OpRequirements):
    """Caches the matcher of each value, so that a shared one is compiled once."""

    def __init__(self, pattern: Pattern) -> None:
        super().__init__(pattern)
        self.matchers: dict[int, Matcher] = {}

    def matcher(self, value: Value) -> Matcher:
        """The closure that matches a value."""
        if id(value) not in self.matchers:
            self.matchers[id(value)] = self._compile(value)
        return self.matchers[id(value)]

    def _compile(self, value: Value) -> Matcher:
        if isinstance(value, Var):
            return var_matcher(value)
        if isinstance(value, LiteralValue):
            return literal_matcher(value)
        if isinstance(value, NamedValue):
            return named_matcher(value.name, self.matcher(value.value))
        if isinstance(value, AnyOf):
            forms = tuple(self.matcher(form) for form in value.forms)
            return any_of_matcher(value, forms, tuple(self.heads(form) for form in value.forms))
        flat = self.flat(value)
        return self._operation(value) if flat is None else chain_matcher(self._chain(value, flat))

    def _chain(self, value: NodeOutput, flat: FlatChain) -> Chain:
        """The sum or product that a value is."""
        terms = ordered(
            ChainOperand(self.matcher(item), sign, self.heads(item), item)
            for item, sign in sorted(flat.operands, key=self.freedom)
        )
        return Chain(
            flat.family,
            terms,
            flat.neutral,
            number=flat.number,
            rtol=flat.rtol,
            capture=flat.capture.name if flat.capture is not None else None,
            operation=value.operation,
            is_division=flat.is_division,
            identities=self.identities(value),
            expandable=frozenset[str]().union(*(OPS_EXPANDED[law] for law in self.identities(value))),
            may_merge=flat.family is SUM and any(self._is_factored(item) for item, _ in flat.operands),
        )

    def freedom(self, operand: tuple[Value, int]) -> tuple[bool, bool]:
        """Sort key: variables with other uses first, unconstrained ones last."""
        value = operand[0]
        return self.uses.get(id(value), 0) < 2, isinstance(value, Var) and value.kind == "tensor"

    def _operation(self, value: NodeOutput) -> Matcher:
        operation = value.operation
        differ, key, position = node_differences(operation), id(operation), value.position
        accepts, is_random = op_predicate(operation), qualified_name(operation.domain, operation.op) in RANDOM
        below = [None if item is None else self.matcher(item) for item in operation.inputs]
        inputs = inputs_matcher(operation, below, accepts)

        def match(state: MatchState, name: str, then: Continuation) -> bool:
            nodes, found = state.nodes, name
            mark = len(nodes)
            state.visited += 1
            node = state.producers.get(name)
            while (
                node is not None
                and not accepts(node.op)
                and node.op in TRANSPARENT
                and state.is_passthrough(node, name)
            ):
                nodes.append(node)
                name = node.inputs[0]
                node = state.producers.get(name)
            fits = node is not None and accepts(node.op)
            is_free = not is_random or state.node_of_pattern.get(key) in (None, node)
            if node is not None and fits and is_free and is_output(node, position, name):
                return enter(state, node, mark, then=then)
            del nodes[mark:]
            if state.listener is None:
                return False
            if fits:
                return state.listener.fails(None, operation, ("other_output", operation, position, name))
            go_on, node = None, state.producers.get(found)
            if node is not None and _can_stand_in(node, operation, position, found):
                go_on = partial(enter, state, node, mark, then=then, is_other=True)
            return state.listener.fails(go_on, operation, ("wrong_op", operation, found))

        def enter(state: MatchState, node: Node, mark: int, then: Continuation, is_other: bool = False) -> bool:
            """Match what a node says and reads.  mark: the nodes matched before.  is_other: match only its inputs."""
            made, held = state.node_of_pattern, len(state.bindings)
            before = made.get(key)
            state.nodes.append(node)
            made[key] = node
            if is_other or next(differ(state, node), None) is None:
                if inputs(state, node, then):
                    return True
            elif state.listener is not None:
                reason = "different", operation, node, list(differ(state, node))
                state.listener.fails(partial(inputs, state, node, then), operation, reason)
            while len(state.bindings) > held:
                state.bindings.popitem()
            leave(state, key, before, mark)
            return False

        return match

    def keys(self, value: Value) -> Iterator[tuple[int, int]]:
        """Key of the producer in the state and output index, for each form of a value."""
        if isinstance(value, NodeOutput):
            yield id(value.operation), value.position
        elif isinstance(value, NamedValue):
            yield from self.keys(value.value)
        elif isinstance(value, AnyOf):
            for form in value.forms:
                yield from self.keys(form)


def is_output(node: Node, position: int, name: str) -> bool:
    """Whether a tensor is the given output of a node."""
    return len(node.outputs) > position and node.outputs[position] == name


def _can_stand_in(node: Node, operation: NodePattern, position: int, name: str) -> bool:
    """Whether the inputs of a node of another op can be matched in its place."""
    binds = operation.others is not None or any(isinstance(item, Var) for item in operation.attributes.values())
    return is_output(node, position, name) and not binds and bool(node.inputs) and node.op != "Constant"


def _is_plain(outputs: tuple[Value, ...]) -> bool:
    if len(outputs) != 1:
        return False
    for value in walk_values(outputs):
        if isinstance(value, Var) and (value.kind != "tensor" or value.optional):
            return False
        if isinstance(value, NodeOutput) and value.operation.is_shared:
            return False
        if isinstance(value, NodeOutput) and (
            value.operation.attributes or value.operation.rest or value.operation.others
        ):
            return False
        if isinstance(value, NamedValue):
            return False
    return True
