"""The elements of a pattern: inputs, constants, nodes to look for, and alternative forms of one tensor.

If no pattern can express what a rule looks for, such as duplicate nodes, a search finds its sites.
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
    """A place to rewrite."""

    nodes: tuple[Node, ...]
    """Nodes to remove; if empty, `outputs` are initializers whose readers get what the replacement returns."""
    outputs: tuple[str, ...]
    """Tensors of these nodes with other readers; the replacement returns one for each, or an empty list."""
    bound: Mapping[str, Any]
    """Captures by name: a tensor name, a `VariadicBinding` of several, or a 1-tuple of any other value."""
    kept: tuple[Node, ...] = ()
    """Nodes that stay, and whose outputs the match relies on."""
    rule: str = ""
    """Name of the rule that matched, if several share the search."""
    content: int = 0
    """Hash of the replacement, if the search determines it from more than the nodes."""


@dataclass(frozen=True, slots=True)
class Search:
    """Finds the sites of a rule that has no pattern."""

    find: Callable[[Index, Scope], Iterator[Found]]
    """Walks over one scope and yields sites in node order. The scope is edited in between, so each must hold whatever
    became of earlier ones."""
    absent: str
    """Why a model has no site, as a clause."""
    last: bool = False
    """Whether its rule runs after all others, since none of them needs its result."""
    left: Callable[[Index, Scope], str | None] | None = None
    """Clause used instead of `absent` for a scope with sites that it skips on purpose; None if it has none."""
    replaces: Callable[[str], bool] | None = None
    """Whether it removes nodes of an op; None: unknown."""
    limited: Callable[[int], "Search"] | None = None
    """Makes the same search with another limit of the results that it folds, in bytes; None if it folds nothing."""

    @property
    def name(self) -> str:
        """The name of its function."""
        return str(inspect.unwrap(self.find).__name__).lstrip("_")

    def why_none(self, index: Index, scopes: Sequence[Scope]) -> str:
        """Why it finds nothing in these scopes, as a clause."""
        reasons = (self.left(index, scope) for scope in scopes) if self.left is not None else iter(())
        return next(filter(None, reasons), self.absent)

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
    """A parameter of a pattern."""

    name: str
    """Capture name."""
    kind: CaptureKind
    """Its kind of capture."""
    optional: bool = False
    """Whether the input may be absent."""
    is_any: bool = False
    """Whether it is a wildcard such as g.any_tensor()."""
    is_integers: bool = False
    """Whether it is a list of integers, so that no other numbers are bound."""


@dataclass(eq=False, slots=True)
class LiteralValue:
    """A constant by value."""

    value: np.ndarray[Any, np.dtype[Any]]
    """The constant."""
    rtol: float | None
    """Relative tolerance; None: the default of its dtype."""
    where: str
    """file:line in the pattern."""


@dataclass(eq=False, slots=True)
class NodePattern:
    """A node to look for."""

    domain: str
    """Operator domain, "" for ai.onnx; wildcards allowed."""
    op: str
    """Operator type; wildcards allowed."""
    inputs: "tuple[Value | None, ...]" = field(repr=False)  # shared values would be printed many times
    """Input values; None: absent."""
    attributes: dict[str, Any]
    """Attribute values, or a Var that captures one; all others must be at their defaults."""
    outputs: int
    """Number of outputs."""
    where: str
    """file:line in the pattern."""
    rest: Var | None = None
    """Capture of all further inputs."""
    others: Var | None = None
    """Capture of all further attributes."""
    is_shared: bool = False
    """Whether its outputs may have other readers, in which case the node stays."""


@dataclass(eq=False, slots=True)
class NodeOutput:
    """One output of a node to look for."""

    operation: NodePattern
    """The node."""
    position: int
    """Index of the output."""


@dataclass(eq=False, slots=True)
class AnyOf:
    """Several forms of the same tensor."""

    forms: "tuple[Value, ...]" = field(repr=False)
    """Alternatives, in the order in which they are tried."""
    where: str
    """file:line in the pattern."""


@dataclass(eq=False, slots=True)
class NamedValue:
    """An inner tensor with a capture name."""

    name: str
    """Capture name."""
    value: "Value" = field(repr=False)
    """The tensor."""


Value = Var | LiteralValue | NodeOutput | AnyOf | NamedValue


@dataclass(frozen=True, slots=True)
class Constraint:
    """A predicate on a tensor of a pattern, checked on a match."""

    name: str
    """Capture name of the tensor."""
    predicate: Callable[..., None]
    """Function that calls `require`."""
    others: tuple[Any, ...]
    """Further arguments: captures as `NamedValue` or `Var`, else values."""


@dataclass(frozen=True, slots=True)
class WordCall:
    """A call of a composite helper in a rule."""

    word: str
    """Name of the helper."""
    arguments: tuple[Any, ...] = field(repr=False)
    """Values, plain numbers and lists."""
    value: Value = field(repr=False)
    """The value that the helper returned."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A traced function.  Caches use it as a key, so one frozen record has all results of the trace."""

    name: str
    """Name of the function."""
    outputs: tuple[Value, ...]
    """The tensors that it returns, then those of `exposed`."""
    captures: frozenset[str]
    """All names that a match can bind."""
    where: str
    """file:line of the function."""
    function: Callable[..., Any] = field(repr=False)
    """The function."""
    named_inner: frozenset[str] = frozenset()
    """Names given with g.capture."""
    may_be_inner: frozenset[str] = frozenset()
    """Captures that a match may produce itself: `named_inner` and wildcards."""
    claims: tuple[Constraint, ...] = field(default=(), compare=False)
    """Constraints on a match that binds their names."""
    helper_calls: "Mapping[int, WordCall]" = field(default_factory=dict, compare=False, repr=False)
    """Helper calls, by the id of the value that each returned."""
    captures_class: type[Any] | None = field(default=None, compare=False)
    """The subclass of `Captures` that the function takes."""
    returned: int = field(default=1, compare=False)
    """Number of outputs that the function returns."""
    exposed: tuple[int, ...] = ()
    """Indices of the tensors of g.exposed that are outputs too."""
    can_expose: int = field(default=0, compare=False)
    """Number of tensors of g.exposed."""
    values: tuple[Value, ...] = field(default=(), compare=False, repr=False)
    """All values below the outputs, in the order of `walk_values`."""


