"""A pattern: a Python function traced once on a recording `gs.Graph`.

    def exact(g: Graph, x: Tensor) -> Tensor:
        return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2 ** 0.5)), 1.0))

What a parameter stands for is read from its annotation:

    x: Tensor                  any tensor; the same name means the same tensor
    w: Constant                a tensor whose value is fixed in the file
    alpha: float               the number in a scalar constant, or an attribute's value (int, str, list likewise)
    bias: Tensor | None = None an input that may be left out
    *rest: Tensor              all further inputs of a variadic op
    **attributes: object       all further attributes of a node
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from typing import Literal as OneOf

import numpy as np
import onnx_graphsurgeon as gs

from surgeon.errors import RuleError
from surgeon.graph import ASSOCIATIVE, Graph, Tensor
from surgeon.ops.schemas import bind

Kind = OneOf["tensor", "constant", "scalar", "list", "rest", "attributes"]
OTHERS = "__others__"


@dataclass(eq=False, slots=True)
class Var:
    """A parameter of a pattern."""

    name: str
    kind: Kind
    optional: bool = False


@dataclass(eq=False, slots=True)
class Literal:
    """A constant by value.  rtol: relative tolerance, None for the default of its dtype."""

    value: np.ndarray[Any, np.dtype[Any]]
    rtol: float | None
    where: str


@dataclass(eq=False, slots=True)
class Operation:
    """A node to look for.  op may hold wildcards; attributes that are not named must be at their defaults."""

    domain: str
    op: str
    inputs: "tuple[Value | None, ...]"
    attributes: dict[str, Any]
    outputs: int
    where: str
    rest: Var | None = None
    others: Var | None = None


@dataclass(eq=False, slots=True)
class Output:
    """One output of a node to look for."""

    operation: Operation
    position: int


@dataclass(eq=False, slots=True)
class AnyOf:
    """Several forms of the same tensor."""

    forms: "tuple[Value, ...]"
    where: str


@dataclass(eq=False, slots=True)
class Named:
    """An inner tensor under a name of its own."""

    name: str
    value: "Value"


Value = Var | Literal | Output | AnyOf | Named


@dataclass(frozen=True, slots=True)
class Pattern:
    """A traced function.

    outputs: the tensors it returns.  captures: every name it binds; inner: those of g.capture.
    """

    name: str
    outputs: tuple[Value, ...]
    captures: frozenset[str]
    where: str
    function: Callable[..., Any] = field(repr=False)
    inner: frozenset[str] = frozenset()


class Symbol(gs.Variable):
    """The tensor that a pattern function sees while it is traced."""

    def __init__(self, name: str, value: Value) -> None:
        super().__init__(name)
        self.value = value

    def __bool__(self) -> bool:
        raise RuleError(
            f"A pattern cannot branch on {self.name!r}: it is traced once, before there is a model; "
            "use g.any_of for forms and a condition for what depends on a match."
        )


def _no_operator(helper: str) -> Callable[..., Any]:
    def refuse(self: Symbol, *_: Any) -> Any:
        raise RuleError(f"Tensors of a pattern have no operators; write g.{helper}(...) with {self.name!r} in it.")

    return refuse


for _name, _helper in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("pow", "pow")):
    setattr(Symbol, f"__{_name}__", _no_operator(_helper))
    setattr(Symbol, f"__r{_name}__", _no_operator(_helper))
Symbol.__matmul__ = _no_operator("matmul")
Symbol.__neg__ = _no_operator("neg")


class PatternGraph(Graph):
    """A `gs.Graph` that records what to look for."""

    def helper_opset(self) -> int | None:
        """Patterns hold for every opset."""
        return None

    def call(self, domain: str, op: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Record a node of a known op."""
        if op in ASSOCIATIVE and not domain and len(args) > 2:
            args = (self.call(domain, op, args[:-1], kwargs), args[-1])
        named = dict(kwargs)
        others = named.pop(OTHERS, None)
        bound = bind(domain, op, args, named, None)
        attributes = bound.attributes if others is None else {**bound.attributes, OTHERS: others}
        found = self.emit(domain, op, bound.inputs, attributes, bound.outputs)
        return tuple(found) if bound.several else found[0]

    def emit(self, domain: str, op: str, inputs: Sequence[Any], attributes: dict[str, Any], outputs: int) -> list[Any]:
        """Record one node."""
        where = caller()
        given = dict(attributes)
        others = given.pop(OTHERS, None)
        values = [self._value(item, where) for item in inputs]
        rest = next((value for value in values if isinstance(value, Var) and value.kind == "rest"), None)
        if rest is not None and values[-1] is not rest:
            raise RuleError(f"{where}: *{rest.name} must be the last input of {op}.")
        operation = Operation(
            "" if domain == "ai.onnx" else domain,
            op,
            tuple(value for value in values if value is not rest),
            {name: item.value if isinstance(item, Symbol) else item for name, item in given.items()},
            outputs,
            where,
            rest,
            others.value if others is not None else None,
        )
        return [Symbol(self._fresh(op), Output(operation, position)) for position in range(outputs)]

    def any_of(self, *forms: Tensor) -> Tensor:
        """Any of several forms; they are tried in the order given."""
        where = caller()
        values = tuple(self._required(form, where) for form in forms)
        if not values:
            raise RuleError(f"{where}: any_of needs at least one form.")
        return Symbol(self._fresh("any_of"), AnyOf(values, where))

    def optional(self, tensor: Tensor) -> Tensor:
        """A node that may be left out: its first input then stands for it."""
        where = caller()
        value = self._required(tensor, where)
        if not isinstance(value, Output) or not value.operation.inputs or value.operation.inputs[0] is None:
            raise RuleError(f"{where}: optional wants a node with an input, such as g.optional(g.cast(x)).")
        return Symbol(self._fresh("optional"), AnyOf((value, value.operation.inputs[0]), where))

    def capture(self, name: str, tensor: Tensor) -> Tensor:
        """Give an inner tensor a name that conditions and replacements can ask for."""
        return Symbol(name, Named(name, self._required(tensor, caller())))

    def literal(self, value: Any, *, rtol: float | None = None) -> Tensor:
        """A constant by value, with a relative tolerance of its own."""
        return Symbol(self._fresh("literal"), Literal(np.asarray(value), rtol, caller()))

    def _required(self, item: Any, where: str) -> Value:
        value = self._value(item, where)
        if value is None:
            raise RuleError(f"{where}: expected a tensor, found None.")
        return value

    def _value(self, item: Any, where: str) -> Value | None:
        if item is None or (isinstance(item, gs.Variable) and item.name == ""):
            return None
        if isinstance(item, Symbol):
            return item.value
        if isinstance(item, gs.Constant):
            return Literal(np.asarray(item.values), None, where)
        if isinstance(item, gs.Tensor):
            raise RuleError(f"{where}: tensor {item.name!r} was not made by this pattern's graph.")
        try:
            array = np.asarray(item)
        except ValueError as error:
            raise RuleError(f"{where}: {item!r} is neither a tensor of the pattern nor a constant.") from error
        if array.dtype == object:
            raise RuleError(
                f"{where}: {item!r} is neither a tensor of the pattern nor a constant; "
                "a helper that returns a list needs its tensor taken out with [0]."
            )
        return Literal(array, None, where)


