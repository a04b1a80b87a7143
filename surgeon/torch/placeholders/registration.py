"""`surgeon.torch.register`: symbolic functions and placeholders for all exports of this process."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from surgeon.errors import ExportError, UsageError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, qualified_name
from surgeon.ops.torch_schema import TorchSchema
from surgeon.ops.traversal import nodes_of
from surgeon.pipeline.rewriting.rewrite import rewrite
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.rule import Rule, rule
from surgeon.torch.placeholders.class_operators import call_signature
from surgeon.torch.placeholders.export_plan import ExportState
from surgeon.torch.placeholders.placeholder import OperatorLike, Placeholder, placeholder, require_exportable, schema_of

Symbolic = Callable[..., Any]
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(eq=False)
class Registration:
    """The registrations of one operator."""

    placeholder: Placeholder
    """The placeholder of the operator."""
    symbolics: dict[int, Symbolic | None] = field(default_factory=dict)
    """The symbolic functions by their first opset; None for a placeholder."""

    def at(self, opset: int) -> int | None:
        """The highest registered opset up to this one."""
        return max((one for one in self.symbolics if one <= opset), default=None)


_registered: dict[Any, Registration] = {}


def register(op: OperatorLike, symbolic: Symbolic | None = None, *, name: str | None = None, opset: int = 1) -> Any:
    """Register a function that writes an operator in every export, with either exporter.

    The function is used from `opset` of ai.onnx up to the next registered opset.  An export at a lower opset raises
    ExportError.  A later registration for the same opset replaces the earlier one.

    Args:
        op: "ns::name", a torch.ops operator, an autograd.Function or an nn.Module class.
        symbolic: builds the nodes with the helpers of `surgeon.Graph`.  Its parameters after the graph are arguments of
            the operator, by their names in torch's schema.  A parameter with another name is taken by position, as in
            torch's own symbolic functions.  Arguments are tensors (None if omitted) and plain values.  A keyword-only
            parameter that the schema does not have keeps its default (out=None).  Without a symbolic the operator
            becomes a placeholder, and the returned decorator registers a symbolic.
        name: `domain::Name` of the placeholder; by default that of the operator.
        opset: first opset at which the function is used.

    Returns:
        The symbolic, or a decorator for one.

    Raises:
        UsageError: torch does not have the operator, or the operator does not have a parameter.

    Examples:
        >>> import torch, surgeon.torch
        >>> @surgeon.torch.register("aten::asinh", opset=9)
        ... def asinh(g, self):
        ...     return g.asinh(self)
        >>> surgeon.torch.unregister("aten::asinh")
    """
    if isinstance(opset, bool) or not isinstance(opset, int) or opset < 1:
        raise UsageError(f"opset must be an integer of at least 1, not {opset!r}.")
    one = placeholder(op, name, asked=False)
    require_exportable(one)
    if symbolic is not None:
        _require_parameters(one, symbolic)
    entry = _registered.get(_key(one))
    if entry is None or name is not None:
        entry = _registered[_key(one)] = Registration(one, entry.symbolics if entry else {})
    entry.symbolics[opset] = symbolic
    if symbolic is not None:
        return symbolic

    def decorate(function: Symbolic) -> Symbolic:
        _require_parameters(one, function)
        entry.symbolics[opset] = function
        return function

    return decorate


def unregister(op: OperatorLike, opset: int | None = None) -> None:
    """Undo `register` for an operator.

    Args:
        op: as for `register`.
        opset: opset of the registration; None for all.

    Raises:
        UsageError: nothing is registered.

    Examples:
        >>> import surgeon.torch
        >>> _ = surgeon.torch.register("aten::asinh", lambda g, self: g.asinh(self), opset=9)
        >>> surgeon.torch.unregister("aten::asinh", opset=9)
    """
    one = placeholder(op, asked=False)
    entry = _registered.get(_key(one))
    if entry is None or (opset is not None and opset not in entry.symbolics):
        where = "" if opset is None else f" for opset {opset}"
        raise UsageError(f"Nothing is registered for {one.label}{where}.")
    if opset is not None:
        del entry.symbolics[opset]
    if opset is None or not entry.symbolics:
        del _registered[_key(one)]


def registrations(asked: Sequence[Placeholder]) -> list[Registration]:
    """The registrations, without operators that the export names itself."""
    taken = {key for one in asked for key in (one.ops or (one.cls,))}
    return [
        entry for entry in _registered.values() if not taken.intersection(entry.placeholder.ops or {_key_of(entry)})
    ]


def replace(
    model: onnx.ModelProto, registered: Sequence[Registration], plan: ExportState, counts: Counter[str], opset: int
) -> tuple[onnx.ModelProto, Counter[str]]:
    """Replace the placeholders of registered operators with the nodes that their symbolic functions build.

    Returns the model and the number of remaining placeholders by name.  Raises ExportError if an operator is only
    registered for higher opsets, and if a symbolic function declines a node.
    """
    left = Counter(counts)
    rules = []
    for entry in registered:
        one = entry.placeholder
        if not any(written.placeholder is one for written in plan.calls_by_output.values()):
            continue
        at = entry.at(opset)
        if at is None:
            raise ExportError(
                f"{one.label} is registered for opset {min(entry.symbolics)} and above, but the export writes {opset}. "
                f"Register it for opset {opset} too, or export at opset {min(entry.symbolics)}."
            )
        function = entry.symbolics[at]
        if function is not None:
            rules.append((one, _rule(one, function, plan)))
    if not rules:
        return model, left
    made, report = rewrite(model, [each for _, each in rules], target="onnx", check="none")
    for one, each in rules:
        wanted = sum(written.placeholder is one for written in plan.calls_by_output.values())
        done = sum(site.rule == each.name for site in report.sites)
        left[one.name] -= done
        if done < wanted:
            why = next((miss.reason for miss in report.misses if miss.rule == each.name), "it was declined")
            raise ExportError(
                f"The function registered for {one.label} does not fit {wanted - done} of its nodes: {why}."
            )
    _drop_imports(made, {one.domain for one, _ in rules})
    return made, left


def _drop_imports(model: onnx.ModelProto, domains: set[str]) -> None:
    """Remove the imports of domains without nodes."""
    used = {node.domain for node in nodes_of(model)}
    for item in list(model.opset_import):
        if item.domain in domains - used:
            model.opset_import.remove(item)


def _rule(one: Placeholder, function: Symbolic, plan: ExportState) -> Rule:
    """A rule that replaces the nodes of the placeholder by those that the function builds."""

    def placeholders_of(index: Index, scope: Scope) -> Iterator[Found]:
        """Nodes of the placeholder."""
        for node in list(scope.by_op.get(qualified_name(one.domain, one.op), ())):
            written = plan.calls_by_output.get(_first(node.outputs))
            if node.alive and written is not None and written.placeholder is one:
                outputs = tuple(name for name in node.outputs if name)
                yield Found((node,), outputs, _bindings(node, written.schema))

    @rule(search=Search(placeholders_of, f"no node of {one.name}"), target="any", name=f"torch {one.label}")
    def symbolic(g: Any, match: Match) -> Any:
        match.inspected = True  # the result depends on the outputs with consumers
        node = match.nodes[0]
        written = plan.calls_by_output[_first(node.outputs)]
        values = {item.name: match[item.name] for item in written.schema.arguments if item.name in match.bound}
        call = _call(one, function, written.schema, values)
        results = function(g, *call.args, **call.kwargs)
        several = results if isinstance(results, (list, tuple)) else [results]
        if len(several) != written.outputs:
            raise ExportError(
                f"The function registered for {one.label} returns {len(several)} tensors, but the operator returns "
                f"{written.outputs}. Return one for each, in order."
            )
        used = [*node.outputs, *[""] * written.outputs]
        return [value for value, name in zip(several, used, strict=False) if name]

    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None:  # errors in it are reported with its location
        symbolic.where = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    return symbolic


def _call(
    one: Placeholder, function: Symbolic, schema: TorchSchema, values: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The arguments of the symbolic function after the graph.

    Raises ExportError if it does not take an argument that differs from its default here.
    """
    parameters = _after_the_graph(function)
    known = _argument_names(one)
    sources = _sources(parameters, known, [item.name for item in schema.arguments])
    call = inspect.BoundArguments(inspect.Signature(parameters), {})
    for item in parameters:
        if item.name in sources or item.name in known:
            call.arguments[item.name] = values.get(sources.get(item.name, ""))
    rest = {name: value for name, value in values.items() if name not in sources.values()}
    for item in parameters:
        if item.kind is inspect.Parameter.VAR_KEYWORD:
            call.arguments[item.name] = rest
            return call
    for argument in schema.arguments:
        value = rest.get(argument.name)
        if value is None or (argument.has_default and value == argument.default):
            continue
        text = f"the tensor {value.name!r}" if argument.is_tensor and hasattr(value, "name") else repr(value)
        raise ExportError(
            f"The function registered for {one.label} has no parameter {argument.name!r}, which is {text} here. "
            "Add the parameter and use it."
        )
    return call


