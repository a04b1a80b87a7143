"""What a pattern is made of: inputs, constants, nodes to look for, and several forms of one tensor.

Where no pattern can say what a rule looks for, such as nodes that repeat one another, a search finds its sites.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from typing import Literal as OneOf

import numpy as np

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, qualified_name

CaptureKind = OneOf["tensor", "constant", "scalar", "list", "rest", "attributes"]


class Found(NamedTuple):
    """A place to rewrite.

    nodes: what goes.  outputs: the tensors of these nodes that others use; the replacement returns one for each, or an
    empty list.  Where there are no nodes, outputs are initializers whose readers are to read what the replacement
    returns.
    bound: what the replacement and the conditions may ask for by name: the name of a tensor, `Several` of them, or a
    1-tuple of any other value.  kept: nodes that stay, and that make the tensors it rests on.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    bound: Mapping[str, Any]
    kept: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """What finds the places of a rule that has no pattern.

    find: goes over one scope, once, and yields places in the order of the nodes; the scope is edited between two of
    them, so what it yields must hold whatever was done with the places before.  absent: what to say of a model in
    which it finds nothing, as a clause; left: what it says in place of that, of one scope, where it found
    something and left it on purpose ("" where it did not).  last: its rule comes behind all others, as what it finds is
    of use to none of them.
    """

    find: Callable[[Index, Scope], Iterator[Found]]
    absent: str
    last: bool = False
    left: Callable[[Index, Scope], str] | None = None
    replaces: Callable[[str], bool] | None = None

    @property
    def name(self) -> str:
        """What the search is called."""
        return str(inspect.unwrap(self.find).__name__).lstrip("_")

    def why_none(self, index: Index, scopes: Sequence[Scope]) -> str:
        """Why it finds nothing in these scopes, as a clause."""
        told = (self.left(index, scope) for scope in scopes) if self.left is not None else iter(())
        return next(filter(None, told), self.absent)

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.find) or "").partition("\n")[0]

    @property
    def where(self) -> str:
        """file:line of the search."""
        code = inspect.unwrap(self.find).__code__
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


@dataclass(eq=False, slots=True)
class Var:
    """A parameter of a pattern.  is_any: made by the pattern itself for what may be anything."""

    name: str
    kind: CaptureKind
    optional: bool = False
    is_any: bool = False


@dataclass(eq=False, slots=True)
class LiteralValue:
    """A constant by value.  rtol: relative tolerance, None for the default of its dtype."""

    value: np.ndarray[Any, np.dtype[Any]]
    rtol: float | None
    where: str


@dataclass(eq=False, slots=True)
class NodePattern:
    """A node to look for.  op may hold wildcards; attributes that are not named must be at their defaults.

    is_shared: what it makes may be used elsewhere too; the node stays then.
    """

    domain: str
    op: str
    inputs: "tuple[Value | None, ...]" = field(repr=False)  # shared values would be spelled out many times over
    attributes: dict[str, Any]
    outputs: int
    where: str
    rest: Var | None = None
    others: Var | None = None
    is_shared: bool = False


@dataclass(eq=False, slots=True)
class NodeOutput:
    """One output of a node to look for."""

    operation: NodePattern
    position: int


@dataclass(eq=False, slots=True)
class AnyOf:
    """Several forms of the same tensor."""

    forms: "tuple[Value, ...]" = field(repr=False)
    where: str


@dataclass(eq=False, slots=True)
class NamedValue:
    """An inner tensor under a name of its own."""

    name: str
    value: "Value" = field(repr=False)


Value = Var | LiteralValue | NodeOutput | AnyOf | NamedValue


