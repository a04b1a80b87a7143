"""A traced pattern as closures: each takes the state, a tensor's name and what is still to match after it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any, TypeVar

from surgeon.errors import RuleError
from surgeon.indexing.scope import Node, qualified
from surgeon.matching.algebra import DEPTH, LAST, OPENS, SUMS, Law
from surgeon.matching.arguments import attributes_matcher, inputs_matcher, is_wildcard, label_of
from surgeon.matching.captures import any_of_matcher, literal_matcher, named_matcher, var_matcher
from surgeon.matching.chain import Chain, Matcher, Next, Term
from surgeon.matching.chain_nodes import ordered
from surgeon.matching.chain_search import chain_matcher
from surgeon.matching.flatten import PRODUCT, SUM, Flat, flatten
from surgeon.matching.pattern import AnyOf, Literal, Named, Output, Pattern, Value, Var, walk
from surgeon.matching.search import Search
from surgeon.matching.standing_in import other_op
from surgeon.matching.state import TRANSPARENT, State
from surgeon.matching.trace import Finding
from surgeon.ops.randomness import RANDOM

Answer = TypeVar("Answer")
Attributes = Callable[[State, Node], Finding | None]


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a pattern asks for as it is written, without what algebra makes of it: fields as those of Compiled."""

    heads: tuple[frozenset[str] | None, ...]
    required: frozenset[frozenset[str]]
    allowed: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A pattern ready to run.

    outputs: a matcher per output.  keys: where the state keeps the node of each output, and its position, by form.
    heads: ops that can make each output (None: any).  required: groups of ops of which one must be there.
    allowed: all ops that may lie between a required op and the root (None: any).  depth: nodes on the longest path,
    those that change nothing not counted.
    is_plain: it asks for structure and numbers only: one output, tensors as variables, no attributes.  sizes: nodes of
    the pattern in each chain, by where the state keeps its node.  spell: makes what `spelling` says.  by_laws: those of
    the heads of the first output that algebra alone makes one.  shared: where the state keeps nodes that may stay.
    wild: globs of the domain and op of the first output, where it has such.  search: what finds the places in place of
    all that.
    """

    pattern: Pattern
    outputs: tuple[Matcher, ...]
    keys: tuple[tuple[tuple[int, int], ...], ...]
    heads: tuple[frozenset[str] | None, ...]
    required: frozenset[frozenset[str]]
    allowed: frozenset[str] | None
    depth: int
    is_plain: bool
    sizes: dict[int, int]
    spell: Callable[[], Spelling]
    by_laws: frozenset[str] = frozenset()
    shared: frozenset[int] = frozenset()
    wild: tuple[str, str] | None = None
    search: Search | None = None

    @property
    def spelling(self) -> Spelling:
        """Heads, required and allowed for a person, who knows the pattern as it is written."""
        return self.spell()


def compile_pattern(pattern: Pattern) -> Compiled:
    """Make the closures of a pattern."""
    compiler = _Compiler(pattern)
    outputs = tuple(compiler.matcher(value) for value in pattern.outputs)
    root = pattern.outputs[0]
    return Compiled(
        pattern,
        outputs,
        tuple(tuple(compiler.keys(value)) for value in pattern.outputs),
        tuple(compiler.heads(value) for value in pattern.outputs),
        compiler.required(root),
        compiler.allowed(),
        max(map(compiler.depth, pattern.outputs)) + 2,
        _is_plain(pattern.outputs),
        {key: flat.size for key, flat in compiler.flats.items() if flat is not None},
        cache(partial(_spelling, compiler)),
        compiler.added_heads(root),
        _shared(compiler),
        _wild(root),
    )


def compile_search(search: Search) -> Compiled:
    """A search in the place of a pattern: `find` runs it, and nothing else of it is asked for."""
    pattern = Pattern(search.name, (), frozenset(), search.where, search.find)
    nothing = frozenset[frozenset[str]]()
    none = Spelling((frozenset(),), nothing, frozenset())
    return Compiled(pattern, (), ((),), none.heads, nothing, none.allowed, 0, False, {}, lambda: none, search=search)


def _spelling(compiler: "_Compiler") -> Spelling:
    """What a pattern asks for without the laws of algebra."""
    plain, outputs = _Compiler(compiler.pattern, compiler), compiler.pattern.outputs
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


def _once(method: Callable[["_Compiler", Any], Answer]) -> Callable[["_Compiler", Any], Answer]:
    """Ask a method of a value once: values are shared, and words that nest share them many times over."""

    def asked(self: "_Compiler", value: Any) -> Answer:
        key = method.__name__, id(value)
        if key not in self.answers:
            self.answers[key] = method(self, value)
        answer: Answer = self.answers[key]
        return answer

    return asked


class _Compiler:
    """Remembers the matcher of each value, so that a shared one is compiled once.

    of: the compiler of the same pattern, where this one is to know no algebra.
    """

    def __init__(self, pattern: Pattern, of: "_Compiler | None" = None) -> None:
        self.pattern, self.has_laws = pattern, of is None
        self.values: list[Value] = list(walk(pattern.outputs)) if of is None else of.values
        self.uses: dict[int, int] = _uses(pattern) if of is None else of.uses
        self.flats: dict[int, Flat | None] = {} if of is None else of.flats
        self.matchers: dict[int, Matcher] = {}
        self.answers: dict[tuple[str, int], Any] = {}

    def flat(self, value: Output) -> Flat | None:
        """The chain this output spells, or None."""
        if id(value.operation) not in self.flats:
            self.flats[id(value.operation)] = flatten(value, self.uses)
        return self.flats[id(value.operation)]

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
            return any_of_matcher(forms, id(value), self.heads(value), wanted)
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

    @_once
    def laws(self, value: Output) -> frozenset[Law]:
        """What algebra may do to the operands of a product, by what the pattern wants them to be."""
        flat = self.flat(value)
        if flat is None or flat.family is not PRODUCT or not self.has_laws:
            return frozenset()
        heads = frozenset[str]().union(*(self.heads(item) or () for item, _ in flat.operands))
        found: set[Law] = {"factor"} if heads & SUMS else set()
        if "Sigmoid" in heads:
            found |= {"sigmoid", "factor"}
        if any(self._holds_tanh(item) for item, _ in flat.operands):
            found.add("tanh")
        return frozenset(found)

    def _is_factored(self, value: Value) -> bool:
        """Whether a value is a product that may be multiplied out."""
        heads = self.heads(value)
        return heads is not None and "Mul" in heads and not heads.isdisjoint(SUMS)

    def _holds_tanh(self, value: Value) -> bool:
        """Whether a value is a sum with tanh in it."""
        if isinstance(value, Named):
            return self._holds_tanh(value.value)
        if isinstance(value, AnyOf):
            return any(self._holds_tanh(form) for form in value.forms)
        flat = self.flat(value) if isinstance(value, Output) else None
        if flat is None or flat.family is not SUM:
            return False
        return any(self.heads(item) == frozenset({"Tanh"}) for item, _ in flat.operands)

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

    @_once
    def heads(self, value: Value) -> frozenset[str] | None:
        """Ops that can make a value; None when anything can."""
        if isinstance(value, Named):
            return self.heads(value.value)
        if isinstance(value, AnyOf):
            found: frozenset[str] = frozenset()
            for form in value.forms:
                heads = self.heads(form)
                if heads is None:
                    return None
                found |= heads
            return found
        if not isinstance(value, Output) or is_wildcard(value.operation):
            return None
        flat = self.flat(value)
        if flat is None:
            return frozenset({qualified(value.operation.domain, value.operation.op)})
        return flat.family | SUMS if "factor" in self.laws(value) else flat.family

    def added_heads(self, value: Value) -> frozenset[str]:
        """Those of the heads that only algebra adds."""
        if isinstance(value, Named):
            return self.added_heads(value.value)
        if not isinstance(value, Output) or "factor" not in self.laws(value):
            return frozenset()
        return SUMS

    @_once
    def required(self, value: Value | None) -> frozenset[frozenset[str]]:
        """Groups of ops of which a match needs one each."""
        if isinstance(value, Named):
            return self.required(value.value)
        if isinstance(value, AnyOf):
            forms = [self.required(form) for form in value.forms]
            common = frozenset.intersection(*forms)
            others = [form - common for form in forms]
            if not all(others):
                return common
            return common | {frozenset[str]().union(*(min(form, key=_rarity) for form in others))}
        if not isinstance(value, Output):
            return frozenset()
        flat = self.flat(value)
        if flat is not None:
            below: Sequence[Value | None] = [item for item, _ in flat.operands]
        else:
            below = value.operation.inputs
        own = self.heads(value)
        found = frozenset({own}) if own is not None else frozenset()
        groups = found.union(*(self.required(item) for item in below))
        for law in self.laws(value):
            wanted = frozenset({"Tanh" if law == "tanh" else "Sigmoid"})
            groups = frozenset(group | LAST[law] if group == wanted else group for group in groups)
        return groups

    def allowed(self) -> frozenset[str] | None:
        """All ops of the pattern, those it looks through included."""
        found: set[str] = set(TRANSPARENT)
        for value in self.values:
            if isinstance(value, Output):
                heads = self.heads(value)
                if heads is None:
                    return None
                found |= heads
                for law in self.laws(value):
                    found |= OPENS[law] | LAST[law]
        return frozenset(found)

    @_once
    def depth(self, value: Value | None) -> int:
        """Nodes on the longest path down; a chain of n operands may be n nodes deep, constants extra."""
        if isinstance(value, Named):
            return self.depth(value.value)
        if isinstance(value, AnyOf):
            return max(self.depth(form) for form in value.forms)
        if not isinstance(value, Output):
            return 0
        flat = self.flat(value)
        if flat is not None:
            spare = DEPTH if self.laws(value) else 2
            return len(flat.operands) + spare + max((self.depth(item) for item, _ in flat.operands), default=0)
        return 1 + max((self.depth(item) for item in value.operation.inputs), default=0)


def _rarity(group: frozenset[str]) -> tuple[int, list[str]]:
    """Sorts groups of ops by how many there are to choose from; the same for equal groups in any order."""
    return len(group), sorted(group)


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


def _uses(pattern: Pattern) -> dict[int, int]:
    """How often each node and each variable of the pattern is read or returned."""
    uses: Counter[int] = Counter()
    for value in pattern.outputs:
        if isinstance(value, Output):
            uses[id(value.operation)] += 1
    seen: set[int] = set()
    for value in walk(pattern.outputs):
        if isinstance(value, Output):
            if id(value.operation) in seen:
                continue
            seen.add(id(value.operation))
            readers: Sequence[Value | None] = value.operation.inputs
        elif isinstance(value, AnyOf):
            readers = (*value.forms, *value.forms)
        else:
            readers = (value.value, value.value) if isinstance(value, Named) else ()
        for item in readers:
            if isinstance(item, Output):
                uses[id(item.operation)] += 1
            elif isinstance(item, Var):
                uses[id(item)] += 1
    return dict(uses)
