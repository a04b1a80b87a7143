"""A learned graph as terms: ops and helpers applied to parameters and constants."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import onnx

from surgeon.file.model import Model
from surgeon.file.tensors.decoding import Array
from surgeon.ir.index import Index

ParameterKind = Literal["Tensor", "Constant", "float", "int", "str", "list[int]", "list[float]"]


@dataclass(eq=False)
class Example:
    """One export to learn from."""

    model: onnx.ModelProto
    """The exported model."""
    label: str
    """Its name in a sentence, such as "dynamo 18"."""
    inputs: Sequence[str] = ()
    """Names for the graph inputs, in order."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Names of module parameters by the name of their initializer."""
    hyperparameters: Mapping[str, float] = field(default_factory=dict)
    """Values of the hyper-parameters by name."""

    @cached_property
    def index(self) -> Index:
        """The index of the model.  Raises GraphError for an invalid graph."""
        found = Index(Model.open(self.model))
        found.check()
        return found

    @property
    def outputs(self) -> list[str]:
        """Names of the graph outputs."""
        return [value.name for value in self.model.graph.output]

    @cached_property
    def graph_inputs(self) -> list[str]:
        """Names of the graph inputs that are not initializers."""
        stored = {tensor.name for tensor in self.model.graph.initializer}
        return [value.name for value in self.model.graph.input if value.name not in stored]


@dataclass(eq=False)
class PatternParameter:
    """A parameter of the pattern: a value that differs between examples."""

    name: str
    """The name, before it is made unique."""
    kind: ParameterKind
    """The annotation."""
    place: int = -1
    """The position of its graph input, or -1."""
    is_named: bool = False
    """Whether the example gives the name; such names take precedence over generated ones."""


@dataclass(eq=False)
class Fixed:
    """A constant that all examples have."""

    array: Array
    """The value."""


@dataclass(eq=False)
class Wildcard:
    """A tensor that only determines a size."""


@dataclass(eq=False)
class OpCall:
    """A node."""

    domain: str
    """The domain, empty for ai.onnx."""
    op: str
    """The op type."""
    inputs: "tuple[Term | None, ...]"
    """The inputs; None for an omitted one."""
    attributes: dict[str, Any]
    """Values or parameters by name, without those at their defaults."""
    outputs: int
    """The number of outputs."""


@dataclass(eq=False)
class OpOutput:
    """One output of a node."""

    call: OpCall
    """The node."""
    position: int
    """The index of the output."""


@dataclass(eq=False)
class HelperCall:
    """A call of a composite helper."""

    name: str
    """The name of the helper."""
    arguments: tuple[Any, ...]
    """Terms or plain values."""


Term = PatternParameter | Fixed | Wildcard | OpOutput | HelperCall


def children(term: Term) -> list[Term]:
    """The direct operands of a term, including parameters in attributes."""
    if isinstance(term, OpOutput):
        found = [item for item in term.call.inputs if item is not None]
        return found + [value for value in term.call.attributes.values() if isinstance(value, PatternParameter)]
    return [item for item in term.arguments if isinstance(item, Term)] if isinstance(term, HelperCall) else []


def identity(term: Term) -> int:
    """A key of a term that is equal for all outputs of one node."""
    return id(term.call) if isinstance(term, OpOutput) else id(term)


def walk(roots: Sequence[Term]) -> Iterator[Term]:
    """Every term once, in the order in which they are written."""
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        term = stack.pop()
        if id(term) not in seen:
            seen.add(id(term))
            yield term
            stack.extend(reversed(children(term)))


def rebuilt(roots: Sequence[Term], change: Callable[[Term, Term], Term]) -> tuple[Term, ...]:
    """The terms changed from the bottom up; shared terms stay shared.

    change: takes a term and its copy with changed children, and returns the new term.
    """
    made: dict[int, Term] = {}
    calls: dict[int, OpCall] = {}

    def build(term: Term) -> Term:
        if id(term) not in made:
            made[id(term)] = change(term, copied(term))
        return made[id(term)]

    def copied(term: Term) -> Term:
        if isinstance(term, OpOutput):
            old = term.call
            if id(old) not in calls:
                inputs = tuple(None if item is None else build(item) for item in old.inputs)
                attributes = {
                    name: build(value) if isinstance(value, PatternParameter) else value
                    for name, value in old.attributes.items()
                }
                calls[id(old)] = OpCall(old.domain, old.op, inputs, attributes=attributes, outputs=old.outputs)
            return OpOutput(calls[id(old)], term.position)
        if isinstance(term, HelperCall):
            return HelperCall(
                term.name, tuple(build(item) if isinstance(item, Term) else item for item in term.arguments)
            )
        return term

    return tuple(build(root) for root in roots)