@dataclass(frozen=True, slots=True)
class Constraint:
    """What must hold of a tensor of a pattern where it is matched: the predicate calls `require`.

    name: of the tensor; others: further arguments, names of captures as `NamedValue` or `Var`, else values.
    """

    name: str
    predicate: Callable[..., None]
    others: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class WordCall:
    """A value as a rule says it: a word of the vocabulary and its arguments, values or plain numbers and lists."""

    word: str
    arguments: tuple[Any, ...] = field(repr=False)
    value: Value = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A traced function.

    outputs: the tensors it returns.  captures: every name it binds; named_inner: those of g.capture; may_be_inner:
    these and what may be anything, which a match may make itself.  claims: what else must hold of a match that binds
    their names.  said: how a word says a value, by the value's id.  captures_class: the `declared_captures.Captures`
    that the function takes.  returned: how many outputs the function returns; exposed: which tensors of g.exposed are
    outputs behind them; can_expose: how many there are.  values: as `walk_values` finds them below the outputs.
    """

    name: str
    outputs: tuple[Value, ...]
    captures: frozenset[str]
    where: str
    function: Callable[..., Any] = field(repr=False)
    named_inner: frozenset[str] = frozenset()
    may_be_inner: frozenset[str] = frozenset()
    claims: tuple[Constraint, ...] = field(default=(), compare=False)
    said: "Mapping[int, WordCall]" = field(default_factory=dict, compare=False, repr=False)
    captures_class: type[Any] | None = field(default=None, compare=False)
    returned: int = field(default=1, compare=False)
    exposed: tuple[int, ...] = ()
    can_expose: int = field(default=0, compare=False)
    values: tuple[Value, ...] = field(default=(), compare=False, repr=False)


def exceeds_depth(values: Sequence[Value], limit: int) -> bool:
    """Whether more operations than a number stand one inside another below some values."""
    known: dict[int, int] = {}
    stack = [(value, False) for value in values]
    while stack:
        value, is_done = stack.pop()
        if id(value) in known:
            continue
        under = [item for item in operands(value) if item is not None]
        if is_done:
            known[id(value)] = max((known[id(item)] for item in under), default=0) + isinstance(value, NodeOutput)
        else:
            stack += [(value, True), *((item, False) for item in under)]
    return any(known[id(value)] > limit for value in values)


def walk_values(
    values: Sequence[Value | None], under: "Callable[[Value], Sequence[Value | None]] | None" = None
) -> Iterator[Value]:
    """Every value below the given ones, each once.  under: the values one step below, `operands` unless told."""
    seen: set[int] = set()
    stack, step = list(values), under or operands
    while stack:
        value = stack.pop()
        if value is not None and id(value) not in seen:
            seen.add(id(value))
            yield value
            stack += step(value)


def operands(value: Value) -> tuple[Value | None, ...]:
    """The values one step below."""
    if isinstance(value, NodeOutput):
        return value.operation.inputs
    if isinstance(value, AnyOf):
        return value.forms
    return (value.value,) if isinstance(value, NamedValue) else ()


def ops_of(pattern: Pattern) -> frozenset[str]:
    """The ops that a pattern looks for, qualified; those of all its forms."""
    return frozenset(
        qualified_name(value.operation.domain, value.operation.op)
        for value in pattern.values
        if isinstance(value, NodeOutput)
    )


def always_bound(values: Sequence[Value | None]) -> frozenset[str]:
    """The names that every match of these values binds, whichever forms it has."""
    known: dict[int, frozenset[str]] = {}

    def names(value: Value) -> frozenset[str]:
        if id(value) not in known:
            parts = [names(item) for item in operands(value) if item is not None]
            if isinstance(value, AnyOf):
                known[id(value)] = frozenset.intersection(*parts)
            else:
                known[id(value)] = frozenset(bound_names([value])).union(*parts)
        return known[id(value)]

    return frozenset().union(*(names(value) for value in values if value is not None))


def bound_names(values: Iterable[Value]) -> Iterator[str]:
    """The names that matching these values binds, those below them apart: `walk_values` has them all."""
    for value in values:
        if isinstance(value, (Var, NamedValue)):
            yield value.name
        elif isinstance(value, NodeOutput):
            operation = value.operation
            yield from (item.name for item in operation.attributes.values() if isinstance(item, Var))
            yield from (item.name for item in (operation.rest, operation.others) if item is not None)
