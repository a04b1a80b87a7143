"""Traces a pattern: a Python function, called once on a recording `gs.Graph`.

    def exact(g: Graph, x: Tensor) -> Tensor:
        return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2 ** 0.5)), 1.0))

The annotation of a parameter decides what it captures:

    x: Tensor                  any tensor; the same name means the same tensor
    w: Constant                a tensor whose value is fixed in the file
    alpha: float               the number in a scalar constant, or an attribute's value (int, str, list likewise)
    bias: Tensor | None = None an input that may be absent
    *rest: Tensor              all further inputs of a variadic op
    **attributes: object       all further attributes of a node

A parameter annotated as a `Captures` class (`surgeon.rules.tracing.declared_captures`) has all of its fields.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from surgeon.errors import RuleError
from surgeon.ops.builder.graph import ASSOCIATIVE, Graph, Tensor
from surgeon.ops.builder.tensor_operators import Operators, building
from surgeon.ops.schemas import bind
from surgeon.ops.traits.trait_lookup import FOR_TWO, MIRRORED
from surgeon.rules.matching.pattern import (
    AnyOf,
    Constraint,
    LiteralValue,
    NamedValue,
    NodeOutput,
    NodePattern,
    Pattern,
    Value,
    Var,
    WordCall,
    bound_names,
    exceeds_depth,
    operands,
    walk_values,
)
from surgeon.rules.tracing.annotations import (
    ModelAccessWhileTracing,
    Parameter,
    TracedAttributes,
    accepts_arguments,
    is_list_of_integers,
    parameters_of,
    require_kind,
)
from surgeon.rules.tracing.declared_captures import Captures, captures_class_of, traced_captures

OTHERS = "__others__"
EXPOSABLE = 8  # maximum number of exposed tensors: there is a pattern for each subset
DEPTH = 120  # nesting that Python's stack allows, with room for callers
OF_MODELS = frozenset({"dtype", "shape", "rank", "elements", "choice", "columns", "values", "is_constant"})
HERE = f"{Path(__file__).parents[2]}{os.sep}"
RULES = f"{HERE}patterns{os.sep}"  # the built-in rules in a wheel


class TracedTensor(Operators, gs.Variable):
    """The tensor that a pattern function sees while it is traced.

    as_input: its value as an input of a node, if it differs from that as an attribute.
    """

    value: Value
    as_input: Value

    def __init__(self, name: str, value: Value, as_input: Value | None = None) -> None:
        # gs's own attributes are slow to set and rarely read: see __getattr__.
        self.__dict__.update(name=name, value=value, as_input=as_input or value, is_whole=False)

    def __getattr__(self, name: str) -> Any:
        if name in OF_MODELS:
            raise ModelAccessWhileTracing(
                f"{rule_location()}: a pattern is traced without a model, so {self.name} has no {name} yet. Check "
                "it in a condition."
            )
        if name.startswith("__") or self.__dict__["is_whole"]:
            raise AttributeError(f"A tensor of a pattern has no {name!r}.")
        self.__dict__["is_whole"] = True
        super().__init__(self.name)
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"<tensor {self.name} of a pattern>"

    __str__ = __repr__

    def __bool__(self) -> bool:
        raise RuleError(
            f"A pattern cannot branch on {self.name!r}, because surgeon traces it once, without a model. "
            "Use g.any_of for alternatives, or check the match in a condition."
        )

    def __float__(self) -> float:
        raise ModelAccessWhileTracing(
            f"{rule_location()}: a pattern is traced without a model, so the value of {self.name} is unknown. "
            "Compute with it in a condition or in the replacement."
        )

    __int__ = __index__ = __float__

    def require_operand(self, other: Any) -> None:
        """Raise ModelAccessWhileTracing for arithmetic of two numbers, which a pattern does not know yet."""
        if self.is_number and (not isinstance(other, TracedTensor) or other.is_number):
            float(self)

    @property
    def is_number(self) -> bool:
        """Whether it is a number, not a tensor."""
        return isinstance(self.value, Var) and self.value.kind in ("scalar", "list")


class PatternGraph(Graph):
    """A `gs.Graph` that records what to look for.

    claims: constraints of `such_that`.  helper_calls: helper calls.  exposable: tensors of `exposed`.
    """

    def __init__(self, *, home: str = "") -> None:
        self.claims: list[Constraint] = []
        self.exposable: list[Value] = []
        self.helper_calls: dict[int, WordCall] = {}
        super().__init__(home=home)

    def say(self, name: str, word: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Call a composite helper, and record the call."""
        found = word(self, *args)
        if not isinstance(found, TracedTensor):  # several tensors, not one value
            return found
        given = tuple(item.value if isinstance(item, TracedTensor) else item for item in args)
        self.helper_calls.setdefault(id(found.value), WordCall(name, given, found.value))
        return found

    def helper_opset(self) -> int | None:
        """Patterns hold for every opset."""
        return None

    def call(self, domain: str, op: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Record a node of a known op."""
        if op in ASSOCIATIVE and not domain and len(args) > 2:
            args = (self.call(domain, op, args[:-1], kwargs), args[-1])
        named = dict(kwargs)
        others = named.pop(OTHERS, None)
        held = [item for item in named.values() if isinstance(item, TracedTensor)]
        if op == "Constant" and held:
            return held[0]  # a captured number, however the model stores it
        if op == "CastLike" and args and isinstance(args[0], TracedTensor) and args[0].as_input is not args[0].value:
            return args[0]  # a cast is allowed anyway
        bound = bind(domain, op, args, kwargs=named, opset=None)
        attributes = bound.attributes if others is None else {**bound.attributes, OTHERS: others}
        found = self.emit(domain, op, bound.inputs, attributes=attributes, outputs=bound.outputs)
        if op in MIRRORED and not domain:
            swapped = self.emit("", MIRRORED[op], bound.inputs[::-1], attributes=bound.attributes, outputs=1)
            return self.any_of(*found, *swapped)
        return tuple(found) if bound.several else found[0]

    def emit(self, domain: str, op: str, inputs: Sequence[Any], attributes: dict[str, Any], outputs: int) -> list[Any]:
        """Record one node."""
        where = rule_location()
        given = dict(attributes)
        others = given.pop(OTHERS, None)
        values = [self._value(item, where) for item in inputs]
        rest = next((value for value in values if isinstance(value, Var) and value.kind == "rest"), None)
        if rest is not None and values[-1] is not rest:
            raise RuleError(f"{where}: *{rest.name} must be the last input of {op}.")
        domain = "" if domain == "ai.onnx" else domain
        operation = NodePattern(
            domain,
            FOR_TWO.get(op, op) if not domain and rest is None and len(values) == 2 else op,
            tuple(values if rest is None else [value for value in values if value is not rest]),
            attributes={name: item.value if isinstance(item, TracedTensor) else item for name, item in given.items()},
            outputs=outputs,
            where=where,
            rest=rest,
            others=others.value if others is not None else None,
        )
        return [TracedTensor(self._fresh(op), NodeOutput(operation, position)) for position in range(outputs)]

    def any_of(self, *forms: Tensor) -> Tensor:
        """Any of several forms; they are tried in the given order."""
        where = rule_location()
        values = tuple([self._required(form, where) for form in forms])
        if not values:
            raise RuleError(f"{where}: any_of needs at least one alternative.")
        return TracedTensor(self._fresh("any_of"), AnyOf(values, where))

    def optional(self, tensor: Tensor) -> Tensor:
        """A node that may be missing: its first input then replaces it."""
        where = rule_location()
        value = self._required(tensor, where)
        if not isinstance(value, NodeOutput) or not value.operation.inputs or value.operation.inputs[0] is None:
            raise RuleError(f"{where}: optional needs a node with an input, such as g.optional(g.cast(x, to=1)).")
        return TracedTensor(self._fresh("optional"), AnyOf((value, value.operation.inputs[0]), where))

    def capture(self, name: str, tensor: Tensor) -> Tensor:
        """Name an inner tensor, so that conditions and replacements can read it."""
        value = self._required(tensor, rule_location())
        if name in [item.name for item in walk_values([value]) if isinstance(item, (Var, NamedValue))]:
            raise RuleError(f"{rule_location()}: this tensor already contains a capture {name!r}. Choose another name.")
        return TracedTensor(name, NamedValue(name, value))

    def shared(self, tensor: Tensor) -> Tensor:
        """An inner tensor with any readers: its node, and the producers of its inputs, stay."""
        where = rule_location()
        first = [self._required(tensor, where)]
        for value in walk_values(first, lambda item: () if isinstance(item, NodeOutput) else operands(item)):
            if isinstance(value, (Var, LiteralValue)):
                raise RuleError(
                    f"{where}: shared needs a node, such as g.shared(g.transpose(x)). Inputs are kept anyway."
                )
            if isinstance(value, NodeOutput):
                value.operation.is_shared = True
        return tensor

    def exposed(self, tensor: Tensor) -> Tensor:
        """An inner tensor that becomes a further output if it has other readers."""
        where = rule_location()
        value = self._required(tensor, where)
        if isinstance(value, (Var, LiteralValue)):
            raise RuleError(f"{where}: exposed needs a node, such as g.exposed(g.add(x, y)). Inputs are kept anyway.")
        if len(self.exposable) == EXPOSABLE:
            raise RuleError(f"{where}: a pattern can expose at most {EXPOSABLE} tensors.")
        self.exposable.append(value)
        return tensor

    def named(self, tensor: Tensor) -> Tensor:
        """A tensor that `such_that` can refer to."""
        value = self._required(tensor, rule_location())
        if isinstance(value, (NamedValue, Var)):
            return tensor
        name = self._fresh("_named")
        return TracedTensor(name, NamedValue(name, value))

    def such_that(self, tensor: Tensor, predicate: Callable[..., None], *others: Any) -> Tensor:
        """A tensor with a further constraint, checked once the whole pattern matches."""
        where = rule_location()
        if not accepts_arguments(predicate, 1 + len(others)):
            raise RuleError(
                f"{where}: such_that needs a function of the tensor and of the further arguments, which calls require."
            )
        name = self._fresh("_such_that")
        values = [item.value if isinstance(item, TracedTensor) else item for item in others]
        unnamed = [item for item in values if isinstance(item, (NodeOutput, AnyOf, LiteralValue))]
        if unnamed:
            raise RuleError(f"{where}: further arguments of such_that must be parameters or g.named(...).")
        self.claims.append(Constraint(name, predicate, tuple(values)))
        return TracedTensor(name, NamedValue(name, self._required(tensor, where)))

    def any_tensor(self) -> Tensor:
        """An input that may be any tensor."""
        name = self._fresh("_any")
        return TracedTensor(name, Var(name, "tensor", is_any=True))

    def any_number(self) -> Tensor:
        """An input that may be any scalar constant."""
        name = self._fresh("_any")
        return TracedTensor(name, Var(name, "scalar", is_any=True))

    def literal(self, value: Any, *, rtol: float | None = None) -> Tensor:
        """A constant by value.  rtol: relative tolerance; None: the default of its dtype."""
        return TracedTensor(self._fresh("literal"), LiteralValue(np.asarray(value), rtol, rule_location()))

    def _required(self, item: Any, where: str) -> Value:
        value = self._value(item, where)
        if value is None:
            raise RuleError(f"{where}: expected a tensor, found None.")
        return value

    def _value(self, item: Any, where: str) -> Value | None:
        if item is None or (isinstance(item, gs.Variable) and item.name == ""):
            return None
        if isinstance(item, TracedTensor):
            return item.as_input
        if isinstance(item, gs.Constant):
            return LiteralValue(np.asarray(item.values), None, where)
        if isinstance(item, gs.Tensor):
            raise RuleError(f"{where}: tensor {item.name!r} belongs to another graph.")
        try:
            array = np.asarray(item)
        except ValueError as error:
            raise RuleError(f"{where}: {item!r} is neither a tensor of the pattern nor a constant.") from error
        if array.dtype == object:
            raise RuleError(
                f"{where}: {item!r} is neither a tensor of the pattern nor a constant. "
                "If a helper returned a list, take a tensor from it with [0]."
            )
        return LiteralValue(array.astype(object) if array.dtype.kind == "U" else array, None, where)


def trace(function: Callable[..., Any]) -> tuple[Pattern, ...]:
    """Call a pattern function once; alternatives at its root become separate patterns.

    Raises RuleError if the function returns no tensor or uses an op or argument that does not exist.
    """
    home = (function.__module__ or "").partition(".")[0]
    graph = PatternGraph(home=home)
    code = getattr(function, "__code__", None)
    where = f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else function.__name__
    arguments, keywords, record = _traced_arguments(function, graph, where)
    with building(graph):
        returned = function(graph, *arguments, **keywords)
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if not results or not all(isinstance(item, TracedTensor) for item in results):
        raise RuleError(f"Pattern {function.__name__} ({where}) must return one or more tensors.")
    first, *further = [item.value for item in results]
    if exceeds_depth((first, *further), DEPTH):
        raise RuleError(
            f"Pattern {function.__name__} ({where}) nests more than {DEPTH} operations. Split it into several rules."
        )
    patterns = []
    for root, exposed in product(_roots(first), _choices(graph.exposable)):
        if isinstance(root, (Var, LiteralValue)):
            raise RuleError(f"Pattern {function.__name__} ({where}) returns an input unchanged, so it matches nothing.")
        outputs = (root, *further, *(graph.exposable[place] for place in exposed))
        values = tuple(walk_values(outputs))
        inner = frozenset([value.name for value in values if isinstance(value, NamedValue)])
        pattern = Pattern(
            name=function.__name__,
            outputs=outputs,
            captures=frozenset(bound_names(values)),
            where=where,
            function=function,
            named_inner=inner,
            may_be_inner=inner.union([value.name for value in values if isinstance(value, Var) and value.is_any]),
            claims=tuple(graph.claims),
            helper_calls=graph.helper_calls,
            captures_class=record,
            returned=len(results),
            exposed=exposed,
            can_expose=len(graph.exposable),
            values=values,
        )
        patterns.append(pattern)
    return tuple(patterns)


def _choices(exposable: Sequence[Value]) -> list[tuple[int, ...]]:
    """The subsets of the exposed tensors that have readers: the empty one first."""
    places = range(len(exposable))
    return [chosen for count in range(len(exposable) + 1) for chosen in combinations(places, count)]


def rule_location() -> str:
    """file:line of the rule that called into surgeon."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{_base(frame.f_code.co_filename)}:{frame.f_lineno}"


@cache
def _is_ours(file: str) -> bool:
    """Whether a file belongs to the engine and is not a rule file."""
    return file.startswith(HERE) and not file.startswith(RULES)


_base = cache(os.path.basename)


def _roots(value: Value) -> Iterator[Value]:
    if isinstance(value, AnyOf):
        for form in value.forms:
            yield from _roots(form)
    else:
        yield value


def _traced_arguments(
    function: Callable[..., Any], graph: PatternGraph, where: str
) -> tuple[list[Any], dict[str, Any], type[Captures] | None]:
    """The arguments of a pattern function after the graph, and the `Captures` class among them."""
    parameters = parameters_of(function)
    if not parameters:
        raise RuleError(f"Pattern {function.__name__} ({where}) needs the graph as its first parameter.")
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    record: type[Captures] | None = None
    for parameter in parameters[1:]:
        kind = captures_class_of(parameter)
        if kind is not None:
            if record is not None:
                raise RuleError(
                    f"Pattern {function.__name__} ({where}) takes two records. Make one a field of the other."
                )
            record = kind
            arguments.append(traced_captures(kind, _field, graph.capture))
        elif parameter.how is inspect.Parameter.KEYWORD_ONLY:
            raise RuleError(f"Pattern {function.__name__} ({where}): write {parameter.name} without the bare *.")
        elif parameter.how is inspect.Parameter.VAR_KEYWORD:
            keywords[OTHERS] = _symbol(parameter)
        else:
            require_kind(parameter, f"Pattern {function.__name__} ({where})")
            arguments.append(_symbol(parameter))
    return arguments, keywords, record


def _symbol(parameter: Parameter) -> TracedTensor:
    is_integers = parameter.kind == "list" and is_list_of_integers(parameter.type)
    var = Var(parameter.name, parameter.kind, parameter.default is None, is_integers=is_integers)
    return TracedTensor(parameter.name, var)


def _field(parameter: Parameter) -> Any:
    """The value of a field of captures: to be unpacked if there may be several."""
    symbol = _symbol(parameter)
    if parameter.kind == "attributes":
        return TracedAttributes({OTHERS: symbol})
    return (symbol,) if parameter.kind == "rest" else symbol
