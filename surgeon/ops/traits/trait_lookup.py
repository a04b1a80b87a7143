"""Look up the traits of an operator by name, or the names of all operators with a trait.

Names are those of `Node.op`: with the domain, but for ONNX's own.  An operator without a record has `NO_TRAITS`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType

from onnx import ModelProto, NodeProto

from surgeon.ops.traits.op_traits import NO_TRAITS, OpTraits
from surgeon.ops.traits.trait_table import OTHERS, STANDARD
from surgeon.ops.traversal import all_nodes, node_label

OP_TRAITS: Mapping[str, OpTraits] = MappingProxyType({record.name: record for record in (*STANDARD, *OTHERS)})


def ops_with(condition: Callable[[OpTraits], object]) -> frozenset[str]:
    """The names of the operators whose traits fulfil a condition."""
    return frozenset(traits.name for traits in OP_TRAITS.values() if condition(traits))


BROADCASTING = ops_with(lambda op: op.shape.broadcasts)
COMMUTATIVE = ops_with(lambda op: op.algebra.commutes)
IDENTITY_OPS = ops_with(lambda op: op.data.identity_when == "always")
DATA_MOVEMENT = ops_with(lambda op: op.data.copies_elements == (0,) and not op.numerics.reduces)
"""Those that move, repeat or drop elements of the first input, and do not choose them by value."""
FOLDABLE = ops_with(lambda op: op.data.foldable)
GATHER_LIKE = ops_with(lambda op: op.data.copies_elements and op.indexing.lookups)
"""Those that copy elements of a table by index."""
GATHERS = ops_with(
    lambda op: op.data.copies_elements and any(not (at.by_tuples or at.by_element) for at in op.indexing.lookups)
)
"""Those that copy slices of a table along one axis."""
TUPLE_GATHERS = ops_with(lambda op: op.data.copies_elements and any(at.by_tuples for at in op.indexing.lookups))
"""Those that copy elements or slices of a table at tuples of indices."""
ELEMENT_LOOKUPS = ops_with(lambda op: any(at.by_element for at in op.indexing.lookups))
"""Those that read or write a table at an index for each element; table and indices have the same axes."""
TUPLE_LOOKUPS = ops_with(lambda op: any(at.by_tuples for at in op.indexing.lookups))
"""Those that read or write a table at tuples of indices."""
LOSSES = ops_with(lambda op: any(at.default_axis == 1 for at in op.indexing.lookups))
"""Those that pick scores [N, C, ...] by labels [N, ...]."""
ONE_TYPE = ops_with(lambda op: op.dtype.one_type)
RESHAPE_OPS = ops_with(lambda op: op.shape.is_reshape)
SIZE_OPS = ops_with(lambda op: op.shape.returns_sizes)
CAST_OPS = ops_with(lambda op: op.dtype.is_cast)
EXPANDING = ops_with(lambda op: op.shape.expands)
TRANSPARENT = ops_with(lambda op: op.data.identity_when)
WITH_BODIES = ops_with(lambda op: op.control.has_bodies)
LOOPS = ops_with(lambda op: op.control.trip_counts)
"""Those with a trip count and a condition; their bodies read and return both before what they carry."""
BRANCHES = ops_with(lambda op: op.control.has_bodies and op.control.selectors)
"""Those that run one of their bodies."""
SCANS = ops_with(lambda op: op.control.scans)
"""Those that run their body for each slice of some inputs."""
ADDITIONS = ops_with(lambda op: op.algebra.family == "sum" and op.algebra.signs == (1, 1))
SUBTRACTIONS = ops_with(lambda op: op.algebra.family == "sum" and op.algebra.signs == (1, -1))
MULTIPLICATIONS = ops_with(lambda op: op.algebra.family == "product" and op.algebra.signs == (1, 1))

ALWAYS_RANDOM = frozenset(name.rpartition("::")[2] for name in ops_with(lambda op: op.control.random == "always"))
"""The operators that draw random numbers in every run, without their domains."""
RANDOM = frozenset(name.rpartition("::")[2] for name in ops_with(lambda op: op.control.random))
"""Those, and the operators that draw in training mode."""

TRAINING_HELP = "export the model after model.eval()"
"""The advice for a model in training mode."""


def is_random(node: NodeProto) -> bool:
    """Whether a node may draw random numbers; Dropout does only with an input for training mode."""
    slot = guess_node_traits(node).control.training_slot
    return node.op_type in ALWAYS_RANDOM or (slot is not None and any(node.input[slot : slot + 1]))


def random_among(nodes: Iterable[NodeProto]) -> str:
    """Name the first random node among these in parentheses, as the likely cause of results that differ."""
    for node in nodes:
        if is_random(node):
            of_training = f" in training: {TRAINING_HELP}" if node.op_type not in ALWAYS_RANDOM else ""
            return f" ({node.op_type} {node_label(node)!r} is random{of_training})"
    return ""


def shape_only_inputs(*models: ModelProto) -> set[str]:
    """The tensors of which the nodes of these models read the shape, and nothing else."""
    nodes = [node for model in models for node in all_nodes(model.graph.node)]
    measured = {node.input[0] for node in nodes if guess_node_traits(node).shape.reads_only_shape and node.input}
    read = {name for node in nodes for name in node.input[guess_node_traits(node).shape.reads_only_shape :]}
    return measured - read


def traits_of(name: str) -> OpTraits:
    """The traits of an operator by its qualified name."""
    return OP_TRAITS.get(name, NO_TRAITS)


@cache
def guess_traits(name: str) -> OpTraits:
    """The likely traits of an operator, for uses where a wrong guess costs little, such as generated inputs.

    An operator without a record gets that of the same name in another domain, or traits by its name: FusedConvRelu
    is taken for a convolution.
    """
    found = OP_TRAITS.get(name)
    bare = name.rpartition("::")[2]
    if found is None:
        found = next((item for item in OP_TRAITS.values() if item.name.rpartition("::")[2] == bare), None)
    return _by_name(name, bare) if found is None else found


def guess_node_traits(node: NodeProto) -> OpTraits:
    """The likely traits of a node's operator."""
    return guess_traits(f"{node.domain}::{node.op_type}" if node.domain else node.op_type)


def _by_name(name: str, bare: str) -> OpTraits:
    found = NO_TRAITS._replace(name=name)
    for regex, fields in _NAME_PATTERNS.items():
        if re.search(regex, bare):
            found = found.having(**fields)
    return found


_NAME_PATTERNS: Mapping[str, Mapping[str, object]] = {
    "MatMul|Gemm": {"kind": "matmul"},
    "Einsum": {"kind": "einsum"},
    "LSTM|GRU|RNN": {"kind": "rnn"},
    "[Cc]onv": {"kind": "conv", "weight_slot": 1, "slides_window": True},
    "ConvTranspose": {"kind": "conv_transpose", "weight_slot": 1, "slides_window": True},
    "Attention": {"kind": "attention"},
    "eform": {"reads_coordinates": True},
    "Norm": {"accumulates": True, "squares": True},
    "Reduce|Softmax|Pool|CumSum": {"accumulates": True},
    "Rotary|ReduceM|MaxPool": {"is_max_like": True},
}
for _fields in _NAME_PATTERNS.values():
    NO_TRAITS.having(**_fields)  # a misspelt field fails at import
