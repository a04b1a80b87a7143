"""A traced pattern as closures: each takes the state, a tensor's name and what is still to match after it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import permutations
from typing import Any

import numpy as np

from surgeon.indexing.scope import Node, qualified
from surgeon.matching.chains import Chain, Flat, Matcher, Next, Term, chain_matcher, flatten, ordered
from surgeon.matching.pattern import AnyOf, Literal, Named, Operation, Output, Pattern, Value, Var, walk
from surgeon.matching.state import RANDOM, TRANSPARENT, Several, State, close, plain
from surgeon.ops.schemas import moved, schema

COMMUTATIVE = frozenset(
    {"And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Min", "Sum", "Mean"}
)
BROADCASTING = COMMUTATIVE | {"Pow", "Mod", "PRelu", "Where", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}
PERMUTED_INPUTS = 5
AXES = frozenset({"axis", "axes"})


@dataclass(frozen=True, slots=True)
class Compiled:
    """A pattern ready to run.

    outputs: a matcher per output.  keys: where the state keeps the node of each output, and its position.
    heads: ops that can make the first output (None: any).  required: groups of ops of which one must be there.
    allowed: all ops that may lie between a required op and the root (None: any).  depth: nodes on the longest path,
    those that change nothing not counted.
    is_plain: it asks for structure and numbers only: one output, tensors as variables, no attributes.
    """

    pattern: Pattern
    outputs: tuple[Matcher, ...]
    keys: tuple[tuple[int, int] | None, ...]
    heads: tuple[frozenset[str] | None, ...]
    required: frozenset[frozenset[str]]
    allowed: frozenset[str] | None
    depth: int
    is_plain: bool


def compile_pattern(pattern: Pattern) -> Compiled:
    """Make the closures of a pattern."""
    compiler = _Compiler(pattern)
    outputs = tuple(compiler.matcher(value) for value in pattern.outputs)
    root = pattern.outputs[0]
    return Compiled(
        pattern,
        outputs,
        tuple(compiler.key(value) for value in pattern.outputs),
        tuple(compiler.heads(value) for value in pattern.outputs),
        compiler.required(root),
        compiler.allowed(),
        max(map(compiler.depth, pattern.outputs)) + 2,
        _is_plain(pattern.outputs),
    )


class _Compiler:
    """Remembers the matcher of each value, so that a shared one is compiled once."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.values = list(walk(pattern.outputs))
        self.uses = _uses(pattern)
        self.flats: dict[int, Flat | None] = {}
        self.matchers: dict[int, Matcher] = {}

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
            return _literal(value)
        if isinstance(value, Named):
            return _named(value.name, self.matcher(value.value))
        if isinstance(value, AnyOf):
            return _any_of(tuple(self.matcher(form) for form in value.forms))
        flat = self.flat(value)
        return self._chain(value, flat) if flat is not None else self._operation(value)

    def _chain(self, value: Output, flat: Flat) -> Matcher:
        terms = ordered(
            Term(self.matcher(item), sign, self.heads(item), self.heads(item) is None, self.label(item))
            for item, sign in sorted(flat.operands, key=self.freedom)
        )
        capture = flat.capture.name if flat.capture is not None else None
        operation = value.operation
        return chain_matcher(
            Chain(flat.family, terms, flat.identity, flat.number, flat.rtol, capture, id(operation), operation.where,
                  flat.is_division)
        )

    def freedom(self, operand: tuple[Value, int]) -> tuple[bool, bool]:
        """Sorts variables: those that something else binds too come first, those that take any tensor last."""
        value = operand[0]
        return self.uses.get(id(value), 0) < 2, isinstance(value, Var) and value.kind == "tensor"

    def _operation(self, value: Output) -> Matcher:
        operation = value.operation
        wildcard = _is_wildcard(operation)
        ops = None if wildcard else frozenset({qualified(operation.domain, operation.op)})
        inputs = _inputs_matcher(operation, [None if item is None else self.matcher(item) for item in operation.inputs])
        attributes = _attributes_matcher(operation)
        label, where, key = _label(operation), operation.where, id(operation)
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
            node = state.producers.get(name)
            while node is not None and not accepts(node) and node.op in TRANSPARENT and state.passes(node, name):
                nodes.append(node)
                name = node.inputs[0]
                node = state.producers.get(name)
            before = state.made.get(key)
            if node is None or not accepts(node):
                del nodes[mark:]
                if state.trace is None:
                    return False
                return state.missed(where, f"wanted {label}, found {state.found(name)}")
            if len(node.outputs) <= position or node.outputs[position] != name or (is_random and before not in (None, node)):
                del nodes[mark:]
                return state.missed(where, f"wanted output {position} of {label}, found {state.found(name)}")
            nodes.append(node)
            state.made[key] = node
            held = len(state.bound)
            if attributes(state, node) and inputs(state, node, then):
                return True
            while len(state.bound) > held:
                state.bound.popitem()
            del nodes[mark:]
            if before is None:
                del state.made[key]
            else:
                state.made[key] = before
            return False

        return match

    def label(self, value: Value) -> str:
        """A value in words, for a reason."""
        if isinstance(value, Output):
            return _label(value.operation)
        if isinstance(value, Var):
            return f"{value.name!r}"
        if isinstance(value, AnyOf):
            return " or ".join(dict.fromkeys(self.label(form) for form in value.forms))
        return self.label(value.value) if isinstance(value, Named) else "a constant"

    def key(self, value: Value) -> tuple[int, int] | None:
        """Where the state keeps the node that makes this output."""
        while isinstance(value, Named):
            value = value.value
        return (id(value.operation), value.position) if isinstance(value, Output) else None

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
        if not isinstance(value, Output) or _is_wildcard(value.operation):
            return None
        flat = self.flat(value)
        return flat.family if flat else frozenset({qualified(value.operation.domain, value.operation.op)})

    def required(self, value: Value | None) -> frozenset[frozenset[str]]:
        """Groups of ops of which a match needs one each."""
        if isinstance(value, Named):
            return self.required(value.value)
        if isinstance(value, AnyOf):
            forms = [self.required(form) for form in value.forms]
            common = frozenset.intersection(*forms)
            first = [min(form, key=len) for form in forms if form]
            return common or (frozenset({frozenset().union(*first)}) if len(first) == len(forms) else frozenset())
        if not isinstance(value, Output):
            return frozenset()
        flat = self.flat(value)
        if flat is not None:
            below: Sequence[Value | None] = [item for item, _ in flat.operands]
        else:
            below = value.operation.inputs
        own = self.heads(value)
        found = frozenset({own}) if own is not None else frozenset()
        return found.union(*(self.required(item) for item in below))

    def allowed(self) -> frozenset[str] | None:
        """All ops of the pattern, those it looks through included."""
        found: set[str] = set(TRANSPARENT)
        for value in self.values:
            if isinstance(value, Output):
                heads = self.heads(value)
                if heads is None:
                    return None
                found |= heads
        return frozenset(found)

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
            return len(flat.operands) + 2 + max((self.depth(item) for item, _ in flat.operands), default=0)
        return 1 + max((self.depth(item) for item in value.operation.inputs), default=0)


