"""A traced pattern as closures: each takes the state, a tensor's name and what is still to match after it."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property, partial

from surgeon.errors import RuleError
from surgeon.indexing.scope import Node, qualified
from surgeon.matching.algebra import OPENS
from surgeon.matching.arguments import attributes_matcher, inputs_matcher, is_wildcard, label_of
from surgeon.matching.captures import any_of_matcher, literal_matcher, named_matcher, var_matcher
from surgeon.matching.chain import Chain, Matcher, Next, Term
from surgeon.matching.chain_nodes import ordered
from surgeon.matching.chain_search import chain_matcher
from surgeon.matching.flatten import SUM, Flat
from surgeon.matching.needs import Needs, Spelling
from surgeon.matching.pattern import AnyOf, Literal, Named, Output, Pattern, Value, Var, walk
from surgeon.matching.search import Search
from surgeon.matching.standing_in import other_op
from surgeon.matching.state import State
from surgeon.matching.trace import Finding
from surgeon.ops.records import RANDOM, TRANSPARENT

Attributes = Callable[[State, Node], Finding | None]


class Compiled:
    """A pattern ready to run, each part made when it is asked for: a model without the ops it needs asks for few.

    outputs: a matcher per output.  keys: where the state keeps the node of each output, and its position, by form.
    heads: ops that can make each output (None: any).  required: groups of ops of which one must be there.
    allowed: all ops that may lie between a required op and the root (None: any).  depth: nodes on the longest path,
    those that change nothing not counted.
    is_plain: it asks for structure and numbers only: one output, tensors as variables, no attributes.  sizes: nodes of
    the pattern in each chain, by where the state keeps its node.  spelling: heads, required and allowed for a person,
    who knows the pattern as it is written.  by_laws: those of the heads of the first output that algebra alone makes
    one.  shared: where the state keeps nodes that may stay.  wild: globs of the domain and op of the first output,
    where it has such.  search: what finds the places in place of all that.
    """

    search: Search | None = None

    def __init__(self, pattern: Pattern) -> None:
        """Raises RuleError for a pattern that shares a sum or a product."""
        self.pattern = pattern
        self._compiler = _Compiler(pattern)
        self.shared = _shared(self._compiler)

    @cached_property
    def outputs(self) -> tuple[Matcher, ...]:
        return tuple(map(self._compiler.matcher, self.pattern.outputs))

    @cached_property
    def keys(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        return tuple(tuple(self._compiler.keys(value)) for value in self.pattern.outputs)

    @cached_property
    def heads(self) -> tuple[frozenset[str] | None, ...]:
        return tuple(map(self._compiler.heads, self.pattern.outputs))

    @cached_property
    def required(self) -> frozenset[frozenset[str]]:
        return self._compiler.required(self.pattern.outputs[0])

    @cached_property
    def allowed(self) -> frozenset[str] | None:
        return self._compiler.allowed()

    @cached_property
    def depth(self) -> int:
        return max(map(self._compiler.depth, self.pattern.outputs)) + 2

    @cached_property
    def is_plain(self) -> bool:
        return _is_plain(self.pattern.outputs)

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Known of all chains once the matchers are made."""
        _ = self.outputs
        return {key: flat.size for key, flat in self._compiler.flats.items() if flat is not None}

    @cached_property
    def spelling(self) -> Spelling:
        return _spelling(self._compiler)

    @cached_property
    def by_laws(self) -> frozenset[str]:
        return self._compiler.added_heads(self.pattern.outputs[0])

    @cached_property
    def wild(self) -> tuple[str, str] | None:
        return _wild(self.pattern.outputs[0])


