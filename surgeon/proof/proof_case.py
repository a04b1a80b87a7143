"""An experiment: all that running both sides of a region needs, as a plain value that can go to another process.

It knows no index, no cut and no node of the source: mini-models, sizes and numbers alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, TensorShapeProto, numpy_helper

from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.trait_lookup import guess_node_traits, random_among
from surgeon.ops.traversal import all_nodes
from surgeon.proof.node_cost import CostTerm
from surgeon.shapes.algebra.size_expressions import Size, SizeError, symbols
from surgeon.shapes.constraints.size_constraints import SizeConstraint

Shape = tuple[Size, ...]

# What is run, in the words of a sentence.
ORIGINAL, REPLACEMENT = "the original", "the replacement"
REFERENCE = "the original in higher precision"


@dataclass(frozen=True, slots=True)
class ProofOptions:
    """How regions are proved.

    dims: sizes of symbolic dims by name.  custom_ops: libraries that ORT registers, and Python files that implement
    ops; implementations: all that the user's process knows of those, as `implementations.implementation` ships it.
    proof_time: seconds of processor time that one proof may take.  jobs: how many are made at once, 0 for as many as
    there are cores, at most four.
    """

    seed: int = 0
    dims: Mapping[str, int] = field(default_factory=dict)
    custom_ops: Sequence[str | Path] = ()
    implementations: bytes = field(default=b"", repr=False)
    rtol: float | None = None
    atol: float | None = None
    proof_time: float = 10.0
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class RegionModels:
    """Both sides of a region with the same inputs and outputs.

    dims: what each free dimension of the inputs stands for, by its name in the models.
    """

    before: ModelProto
    after: ModelProto
    dims: dict[str, Size]

    def with_sizes(self) -> "RegionModels":
        """The same, which state the sizes of their inputs that are fixed; the same object where these do so already."""
        fixed = {text: size for text, size in self.dims.items() if isinstance(size, int)}
        if not any(dim.dim_param in fixed for dim in _dims(self.before)):
            return self
        return replace(
            self, before=with_fixed_dims(self.before, fixed.get), after=with_fixed_dims(self.after, fixed.get)
        )


def with_fixed_dims(model: ModelProto, size: Callable[[str], int | None]) -> ModelProto:
    """A copy whose inputs state numbers in place of their free dimensions, of which `size` knows some by name."""
    made = ModelProto()
    made.CopyFrom(model)
    for dim in _dims(made):
        number = size(dim.dim_param)
        if number is not None:
            dim.dim_value = number
    return made


def _dims(model: ModelProto) -> Iterator[TensorShapeProto.Dimension]:
    yield from (dim for port in model.graph.input for dim in port.type.tensor_type.shape.dim)


@dataclass(frozen=True, slots=True)
class CaseInput:
    """An input of both mini-models, by its name there.

    value: a small tensor of integers that follows from the sizes of the free dimensions alone.  weight: whether it
    stands for a constant too large to read.
    """

    name: str
    shape: Shape
    value: np.ndarray | None = None
    weight: bool = False


@dataclass(frozen=True, slots=True)
class Reduction:
    """A sum over a tensor: each number made adds up as many of those given as there are of them to one made."""

    given: Shape
    made: Shape = ()

    def terms(self, size: Callable[[Size], int]) -> int:
        """How many numbers it adds up where `size` gives the sizes.  Raises SizeError for one that has no value."""
        return max(1, math.prod(map(size, self.given)) // max(1, math.prod(map(size, self.made))))


@dataclass(frozen=True, slots=True)
class InnerShapesRequest:
    """One run of a whole model on made inputs, for what nothing else tells of some tensors of its main graph.

    model: as ONNX Runtime gets it.  skeleton: the same without large payloads.
    """

    model: Path | ModelProto
    skeleton: ModelProto
    names: Sequence[str]
    options: ProofOptions


@dataclass(frozen=True, slots=True)
class TracedShapes:
    """What one run showed: dtype (of TensorProto) and shape by the tensor's name, and why others are missing."""

    tensors: Mapping[str, tuple[int, tuple[int, ...]]]
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class ProofCase:
    """What a proof of one region runs, and what it judges by.

    bodies_before, bodies_after: the reference patterns of nodes' operations, by what the mini-models call the node.
    outputs: that the region hands on; always_empty: those of them without elements whatever the inputs; stated_shapes:
    the shapes that the source has for them; sign_sensitive: those of whose zeros something reads the sign.
    replacement_only: constants that only the replacement reads, or nodes before the original ones.  literals: numbers
    that constants and attributes speak of; value_literals: those of them that are not but dims of constants;
    position_literals: those of the values that are not but sizes which something is to have, all where that is not
    told.  costs: what the original nodes compute.  size_constraints: what nodes want of sizes.  max_dims: of free dims
    that count what is looked up in a table, its rows.  reductions: of the original nodes.  picks_by_products: whether a
    softmax of products is among those.  weights: the bytes of those that inputs stand for.  allows_empty: free dims are
    tried at 0 too.  is_brief: run on few inputs, for another of the same form is proved in full.  slack,
    intended_differences: as in a Region.
    """

    models: RegionModels
    inputs: tuple[CaseInput, ...]
    outputs: tuple[str, ...]
    options: ProofOptions
    bodies_before: Mapping[str, FunctionProto] = field(default_factory=dict)
    bodies_after: Mapping[str, FunctionProto] = field(default_factory=dict)
    always_empty: frozenset[str] = frozenset()
    sign_sensitive: frozenset[str] = frozenset()
    stated_shapes: Mapping[str, Shape] = field(default_factory=dict)
    replacement_only: frozenset[str] = frozenset()
    literals: frozenset[int] = frozenset()
    value_literals: frozenset[int] = frozenset()
    position_literals: frozenset[int] | None = None
    costs: tuple[CostTerm, ...] = ()
    size_constraints: tuple[SizeConstraint, ...] = ()
    max_dims: Mapping[str, int] = field(default_factory=dict)
    reductions: tuple[Reduction, ...] = ()
    picks_by_products: bool = False
    weights: int = 0
    allows_empty: bool = True
    is_brief: bool = False
    slack: float = 0.0
    intended_differences: frozenset[str] = frozenset()

    @property
    def shape_only_inputs(self) -> set[str]:
        """The inputs of which nothing but the shape matters to either side."""
        nodes = [node for model in (self.models.before, self.models.after) for node in all_nodes(model.graph.node)]
        measured = {node.input[0] for node in nodes if guess_node_traits(node).shape.reads_only_shape and node.input}
        read = {name for node in nodes for name in node.input[guess_node_traits(node).shape.reads_only_shape :]}
        return measured.intersection(item.name for item in self.inputs if item.value is None) - read

    @property
    def ops(self) -> frozenset[str]:
        """The operators of both sides."""
        models = (self.models.before, self.models.after)
        return frozenset(qualified_name(node.domain, node.op_type) for model in models for node in model.graph.node)

    def with_sizes(self) -> "ProofCase":
        """The same with models that state their fixed sizes; the same object where these do so already."""
        minis = self.models.with_sizes()
        return self if minis is self.models else replace(self, models=minis)

    @property
    def squares(self) -> bool:
        """Whether either side multiplies numbers by themselves."""
        models = (self.models.before, self.models.after)
        return any(_squares(node) for model in models for node in model.graph.node)

    @property
    def divides(self) -> bool:
        """Whether either side divides by what may be 0 or -1, or divides what it computed."""
        return any(map(_divides, (self.models.before, self.models.after)))

    @property
    def free(self) -> list[str]:
        """The free dims of the inputs that have names, sorted: a "?" begins those that have none."""
        found = {name for item in self.inputs for size in item.shape for name in symbols(size)}
        return sorted(name for name in found if not name.startswith("?"))

    @property
    def cure(self) -> str:
        """How to let the original nodes run, as a clause: sizes that they take; empty where none is free."""
        dims = " ".join(f"--dim {name}=N" for name in self.free[:3])
        return f"; give sizes that they take ({dims})" if dims else ""

    def is_of_source(self, answers: Mapping[str, np.ndarray], size: Callable[[Size], int]) -> bool:
        """Whether answers have the shapes that the source states, as far as it does, at these sizes.

        Sizes that do not fit one another may run all the same, broadcast to shapes that the source never has.
        """
        try:
            return all(
                answers[name].shape == tuple(map(size, shape)) for name, shape in self.stated_shapes.items() if shape
            )
        except SizeError:
            return True  # one has no value in this run

    def differs_by_itself(self, name: str) -> str:
        """What is to be said where two runs of the original give other numbers for a tensor."""
        return f"two runs of the original nodes differ in {name!r}{random_among(self.models.before.graph.node)}"

    def longest_sum(self, size: Callable[[Size], int]) -> int:
        """The most numbers that one sum of the original nodes adds up at these sizes; 1 where there is no sum."""
        found = 1
        for item in self.reductions:
            try:
                found = max(found, item.terms(size))
            except SizeError:
                continue  # it hangs on a size that has no value in this run
        return found


def _squares(node: NodeProto) -> bool:
    known = guess_node_traits(node)
    is_product = known.algebra.family == "product" and known.algebra.signs == (1, 1)
    return known.numerics.squares or (is_product and bool(node.input[0] == node.input[1]))


def _divides(model: ModelProto) -> bool:
    """Whether a node divides by what may be 0 or -1, or what was computed: that may have been taken past the limits."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    made = {name for node in model.graph.node if not guess_node_traits(node).dtype.is_cast for name in node.output}
    return any(
        node.input[slot] not in constants
        or np.isin(numpy_helper.to_array(constants[node.input[slot]]), (0, -1)).any()
        or not made.isdisjoint(node.input)
        for node in model.graph.node
        for slot in guess_node_traits(node).algebra.divisors
    )