def _is_plain(outputs: tuple[Value, ...]) -> bool:
    if len(outputs) != 1:
        return False
    for value in walk(outputs):
        if isinstance(value, Var) and (value.kind != "tensor" or value.optional):
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


def _is_wildcard(operation: Operation) -> bool:
    return any(sign in operation.domain + operation.op for sign in "*?[")


def _label(operation: Operation) -> str:
    return qualified(operation.domain, operation.op)


def var_matcher(var: Var) -> Matcher:
    """A matcher that binds a parameter, or compares with what it is bound to already."""
    key, kind = var.name, var.kind

    def match(state: State, name: str, then: Next) -> bool:
        bound = state.bound
        if key in bound:
            held = bound[key]
            if held == name or (isinstance(held, str) and state.same(held, name)):
                return then()
            if state.trace is None:
                return False
            wanted = state.found(held) if isinstance(held, str) else held
            return state.missed(state_where(state), f"wanted {key!r} to be {wanted} again, found {state.found(name)}")
        if kind == "constant" and not state.index.constants.is_constant(state.scope, name):
            return state.missed(state_where(state), f"wanted a constant for {key!r}, found {state.found(name)}")
        bound[key] = name
        if then():
            return True
        del bound[key]
        return False

    return _captured_number(var) if kind in ("scalar", "list") else match


