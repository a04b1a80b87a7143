"""Local functions as users write them: called in replacements, kept in the model or expanded, and recognised.

    @surgeon.function("custom.aten::custom_aten_add")
    def aten_add(g: Graph, x: Tensor, y: Tensor, *, alpha: float = 1.0) -> Tensor:
        return g.add(x, g.mul(y, alpha))

    @rule(patterns=[...])
    def add(g: Graph, x: Tensor, y: Tensor, alpha: float) -> Tensor:
        return aten_add(g, x, y, alpha=alpha)  # one call, and the model has the function

Tensors are the function's inputs, parameters after the `*` its attributes.  In the body an attribute is the value in a
call: `g.constant(value_float=alpha)` refers to it, and so does `g.mul(y, alpha)`.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, helper

from surgeon.errors import OpsetError, RuleError, SurgeonError, require
from surgeon.ir.function_table import FIRST_IR, FIRST_IR_WITH_DEFAULTS
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.builder.graph import Graph
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traversal import all_nodes, called_function_key
from surgeon.rules.functions.function_body import FunctionContext, build_function, require_valid
from surgeon.rules.functions.function_signature import ATTRIBUTE_CONVERTERS, ATTRIBUTE_TYPES, Signature, signature_of
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import VariadicBinding, plain
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.replacing.replacement import AttributeReference
from surgeon.rules.rule import Rule, rule
from surgeon.rules.tracing.tracer import PatternGraph, TracedTensor
from surgeon.target_registry import ANY_KIND


class LocalFunction(ABC):
    """A local function of a model (FunctionProto), from `surgeon.function`.

    Called with a graph it adds one call: in a replacement the model gets the function too, in a pattern the call is
    matched.  As a pattern itself (`patterns=[aten_add]`) it matches its calls; its `body` matches the inlined nodes.
    As a rule (`surgeon.rewrite(model, aten_add)`) it defines the nodes of its name that have no definition.

    Attributes:
        signature: its domain, name, inputs and attributes.
        where: file:line of its definition.

    Examples:
        >>> import surgeon
        >>> from surgeon import Graph, Tensor
        >>> @surgeon.function("acme::twice")
        ... def twice(g: Graph, x: Tensor) -> Tensor:
        ...     return g.add(x, x)
        >>> twice.op
        'acme::twice'
    """

    def __init__(self, signature: Signature, where: str, doc: str, module: str) -> None:
        self.signature = signature
        self.__name__ = signature.name
        self.__doc__ = doc
        self.__module__ = module
        self.where = where
        parameters = [inspect.Parameter("g", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        for name in signature.inputs:
            parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Tensor"))
        for name, kind in signature.kinds.items():
            label = next(text for text, known in ATTRIBUTE_TYPES.items() if known == kind)
            parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=label))
        self.__signature__ = inspect.Signature(parameters)

    @property
    def op(self) -> str:
        """Its qualified name: "custom.aten::custom_aten_add"."""
        return self.signature.op

    def __call__(self, g: Graph, *tensors: Any, **attributes: Any) -> Any:
        """Add a call; returns its output, or a tuple of several.

        Attributes may follow the tensors by position.  One that is not given, or None, takes the default; the call
        contains all.  Raises RuleError for arguments that do not fit the function.
        """
        inputs, given = self._bound(tensors, attributes)
        values = {name: self._value(name, value) for name, value in given.items()}
        if isinstance(g, PatternGraph):
            values = {name: plain(item) if isinstance(item, AttributeProto) else item for name, item in values.items()}
        else:
            g.called[self.op] = self
        found = g.emit(self.signature.domain, self.signature.name, inputs, values, self.outputs(g))
        return tuple(found) if len(found) > 1 else found[0]

    def inline(self, g: Graph, *tensors: Any, **attributes: Any) -> Any:
        """Add the nodes of the body in place of a call."""
        inputs, given = self._bound(tensors, attributes)
        found = self._write(g, inputs, given)
        results = found if isinstance(found, (list, tuple)) else (found,)
        return tuple(results) if len(results) > 1 else results[0]

    @property
    def body(self) -> Callable[..., Any]:
        """The body as a pattern: its inlined nodes, with the attributes as numbers to match."""

        def is_attribute(item: Any) -> bool:
            return isinstance(item, TracedTensor) and item.name in self.signature.kinds

        def body(g: Graph, *arguments: Any) -> Any:
            return self.inline(g, *[_number_of(g, item) if is_attribute(item) else item for item in arguments])

        body.__name__, body.__signature__ = f"{self.__name__}_body", self.__signature__  # type: ignore[attr-defined]  # functions take any
        body.__module__ = self.__module__ or ""
        return body

    def protos(self, versions: Mapping[str, int], ir_version: int) -> list[FunctionProto]:
        """The function, and those that its body calls, for a model of these opsets.

        Raises ConditionFailed if a model of this IR version cannot have functions, RuleError for an invalid body,
        OpsetError for one that needs a newer opset.
        """
        require(
            ir_version >= FIRST_IR,
            f"local functions need IR version {FIRST_IR}, but the model has {ir_version}; write the nodes instead: "
            f"{self.__name__}.inline(g, ...)",
        )
        return self._protos(FunctionContext(versions, ir_version >= FIRST_IR_WITH_DEFAULTS), ir_version)

    @abstractmethod
    def outputs(self, g: Graph) -> int:
        """The number of outputs."""

    @abstractmethod
    def _protos(self, home: FunctionContext, ir_version: int) -> list[FunctionProto]:
        """As `protos`, if the model can have functions."""

    @abstractmethod
    def _write(self, g: Graph, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Add the nodes of the body; attributes are numbers and lists, or refer to those of the call."""

    def _bound(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments as inputs and attributes, with defaults filled in."""
        signature = self.signature
        names = [*signature.inputs, *signature.kinds]
        given = dict(zip(names, arguments, strict=False))
        if len(arguments) > len(names) or given.keys() & named.keys() or named.keys() - set(names):
            wrong = next(iter((named.keys() - set(names)) or (given.keys() & named.keys())), None)
            excess = f"{len(arguments)} arguments" if wrong is None else f"{wrong!r}, which it lacks or already has"
            raise RuleError(f"Local function {self.op} takes {', '.join(names)}, but a call gives {excess}.")
        given |= named
        inputs = [given.get(name) for name in signature.inputs]
        attributes: dict[str, Any] = {}
        for name in signature.kinds:
            value = given.get(name)
            if value is None and name not in signature.defaults:
                raise RuleError(f"A call of local function {self.op} must give {name!r}, which has no default.")
            attributes[name] = signature.defaults[name] if value is None else value
        return inputs, attributes

    def _value(self, name: str, value: Any) -> Any:
        """A value converted to the type of the attribute."""
        kind = self.signature.kinds[name]
        if isinstance(value, AttributeReference) and value.kind != kind:
            raise RuleError(
                f"Attribute {name!r} of local function {self.op} cannot be {value.name!r}, which has another type."
            )
        if isinstance(value, (TracedTensor, AttributeReference)):
            return value
        try:
            made = ATTRIBUTE_CONVERTERS[kind](value)
            fits = made == value or (isinstance(value, (int, float)) and kind == AttributeProto.FLOAT)
        except (TypeError, ValueError):
            fits = False
        if not fits:
            wanted = AttributeProto.AttributeType.Name(kind)
            raise RuleError(f"Attribute {name!r} of local function {self.op} must have type {wanted}, got {value!r}.")
        return _typed(name, made, kind)

    def as_rule(self) -> Rule:
        """The rule that defines the nodes of this name that have no body, by adding the function."""
        summary = f"Define {self.op} as a local function, for nodes that have no definition."

        def define(g: Graph, match: Match) -> Any:
            node = match.root.proto
            given = match["inputs"]
            require(
                len(given) <= len(self.signature.inputs) and len(node.output) <= self.outputs(g),
                f"the node has {len(given)} inputs and {len(node.output)} outputs, but local function {self.op} has "
                f"{len(self.signature.inputs)} and {self.outputs(g)}",
            )
            unknown = sorted({item.name for item in node.attribute} - set(self.signature.kinds))
            require(
                not unknown, f"the node has an attribute {', '.join(unknown)}, which local function {self.op} lacks"
            )
            values = {
                item.name: AttributeReference(item.ref_attr_name, item.type) if item.ref_attr_name else plain(item)
                for item in node.attribute
            }
            missing = [name for name in self.signature.kinds if name not in {**self.signature.defaults, **values}]
            require(not missing, f"the node lacks the attribute {', '.join(missing)}, which has no default")
            found = self(g, *(item if item._name else None for item in given), **values)
            results = found if isinstance(found, tuple) else (found,)
            return [tensor for tensor, name in zip(results, node.output, strict=False) if name]

        define.__doc__, define.__module__ = f"{summary}\n\nWhat: {self.__doc__ or self.op}", self.__module__
        search = Search(self._placeholders, f"the model has no node {self.op} without a definition")
        made = rule(search=search, target=ANY_KIND, name=self.__name__)(define)
        made.where = self.where
        return made

    def _placeholders(self, index: Index, scope: Scope) -> Iterator[Found]:
        """Nodes of the function's name that have no body in the model."""
        for node in list(scope.by_op.get(self.op, ())):
            key = called_function_key(node.proto)
            is_call = index.local.is_in_source(key) or (not node.original and key in index.local.added)
            if node.alive and not is_call:
                yield _place(node)

    def __repr__(self) -> str:
        return f"<local function {self.op} ({self.where})>"


def _number_of(g: Graph, symbol: TracedTensor) -> TracedTensor:
    """An attribute in a pattern: as an input of a node a constant, perhaps cast to the type of a tensor."""
    like: Any = g.maybe_like(symbol)
    return TracedTensor(symbol.name, symbol.value, like.value)


def _place(node: Node) -> Found:
    return Found((node,), tuple(name for name in node.outputs if name), {"inputs": VariadicBinding(node.inputs)})


def _typed(name: str, value: Any, kind: int) -> AttributeProto:
    return helper.make_attribute(name, value, attr_type=kind)


class _HelperFunction(LocalFunction):
    """A function whose body is written with helpers."""

    def __init__(self, op: str, function: Callable[..., Any]) -> None:
        code = function.__code__
        where = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
        super().__init__(signature_of(op, function, where), where, inspect.getdoc(function) or "", function.__module__)
        self.function = function
        self._known: dict[Any, tuple[FunctionProto, Graph]] = {}

    def outputs(self, g: Graph) -> int:
        """The number of outputs."""
        home = FunctionContext({"": onnx.defs.onnx_opset_version()} if isinstance(g, PatternGraph) else g.versions)
        return len(self._built(home)[0].output)

    def _built(self, home: FunctionContext) -> tuple[FunctionProto, Graph]:
        key = (tuple(sorted(home.versions.items())), home.has_defaults)
        if key not in self._known:
            try:
                self._known[key] = build_function(self.signature, self.function, home)
            except SurgeonError:
                raise
            except Exception as error:
                raise RuleError(
                    f"Local function {self.op} raised an error: {type(error).__name__}: {error} ({self.where})"
                ) from error
        return self._known[key]

    def _protos(self, home: FunctionContext, ir_version: int) -> list[FunctionProto]:
        made, graph = self._built(home)
        inner = [item for one in graph.called.values() for item in one.protos(home.versions, ir_version)]
        return [made, *inner]

    def _write(self, g: Graph, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        return self.function(g, *inputs, **attributes)


class _ProtoFunction(LocalFunction):
    """A function given as a FunctionProto, such as one of ONNX Script."""

    def __init__(self, proto: FunctionProto) -> None:
        self.proto = FunctionProto()
        self.proto.CopyFrom(proto)
        kinds: dict[str, int] = {item.name: item.type for item in proto.attribute_proto}
        for name in proto.attribute:
            kinds[name] = _kind_used(proto, name)
        defaults = {item.name: plain(item) for item in proto.attribute_proto}
        signature = Signature(proto.domain, proto.name, tuple(proto.input), kinds=kinds, defaults=defaults)
        super().__init__(signature, "given as a FunctionProto", proto.doc_string, "")
        require_valid(self.proto)

    def outputs(self, g: Graph) -> int:
        """The number of outputs."""
        return len(self.proto.output)

    def _protos(self, home: FunctionContext, ir_version: int) -> list[FunctionProto]:
        return [_at_opsets(self.proto, home)]

    def _write(self, g: Graph, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        from surgeon.rules.functions.call_expansion import emit_body  # not at the top: with it comes the migration

        values = [self._value(name, value) for name, value in attributes.items()]
        for value in values:
            if not isinstance(value, AttributeProto):
                raise RuleError(
                    f"A pattern cannot capture attributes of {self.op}, because it is defined by a FunctionProto."
                )
        proto = self.proto if isinstance(g, PatternGraph) else _at_opsets(self.proto, FunctionContext(g.versions))
        return emit_body(g, proto, inputs, {item.name: item for item in values})


def _at_opsets(proto: FunctionProto, home: FunctionContext) -> FunctionProto:
    """A function at the opsets of a model.  Raises OpsetError if an op changed its meaning."""
    from surgeon.rules.functions.call_expansion import why_versions_differ

    made = FunctionProto()
    made.CopyFrom(proto)
    found = why_versions_differ(made, home.versions)
    if found:
        raise OpsetError(f"Local function {proto.domain}::{proto.name} does not fit this model: {found.reason}.")
    for item in made.opset_import:
        item.version = home.versions.get(normalize_domain(item.domain), item.version)
    return made


def _kind_used(proto: FunctionProto, name: str) -> int:
    """The type of an attribute without a default: that of the first reference to it in the body."""
    for node in all_nodes(proto.node):
        for item in node.attribute:
            if item.ref_attr_name == name:
                return int(item.type)
    return int(AttributeProto.FLOAT)


def function(made: str | FunctionProto | Any) -> Any:
    """Define a local function: a decorator with its name, or the function of a FunctionProto.

    The decorator takes a function of a graph and tensors that returns a tensor or several; its keyword-only parameters
    (float, int, bool, str, or lists of them) are attributes, with their defaults.

    Args:
        made: "domain::Name", a FunctionProto, or what has `to_function_proto()` as ONNX Script's functions do.

    Returns:
        A decorator for a name, else the local function, which is called with a graph and tensors.

    Raises:
        RuleError: a name without a domain, or a signature that no local function can have.
        OpsetError: the body uses an op which its opset does not have.

    Examples:
        >>> import surgeon
        >>> @surgeon.function("acme::Twice")
        ... def twice(g, x):
        ...     return g.add(x, x)
        >>> g = surgeon.Graph(opset=18)
        >>> _ = twice(g, g.literal([1.0]))
        >>> [node.op for node in g.nodes]
        ['Twice']
    """
    if isinstance(made, str):
        return lambda body: _HelperFunction(made, body)
    proto = made if isinstance(made, FunctionProto) else getattr(made, "to_function_proto", lambda: None)()
    if not isinstance(proto, FunctionProto):
        raise RuleError(f'Expected a name "domain::Name", a FunctionProto or an ONNX Script function; got {made!r}.')
    return _ProtoFunction(proto)