def _after_the_graph(function: Symbolic) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())[1:]


def _sources(parameters: Sequence[inspect.Parameter], known: Sequence[str], own: Sequence[str]) -> dict[str, str]:
    """The argument of each parameter: the one of its name, or, if no overload has that name, the one at its position.

    known: the arguments of all overloads; own: those of the called one.
    """
    found: dict[str, str] = {}
    for place, item in enumerate(parameters):
        if item.name in known:
            if item.name in own:
                found[item.name] = item.name
        elif item.kind in _POSITIONAL and place < len(own):
            found[item.name] = own[place]
    return found


def _bindings(node: Node, schema: TorchSchema) -> dict[str, Any]:
    """The arguments of a node by name, as a match binds them."""
    inputs = list(node.inputs)
    lists = [item for item in schema.tensors if item.is_list]
    length = len(inputs) - (len(schema.tensors) - len(lists))
    found: dict[str, Any] = {}
    for item in schema.arguments:
        if item.is_tensor and item.is_list:
            found[item.name] = VariadicBinding(inputs[: max(length, 0)])
            del inputs[: max(length, 0)]
        elif item.is_tensor:
            found[item.name] = (inputs.pop(0) if inputs else "") or None
        elif item.attribute is not None:
            stored = node.attribute(item.name)
            found[item.name] = None if stored is None else (_plain(stored, item.base == "bool"),)
    return found