def state_where(state: State) -> str:
    """Variables have no line of their own; the node that reads them is the last one matched."""
    return state.nodes[-1].label if state.nodes else ""


def _captured_number(var: Var) -> Matcher:
    """Bind the Python value in a small constant."""

    def match(state: State, name: str, then: Next) -> bool:
        value = state.index.constants.get(state.scope, name)
        if value is None or (var.kind == "scalar" and value.scalar is None):
            return state.missed(state_where(state), f"wanted a constant for {var.name!r}, found {state.found(name)}")
        found = value.array.reshape(-1).tolist()
        return bind_number(state, var, found[0] if var.kind == "scalar" else found, then)

    return match


def bind_number(state: State, var: Var, number: Any, then: Next) -> bool:
    """Bind a Python value (kept in a 1-tuple, to tell it from a tensor's name)."""
    if var.name in state.bound:
        held = state.bound[var.name]
        return (held == (number,) or _near(held, number)) and then()
    state.bound[var.name] = (number,)
    if then():
        return True
    del state.bound[var.name]
    return False


def _near(held: Any, number: Any) -> bool:
    return isinstance(held, tuple) and isinstance(number, (int, float)) and close(held[0], number, None, 0.0)


def _literal(literal: Literal) -> Matcher:
    wanted = f"{float(literal.value.reshape(-1)[0]):.10g}" if literal.value.size == 1 and literal.value.dtype.kind in "biuf" else str(literal.value.tolist())

    def match(state: State, name: str, then: Next) -> bool:
        if state.equals(name, literal):
            return then()
        if state.trace is None:
            return False
        return state.missed(literal.where, f"wanted the constant {wanted}, found {state.found(name)}")

    return match


def _named(name: str, inner: Matcher) -> Matcher:
    def match(state: State, tensor: str, then: Next) -> bool:
        if name in state.bound:
            return state.same(state.bound[name], tensor) and inner(state, tensor, then)
        state.bound[name] = tensor
        if inner(state, tensor, then):
            return True
        del state.bound[name]
        return False

    return match


def _any_of(forms: tuple[Matcher, ...]) -> Matcher:
    def match(state: State, name: str, then: Next) -> bool:
        return any(form(state, name, then) for form in forms)

    return match