class _Searched(Compiled):
    """A search in the place of a pattern: `find` runs it, and nothing else of it is asked for."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.pattern = Pattern(search.name, (), frozenset(), search.where, search.find)
        self.shared = frozenset()
        nothing = frozenset[frozenset[str]]()
        spelling = Spelling((frozenset(),), nothing, frozenset())
        self.__dict__.update(outputs=(), keys=((),), heads=spelling.heads, required=nothing, allowed=spelling.allowed)
        self.__dict__.update(depth=0, is_plain=False, sizes={}, spelling=spelling, by_laws=frozenset(), wild=None)


def compile_pattern(pattern: Pattern) -> Compiled:
    """Make the closures of a pattern, as far as they are asked for.  Raises as Compiled."""
    return Compiled(pattern)


def compile_search(search: Search) -> Compiled:
    """Put a search in the place of a pattern."""
    return _Searched(search)


def _spelling(compiler: "_Compiler") -> Spelling:
    """What a pattern asks for as it is written, without the laws of algebra."""
    plain, outputs = Needs(compiler.pattern, compiler), compiler.pattern.outputs
    return Spelling(tuple(map(plain.heads, outputs)), plain.required(outputs[0]), plain.allowed())


def _wild(root: Value) -> tuple[str, str] | None:
    """The domain and op of an output that any op makes whose name fits a glob."""
    if isinstance(root, Output) and is_wildcard(root.operation):
        return root.operation.domain, root.operation.op
    return None


def _shared(compiler: "_Compiler") -> frozenset[int]:
    """The operations of nodes that may stay.  Raises RuleError for sums and products, which match in any order."""
    found: set[int] = set()
    for value in compiler.values:
        if isinstance(value, Output) and value.operation.is_shared:
            if compiler.flat(value) is not None:
                where, op = value.operation.where, value.operation.op
                raise RuleError(f"{where}: {op} cannot be shared, as sums and products match in any order of operands.")
            found.add(id(value.operation))
    return frozenset(found)


class _Compiler(Needs):
    """Remembers the matcher of each value, so that a shared one is compiled once."""

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
        if isinstance(value, Literal):
            return literal_matcher(value)
        if isinstance(value, Named):
            return named_matcher(value.name, self.matcher(value.value))
        if isinstance(value, AnyOf):
            wanted = Finding("op", value.where, self.label(value), "", op=self.label(value))
            forms = tuple(self.matcher(form) for form in value.forms)
            heads = tuple(self.heads(form) for form in value.forms)
            return any_of_matcher(forms, id(value), heads, self.heads(value), wanted)
        flat = self.flat(value)
        return self._chain(value, flat) if flat is not None else self._operation(value)

    def _chain(self, value: Output, flat: Flat) -> Matcher:
        terms = ordered(
            Term(self.matcher(item), sign, self.heads(item), self.label(item))
            for item, sign in sorted(flat.operands, key=self.freedom)
        )
        capture = flat.capture.name if flat.capture is not None else None
        operation = value.operation
        return chain_matcher(
            Chain(
                flat.family,
                terms,
                flat.identity,
                flat.number,
                flat.rtol,
                capture,
                id(operation),
                operation.where,
                operation.op,
                flat.is_division,
                self.laws(value),
                frozenset[str]().union(*(OPENS[law] for law in self.laws(value))),
                flat.family is SUM and any(self._is_factored(item) for item, _ in flat.operands),
            )
        )

    def freedom(self, operand: tuple[Value, int]) -> tuple[bool, bool]:
        """Sorts variables: those that something else binds too come first, those that take any tensor last."""
        value = operand[0]
        return self.uses.get(id(value), 0) < 2, isinstance(value, Var) and value.kind == "tensor"

    def _operation(self, value: Output) -> Matcher:
        operation = value.operation
        wildcard = is_wildcard(operation)
        ops = None if wildcard else frozenset({qualified(operation.domain, operation.op)})
        inputs = inputs_matcher(operation, [None if item is None else self.matcher(item) for item in operation.inputs])
        attributes = attributes_matcher(operation)
        label, where, key = label_of(operation), operation.where, id(operation)
        domain, op, position = operation.domain or "", operation.op, value.position
        is_random = op in RANDOM

        def accepts(node: Node) -> bool:
            if ops is not None:
                return node.op in ops
            its_domain, _, its_op = node.op.rpartition("::")
            return fnmatchcase(its_domain, domain) and fnmatchcase(its_op, op)

        def match(state: State, name: str, then: Next) -> bool:
            nodes = state.nodes
            mark = len(nodes)
            state.visited += 1
            node = state.producers.get(name)
            while node is not None and not accepts(node) and node.op in TRANSPARENT and state.passes(node, name):
                nodes.append(node)
                name = node.inputs[0]
                node = state.producers.get(name)
            if node is None or not accepts(node):
                del nodes[mark:]
                if state.trace is None:
                    return False
                return other_op(state, operation, position, name, partial(take, state, then))
            if (
                len(node.outputs) <= position
                or node.outputs[position] != name
                or (is_random and state.made.get(key) not in (None, node))
            ):
                del nodes[mark:]
                return state.trace is not None and state.missed(_other_output(state, label, where, position, name))
            held = len(state.bound)
            if take(state, then, node, attributes):
                return True
            while len(state.bound) > held:
                state.bound.popitem()
            del nodes[mark:]
            return False

        def take(state: State, then: Next, node: Node, check: Attributes | None = None) -> bool:
            before = state.made.get(key)
            state.nodes.append(node)
            state.made[key] = node
            if state.trace is not None:
                state.trace.line = where, label, key
            wrong = check(state, node) if check is not None else None
            if wrong is None:
                if inputs(state, node, then):
                    return True
            elif state.trace is not None and state.excused(wrong, partial(inputs, state, node, then)):
                return True
            if before is None:
                del state.made[key]
            else:
                state.made[key] = before
            return False

        return match

    def label(self, value: Value) -> str:
        """A value in words, for a reason."""
        if isinstance(value, Output):
            return label_of(value.operation)
        if isinstance(value, Var):
            return f"{value.name!r}"
        if isinstance(value, AnyOf):
            return " or ".join(dict.fromkeys(self.label(form) for form in value.forms))
        return self.label(value.value) if isinstance(value, Named) else "a constant"

    def keys(self, value: Value) -> Iterator[tuple[int, int]]:
        """Where the state keeps the node that makes this output, and its position: one for each form of it."""
        if isinstance(value, Output):
            yield id(value.operation), value.position
        elif isinstance(value, Named):
            yield from self.keys(value.value)
        elif isinstance(value, AnyOf):
            for form in value.forms:
                yield from self.keys(form)


def _other_output(state: State, label: str, where: str, position: int, name: str) -> Finding:
    what, spot = state.sighting(name)
    return Finding("operand", where, f"output {position} of {label}", what, spot, op=label)


def _is_plain(outputs: tuple[Value, ...]) -> bool:
    if len(outputs) != 1:
        return False
    for value in walk(outputs):
        if isinstance(value, Var) and (value.kind != "tensor" or value.optional):
            return False
        if isinstance(value, Output) and value.operation.is_shared:
            return False
        if isinstance(value, Output) and (value.operation.attributes or value.operation.rest or value.operation.others):
            return False
        if isinstance(value, Named):
            return False
    return True