def trace(function: Callable[..., Any]) -> tuple[Pattern, ...]:
    """Run a pattern function once; forms at its root become patterns of their own.

    Raises RuleError when the function returns no tensor or uses an op or argument that does not exist.
    """
    home = (function.__module__ or "").partition(".")[0]
    graph = PatternGraph(home=home)
    code = getattr(function, "__code__", None)
    where = f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else function.__name__
    variables = list(_variables(function, where))
    positional = [Symbol(item.name, item) for item in variables if item.kind != "attributes"]
    others = [Symbol(item.name, item) for item in variables if item.kind == "attributes"]
    returned = function(graph, *positional, **({OTHERS: others[0]} if others else {}))
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if not results or not all(isinstance(item, Symbol) for item in results):
        raise RuleError(f"Pattern {function.__name__} ({where}) must return the tensor or tensors that it matches.")
    first, *further = [item.value for item in results]
    patterns = []
    for root in _roots(first):
        if isinstance(root, (Var, Literal)):
            raise RuleError(f"Pattern {function.__name__} ({where}) returns an input as it is, so it matches nothing.")
        outputs = (root, *further)
        names = frozenset(captured(outputs))
        inner = frozenset(value.name for value in walk(outputs) if isinstance(value, Named))
        patterns.append(Pattern(function.__name__, outputs, names, where, function, inner))
    return tuple(patterns)


def walk(
    values: Sequence[Value | None], under: "Callable[[Value], Sequence[Value | None]] | None" = None
) -> Iterator[Value]:
    """Every value below the given ones, each once.  under: the values one step below, `below` unless told."""
    seen: set[int] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        stack.extend((under or below)(value))


def below(value: Value) -> tuple[Value | None, ...]:
    """The values one step below."""
    if isinstance(value, Output):
        return value.operation.inputs
    if isinstance(value, AnyOf):
        return value.forms
    return (value.value,) if isinstance(value, Named) else ()


def captured(values: Sequence[Value | None]) -> Iterator[str]:
    """The names that matching these values binds."""
    for value in walk(values):
        if isinstance(value, (Var, Named)):
            yield value.name
        elif isinstance(value, Output):
            operation = value.operation
            yield from (item.name for item in operation.attributes.values() if isinstance(item, Var))
            yield from (item.name for item in (operation.rest, operation.others) if item is not None)


def caller() -> str:
    """file:line of the rule that called into surgeon."""
    frame = sys._getframe(1)
    here = f"{Path(__file__).parents[1]}{os.sep}"
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _roots(value: Value) -> Iterator[Value]:
    if isinstance(value, AnyOf):
        for form in value.forms:
            yield from _roots(form)
    else:
        yield value


def _variables(function: Callable[..., Any], where: str) -> Iterator[Var]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError:  # an annotation imported for type checkers only: its text is enough
        signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    if not signature.parameters:
        raise RuleError(f"Pattern {function.__name__} ({where}) needs the graph as its first parameter.")
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            yield Var(parameter.name, "rest")
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            yield Var(parameter.name, "attributes")
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            raise RuleError(f"Pattern {function.__name__} ({where}): write {parameter.name} without the bare *.")
        else:
            yield Var(parameter.name, _kind(parameter.annotation), parameter.default is None)


def _kind(annotation: Any) -> Kind:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    words = set(re.findall(r"\w+", text))
    if words & {"list", "tuple", "List", "Tuple", "Sequence"}:
        return "list"
    if words & {"float", "int", "str", "bool"}:
        return "scalar"
    return "constant" if "Constant" in words else "tensor"