def exceeds_depth(values: Sequence[Value], limit: int) -> bool:
    """Whether more than `limit` operations are nested below some values."""
    if len([value for value in walk_values(values) if isinstance(value, NodeOutput)]) <= limit:
        return False  # the quick answer, which nearly all patterns get
    known: dict[int, int] = {}
    stack = [(value, False) for value in values]
    while stack:
        value, is_done = stack.pop()
        if id(value) in known:
            continue
        if not is_done:
            stack.append((value, True))
        deepest = 0
        for item in operands(value):
            if is_done and item is not None:
                deepest = max(deepest, known[id(item)])
            elif item is not None and id(item) not in known:
                stack.append((item, False))
        if is_done:
            known[id(value)] = deepest + isinstance(value, NodeOutput)
    return any(known[id(value)] > limit for value in values)


def walk_values(
    values: Sequence[Value | None], under: "Callable[[Value], Sequence[Value | None]] | None" = None
) -> list[Value]:
    """Every value below the given ones, each once.  under: returns the values one step below; `operands` by default."""
    found: dict[int, Value] = {}
    stack = list(values)
    while stack:
        value = stack.pop()
        if value is None or id(value) in found:
            continue
        found[id(value)] = value
        if under is not None:
            stack += under(value)
        elif isinstance(value, NodeOutput):  # as `operands`, without a call for each value
            stack += value.operation.inputs
        elif isinstance(value, AnyOf):
            stack += value.forms
        elif isinstance(value, NamedValue):
            stack.append(value.value)
    return list(found.values())


def operands(value: Value) -> tuple[Value | None, ...]:
    """The values one step below."""
    if isinstance(value, NodeOutput):
        return value.operation.inputs
    if isinstance(value, AnyOf):
        return value.forms
    return (value.value,) if isinstance(value, NamedValue) else ()


def ops_of(pattern: Pattern) -> frozenset[str]:
    """The ops of a pattern, qualified, in all its forms."""
    operations = [value.operation for value in pattern.values if isinstance(value, NodeOutput)]
    return frozenset([qualified_name(domain, op) for domain, op in {(one.domain, one.op) for one in operations}])


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


def bound_names(values: Iterable[Value]) -> list[str]:
    """The names that these values bind themselves, without the values below them."""
    found: list[str] = []
    for value in values:
        if isinstance(value, (Var, NamedValue)):
            found.append(value.name)
        elif isinstance(value, NodeOutput):
            operation = value.operation
            items = (*operation.attributes.values(), operation.rest, operation.others)
            found += [item.name for item in items if isinstance(item, Var)]
    return found