def _inputs_matcher(operation: Operation, matchers: list[Matcher | None]) -> Callable[[State, Node, Next], bool]:
    """Match the inputs of a node: constants first, then nodes, then variables; order-free where the op is."""
    order = sorted(range(len(matchers)), key=lambda place: _weight(operation.inputs[place]))
    parameters = _moved_parameters(operation)
    optional = {
        place: value for place, value in enumerate(operation.inputs) if isinstance(value, Var) and value.optional
    }
    literals = [place for place, value in enumerate(operation.inputs) if isinstance(value, Literal)]
    checks_rank = bool(literals) and operation.op in BROADCASTING and not operation.domain
    free = operation.op in COMMUTATIVE and not operation.domain and 1 < len(matchers) <= PERMUTED_INPUTS

    def run(state: State, node: Node, inputs: tuple[str, ...], step: int, then: Next) -> bool:
        if step == len(order):
            return then()
        place = order[step]
        matcher, name = matchers[place], inputs[place] if place < len(inputs) else ""

        def on() -> bool:
            return run(state, node, inputs, step + 1, then)

        if matcher is None:
            return on() if not name else state.missed(operation.where, f"{_label(operation)} has an input {place} too many")
        if place in parameters:
            item = node.attribute(parameters[place])
            if item is not None or not name:
                return _match_parameter(state, node, parameters[place], operation.inputs[place], on)
            if parameters[place] in AXES and _same_axes(state, node, name, operation.inputs[place]):
                return on()
        if not name:
            if place in optional:
                held = state.bound.setdefault(optional[place].name, None)
                return held is None and on()
            return state.missed(operation.where, f"wanted input {place} of {_label(operation)}, found none")
        return matcher(state, name, on)

    def match(state: State, node: Node, then: Next) -> bool:
        inputs = node.inputs
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        count = len(matchers)
        if operation.rest is not None:
            if operation.rest.name in state.bound:
                return state.bound[operation.rest.name] == inputs[count:] and run(state, node, inputs, 0, then)
            state.bound[operation.rest.name] = Several(inputs[count:])
            if run(state, node, inputs, 0, then):
                return True
            del state.bound[operation.rest.name]
            return False
        if len(inputs) > count:
            return state.missed(operation.where, f"{_label(operation)} at {node.label!r} has {len(inputs)} inputs, wanted {count}")
        if checks_rank and not _keeps_rank(state, operation, inputs, literals):
            return False
        if free and len(inputs) == count:
            return any(run(state, node, order_, 0, then) for order_ in permutations(inputs))
        return run(state, node, inputs, 0, then)

    return match


def _weight(value: Value | None) -> int:
    if isinstance(value, (Literal, type(None))):
        return 0
    return 2 if isinstance(value, Var) else 1


def _moved_parameters(operation: Operation) -> dict[int, str]:
    if _is_wildcard(operation):
        return {}
    return {place: name for name, place in moved(operation.domain, operation.op).items()}


def _match_parameter(state: State, node: Node, name: str, value: Value | None, then: Next) -> bool:
    """A parameter that this opset keeps in an attribute."""
    known, found = state.attribute_value(node, name)
    if not known:
        return state.missed(node.label, f"attribute {name} is a reference to the function's own")
    if isinstance(value, Literal):
        if _same_value(state, node, name, found, value.value.tolist()):
            return then()
        return state.missed(value.where, f"wanted {name} = {value.value.tolist()}, found {found} at {node.label!r}")
    if isinstance(value, Var) and value.kind in ("scalar", "list"):
        return bind_number(state, value, found, then)
    if isinstance(value, Var) and value.optional and found is None:
        return state.bound.setdefault(value.name, None) is None and then()
    return state.missed(node.label, f"{name} is an attribute at this opset, wanted a tensor")


def _keeps_rank(state: State, operation: Operation, inputs: tuple[str, ...], literals: list[int]) -> bool:
    """A constant of shape [1] must not raise the rank of the result."""
    constants = [state.index.constants.get(state.scope, inputs[place]) for place in literals if place < len(inputs)]
    rank = max((value.array.ndim for value in constants if value is not None), default=0)
    if not rank:
        return True
    ranks = [state.rank(name) for place, name in enumerate(inputs) if place not in literals]
    known = [found for found in ranks if found is not None]
    if known and max(known) >= rank:
        return True
    return state.missed(operation.where, f"a constant of rank {rank} may raise the rank of {_label(operation)}'s result")


