"""What has been learned of a graph, as terms: steps and words applied to holes and fixed constants."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import onnx

from surgeon.file.model import Model
from surgeon.file.tensors.decoding import Array
from surgeon.ir.index import Index

HoleKind = Literal["Tensor", "Constant", "float", "int", "str", "list[int]", "list[float]"]


@dataclass(eq=False)
class Example:
    """One export to learn from.

    label: what to call it in a sentence, such as "dynamo 18".  inputs: names for the graph's inputs, in order.
    weights: the name of what is stored in an initializer, by the initializer's name.  hyperparameters:
    hyper-parameters.
    """

    model: onnx.ModelProto
    label: str
    inputs: Sequence[str] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
    hyperparameters: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def index(self) -> Index:
        """The index of the model.  Raises GraphError when it breaks ONNX's own rules."""
        found = Index(Model.open(self.model))
        found.check()
        return found

    @property
    def outputs(self) -> list[str]:
        """The tensors that the graph returns."""
        return [value.name for value in self.model.graph.output]

    @cached_property
    def graph_inputs(self) -> list[str]:
        """The tensors that a caller must give: inputs that are no initializers."""
        stored = {tensor.name for tensor in self.model.graph.initializer}
        return [value.name for value in self.model.graph.input if value.name not in stored]


@dataclass(eq=False)
class PatternParameter:
    """What differs between examples: a parameter of the pattern.

    name: may be made unique later.  place: of the graph's input that it stands for, -1 where it stands for none.
    is_named: the name was given, so it comes before one that was made up.
    """

    name: str
    kind: HoleKind
    place: int = -1
    is_named: bool = False


@dataclass(eq=False)
class Fixed:
    """A constant that all examples have."""

    array: Array


@dataclass(eq=False)
class Wildcard:
    """A tensor that only says a size."""


@dataclass(eq=False)
class OpCall:
    """A node.  inputs: None is one left out.  attributes: values, or holes; those at their defaults are left out."""

    domain: str
    op: str
    inputs: "tuple[Term | None, ...]"
    attributes: dict[str, Any]
    outputs: int


@dataclass(eq=False)
class OpOutput:
    """One output of a step."""

    step: OpCall
    position: int


@dataclass(eq=False)
class HelperCall:
    """A word of the vocabulary; arguments are terms, or plain values."""

    name: str
    arguments: tuple[Any, ...]


Term = PatternParameter | Fixed | Wildcard | OpOutput | HelperCall


def children(term: Term) -> list[Term]:
    """The terms one step below, holes of attributes among them."""
    if isinstance(term, OpOutput):
        found = [item for item in term.step.inputs if item is not None]
        return found + [value for value in term.step.attributes.values() if isinstance(value, PatternParameter)]
    return [item for item in term.arguments if isinstance(item, Term)] if isinstance(term, HelperCall) else []


def identity(term: Term) -> int:
    """The same for all outputs of a step."""
    return id(term.step) if isinstance(term, OpOutput) else id(term)


def walk(roots: Sequence[Term]) -> Iterator[Term]:
    """Every term, each once, in the order in which they are written."""
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        term = stack.pop()
        if id(term) not in seen:
            seen.add(id(term))
            yield term
            stack.extend(reversed(children(term)))


def rebuilt(roots: Sequence[Term], change: Callable[[Term, Term], Term]) -> tuple[Term, ...]:
    """The terms changed from the bottom up; what is shared stays shared.

    change: is given a term as it was and with its parts changed already, and says what it becomes.
    """
    made: dict[int, Term] = {}
    steps: dict[int, OpCall] = {}

    def build(term: Term) -> Term:
        if id(term) not in made:
            made[id(term)] = change(term, copied(term))
        return made[id(term)]

    def copied(term: Term) -> Term:
        if isinstance(term, OpOutput):
            old = term.step
            if id(old) not in steps:
                inputs = tuple(None if item is None else build(item) for item in old.inputs)
                attributes = {
                    name: build(value) if isinstance(value, PatternParameter) else value
                    for name, value in old.attributes.items()
                }
                steps[id(old)] = OpCall(old.domain, old.op, inputs, attributes=attributes, outputs=old.outputs)
            return OpOutput(steps[id(old)], term.position)
        if isinstance(term, HelperCall):
            return HelperCall(
                term.name, tuple(build(item) if isinstance(item, Term) else item for item in term.arguments)
            )
        return term

    return tuple(build(root) for root in roots)
