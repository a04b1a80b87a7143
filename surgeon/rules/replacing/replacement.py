"""Builds a replacement on a small `gs.Graph`, with the same helpers as patterns, and converts it to nodes."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import AttributeProto, NodeProto, helper

from surgeon.errors import ConditionFailed, RuleError, require
from surgeon.file.protobuf.node_encoder import kind_record
from surgeon.file.tensors.decoding import encode
from surgeon.ir.scope import qualified_name
from surgeon.ops.builder.graph import AbsentTensor, BuiltTensor, Graph, LiteralConstant, WildcardTensor
from surgeon.ops.builder.tensor_operators import building
from surgeon.ops.schemas import schema
from surgeon.ops.schemas.attribute_values import attribute_proto
from surgeon.ops.traversal import GRAPHS, called_function_key, function_key
from surgeon.rules.matching.matcher import Match
from surgeon.rules.tracing.annotations import parameters_of
from surgeon.rules.tracing.declared_captures import captures_class_of
from surgeon.text import format_count

LARGE = 1024  # bytes
OUTER_READS_KEY = "surgeon.free"  # key of the names that a node's bodies read, whose tensors follow its inputs
# The annotation of a parameter by type of attribute.
_ANNOTATIONS = {
    AttributeProto.FLOAT: "float",
    AttributeProto.INT: "int",
    AttributeProto.STRING: "str",
    **dict.fromkeys((AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS), "list"),
}


class TensorRef(NamedTuple):
    """A tensor of a replacement."""

    kind: str
    """One of "empty", "capture", "inner" and "constant"."""
    key: Any = None
    """Capture (name, index), or the number of an inner tensor or a constant."""

    def __str__(self) -> str:
        """A name for the tensor: a capture by its name in the pattern, with its index for *rest."""
        if self.kind == "capture":
            name, place = self.key
            return f"{name}[{place}]" if place else str(name)
        return "" if self.kind == "empty" else f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class ReplacementNode:
    """A node of a replacement; its tensors are named when it is inserted."""

    domain: str
    """Operator domain."""
    op: str
    """Operator type."""
    inputs: tuple[TensorRef, ...]
    """Its inputs."""
    outputs: tuple[int, ...]
    """Numbers of its outputs, which are inner tensors."""
    attributes: tuple[AttributeProto, ...]
    """Its attributes."""
    free: tuple[tuple[str, TensorRef], ...] = ()
    """Tensors that its bodies read from outside, by their names inside."""
    qualified: str = field(init=False)
    """Op as in `Node.op`."""
    kind: bytes = field(init=False)
    """The part of its serialised record that does not depend on names."""
    holds_graphs: bool = field(init=False)
    """Whether an attribute is a graph."""
    reads: tuple[TensorRef, ...] = field(init=False)
    """`inputs` and `free`."""
    makes: tuple[TensorRef, ...] = field(init=False)
    """`outputs` as references."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "qualified", qualified_name(self.domain, self.op))
        attributes = [item.SerializeToString() for item in self.attributes]
        object.__setattr__(self, "kind", kind_record(self.op, self.domain, attributes))
        object.__setattr__(self, "holds_graphs", any(item.type in GRAPHS for item in self.attributes))
        object.__setattr__(self, "reads", (*self.inputs, *(ref for _, ref in self.free)))
        object.__setattr__(self, "makes", tuple(TensorRef("inner", number) for number in self.outputs))

    def proto(self, name_of: Callable[[TensorRef], str]) -> NodeProto:
        """The node as a message, its tensors named."""
        inputs, outputs = map(name_of, self.inputs), map(name_of, self.makes)
        made = helper.make_node(self.op, list(inputs), list(outputs), domain=self.domain)
        made.attribute.extend(self.attributes)
        return made


