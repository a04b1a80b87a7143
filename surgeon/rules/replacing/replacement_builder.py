"""Builds a replacement on a small `gs.Graph`, with the same helpers as patterns, and converts it to nodes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
from onnx import AttributeProto

from surgeon.errors import ConditionFailed, RuleError, require
from surgeon.ops.builder.graph import AbsentTensor, BuiltTensor, Graph, LiteralConstant, WildcardTensor
from surgeon.ops.builder.tensor_operators import building
from surgeon.ops.schemas import schema
from surgeon.ops.schemas.attribute_values import attribute_proto
from surgeon.ops.traversal import called_function_key, function_key
from surgeon.rules.matching.match import Match
from surgeon.rules.replacing.replacement import (
    OUTER_READS_KEY,
    AttributeReference,
    Replacement,
    ReplacementConstant,
    ReplacementNode,
    TensorRef,
)
from surgeon.rules.replacing.rule_functions import call_arguments
from surgeon.text import format_count

# The annotation of a parameter by type of attribute.
_ANNOTATIONS = {
    AttributeProto.FLOAT: "float",
    AttributeProto.INT: "int",
    AttributeProto.STRING: "str",
    **dict.fromkeys((AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS), "list"),
}


class _Replacement(Graph):
    """The graph of a replacement.  Properties that the graph itself reads, to infer types, do not count as read."""

    def __init__(self, match: Match, home: str) -> None:
        self.matched = match
        self.brought: list[gs.Tensor] = []
        super().__init__(opset=match.scope.opset, versions=match.scope.versions, home=home)

    def exposed(self, tensor: gs.Tensor) -> gs.Tensor:
        """A further output of a recreated pattern, if the match has it as an output."""
        self.brought.append(tensor)
        return tensor

    def emit(self, domain: str, op: str, inputs: Sequence[Any], attributes: dict[str, Any], outputs: int) -> list[Any]:
        """Add one node."""
        if "*" in domain + op or "?" in domain + op:
            raise RuleError(f"'{domain}::{op}' is only for patterns, because it matches many operators. Write one.")
        inspected = self.matched.inspected
        made = super().emit(domain, op, inputs, attributes=attributes, outputs=outputs)
        self.matched.inspected = inspected
        return made


def build_replacement(function: Callable[..., Any], match: Match) -> Replacement:
    """Run a replacement for one match.

    Raises ConditionFailed if `require` fails in it, RuleError if its results do not fit the pattern.
    """
    graph = _Replacement(match, home=(function.__module__ or "").partition(".")[0])
    arguments, keywords = call_arguments(function, match, 1)
    with building(graph):
        returned = function(graph, *arguments, **keywords)
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if returned is None:
        raise RuleError(f"Replacement {function.__name__} returns None. Return the new tensor.")
    if len(results) < len(match.outputs):
        results += graph.brought
    results = _asked_for(results, match)
    results = [graph.constant(value=item) if isinstance(item, np.ndarray) else item for item in results]  # sizes
    for item in results:
        if not isinstance(item, gs.Tensor):
            message = f"Replacement {function.__name__} returns {item!r}, which is not a tensor"
            raise RuleError(f"{message}. Return the result of a helper, such as g.identity(x).")
    if len(results) != len(match.outputs):
        message = f"Replacement {function.__name__} returns {format_count(len(results), 'tensor')}"
        wanted = format_count(len(match.outputs), "tensor")
        raise RuleError(f"{message}, but pattern {match.pattern.name} has {wanted}. Return one for each.")
    fragment = to_replacement(graph, results)
    _refuse_inner(function, match, fragment)
    if not graph.called:
        return fragment
    match.inspected = True  # whether a call is allowed depends on the matched nodes
    return with_functions(graph, fragment, match)


def _asked_for(results: list[Any], match: Match) -> list[Any]:
    """The results for the outputs of the match, without tensors of g.exposed that have no other readers."""
    pattern = match.pattern
    if len(results) <= len(match.outputs):
        return results
    behind = results[pattern.returned :]
    if len(behind) != pattern.can_expose:
        return results
    return [*results[: pattern.returned], *(behind[place] for place in pattern.exposed)]


def with_functions(graph: Graph, fragment: Replacement, match: Match) -> Replacement:
    """The fragment with the local functions that its nodes call, built for the model.

    Raises ConditionFailed if the model cannot have functions, or if the match is such a call already.
    """
    index = match.index
    called = [graph.called[op] for op in dict.fromkeys(node.qualified for node in fragment.nodes) if op in graph.called]
    functions = {
        function_key(item): item for one in called for item in one.protos(index.main.versions, index.ir_version)
    }
    for node in match.nodes if len(match.nodes) == len(fragment.nodes) == 1 else ():
        key = called_function_key(node.proto)
        is_call = index.local.is_in_source(key) or (not node.original and key in index.local.added)
        require(not (key in functions and is_call), f"{node.op} already calls this function")
    for item in functions.values():
        index.local.require_free(item)
    return replace(fragment, functions=tuple(functions.values()))


def _refuse_inner(function: Callable[..., Any], match: Match, fragment: Replacement) -> None:
    """Raise RuleError if a replacement reads a tensor whose node is removed."""
    made = {name for node in match.nodes for name in node.outputs}
    for key in fragment.captures:
        if match.tensor(key) in made:
            raise RuleError(
                f"Replacement {function.__name__} reads {key[0]!r}, but the rule removes its node (pattern "
                f"{match.pattern.name}). Compute it again from the pattern's inputs, or let the pattern return it."
            )


def to_replacement(graph: Graph, results: Sequence[Any]) -> Replacement:
    """Keep the nodes that the outputs need, and number their tensors."""
    known: dict[int, TensorRef] = {}
    needed = {id(item) for item in results}
    kept: list[Any] = []
    for node in reversed(graph.nodes):
        if any(id(tensor) in needed for tensor in node.outputs):
            kept.append(node)
            needed.update(id(tensor) for tensor in node.inputs)
    kept.reverse()
    numbers = {id(tensor): place for place, tensor in enumerate(out for node in kept for out in node.outputs)}
    constants: list[ReplacementConstant] = []

    def ref(tensor: Any) -> TensorRef:
        if id(tensor) in known:
            return known[id(tensor)]
        if getattr(tensor, "key", None) is not None:  # a captured tensor, or an input of a local function
            return TensorRef("capture", tensor.key)
        if id(tensor) in numbers:
            return TensorRef("inner", numbers[id(tensor)])
        if isinstance(tensor, gs.Constant):
            like = tensor.like if isinstance(tensor, LiteralConstant) else None
            while isinstance(like, BuiltTensor) and like.like is not None:
                like = like.like
            constants.append(ReplacementConstant(np.asarray(tensor.values), None if like is None else ref(like)))
            known[id(tensor)] = TensorRef("constant", len(constants) - 1)
            return known[id(tensor)]
        if tensor.name == "":
            return TensorRef("empty")
        if isinstance(tensor, AbsentTensor):
            raise RuleError(tensor.reason)
        if isinstance(tensor, WildcardTensor):
            raise ConditionFailed(f"g.{tensor.name}() matches any {tensor.what}, so its value is unknown")
        raise RuleError(f"Tensor {tensor.name!r} of a replacement is neither captured nor a result of its graph.")

    nodes = []
    for node in kept:
        refs = tuple(ref(tensor) for tensor in node.inputs)
        names = node.attrs.get(OUTER_READS_KEY, ())
        inputs, held = refs[: len(refs) - len(names)], refs[len(refs) - len(names) :]
        values = {name: value for name, value in node.attrs.items() if name != OUTER_READS_KEY}
        attributes = tuple(_attributes(node.domain or "", node.op, values, graph))
        outputs = tuple(numbers[id(tensor)] for tensor in node.outputs)
        free = tuple(zip(names, held, strict=True))
        nodes.append(
            ReplacementNode(node.domain or "", node.op, inputs, outputs=outputs, attributes=attributes, free=free)
        )
    outputs_ = tuple(ref(tensor) for tensor in results)
    refs = (*(item for node in nodes for item in node.reads), *outputs_)
    captures = dict.fromkeys(item.key for item in refs if item.kind == "capture")
    return Replacement(tuple(nodes), tuple(constants), outputs_, tuple(captures))


def _attributes(domain: str, op: str, values: dict[str, Any], graph: Graph) -> Iterator[AttributeProto]:
    known = schema(domain, op, graph.version(domain))
    for name, value in values.items():
        if isinstance(value, AttributeProto):
            yield value
            continue
        if isinstance(value, AttributeReference):
            yield value.proto(name)
            continue
        spec = known.attributes.get(name) if known is not None else None
        require(value is not None, f"attribute {name} of {op} has no value")
        try:
            made = attribute_proto(name, value, spec.type if spec is not None else None)
        except (TypeError, ValueError) as error:
            if isinstance(value, gs.Tensor):
                raise RuleError(_tensor_as_attribute(name, op, value, spec)) from error
            raise RuleError(
                f"attribute {name} of {op} cannot be {value!r}. Give a number, a string, an array, or a list of "
                "numbers or strings. A dynamic size is not a number."
            ) from error
        yield made


def _tensor_as_attribute(name: str, op: str, value: gs.Tensor, spec: Any) -> str:
    """The message for a tensor given as an attribute: how to capture its number, if it is a constant."""
    message = f"attribute {name} of {op} cannot be a tensor ({value.name!r})"
    parameter, is_fixed = getattr(value, "key", ("",))[0], getattr(value, "is_constant", False)
    if not parameter or not is_fixed:
        return f"{message}. Give the tensor as an input, or compute the number in Python."
    kind = _ANNOTATIONS.get(spec.type) if spec is not None else None
    kind = kind or ("list" if value.shape else "float" if np.dtype(value.dtype).kind == "f" else "int")
    return f"{message}. To capture its value, annotate the parameter in pattern and replacement: {parameter}: {kind}"
