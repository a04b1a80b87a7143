"""A proof case: everything needed to run both sides of a region, as a plain value that can go to another process.

It holds models, sizes and numbers, but no index, slice or node of the source.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, TensorShapeProto, numpy_helper

from surgeon.analysis.assumptions.assumption import Assumption
from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.trait_lookup import node_traits, op_of, random_among, shape_only_inputs
from surgeon.proof.cases.cache_limit import CacheLimit
from surgeon.proof.node_cost import CostTerm
from surgeon.shapes.algebra.size_expressions import Size, SizeError, symbols
from surgeon.shapes.op_rules.size_constraints import SizeConstraint
from surgeon.target_registry import TargetRuntime

Shape = tuple[Size, ...]

# Names of the models that run, as messages give them.
ORIGINAL, REPLACEMENT = "the original", "the replacement"
REFERENCE = "the original in higher precision"


@dataclass(frozen=True, slots=True)
class ProofOptions:
    """How regions are proved."""

    seed: int = 0
    """Seed of the generated inputs."""
    dims: Mapping[str, int] = field(default_factory=dict)
    """Sizes of symbolic dims by name."""
    custom_ops: Sequence[str | Path] = ()
    """Libraries that ONNX Runtime registers, and Python files that implement ops."""
    implementations: bytes = field(default=b"", repr=False)
    """All implementations that the user's process has, as `implementations.implementation` ships them."""
    rtol: float | None = None
    """Relative tolerance in place of the default of each dtype."""
    atol: float | None = None
    """Absolute tolerance in place of the default of each dtype."""
    proof_time: float = 10.0
    """Seconds of processor time that one proof may take."""
    jobs: int = 0
    """Proofs that run at once; 0 for one per core, at most four."""
    cache: bool = True
    """Whether proofs of earlier runs count, and new ones are stored."""
    coverage: bool = False
    """Whether to report the sides of the original's decisions that no case reaches."""
    runtime: TargetRuntime | None = None
    """The runtime of replacements for the target; None for ONNX Runtime on the CPU, as for the original nodes."""


@dataclass(frozen=True, slots=True)
class RegionModels:
    """Both sides of a region as models with the same inputs and outputs."""

    before: ModelProto
    """The original nodes."""
    after: ModelProto
    """The replacement."""
    dims: dict[str, Size]
    """The size of each dynamic dim of the inputs, by its name in the models."""

    @property
    def states_sizes(self) -> bool:
        """Whether the models state their fixed input sizes, apart from those with a dynamic dim."""
        return not any(isinstance(self.dims.get(dim.dim_param), int) for dim in _dims(self.before))

    def with_sizes(self, reduced: Mapping[int, int]) -> "RegionModels":
        """The same models with their fixed input sizes stated; `reduced` has smaller numbers for some of them."""
        fixed = {text: reduced.get(size, size) for text, size in self.dims.items() if isinstance(size, int)}
        return replace(
            self, before=with_fixed_dims(self.before, fixed.get), after=with_fixed_dims(self.after, fixed.get)
        )