@dataclass(frozen=True, slots=True)
class ReplacementConstant:
    """A constant of a replacement."""

    values: np.ndarray[Any, np.dtype[Any]]
    """Its value."""
    like: TensorRef | None
    """Tensor whose dtype it takes at run time; None: its own dtype."""

    @property
    def content(self) -> tuple[str, tuple[int, ...], bytes]:
        """A key of equal constants: dtype, shape and bytes, for a large one (a weight) their digest."""
        values = self.values
        data = values.tobytes()
        if len(data) >= LARGE:
            from hashlib import blake2b  # not at the top: few constants are large

            data = blake2b(data).digest()
        return values.dtype.str + values.dtype.name, values.shape, data

    def proto(self, name: str) -> onnx.TensorProto:
        """The constant as a named TensorProto."""
        return encode(np.ascontiguousarray(self.values).reshape(self.values.shape), name)


@dataclass(frozen=True, slots=True)
class AttributeReference:
    """A reference to an attribute of the enclosing local function: alpha in g.constant(value_float=alpha)."""

    name: str
    """Attribute of the function."""
    kind: int
    """Its AttributeProto.AttributeType."""

    def proto(self, name: str) -> AttributeProto:
        """An attribute that takes its value from the function's."""
        return AttributeProto(name=name, type=cast(AttributeProto.AttributeType, self.kind), ref_attr_name=self.name)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The nodes that replace a match."""

    nodes: tuple[ReplacementNode, ...]
    """In topological order."""
    constants: tuple[ReplacementConstant, ...]
    """Constants that the nodes read."""
    outputs: tuple[TensorRef, ...]
    """A tensor for each output of the match."""
    captures: tuple[tuple[str, int], ...]
    """Keys of the captures that it reads."""
    functions: tuple[onnx.FunctionProto, ...] = ()
    """Local functions that the nodes call."""

    def as_protos(self) -> Iterator[NodeProto]:
        """The nodes with provisional names: those of their references."""
        return (node.proto(str) for node in self.nodes)

    def as_body(self, inputs: Mapping[TensorRef, str]) -> tuple[list[NodeProto], list[str]]:
        """The nodes of a local function with these inputs, in order, and the names of its outputs."""
        names = {**inputs, TensorRef("empty"): ""}
        for item in self.nodes:
            for place, number in enumerate(item.outputs):
                names[TensorRef("inner", number)] = f"{item.op}_{number}" + (f"_{place}" if place else "")
        made: list[NodeProto] = []
        for item in self.nodes:
            made += (node for ref in item.inputs for node in self._constant(ref, names))
            made.append(item.proto(names.__getitem__))
        outputs: list[str] = []
        for ref in self.outputs:
            made += self._constant(ref, names)
            name = names[ref]
            if ref.kind != "inner" or name in outputs:
                name = f"output_{len(outputs)}"
                made.append(helper.make_node("Identity", [names[ref]], [name]))
            outputs.append(name)
        return made, outputs

    def _constant(self, ref: TensorRef, names: dict[TensorRef, str]) -> Iterator[NodeProto]:
        """The Constant nodes of a function, which has no initializers, at their first use."""
        if ref.kind != "constant" or ref in names:
            return
        item = self.constants[ref.key]
        name = names[ref] = f"constant_{ref.key}"
        yield helper.make_node("Constant", [], [name], value=item.proto(""))
        if item.like is not None:
            names[ref] = f"{name}_cast"
            yield helper.make_node("CastLike", [name, names[item.like]], [names[ref]])


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
            raise RuleError(f"'{domain}::{op}' stands for many operators, in patterns alone; name the one to write.")
        inspected = self.matched.inspected
        made = super().emit(domain, op, inputs, attributes=attributes, outputs=outputs)
        self.matched.inspected = inspected
        return made


def build_replacement(function: Callable[..., Any], match: Match) -> Replacement:
    """Run a replacement for one match.

    Raises ConditionFailed if `require` fails in it, RuleError if its results do not fit the pattern.
    """
    graph = _Replacement(match, home=(function.__module__ or "").partition(".")[0])
    arguments, keywords = _arguments(function, match, 1)
    with building(graph):
        returned = function(graph, *arguments, **keywords)
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if returned is None:
        raise RuleError(f"Replacement {function.__name__} returns None; end it with the tensor that it made.")
    if len(results) < len(match.outputs):
        results += graph.brought
    results = _asked_for(results, match)
    results = [graph.constant(value=item) if isinstance(item, np.ndarray) else item for item in results]  # sizes
    for item in results:
        if not isinstance(item, gs.Tensor):
            message = f"Replacement {function.__name__} returns {item!r}, which is no tensor"
            raise RuleError(f"{message}; return what a helper made, such as g.identity(x).")
    if len(results) != len(match.outputs):
        message = f"Replacement {function.__name__} returns {format_count(len(results), 'tensor')}"
        wanted = format_count(len(match.outputs), "tensor")
        raise RuleError(f"{message}, where the pattern {match.pattern.name} has {wanted}; return one for each.")
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
        require(not (key in functions and is_call), f"{node.op} is a call of that function already")
    for item in functions.values():
        index.local.require_free(item)
    return replace(fragment, functions=tuple(functions.values()))


def run_condition(function: Callable[..., Any], match: Match) -> None:
    """Run a condition: a function of the match's captures, by name, or of the whole `match`.

    Raises ConditionFailed if `require` fails in it, RuleError if it returns a value, which would be ignored.
    """
    arguments, keywords = _arguments(function, match, 0)
    returned = function(*arguments, **keywords)
    if returned is not None:
        raise RuleError(
            f"Condition {function.__name__} returns {returned!r}, which says nothing; "
            'call surgeon.require(condition, "why it must hold") in it.'
        )


def _arguments(function: Callable[..., Any], match: Match, first: int) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a function by the names of its parameters: captures, or the whole `match`.

    A capture that the pattern does not bind gets the parameter's default.
    """
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    for parameter in parameters_of(function)[first:]:
        value: Any
        name, kind = parameter.name, parameter.how
        record = captures_class_of(parameter)
        if record is not None:
            own = match.pattern.captures_class
            value = (own if own is not None and issubclass(own, record) else record)(match)
        elif name in match.bound:
            value = match[name]
        elif name == "match":
            match.inspected = True
            value = match
        elif parameter.default is not inspect.Parameter.empty:
            value = parameter.default
        else:
            raise RuleError(
                f"{function.__name__} asks for {name!r}, which pattern {match.pattern.name} does not bind; "
                f"it binds {', '.join(sorted(match.bound)) or 'nothing'}."
            )
        if kind is inspect.Parameter.VAR_KEYWORD:
            keywords.update(value)
        elif kind is inspect.Parameter.KEYWORD_ONLY:
            keywords[name] = value
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            arguments += value
        else:
            arguments.append(value)
    return arguments, keywords