def _attributes_matcher(operation: Operation) -> Callable[[State, Node], bool]:
    """Compare attributes; those that the pattern does not name must be at the schema's defaults."""
    wanted, others = operation.attributes, operation.others
    parameters = set(_moved_parameters(operation).values())
    parts = operation.outputs if _label(operation) == "Split" else 0

    def match(state: State, node: Node) -> bool:
        given = node.proto.attribute
        if parts and len(node.outputs) != parts:
            return state.missed(operation.where, f"wanted {parts} outputs, found {len(node.outputs)} at {node.label!r}")
        if not given and not wanted and others is None:
            return True
        for name, value in wanted.items():
            known, found = state.attribute_value(node, name)
            if not known:
                return state.missed(operation.where, f"attribute {name} of {node.label!r} is a reference to the function's own")
            if isinstance(value, Var):
                if not bind_number(state, value, found, lambda: True):
                    return False
            elif not _same_value(state, node, name, found, value):
                return state.missed(operation.where, f"wanted {name} = {value}, found {found} at {node.label!r}")
            elif value is None and found is not None:
                return False
        extra = {item.name: item for item in given if item.name not in wanted and item.name not in parameters}
        if others is not None:
            if any(item.ref_attr_name for item in extra.values()):
                return state.missed(operation.where, f"an attribute of {node.label!r} is a reference to the function's own")
            state.bound[others.name] = ({name: plain(item) for name, item in extra.items()},)
            return True
        for name, item in extra.items():
            if not _is_default(node, name, state):
                return state.missed(
                    operation.where, f"{_label(operation)} at {node.label!r} has {name} = {_shown(item)}, which is not the default"
                )
        return True

    # What `match` binds on the way to a miss is undone by the caller, which knows how many names were bound before.
    return match


def _shown(item: Any) -> str:
    return f"reference {item.ref_attr_name}" if item.ref_attr_name else str(plain(item))[:60]


def _is_default(node: Node, name: str, state: State) -> bool:
    if name == "num_outputs" and node.op == "Split":
        return True  # from opset 18 it says what the number of outputs says before
    known, found = state.attribute_value(node, name)
    domain, _, op = node.op.rpartition("::")
    entry = schema(domain, op, node.scope.versions.get(domain))
    spec = entry.attributes.get(name) if entry is not None else None
    if not known or spec is None or spec.default is None:
        return False
    return _same_value(state, node, name, found, plain(spec.default))


def _same_value(state: State, node: Node, name: str, found: Any, wanted: Any) -> bool:
    """Whether two attribute values say the same; axes are compared modulo the rank."""
    if found is None or wanted is None:
        return found is wanted
    if isinstance(wanted, (bool, int, float)) and isinstance(found, list) and len(found) == 1:
        found = found[0]
    if isinstance(found, (int, float)) and isinstance(wanted, list) and len(wanted) == 1:
        wanted = wanted[0]
    if name in AXES and found != wanted:
        rank = state.rank(node.inputs[0])
        return rank is not None and _positive(node, found, rank) == _positive(node, wanted, rank)
    if isinstance(found, (list, float)) and not isinstance(wanted, str):
        found, wanted = np.asarray(found), np.asarray(wanted)
        if found.dtype.kind in "biuf" and wanted.dtype.kind in "biuf":
            return found.shape == wanted.shape and close(found, wanted, None, 0.0)
        return found.shape == wanted.shape and bool(np.all(found == wanted))
    return bool(found == wanted)


def _same_axes(state: State, node: Node, name: str, wanted: Value | None) -> bool:
    """Whether a constant input names the wanted axes."""
    value = state.index.constants.get(state.scope, name) if isinstance(wanted, Literal) else None
    return (
        isinstance(wanted, Literal)
        and value is not None
        and _same_value(state, node, "axes", value.array.tolist(), wanted.value.tolist())
    )


def _positive(node: Node, axes: Any, rank: int) -> list[int]:
    """Axes counted from the front; their order means something where other inputs run along with them."""
    given = axes if isinstance(axes, list) else [axes]
    if node.op == "Unsqueeze":
        rank += len(given)  # its axes are those of the result (ONNX spec, Unsqueeze-13)
    found = [axis + rank if axis < 0 else axis for axis in given]
    return found if node.op == "Slice" else sorted(found)