def _plain(stored: onnx.AttributeProto, is_bool: bool) -> Any:
    value = onnx.helper.get_attribute_value(stored)
    if isinstance(value, bytes):
        return value.decode()
    if stored.type == onnx.AttributeProto.STRINGS:
        return [one.decode() for one in value]
    if stored.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return [bool(one) for one in value] if is_bool else list(value)
    return bool(value) if is_bool else value


def _require_parameters(one: Placeholder, function: Symbolic) -> None:
    """Raise UsageError for an object that is not callable, and for parameters that the operator does not have."""
    if not callable(function):
        raise UsageError(
            f"{function!r} cannot be registered for {one.label}, because it is not callable. Give a function."
        )
    if not inspect.signature(function).parameters:
        raise UsageError(
            f"The function registered for {one.label} has no parameters. The first one is the graph: def f(g, ...)"
        )
    known = _argument_names(one)
    parameters = _after_the_graph(function)
    taken = [_sources(parameters, known, own) for own in _overloads(one)]
    for item in parameters:
        is_own = item.kind is inspect.Parameter.KEYWORD_ONLY and item.default is not inspect.Parameter.empty
        is_none = item.name not in known and not any(item.name in sources for sources in taken)
        if is_none and not is_own and item.kind is not inspect.Parameter.VAR_KEYWORD:
            raise UsageError(
                f"The function registered for {one.label} has a parameter {str(item)!r}, which is not an argument of "
                f"the operator. Its arguments are {', '.join(known)}."
            )
    for sources in taken:
        for source, count in Counter(sources.values()).items():
            if count > 1:
                both = " and ".join(repr(name) for name, other in sources.items() if other == source)
                raise UsageError(
                    f"The function registered for {one.label} takes {source!r} as both {both}. Rename one of them."
                )


def _argument_names(one: Placeholder) -> list[str]:
    """The arguments of all overloads."""
    return list(dict.fromkeys(name for names in _overloads(one) for name in names))


def _overloads(one: Placeholder) -> list[list[str]]:
    """The arguments of each overload, in order."""
    if one.cls is None:
        return [[item.name for item in schema_of(op).arguments] for op in one.ops]
    return [list(call_signature(one.cls).parameters)]


def _first(outputs: Sequence[str]) -> str:
    return next((name for name in outputs if name), "")


def _key(one: Placeholder) -> Any:
    return one.cls if one.cls is not None else one.ops[0]


def _key_of(entry: Registration) -> Any:
    return _key(entry.placeholder)