def _refuse_inner(function: Callable[..., Any], match: Match, fragment: Replacement) -> None:
    """Raise RuleError if a replacement reads a tensor whose node is removed."""
    made = {name for node in match.nodes for name in node.outputs}
    for key in fragment.captures:
        if match.tensor(key) in made:
            raise RuleError(
                f"Replacement {function.__name__} reads {key[0]!r}, which the match of {match.pattern.name} takes out; "
                "build it anew from the pattern's inputs, or let the pattern return it."
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
            raise RuleError(tensor.told)
        if isinstance(tensor, WildcardTensor):
            raise ConditionFailed(f"g.{tensor.name}() in it stands for a {tensor.what} that nothing tells")
        raise RuleError(f"Tensor {tensor.name!r} of a replacement is neither captured nor made by its graph.")

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
                f"attribute {name} of {op} would be {value!r}, which no attribute can hold; give a number, a text, an "
                "array, or a list of numbers or of texts (a size that is not fixed is no number)."
            ) from error
        yield made


def _tensor_as_attribute(name: str, op: str, value: gs.Tensor, spec: Any) -> str:
    """The message for a tensor given as an attribute: how to capture its number, if it is a constant."""
    message = f"attribute {name} of {op} would be the tensor {value.name!r}, and an attribute holds numbers or texts"
    parameter, is_fixed = getattr(value, "key", ("",))[0], getattr(value, "is_constant", False)
    if not parameter or not is_fixed:
        return f"{message}; give the tensor as an input, or compute the number in Python."
    kind = _ANNOTATIONS.get(spec.type) if spec is not None else None
    kind = kind or ("list" if value.shape else "float" if np.dtype(value.dtype).kind == "f" else "int")
    return f"{message}. To have its value, annotate it in the pattern and in the replacement: {parameter}: {kind}."