def with_fixed_dims(model: ModelProto, size: Callable[[str], int | None]) -> ModelProto:
    """A copy whose inputs state numbers in place of dynamic dims, where `size` gives a number for the name."""
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
    """An input of both models of a region."""

    name: str
    """Its name in the models."""
    shape: Shape
    """Its shape in sizes of the source."""
    value: np.ndarray | None = None
    """A small tensor of integers that depends only on the sizes of the dynamic dims; None for other inputs."""
    weight: bool = False
    """Whether it represents a constant that is too large to read."""
    assumption: Assumption | None = None
    """The proof's assumption on its values."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A sum over a tensor: the number of terms of one result is elements of `given` per element of `made`."""

    given: Shape
    """Shape of the input."""
    made: Shape = ()
    """Shape of the output; () for a full sum over `given`."""

    def terms(self, size: Callable[[Size], int]) -> int:
        """The number of terms of one result at these sizes.  Raises SizeError for a size without a value."""
        return max(1, math.prod(map(size, self.given)) // max(1, math.prod(map(size, self.made))))


@dataclass(frozen=True, slots=True)
class InnerShapesRequest:
    """A request to run a whole model once, for dtypes and shapes of tensors that inference does not know."""

    model: Path | ModelProto
    """As ONNX Runtime gets it."""
    skeleton: ModelProto
    """The same without large payloads."""
    names: Sequence[str]
    """Tensors of the main graph."""
    options: ProofOptions
    """Options of the inputs and the run."""


@dataclass(frozen=True, slots=True)
class TracedShapes:
    """The dtypes and shapes that one run of a model showed."""

    tensors: Mapping[str, tuple[int, tuple[int, ...]]]
    """Dtype (as `TensorProto.DataType`) and shape by tensor name."""
    refusal: str = ""
    """Why other tensors are missing; "" if none is."""


@dataclass(frozen=True, slots=True)
class ProofCase:
    """Everything that a proof of one region needs.

    It crosses process boundaries as one value, so it has many fields.
    """

    models: RegionModels
    """Both sides."""
    inputs: tuple[CaseInput, ...]
    """The inputs of both sides, in order."""
    outputs: tuple[str, ...]
    """Names of the output tensors of the region."""
    options: ProofOptions
    """How to prove it."""
    bodies_before: Mapping[str, FunctionProto] = field(default_factory=dict)
    """Reference patterns of original nodes, by the node's name in the model."""
    bodies_after: Mapping[str, FunctionProto] = field(default_factory=dict)
    """Reference patterns of nodes of the replacement, by the node's name in the model."""
    always_empty: frozenset[str] = frozenset()
    """Outputs that have no elements for any inputs."""
    sign_sensitive: frozenset[str] = frozenset()
    """Outputs of whose zeros a consumer reads the sign."""
    stated_shapes: Mapping[str, Shape] = field(default_factory=dict)
    """The shapes that the source has for the outputs, by name."""
    output_dtypes: Mapping[str, int] = field(default_factory=dict)
    """The known dtypes of the outputs (as `TensorProto.DataType`), by name."""
    replacement_only: frozenset[str] = frozenset()
    """Constants that the original nodes do not read themselves."""
    literals: frozenset[int] = frozenset()
    """Integers in constants and attributes, as dims or as values."""
    value_literals: frozenset[int] = frozenset()
    """Literals that are values, not only dims of constants."""
    position_literals: frozenset[int] | None = None
    """Value literals that are not only target sizes (as of a Reshape); None if this is unknown."""
    costs: tuple[CostTerm, ...] = ()
    """The work of the original nodes."""
    size_constraints: tuple[SizeConstraint, ...] = ()
    """Constraints between sizes that the nodes require."""
    cache_limits: tuple[CacheLimit, ...] = ()
    """Sizes that attentions of the replacement refuse."""
    max_dims: Mapping[str, int] = field(default_factory=dict)
    """Upper bounds of dynamic dims that count lookups in a table: its rows."""
    reductions: tuple[Reduction, ...] = ()
    """Sums that the original nodes take."""
    picks_by_products: bool = False
    """Whether the original nodes take a softmax of matrix products."""
    weights: int = 0
    """Bytes of the weights that inputs represent."""
    allows_empty: bool = True
    """Whether dynamic dims are tried at 0 too."""
    is_brief: bool = False
    """Run on few inputs, because an equal region of the same class is proved in full."""
    explains: bool = False
    """Whether a case that fails is reduced to a small one, which the reason states."""
    slack: float = 0.0
    """As `Region.intended_error`."""
    intended_differences: frozenset[str] = frozenset()
    """As in `Region`."""

    @property
    def shape_only_inputs(self) -> set[str]:
        """The inputs of which both sides read only the shape."""
        found = shape_only_inputs(self.models.before, self.models.after)
        return found.intersection(item.name for item in self.inputs if item.value is None)

    @property
    def ops(self) -> frozenset[str]:
        """The operators of both sides, and those inside of the functions that they call."""
        models = (self.models.before, self.models.after)
        functions = [function for model in models for function in model.functions]
        nodes = chain(*(model.graph.node for model in models), *(function.node for function in functions))
        return frozenset(map(op_of, nodes)) - {qualified_name(one.domain, one.name) for one in functions}

    @property
    def squares(self) -> bool:
        """Whether either side multiplies a tensor by itself."""
        models = (self.models.before, self.models.after)
        return any(_squares(node) for model in models for node in model.graph.node)

    @property
    def divides(self) -> bool:
        """Whether either side divides by a tensor that may hold 0 or -1, or divides a computed tensor."""
        return any(map(_divides, (self.models.before, self.models.after)))

    @property
    def free(self) -> list[str]:
        """The named dynamic dims of the inputs, sorted; names that begin with "?" are generated and left out."""
        found = {name for item in self.inputs for size in item.shape for name in symbols(size)}
        return sorted(name for name in found if not name.startswith("?"))

    @property
    def cure(self) -> str:
        """How to let the original nodes run, as a clause; empty if no dim is dynamic."""
        dims = " ".join(f"--dim {name}=N" for name in self.free[:3])
        return f". Give valid sizes: {dims}" if dims else ""

    def is_of_source(self, answers: Mapping[str, np.ndarray], size: Callable[[Size], int]) -> bool:
        """Whether the outputs have the shapes that the source states, if any, at these sizes.

        Inconsistent sizes may run nevertheless, by broadcasting to shapes that the source never has.
        """
        try:
            return all(
                answers[name].shape == tuple(map(size, shape)) for name, shape in self.stated_shapes.items() if shape
            )
        except SizeError:
            return True  # a size has no value in this run

    def differs_by_itself(self, name: str) -> str:
        """The message for a tensor in which two runs of the original differ."""
        why = f"{name!r} differs between two runs{random_among(self.models.before.graph.node)}"
        return f"the original nodes are not deterministic: {why}"

    def longest_sum(self, size: Callable[[Size], int]) -> int:
        """The largest number of terms in a sum of the original nodes at these sizes, at least 1."""
        found = 1
        for item in self.reductions:
            try:
                found = max(found, item.terms(size))
            except SizeError:
                continue  # it depends on a size without a value in this run
        return found


def _squares(node: NodeProto) -> bool:
    known = node_traits(node)
    is_product = known.algebra.family == "product" and known.algebra.signs == (1, 1)
    return known.numerics.squares or (is_product and bool(node.input[0] == node.input[1]))


def _divides(model: ModelProto) -> bool:
    """Whether a node divides by a tensor that may hold 0 or -1, or a computed tensor, which may have overflowed."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    made = {name for node in model.graph.node if not node_traits(node).dtype.is_cast for name in node.output}
    return any(
        node.input[slot] not in constants
        or np.isin(numpy_helper.to_array(constants[node.input[slot]]), (0, -1)).any()
        or not made.isdisjoint(node.input)
        for node in model.graph.node
        for slot in node_traits(node).algebra.divisors
    )
